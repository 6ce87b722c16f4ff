//! Commands about the process.

use spinney_document::Result;
use spinney_document::bson::DocumentBuilder;

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
