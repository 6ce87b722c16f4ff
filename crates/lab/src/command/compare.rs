//! `bench compare`: results of one experiment side by side, all but the first relative to the first.

use super::args::{CompareArgs, CompareFormat};
use crate::report::{
    COSTS, Column, FORMAT, LATENCIES, Measure, RATIO_FLOOR, Report, Spread, Step, Summary, Wanted, kinds, own_columns,
    own_value, ratio, units,
};
use crate::text::{Table, digits, terminal_width, wrap};
use anyhow::{Context as _, Result, bail, ensure};
use std::io::Write;
use std::path::Path;

/// What a change of one run against one run must be to be called a change.
const NOISE: f64 = 0.05;

/// A compared column.
struct Compared {
    title: String,
    wanted: Wanted,
    /// A ratio to a smaller value says nothing.
    floor: f64,
    of: Value,
}

/// A value of a step, if it has it.
type Value = Box<dyn Fn(&Step) -> Option<f64>>;

/// A result that is compared: its letter, its file, and what is in it.
struct Compare<'r> {
    letter: char,
    path: &'r Path,
    report: &'r Report,
    summary: Summary<'r>,
}

/// Prints all results, and what the others are relative to the first.
pub(super) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<()> {
    let reports: Vec<Report> = args.files.iter().map(|path| read(path)).collect::<Result<_>>()?;
    let results: Vec<Compare<'_>> = ('A'..='Z')
        .zip(args.files.iter().zip(&reports))
        .map(|(letter, (path, report))| Compare { letter, path, report, summary: Summary::new(report) })
        .collect();
    let Some((first, others)) = results.split_first() else { bail!("there is nothing to compare") };
    for other in others {
        ensure!(
            first.report.benchmark == other.report.benchmark,
            "{} is a result of `{}` and {} one of `{}`: compare results of one experiment",
            first.path.display(),
            first.report.benchmark,
            other.path.display(),
            other.report.benchmark
        );
    }
    match args.format {
        CompareFormat::Text => print_text(&results, out)?,
        CompareFormat::Markdown => print_markdown(&results, out)?,
        CompareFormat::Csv => print_csv(&results, out)?,
    }
    Ok(out.flush()?)
}

fn read(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let no_result = || format!("{} is no result of `bench`", path.display());
    let value: serde_json::Value = serde_json::from_str(&text).with_context(no_result)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) if value.get("benchmark").is_some() => {
            bail!("{} has format {format}, and this version reads format {FORMAT}", path.display())
        }
        _ => bail!("{}: it names no format", no_result()),
    }
    serde_json::from_value(value).with_context(no_result)
}

