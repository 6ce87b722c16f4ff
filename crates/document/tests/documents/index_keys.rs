//! The keys that indexes have of documents: arrays, missing fields, positions, hashes, wildcards.

use spinney_document::bson::{DocumentBuf, ValueBuf};
use spinney_document::keys::{KeyPattern, KeySet, TypeReader, decode_field, extract};

/// The keys as JSON, each a list of values, in their order; or the code of the error.
fn keys(pattern: &str, document: &str) -> Result<String, i32> {
    keys_with(pattern, document, false, None).map(|(keys, _)| keys)
}

fn keys_with(pattern: &str, document: &str, sparse: bool, projection: Option<&str>) -> Result<(String, Vec<u64>), i32> {
    let pattern = KeyPattern::parse(DocumentBuf::from_json(pattern).unwrap().view()).unwrap();
    let document = DocumentBuf::from_json(document).unwrap();
    let projection = projection.map(|json| DocumentBuf::from_json(json).unwrap());
    let mut found = KeySet::new();
    extract(&pattern, sparse, projection.as_ref(), document.view(), &mut found)
        .map_err(|error| error.code().number())?;
    let mut tuples = Vec::new();
    for key in found.iter() {
        let (mut rest, mut types, mut tuple) = (key.fields, TypeReader::new(key.types), Vec::new());
        let mut field = 0;
        while !rest.is_empty() {
            let direction = if pattern.is_wildcard() && field == 0 {
                spinney_document::keys::Direction::Ascending
            } else {
                pattern.fields()[field.min(pattern.fields().len() - 1)].direction()
            };
            let (value, behind) = decode_field(rest, direction, &mut types).unwrap();
            tuple.push(value);
            rest = behind;
            field += 1;
        }
        tuples.push(ValueBuf::array(tuple.iter().map(ValueBuf::view)).view().to_json());
    }
    Ok((tuples.join(" "), found.multikey().to_vec()))
}

