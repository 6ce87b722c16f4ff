//! A collation that is ready to compare.

use std::cmp::Ordering;
use std::sync::Arc;

use icu_collator::{Collator, CollatorBorrowed};

use super::options::{self, CollationOptions};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Text, TextOrder, Value, ValueBuf, compare_by};

/// The collation of an operation, a collection or an index; nothing for the comparison by bytes.
pub type Collated = Option<Arc<Collation>>;

/// A collation. Two of them are equal when they compare alike: when all their options are.
#[derive(Debug)]
pub struct Collation {
    options: CollationOptions,
    document: DocumentBuf,
    collator: CollatorBorrowed<'static>,
}

impl PartialEq for Collation {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl Eq for Collation {}

impl TextOrder for Collation {
    fn compare_texts(&self, a: Text<'_>, b: Text<'_>) -> Ordering {
        self.collator.compare_utf8(a.as_bytes(), b.as_bytes())
    }
}

impl Collation {
    /// Reads a collation document. The locale `simple` is no collation.
    ///
    /// # Errors
    /// `TypeMismatch` (14) for a value, or a field of it, of another type; `IDLFailedToParse` (40414) without a locale;
    /// `IDLUnknownField` (40415); `IncompatibleCollationVersion` (161); `BadValue` (2) for a locale that there is not,
    /// a choice that is none, and options that have no effect together or are not supported with the locale.
    pub fn parse(value: &Value<'_>) -> Result<Collated> {
        let Value::Document(document) = value else {
            let kind = value.kind().name();
            let what = format!("BSON field 'collation' is the wrong type '{kind}', expected type 'object'");
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
        };
        let Some(asked) = options::read(*document)? else { return Ok(None) };
        let collator = Collator::try_new(asked.preferences, asked.options).map_err(|error| {
            Error::bad_value(format!("the rules of the locale in {document} are not there: {error}"))
        })?;
        let options = asked.resolved(&collator.resolved_options());
        Ok(Some(Arc::new(Self { document: options.document(), options, collator })))
    }

    /// Reads the collation of an operation: the empty document is none.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_operation(value: Option<Value<'_>>) -> Result<Option<Collated>> {
        match value {
            None | Some(Value::Null | Value::Undefined) => Ok(None),
            Some(Value::Document(document)) if document.is_empty() => Ok(None),
            Some(value) => Self::parse(&value).map(Some),
        }
    }

    /// The options.
    #[must_use]
    pub const fn options(&self) -> &CollationOptions {
        &self.options
    }

    /// The document with all options.
    #[must_use]
    pub fn document(&self) -> Document<'_> {
        self.document.view()
    }

    /// The order of two values.
    #[must_use]
    pub fn compare(&self, a: &Value<'_>, b: &Value<'_>) -> Ordering {
        compare_by(self, a, b)
    }

    /// Bytes in the order of strings: those of strings that are equal are equal.
    #[must_use]
    pub fn sort_key(&self, text: Text<'_>) -> Vec<u8> {
        let mut key = Vec::with_capacity(text.len() * 2 + 8);
        let Ok(()) = self.collator.write_sort_key_utf8_to(text.as_bytes(), &mut key);
        key
    }

    /// A value with the sort keys of its strings in their place, so that it is compared by bytes as the value is by
    /// this collation; nothing for a value without strings, which stands for itself.
    #[must_use]
    pub fn key_of(&self, value: &Value<'_>) -> Option<ValueBuf> {
        match value {
            Value::String(text) | Value::Symbol(text) => {
                Some(Value::String(Text::from_bytes(&self.sort_key(*text))).into())
            }
            Value::Document(document) if document.elements().any(|element| has_text(&element.value)) => {
                Some(self.keys_of(*document).into())
            }
            Value::Array(array) if array.values().any(|value| has_text(&value)) => {
                let keys = self.keys_of(array.as_document());
                let values = keys.view().elements().map(|element| element.value);
                Some(ValueBuf::array(values))
            }
            _ => None,
        }
    }

    fn keys_of(&self, document: Document<'_>) -> DocumentBuf {
        let mut builder = DocumentBuilder::new();
        for element in document {
            match self.key_of(&element.value) {
                Some(key) => builder.append(element.name, key.view()),
                None => builder.append_element(&element),
            };
        }
        builder.finish()
    }
}

/// A sort key as MongoDB shows it.
#[must_use]
pub fn collation_key(key: Text<'_>) -> String {
    let digits: String = key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("CollationKey(0x{digits})")
}

