//! The figures of the pages, from result files of the lab: tables between markers, and charts.
//!
//! A page takes a table by two lines, `<!-- figures: NAME -->` and `<!-- end of figures -->`. What is between them is
//! written by `cargo xtask figures` from `results/NAME.json`, and a test compares both.

mod chart;
mod number;
mod result;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{read, write};
use crate::python::target;
use crate::step::{cargo, print, run};
use number::shown;
use result::Outcome;
use tables::{TABLES, Table};

/// The pages that may have tables, from the root of the repository.
const PAGES: [&str; 3] = ["README.md", "docs/benchmarks.md", "docs/lab/small-runs.md"];

const BEGIN: &str = "<!-- figures: ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- end of figures -->";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// `figures [--check]`, or `figures --run [--full] [--binary PATH] [NAME ..]`.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [] => pages()?.into_iter().try_for_each(|(path, text)| write(&path, text.as_bytes(), 0o644)),
        ["--check"] => check(),
        ["--run", rest @ ..] => {
            measure(rest)?;
            command(&[])
        }
        _ => Err("figures takes --check, --run with tables, or nothing".to_owned()),
    }
}

/// All files that are made of results, with what they should be.
fn pages() -> Result<Vec<(PathBuf, String)>, String> {
    let mut files = Vec::new();
    for page in PAGES {
        let path = root().join(page);
        let text = filled(page, &read(&path)?)?;
        files.push((path, text));
    }
    for table in &TABLES {
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

fn result_path(table: &Table) -> PathBuf {
    root().join("results").join(format!("{}.json", table.name))
}

fn result_of(table: &Table) -> Result<Outcome, String> {
    let path = result_path(table);
    Outcome::parse(&read(&path)?).map_err(|why| format!("{}: {why}", path.display()))
}

/// A page with its tables written anew.
fn filled(page: &str, text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once(BEGIN) {
        let (name, behind) = behind.split_once(BEGIN_END).ok_or(format!("{page}: a marker of figures has no end"))?;
        let (_, behind) = behind.split_once(END).ok_or(format!("{page}: the figures {name} have no end"))?;
        let table = TABLES.iter().find(|table| table.name == name);
        let table = table.ok_or(format!("{page}: there are no figures {name}"))?;
        let up = "../".repeat(page.matches('/').count());
        let block = block(table, &result_of(table)?, &format!("{up}{}", chart_path(table)))?;
        out += &format!("{before}{BEGIN}{name}{BEGIN_END}{block}{END}");
        rest = behind;
    }
    Ok(out + rest)
}

/// The table of a page: what was run, the figures, the chart, and what disturbed them.
fn block(table: &Table, outcome: &Outcome, chart: &str) -> Result<String, String> {
    let mut text = format!("\n{} {}, {}:\n`{}`\n\n", table.about, outcome.date(), outcome.cpu, outcome.command);
    text += &format!("| |{}\n", table.columns.iter().map(|column| format!(" {} |", column.title)).collect::<String>());
    text += &format!("|---|{}\n", "---|".repeat(table.columns.len()));
    for engine in &outcome.engines {
        let cells = table.columns.iter().map(|column| engine.value(column).map(|value| format!(" {} |", shown(value))));
        text += &format!("| {} |{}\n", engine.name, cells.collect::<Result<String, _>>()?);
    }
    text += &format!("\n![{}]({chart})\n", table.columns[table.chart].title);
    if outcome.is_disturbed {
        text += "\nThe machine did other work meanwhile: these figures say little.\n";
    }
    Ok(text + "\n")
}

/// `--run`: measures tables anew, all or those that are named, small or in full.
fn measure(arguments: &[&str]) -> Result<(), String> {
    let (mut full, mut binary, mut names) = (false, None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--full" => full = true,
            "--binary" => binary = Some(PathBuf::from(rest.next().ok_or("--binary needs a path")?)),
            name if TABLES.iter().any(|table| table.name == name) => names.push(name),
            name => return Err(format!("there are no figures {name}")),
        }
    }
    let binary = match binary {
        Some(binary) => binary,
        None => {
            let mut build = cargo("build --release --manifest-path peers/Cargo.toml");
            run("the build of the lab with peers", build.env("RUSTFLAGS", "-C target-cpu=native"))?;
            std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("peers/target"), |_| target()).join("release/peers")
        }
    };
    let wanted = |table: &&Table| names.is_empty() || names.contains(&table.name);
    for table in TABLES.iter().filter(wanted) {
        let made = target().join(format!("figures-{}.json", table.name));
        let mut command = Command::new(&binary);
        command.args(if full { table.full } else { table.small }.split_whitespace()).arg("--json").arg(&made);
        print(&format!("{}\n", table.name));
        run(table.name, &mut command)?;
        let text = result::reduced(&read(&made)?).map_err(|why| format!("{}: {why}", made.display()))?;
        write(&result_path(table), text.as_bytes(), 0o644)?;
    }
    Ok(())
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

    /// The figures of README.md's table are those of the page that it links to.
    #[test]
    fn the_figures_of_the_readme_are_those_of_the_benchmarks() {
        let (readme, benchmarks) = (read(&root().join("README.md")).unwrap(), read(&root().join(PAGES[1])).unwrap());
        let (_, section) = readme.split_once("\n## Figures\n").unwrap();
        let (section, _) = section.split_once("\nThe memtable").unwrap();
        let figures: Vec<&str> = section
            .split(|char: char| !(char.is_ascii_digit() || char == ','))
            .map(|word| word.trim_matches(','))
            .filter(|word| word.len() > 2 && word.contains(','))
            .collect();
        assert!(figures.len() > 15, "{section}");
        for figure in figures {
            assert!(benchmarks.contains(figure), "README.md says {figure}, and docs/benchmarks.md does not");
        }
    }
}
