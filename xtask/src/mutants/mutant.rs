//! A mutant, and how a file is written that holds many of them, each behind a switch.
//!
//! The switch `mutant(N)` is true in a process whose environment says `SPINNEY_MUTANT=N`. Of mutants whose regions lie
//! within each other the inner one is widened to the outer region, so that one region holds a chain of them:
//! `if mutant(1) {…} else if mutant(2) {…} else {what stands there}`. In a process with `SPINNEY_MUTANTS_REACHED=FILE`
//! no mutant is on, and each switch that is executed appends its number to the file once.

use std::collections::BTreeMap;
use std::ops::Range;

use super::packages;

/// In a planted text this becomes the switch.
pub(super) const PLACEHOLDER: &str = "MUTANT";

/// The switch, put at the end of a file of each mutated crate of the copy.
pub(super) const SWITCH: &str = r#"
/// Whether the mutant with this number is on.
#[doc(hidden)]
pub fn mutant(number: u32) -> bool {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    const UNKNOWN: u32 = u32::MAX;
    const NONE: u32 = u32::MAX - 1;
    const RECORD: u32 = u32::MAX - 2;
    static ON: AtomicU32 = AtomicU32::new(UNKNOWN);
    #[cold]
    fn ask() -> u32 {
        let chosen = std::env::var("SPINNEY_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(NONE);
        let on = if std::env::var_os("SPINNEY_MUTANTS_REACHED").is_some() { RECORD } else { chosen };
        ON.store(on, Ordering::Relaxed);
        on
    }
    #[cold]
    fn record(number: u32) {
        static SEEN: [AtomicBool; 16384] = [const { AtomicBool::new(false) }; 16384];
        let Some(seen) = SEEN.get(number as usize) else { return };
        if seen.load(Ordering::Relaxed) || seen.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(path) = std::env::var_os("SPINNEY_MUTANTS_REACHED") else { return };
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let line = format!("{number}\n");
        if file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes())).is_err() {
            // A test without descriptors: the next execution tries again.
            seen.store(false, Ordering::Relaxed);
        }
    }
    let mut on = ON.load(Ordering::Relaxed);
    if on == UNKNOWN {
        on = ask();
    }
    if on == RECORD {
        record(number);
    }
    number == on
}
"#;

/// What is put where: how the original and the mutated text stand beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An expression that gives a value.
    Expression,
    /// A statement, or several without a binding that is used behind them.
    Statement,
    /// A block with its braces.
    Block,
    /// Nothing stands there: a statement is put in.
    Insert,
    /// The mutated text has the switch in it and takes the place of the original.
    Raw,
}

/// A change of one region of a file.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) file: String,
    pub(super) region: Range<usize>,
    pub(super) kind: Kind,
    pub(super) mutated: String,
}

/// A bug that can be switched on.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// What a person calls it; empty for a generated one.
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) function: String,
    pub(super) what: String,
    pub(super) original: String,
    /// Which of the places of its function that read like the original it is, from 1.
    pub(super) nth: usize,
    pub(super) edits: Vec<Edit>,
}

impl Mutant {
    /// The mutated text, to be shown.
    pub(super) fn mutated(&self) -> String {
        self.edits.iter().map(|edit| edit.mutated.as_str()).collect::<Vec<_>>().join(" … ")
    }
}

/// A file with switches, and where in it which mutants are.
pub(super) struct Switched {
    pub(super) text: String,
    /// Where the text of a mutant stands, or, after all of these, a region with all its mutants.
    pub(super) places: Vec<(Range<usize>, Vec<u32>)>,
}

struct Region {
    file: String,
    range: Range<usize>,
    kind: Kind,
    mutants: Vec<(u32, String)>,
}

