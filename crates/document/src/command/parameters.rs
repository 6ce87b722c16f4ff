//! Parameters of the server: `getParameter`, `setParameter`, `setFeatureCompatibilityVersion`.

use std::sync::atomic::Ordering;

use spinney::Durability;

use super::call::{Call, Reply};
use super::commands::Command;
use super::generic;
use super::parse::wrong_type;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuilder, Kind, Value};
use crate::collection::WriteOptions;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("getParameter", Target::Value(&[]), "Tells the values of parameters, of all with '*'.", get)
        .any_fields()
        .needs(&[Privilege::on_cluster("getParameter")])
        .admin_only(),
    Command::new("setParameter", Target::Value(&[]), "Changes a parameter.", set)
        .any_fields()
        .needs(&[Privilege::on_cluster("setParameter")])
        .admin_only(),
    Command::new(
        "getDefaultRWConcern",
        Target::Value(&[]),
        "Tells which read and write concern commands have that name none.",
        default_concerns,
    )
    .fields(&[Field::optional("inMemory", FieldType::Bool)])
    .needs(&[Privilege::on_cluster("getDefaultRWConcern")])
    .admin_only(),
    Command::new(
        "setFeatureCompatibilityVersion",
        Target::Value(&[Kind::String]),
        "Would change the version of the data, of which there is one.",
        set_version,
    )
    .fields(&[
        Field::optional("confirm", FieldType::Bool),
        Field::optional("fromConfigServer", FieldType::Bool),
        Field::optional("downgradeOnDiskChanges", FieldType::Bool),
    ])
    .needs(&[Privilege::on_cluster("setFeatureCompatibilityVersion")])
    .writes()
    .admin_only(),
];

/// A parameter.
struct Parameter {
    name: &'static str,
    at_startup: bool,
    get: fn(&Call<'_>, &mut DocumentBuilder, &str),
    /// Nothing for one that is not changed while the server runs.
    set: Option<fn(&Call<'_>, Value<'_>) -> Result<()>>,
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "authSchemaVersion",
        at_startup: false,
        get: |_, reply, name| {
            // What tools ask for before they copy users: the form of users and roles since MongoDB 3.0.
            reply.append(name, 5);
        },
        set: None,
    },
    Parameter {
        name: "authenticationMechanisms",
        at_startup: true,
        get: |_, reply, name| {
            reply.open_array(name).push("SCRAM-SHA-1").push("SCRAM-SHA-256").close();
        },
        set: None,
    },
    Parameter {
        name: "cursorTimeoutMillis",
        at_startup: true,
        get: |call, reply, name| {
            let idle = call.state.settings.cursor_idle_ms.load(Ordering::Relaxed);
            reply.append(name, i64::try_from(idle).unwrap_or(i64::MAX));
        },
        set: Some(set_cursor_timeout),
    },
    Parameter {
        name: "enableTestCommands",
        at_startup: true,
        get: |call, reply, name| {
            reply.append(name, call.state.options.test_commands);
        },
        set: None,
    },
    Parameter {
        name: "featureCompatibilityVersion",
        at_startup: false,
        get: |call, reply, name| {
            reply.open_document(name).append("version", &version(call)).close();
        },
        set: None,
    },
    Parameter {
        name: "logComponentVerbosity",
        at_startup: true,
        get: |call, reply, name| call.state.verbosity.append_to(reply, name),
        set: Some(|call, value| call.state.verbosity.set(value)),
    },
    Parameter {
        name: "logLevel",
        at_startup: true,
        get: |call, reply, name| {
            reply.append(name, call.state.verbosity.level());
        },
        set: Some(|call, value| call.state.verbosity.set_level(number("logLevel", &value)?)),
    },
    Parameter {
        name: "maxBSONDepth",
        at_startup: true,
        get: |_, reply, name| {
            reply.append(name, i32::try_from(crate::bson::MESSAGE_DEPTH_MAX).unwrap_or(i32::MAX));
        },
        set: None,
    },
    Parameter {
        name: "quiet",
        at_startup: true,
        get: |call, reply, name| {
            reply.append(name, call.state.settings.quiet.load(Ordering::Relaxed));
        },
        set: Some(|call, value| {
            call.state.settings.quiet.store(crate::expr::value::truth(&value), Ordering::Relaxed);
            Ok(())
        }),
    },
    Parameter {
        name: "schemaChangeWaitMillis",
        at_startup: true,
        get: |call, reply, name| {
            let wait = call.state.database.catalog().change_wait().as_millis();
            reply.append(name, i64::try_from(wait).unwrap_or(i64::MAX));
        },
        set: Some(|call, value| {
            let wait = u64::try_from(number("schemaChangeWaitMillis", &value)?);
            let wait = wait.map_err(|_| Error::bad_value("schemaChangeWaitMillis must not be negative"))?;
            call.state.database.catalog().set_change_wait(wait);
            Ok(())
        }),
    },
    Parameter {
        name: "transactionLifetimeLimitSeconds",
        at_startup: true,
        get: |call, reply, name| {
            reply.append(name, i32::try_from(call.state.sessions.transaction_ms() / 1000).unwrap_or(i32::MAX));
        },
        set: Some(|call, value| {
            let seconds = at_least_one("transactionLifetimeLimitSeconds", &value)?;
            call.state.sessions.set_transaction_ms(i64::from(seconds) * 1000);
            Ok(())
        }),
    },
    Parameter {
        name: "ttlMonitorEnabled",
        at_startup: true,
        get: |call, reply, name| {
            reply.append(name, call.state.settings.expiry_enabled.load(Ordering::Relaxed));
        },
        set: Some(|call, value| {
            call.state.settings.expiry_enabled.store(truth("ttlMonitorEnabled", &value)?, Ordering::Relaxed);
            Ok(())
        }),
    },
    Parameter {
        name: "ttlMonitorSleepSecs",
        at_startup: true,
        get: |call, reply, name| {
            let seconds = call.state.settings.expiry_seconds.load(Ordering::Relaxed);
            reply.append(name, i32::try_from(seconds).unwrap_or(i32::MAX));
        },
        set: Some(|call, value| {
            let seconds = at_least_one("ttlMonitorSleepSecs", &value)?;
            call.state.settings.expiry_seconds.store(u64::from(seconds.unsigned_abs()), Ordering::Relaxed);
            Ok(())
        }),
    },
];

fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

/// The truth of an option of `getParameter`.
fn truth(name: &str, value: &Value<'_>) -> Result<bool> {
    match value {
        Value::Bool(_) => Ok(crate::expr::value::truth(value)),
        other if other.kind().is_number() => Ok(crate::expr::value::truth(value)),
        other => Err(wrong_type(name, other, FieldType::Bool.kinds())),
    }
}

fn number(name: &str, value: &Value<'_>) -> Result<i64> {
    if let Value::Bool(is) = value {
        return Ok(i64::from(*is));
    }
    let number = value.as_number().and_then(|number| number.trunc_to_i64());
    number.ok_or_else(|| Error::bad_value(format!("the parameter {name} is a number, and not {value}")))
}

/// The value of a parameter that is a number of 1 or more.
fn at_least_one(name: &str, value: &Value<'_>) -> Result<i32> {
    let number = number(name, value)?;
    let least = i32::try_from(number).ok().filter(|number| *number >= 1);
    least.ok_or_else(|| Error::bad_value(format!("{name} must be from 1 to {}, and not {number}", i32::MAX)))
}

fn set_cursor_timeout(call: &Call<'_>, value: Value<'_>) -> Result<()> {
    let number = number("cursorTimeoutMillis", &value)?;
    let idle = u64::try_from(number).ok().filter(|idle| *idle > 0);
    let idle = idle.ok_or_else(|| Error::bad_value("cursorTimeoutMillis must be greater than 0"))?;
    call.state.settings.cursor_idle_ms.store(idle, Ordering::Relaxed);
    Ok(())
}

