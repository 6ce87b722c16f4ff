//! Commands that tell of the process and its machine.

use spinney_document::bson::{Document, DocumentBuilder, Value};
use spinney_document::{Error, ErrorCode, Result};

use super::spec::Call;
use crate::base::clock::now_ms;

/// `whatsmyuri`.
///
/// # Errors
/// None.
pub fn whatsmyuri(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let mut reply = DocumentBuilder::new();
    reply.append("you", call.session.client.address.as_str());
    Ok(reply)
}

/// `hostInfo`.
///
/// # Errors
/// None.
pub fn host_info(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut reply = DocumentBuilder::new();
    reply.open_document("system").append("currentTime", Value::DateTime(now_ms()));
    reply.append("hostname", call.server.topology.address().as_str()).append("cpuAddrSize", 64);
    reply.append("numCores", i32::try_from(cores).unwrap_or(i32::MAX));
    reply.append("cpuArch", std::env::consts::ARCH).append("numaEnabled", false).close();
    reply.open_document("os").append("type", std::env::consts::OS).append("name", std::env::consts::OS);
    reply.append("version", "").close().append("extra", Document::empty());
    Ok(reply)
}

/// `getCmdLineOpts`.
///
/// # Errors
/// None.
pub fn command_line(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let settings = &call.server.settings;
    let mut reply = DocumentBuilder::new();
    reply.open_array("argv");
    for word in &settings.arguments {
        reply.push(word.as_str());
    }
    reply.close().open_document("parsed");
    if settings.test_commands {
        reply.open_document("setParameter").append("enableTestCommands", "1").close();
    }
    if let Some(set) = &settings.replica_set {
        reply.open_document("replication").append("replSet", set.as_str()).close();
    }
    reply.open_document("security").append("authorization", if settings.auth { "enabled" } else { "disabled" });
    reply.close().close();
    Ok(reply)
}

/// `getLog`: events are on standard error and are not kept.
///
/// # Errors
/// `BadValue` (2) for a log that is not known.
pub fn get_log(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let mut reply = DocumentBuilder::new();
    match call.fields().required_text(call.name)? {
        "*" => {
            reply.open_array("names").push("global").push("startupWarnings").close();
        }
        "global" | "startupWarnings" => {
            reply.append("totalLinesWritten", 0).open_array("log").close();
        }
        other => return Err(Error::new(ErrorCode::OPERATION_FAILED, format!("No log named '{other}'"))),
    }
    Ok(reply)
}

/// `shutdown`: the server ends as it does when it is asked to by the system.
///
/// # Errors
/// None.
pub fn shutdown(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    call.server.ending.ask();
    Ok(DocumentBuilder::new())
}