/// Writes the file with the edits of the mutants.
pub(super) fn switch(original: &str, edits: &[(u32, &Edit)]) -> Switched {
    let (mut text, mut places, mut wholes, mut done) = (String::new(), Vec::new(), Vec::new(), 0);
    for region in regions(original, edits) {
        text.push_str(&original[done..region.range.start]);
        done = region.range.end;
        let start = text.len();
        let before = &original[region.range.clone()];
        text.push_str(match region.kind {
            Kind::Expression => "(",
            Kind::Block => "{ ",
            _ => "",
        });
        for (number, mutated) in &region.mutants {
            let from = text.len();
            let switch = packages::switch(&region.file, *number);
            let mutated = mutated.replace(PLACEHOLDER, &switch);
            if region.kind == Kind::Raw {
                text.push_str(&mutated);
            } else {
                text.push_str(&format!("if {switch} {{ {mutated} }} else "));
            }
            places.push((from..text.len(), vec![*number]));
        }
        match region.kind {
            Kind::Expression => text.push_str(&format!("{{ {before} }})")),
            Kind::Block => text.push_str(&format!("{before} }}")),
            Kind::Statement => text.push_str(&format!("{{ {before} }}")),
            Kind::Insert => text.push_str("{}"),
            Kind::Raw => {}
        }
        wholes.push((start..text.len(), region.mutants.iter().map(|(number, _)| *number).collect()));
    }
    text.push_str(&original[done..]);
    places.sort_by_key(|(range, _)| range.len());
    places.extend(wholes);
    Switched { text, places }
}

/// The regions of a file, disjoint and in order, each with its mutants.
fn regions(original: &str, edits: &[(u32, &Edit)]) -> Vec<Region> {
    let mut sorted: Vec<_> = edits.iter().collect();
    sorted.sort_by_key(|(number, edit)| (edit.region.start, std::cmp::Reverse(edit.region.end), *number));
    let mut regions: Vec<Region> = Vec::new();
    for (number, edit) in sorted {
        match regions.last_mut() {
            Some(outer) if outer.range.end > edit.region.start || outer.range == edit.region => {
                widen_into(outer, original, *number, edit);
            }
            _ => {
                let mutants = vec![(*number, edit.mutated.clone())];
                regions.push(Region { file: edit.file.clone(), range: edit.region.clone(), kind: edit.kind, mutants });
            }
        }
    }
    regions
}

/// Puts a mutant into a region around its own.
fn widen_into(outer: &mut Region, original: &str, number: u32, edit: &Edit) {
    let switch = packages::switch(&edit.file, number);
    let mutated = edit.mutated.replace(PLACEHOLDER, &switch);
    // A mutant with several edits may have two in one region.
    if let Some((_, text)) = outer.mutants.iter_mut().find(|(known, _)| *known == number) {
        *text = text.replacen(&original[edit.region.clone()], &mutated, 1);
        return;
    }
    let before = &original[outer.range.start..edit.region.start];
    let behind = &original[edit.region.end.min(outer.range.end)..outer.range.end];
    let text = format!("{before}{mutated}{behind}");
    outer.mutants.push((number, text));
}

/// The edits of each file.
pub(super) fn by_file(mutants: &BTreeMap<u32, Mutant>) -> BTreeMap<&str, Vec<(u32, &Edit)>> {
    let mut files: BTreeMap<&str, Vec<(u32, &Edit)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        for edit in &mutant.edits {
            files.entry(&edit.file).or_default().push((*number, edit));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(region: Range<usize>, kind: Kind, mutated: &str) -> Edit {
        Edit { file: "x.rs".to_owned(), region, kind, mutated: mutated.to_owned() }
    }

    #[test]
    fn regions_within_each_other_become_a_chain() {
        let (outer, inner) = (edit(8..18, Kind::Expression, "true"), edit(8..13, Kind::Expression, "a <= b"));
        let switched = switch("fn f() {a < b && c}", &[(7, &inner), (3, &outer)]);
        let expected = "fn f() {(if crate::base::mutant(3) { true } else \
                        if crate::base::mutant(7) { a <= b && c } else { a < b && c })}";
        assert_eq!(switched.text, expected);
        assert_eq!(switched.places.last().unwrap(), &(8..expected.len() - 1, vec![3, 7]));
    }

    #[test]
    fn raw_text_gets_its_switch() {
        let guard = edit(0..1, Kind::Raw, "1 if !MUTANT");
        assert_eq!(switch("1 => a", &[(2, &guard)]).text, "1 if !crate::base::mutant(2) => a");
    }
}