#[test]
fn documents_without_arrays_have_one_key() {
    assert_eq!(keys(r#"{"a":1}"#, r#"{"a":5}"#).unwrap(), "[5]");
    assert_eq!(keys(r#"{"a":1}"#, "{}").unwrap(), "[null]");
    assert_eq!(keys(r#"{"a.b":1,"c":-1}"#, r#"{"a":{"b":"x"},"c":2.5}"#).unwrap(), r#"["x",2.5]"#);
    assert_eq!(keys(r#"{"a.b":1}"#, r#"{"a":5}"#).unwrap(), "[null]");
    assert_eq!(keys(r#"{"a":1}"#, r#"{"a":{"b":1}}"#).unwrap(), r#"[{"b":1}]"#);
}

#[test]
fn arrays_give_a_key_for_each_element() {
    assert_eq!(keys(r#"{"a":1}"#, r#"{"a":[3,1,3.0,2]}"#).unwrap(), "[1] [2] [3]");
    assert_eq!(keys(r#"{"a":1}"#, r#"{"a":[]}"#).unwrap(), r#"[{"$undefined":true}]"#);
    assert_eq!(keys(r#"{"a":1}"#, r#"{"a":[[1,2],3]}"#).unwrap(), "[3] [[1,2]]");
    assert_eq!(keys(r#"{"a":1}"#, r#"{"a":[[]]}"#).unwrap(), "[[]]");
    assert_eq!(keys(r#"{"a.b":1}"#, r#"{"a":[{"b":1},{"b":[2,3]},{},4]}"#).unwrap(), "[null] [1] [2] [3]");
    assert_eq!(keys(r#"{"a.b":1}"#, r#"{"a":[]}"#).unwrap(), "[null]");
    assert_eq!(keys(r#"{"a.b":1}"#, r#"{"a":[[{"b":1}]]}"#).unwrap(), "[null]");
    assert_eq!(keys(r#"{"a":-1}"#, r#"{"a":[1,2]}"#).unwrap(), "[2] [1]");
    let both = keys(r#"{"a.b":1,"a.c":1}"#, r#"{"a":[{"b":1,"c":2},{"b":3}]}"#).unwrap();
    assert_eq!(both, "[1,2] [3,null]", "fields of one element stay together");
    assert_eq!(keys(r#"{"a":1,"b":1}"#, r#"{"a":[1,2],"b":9}"#).unwrap(), "[1,9] [2,9]");
}

#[test]
fn parallel_arrays_are_refused() {
    assert_eq!(keys(r#"{"a":1,"b":1}"#, r#"{"a":[1],"b":[2]}"#), Err(171));
    assert_eq!(keys(r#"{"a.b":1,"a.c":1}"#, r#"{"a":[{"b":[1],"c":[2]}]}"#), Err(171));
    assert_eq!(keys(r#"{"a":1,"b":1}"#, r#"{"a":[],"b":[]}"#), Err(171));
    assert!(keys(r#"{"a.b":1,"a.c":1}"#, r#"{"a":[{"b":[1,2],"c":2}]}"#).is_ok());
}

#[test]
fn the_parts_of_a_path_that_were_arrays_are_known() {
    let multikey = |pattern, document| keys_with(pattern, document, false, None).unwrap().1;
    assert_eq!(multikey(r#"{"a.b":1,"c":1}"#, r#"{"a":{"b":1},"c":1}"#), [0, 0]);
    assert_eq!(multikey(r#"{"a.b":1,"c":1}"#, r#"{"a":[{"b":1}],"c":1}"#), [1, 0]);
    assert_eq!(multikey(r#"{"a.b":1,"c":1}"#, r#"{"a":[{"b":[]}],"c":1}"#), [3, 0]);
    assert_eq!(multikey(r#"{"a.b":1,"c":1}"#, r#"{"a":{"b":[1]},"c":1}"#), [2, 0]);
}

#[test]
fn numbers_in_paths_are_positions() {
    assert_eq!(keys(r#"{"a.0":1}"#, r#"{"a":[5,6]}"#).unwrap(), "[5]");
    assert_eq!(keys(r#"{"a.0":1}"#, r#"{"a":{"0":7}}"#).unwrap(), "[7]");
    assert_eq!(keys(r#"{"a.2":1}"#, r#"{"a":[5,6]}"#).unwrap(), "[null]");
    assert_eq!(keys(r#"{"a.1.b":1}"#, r#"{"a":[{"b":1},{"b":2}]}"#).unwrap(), "[2]");
    assert_eq!(keys(r#"{"a.0":1}"#, r#"{"a":[[8,9],6]}"#).unwrap(), "[8] [9]");
    assert_eq!(keys(r#"{"a.0":1}"#, r#"{"a":[{"0":1}]}"#), Err(16746));
    assert_eq!(keys(r#"{"a.0":1,"a.1":1}"#, r#"{"a":[5,6]}"#).unwrap(), "[5,6]");
}

#[test]
fn sparse_leaves_out_documents_without_any_field() {
    let sparse = |pattern, document| keys_with(pattern, document, true, None).unwrap().0;
    assert_eq!(sparse(r#"{"a":1}"#, r#"{"b":1}"#), "");
    assert_eq!(sparse(r#"{"a":1}"#, r#"{"a":null}"#), "[null]");
    assert_eq!(sparse(r#"{"a":1,"b":1}"#, r#"{"b":1}"#), "[null,1]");
    assert_eq!(sparse(r#"{"a.b":1}"#, r#"{"a":[{"b":1},{}]}"#), "[1]");
}

#[test]
fn hashed_fields_keep_a_hash_and_refuse_arrays() {
    let int = keys(r#"{"a":"hashed"}"#, r#"{"a":1}"#).unwrap();
    assert_eq!(int, keys(r#"{"a":"hashed"}"#, r#"{"a":1.5}"#).unwrap(), "numbers are truncated");
    assert_ne!(int, keys(r#"{"a":"hashed"}"#, r#"{"a":"1"}"#).unwrap());
    assert_eq!(keys(r#"{"a":"hashed"}"#, r#"{"a":[1]}"#), Err(16766));
}

#[test]
fn wildcards_have_a_key_for_each_leaf() {
    let document = r#"{"_id":1,"a":1,"b":{"c":2,"d":{}},"e":[3,{"f":4},[5],[]],"g":[]}"#;
    let all = keys(r#"{"$**":1}"#, document).unwrap();
    let undefined = r#"{"$undefined":true}"#;
    let expected = format!(r#"["a",1] ["b.c",2] ["b.d",{{}}] ["e",3] ["e",[]] ["e",[5]] ["e.f",4] ["g",{undefined}]"#);
    assert_eq!(all, expected);
    assert_eq!(keys(r#"{"b.$**":1}"#, document).unwrap(), r#"["b.c",2] ["b.d",{}]"#);
    let projected = |json| keys_with(r#"{"$**":1}"#, document, false, Some(json)).unwrap().0;
    assert_eq!(projected(r#"{"a":1,"b.c":1}"#), r#"["a",1] ["b.c",2]"#);
    assert_eq!(projected(r#"{"b":0,"e":0,"g":0}"#), r#"["a",1]"#);
    assert_eq!(projected(r#"{"_id":1,"a":1}"#), r#"["_id",1] ["a",1]"#);
}
