//! A thread's connection to SQLite, with operations on documents.

use super::sql::{self, Parameter};
use crate::sqlite::store::SqliteStore;
use anyhow::{Context as _, Result, ensure};
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Row};
use spinney_lab::driver::{
    Client, Condition, Documents, Field, Find, Found, IndexSpec, Lacks, Outcome, Update, Value,
};

pub(in crate::sqlite) struct DocumentsClient<'a> {
    store: &'a SqliteStore,
    connection: Connection,
    in_transaction: bool,
    /// Statements by what they were made of, so that a call does not write its text again.
    texts: Vec<(Shape, String)>,
    json: String,
}

/// What the text of a statement depends on.
#[derive(PartialEq, Eq)]
struct Shape {
    verb: &'static str,
    collection: &'static str,
    /// The numbers of names in each part.
    lengths: [usize; 6],
    names: Vec<&'static str>,
    descending: bool,
}

impl<'a> DocumentsClient<'a> {
    pub(in crate::sqlite) fn new(store: &'a SqliteStore, connection: Connection) -> Self {
        Self { store, connection, in_transaction: false, texts: Vec::new(), json: String::new() }
    }

    /// The prepared statement of an operation.
    fn statement(&mut self, shape: Shape, text: impl FnOnce() -> String) -> Result<CachedStatement<'_>> {
        let at = match self.texts.iter().position(|(known, _)| *known == shape) {
            Some(at) => at,
            None => {
                self.texts.push((shape, text()));
                self.texts.len() - 1
            }
        };
        Ok(self.connection.prepare_cached(&self.texts[at].1)?)
    }

    fn run(&self, statement: &str) -> Result<()> {
        self.connection.prepare_cached(statement)?.execute(())?;
        Ok(())
    }
}

impl Shape {
    fn new(verb: &'static str, collection: &'static str, which: &Condition<'_>) -> Self {
        let mut shape = Self { verb, collection, lengths: [0; 6], names: Vec::with_capacity(8), descending: false };
        shape.add(0, which.equal.iter().map(|(name, _)| *name));
        shape.add(1, which.from.iter().map(|(name, _)| *name));
        shape.add(2, which.until.iter().map(|(name, _)| *name));
        shape.add(3, which.any_of.iter().flat_map(|(name, values)| values.iter().map(move |_| *name)));
        shape
    }

    fn add(&mut self, part: usize, names: impl Iterator<Item = &'static str>) {
        let before = self.names.len();
        self.names.extend(names);
        self.lengths[part] = self.names.len() - before;
    }
}

fn bind<'p>(statement: &mut CachedStatement<'_>, parameters: impl Iterator<Item = Parameter<'p>>) -> Result<usize> {
    let mut bound = 0;
    for parameter in parameters {
        bound += 1;
        statement.raw_bind_parameter(bound, parameter)?;
    }
    Ok(bound)
}

impl Client for DocumentsClient<'_> {
    fn begin(&mut self) -> Result<()> {
        self.in_transaction = true;
        self.run("BEGIN IMMEDIATE")
    }

    fn commit(&mut self) -> Result<Outcome> {
        self.in_transaction = false;
        self.run("COMMIT").map(|()| Outcome::Done)
    }

    fn rollback(&mut self) -> Result<()> {
        self.in_transaction = false;
        self.run("ROLLBACK")
    }

    fn documents(&mut self) -> Result<&mut dyn Documents> {
        Ok(self)
    }
}

impl DocumentsClient<'_> {
    fn insert_all(&mut self, collection: &'static str, documents: &[&[Field<'_>]]) -> Result<()> {
        let mut json = std::mem::take(&mut self.json);
        let shape = Shape::new("insert", collection, &Condition::default());
        let mut statement =
            self.statement(shape, || format!("INSERT INTO {collection} (_id, doc) VALUES (?, jsonb(?))"))?;
        for fields in documents {
            let id = fields.iter().find_map(|(name, value)| match value {
                Value::Int(number) if *name == "_id" => Some(*number),
                _ => None,
            });
            ensure!(
                !fields.iter().any(|(_, value)| matches!(value, Value::Bytes(_))),
                Lacks::new("no bytes in its documents")
            );
            sql::json(&mut json, fields);
            statement.execute((id.context("an _id that is a number")?, &json))?;
        }
        drop(statement);
        self.json = json;
        Ok(())
    }
}

