//! Our own document database in this process, one driver for each layout of its collections and indexes.

use super::bson::{change, check_group, document, filter, group, id, index, projection, sort};
use super::client::{Client, Outcome};
use super::config::{Compression, Config, Durability, TableSpec};
use super::documents::{Condition, Conflict, Documents, Field, Find, Found, IndexSpec, Order, Update};
use super::engine::Engine;
use super::lacks::Lacks;
use super::spinney_parts::{compaction_debt, counters, env, is_log, level_work, options, shape};
use super::state::{Counters, LevelWork, TableShape};
use super::store::Store;
use anyhow::{Context as _, Result, ensure};
use spinney::{Layout, Table};
use spinney_document::aggregate::{Pipeline, Run};
use spinney_document::bson::{DocumentBuf, DocumentBuilder};
use spinney_document::changes::{ChangeStream, StreamOptions, Watched};
use spinney_document::collection::update::{UpdateOptions, UpdateStatement};
use spinney_document::collection::{DeleteStatement, WriteOptions};
use spinney_document::exec::Execution;
use spinney_document::expr::Context;
use spinney_document::path::Sort;
use spinney_document::plan::Query;
use spinney_document::projection::{Projection, Use};
use spinney_document::query::Filter;
use spinney_document::update::Update as Change;
use spinney_document::{Collection, Database, DocumentTransaction, doc};
use std::path::Path;
use std::sync::Arc;

/// The database in which the collections are.
pub(super) const NAMESPACE: &str = "bench";

/// Our document database with collections of one layout.
#[derive(Clone, Copy, Debug)]
struct Embedded {
    name: &'static str,
    layout: Layout,
}

/// Our document database with each layout that suits one, as engines.
pub(super) fn engines() -> Vec<Box<dyn Engine>> {
    let engine = |name, layout| -> Box<dyn Engine> { Box::new(Embedded { name, layout }) };
    vec![engine("spinney-documents", Layout::Lsm), engine("spinney-documents-btree", Layout::BTree)]
}

struct EmbeddedStore {
    db: Database,
    layout: Layout,
    settings: Vec<(String, String)>,
}

struct EmbeddedClient<'a> {
    store: &'a EmbeddedStore,
    collections: Vec<(&'static str, Collection)>,
    transaction: Option<DocumentTransaction>,
    stream: Option<ChangeStream>,
    /// For the document of an insert of one.
    buffer: Vec<u8>,
}

impl Engine for Embedded {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn documents(&self) -> bool {
        true
    }

    fn direct_io(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, config: &Config, _tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        ensure!(config.durability != Durability::NoLog, Lacks::new("no collections without a redo log"));
        ensure!(config.compression != Compression::Zstd, Lacks::new("LZ4 for its collections, and no other"));
        let (options, _) = options(config);
        let settings = [
            ("layout", self.layout.name().to_owned()),
            ("memory", crate::text::bytes(options.memory_bytes)),
            ("compression", "LZ4".to_owned()),
            ("direct I/O", options.direct_io.to_string()),
            ("log kept", crate::text::bytes(options.log_keep_bytes)),
        ];
        let engine = spinney::Database::builder(dir).options(options).env(env(config)?).open()?;
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Ok(Box::new(EmbeddedStore { db: Database::with_engine(engine)?, layout: self.layout, settings }))
    }
}

impl EmbeddedStore {
    fn each(&self, verb: impl Fn(&Table) -> spinney::Result<()>) -> Result<()> {
        self.db.engine().tables()?.iter().try_for_each(|table| Ok(verb(table)?))
    }

    /// The option of a collection or an index that chooses the layout.
    fn storage(&self) -> DocumentBuf {
        doc! {"spinney": &doc! {"layout": self.layout.name()}}
    }
}

