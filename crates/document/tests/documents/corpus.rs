//! The test suite `bson-corpus` of MongoDB's specifications, when `SPINNEY_BSON_CORPUS` names the folder of its files,
//! and cases of our own of the same kinds.

use serde_json::Value as Json;
use spinney_document::bson::{Document, DocumentBuf};

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// JSON without white space and with numbers that compare.
fn plain(json: &str) -> Json {
    serde_json::from_str(json).unwrap()
}

fn text<'j>(case: &'j Json, key: &str) -> Option<&'j str> {
    case.get(key).map(|value| value.as_str().unwrap())
}

/// Checks a valid case: every given form is read, and written as the canonical forms.
fn check_valid(name: &str, case: &Json) {
    let bson = bytes_of(text(case, "canonical_bson").unwrap());
    let canonical = text(case, "canonical_extjson").unwrap();
    let lossy = case.get("lossy").is_some();
    let document = Document::parse(&bson).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(plain(&document.to_canonical_json()), plain(canonical), "{name}");
    if let Some(relaxed) = text(case, "relaxed_extjson") {
        assert_eq!(plain(&document.to_json()), plain(relaxed), "{name}");
        let read = DocumentBuf::from_json(relaxed).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(plain(&read.view().to_json()), plain(relaxed), "{name}");
    }
    for json in [Some(canonical), text(case, "degenerate_extjson")].into_iter().flatten() {
        let read = DocumentBuf::from_json(json).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(lossy || read.as_bytes() == bson, "{name}: {read:?}");
    }
    if let Some(degenerate) = text(case, "degenerate_bson").map(bytes_of) {
        let document = Document::parse(&degenerate).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(plain(&document.to_canonical_json()), plain(canonical), "{name}");
    }
    if let Some(converted) = text(case, "converted_bson").map(bytes_of) {
        assert!(Document::parse(&converted).is_ok(), "{name}");
    }
}

#[test]
fn the_corpus_passes() {
    let Some(folder) = std::env::var_os("SPINNEY_BSON_CORPUS") else { return };
    let (mut valid, mut decode, mut parse) = (0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let suite = plain(&std::fs::read_to_string(&path).unwrap());
        let cases = |key: &str| suite.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
        let name = |case: &Json| format!("{}: {}", path.display(), text(case, "description").unwrap());
        for case in cases("valid") {
            check_valid(&name(&case), &case);
            valid += 1;
        }
        for case in cases("decodeErrors") {
            assert!(Document::parse(&bytes_of(text(&case, "bson").unwrap())).is_err(), "{}", name(&case));
            decode += 1;
        }
        let decimals = text(&suite, "bson_type") == Some("0x13");
        for case in cases("parseErrors") {
            let string = text(&case, "string").unwrap();
            let json = if decimals {
                format!(r#"{{"d":{{"$numberDecimal":{}}}}}"#, Json::from(string))
            } else {
                string.to_owned()
            };
            assert!(DocumentBuf::from_json(&json).is_err(), "{}", name(&case));
            parse += 1;
        }
    }
    eprintln!("{valid} valid cases, {decode} decode errors, {parse} parse errors");
    assert!(valid >= 728 && decode >= 75 && parse >= 180, "{valid} {decode} {parse}");
}

#[test]
fn documents_of_all_types_survive_both_forms_of_json() {
    let canonical = r#"{"a":{"$numberInt":"1"},"b":{"$numberLong":"2"},"c":{"$numberDouble":"3.5"},
        "d":{"$numberDecimal":"1.10"},"e":"x\n\u0000é","f":{"g":[null,true,{"$undefined":true}]},
        "h":{"$binary":{"base64":"AQID","subType":"80"}},"i":{"$oid":"0123456789abcdef01234567"},
        "j":{"$date":{"$numberLong":"-1"}},"k":{"$timestamp":{"t":1,"i":2}},
        "l":{"$regularExpression":{"pattern":"^a","options":"im"}},"m":{"$code":"f()"},
        "n":{"$code":"f()","$scope":{"x":{"$numberInt":"1"}}},"o":{"$symbol":"s"},
        "p":{"$dbPointer":{"$ref":"c","$id":{"$oid":"0123456789abcdef01234567"}}},
        "q":{"$minKey":1},"r":{"$maxKey":1}}"#;
    let document = DocumentBuf::from_json(canonical).unwrap();
    assert!(Document::parse(document.as_bytes()).is_ok());
    assert_eq!(plain(&document.view().to_canonical_json()), plain(canonical));
    let relaxed = document.view().to_json();
    let kept = DocumentBuf::from_json(&relaxed).unwrap();
    assert_eq!(kept.view(), document.view(), "numbers may change their types, not their values");
}

#[test]
fn malformed_json_is_refused() {
    for json in [
        "",
        "{",
        "[]",
        "1",
        "{}x",
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":01}"#,
        r#"{"a":1.}"#,
        r#"{"a":"x}"#,
        r#"{"a":"\q"}"#,
        r#"{"a":"\ud800"}"#,
        "{\"a\":\"\n\"}",
        r#"{"a":{"$oid":"x"}}"#,
        r#"{"a":{"$date":"1970-02-30T00:00:00Z"}}"#,
        r#"{"a":{"$numberDouble":"inf"}}"#,
        r#"{"a":nul}"#,
        r#"{"a":"\u12"}"#,
        r#"{"a":1e}"#,
    ] {
        assert!(DocumentBuf::from_json(json).is_err(), "{json}");
    }
}
