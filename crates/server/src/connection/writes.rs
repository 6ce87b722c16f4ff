//! `OP_INSERT`, `OP_UPDATE`, `OP_DELETE` and `OP_KILL_CURSORS` as the commands that they are today. They have no reply;
//! what a write did is told by `getLastError`.

use spinney_document::bson::{Document, DocumentBuilder};

use crate::base::fields::whole;
use crate::command::Session;
use crate::command::dispatch::{Outcome, run as dispatch};
use crate::command::session::LastWrite;
use crate::command::spec::Incoming;
use crate::state::Server;
use spinney_wire::legacy::Legacy;
use spinney_wire::message::Sequence;

/// Runs a request without a reply.
pub fn run(server: &Server, session: &mut Session, request: &Legacy<'_>) {
    match request {
        Legacy::Insert { namespace, ordered, documents } => {
            let sequences = [("documents", documents.clone())];
            write(server, session, "insert", namespace, *ordered, &sequences);
        }
        Legacy::Update { namespace, upsert, multi, filter, update } => {
            let mut statement = DocumentBuilder::new();
            statement.append("q", *filter).append("u", *update).append("upsert", *upsert).append("multi", *multi);
            let statement = statement.finish();
            write(server, session, "update", namespace, true, &[("updates", vec![statement.view()])]);
        }
        Legacy::Delete { namespace, single, filter } => {
            let mut statement = DocumentBuilder::new();
            statement.append("q", *filter).append("limit", i32::from(*single));
            let statement = statement.finish();
            write(server, session, "delete", namespace, true, &[("deletes", vec![statement.view()])]);
        }
        Legacy::KillCursors { cursors } => {
            // The opcode names no collection, and cursors are found by their number.
            let open = &server.service.state().cursors;
            for id in cursors {
                if open.owner(*id).is_some_and(|owner| owner.user == session.client.user) {
                    open.remove(*id);
                }
            }
        }
        Legacy::GetMore { .. } => {}
    }
}

/// Runs a write and notes what it did.
fn write(
    server: &Server,
    session: &mut Session,
    name: &str,
    namespace: &str,
    ordered: bool,
    sequences: &[Sequence<'_>],
) {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    let mut command = DocumentBuilder::new();
    command.append(name, collection).append("ordered", ordered);
    let command = command.finish();
    if let Outcome::Reply(reply) = dispatch(server, session, &Incoming::new(database, command.view(), sequences)) {
        let reply = Document::from_checked_bytes(&reply).unwrap_or(Document::empty());
        session.last_write = outcome(name, reply);
    }
}

/// What the reply of a write says.
fn outcome(name: &str, reply: Document<'_>) -> LastWrite {
    let first = |array: &str| reply.get(array).and_then(|array| array.as_array()?.get(0)?.as_document());
    let problem = first("writeErrors").or_else(|| reply.element("errmsg").map(|_| reply));
    let error = problem.map(|problem| {
        let code = problem.get("code").as_ref().and_then(whole).and_then(|code| i32::try_from(code).ok());
        let message = problem.get("errmsg").and_then(|message| message.as_str()).unwrap_or_default();
        (code.unwrap_or_default(), message.to_owned())
    });
    let upserted = first("upserted").and_then(|upserted| upserted.element("_id")).map(|id| {
        let mut builder = DocumentBuilder::new();
        builder.append_element(&id);
        builder.finish()
    });
    let count = reply.get("n").as_ref().and_then(whole).unwrap_or_default();
    let updated_existing = (name == "update").then(|| count > 0 && upserted.is_none());
    // An insert tells no number there.
    LastWrite { count: if name == "insert" { 0 } else { count }, updated_existing, error, upserted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::bson::{DocumentBuf, Kind};

    fn told(name: &str, reply: &str) -> LastWrite {
        outcome(name, DocumentBuf::from_json(reply).unwrap().view())
    }

    #[test]
    fn the_outcome_of_a_write_is_what_old_drivers_ask_for() {
        assert_eq!(told("insert", r#"{"n": 3, "ok": 1}"#), LastWrite::default());
        let updated = told("update", r#"{"n": 2, "nModified": 1, "ok": 1}"#);
        assert_eq!((updated.count, updated.updated_existing), (2, Some(true)));
        let upserted = told("update", r#"{"n": 1, "upserted": [{"index": 0, "_id": 7}], "ok": 1}"#);
        assert_eq!(upserted.updated_existing, Some(false));
        assert_eq!(upserted.upserted.unwrap().view().get("_id").map(|id| id.kind()), Some(Kind::Int32));
        let refused = told("insert", r#"{"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}]}"#);
        assert_eq!(refused.error, Some((11000, "E11000".to_owned())));
        assert_eq!(told("delete", r#"{"ok": 0, "code": 73, "errmsg": "no"}"#).error, Some((73, "no".to_owned())));
    }
}
