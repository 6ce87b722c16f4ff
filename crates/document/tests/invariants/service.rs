//! Commands in JSON, and what their replies have.

use spinney::Options;
use spinney::env::sim::SimEnv;
use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service};

/// A service over the database of a simulated machine.
pub(crate) fn open(machine: &SimEnv, memory_bytes: u64) -> Service {
    let options = Options::default().memory_bytes(memory_bytes);
    let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
    Service::new(Database::with_engine(engine).unwrap())
}

/// Runs a command in the database `app`, or `admin` for those that are only there.
pub(crate) fn run(service: &Service, command: &DocumentBuf) -> DocumentBuf {
    let name = command.view().first().unwrap().name.to_str_lossy().into_owned();
    let everywhere = service.command(&name).is_none_or(|command| command.everywhere);
    let database = if everywhere { "app" } else { "admin" };
    service.run(&Request { database, body: command.view(), sequences: &[], client: &Client::default() })
}

/// As [`run`] with a command in JSON.
pub(crate) fn json(service: &Service, command: &str) -> DocumentBuf {
    run(service, &DocumentBuf::from_json(command).unwrap_or_else(|error| panic!("{command}: {error}")))
}

/// As [`json`] with a command that must succeed.
pub(crate) fn ok(service: &Service, command: &str) -> DocumentBuf {
    let reply = json(service, command);
    let text = reply.view().to_json();
    assert!(text.ends_with(r#""ok":1.0}"#) && !text.contains("writeErrors"), "{command}\n{text}");
    reply
}

/// A command whose first batch has at most so many documents. A find has its size beside its other fields, all other
/// commands end with `"cursor":{}}`.
pub(crate) fn sized(command: &str, size: usize) -> String {
    match command.strip_suffix(r#""cursor":{}}"#) {
        Some(front) => format!(r#"{front}"cursor":{{"batchSize":{size}}}}}"#),
        None => format!(r#"{},"batchSize":{size}}}"#, command.strip_suffix('}').unwrap()),
    }
}

/// The next batch of a cursor, of at most so many documents.
pub(crate) fn more(service: &Service, id: i64, collection: &str, size: usize) -> DocumentBuf {
    let id = format!(r#"{{"$numberLong":"{id}"}}"#);
    json(service, &format!(r#"{{"getMore":{id},"collection":"{collection}","batchSize":{size}}}"#))
}

/// The id of the cursor of a reply, and the documents of its batch.
pub(crate) fn batch(reply: &DocumentBuf) -> (i64, Vec<String>) {
    let cursor = reply.view().get("cursor").unwrap_or_else(|| panic!("{reply:?}"));
    let cursor = cursor.as_document().unwrap();
    let documents = cursor.get("firstBatch").or(cursor.get("nextBatch")).unwrap().as_array().unwrap();
    let id = cursor.get("id").unwrap().as_exact_i64().unwrap();
    (id, documents.values().map(|document| document.to_json()).collect())
}
