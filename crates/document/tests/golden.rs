//! The golden scripts of `testdata`: a file an operator or group of operators, with documents and what MongoDB answers.
//!
//! A script is cases, apart by empty lines; `#` begins a comment. The words that begin a line:
//!
//! | word | meaning |
//! |---|---|
//! | `filter J` | the filter; `+ J` is a document that matches, `- J` one that does not |
//! | `error N` | instead of an answer: the code of the error |
//! | `expr J` | the expression; `< J` is a document, `= J` what the expression gives for it (nothing: no value) |
//! | `projection J`, `update J` | `< J` is a document, `> J` what becomes of it, `same` when nothing changes |
//! | `filters J`, `where J` | array filters of the update, and the filter that its document matches |
//! | `upsert J` | the filter of an upsert; `> J` is the document that it inserts |
//! | `pipeline J` | the stages; `< J` are the documents that go in, `> J` those that come out |

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::path::{Path, PathBuf};

use spinney_document::Result;
use spinney_document::aggregate::{self, Run};
use spinney_document::bson::{DocumentBuf, ObjectId, Value};
use spinney_document::expr::{self, Context};
use spinney_document::projection::{Projection, Use};
use spinney_document::query::Filter;
use spinney_document::update::Update;

/// A case: its lines as words and rests, and where it begins.
struct Case {
    at: String,
    lines: Vec<(String, String)>,
}

fn cases(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let (text, mut open) = (fs::read_to_string(&file).unwrap(), false);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                open &= !line.is_empty();
                continue;
            }
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            if !open {
                let at = format!("{}:{number}", file.file_name().unwrap().to_string_lossy());
                cases.push(Case { at, lines: Vec::new() });
                open = true;
            }
            cases.last_mut().unwrap().lines.push((word.to_owned(), rest.to_owned()));
        }
    }
    assert!(!cases.is_empty());
    cases
}

fn json(case: &Case, text: &str) -> DocumentBuf {
    DocumentBuf::from_json(text).unwrap_or_else(|error| panic!("{}: {text}: {error}", case.at))
}

#[test]
fn filters_match_as_in_mongodb() {
    for case in cases("query") {
        let filter = json(&case, &case.lines[0].1);
        let filter = Filter::parse(filter.view(), &Context::default());
        for (word, rest) in &case.lines[1..] {
            match &**word {
                "error" => {
                    let code = filter.as_ref().map_err(|error| error.code().number().to_string());
                    assert_eq!(code.err().as_ref(), Some(rest), "{}", case.at);
                }
                sign => {
                    let filter = filter.as_ref().unwrap_or_else(|error| panic!("{}: {error}", case.at));
                    let matched = filter.matches(json(&case, rest).view()).unwrap();
                    assert_eq!(matched, sign == "+", "{} {rest}", case.at);
                }
            }
        }
    }
}

/// A value of JSON, in a document under the name `v`.
fn json_value(case: &Case, text: &str) -> DocumentBuf {
    json(case, &format!("{{\"v\":{text}}}"))
}

fn shown(document: &DocumentBuf) -> String {
    document.view().to_canonical_json()
}

/// Compares a result with the line that follows its document.
fn check(case: &Case, at: usize, result: &Result<DocumentBuf>) {
    let (word, rest) = &case.lines[at];
    let place = format!("{} line {at}: {rest}", case.at);
    match &**word {
        "error" => {
            let code = result.as_ref().map_err(|error| error.code().number().to_string());
            assert_eq!(code.err().as_ref(), Some(rest), "{place}");
        }
        _ => {
            let found = result.as_ref().unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(shown(found), shown(&json(case, rest)), "{place}");
        }
    }
}

#[test]
fn expressions_give_what_mongodb_does() {
    for case in cases("expr") {
        let spec = json_value(&case, &case.lines[0].1);
        let parsed = expr::parse(spec.view().get("v").unwrap(), &Context::default());
        if case.lines[1].0 == "error" {
            check(&case, 1, &parsed.map(|_| DocumentBuf::new()));
            continue;
        }
        let expression = parsed.unwrap_or_else(|error| panic!("{}: {error}", case.at));
        for at in (1..case.lines.len()).step_by(2) {
            let document = json(&case, &case.lines[at].1);
            let value = expression.of(document.view());
            if case.lines[at + 1].0 == "error" {
                check(&case, at + 1, &value.map(|_| DocumentBuf::new()));
                continue;
            }
            let expected = Some(&case.lines[at + 1].1).filter(|text| !text.is_empty());
            let expected = expected.map(|text| json_value(&case, text));
            let value = value.unwrap_or_else(|error| panic!("{}: {error}", case.at));
            let expected = expected.map(|value| value.view().get("v").unwrap().to_canonical_json());
            let found = value.view().map(|value| value.to_canonical_json());
            assert_eq!(found, expected, "{} line {at}", case.at);
        }
    }
}