/// The version of the data: the first two numbers of the server's.
fn version(call: &Call<'_>) -> String {
    call.state.options.version.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn get(call: &Call<'_>) -> Result<Reply> {
    let first = call.request.body.first().map_or(Value::Null, |first| first.value);
    let options = first.as_document().unwrap_or(Document::empty());
    let option = |name: &str| match options.get(name).filter(|value| !value.is_nullish()) {
        Some(value) => truth(&format!("getParameter.{name}"), &value),
        None => Ok(false),
    };
    let (all, details) = (option("allParameters")? || first.as_str() == Some("*"), option("showDetails")?);
    let at = options.get("setAt").filter(|value| !value.is_nullish());
    if let Some(other) = at.filter(|value| value.as_str().is_none()) {
        return Err(wrong_type("getParameter.setAt", &other, &[Kind::String]));
    }
    let at = at.and_then(|value| value.as_str());
    let wanted = |parameter: &&Parameter| match at {
        Some("startup") => parameter.at_startup,
        Some("runtime") => parameter.set.is_some(),
        _ => true,
    };
    let mut reply = Reply::new();
    if all {
        PARAMETERS.iter().filter(wanted).for_each(|parameter| append(call, &mut reply, parameter, details));
        return Ok(reply);
    }
    for element in own_fields(call.request.body) {
        if let Some(parameter) = find(&element).filter(|parameter| wanted(parameter)) {
            append(call, &mut reply, parameter, details);
        }
    }
    if reply.is_empty() {
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, "no option found to get"));
    }
    Ok(reply)
}

fn append(call: &Call<'_>, reply: &mut Reply, parameter: &Parameter, details: bool) {
    if !details {
        return (parameter.get)(call, reply, parameter.name);
    }
    reply.open_document(parameter.name);
    (parameter.get)(call, reply, "value");
    reply.append("settableAtRuntime", parameter.set.is_some()).append("settableAtStartup", parameter.at_startup);
    reply.close();
}

/// The names of the fields that are no generic ones.
fn own_fields(body: Document<'_>) -> impl Iterator<Item = String> {
    let names = body.elements().skip(1).map(|element| element.name.to_str_lossy().into_owned());
    names.filter(|name| !generic::FIELDS.iter().any(|field| field.name == name))
}

fn set(call: &Call<'_>) -> Result<Reply> {
    let invalid = |what: String| Error::new(ErrorCode::INVALID_OPTIONS, what);
    let names: Vec<String> = own_fields(call.request.body).collect();
    if names.is_empty() {
        return Err(invalid("no option found to set, use help:true to see options".to_owned()));
    }
    let mut parameters = Vec::new();
    for name in &names {
        let parameter = find(name).ok_or_else(|| {
            invalid(format!("attempted to set unrecognized parameter [{name}], use help:true to see options"))
        })?;
        let Some(set) = parameter.set else {
            let what = format!("not allowed to change [{name}] at runtime");
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
        };
        parameters.push((parameter, set));
    }
    let mut reply = Reply::new();
    for (at, (parameter, set)) in parameters.into_iter().enumerate() {
        if at == 0 {
            (parameter.get)(call, &mut reply, "was");
        }
        set(call, call.request.body.get(parameter.name).unwrap_or(Value::Null))?;
    }
    Ok(reply)
}

fn default_concerns(call: &Call<'_>) -> Result<Reply> {
    if !call.state.options.replica_set {
        let what = "'getDefaultRWConcern' is not supported on standalone nodes.";
        return Err(Error::new(ErrorCode::new(51_300), what));
    }
    let mut reply = Reply::new();
    reply.open_document("defaultReadConcern").append("level", "local").close();
    reply.open_document("defaultWriteConcern");
    match call.durability(&WriteOptions { durability: call.state.options.durability, ..WriteOptions::default() }) {
        Durability::Sync => reply.append("w", "majority"),
        _ => reply.append("w", 1).append("j", false),
    };
    reply.append("wtimeout", 0).close();
    reply.append("defaultWriteConcernSource", "implicit").append("defaultReadConcernSource", "implicit");
    if call.is_set("inMemory") {
        reply.append("inMemory", true);
    }
    reply.append("localUpdateWallClockTime", Value::DateTime(call.state.started_ms));
    Ok(reply)
}

fn set_version(call: &Call<'_>) -> Result<Reply> {
    let wanted = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    let there = version(call);
    if wanted != there {
        let what = format!("Invalid feature compatibility version value '{wanted}'; expected '{there}'");
        return Err(Error::new(ErrorCode::new(4_926_900), what));
    }
    if !call.is_set("confirm") {
        let what =
            format!("Once you have upgraded to {there}, you cannot go back; run the command again with confirm: true");
        return Err(Error::new(ErrorCode::new(7_369_100), what));
    }
    Ok(Reply::new())
}
