//! `getParameter` and `setParameter`: what drivers, shells and tests ask for.

use spinney_document::bson::DocumentBuilder;
use spinney_document::{Error, ErrorCode, Result};

use super::spec::Call;
use crate::base::fields::truth;
use crate::state::Settings;

/// The version that clients take the data to be of.
const FEATURE_VERSION: &str = "7.0";

/// A parameter: its name and how its value is appended.
type Parameter = (&'static str, fn(&mut DocumentBuilder, &Settings));

/// The parameters. None can be changed while the server runs.
const PARAMETERS: [Parameter; 4] = [
    ("authenticationMechanisms", |reply, _| {
        reply.open_array("authenticationMechanisms").push("SCRAM-SHA-1").push("SCRAM-SHA-256").close();
    }),
    ("enableTestCommands", |reply, settings| {
        reply.append("enableTestCommands", settings.test_commands);
    }),
    ("featureCompatibilityVersion", |reply, _| {
        reply.open_document("featureCompatibilityVersion").append("version", FEATURE_VERSION).close();
    }),
    ("requireApiVersion", |reply, _| {
        reply.append("requireApiVersion", false);
    }),
];

/// `getParameter`: the parameters that the command's fields name, or all for `*` and `{allParameters: true}`.
///
/// # Errors
/// `InvalidOptions` (72) when no parameter is named that is known.
pub fn get(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let first = call.body.first().map(|first| first.value);
    let options = first.and_then(|value| value.as_document());
    let all = first.is_some_and(|value| value.as_str() == Some("*"))
        || options.and_then(|options| options.get("allParameters")).as_ref().and_then(truth) == Some(true);
    let mut reply = DocumentBuilder::new();
    let mut found = all;
    for (name, append) in PARAMETERS {
        if all || call.body.elements().skip(1).any(|element| element.name == name) {
            append(&mut reply, &call.server.settings);
            found = true;
        }
    }
    if found { Ok(reply) } else { Err(Error::new(ErrorCode::INVALID_OPTIONS, "no option found to get")) }
}

/// `setParameter`: none can be changed.
///
/// # Errors
/// `IllegalOperation` (20) for a parameter that is known, `InvalidOptions` (72) for others.
pub fn set(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let own = |name: &str| !name.starts_with('$') && !["lsid", "comment", "writeConcern", "apiVersion"].contains(&name);
    let names = call.body.elements().skip(1).filter_map(|element| element.name.as_str()).find(|name| own(name));
    let Some(name) = names else {
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, "no option found to set, use help:true to see options"));
    };
    if PARAMETERS.iter().any(|(known, _)| *known == name) {
        let what = format!("not allowed to change [{name}] at runtime");
        return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
    }
    let what = format!("attempted to set unrecognized parameter [{name}], use help:true to see options");
    Err(Error::new(ErrorCode::INVALID_OPTIONS, what))
}
