//! `$collStats`, `$indexStats`, `$currentOp` and others: what the storage or the server tells of itself.

use std::sync::Arc;

use super::stage::{Parser, Report, Rows, Run, Stage, Stages, error};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Value};

/// A stage that reads no documents.
#[derive(Debug)]
struct Told(Report);

impl Stage for Told {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn run(self: Arc<Self>, _: Rows, run: &Run) -> Result<Rows> {
        run.storage.report(&self.0)
    }

    fn as_report(&self) -> Option<&Report> {
        Some(&self.0)
    }

    fn is_source(&self) -> bool {
        true
    }
}

pub(super) fn read(_: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else { return Err(no_document(name, &value)) };
    match name {
        "$collStats" => check_collection(spec)?,
        "$indexStats" | "$planCacheStats" if !spec.is_empty() => {
            let (code, what) = if name == "$indexStats" {
                (28803, "The $indexStats stage specification must be an empty object")
            } else {
                (28803, "The $planCacheStats stage specification must be an empty object")
            };
            return Err(error(code, what));
        }
        "$currentOp" => check_operations(spec)?,
        "$listSessions" | "$listLocalSessions" => check_sessions(name, spec)?,
        _ => {}
    }
    Ok(vec![Arc::new(Told(Report { name, spec: DocumentBuf::from(spec) }))])
}

fn no_document(name: &str, value: &Value<'_>) -> Error {
    let kind = value.kind().name();
    match name {
        "$collStats" => error(5_447_000, format!("$collStats must take a nested object but found a {kind}")),
        "$indexStats" => error(28803, "The $indexStats stage specification must be an empty object"),
        "$planCacheStats" => Error::new(
            ErrorCode::FAILED_TO_PARSE,
            format!("$planCacheStats must take a nested object but found: {kind}"),
        ),
        "$currentOp" => Error::new(
            ErrorCode::FAILED_TO_PARSE,
            format!("$currentOp options must be specified in an object, but found: {kind}"),
        ),
        _ => Error::new(
            ErrorCode::TYPE_MISMATCH,
            format!("{name} options must be specified in an object, but found: {kind}"),
        ),
    }
}

fn unknown(name: &str, field: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::IDL_UNKNOWN_FIELD, format!("BSON field '{name}.{field}' is an unknown field."))
}

fn wrong_type(name: &str, field: impl std::fmt::Display, value: &Value<'_>, expected: &str) -> Error {
    let what =
        format!("BSON field '{name}.{field}' is the wrong type '{}', expected type '{expected}'", value.kind().name());
    Error::new(ErrorCode::TYPE_MISMATCH, what)
}

fn check_collection(spec: Document<'_>) -> Result<()> {
    for element in spec {
        let field = element.name.to_str_lossy();
        match (&*field, element.value) {
            (
                "latencyStats" | "storageStats" | "count" | "queryExecStats" | "operationStats",
                Value::Document(inner),
            ) => {
                for option in inner {
                    let known = match &*field {
                        "latencyStats" => option.name == "histograms",
                        "storageStats" => {
                            ["scale", "verbose", "waitForLock", "numericOnly"].iter().any(|known| option.name == *known)
                        }
                        _ => false,
                    };
                    if !known {
                        return Err(unknown(&format!("$collStats.{field}"), option.name));
                    }
                }
                if let Some(scale) = inner.get("scale") {
                    check_scale(&scale)?;
                }
                if let Some(histograms) = inner.get("histograms")
                    && !matches!(histograms, Value::Bool(_))
                {
                    return Err(wrong_type("$collStats.latencyStats", "histograms", &histograms, "bool"));
                }
            }
            ("latencyStats" | "storageStats" | "count" | "queryExecStats" | "operationStats", other) => {
                return Err(wrong_type("$collStats", field, &other, "object"));
            }
            _ => return Err(unknown("$collStats", field)),
        }
    }
    Ok(())
}

fn check_scale(scale: &Value<'_>) -> Result<()> {
    if scale.is_nullish() {
        return Ok(());
    }
    let Some(number) = scale.as_number() else {
        return Err(wrong_type("$collStats.storageStats", "scale", scale, "long"));
    };
    match number.trunc_to_i64() {
        Some(1..) => Ok(()),
        _ => Err(error(51024, format!("BSON field 'scale' value must be >= 1, actual value '{}'", scale.to_json()))),
    }
}

fn check_operations(spec: Document<'_>) -> Result<()> {
    let known = [
        "allUsers",
        "idleConnections",
        "idleSessions",
        "idleCursors",
        "localOps",
        "truncateOps",
        "backtrace",
        "targetAllNodes",
    ];
    for element in spec {
        if !known.iter().any(|known| element.name == *known) {
            let what = format!("Unrecognized option '{}' in $currentOp stage.", element.name);
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        if !matches!(element.value, Value::Bool(_)) {
            let what = format!(
                "The '{}' parameter of the $currentOp stage must be a boolean value, but found: {}",
                element.name,
                element.value.kind().name()
            );
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
    }
    Ok(())
}

fn check_sessions(name: &str, spec: Document<'_>) -> Result<()> {
    for element in spec {
        match (element.name.as_bytes(), element.value) {
            (b"allUsers", Value::Bool(_)) | (b"users", Value::Array(_)) => {}
            (b"allUsers", other) => return Err(wrong_type(name, "allUsers", &other, "bool")),
            (b"users", other) => return Err(wrong_type(name, "users", &other, "array")),
            _ => return Err(unknown(name, element.name)),
        }
    }
    if matches!(spec.get("allUsers"), Some(Value::Bool(true))) && spec.get("users").is_some() {
        let what = format!("{name} may not specify {{allUsers:true}} and {{users:[...]}} at the same time");
        return Err(Error::new(ErrorCode::UNSUPPORTED_FORMAT, what));
    }
    Ok(())
}
