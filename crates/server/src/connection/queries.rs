//! `OP_QUERY` and `OP_GET_MORE` as the commands that they are today, and the replies as `OP_REPLY`.

use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::command::service::failed;
use spinney_document::{Error, ErrorCode};

use crate::base::fields::whole;
use crate::command::Session;
use crate::command::dispatch::{Outcome, run as dispatch};
use crate::command::spec::Incoming;
use crate::state::Server;
use spinney_wire::Query;
use spinney_wire::query::{AWAIT_CAPABLE, CURSOR_NOT_FOUND, QUERY_FAILURE, Reply};

/// The answer to a query: a reply of a command, and what of it the client gets.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The whole document, as for a command.
    Command,
    /// The documents of the batch, or what went wrong.
    Batch,
}

/// Runs a query; nothing when the connection is to be closed.
pub fn run(server: &Server, session: &mut Session, query: &Query<'_>) -> Option<Answer> {
    let (database, collection) = query.parts();
    let built;
    let (body, kind) = match collection {
        "$cmd" => (wrapped(query.query).unwrap_or(query.query), Kind::Command),
        "$cmd.sys.inprog" => {
            built = doc_with("currentOp", Value::Int32(1), query.query);
            (built.view(), Kind::Command)
        }
        _ => match find_of(collection, query) {
            Ok(find) => {
                built = find;
                (built.view(), Kind::Batch)
            }
            Err(error) => return Some(failure(&error)),
        },
    };
    let database = if collection.starts_with("$cmd.sys.") { "admin" } else { database };
    match dispatch(server, session, &Incoming::new(database, body, &[])) {
        Outcome::Reply(bytes) => Some(Answer::new(bytes, kind)),
        Outcome::Close => None,
    }
}

/// Gets more of a cursor; nothing when the connection is to be closed.
pub fn get_more(server: &Server, session: &mut Session, namespace: &str, count: i32, cursor: i64) -> Option<Answer> {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    let mut command = DocumentBuilder::new();
    command.append("getMore", cursor).append("collection", collection);
    if count != 0 {
        command.append("batchSize", i64::from(count).abs());
    }
    let command = command.finish();
    match dispatch(server, session, &Incoming::new(database, command.view(), &[])) {
        Outcome::Reply(bytes) => Some(Answer::new(bytes, Kind::Batch)),
        Outcome::Close => None,
    }
}

/// The answer to a query that cannot be read.
#[must_use]
pub fn failure(error: &Error) -> Answer {
    Answer::new(failed(error).into_bytes(), Kind::Batch)
}

/// The filter or command within a document of options, if the query is such a document.
fn wrapped(query: Document<'_>) -> Option<Document<'_>> {
    let first = query.first().filter(|first| first.name == "query");
    first.map(|first| first.value).or_else(|| query.get("$query")).and_then(|inner| inner.as_document())
}

fn doc_with(name: &str, value: Value<'_>, rest: Document<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append(name, value).append_all(rest);
    builder.finish()
}

/// The code of the error that a cursor is not there.
const CURSOR_GONE: i64 = 43;

/// The options around a filter, and what they are called in the command `find`.
const OPTIONS: [(&str, &str); 12] = [
    ("$orderby", "sort"),
    ("orderby", "sort"),
    ("$hint", "hint"),
    ("$comment", "comment"),
    ("$maxTimeMS", "maxTimeMS"),
    ("$max", "max"),
    ("$min", "min"),
    ("$returnKey", "returnKey"),
    ("$showDiskLoc", "showRecordId"),
    ("$collation", "collation"),
    ("$maxScan", ""),
    ("$snapshot", ""),
];

/// The command `find` that a query is.
fn find_of(collection: &str, query: &Query<'_>) -> Result<DocumentBuf, Error> {
    let inner = wrapped(query.query);
    let filter = inner.unwrap_or(query.query);
    let mut find = DocumentBuilder::new();
    find.append("find", collection).append("filter", filter);
    if inner.is_some() {
        for element in query.query.elements() {
            let known = OPTIONS.iter().find(|(old, _)| element.name == *old).map(|(_, new)| *new);
            match known {
                // Old servers used them to bound a scan and to keep documents from being met twice, which they are not.
                Some("") => {}
                Some(new) => {
                    find.append(new, element.value);
                }
                None if ["$query", "query", "$readPreference"].iter().any(|name| element.name == *name) => {}
                None if element.name == "$explain" => {
                    let what = "a query with $explain is not supported: use the command explain";
                    return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
                }
                None => return Err(Error::bad_value(format!("unknown option of a query: {}", element.name))),
            }
        }
    }
    if let Some(fields) = query.fields.filter(|fields| !fields.is_empty()) {
        find.append("projection", fields);
    }
    if query.skip != 0 {
        find.append("skip", i64::from(query.skip));
    }
    match query.count {
        0 => {}
        // One document is all that is wanted then.
        1 => {
            find.append("limit", 1_i64).append("singleBatch", true);
        }
        count if count < 0 => {
            find.append("limit", i64::from(count).abs()).append("batchSize", i64::from(count).abs());
            find.append("singleBatch", true);
        }
        count => {
            find.append("batchSize", i64::from(count));
        }
    }
    let flags = [
        ("tailable", query.tailable()),
        ("awaitData", query.await_data()),
        ("noCursorTimeout", query.no_cursor_timeout()),
        ("allowPartialResults", query.partial()),
    ];
    for (name, _) in flags.iter().filter(|(_, is)| *is) {
        find.append(*name, true);
    }
    if query.exhaust() {
        return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, "OP_QUERY with the flag exhaust is not supported"));
    }
    Ok(find.finish())
}

