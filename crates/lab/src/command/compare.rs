//! `bench compare`: two results of one experiment side by side.

use super::args::CompareArgs;
use crate::report::{
    COSTS, Column, FORMAT, LATENCIES, Report, Spread, Step, Summary, Wanted, kinds, own_columns, own_value, ratio,
    units,
};
use crate::text::{Table, digits, wrap};
use anyhow::{Context as _, Result, bail, ensure};
use std::io::Write;
use std::path::Path;

/// What a change of one run against one run must be to be called a change.
const NOISE: f64 = 0.05;

/// A compared column: its title, which values are better, and its value.
type Compared = (String, Wanted, Box<dyn Fn(&Step) -> Option<f64>>);

/// Prints both results and what the second is relative to the first.
pub(super) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<()> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    ensure!(
        a.benchmark == b.benchmark,
        "{} is a result of `{}` and {} one of `{}`: compare two of one experiment",
        args.a.display(),
        a.benchmark,
        args.b.display(),
        b.benchmark
    );
    for (name, path, report) in [("A", &args.a, &a), ("B", &args.b, &b)] {
        let partial = if report.partial { "  PARTIAL" } else { "" };
        let text = format!("{}: {}{partial}", path.display(), report.command);
        writeln!(out, "{name}  {}", wrap(&text, 97, 3))?;
    }
    for line in differences(&a, &b) {
        writeln!(out, "{}", wrap(&line, 100, 2))?;
    }
    let (of_a, of_b) = (Summary::new(&a), Summary::new(&b));
    let titles = titles(&columns(None));
    let all = |step: usize| Some(columns(kinds(&of_a, step).first().copied()));
    write!(out, "\n{}", table((&of_a, &of_b), &titles, &all).render_within(120))?;
    own(&of_a, &of_b, out)?;
    writeln!(
        out,
        "\n+ better, ! worse: the ranges of the repetitions do not meet (with one run of either: more than {:.0} %)",
        NOISE * 100.0
    )?;
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