impl Documents for DocumentsClient<'_> {
    fn create(&mut self, collection: &'static str) -> Result<()> {
        Ok(self.connection.execute_batch(&sql::create(collection))?)
    }

    fn create_indexes(&mut self, collection: &'static str, indexes: &[IndexSpec]) -> Result<()> {
        indexes.iter().try_for_each(|spec| Ok(self.connection.execute_batch(&sql::create_index(collection, spec))?))
    }

    fn insert(&mut self, collection: &'static str, documents: &[&[Field<'_>]]) -> Result<()> {
        if documents.len() == 1 || self.in_transaction {
            return self.insert_all(collection, documents);
        }
        self.run("BEGIN IMMEDIATE")?;
        match self.insert_all(collection, documents) {
            Ok(()) => self.run("COMMIT"),
            Err(error) => {
                self.run("ROLLBACK")?;
                Err(error)
            }
        }
    }

    fn find(&mut self, find: &Find<'_>, visit: &mut dyn FnMut(&dyn Found)) -> Result<u64> {
        let mut shape = Shape::new("find", find.collection, &find.which);
        shape.add(4, find.sorted_by.iter().copied());
        shape.add(5, find.shown.iter().copied());
        shape.descending = find.order == spinney_lab::driver::Order::Descending;
        let mut statement = self.statement(shape, || sql::find(find))?;
        let bound = bind(&mut statement, sql::parameters(&find.which))?;
        statement.raw_bind_parameter(bound + 1, i64::try_from(find.limit).unwrap_or(-1))?;
        statement.raw_bind_parameter(bound + 2, i64::try_from(find.skip)?)?;
        let mut rows = statement.raw_query();
        let mut visited = 0;
        while let Some(row) = rows.next()? {
            visit(&FoundRow { row, shown: find.shown });
            visited += 1;
        }
        Ok(visited)
    }

    fn update(&mut self, update: &Update<'_>) -> Result<u64> {
        ensure!(update.or_insert.is_none(), Lacks::new("no update that inserts"));
        let mut shape = Shape::new("update", update.collection, &update.which);
        shape.add(4, update.set.iter().map(|(name, _)| *name));
        shape.add(5, update.add.iter().map(|(name, _)| *name));
        let mut statement = self.statement(shape, || sql::update(update))?;
        let set = update.set.iter().map(|&(_, value)| Parameter(value));
        let add = update.add.iter().map(|&(_, number)| Parameter(Value::Int(number)));
        bind(&mut statement, set.chain(add).chain(sql::parameters(&update.which)))?;
        Ok(u64::try_from(statement.raw_execute()?)?)
    }

    fn delete(&mut self, collection: &'static str, which: &Condition<'_>, _many: bool) -> Result<u64> {
        let shape = Shape::new("delete", collection, which);
        let mut statement = self.statement(shape, || sql::delete(collection, which))?;
        bind(&mut statement, sql::parameters(which))?;
        Ok(u64::try_from(statement.raw_execute()?)?)
    }

    fn count(&mut self, collection: &'static str, which: &Condition<'_>) -> Result<u64> {
        let shape = Shape::new("count", collection, which);
        let mut statement = self.statement(shape, || sql::count(collection, which))?;
        bind(&mut statement, sql::parameters(which))?;
        let mut rows = statement.raw_query();
        let counted: i64 = rows.next()?.context("a count has a row")?.get(0)?;
        Ok(u64::try_from(counted)?)
    }

    fn group(&mut self, collection: &'static str, by: &'static str, sum: &'static str) -> Result<u64> {
        let mut shape = Shape::new("group", collection, &Condition::default());
        shape.add(4, [by, sum].into_iter());
        let statement = self.statement(shape, || sql::group(collection, by, sum))?;
        let mut statement = statement;
        let (mut rows, mut groups) = (statement.raw_query(), 0);
        while let Some(row) = rows.next()? {
            let documents: i64 = row.get(1)?;
            ensure!(documents > 0, "a group of {documents} documents");
            std::hint::black_box(row.get_ref(2)?);
            groups += 1;
        }
        Ok(groups)
    }

    fn watch(&mut self) -> Result<()> {
        Err(Lacks::new("no change streams").into())
    }

    fn events(&mut self) -> Result<u64> {
        Err(Lacks::new("no change streams").into())
    }
}

/// A row, which has the fields that were asked for, or `_id` and the document as JSONB.
struct FoundRow<'r, 's> {
    row: &'r Row<'s>,
    shown: &'r [&'static str],
}

impl Found for FoundRow<'_, '_> {
    fn bytes(&self) -> usize {
        let bytes = |column| match self.row.get_ref(column) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len(),
            Ok(ValueRef::Integer(_) | ValueRef::Real(_)) => 8,
            _ => 0,
        };
        (0..self.shown.len().max(2)).map(bytes).sum()
    }

    fn int(&self, field: &str) -> Option<i64> {
        let column = match self.shown {
            [] if field == "_id" => 0,
            shown => shown.iter().position(|name| *name == field)?,
        };
        self.row.get(column).ok()
    }
}

impl std::fmt::Debug for DocumentsClient<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DocumentsClient").field("path", &self.store.path).finish_non_exhaustive()
    }
}