/// Whether a value is a string or has one within it, so that a collation matters.
#[must_use]
pub fn has_text(value: &Value<'_>) -> bool {
    match value {
        Value::String(_) | Value::Symbol(_) => true,
        Value::Document(document) => document.elements().any(|element| has_text(&element.value)),
        Value::Array(array) => array.values().any(|value| has_text(&value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collation(json: &str) -> Result<Collated> {
        Collation::parse(&Value::Document(DocumentBuf::from_json(json)?.view()))
    }

    fn some(json: &str) -> Arc<Collation> {
        collation(json).unwrap().unwrap()
    }

    #[test]
    fn documents_are_read_strictly() {
        for (json, code) in [
            ("{}", 40414),
            (r#"{"locale":null}"#, 40414),
            (r#"{"locale":1}"#, 14),
            (r#"{"locale":"xx"}"#, 2),
            (r#"{"locale":""}"#, 2),
            (r#"{"locale":"en","strength":0}"#, 2),
            (r#"{"locale":"en","strength":"2"}"#, 14),
            (r#"{"locale":"en","strength":{"$numberDecimal":"5.5"}}"#, 2),
            (r#"{"locale":"en","strength":{"$numberDouble":"NaN"}}"#, 2),
            (r#"{"locale":"en","caseFirst":"x"}"#, 2),
            (r#"{"locale":"en","caseFirst":"upper","strength":2}"#, 2),
            (r#"{"locale":"en","backwards":null}"#, 14),
            (r#"{"locale":"fr","backwards":true,"strength":1}"#, 2),
            (r#"{"locale":"es","backwards":true}"#, 2),
            (r#"{"locale":"de@collation=search"}"#, 2),
            (r#"{"locale":"en","version":"1"}"#, 161),
            (r#"{"locale":"en","Strength":1}"#, 40415),
        ] {
            assert_eq!(collation(json).unwrap_err().code().number(), code, "{json}");
        }
        assert!(collation(r#"{"locale":"simple","caseFirst":"upper","strength":1}"#).unwrap().is_none());
    }

    #[test]
    fn the_document_has_the_options_of_the_locale() {
        let shown = |json: &str| some(json).document().to_json();
        assert_eq!(
            shown(r#"{"locale":"en","strength":2.9}"#),
            r#"{"locale":"en","caseLevel":false,"caseFirst":"off","strength":2,"numericOrdering":false,"alternate":"non-ignorable","maxVariable":"punct","normalization":false,"backwards":false,"version":"57.1"}"#
        );
        assert!(shown(r#"{"locale":"fr_CA"}"#).contains(r#""backwards":true"#));
        assert!(shown(r#"{"locale":"da"}"#).contains(r#""caseFirst":"upper""#));
        assert!(shown(r#"{"locale":"th"}"#).contains(r#""alternate":"shifted""#));
        // What is shown is the same collation when it is read.
        let one = some(r#"{"locale":"da","strength":1,"caseLevel":true}"#);
        assert_eq!(collation(&one.document().to_json()).unwrap().unwrap(), one);
    }

    #[test]
    fn keys_are_in_the_order_of_values() {
        let texts = [
            "", "a", "A", "á", "b", "B", "ab", "a b", "a-b", "a2", "a10", "cote", "côte", "coté", "côté", "\0", "z",
            "Å",
        ];
        for json in [
            r#"{"locale":"en"}"#,
            r#"{"locale":"en","strength":1}"#,
            r#"{"locale":"en","strength":2}"#,
            r#"{"locale":"en","strength":1,"caseLevel":true}"#,
            r#"{"locale":"en","strength":5}"#,
            r#"{"locale":"en","caseFirst":"upper"}"#,
            r#"{"locale":"en","numericOrdering":true}"#,
            r#"{"locale":"en","alternate":"shifted","strength":4}"#,
            r#"{"locale":"fr","backwards":true}"#,
            r#"{"locale":"sv"}"#,
        ] {
            let collation = some(json);
            for a in texts {
                for b in texts {
                    let (x, y) = (Value::from(a), Value::from(b));
                    let keys = collation.sort_key(Text::from(a)).cmp(&collation.sort_key(Text::from(b)));
                    assert_eq!(collation.compare(&x, &y), keys, "{json} {a} {b}");
                }
            }
        }
        let order = |json: &str, a: &str, b: &str| some(json).compare(&Value::from(a), &Value::from(b));
        assert_eq!(order(r#"{"locale":"en","strength":2}"#, "a", "A"), Ordering::Equal);
        assert_eq!(order(r#"{"locale":"fr_CA"}"#, "côte", "coté"), Ordering::Less);
        assert_eq!(order(r#"{"locale":"fr_CA","backwards":false}"#, "côte", "coté"), Ordering::Greater);
        assert_eq!(order(r#"{"locale":"en","numericOrdering":true}"#, "a2", "a10"), Ordering::Less);
    }

    /// The bytes are stored in indexes: when they change, all collated indexes must be built again.
    #[test]
    fn sort_keys_are_these_bytes() {
        let hex = |json: &str, text: &str| {
            let key = some(json).sort_key(Text::from(text));
            key.iter().map(|byte| format!("{byte:02X}")).collect::<String>()
        };
        assert_eq!(hex(r#"{"locale":"en"}"#, "aB 1"), "2B2D0414010801C5DC06");
        assert_eq!(hex(r#"{"locale":"en","strength":2}"#, "Côté"), "2F47513301448E4488");
        assert_eq!(hex(r#"{"locale":"sv","strength":1}"#, "åz"), "5E7F025D");
    }

    #[test]
    fn strings_within_documents_and_arrays_are_replaced() {
        let collation = some(r#"{"locale":"en","strength":2}"#);
        let value = |json: &str| DocumentBuf::from_json(json).unwrap();
        let (a, b) = (value(r#"{"x":[1,{"y":"A"}],"n":1}"#), value(r#"{"x":[1,{"y":"a"}],"n":1}"#));
        let key = |document: &DocumentBuf| collation.key_of(&Value::Document(document.view())).unwrap();
        assert_eq!(key(&a).view(), key(&b).view());
        assert!(collation.compare(&Value::Document(a.view()), &Value::Document(b.view())).is_eq());
        assert!(collation.key_of(&Value::Document(value(r#"{"n":[1]}"#).view())).is_none());
    }
}