impl Store for EmbeddedStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        let (collections, buffer) = (Vec::new(), Vec::new());
        Ok(Box::new(EmbeddedClient { store: self, collections, transaction: None, stream: None, buffer }))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.engine().sync()?)
    }

    fn flush(&self) -> Result<()> {
        self.each(Table::flush)
    }

    fn compact_all(&self) -> Result<()> {
        self.each(Table::compact)
    }

    fn wait_idle(&self) -> Result<()> {
        self.each(Table::wait_idle)
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        self.db.engine().tables()?.iter().map(|table| Ok(shape(table.shape()?))).collect()
    }

    fn counters(&self) -> Result<Counters> {
        Ok(counters(self.db.engine()))
    }

    fn level_work(&self) -> Result<Vec<LevelWork>> {
        Ok(level_work(self.db.engine()))
    }

    fn compaction_debt(&self) -> Result<Option<u64>> {
        Ok(Some(compaction_debt(self.db.engine())))
    }

    fn is_log(&self, path: &Path) -> bool {
        is_log(path)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.engine().clone().close()?)
    }
}

impl Client for EmbeddedClient<'_> {
    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.store.db.begin());
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        match self.transaction.take().map_or(Ok(()), DocumentTransaction::commit) {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if error.is_conflict() => Ok(Outcome::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.transaction = None;
        Ok(())
    }

    fn documents(&mut self) -> Result<&mut dyn Documents> {
        Ok(self)
    }
}

/// What a write of a transaction says of a conflict.
fn told<T>(result: spinney_document::Result<T>) -> Result<T> {
    result.map_err(|error| if error.is_conflict() { Conflict.into() } else { error.into() })
}

impl EmbeddedClient<'_> {
    /// The collection with a name, which is there.
    fn collection(&mut self, name: &'static str) -> Result<Collection> {
        if let Some((_, known)) = self.collections.iter().find(|(known, _)| *known == name) {
            return Ok(known.clone());
        }
        let collection =
            self.store.db.collection(&namespace(name))?.with_context(|| format!("no collection {name}"))?;
        self.collections.push((name, collection.clone()));
        Ok(collection)
    }

    fn execute(&self, collection: &Collection, query: Query) -> Result<Execution<'_>> {
        Ok(match &self.transaction {
            Some(txn) => Execution::open(Box::new(txn.engine()), collection.state(), Arc::new(query))?,
            None => collection.find(query)?,
        })
    }
}

fn namespace(collection: &str) -> String {
    format!("{NAMESPACE}.{collection}")
}

fn query(which: &Condition<'_>, order: Order) -> Result<Query> {
    Ok(Query::new(Filter::parse(filter(which, order).view(), &Context::default())?))
}

