//! Options of collections and views, as `create` takes and `listCollections` shows them.

use std::sync::Arc;

use super::capped::CappedLimits;
use super::clustered;
use super::expiry::{COLLECTION_SECONDS_MAX, seconds_of};
use super::index_spec::{StorageSpec, parse_storage};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::collation::{Collated, Collation};
use crate::expr::Context;
use crate::query::Filter;

/// What a collection or view is.
#[derive(Clone, Debug, Default)]
pub struct CollectionOptions {
    /// For a view, the collection that it is on and its pipeline, an array in the bytes of a document.
    pub view: Option<(String, DocumentBuf)>,
    /// The filter that documents must match, ready to be asked.
    pub validator: Option<Arc<Filter>>,
    /// The same filter as it was given.
    pub validator_expression: Option<DocumentBuf>,
    /// What the validator covers.
    pub validation_level: ValidationLevel,
    /// What becomes of documents that are not valid.
    pub validation_action: ValidationAction,
    /// The limits beyond which the oldest documents are removed, for a capped collection.
    pub capped: Option<CappedLimits>,
    /// Whether change streams can show documents as they were before a change.
    pub keeps_images: bool,
    /// How operations compare strings that do not say how; for a view, how all do.
    pub collation: Collated,
    /// After how many seconds documents expire whose `_id` is a date, for a collection with `clusteredIndex`.
    pub expire_after_seconds: Option<i64>,
    /// Where the collection is stored.
    pub storage: StorageSpec,
    /// The options as they are listed.
    document: DocumentBuf,
}

/// Which writes a validator checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationLevel {
    /// None.
    Off,
    /// Inserts, and updates of documents that are valid.
    Moderate,
    /// All.
    #[default]
    Strict,
}

/// What becomes of documents that are not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationAction {
    /// They are refused.
    #[default]
    Error,
    /// They are stored.
    Warn,
}

impl CollectionOptions {
    /// The options in a document such as `{validator: {a: {$exists: true}}}`.
    ///
    /// # Errors
    /// `InvalidOptions` (72), `TypeMismatch` (14), `IDLUnknownField` (40415) and what the filter's parser says;
    /// `BadValue` (2) for a size of a capped collection that is none; `CommandNotSupported` (115) for time series and
    /// encrypted fields.
    pub fn parse(options: Document<'_>) -> Result<Self> {
        let collation = options.get("collation").map(|collation| Collation::parse(&collation)).transpose()?.flatten();
        let context = Context::default().collated(collation.clone());
        let (document, capped) = (listed(options, collation.as_deref()), CappedLimits::parse(options)?);
        let document = capped.map_or(document.clone(), |capped| capped.listed(document.view()));
        let mut parsed = Self { document, collation, capped, ..Self::default() };
        let (mut on, mut pipeline) = (None, None);
        for element in options {
            let (field, value) = (element.name.to_str_lossy(), element.value);
            let mismatch = |expected: &str| {
                let what = format!(
                    "BSON field 'create.{field}' is the wrong type '{}', expected type '{expected}'",
                    value.kind().name()
                );
                Error::new(ErrorCode::TYPE_MISMATCH, what)
            };
            match &*field {
                "viewOn" => on = Some(value.as_str().ok_or_else(|| mismatch("string"))?.to_owned()),
                "pipeline" => {
                    let stages = value.as_array().ok_or_else(|| mismatch("array"))?;
                    pipeline = Some(DocumentBuf::from(stages.as_document()));
                }
                "validator" => {
                    let filter = value.as_document().ok_or_else(|| mismatch("object"))?;
                    if !filter.is_empty() {
                        parsed.validator = Some(Arc::new(Filter::parse(filter, &context)?));
                    }
                    parsed.validator_expression = Some(DocumentBuf::from(filter));
                }
                "validationLevel" => parsed.validation_level = parse_level(&value)?,
                "validationAction" => parsed.validation_action = parse_action(&value)?,
                "storageEngine" => parsed.storage = parse_storage(&value)?,
                "collation" => {}
                "clusteredIndex" => clustered::check(&value)?,
                "changeStreamPreAndPostImages" => {
                    let images = value.as_document().ok_or_else(|| mismatch("object"))?;
                    parsed.keeps_images = parse_images(images)?;
                }
                "idIndex" | "indexOptionDefaults" => {
                    value.as_document().ok_or_else(|| mismatch("object"))?;
                }
                // Read above.
                "capped" | "size" | "max" => {}
                "expireAfterSeconds" if value.is_nullish() => {}
                "expireAfterSeconds" => {
                    value.as_number().ok_or_else(|| mismatch("long"))?;
                    parsed.expire_after_seconds = Some(clustered::expiry(options, &value)?);
                }
                "timeseries" | "encryptedFields" => {
                    let what = format!("collections with the option '{field}' are not supported yet");
                    return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what));
                }
                _ => {
                    let what = format!("BSON field 'create.{field}' is an unknown field.");
                    return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
                }
            }
        }
        parsed.view = match (on, pipeline) {
            (Some(on), pipeline) => Some((on, pipeline.unwrap_or_default())),
            (None, None) => None,
            (None, Some(_)) => {
                let what = "'pipeline' requires 'viewOn' to also be specified";
                return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
            }
        };
        Ok(parsed)
    }

    /// The same options with those of `changes` in the place of theirs; one that is null is taken away.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn with(&self, changes: Document<'_>) -> Result<Self> {
        let mut builder = DocumentBuilder::new();
        let kept = self.document.view().elements().filter(|element| changes.element(element.name).is_none());
        let new = changes.elements().filter(|element| !element.value.is_nullish());
        kept.chain(new).for_each(|element| {
            builder.append_element(&element);
        });
        Self::parse(builder.finish().view())
    }

    /// The options as `listCollections` shows them.
    #[must_use]
    pub fn document(&self) -> Document<'_> {
        self.document.view()
    }
}

