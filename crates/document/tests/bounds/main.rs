//! What a client can make long has a bound: the work of each stage, operator, accumulator, condition and update grows
//! with n log n of what it works on, and each ends by its limit of time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lines;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lines::{ACCUMULATORS, CONDITIONS, Line, OPERATORS, Of, RANKS, STAGES, UPDATES, WINDOWS};
use spinney::env::sim::SimEnv;
use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::Service;
use spinney_testkit::cost::thread_time;

/// The size at which costs are measured, and how many times as much is measured beside.
const SIZE: usize = 2000;
const TIMES: usize = 4;

/// Four times as much takes 4 times the time, the logarithm a little more, and the square 16 times. Work below the
/// least time is not told apart from the clock.
const FACTOR_MAX: f64 = 7.5;
const LEAST: Duration = Duration::from_millis(2);

/// The size at which limits of time are tried, the limit, and how much later an end may come on a machine that does
/// much else, by a build that is not optimized.
const LIMIT_SIZE: usize = 60_000;
const LIMIT_MS: i64 = 20;
const OVERRUN_MAX: Duration = Duration::from_secs(2);

/// A database with what lines work on.
struct Prepared {
    service: Service,
    size: usize,
}

impl Prepared {
    fn new(size: usize) -> Self {
        let machine = SimEnv::new(1);
        let options = spinney::Options::default().memory_bytes(64 << 20);
        let engine = spinney::Database::builder("/db").env(machine.env()).options(options).open().unwrap();
        let service = Service::new(Database::with_engine(engine).unwrap());
        let this = Self { service, size };
        let numbers = (0..size).collect::<Vec<_>>();
        for part in numbers.chunks(10_000) {
            let items: Vec<String> = part
                .iter()
                .map(|id| {
                    format!(
                        r#"{{"_id":{id},"a":{id},"b":{},"k":{id},"s":"text {}","d":{{"$date":{{"$numberLong":"{id}"}}}},
                            "t":{{"$timestamp":{{"t":{id},"i":1}}}},"v":[{id},{}],"o":{{"x":{id},"y":{{"z":1}}}}}}"#,
                        id % 10,
                        (id * 7919) % size,
                        id + 1
                    )
                })
                .collect();
            this.ok(&format!(r#"{{"insert":"items","documents":[{}]}}"#, items.join(",")));
        }
        let listed = |text: &dyn Fn(usize) -> String| numbers.iter().map(|at| text(*at)).collect::<Vec<_>>().join(",");
        this.ok(&format!(
            r#"{{"insert":"large","documents":[{{"_id":1,"v":[{}],"w":[{}],"o":{{{}}},"p":[{}],"s":"{}"}}]}}"#,
            listed(&|at| at.to_string()),
            listed(&|at| format!("\"text {}\"", (at * 7919) % size)),
            listed(&|at| format!("\"f{at}\":{at}")),
            listed(&|at| format!("[\"f{at}\",{at}]")),
            "ab ".repeat(size / 3),
        ));
        let indexes = r#"{"createIndexes":"items","indexes":[{"key":{"k":1},"name":"k"},{"key":{"v":1},"name":"v"}]}"#;
        this.ok(indexes);
        this
    }

    fn run(&self, command: &str) -> spinney_document::Result<DocumentBuf> {
        let command = DocumentBuf::from_json(command).unwrap_or_else(|error| panic!("{error}: {command:.300}"));
        self.service.run_command("app", command.view())
    }

    fn ok(&self, command: &str) {
        self.run(command).unwrap_or_else(|error| panic!("{error}: {command:.300}"));
    }

