//! Tells what became of the mutants: a table, JSON, and the survivors in the form in which they can be planted again.

use std::collections::BTreeMap;
use std::fs;

use super::draw::{Draw, Drawn};
use super::mutant::Mutant;
use super::planted::{Planted, PlantedEdit};
use super::runner::{Outcome, Runner};

/// Prints how many mutants each file has.
#[expect(clippy::print_stdout, reason = "a list that was asked for goes to stdout")]
pub(super) fn list(mutants: &[Mutant]) {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for mutant in mutants {
        println!(
            "{}:{}\t{}\t{}\t{}",
            mutant.file,
            mutant.line,
            mutant.what,
            flat(&mutant.original),
            flat(&mutant.mutated())
        );
        *files.entry(&mutant.file).or_default() += 1;
    }
    files.iter().for_each(|(file, count)| println!("{count:6} {file}"));
    println!("{:6} in all", mutants.len());
}

/// Writes `report.md`, `report.json` and `survivors.json` into the run's folder, and prints the first.
///
/// # Errors
/// When they cannot be written, or a mutant survived.
#[expect(clippy::print_stdout, reason = "a report that was asked for goes to stdout")]
pub(super) fn write(draw: &Draw, runner: &Runner<'_>) -> Result<(), String> {
    let outcomes = runner.outcomes();
    let of = |drawn: &Drawn| outcomes.get(&drawn.number);
    let survivors: Vec<&Drawn> =
        draw.mutants.iter().filter(|drawn| of(drawn).is_some_and(|outcome| outcome.caught_by.is_none())).collect();
    let text = table(draw, &outcomes, &survivors, runner);
    let planted: Vec<Planted> = survivors.iter().map(|drawn| again(drawn)).collect();
    let told = |drawn: &Drawn| serde_json::json!({ "mutant": drawn, "outcome": of(drawn) });
    let all: Vec<_> = draw.mutants.iter().map(told).collect();
    let all = serde_json::to_string_pretty(&all).expect("plain data");
    let planted = serde_json::to_string_pretty(&planted).expect("plain data");
    for (name, text) in [("report.md", &text), ("report.json", &all), ("survivors.json", &planted)] {
        let path = draw.folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{text}");
    match survivors.len() {
        0 => Ok(()),
        count => Err(format!("{count} of {} survived: see {}", draw.mutants.len(), draw.folder.display())),
    }
}

/// A survivor as a planted bug.
fn again(drawn: &Drawn) -> Planted {
    let edit = PlantedEdit {
        file: drawn.file.clone(),
        original: drawn.original.clone(),
        mutated: drawn.mutated.clone(),
        function: Some(drawn.function.clone()),
        nth: (!drawn.original.is_empty()).then_some(drawn.nth),
    };
    Planted::one(title(drawn), edit)
}

/// How many were caught by what, the survivors, and all mutants.
fn table(draw: &Draw, outcomes: &BTreeMap<u32, Outcome>, survivors: &[&Drawn], runner: &Runner<'_>) -> String {
    let mut text = String::new();
    let caught = outcomes.len() - survivors.len();
    let mut line = |told: String| {
        text.push_str(&told);
        text.push('\n');
    };
    line(format!(
        "{caught} of {} mutants caught ({} places to draw from, {} drawn that do not compile).\n",
        draw.mutants.len(),
        draw.of,
        draw.refused.len()
    ));
    if let Some((tests, took)) = runner.size() {
        let (processor, wall) = (took.processor.as_secs(), took.wall.as_secs());
        line(format!("{tests} tests, which take {processor} s of processor time and {wall} s by the clock.\n"));
    }
    for broken in runner.broken() {
        line(format!("Fails without a mutant, so it was left out: {broken}"));
    }
    let mut by: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for outcome in outcomes.values() {
        if let Some(step) = &outcome.caught_by {
            let (all, wedged) = by.entry(step).or_default();
            *all += 1;
            *wedged += usize::from(outcome.how.starts_with("wedged"));
        }
    }
    line("| caught first by | mutants | of them by not ending |\n|---|---|---|".to_owned());
    by.iter().for_each(|(step, (all, wedged))| line(format!("| {step} | {all} | {wedged} |")));
    line("\n| survivor | where | original | mutated | tests that reach it |\n|---|---|---|---|---|".to_owned());
    for drawn in survivors {
        let tests = outcomes.get(&drawn.number).map(Outcome::tests).unwrap_or_default();
        let tests = tests.trim_start_matches(", ");
        let (original, mutated) = (code(&drawn.original), code(&drawn.mutated));
        line(format!("| {} | {} | {original} | {mutated} | {tests} |", title(drawn), place(drawn)));
    }
    line("\n| mutant | where | what | caught by | how | s |\n|---|---|---|---|---|---|".to_owned());
    for drawn in &draw.mutants {
        let Some(outcome) = outcomes.get(&drawn.number) else { continue };
        let step = outcome.caught_by.as_deref().unwrap_or("nothing");
        let what = format!("{}: {} → {}", drawn.what, code(&drawn.original), code(&drawn.mutated));
        let how = flat(&outcome.how);
        line(format!("| {} | {} | {what} | {step} | {how} | {:.0} |", title(drawn), place(drawn), outcome.seconds));
    }
    for (drawn, why) in &draw.refused {
        line(format!("\nDoes not compile: {} {}: {}", title(drawn), place(drawn), flat(why)));
    }
    text
}

fn title(drawn: &Drawn) -> String {
    if drawn.name.is_empty() { drawn.number.to_string() } else { drawn.name.clone() }
}

fn place(drawn: &Drawn) -> String {
    let file = drawn.file.strip_prefix("crates/engine/src/").unwrap_or(&drawn.file);
    let file = file.strip_prefix("crates/").unwrap_or(file);
    format!("{file}:{} `{}`", drawn.line, drawn.function)
}

fn code(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { format!("`{}`", flat(text).replace('|', "\\|")) }
}

/// On one line, and not too long for one.
fn flat(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
