//! What MongoDB stores of a replica set, and a member tells here: its configuration as the only document of
//! `local.system.replset`, and the section `repl` of `serverStatus`.

use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value};
use spinney_document::command::service::failed;
use spinney_document::expr::Context;
use spinney_document::query::Filter;
use spinney_document::{Error, ErrorCode, Result};

use super::spec::Incoming;
use super::{handshake, replica_set};
use crate::base::clock::now_ms;
use crate::base::fields::truth;
use crate::state::Server;

/// Where MongoDB stores the configuration.
const DATABASE: &str = "local";
const COLLECTION: &str = "system.replset";

/// Whether a command reads the collection of the configuration.
pub fn is_read(incoming: &Incoming<'_>) -> bool {
    incoming.database == DATABASE
        && ["find", "aggregate", "count"].contains(&incoming.name())
        && incoming.body.first().is_some_and(|first| first.value.as_str() == Some(COLLECTION))
}

/// The reply to a command that reads the collection: `run` has it as an aggregation of the one document.
pub fn read(server: &Server, incoming: &Incoming<'_>, run: impl FnOnce(&Incoming<'_>) -> DocumentBuf) -> DocumentBuf {
    // A member without a configuration has an empty collection.
    let stored = replica_set::config_document(server).ok();
    if incoming.name() == "count" {
        return count(stored, incoming).unwrap_or_else(|error| failed(&error));
    }
    let mut body = DocumentBuilder::new();
    body.append("aggregate", 1);
    body.open_array("pipeline").push_document().open_array("$documents");
    if let Some(stored) = &stored {
        body.push_document().append_all(stored.view()).close();
    }
    body.close().close();
    if incoming.name() == "find" {
        let stages = [
            ("filter", "$match"),
            ("sort", "$sort"),
            ("skip", "$skip"),
            ("limit", "$limit"),
            ("projection", "$project"),
        ];
        for (field, stage) in stages {
            let given = incoming.body.get(field).filter(|value| {
                // Zero is no limit, and an empty document changes nothing.
                !matches!(value, Value::Document(document) if document.is_empty()) && value.as_f64() != Some(0.0)
            });
            if let Some(value) = given {
                body.push_document().append(stage, value).close();
            }
        }
    } else if let Some(stages) = incoming.body.get("pipeline").as_ref().and_then(|pipeline| pipeline.as_array()) {
        stages.values().for_each(|stage| {
            body.push(stage);
        });
    }
    body.close();
    let own =
        ["aggregate", "find", "pipeline", "filter", "sort", "skip", "limit", "projection", "singleBatch", "batchSize"];
    for element in incoming.body.elements().filter(|element| !own.iter().any(|own| element.name == *own)) {
        body.append_element(&element);
    }
    if incoming.body.element("cursor").is_none() {
        body.open_document("cursor").close();
    }
    let body = body.finish();
    run(&Incoming::new(incoming.database, body.view(), incoming.sequences))
}

fn count(stored: Option<DocumentBuf>, incoming: &Incoming<'_>) -> Result<DocumentBuf> {
    let filter = match incoming.body.get("query") {
        None | Some(Value::Null) => None,
        Some(Value::Document(filter)) => Some(Filter::parse(filter, &Context::new(now_ms()))?),
        Some(_) => return Err(Error::new(ErrorCode::TYPE_MISMATCH, "the query of a count is a document")),
    };
    let found = match (&stored, &filter) {
        (Some(stored), Some(filter)) => filter.matches(stored.view())?,
        (stored, _) => stored.is_some(),
    };
    let mut reply = DocumentBuilder::new();
    reply.append("n", i32::from(found)).append("ok", 1.0);
    Ok(reply.finish())
}

/// The reply to a `serverStatus`, with the section `repl` if the server is in a set and the section is not left out.
pub fn with_section(server: &Server, incoming: &Incoming<'_>, reply: DocumentBuf) -> DocumentBuf {
    // All commands come by here: their fields are not looked through.
    if incoming.name() != "serverStatus" || server.topology.set().is_none() {
        return reply;
    }
    if incoming.body.get("repl").is_some_and(|asked| !truth(&asked).unwrap_or(false)) {
        return reply;
    }
    let mut whole = DocumentBuilder::new();
    for element in reply.view().elements() {
        if element.name == "ok" {
            whole.open_document("repl");
            handshake::append_version(&mut whole, server, server.topology.version());
            handshake::append_role(&mut whole, server, false);
            whole.close();
        }
        whole.append_element(&element);
    }
    whole.finish()
}
