//! Whether a server is well.

use spinney_document::doc;

use crate::state::Server;

/// Why the server is of no use, if that is so.
pub(super) fn trouble(server: &Server) -> Option<String> {
    if server.ending.is_asked() {
        return Some("the server ends".to_owned());
    }
    let engine = server.service.database().engine();
    if !engine.is_read_only()
        && let Err(error) = engine.check_writable()
    {
        return Some(error.to_string());
    }
    server.service.run_command("admin", doc! {"ping": 1}.view()).err().map(|error| error.message().to_owned())
}
