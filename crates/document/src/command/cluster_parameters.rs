//! Parameters that are kept in the database: `getClusterParameter`, `setClusterParameter`. Each is a document of
//! `config.clusterParameters`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::kept_parameters::{COLLECTION, NAMES, value_of};
use super::parse::wrong_type;
use super::spec::{FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Kind, Timestamp, Value, long_of};
use crate::catalog::expiry::{COLLECTION_SECONDS_MAX, seconds_of};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("getClusterParameter", Target::Value(&[]), "Tells the values of parameters that are kept.", get)
        .any_fields()
        .needs(&[Privilege::on_cluster("getClusterParameter")])
        .admin_only(),
    Command::new(
        "setClusterParameter",
        Target::Value(&[Kind::Document]),
        "Changes a parameter that is kept in the database.",
        set,
    )
    .any_fields()
    .needs(&[Privilege::on_cluster("setClusterParameter")])
    .admin_only(),
];

fn unknown(name: &str) -> Error {
    Error::new(ErrorCode::NO_SUCH_KEY, format!("Unknown server parameter: {name}"))
}

fn get(call: &Call<'_>) -> Result<Reply> {
    let first = call.request.body.first().map_or(Value::Null, |first| first.value);
    let names: Vec<String> = match first {
        Value::String(all) if all == "*" => NAMES.iter().map(|name| (*name).to_owned()).collect(),
        Value::String(name) => vec![name.to_str_lossy().into_owned()],
        Value::Array(names) if names.is_empty() => {
            return Err(Error::bad_value("Must supply at least one cluster server parameter name"));
        }
        Value::Array(names) => {
            let names = (0..).zip(names.values()).map(|(at, name)| match name.as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(wrong_type(&format!("getClusterParameter.{at}"), &name, &[Kind::String])),
            });
            names.collect::<Result<_>>()?
        }
        other => return Err(wrong_type("getClusterParameter", &other, &[Kind::Array, Kind::String])),
    };
    let mut reply = Reply::new();
    reply.open_array("clusterParameters");
    for name in names {
        let name = NAMES.iter().find(|known| **known == name).ok_or_else(|| unknown(&name))?;
        let value = value_of(&call.state.database, name)?;
        let time = value.view().get("clusterParameterTime");
        reply.push_document().append("_id", *name);
        reply.append("clusterParameterTime", time.unwrap_or(Value::Timestamp(Timestamp { time: 0, increment: 0 })));
        value.view().elements().filter(|field| field.name != "_id" && field.name != "clusterParameterTime").for_each(
            |field| {
                reply.append_element(&field);
            },
        );
        reply.close();
    }
    reply.close();
    Ok(reply)
}

fn set(call: &Call<'_>) -> Result<Reply> {
    let given = call.request.body.first().and_then(|first| first.value.as_document()).unwrap_or(Document::empty());
    let mut elements = given.elements();
    let first = elements.next().ok_or_else(|| unknown(""))?;
    if elements.next().is_some() {
        let what = "setClusterParameter only supports setting exactly one parameter";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    let given = first.name.to_str_lossy();
    let name = *NAMES.iter().find(|known| **known == given).ok_or_else(|| unknown(&given))?;
    let Value::Document(value) = first.value else {
        return Err(Error::bad_value(format!("the value of {name} must be an object, and not {}", first.value)));
    };
    let database = &call.state.database;
    let old = value_of(database, name)?;
    let new = checked(name, value, old.view())?;
    let mut stored = DocumentBuilder::new();
    let time = database.catalog().recorder().tick();
    stored.append("_id", name).append("clusterParameterTime", Value::Timestamp(time)).append_all(new.view());
    let collection = database.collection_or_create(COLLECTION)?;
    let stored = stored.finish();
    if !collection.replace_by_id(name, stored.view())?.0 {
        collection.insert_one(stored.view())?;
    }
    call.state.parameters.changed();
    Ok(Reply::new())
}

/// The fields of a new value: what is not given stays, and what is null is the default again.
fn checked(name: &str, value: Document<'_>, old: Document<'_>) -> Result<DocumentBuf> {
    let field = match name {
        "changeStreamOptions" => "preAndPostImages",
        "changeStreams" => "expireAfterSeconds",
        "defaultMaxTimeMS" => "readOperations",
        _ => "enabled",
    };
    for element in value {
        let given = element.name.to_str_lossy();
        if given.starts_with('$') {
            let what = format!("the field '{given}' of {name} begins with a dollar");
            return Err(Error::new(ErrorCode::DOLLAR_PREFIXED_FIELD_NAME, what));
        }
        if given != field {
            return Err(Error::bad_value(format!("{name} has no field '{given}'")));
        }
    }
    let mut new = DocumentBuilder::new();
    match (name, value.get(field)) {
        ("changeStreamOptions", given) => {
            let images = given.and_then(|images| images.as_document());
            let seconds = images.and_then(|images| images.get("expireAfterSeconds"));
            let wrong = || Error::bad_value("'preAndPostImages' must be {expireAfterSeconds: <seconds> or \"off\"}");
            let seconds = seconds.filter(|_| images.is_some_and(|images| images.elements().count() == 1));
            let seconds = seconds.ok_or_else(wrong)?;
            new.open_document(field);
            match (seconds.as_str(), seconds_of(&seconds, COLLECTION_SECONDS_MAX)) {
                (Some("off"), _) => new.append("expireAfterSeconds", "off"),
                (_, Ok(seconds @ 1..)) => new.append("expireAfterSeconds", seconds),
                _ => return Err(wrong()),
            };
            new.close();
        }
        (_, None) => match old.element(field) {
            Some(old) => drop(new.append_element(&old)),
            None => return Err(Error::bad_value(format!("{name} must have the field '{field}'"))),
        },
        ("pauseMigrationsDuringMultiUpdates", Some(enabled)) => match enabled {
            Value::Bool(_) => drop(new.append(field, enabled)),
            _ if enabled.is_nullish() => drop(new.append(field, false)),
            _ => return Err(wrong_type(&format!("{name}.{field}"), &enabled, &[Kind::Bool])),
        },
        (_, Some(number)) => {
            let (least, default) = if name == "changeStreams" { (1, 3600) } else { (0, 0) };
            let kinds = FieldType::Long.kinds();
            let expires = field == "expireAfterSeconds" && !number.is_nullish();
            let is_refused = expires && seconds_of(&number, COLLECTION_SECONDS_MAX).is_err();
            let number = match long_of(&number) {
                _ if number.is_nullish() => default,
                Some(whole) if kinds.contains(&number.kind()) => whole,
                _ => return Err(wrong_type(&format!("{name}.{field}"), &number, kinds)),
            };
            if number < least || is_refused {
                return Err(Error::bad_value(format!("'{field}' of {name} must be {least} or more")));
            }
            new.append(field, number);
        }
    }
    Ok(new.finish())
}
