//! Operations on documents as commands.

use super::connection::{Connection, Refused};
use crate::driver::bson::{change, check_group, document, filter, group, index, projection, sort};
use crate::driver::client::{Client, Outcome};
use crate::driver::documents::{Condition, Conflict, Documents, Field, Find, Found, IndexSpec, Order, Update};
use crate::driver::embedded::NAMESPACE;
use crate::random::Random;
use anyhow::{Context as _, Error, Result};
use spinney_document::bson::{self, DocumentBuf, DocumentBuilder, Value};
use spinney_document::doc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Documents of a batch of a cursor, when there is no limit.
const BATCH_DOCUMENTS: i32 = 1_000;

/// Milliseconds that a look at a change stream waits for an event.
const STREAM_WAIT_MS: i32 = 1;

/// One client.
pub(super) struct WireClient {
    connection: Connection,
    /// Whether writes ask for a sync of the server's log.
    is_durable: bool,
    session: [u8; 16],
    /// Of the last transaction that began.
    txn_number: i64,
    transaction: Option<Transaction>,
    /// The cursor of the change stream.
    stream: Option<i64>,
}

/// An open transaction: whether the server knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transaction {
    New,
    Begun,
}

impl WireClient {
    pub(super) fn new(address: &str, is_durable: bool) -> Result<Self> {
        /// Sessions of this process differ by it. It publishes nothing but itself.
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let mut session = [0; 16];
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        Random::of(u64::from(std::process::id()), number).fill(&mut session);
        let connection = Connection::open(address)?;
        Ok(Self { connection, is_durable, session, txn_number: 0, transaction: None, stream: None })
    }

    /// Runs a command of the database, in the transaction if there is one.
    fn run(
        &mut self,
        command: &mut DocumentBuilder,
        is_write: bool,
        sequence: Option<(&str, &[DocumentBuf])>,
    ) -> Result<DocumentBuf> {
        let mut command = std::mem::take(command);
        command.append("$db", NAMESPACE);
        match self.transaction {
            Some(state) => {
                self.append_transaction(&mut command);
                if state == Transaction::New {
                    command.append("startTransaction", true);
                    self.transaction = Some(Transaction::Begun);
                }
            }
            None if is_write => self.append_concern(&mut command),
            None => {}
        }
        told(self.connection.run(command.finish().view(), sequence))
    }

    fn append_transaction(&self, command: &mut DocumentBuilder) {
        command.open_document("lsid").append("id", Value::Binary(4, &self.session)).close();
        command.append("txnNumber", self.txn_number).append("autocommit", false);
    }

    fn append_concern(&self, command: &mut DocumentBuilder) {
        command.open_document("writeConcern").append("w", 1);
        if self.is_durable {
            command.append("j", true);
        }
        command.close();
    }

    /// Ends the transaction by a command, if the server knows of it.
    fn end(&mut self, name: &str) -> Result<()> {
        if self.transaction.take() == Some(Transaction::Begun) {
            let mut command = DocumentBuilder::new();
            command.append(name, 1).append("$db", "admin");
            self.append_transaction(&mut command);
            self.append_concern(&mut command);
            told(self.connection.run(command.finish().view(), None))?;
        }
        Ok(())
    }

    /// Calls `visit` with the documents of a cursor's first batch and of those that follow.
    fn read(
        &mut self,
        mut reply: DocumentBuf,
        collection: &str,
        visit: &mut dyn FnMut(bson::Document<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut read = 0;
        loop {
            let (id, found) = batch(reply.view(), visit)?;
            read += found;
            if id == 0 {
                return Ok(read);
            }
            let mut more = DocumentBuilder::new();
            more.append("getMore", id).append("collection", collection).append("batchSize", BATCH_DOCUMENTS);
            reply = self.run(&mut more, false, None)?;
        }
    }
}

/// The cursor's number, and how many documents the batch of a reply has, with which `visit` is called.
fn batch(reply: bson::Document<'_>, visit: &mut dyn FnMut(bson::Document<'_>) -> Result<()>) -> Result<(i64, u64)> {
    let cursor = reply.get("cursor").and_then(|cursor| cursor.as_document()).context("a reply without a cursor")?;
    let id = cursor.get("id").and_then(|id| id.as_exact_i64()).context("a cursor without a number")?;
    let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).and_then(|batch| batch.as_array());
    let mut found = 0;
    for value in batch.context("a cursor without a batch")?.values() {
        visit(value.as_document().context("a batch of documents")?)?;
        found += 1;
    }
    Ok((id, found))
}

/// What a command in a transaction says of a conflict.
fn told<T>(result: Result<T>) -> Result<T> {
    result.map_err(|error: Error| match error.downcast_ref::<Refused>() {
        Some(refused) if refused.is_conflict() => Conflict.into(),
        _ => error,
    })
}

fn number(reply: &DocumentBuf, field: &str) -> Result<u64> {
    let number = reply.view().get(field).and_then(|number| number.as_exact_i64());
    Ok(u64::try_from(number.with_context(|| format!("a reply without {field}"))?)?)
}