fn print_text(results: &[Compare<'_>], out: &mut dyn Write) -> Result<()> {
    let width = terminal_width();
    let text_width = width.min(100);
    for result in results {
        for (at, fact) in result.facts().iter().enumerate() {
            let head = if at == 0 { result.letter } else { ' ' };
            writeln!(out, "{head}  {}", wrap(fact, text_width - 3, 3))?;
        }
    }
    for line in all_differences(results) {
        writeln!(out, "{}", wrap(&line, text_width, 2))?;
    }
    for (heading, table) in tables(results) {
        writeln!(out)?;
        if !heading.is_empty() {
            writeln!(out, "{}", wrap(&heading, text_width, 4))?;
        }
        write!(out, "{}", table.render_within(width))?;
    }
    Ok(writeln!(out, "\n{}", wrap(&legend(), text_width, 2))?)
}

fn print_markdown(results: &[Compare<'_>], out: &mut dyn Write) -> Result<()> {
    for result in results {
        writeln!(out, "- **{}** {}", result.letter, result.facts().join("; "))?;
    }
    for line in all_differences(results) {
        writeln!(out, "- {line}")?;
    }
    for (heading, table) in tables(results) {
        let heading = heading.trim_start_matches("--- ");
        let heading = if heading.is_empty() { String::new() } else { format!("\n**{heading}**\n") };
        write!(out, "{heading}\n{}", table.markdown())?;
    }
    Ok(writeln!(out, "\n{}", legend())?)
}

fn legend() -> String {
    let noise = NOISE * 100.0;
    format!(
        "+ better, ! worse: the ranges of the repetitions do not meet (with one run of either: more than {noise:.0} %); \
         ~ others used the machine"
    )
}

/// A line for each value of each file.
fn print_csv(results: &[Compare<'_>], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "step,engine,column,file,commit,median,min,max,runs,ratio,change,disturbed")?;
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
    };
    for (_, steps) in groups(results) {
        for (step, columns) in steps {
            for row in rows(results, step) {
                for column in &columns {
                    for (result, place) in results.iter().zip(&row.places) {
                        let Some((step_at, engine)) = *place else { continue };
                        let spread = result.summary.spread(step_at, engine, &column.of);
                        let Some(Spread { median, min, max, count }) = spread else { continue };
                        let first = row.places[0].and_then(|(s, e)| results[0].summary.spread(s, e, &column.of));
                        let (ratio, mark) = change(column, first, spread);
                        let cells = [
                            quoted(&results[0].summary.steps[step].label()),
                            quoted(row.engine),
                            quoted(&column.title),
                            quoted(&result.path.display().to_string()),
                            quoted(&result.report.build.commit),
                            format!("{median},{min},{max},{count}"),
                            ratio.map_or_else(String::new, |ratio| ratio.to_string()),
                            mark.to_string().trim().to_owned(),
                            result.summary.is_disturbed(step_at, engine).to_string(),
                        ];
                        writeln!(out, "{}", cells.join(","))?;
                    }
                }
            }
        }
    }
    Ok(())
}

impl Compare<'_> {
    /// Which file it is, what was measured, and where.
    fn facts(&self) -> Vec<String> {
        let Report { command, partial, build, machine, .. } = self.report;
        let partial = if *partial { "  PARTIAL" } else { "" };
        let file = format!("{}: {command}{partial}", self.path.display());
        [file, build.line(), machine.line(), machine.state()].into_iter().filter(|fact| !fact.is_empty()).collect()
    }
}

/// A line for each thing in which a result differs from the first besides what was measured.
fn all_differences(results: &[Compare<'_>]) -> Vec<String> {
    let Some((first, others)) = results.split_first() else { return Vec::new() };
    others.iter().flat_map(|other| differences(first, other)).collect()
}

fn differences(a: &Compare<'_>, b: &Compare<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let letter = b.letter;
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            lines.push(format!("{letter} differs: {what}: {a} -> {b}"));
        }
    };
    let (m, n) = (&a.report.machine, &b.report.machine);
    differ("commit", &a.report.build.commit, &b.report.build.commit);
    differ("compiler", &a.report.build.rustc, &b.report.build.rustc);
    differ("built for", &a.report.build.cpu, &b.report.build.cpu);
    differ("profile", &a.report.build.profile, &b.report.build.profile);
    differ("processor", &m.cpu, &n.cpu);
    differ("cores", &m.cores.to_string(), &n.cores.to_string());
    differ("memory", &crate::text::bytes(m.memory_bytes), &crate::text::bytes(n.memory_bytes));
    differ("kernel", &m.kernel, &n.kernel);
    differ("storage", &m.storage, &n.storage);
    differ("mount options", &m.mount_options, &n.mount_options);
    pairs("", &a.report.parameters, &b.report.parameters, &mut differ);
    differ("runs", &a.summary.repetitions.to_string(), &b.summary.repetitions.to_string());
    for engine in &a.summary.engines {
        let Some(at) = b.summary.engine(&engine.name) else { continue };
        let other = b.summary.engines[at];
        differ(&format!("version of {}", engine.name), &engine.version, &other.version);
        differ(&format!("durability of {}", engine.name), &engine.durability, &other.durability);
        pairs(&format!("{}: ", engine.name), &engine.settings, &other.settings, &mut differ);
    }
    for (one, other) in [(a, b), (b, a)] {
        let engines = one.summary.engines.iter().filter(|engine| other.summary.engine(&engine.name).is_none());
        let steps = one.summary.steps.iter().filter(|step| other.summary.step_like(step).is_none());
        let engines: Vec<String> = engines.map(|engine| engine.name.clone()).collect();
        let steps: Vec<String> = steps.map(crate::report::StepName::label).collect();
        for (what, names) in [("engines", engines), ("steps", steps)] {
            if !names.is_empty() {
                lines.push(format!("in {} and not in {}: {what} {}", one.letter, other.letter, names.join(", ")));
            }
        }
    }
    lines
}

fn pairs(prefix: &str, a: &[(String, String)], b: &[(String, String)], differ: &mut dyn FnMut(&str, &str, &str)) {
    let value = |list: &[(String, String)], name: &str| {
        list.iter().find(|(other, _)| other == name).map_or("-".to_owned(), |(_, value)| value.clone())
    };
    let only_b = b.iter().filter(|(name, _)| !a.iter().any(|(other, _)| other == name));
    for (name, _) in a.iter().chain(only_b) {
        differ(&format!("{prefix}{name}"), &value(a, name), &value(b, name));
    }
}