    /// The text of a line for this size.
    fn filled(&self, line: &Line) -> String {
        let numbers = || (0..self.size).map(|at| at * 3);
        let joined = |all: Vec<String>| all.join(",");
        let mut text = line.2.replace("$n", &self.size.to_string());
        if text.contains("$list") {
            text = text.replace("$list", &joined(numbers().map(|at| at.to_string()).collect()));
        }
        if text.contains("$branches") {
            let branches = numbers().map(|at| format!(r#"{{"{}":{at}}}"#, ["_id", "k"][at % 2])).collect();
            text = text.replace("$branches", &joined(branches));
        }
        if text.contains("$fields") {
            text = text.replace("$fields", &joined(numbers().map(|at| format!(r#""new{at}":1"#)).collect()));
        }
        text
    }

    /// The command of a line, which gives one document, whatever it works on.
    fn command(&self, kind: Kind, line: &Line, limit_ms: Option<i64>) -> String {
        let text = self.filled(line);
        let collection = if matches!(line.1, Of::Large) { "large" } else { "items" };
        let limit = limit_ms.map(|limit| format!(r#","maxTimeMS":{limit}"#)).unwrap_or_default();
        let windowed = |function: &str| {
            format!(
                r#"{{"$setWindowFields":{{"sortBy":{{"a":1}},"output":{{"x":{function}}}}}}},{{"$match":{{"x":"none"}}}}"#
            )
        };
        let counted = r#"{"$group":{"_id":null,"n":{"$sum":1}}}"#;
        let stages = match kind {
            Kind::Stage if line.0 == "$out" || line.0 == "$merge" => text,
            Kind::Stage => format!("{text},{counted}"),
            Kind::Operator => {
                format!(r#"{{"$project":{{"_id":0,"x":{text}}}}},{{"$match":{{"x":{{"$in":["none"]}}}}}},{counted}"#)
            }
            Kind::Accumulator => {
                format!(r#"{{"$group":{{"_id":null,"x":{text}}}}},{{"$project":{{"x":{{"$type":"$x"}}}}}}"#)
            }
            Kind::Window => {
                let function = text.strip_suffix('}').unwrap();
                windowed(&format!(r#"{function},"window":{{"documents":[-50,50]}}}}"#))
            }
            Kind::Rank => windowed(&text),
            Kind::Condition => {
                return format!(r#"{{"count":"{collection}","query":{text}{limit}}}"#);
            }
            Kind::Update => {
                let update = format!(r#"{{"q":{{}},"u":{text},"multi":true}}"#);
                return format!(r#"{{"update":"{collection}","updates":[{update}]{limit}}}"#);
            }
        };
        format!(r#"{{"aggregate":"{collection}","pipeline":[{stages}],"cursor":{{}}{limit}}}"#)
    }
}

/// What a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stage,
    Operator,
    Accumulator,
    Window,
    Rank,
    Condition,
    Update,
}

/// The time since 1970.
fn now() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "how long a command took")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// All lines that are run.
fn lines() -> Vec<(Kind, &'static Line)> {
    let windows = ACCUMULATORS.iter().filter(|line| line.0 != "$mergeObjects").chain(WINDOWS);
    let all = [
        (Kind::Stage, STAGES.iter().collect::<Vec<_>>()),
        (Kind::Operator, OPERATORS.iter().collect()),
        (Kind::Accumulator, ACCUMULATORS.iter().collect()),
        (Kind::Window, windows.collect()),
        (Kind::Rank, RANKS.iter().collect()),
        (Kind::Condition, CONDITIONS.iter().collect()),
        (Kind::Update, UPDATES.iter().collect()),
    ];
    let all = all.into_iter().flat_map(|(kind, lines)| lines.into_iter().map(move |line| (kind, line)));
    let runs = |line: &Line| match line.1 {
        Of::Nothing(why) => {
            assert!(!why.is_empty(), "{} has no reason why nothing is run", line.0);
            false
        }
        Of::Items | Of::Large => true,
    };
    all.filter(|(_, line)| runs(line)).collect()
}

/// The least processor time of three runs.
fn cost(prepared: &Prepared, kind: Kind, line: &Line) -> Duration {
    let command = prepared.command(kind, line, None);
    let times = (0..3).map(|_| {
        let began = thread_time();
        prepared.ok(&command);
        thread_time() - began
    });
    times.min().unwrap_or_default()
}

#[test]
fn work_grows_with_n_log_n() {
    let mut slow = Vec::new();
    let lines = lines();
    for (kind, line) in &lines {
        // What a line changes is not there for the next.
        let changes = *kind == Kind::Update || line.0 == "$out" || line.0 == "$merge";
        thread_local! {
            static PREPARED: (Prepared, Prepared) = (Prepared::new(SIZE), Prepared::new(SIZE * TIMES));
        }
        let costs = |(small, large): &(Prepared, Prepared)| (cost(small, *kind, line), cost(large, *kind, line));
        let measured = || {
            if changes { costs(&(Prepared::new(SIZE), Prepared::new(SIZE * TIMES))) } else { PREPARED.with(costs) }
        };
        let grows = |(once, more): (Duration, Duration)| more.as_secs_f64() / once.max(LEAST).as_secs_f64();
        let first = measured();
        if grows(first) > FACTOR_MAX {
            let again = measured();
            if grows(again) > FACTOR_MAX {
                slow.push(format!("{kind:?} {}: {first:?}, again {again:?}", line.0));
            }
        }
    }
    assert!(
        slow.is_empty(),
        "of {} lines these take more than {FACTOR_MAX} times as long:\n{}",
        lines.len(),
        slow.join("\n")
    );
}

#[test]
fn each_ends_by_its_limit_of_time() {
    let prepared = Prepared::new(LIMIT_SIZE);
    let mut late = Vec::new();
    let lines = lines();
    let mut ended = 0;
    for (kind, line) in &lines {
        let command = prepared.command(*kind, line, Some(LIMIT_MS));
        let command = DocumentBuf::from_json(&command).unwrap();
        let began = now();
        let done = prepared.service.run_command("app", command.view());
        let took = now() - began;
        match done {
            Ok(_) => {}
            Err(error) if error.code().number() == 50 => ended += 1,
            // Of what is larger than a limit of another kind.
            Err(error) => assert_ne!(error.code().number(), 1, "{}: {error}", line.0),
        }
        if took > Duration::from_millis(LIMIT_MS.unsigned_abs()) + OVERRUN_MAX {
            late.push(format!("{kind:?} {}: {took:?}", line.0));
        }
    }
    assert!(late.is_empty(), "with a limit of {LIMIT_MS} ms:\n{}", late.join("\n"));
    assert!(ended * 4 > lines.len(), "{ended} of {} lines were ended: the size is too small", lines.len());
}