impl Documents for EmbeddedClient<'_> {
    fn create(&mut self, collection: &'static str) -> Result<()> {
        let options = doc! {"storageEngine": &self.store.storage()};
        Ok(self.store.db.create_collection(&namespace(collection), options.view())?)
    }

    fn create_indexes(&mut self, collection: &'static str, indexes: &[IndexSpec]) -> Result<()> {
        let spec = |spec| {
            let mut builder = DocumentBuilder::new();
            builder.append_all(index(spec).view()).append("storageEngine", &self.store.storage());
            builder.finish()
        };
        let specs: Vec<DocumentBuf> = indexes.iter().map(spec).collect();
        self.store.db.create_indexes(&namespace(collection), &specs)?;
        Ok(())
    }

    fn insert(&mut self, collection: &'static str, documents: &[&[Field<'_>]]) -> Result<()> {
        let collection = self.collection(collection)?;
        if let Some(txn) = &mut self.transaction {
            return documents
                .iter()
                .try_for_each(|fields| told(txn.insert_one(&collection, document(Vec::new(), fields).view())));
        }
        if let [fields] = documents {
            let one = document(std::mem::take(&mut self.buffer), fields);
            collection.insert_one(one.view())?;
            self.buffer = one.into_bytes();
            return Ok(());
        }
        let documents: Vec<DocumentBuf> = documents.iter().map(|fields| document(Vec::new(), fields)).collect();
        let views = documents.iter().map(DocumentBuf::view);
        let inserted = collection.insert_many(views, true, WriteOptions::default())?;
        inserted.errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error.into()))
    }

    fn find(&mut self, find: &Find<'_>, visit: &mut dyn FnMut(&dyn Found)) -> Result<u64> {
        let collection = self.collection(find.collection)?;
        if let Some(wanted) = find.which.id().filter(|_| find.shown.is_empty()) {
            let found = match &self.transaction {
                Some(txn) => txn.find_by_id(collection.state(), &id(&wanted))?,
                None => collection.find_by_id(id(&wanted))?,
            };
            if let Some(document) = &found {
                visit(&document.view());
            }
            return Ok(u64::from(found.is_some()));
        }
        let mut query = query(&find.which, find.order)?;
        query.sort = sort(find).map(|sort| Sort::parse(sort.view(), None)).transpose()?;
        let shown = projection(find);
        query.projection =
            shown.map(|shown| Projection::parse(shown.view(), Use::Find, &Context::default())).transpose()?;
        query.skip = find.skip;
        query.limit = (find.limit < u64::MAX).then_some(find.limit);
        let (mut running, mut visited) = (self.execute(&collection, query)?, 0);
        while let Some(document) = running.next_shown()? {
            visit(&document.view());
            visited += 1;
        }
        Ok(visited)
    }

    fn update(&mut self, update: &Update<'_>) -> Result<u64> {
        let collection = self.collection(update.collection)?;
        let (change, upsert) = (change(update), update.or_insert.is_some());
        let Some(txn) = &mut self.transaction else {
            let options = UpdateOptions { upsert, ..UpdateOptions::default() };
            let filter = filter(&update.which, Order::Ascending);
            return Ok(collection.update_one_with(filter.view(), change.view(), &options)?.matched);
        };
        let change = Change::parse(change.view().into(), None, &Context::default())?;
        let statement = UpdateStatement::new(query(&update.which, Order::Ascending)?, change, false, upsert)?;
        Ok(told(txn.update(&collection, &statement))?.matched)
    }

    fn delete(&mut self, collection: &'static str, which: &Condition<'_>, many: bool) -> Result<u64> {
        let collection = self.collection(collection)?;
        if let Some(txn) = &mut self.transaction {
            let statement = DeleteStatement::new(query(which, Order::Ascending)?, many);
            return told(txn.delete_matches(&collection, &statement));
        }
        if let Some(wanted) = which.id() {
            return Ok(u64::from(collection.delete_by_id(id(&wanted))?));
        }
        let statement = DeleteStatement::new(query(which, Order::Ascending)?, many);
        Ok(collection.run_delete(&statement, WriteOptions::default())?)
    }

    fn count(&mut self, collection: &'static str, which: &Condition<'_>) -> Result<u64> {
        let collection = self.collection(collection)?;
        let query = Query { counts: true, ..query(which, Order::Ascending)? };
        Ok(self.execute(&collection, query)?.count()?)
    }

    fn group(&mut self, collection: &'static str, by: &'static str, sum: &'static str) -> Result<u64> {
        let collection = self.collection(collection)?;
        let mut stages = DocumentBuilder::new();
        stages.open_array("stages").push(&group(by, sum)).close();
        let stages = stages.finish();
        let stages = stages.view().get("stages").and_then(|stages| stages.as_array()).context("an array")?;
        let mut groups = 0;
        for found in collection.aggregate(stages)? {
            check_group(found?.view())?;
            groups += 1;
        }
        Ok(groups)
    }

    fn watch(&mut self) -> Result<()> {
        let (pipeline, run) = (Pipeline::default(), Run::new(Context::default()));
        self.stream = Some(ChangeStream::open(&self.store.db, Watched::All, StreamOptions::default(), pipeline, run)?);
        Ok(())
    }

    fn events(&mut self) -> Result<u64> {
        let stream = self.stream.as_mut().context("no change stream is open")?;
        let mut events = 0;
        while stream.advance()?.is_some() {
            events += 1;
        }
        Ok(events)
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}