impl Client for WireClient {
    fn begin(&mut self) -> Result<()> {
        self.txn_number += 1;
        self.transaction = Some(Transaction::New);
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        match self.end("commitTransaction") {
            Err(error) if error.is::<Conflict>() => Ok(Outcome::Conflict),
            ended => ended.map(|()| Outcome::Done),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        match self.end("abortTransaction") {
            // A transaction that had a conflict is over already.
            Err(error) if error.is::<Refused>() => Ok(()),
            ended => ended,
        }
    }

    fn documents(&mut self) -> Result<&mut dyn Documents> {
        Ok(self)
    }
}

impl Documents for WireClient {
    fn create(&mut self, collection: &'static str) -> Result<()> {
        let mut command = DocumentBuilder::new();
        command.append("create", collection);
        self.run(&mut command, false, None).map(drop)
    }

    fn create_indexes(&mut self, collection: &'static str, indexes: &[IndexSpec]) -> Result<()> {
        let mut command = DocumentBuilder::new();
        command.append("createIndexes", collection).open_array("indexes");
        for spec in indexes {
            command.push(&index(spec));
        }
        command.close();
        self.run(&mut command, false, None).map(drop)
    }

    fn insert(&mut self, collection: &'static str, documents: &[&[Field<'_>]]) -> Result<()> {
        let documents: Vec<DocumentBuf> = documents.iter().map(|fields| document(Vec::new(), fields)).collect();
        let mut command = DocumentBuilder::new();
        command.append("insert", collection).append("ordered", true);
        self.run(&mut command, true, Some(("documents", &documents))).map(drop)
    }

    fn find(&mut self, find: &Find<'_>, visit: &mut dyn FnMut(&dyn Found)) -> Result<u64> {
        let mut command = DocumentBuilder::new();
        command.append("find", find.collection).append("filter", &filter(&find.which, find.order));
        if let Some(sort) = sort(find) {
            command.append("sort", &sort);
        }
        if let Some(projection) = projection(find) {
            command.append("projection", &projection);
        }
        if find.skip > 0 {
            command.append("skip", i64::try_from(find.skip)?);
        }
        match find.limit {
            u64::MAX if find.which.id().is_some() => command.append("limit", 1_i64).append("singleBatch", true),
            u64::MAX => command.append("batchSize", BATCH_DOCUMENTS),
            limit => command.append("limit", i64::try_from(limit)?),
        };
        let reply = self.run(&mut command, false, None)?;
        self.read(reply, find.collection, &mut |document| {
            visit(&document);
            Ok(())
        })
    }

    fn update(&mut self, update: &Update<'_>) -> Result<u64> {
        let mut command = DocumentBuilder::new();
        command.append("update", update.collection);
        let one = doc! {
            "q": &filter(&update.which, Order::Ascending),
            "u": &change(update),
            "upsert": update.or_insert.is_some(),
        };
        let reply = self.run(&mut command, true, Some(("updates", &[one])))?;
        let inserted = reply.view().get("upserted").is_some();
        Ok(number(&reply, "n")? - u64::from(inserted))
    }

    fn delete(&mut self, collection: &'static str, which: &Condition<'_>, many: bool) -> Result<u64> {
        let mut command = DocumentBuilder::new();
        command.append("delete", collection);
        let one = doc! {"q": &filter(which, Order::Ascending), "limit": i32::from(!many)};
        let reply = self.run(&mut command, true, Some(("deletes", &[one])))?;
        number(&reply, "n")
    }

    fn count(&mut self, collection: &'static str, which: &Condition<'_>) -> Result<u64> {
        let mut command = DocumentBuilder::new();
        command.append("count", collection).append("query", &filter(which, Order::Ascending));
        let reply = self.run(&mut command, false, None)?;
        number(&reply, "n")
    }

    fn group(&mut self, collection: &'static str, by: &'static str, sum: &'static str) -> Result<u64> {
        let mut command = DocumentBuilder::new();
        command.append("aggregate", collection).open_array("pipeline").push(&group(by, sum)).close();
        command.open_document("cursor").append("batchSize", BATCH_DOCUMENTS).close();
        let reply = self.run(&mut command, false, None)?;
        self.read(reply, collection, &mut check_group)
    }

    fn watch(&mut self) -> Result<()> {
        let stage = doc! {"$changeStream": &doc! {}};
        let mut command = DocumentBuilder::new();
        command.append("aggregate", 1).open_array("pipeline").push(&stage).close();
        command.open_document("cursor").close();
        let reply = self.run(&mut command, false, None)?;
        self.stream = Some(batch(reply.view(), &mut |_| Ok(()))?.0);
        Ok(())
    }

    fn events(&mut self) -> Result<u64> {
        let stream = self.stream.context("no change stream is open")?;
        let mut command = DocumentBuilder::new();
        command.append("getMore", stream).append("collection", "$cmd.aggregate").append("maxTimeMS", STREAM_WAIT_MS);
        let reply = self.run(&mut command, false, None)?;
        Ok(batch(reply.view(), &mut |_| Ok(()))?.1)
    }
}