/// The steps that a table has, each with its columns.
type Steps = Vec<(usize, Vec<Compared>)>;

/// The tables with their headings: first the common columns of all steps, then those of the experiment's own, a table
/// for each list of them.
fn groups(results: &[Compare<'_>]) -> Vec<(String, Steps)> {
    let Some((first, others)) = results.split_first() else { return Vec::new() };
    let common: Vec<usize> = (0..first.summary.steps.len())
        .filter(|&step| others.iter().any(|other| other.summary.step_like(&first.summary.steps[step]).is_some()))
        .collect();
    let all = |&step: &usize| (step, columns(kinds(&first.summary, step).first().copied()));
    let shown = common.iter().filter(|&&step| first.summary.is_shown(step));
    let mut groups = vec![(String::new(), shown.map(all).collect::<Steps>())];
    let list = |step: usize| {
        let mut list = own_columns(&first.summary, step);
        for other in others {
            let Some(at) = other.summary.step_like(&first.summary.steps[step]) else { continue };
            for column in own_columns(&other.summary, at) {
                if !list.iter().any(|known| known.name == column.name) {
                    list.push(column);
                }
            }
        }
        list
    };
    let lists: Vec<Vec<&Column>> = common.iter().map(|&step| list(step)).collect();
    for (at, list) in lists.iter().enumerate() {
        if list.is_empty() || lists[..at].contains(list) {
            continue;
        }
        let steps = common.iter().zip(&lists).filter(|(_, other)| *other == list);
        let steps = steps.map(|(&step, _)| (step, list.iter().map(|column| own_column(column)).collect()));
        groups.push((format!("--- of this experiment{}", units(list)), steps.collect()));
    }
    groups
}

/// An engine of a step: where each of the results has it.
struct Row<'r> {
    engine: &'r str,
    places: Vec<Option<(usize, usize)>>,
}

/// The engines of a step that the first result and any other have.
fn rows<'r>(results: &'r [Compare<'_>], step: usize) -> Vec<Row<'r>> {
    let first = &results[0].summary;
    let of_engine = |engine: &&'r crate::report::EngineInfo| {
        let place = |result: &Compare<'_>| {
            Some((result.summary.step_like(&first.steps[step])?, result.summary.engine(&engine.name)?))
        };
        Row { engine: &engine.name, places: results.iter().map(place).collect() }
    };
    let rows = first.engines.iter().map(of_engine);
    rows.filter(|row| row.places.iter().filter(|place| place.is_some()).count() > 1).collect()
}

