//! Commands about the process.

use spinney_document::bson::{Array, DocumentBuilder, Kind, Value};
use spinney_document::command::parse::wrong_type;
use spinney_document::{Error, ErrorCode, Result};

use super::spec::Call;

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
    let path = call.server.service.state().database.engine().path();
    reply.open_document("storage").append("dbPath", &*path.to_string_lossy()).close();
    reply.open_document("security").append("authorization", if settings.auth { "enabled" } else { "disabled" });
    reply.close().close();
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

/// `dropConnections`: a server that is alone has no connections to others. The addresses are checked.
///
/// # Errors
/// `TypeMismatch` (14) for what is no string, `FailedToParse` (9) for what is no address.
pub fn drop(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    let hosts = call.body.get("hostAndPort").and_then(|hosts| hosts.as_array()).unwrap_or(Array::empty());
    for (at, host) in (0..).zip(hosts.values()).filter(|(_, host)| !host.is_nullish()) {
        let text = host
            .as_str()
            .ok_or_else(|| wrong_type(&format!("dropConnections.hostAndPort.{at}"), &host, &[Kind::String]))?;
        if !is_address(text) {
            let what = format!("'{text}' is no host with a port");
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
    }
    Ok(DocumentBuilder::new())
}

/// Whether a text is `host`, `host:port` or `[address]:port`.
fn is_address(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None => return false,
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    !host.is_empty() && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// `logRotate`: the log goes to standard error, and has no files that could be changed.
///
/// # Errors
/// `NoSuchKey` (4) for another log than that of the server.
pub fn rotate(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    match call.body.first().map(|first| first.value) {
        Some(Value::String(log)) if log != "server" => {
            let what = format!("Unknown log type for rotation: {log}");
            Err(Error::new(ErrorCode::NO_SUCH_KEY, what))
        }
        _ => Ok(DocumentBuilder::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_perhaps_a_port() {
        for right in ["a", "a.b:1", "10.0.0.1:65535", "[::1]:27017", "[::1]"] {
            assert!(is_address(right), "{right}");
        }
        for wrong in ["", ":1", "a:", "a:0", "a:65536", "a:b", "a:1:2", "a:-1", "[::1]27017"] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }
}