/// A line for each thing in which the results differ besides what they measured.
fn differences(a: &Report, b: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            lines.push(format!("differs: {what}: {a} -> {b}"));
        }
    };
    let (m, n) = (&a.machine, &b.machine);
    differ("processor", &m.cpu, &n.cpu);
    differ("cores", &m.cores.to_string(), &n.cores.to_string());
    differ("memory", &crate::text::bytes(m.memory_bytes), &crate::text::bytes(n.memory_bytes));
    differ("kernel", &m.kernel, &n.kernel);
    differ("storage", &m.storage, &n.storage);
    pairs("", &a.parameters, &b.parameters, &mut differ);
    let (of_a, of_b) = (Summary::new(a), Summary::new(b));
    differ("runs", &of_a.repetitions.to_string(), &of_b.repetitions.to_string());
    for engine in &of_a.engines {
        let Some(at) = of_b.engine(&engine.name) else { continue };
        let other = of_b.engines[at];
        differ(&format!("version of {}", engine.name), &engine.version, &other.version);
        differ(&format!("durability of {}", engine.name), &engine.durability, &other.durability);
        pairs(&format!("{}: ", engine.name), &engine.settings, &other.settings, &mut differ);
    }
    for (one, other, which) in [(&of_a, &of_b, "A"), (&of_b, &of_a, "B")] {
        let engines = one.engines.iter().filter(|engine| other.engine(&engine.name).is_none());
        let steps = one.steps.iter().filter(|step| other.step_like(step).is_none());
        let engines: Vec<String> = engines.map(|engine| engine.name.clone()).collect();
        let steps: Vec<String> = steps.map(crate::report::StepName::label).collect();
        for (what, names) in [("engines", engines), ("steps", steps)] {
            if !names.is_empty() {
                lines.push(format!("only in {which}: {what} {}", names.join(", ")));
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

/// Prints the columns of the experiment's own, a table for each list of them.
fn own(of_a: &Summary<'_>, of_b: &Summary<'_>, out: &mut dyn Write) -> Result<()> {
    let lists: Vec<Vec<&Column>> = (of_a.steps.iter().enumerate())
        .map(|(step_a, name)| {
            let Some(step_b) = of_b.step_like(name) else { return Vec::new() };
            let mut list = own_columns(of_a, step_a);
            for column in own_columns(of_b, step_b) {
                if !list.iter().any(|other| other.name == column.name) {
                    list.push(column);
                }
            }
            list
        })
        .collect();
    for (at, list) in lists.iter().enumerate() {
        if list.is_empty() || lists[..at].contains(list) {
            continue;
        }
        let here = |step: usize| (lists[step] == *list).then(|| list.iter().map(|column| own_column(column)).collect());
        let titles: Vec<String> = list.iter().map(|column| column.name.clone()).collect();
        let heading = wrap(&format!("--- of this experiment{}", units(list)), 100, 4);
        write!(out, "\n{heading}\n{}", table((of_a, of_b), &titles, &here).render_within(120))?;
    }
    Ok(())
}

fn own_column(column: &Column) -> Compared {
    let name = column.name.clone();
    (column.name.clone(), column.wanted, Box::new(move |step| own_value(step, &name)))
}

fn titles(columns: &[Compared]) -> Vec<String> {
    columns.iter().map(|(title, _, _)| title.clone()).collect()
}

/// Three rows for each engine and step of both, if the step (of A) has `columns`: A, B, and the ratio.
fn table(
    (of_a, of_b): (&Summary<'_>, &Summary<'_>),
    titles: &[String],
    columns: &dyn Fn(usize) -> Option<Vec<Compared>>,
) -> Table {
    let titles: Vec<&str> = ["engine", ""].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let mut table = Table::new(&titles).left(2);
    for (step_a, name) in of_a.steps.iter().enumerate() {
        let Some(step_b) = of_b.step_like(name) else { continue };
        let Some(columns) = columns(step_a) else { continue };
        table.group(&format!("-- {}", name.label()));
        for (engine_a, engine) in of_a.engines.iter().enumerate() {
            let Some(engine_b) = of_b.engine(&engine.name) else { continue };
            let spreads = |summary: &Summary<'_>, step, engine| -> Vec<Option<Spread>> {
                columns.iter().map(|(_, _, of)| summary.spread(step, engine, of)).collect()
            };
            let (first, second) = (spreads(of_a, step_a, engine_a), spreads(of_b, step_b, engine_b));
            let row = |title: &str, which: &str, cells: &mut dyn Iterator<Item = String>| {
                [title.to_owned(), which.to_owned()].into_iter().chain(cells).collect::<Vec<_>>()
            };
            let value = |spread: &Option<Spread>| spread.map_or("-".to_owned(), |spread| digits(spread.median) + " ");
            table.row(row(&engine.name, "A", &mut first.iter().map(value)));
            table.row(row("", "B", &mut second.iter().map(value)));
            let changes =
                columns.iter().zip(first.iter().zip(&second)).map(|((_, wanted, _), (a, b))| change(*wanted, *a, *b));
            table.row(row("", "B/A", &mut changes.into_iter()));
        }
    }
    table
}

/// The compared columns; the latency is of this kind of operation.
fn columns(kind: Option<&str>) -> Vec<Compared> {
    let cost = |at: usize| -> Compared {
        let measure = COSTS[at];
        (measure.title.to_owned(), measure.wanted, Box::new(measure.of))
    };
    let kind = kind.map(str::to_owned);
    let (title, percentile) = LATENCIES[2];
    let of = move |step: &Step| Some(percentile(&step.operation(kind.as_deref()?)?.latency));
    vec![cost(0), (title.to_owned(), Wanted::Less, Box::new(of)), cost(6), cost(4), cost(3), cost(1)]
}

/// The ratio with a mark if it is a change beyond the noise.
fn change(wanted: Wanted, a: Option<Spread>, b: Option<Spread>) -> String {
    let (Some(a), Some(b)) = (a, b) else { return "- ".to_owned() };
    let Some(ratio) = ratio(b.median, a.median) else { return "- ".to_owned() };
    let beyond_noise =
        if a.count > 1 && b.count > 1 { a.max < b.min || b.max < a.min } else { (ratio - 1.0).abs() > NOISE };
    let mark = match (wanted, ratio > 1.0) {
        _ if !beyond_noise => ' ',
        (Wanted::More, true) | (Wanted::Less, false) => '+',
        (Wanted::More, false) | (Wanted::Less, true) => '!',
        (Wanted::Either, _) => ' ',
    };
    format!("{}{mark}", digits(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;
    use crate::report::fixture::{report, run, step};
    use std::path::PathBuf;

    fn compare(a: &str, b: &str) -> Result<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| -> PathBuf {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut out = Vec::new();
        super::run(&CompareArgs { a: file("a.json", a), b: file("b.json", b) }, &mut out)?;
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
            "differs: cores: 8 -> 4",
            "differs: rows: 10,000,000 -> 5",
            "differs: version of lsm: 1.2.3 -> 2.0",
            "differs: lsm: cache: 1.00 GiB -> 64 MiB",
            "only in A: steps read",
            "only in B: engines lmdb",
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
        assert_eq!(rest[..11].join(" "), "(un ms) engine history un -- link lsm A 7.00 -");
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
            (&*other, "compare two of one experiment"),
        ] {
            let error = format!("{:#}", compare(&good, text).unwrap_err());
            assert!(error.contains(wanted) && !error.contains('\n'), "{error}");
        }
    }
}
