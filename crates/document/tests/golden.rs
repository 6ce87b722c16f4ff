//! The golden scripts of `testdata`: a file an operator or group of operators, with documents and what MongoDB answers.
//!
//! A script is cases, apart by empty lines; `#` begins a comment. The words that begin a line:
//!
//! | word | meaning |
//! |---|---|
//! | `filter J` | the filter; `+ J` is a document that matches, `- J` one that does not |
//! | `error N` | instead of an answer: the code of the error |

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::path::{Path, PathBuf};

use spinney_document::bson::DocumentBuf;
use spinney_document::expr::Context;
use spinney_document::query::Filter;

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
