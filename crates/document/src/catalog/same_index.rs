//! Whether an index is there already, or is in the way of another.

use super::index_spec::{ID_INDEX, IndexSpec};
use super::state::Schema;
use crate::base::{Error, ErrorCode, Result};

/// Whether an index of a specification is there; refuses one that is like it and not the same.
pub(super) fn is_there(schema: &Schema, spec: &IndexSpec) -> Result<bool> {
    if spec.is_id() {
        if spec.pattern.collation() == schema.options.collation.as_deref() {
            return Ok(true);
        }
        let what = "The _id index must have the same collation as the collection";
        return Err(Error::bad_value(format!("{what}. Requested index: {}", spec.document())));
    }
    let conflict = |code, other: &str, what: &str| {
        Err(Error::new(code, format!("{what}. Requested index: {}, existing index: {other}", spec.document())))
    };
    let fields = spec.pattern.document();
    if fields.elements().count() == 1 && fields.get("_id").is_some_and(|kind| kind.as_f64() == Some(-1.0)) {
        let what = format!("The field 'key' for an _id index must be {{_id: 1}}, but got {fields}");
        return Err(Error::bad_value(what));
    }
    if spec.name == ID_INDEX {
        let what = format!("The index name '_id_' is reserved for the _id index, requested index: {}", spec.document());
        return Err(Error::bad_value(what));
    }
    for index in &schema.indexes {
        let (other, json) = (&index.spec, index.spec.document().to_json());
        let same = other.has_signature_of(spec);
        if same && other.name == spec.name {
            if other.has_options_of(spec) {
                return Ok(true);
            }
            let what = "An equivalent index already exists with the same name but different options";
            return conflict(ErrorCode::INDEX_OPTIONS_CONFLICT, &json, what);
        }
        if other.name == spec.name {
            let what = "An existing index has the same name as the requested index";
            return conflict(ErrorCode::INDEX_KEY_SPECS_CONFLICT, &json, what);
        }
        if same {
            let what = format!("Index already exists with a different name: {}", other.name);
            return conflict(ErrorCode::INDEX_OPTIONS_CONFLICT, &json, &what);
        }
    }
    Ok(false)
}
