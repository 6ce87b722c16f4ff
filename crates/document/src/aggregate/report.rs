//! `$collStats`, `$indexStats`, `$currentOp` and others: what the storage or the server tells of itself.

use std::sync::Arc;

use super::spec::{check_once, mismatch, missing, text, unknown, whole};
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
        // This stage reports a second field as one that it does not know.
        "$planCacheStats" => {}
        _ => check_once(name, spec)?,
    }
    match name {
        "$collStats" => check_collection(spec)?,
        "$indexStats" if !spec.is_empty() => return Err(no_document(name, &value)),
        "$planCacheStats" => check_plans(spec)?,
        "$currentOp" => check_operations(spec)?,
        "$listSessions" | "$listLocalSessions" => check_sessions(name, spec)?,
        "$listClusterCatalog" => check_choices(name, spec, &["shards", "balancingConfiguration"])?,
        "$querySettings" => check_choices(name, spec, &["showDebugQueryShape"])?,
        _ => {}
    }
    Ok(vec![Arc::new(Told(Report { name, spec: DocumentBuf::from(spec) }))])
}

/// `$planCacheStats` takes `allHosts` alone.
fn check_plans(spec: Document<'_>) -> Result<()> {
    let failed = |what: String| Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
    let mut seen = false;
    for element in spec {
        if element.name != "allHosts" || seen {
            return failed(format!("$planCacheStats parameters object contains an unrecognized '{}'", element.name));
        }
        seen = true;
        match element.value {
            Value::Bool(false) => {}
            Value::Bool(true) => {
                return Err(error(4_503_200, "$planCacheStats takes 'allHosts: true' only when there are shards"));
            }
            other => {
                let what = format!("allHosts is not a bool but a {}", other.kind().name());
                return Err(error(13111, what));
            }
        }
    }
    Ok(())
}

fn no_document(name: &str, value: &Value<'_>) -> Error {
    let kind = value.kind().name();
    match name {
        "$collStats" => error(5_447_000, format!("$collStats must take a nested object but found a {kind}")),
        "$listClusterCatalog" => {
            error(9_621_302, format!("$listClusterCatalog must take a nested object but found: {kind}"))
        }
        "$querySettings" => error(7_746_800, format!("$querySettings must take a nested object but found: {kind}")),
        "$indexStats" => error(28803, "The $indexStats stage specification must be an empty object"),
        "$planCacheStats" => Error::new(
            ErrorCode::FAILED_TO_PARSE,
            format!("$planCacheStats must take a nested object but found: {kind}"),
        ),
        _ => Error::new(
            ErrorCode::TYPE_MISMATCH,
            format!("{name} options must be specified in an object, but found: {kind}"),
        ),
    }
}

fn check_collection(spec: Document<'_>) -> Result<()> {
    for element in spec {
        let field = element.name.to_str_lossy();
        let known = ["latencyStats", "storageStats", "count", "queryExecStats", "operationStats"];
        match (&*field, element.value) {
            (name, _) if !known.contains(&name) => return Err(unknown("$collStats", field)),
            (_, value) if value.is_nullish() => {}
            ("count" | "queryExecStats", Value::Document(inner)) if !inner.is_empty() => {
                return Err(error(31170, format!("the option '{field}' of $collStats must be an empty document")));
            }
            ("storageStats", Value::Document(inner)) => {
                if let Some(scale) = inner.get("scale").filter(|scale| !scale.is_nullish()) {
                    scale_of(&scale)?;
                }
            }
            ("latencyStats", Value::Document(inner)) => {
                if let Some(other) = inner.elements().find(|option| option.name != "histograms") {
                    return Err(unknown("$collStats.latencyStats", other.name));
                }
                match inner.get("histograms") {
                    None | Some(Value::Bool(_)) => {}
                    Some(other) => return Err(mismatch("$collStats.latencyStats", "histograms", &other, "bool")),
                }
            }
            (_, Value::Document(_)) => {}
            (_, other) => return Err(mismatch("$collStats", field, &other, "object")),
        }
    }
    Ok(())
}

/// By how much sizes are divided: from 1 to the greatest int32.
///
/// # Errors
/// `TypeMismatch` (14), and `BadValue` (2) for less than 1.
pub fn scale_of(scale: &Value<'_>) -> Result<i64> {
    let number = scale.as_number().ok_or_else(|| mismatch("$collStats.storageStats", "scale", scale, "long"))?;
    match whole(number) {
        scale @ 1.. => Ok(scale.min(i64::from(i32::MAX))),
        _ => Err(Error::bad_value("scale has to be a number of at least 1")),
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
            return Err(unknown("$currentOp", element.name));
        }
        if !matches!(element.value, Value::Bool(_)) {
            return Err(mismatch("$currentOp", element.name, &element.value, "bool"));
        }
    }
    Ok(())
}

fn check_sessions(name: &str, spec: Document<'_>) -> Result<()> {
    for element in spec {
        match (element.name.as_bytes(), element.value) {
            (b"allUsers" | b"users", value) if value.is_nullish() => {}
            (b"allUsers", Value::Bool(_)) => {}
            (b"users", Value::Array(users)) => users.values().try_for_each(|user| check_user(name, &user))?,
            (b"allUsers", other) => return Err(mismatch(name, "allUsers", &other, "bool")),
            (b"users", other) => return Err(mismatch(name, "users", &other, "array")),
            _ => return Err(unknown(name, element.name)),
        }
    }
    if matches!(spec.get("allUsers"), Some(Value::Bool(true)))
        && spec.get("users").and_then(|users| users.as_array()).is_some_and(|users| !users.is_empty())
    {
        let what = format!("{name} may not specify {{allUsers:true}} and {{users:[...]}} at the same time");
        return Err(Error::new(ErrorCode::UNSUPPORTED_FORMAT, what));
    }
    Ok(())
}

/// Checks a stage that takes choices alone.
fn check_choices(stage: &str, spec: Document<'_>, choices: &[&str]) -> Result<()> {
    for element in spec {
        if !choices.iter().any(|choice| element.name == *choice) {
            return Err(unknown(stage, element.name));
        }
        if !matches!(element.value, Value::Bool(_)) {
            return Err(mismatch(stage, element.name, &element.value, "bool"));
        }
    }
    Ok(())
}

/// Checks a user: `{user: .., db: ..}`.
fn check_user(name: &str, user: &Value<'_>) -> Result<()> {
    let stage = format!("{name}.users");
    if user.is_nullish() {
        return Ok(());
    }
    let Value::Document(user) = user else { return Err(mismatch(name, "users", user, "object")) };
    if let Some(other) = user.elements().find(|element| element.name != "user" && element.name != "db") {
        return Err(unknown(&stage, other.name));
    }
    for field in ["user", "db"] {
        text(&stage, *user, field)?.ok_or_else(|| missing(&stage, field))?;
    }
    Ok(())
}