/// The tables: for each engine and step a row for each result, and one for its ratios to the first.
fn tables(results: &[Compare<'_>]) -> Vec<(String, Table)> {
    let mut tables = Vec::new();
    for (heading, steps) in groups(results) {
        let Some((_, columns)) = steps.first() else { continue };
        let titles = columns.iter().map(|column| column.title.as_str());
        let mut table = Table::new(&["engine", ""].into_iter().chain(titles).collect::<Vec<_>>()).left(2);
        for (step, columns) in &steps {
            table.group(&format!("-- {}", results[0].summary.steps[*step].label()));
            for row in rows(results, *step) {
                add_rows(&mut table, results, &row, columns);
            }
        }
        tables.push((heading, table.without_empty_columns().0));
    }
    tables
}

fn add_rows(table: &mut Table, results: &[Compare<'_>], row: &Row<'_>, columns: &[Compared]) {
    let spreads = |result: &Compare<'_>, place: Option<(usize, usize)>| -> Vec<Option<Spread>> {
        let spread =
            |column: &Compared| place.and_then(|(step, engine)| result.summary.spread(step, engine, &column.of));
        columns.iter().map(spread).collect()
    };
    let first = spreads(&results[0], row.places[0]);
    for (at, (result, &place)) in results.iter().zip(&row.places).enumerate() {
        let Some((step, engine)) = place else { continue };
        let values = spreads(result, place);
        let mark = if result.summary.is_disturbed(step, engine) { "~" } else { "" };
        let engine = if at == 0 { row.engine } else { "" };
        let head = [engine.to_owned(), format!("{}{mark}", result.letter)];
        let value = |spread: &Option<Spread>| spread.map_or("-".to_owned(), |spread| digits(spread.median) + " ");
        table.row(head.into_iter().chain(values.iter().map(value)));
        if at > 0 {
            let change = |(column, (a, b)): (&Compared, (&Option<Spread>, &Option<Spread>))| {
                let (ratio, mark) = change(column, *a, *b);
                ratio.map_or_else(|| "- ".to_owned(), |ratio| format!("{}{mark}", digits(ratio)))
            };
            let base = row.places[0].is_some_and(|(step, engine)| results[0].summary.is_disturbed(step, engine));
            let mark = if base { "~" } else { mark };
            let head = [String::new(), format!("{}/A{mark}", result.letter)];
            table.row(head.into_iter().chain(columns.iter().zip(first.iter().zip(&values)).map(change)));
        }
    }
}

fn own_column(column: &Column) -> Compared {
    let name = column.name.clone();
    let of = Box::new(move |step: &Step| own_value(step, &name));
    Compared { title: column.name.clone(), wanted: column.wanted, floor: RATIO_FLOOR, of }
}

/// The compared columns; the latency is of this kind of operation.
fn columns(kind: Option<&str>) -> Vec<Compared> {
    let cost = |at: usize| -> Compared {
        let Measure { title, wanted, floor, of, .. } = COSTS[at];
        Compared { title: title.to_owned(), wanted, floor, of: Box::new(of) }
    };
    let kind = kind.map(str::to_owned);
    let percentile = LATENCIES[2];
    let latency = Compared {
        title: percentile.title.to_owned(),
        wanted: Wanted::Less,
        floor: RATIO_FLOOR,
        of: Box::new(move |step| percentile.of(step, kind.as_deref()?, false)),
    };
    vec![cost(0), latency, cost(6), cost(4), cost(3), cost(1)]
}

/// The ratio, if it says anything, with a mark if it is a change beyond the noise.
fn change(column: &Compared, a: Option<Spread>, b: Option<Spread>) -> (Option<f64>, char) {
    let (Some(a), Some(b)) = (a, b) else { return (None, ' ') };
    let Some(ratio) = ratio(b.median, a.median, column.floor) else { return (None, ' ') };
    let beyond_noise =
        if a.count > 1 && b.count > 1 { a.max < b.min || b.max < a.min } else { (ratio - 1.0).abs() > NOISE };
    let mark = match (column.wanted, ratio > 1.0) {
        _ if !beyond_noise => ' ',
        (Wanted::More, true) | (Wanted::Less, false) => '+',
        (Wanted::More, false) | (Wanted::Less, true) => '!',
        (Wanted::Either, _) => ' ',
    };
    (Some(ratio), mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;
    use crate::report::fixture::{report, run, step};
    use std::path::PathBuf;

    fn compare(a: &str, b: &str) -> Result<String> {
        compare_all(&[a, b], CompareFormat::Text)
    }

    fn compare_all(texts: &[&str], format: CompareFormat) -> Result<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = |(letter, text): (char, &&str)| -> PathBuf {
            let path = dir.path().join(format!("{letter}.json"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = ('a'..='z').zip(texts).map(file).collect();
        let mut out = Vec::new();
        super::run(&CompareArgs { files, format }, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn json(report: &Report) -> String {
        serde_json::to_string(report).unwrap()
    }

    fn repeated(rates: [f64; 3]) -> Report {
        let runs =
            rates.into_iter().zip(0..).map(|(rate, repetition)| run("lsm", repetition, vec![step("load", rate)]));
        report(runs.collect())
    }

    #[test]
    fn a_change_is_marked_where_the_ranges_do_not_meet() {
        let text = compare(&json(&repeated([100.0, 110.0, 120.0])), &json(&repeated([119.0, 140.0, 150.0]))).unwrap();
        assert!(text.lines().any(|line| line.contains("B/A") && line.contains("1.27 ")), "{text}");
        let text = compare(&json(&repeated([100.0, 110.0, 120.0])), &json(&repeated([121.0, 140.0, 150.0]))).unwrap();
        assert!(text.contains("1.27+"), "{text}");
        let text = compare(&json(&repeated([121.0, 140.0, 150.0])), &json(&repeated([100.0, 110.0, 120.0]))).unwrap();
        assert!(text.contains("0.786!"), "{text}");
    }

    #[test]
    fn what_differs_besides_the_figures_is_said() {
        let a = report(vec![run("lsm", 0, vec![step("load", 1.0), step("read", 1.0)])]);
        let mut b = report(vec![run("lsm", 0, vec![step("load", 1.0)]), run("lmdb", 0, vec![])]);
        b.machine.cores = 4;
        b.parameters[0].1 = "5".to_owned();
        b.runs[0].engine.version = "2.0".to_owned();
        b.runs[0].engine.settings[0].1 = "64 MiB".to_owned();
        let text = compare(&json(&a), &json(&b)).unwrap();
        for line in [
            "B differs: cores: 8 -> 4",
            "B differs: rows: 10,000,000 -> 5",
            "B differs: version of lsm: 1.2.3 -> 2.0",
            "B differs: lsm: cache: 1.00 GiB -> 64 MiB",
            "in A and not in B: steps read",
            "in B and not in A: engines lmdb",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_experiments_own_columns_are_compared_in_tables_of_their_own() {
        let with = |name: &str, figures: Vec<Figure>| Step { figures, ..step(name, 10.0) };
        let report = |bytes: f64, rate: f64| {
            let commit = |name| with(name, vec![Figure::less("bpd", "bytes", bytes), Figure::more("irate", "", rate)]);
            let link = with("link", vec![Figure::plain("history", "", Some(7.0)), Figure::less("un", "ms", None)]);
            json(&report(vec![run("lsm", 0, vec![commit("sync"), link, commit("lazy"), step("none", 1.0)])]))
        };
        let text = compare(&report(146.0, 1_000.0), &report(292.0, 2_000.0)).unwrap();
        let own: Vec<&str> = text.split("--- of this experiment").collect();
        assert_eq!(own.len(), 3, "a table for each list of columns: {text}");
        let words: Vec<String> =
            own[1].lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let rows = ["lsm A 146 1,000", "B 292 2,000", "B/A 2.00! 2.00+"];
        let expected = [&["(bpd bytes)", "engine bpd irate", "-- sync"], &rows[..], &["-- lazy"], &rows[..]].concat();
        assert_eq!(words[..expected.len()], expected);
        let rest: Vec<&str> = own[2].split_whitespace().collect();
        assert_eq!(rest[..11].join(" "), "(un ms) engine history -- link lsm A 7.00 B 7.00");
    }

    #[test]
    fn other_files_are_refused_in_a_line() {
        let good = json(&repeated([1.0, 2.0, 3.0]));
        let other = good.replace("\"insert\",\"command", "\"kv\",\"command");
        let newer = good.replace("\"format\":1", "\"format\":9");
        for (text, wanted) in [
            ("hello", "b.json is no result of `bench`"),
            ("{}", "it names no format"),
            ("{\"format\":1}", "b.json is no result of `bench`"),
            (&*newer, "has format 9, and this version reads format 1"),
            (&*other, "compare results of one experiment"),
        ] {
            let error = format!("{:#}", compare(&good, text).unwrap_err());
            assert!(error.contains(wanted) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn all_but_the_first_are_relative_to_the_first_in_every_form() {
        let with = |rate: f64, commit: &str| {
            let mut report = repeated([rate, rate, rate]);
            report.build.commit = commit.to_owned();
            report.machine.load = [0.5, 0.4, 0.3];
            report.machine.available_bytes = 32 << 30;
            json(&report)
        };
        let files = [with(100.0, "aaaa"), with(200.0, "bbbb"), with(50.0, "cccc-dirty")];
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let text = compare_all(&files, CompareFormat::Text).unwrap();
        for part in
            ["(cccc-dirty)", "load 0.50, 0.40, 0.30; 32.0 GiB of memory", "C differs: commit: aaaa -> cccc-dirty"]
        {
            assert!(text.replace("\n   ", " ").contains(part), "{part}\n{text}");
        }
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        for row in [["lsm", "A", "100"], ["B", "200", "40,000"], ["B/A", "2.00+", "0.500+"], ["C/A", "0.500!", "2.00!"]]
        {
            assert!(words.iter().any(|words| words.starts_with(&row)), "{row:?}\n{text}");
        }
        let text = compare_all(&files, CompareFormat::Markdown).unwrap();
        for line in ["| engine |  | ops |", "| **load** |", "|  | B/A | 2.00+ |", "- **C** "] {
            assert!(text.lines().any(|other| other.starts_with(line)), "{line}\n{text}");
        }
        let text = compare_all(&files, CompareFormat::Csv).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.split(',').count() == 12), "{text}");
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("load,lsm,ops,") && line.ends_with(",bbbb,200,200,200,3,2,+,false"))
        );
    }
}
