//! The option `clusteredIndex`: that documents are stored in the order of `_id`, which they are in all collections that
//! are not capped.

use super::expiry::{COLLECTION_SECONDS_MAX, seconds_of};
use super::index_spec::ID_INDEX;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuilder, Value, long_of};
use crate::expr::value::truth;

/// Checks an option such as `{key: {_id: 1}, unique: true, name: "x"}`.
///
/// # Errors
/// 5979703 for what is true and no document, `IDLFailedToParse` (40414) without key or `unique`, `IDLUnknownField`
/// (40415), `TypeMismatch` (14), `InvalidIndexSpecificationOption` (197) for another key, 5979700 when it is not
/// unique, 5979704 for another version.
pub(super) fn check(value: &Value<'_>) -> Result<()> {
    let Value::Document(spec) = value else {
        if truth(value) {
            let what = "'clusteredIndex' must be a document such as {key: {_id: 1}, unique: true}";
            return Err(Error::new(ErrorCode::new(5_979_703), what));
        }
        return Ok(());
    };
    check_types(*spec)?;
    let required = |name: &str| {
        spec.get(name).filter(|value| !value.is_nullish()).ok_or_else(|| {
            let what = format!("BSON field 'create.clusteredIndex.{name}' is missing but a required field");
            Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what)
        })
    };
    let (key, unique) = (required("key")?, required("unique")?);
    let key = key.as_document().unwrap_or(Document::empty());
    let one = |value: Value<'_>| value.as_exact_i64() == Some(1);
    if key.elements().count() != 1 || !key.get("_id").is_some_and(one) {
        let what = "The field 'clusteredIndex' is only supported for the key {_id: 1}";
        return Err(Error::new(ErrorCode::INVALID_INDEX_SPECIFICATION_OPTION, what));
    }
    if !truth(&unique) {
        let what = "The 'clusteredIndex' option requires unique: true to be specified";
        return Err(Error::new(ErrorCode::new(5_979_700), what));
    }
    if spec.get("v").is_some_and(|version| !version.is_nullish() && long_of(&version) != Some(2)) {
        return Err(Error::new(ErrorCode::new(5_979_704), "The version of a clustered index must be 2"));
    }
    Ok(())
}

/// Appends the option as it is listed: with its version and its name.
pub(super) fn append_listed(builder: &mut DocumentBuilder, value: &Value<'_>) {
    let Value::Document(spec) = value else { return };
    let name = spec.get("name").filter(|name| !name.is_nullish()).unwrap_or(Value::from(ID_INDEX));
    builder.open_document("clusteredIndex").append("v", 2);
    if let Some(key) = spec.get("key") {
        builder.append("key", key);
    }
    builder.append("name", name).append("unique", true).close();
}

/// Checks after how many seconds documents with a date as `_id` expire, of a collection with these options.
///
/// # Errors
/// `InvalidOptions` (72) for a collection without `clusteredIndex` and for a value that [`seconds_of`] refuses.
pub(super) fn expiry(options: Document<'_>, seconds: &Value<'_>) -> Result<i64> {
    let invalid = |what: &str| Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    if !options.get("clusteredIndex").is_some_and(|clustered| truth(&clustered)) {
        return invalid("'expireAfterSeconds' is only supported on collections with 'clusteredIndex'");
    }
    seconds_of(seconds, COLLECTION_SECONDS_MAX).map_err(|wrong| Error::new(ErrorCode::INVALID_OPTIONS, wrong))
}

fn check_types(spec: Document<'_>) -> Result<()> {
    for element in spec.elements() {
        let name = element.name.to_str_lossy();
        let kind = element.value.kind();
        let (right, expected) = match &*name {
            "key" => (element.value.as_document().is_some(), "object"),
            "unique" => (kind.is_number() || matches!(element.value, Value::Bool(_)), "bool"),
            "name" => (element.value.as_text().is_some(), "string"),
            "v" => (kind.is_number(), "int"),
            _ => {
                let what = format!("BSON field 'create.clusteredIndex.{name}' is an unknown field.");
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        };
        if !right && !element.value.is_nullish() {
            let what = format!(
                "BSON field 'create.clusteredIndex.{name}' is the wrong type '{}', expected type '{expected}'",
                kind.name()
            );
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::DocumentBuf;

    #[test]
    fn documents_of_a_clustered_collection_expire_by_whole_seconds() {
        let clustered = doc! {"clusteredIndex": &doc! {"key": &doc! {"_id": 1}, "unique": true}};
        let code = |options: &DocumentBuf, seconds: i64| {
            expiry(options.view(), &Value::Int64(seconds)).map_err(|error| error.code().number())
        };
        assert_eq!(code(&clustered, 0), Ok(0));
        assert_eq!(code(&clustered, -1), Err(72));
        assert_eq!(code(&clustered, i64::MAX), Err(72));
        assert_eq!(code(&doc! {}, 1), Err(72));
    }

    #[test]
    fn only_the_order_of_ids_can_be_asked_for() {
        let code = |json: &str| {
            let document = DocumentBuf::from_json(&format!("{{\"c\":{json}}}")).unwrap();
            check(&document.view().get("c").unwrap()).map_err(|error| error.code().number())
        };
        for (json, expected) in [
            (r#"{"key":{"_id":1},"unique":true}"#, Ok(())),
            (r#"{"key":{"_id":1.0},"unique":3,"name":"x","v":2.9}"#, Ok(())),
            ("false", Ok(())),
            ("0", Ok(())),
            ("true", Err(5_979_703)),
            (r#"{"unique":true}"#, Err(40_414)),
            (r#"{"key":{"_id":1},"unique":null}"#, Err(40_414)),
            (r#"{"key":1,"unique":true}"#, Err(14)),
            (r#"{"key":{"x":1},"unique":true}"#, Err(197)),
            (r#"{"key":{"_id":1},"unique":0}"#, Err(5_979_700)),
            (r#"{"key":{"_id":1},"unique":true,"v":1}"#, Err(5_979_704)),
            (r#"{"key":{"_id":1},"unique":true,"x":1}"#, Err(40_415)),
        ] {
            assert_eq!(code(json), expected, "{json}");
        }
    }
}
