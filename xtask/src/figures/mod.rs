//! The figures of the pages, from result files of the lab: tables between markers, and charts.
//!
//! A page takes a table by two lines, `<!-- figures: NAME -->` and `<!-- end of figures -->`. What is between them is
//! written by `cargo xtask figures` from a file of `results/`, and a test compares both. The names `losses` and
//! `summary` are blocks of figures from all tables.

mod chart;
mod compare;
mod experiments;
mod number;
mod paths;
mod result;
mod run;
mod tables;

use std::fs;
use std::path::PathBuf;

use crate::files::{read, write};
use number::shown;
use paths::{result_path, root};
use result::{DISTURBED_RUN, Engine, Outcome, Spread};
use tables::{TABLES, Table};

/// The pages that may have tables, from the root of the repository.
const PAGES: [&str; 7] = [
    "README.md",
    "docs/benchmarks.md",
    "docs/articles/000.md",
    "docs/articles/001.md",
    "docs/articles/002.md",
    "docs/articles/003.md",
    "docs/articles/004.md",
];

const BEGIN: &str = "<!-- figures: ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- end of figures -->";

/// `figures [--check]`, `figures --list [--full]`, or `figures --run [--full] [--binary PATH] [--engines LIST]
/// [EXPERIMENT ..]`.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => rewrite(),
        ["--check"] => check(),
        ["--list"] => run::list(false),
        ["--list", "--full"] => run::list(true),
        ["--run", rest @ ..] => run::measure(rest, rewrite),
        _ => Err("figures takes --check, --list, --run with experiments, or nothing".to_owned()),
    }
}

/// Writes all files that are made of results.
fn rewrite() -> Result<(), String> {
    pages()?.into_iter().try_for_each(|(path, text)| write(&path, text.as_bytes(), 0o644))
}

/// All files that are made of results, with what they should be.
fn pages() -> Result<Vec<(PathBuf, String)>, String> {
    let mut files = Vec::new();
    for page in PAGES {
        let path = root().join(page);
        let text = filled(page, &read(&path)?)?;
        files.push((path, text));
    }
    for table in TABLES {
        let chart = chart::draw(table, &result_of(table)?)?;
        files.push((root().join(chart_path(table)), chart));
    }
    Ok(files)
}

/// Whether the files are what the results say.
fn check() -> Result<(), String> {
    for (path, wanted) in pages()? {
        if fs::read_to_string(&path).ok().as_ref() != Some(&wanted) {
            return Err(format!("{} is not what results/ says: `cargo xtask figures` writes it anew", path.display()));
        }
    }
    Ok(())
}

fn chart_path(table: &Table) -> String {
    format!("docs/figures/{}.svg", table.name)
}

fn result_of(table: &Table) -> Result<Outcome, String> {
    let path = result_path(table.experiment);
    Outcome::parse(&read(&path)?).map_err(|why| format!("{}: {why}", path.display()))
}

/// A page with its tables written anew.
fn filled(page: &str, text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once(BEGIN) {
        let (name, behind) = behind.split_once(BEGIN_END).ok_or(format!("{page}: a marker of figures has no end"))?;
        let (_, behind) = behind.split_once(END).ok_or(format!("{page}: the figures {name} have no end"))?;
        let block = match name {
            "losses" => compare::losses(result_of)?,
            "summary" => compare::summary(result_of)?,
            name => {
                let table = TABLES.iter().find(|table| table.name == name);
                let table = table.ok_or(format!("{page}: there are no figures {name}"))?;
                let up = "../".repeat(page.matches('/').count());
                block(table, &result_of(table)?, &format!("{up}{}", chart_path(table)))?
            }
        };
        out += &format!("{before}{BEGIN}{name}{BEGIN_END}{block}{END}");
        rest = behind;
    }
    Ok(out + rest)
}

/// The table of a page: what was run, the figures, the chart, and what disturbed them.
fn block(table: &Table, outcome: &Outcome, chart: &str) -> Result<String, String> {
    let (date, cpu, commit) = (outcome.date(), &outcome.cpu, &outcome.commit);
    let mut text = format!("\n{}", table.about);
    if table.name == table.experiment {
        text += &format!(" {date}, {cpu}, commit {commit}:\n`{}`", outcome.command);
    }
    text += "\n\n";
    text += &format!("| |{}\n", table.columns.iter().map(|column| format!(" {} |", column.title)).collect::<String>());
    text += &format!("|---|{}\n", "---|".repeat(table.columns.len()));
    for engine in &outcome.engines {
        let cells = table.columns.iter().map(|column| {
            let is_best = compare::best(outcome, column)? == Some(&engine.name);
            Ok(format!(" {} |", engine.value(column)?.map_or("-".to_owned(), |spread| cell(spread, is_best))))
        });
        text += &format!("| {} |{}\n", label(engine), cells.collect::<Result<String, String>>()?);
    }
    text += &format!("\n[Chart: {}]({chart})\n", table.columns[table.chart].title);
    if outcome.is_disturbed {
        text += &format!("\n{DISTURBED_RUN}\n");
    }
    Ok(text + "\n")
}

/// An engine's name, with a star if it is a server.
fn label(engine: &Engine) -> String {
    format!("{}{}", engine.name, if engine.is_server { "*" } else { "" })
}

/// The median, and the range of the repetitions where there are several; the best of a column in bold.
fn cell(spread: Spread, is_best: bool) -> String {
    let Spread { median, least, most } = spread;
    let mark = if is_best { "**" } else { "" };
    let (median, least, most) = (shown(median), shown(least), shown(most));
    if least == most { format!("{mark}{median}{mark}") } else { format!("{mark}{median}{mark} ({least}..{most})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_charts_are_what_the_results_say() {
        check().unwrap();
    }

    #[test]
    fn a_page_with_wrong_markers_is_refused() {
        for (text, why) in [
            ("<!-- figures: none -->\n<!-- end of figures -->", "no figures none"),
            ("<!-- figures: commit -->\n", "have no end"),
            ("<!-- figures: commit", "has no end"),
        ] {
            let refused = filled("page", text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    /// Each table is on the page of benchmarks, which stays short enough to be read.
    #[test]
    fn the_page_has_every_table() {
        let page = read(&root().join(PAGES[1])).unwrap();
        assert!(page.len() <= 30_000, "{} bytes", page.len());
        for name in TABLES.iter().map(|table| table.name).chain(["losses"]) {
            assert!(page.contains(&format!("{BEGIN}{name}{BEGIN_END}")), "{name} is not on the page");
        }
        assert!(read(&root().join(PAGES[0])).unwrap().contains("figures: summary"));
    }
}
