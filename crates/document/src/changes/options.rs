//! The options of `$changeStream`.

use super::token::{ResumeToken, TokenKind};
use crate::aggregate::check_once;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Element, Timestamp, Value};

/// What a stream shows, and from where on.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// The whole document of updates.
    pub full_document: FullDocument,
    /// The document before updates, replacements and deletes.
    pub before: FullDocument,
    /// Where it begins; now when nothing is said.
    pub start: Start,
    /// Whether changes of collections and indexes are shown too.
    pub expanded: bool,
    /// Whether the stream is over all databases.
    pub all_databases: bool,
    /// For how many seconds the documents before and after a change are shown; for as long as they are there when
    /// nothing is said.
    pub image_seconds: Option<u64>,
    /// Whether an event that is larger than a document may be is shown in fragments; without it such an event is an
    /// error.
    pub splits: bool,
}

/// Whether a whole document is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullDocument {
    /// It is not.
    #[default]
    Off,
    /// As it is when the event is read.
    Lookup,
    /// As it was, or null.
    WhenAvailable,
    /// As it was; without it the stream fails.
    Required,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Now.
    #[default]
    Now,
    /// Behind a token.
    Behind(ResumeToken),
    /// At a time, that included.
    At(Timestamp),
}

impl StreamOptions {
    /// Reads the operand of `$changeStream`.
    ///
    /// # Errors
    /// `IDLDuplicateField` (40413), `IDLUnknownField` (40415), `TypeMismatch` (14), `BadValue` (2), those of
    /// [`ResumeToken::parse`]; 40674 and 50865 for two places to begin at.
    pub fn parse(operand: Value<'_>) -> Result<Self> {
        let Some(spec) = operand.as_document() else {
            let what =
                format!("the $changeStream stage must be specified as an object, but found {}", operand.kind().name());
            return Err(Error::new(ErrorCode::new(6_188_500), what));
        };
        check_once("$changeStream", spec)?;
        let (mut parsed, mut starts) = (Self::default(), 0);
        for element in spec.elements().filter(is_given) {
            let (name, value) = (element.name.to_str_lossy(), element.value);
            let mismatch = |expected: &str| {
                let what = format!(
                    "BSON field '$changeStream.{name}' is the wrong type '{}', expected type '{expected}'",
                    value.kind().name()
                );
                Error::new(ErrorCode::TYPE_MISMATCH, what)
            };
            let truth = || match value {
                Value::Bool(is) => Ok(is),
                _ => Err(mismatch("bool")),
            };
            let document = || value.as_document().ok_or_else(|| mismatch("object"));
            match &*name {
                "fullDocument" => {
                    parsed.full_document = match value.as_str().ok_or_else(|| mismatch("string"))? {
                        "default" => FullDocument::Off,
                        "updateLookup" => FullDocument::Lookup,
                        other => images(&name, other)?,
                    }
                }
                "fullDocumentBeforeChange" => {
                    parsed.before = match value.as_str().ok_or_else(|| mismatch("string"))? {
                        "off" => FullDocument::Off,
                        other => images(&name, other)?,
                    }
                }
                "resumeAfter" => {
                    let token = ResumeToken::parse(document()?)?;
                    if token.kind == TokenKind::Invalidate {
                        let what = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an \
                                    invalidate notification.";
                        return Err(Error::new(ErrorCode::INVALID_RESUME_TOKEN, what));
                    }
                    (parsed.start, starts) = (Start::Behind(token), starts + 1);
                }
                "startAfter" => {
                    (parsed.start, starts) = (Start::Behind(ResumeToken::parse(document()?)?), starts + 1);
                }
                "startAtOperationTime" => match value {
                    Value::Timestamp(at) => (parsed.start, starts) = (Start::At(at), starts + 1),
                    _ => return Err(mismatch("timestamp")),
                },
                "allChangesForCluster" => parsed.all_databases = truth()?,
                "showExpandedEvents" => parsed.expanded = truth()?,
                // What they show there is not here.
                "showMigrationEvents" | "showSystemEvents" | "allowToRunOnConfigDB" | "allowToRunOnSystemNS"
                    if !truth()? => {}
                "showMigrationEvents" | "showSystemEvents" | "showRawUpdateDescription" => {
                    let what = format!("$changeStream with the option '{name}' is not supported");
                    return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
                }
                _ => {
                    let what = format!("BSON field '$changeStream.{name}' is an unknown field.");
                    return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
                }
            }
        }
        check_starts(spec, starts)?;
        Ok(parsed)
    }
}

/// Whether an option is given: a null is none, but for those that are true or false.
fn is_given(element: &Element<'_>) -> bool {
    let name = element.name.to_str_lossy();
    !element.value.is_nullish() || name.starts_with("show") || name.starts_with("all")
}

/// Refuses several places to begin at.
fn check_starts(spec: Document<'_>, starts: usize) -> Result<()> {
    if starts < 2 {
        return Ok(());
    }
    let (code, what) = if spec.get("startAtOperationTime").is_none_or(|at| at.is_nullish()) {
        (50865, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage")
    } else {
        (40674, "Only one type of resume option is allowed, but multiple were found.")
    };
    Err(Error::new(ErrorCode::new(code), what))
}

fn images(field: &str, value: &str) -> Result<FullDocument> {
    match value {
        "whenAvailable" => Ok(FullDocument::WhenAvailable),
        "required" => Ok(FullDocument::Required),
        _ => {
            let what = format!("Enumeration value '{value}' for field '$changeStream.{field}' is not a valid value.");
            Err(Error::bad_value(what))
        }
    }
}