#[test]
fn projections_keep_what_mongodb_does() {
    for case in cases("projection") {
        let spec = json(&case, &case.lines[0].1);
        let parsed = Projection::parse(spec.view(), Use::Find, &Context::default());
        if case.lines[1].0 == "error" {
            check(&case, 1, &parsed.map(|_| DocumentBuf::new()));
            continue;
        }
        let projection = parsed.unwrap_or_else(|error| panic!("{}: {error}", case.at));
        for at in (1..case.lines.len()).step_by(2) {
            check(&case, at + 1, &projection.apply(json(&case, &case.lines[at].1).view(), None));
        }
    }
}

#[test]
fn updates_change_what_mongodb_does() {
    for case in cases("update") {
        let word =
            |word: &str| case.lines.iter().find(|(other, _)| other == word).map(|(_, rest)| json_value(&case, rest));
        let (spec, filters, condition) = (json_value(&case, &case.lines[0].1), word("filters"), word("where"));
        let filters = filters.as_ref().and_then(|filters| filters.view().get("v")).and_then(|value| value.as_array());
        let context = Context::default();
        let parsed = Update::parse(spec.view().get("v").unwrap(), filters, &context);
        let first = case.lines.iter().position(|(word, _)| ["<", "error", "upsert"].contains(&&**word)).unwrap();
        if case.lines[first].0 == "error" {
            check(&case, first, &parsed.map(|_| DocumentBuf::new()));
            continue;
        }
        let update = parsed.unwrap_or_else(|error| panic!("{}: {error}", case.at));
        let filter = |value: &DocumentBuf| {
            let Some(Value::Document(filter)) = value.view().get("v") else { panic!("{}: no filter", case.at) };
            Filter::parse(filter, &context).unwrap()
        };
        for at in (first..case.lines.len()).step_by(2) {
            let (word, rest) = &case.lines[at];
            if word == "upsert" {
                let filter = filter(&json_value(&case, rest));
                check(&case, at + 1, &update.insert(&filter, ObjectId::default()));
                continue;
            }
            let document = json(&case, rest);
            let position = condition.as_ref().and_then(|it| filter(it).matches_at(document.view()).unwrap().1);
            let updated = update.apply(document.view(), position);
            if case.lines[at + 1].0 == "same" {
                let updated = updated.unwrap_or_else(|error| panic!("{}: {error}", case.at));
                assert!(!updated.is_modified(), "{} line {at}: {updated:?}", case.at);
                continue;
            }
            check(&case, at + 1, &updated.map(|updated| updated.document));
        }
    }
}

#[test]
fn pipelines_give_what_mongodb_does() {
    for case in cases("aggregate") {
        let spec = json_value(&case, &case.lines[0].1);
        let Some(Value::Array(stages)) = spec.view().get("v") else { panic!("{}: no stages", case.at) };
        let context = Context::default();
        let lines = |word: &str| -> Vec<DocumentBuf> {
            case.lines.iter().filter(|(other, _)| other == word).map(|(_, rest)| json(&case, rest)).collect()
        };
        let run = Run::new(context.clone());
        let input = lines("<");
        let result = aggregate::parse(stages, &context).and_then(|pipeline| {
            let rows = pipeline.run(Box::new(input.into_iter().map(Ok)), &run)?;
            rows.collect::<Result<Vec<_>>>()
        });
        if let Some(at) = case.lines.iter().position(|(word, _)| word == "error") {
            check(&case, at, &result.map(|_| DocumentBuf::new()));
            continue;
        }
        let found: Vec<String> =
            result.unwrap_or_else(|error| panic!("{}: {error}", case.at)).iter().map(shown).collect();
        assert_eq!(found, lines(">").iter().map(shown).collect::<Vec<_>>(), "{}", case.at);
    }
}