/// What a client of `OP_QUERY` gets for a command that failed: `{$err, code}`.
fn as_query_failure(reply: &[u8]) -> Vec<u8> {
    let reply = Document::from_checked_bytes(reply).unwrap_or(Document::empty());
    let mut failure = DocumentBuilder::new();
    if let Some(message) = reply.get("errmsg") {
        failure.append("$err", message);
    }
    ["code", "codeName"].iter().filter_map(|name| reply.element(name)).for_each(|element| {
        failure.append_element(&element);
    });
    failure.append("ok", 0.0);
    failure.finish().into_bytes()
}

impl Answer {
    fn new(bytes: Vec<u8>, kind: Kind) -> Self {
        let failed = Document::from_checked_bytes(&bytes).is_some_and(|reply| reply.element("cursor").is_none());
        match kind {
            Kind::Batch if failed => Self { bytes: as_query_failure(&bytes), kind },
            _ => Self { bytes, kind },
        }
    }

    /// The reply that the client gets.
    #[must_use]
    pub fn view(&self) -> Reply<'_> {
        let document = Document::from_checked_bytes(&self.bytes).unwrap_or(Document::empty());
        if self.kind == Kind::Command {
            return Reply::of_command(document);
        }
        let Some(cursor) = document.get("cursor").and_then(|cursor| cursor.as_document()) else {
            let gone = document.get("code").as_ref().and_then(whole) == Some(CURSOR_GONE);
            let (flag, documents) = if gone { (CURSOR_NOT_FOUND, vec![]) } else { (QUERY_FAILURE, vec![document]) };
            return Reply { flags: AWAIT_CAPABLE | flag, cursor: 0, starting_from: 0, documents };
        };
        let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).and_then(|batch| batch.as_array());
        let documents = batch.into_iter().flatten().filter_map(|value| value.as_document()).collect();
        let id = cursor.get("id").as_ref().and_then(whole).unwrap_or_default();
        Reply { flags: AWAIT_CAPABLE, cursor: id, starting_from: 0, documents }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::doc;
    use spinney_wire::query::query_body;

    fn find(query: Document<'_>, count: i32) -> String {
        let body = query_body(0, "d.c", 0, count, query);
        find_of("c", &Query::parse(&body).unwrap()).map_or_else(|error| error.to_string(), |find| find.view().to_json())
    }

    #[test]
    fn the_number_of_documents_says_whether_a_cursor_stays() {
        let filter = doc! {"a": 1};
        let found = |count| find(filter.view(), count);
        let plain = r#"{"find":"c","filter":{"a":1}"#;
        assert_eq!(found(0), format!("{plain}}}"));
        assert_eq!(found(7), format!(r#"{plain},"batchSize":7}}"#));
        assert_eq!(found(1), format!(r#"{plain},"limit":1,"singleBatch":true}}"#));
        assert_eq!(found(-3), format!(r#"{plain},"limit":3,"batchSize":3,"singleBatch":true}}"#));
    }

    #[test]
    fn options_around_a_filter_are_those_of_find() {
        let query = DocumentBuf::from_json(r#"{"$query": {"a": 1}, "$orderby": {"b": -1}, "$maxTimeMS": 5}"#).unwrap();
        assert_eq!(find(query.view(), 0), r#"{"find":"c","filter":{"a":1},"sort":{"b":-1},"maxTimeMS":5}"#);
        let query = DocumentBuf::from_json(r#"{"query": {"a": 1}, "orderby": {"b": -1}}"#).unwrap();
        assert_eq!(find(query.view(), 0), r#"{"find":"c","filter":{"a":1},"sort":{"b":-1}}"#);
        // A field that is called so is a filter.
        let query = DocumentBuf::from_json(r#"{"a": 1, "query": {"b": 1}}"#).unwrap();
        assert_eq!(find(query.view(), 0), r#"{"find":"c","filter":{"a":1,"query":{"b":1}}}"#);
        let query = DocumentBuf::from_json(r#"{"$query": {}, "$explain": true}"#).unwrap();
        assert!(find(query.view(), 0).starts_with("NotImplemented (238)"));
    }

    #[test]
    fn a_failure_and_a_cursor_that_is_gone_have_their_flags() {
        let error = Error::bad_value("no");
        let answer = failure(&error);
        assert_eq!(answer.view().flags, AWAIT_CAPABLE | QUERY_FAILURE);
        assert_eq!(answer.view().documents[0].get("$err").unwrap().as_str(), Some("no"));
        let answer = failure(&Error::new(ErrorCode::CURSOR_NOT_FOUND, "gone"));
        assert_eq!((answer.view().flags, answer.view().documents.len()), (AWAIT_CAPABLE | CURSOR_NOT_FOUND, 0));
    }
}