/// The options as they are listed: the collation with all its fields.
fn listed(options: Document<'_>, collation: Option<&Collation>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    for element in options {
        match collation {
            _ if element.name == "expireAfterSeconds" => {
                if let Ok(seconds) = seconds_of(&element.value, COLLECTION_SECONDS_MAX) {
                    builder.append("expireAfterSeconds", seconds);
                }
            }
            _ if element.name == "clusteredIndex" => clustered::append_listed(&mut builder, &element.value),
            _ if element.name != "collation" => {
                builder.append_element(&element);
            }
            Some(collation) => {
                builder.append("collation", collation.document());
            }
            None => {}
        }
    }
    builder.finish()
}

fn parse_level(value: &Value<'_>) -> Result<ValidationLevel> {
    match value.as_str() {
        Some("off") => Ok(ValidationLevel::Off),
        Some("moderate") => Ok(ValidationLevel::Moderate),
        Some("strict") => Ok(ValidationLevel::Strict),
        _ => Err(Error::bad_value(format!(
            "Enumeration value {value} for field 'validationLevel' is not a valid value."
        ))),
    }
}

fn parse_action(value: &Value<'_>) -> Result<ValidationAction> {
    match value.as_str() {
        Some("error") => Ok(ValidationAction::Error),
        Some("warn") => Ok(ValidationAction::Warn),
        _ => Err(Error::bad_value(format!(
            "Enumeration value {value} for field 'validationAction' is not a valid value."
        ))),
    }
}

/// Reads `{enabled: true}`.
fn parse_images(images: Document<'_>) -> Result<bool> {
    let mut enabled = None;
    for element in images {
        let field = format!("create.changeStreamPreAndPostImages.{}", element.name);
        match (element.name.as_str(), element.value) {
            (Some("enabled"), Value::Bool(is)) => enabled = Some(is),
            (Some("enabled"), other) => {
                let what =
                    format!("BSON field '{field}' is the wrong type '{}', expected type 'bool'", other.kind().name());
                return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
            }
            _ => {
                let what = format!("BSON field '{field}' is an unknown field.");
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
            }
        }
    }
    enabled.ok_or_else(|| {
        let what = "BSON field 'create.changeStreamPreAndPostImages.enabled' is missing but a required field";
        Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what)
    })
}
