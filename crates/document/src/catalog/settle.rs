//! A salvaged catalog: its rows and the engine's tables are brought together again, before the database of documents
//! is opened, which drops tables that no row names.
//!
//! Rows and tables can differ, because each may have lost what it says of the other: the newest rows with the redo log,
//! some rows with a block of the catalog's table, some tables with the manifest.
//!
//! - A table of documents that no row names becomes the collection `salvaged.c-<n>`.
//! - A table that a row names and that is missing is made, empty. An index is built from the documents then.
//! - Of two rows that name one table, of which one is as it was before the collection was renamed, one goes.
//! - The stored numbers of documents are forgotten. Documents are counted when that is first asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use spinney::{Batch, Table, prefix_range};

use super::committer::MEMBER_TABLE;
use super::counts::COUNTS;
use super::index_spec::StorageSpec;
use super::namespace::Namespace;
use super::options::CollectionOptions;
use super::record::is_record;
use super::registry::next_number;
use super::row::{self, NUMBER_KEY, Row};
use super::state::Schema;
use super::tables::{
    CATALOG, OWN_CATALOG, collection_table, index_table, is_ours, is_spill, own_number, table_options,
};
use crate::base::{Environment, Result};
use crate::bson::Document;
use crate::keys::encode_id;

/// The database of the collections whose rows are lost.
const DATABASE: &str = "salvaged";

/// The most documents of one batch.
const DOCUMENTS_MAX: usize = 1000;

/// What was done to a salvaged catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Tables of documents whose row is lost, and the collections that they became.
    pub unnamed: Vec<(String, String)>,
    /// Tables of indexes whose row is lost; they go.
    pub unnamed_indexes: Vec<String>,
    /// Collections and indexes whose table is lost: the namespace, and the name of the index.
    pub without_table: Vec<(String, Option<String>)>,
    /// Rows that go: of what, and why.
    pub dropped_rows: Vec<(String, String)>,
}

/// What a salvage knows of a catalog.
#[derive(Clone, Copy)]
pub struct Damage<'d> {
    /// Whether rows or tables may have been lost, so that a table without a row is not one that was being dropped.
    pub may_lack_rows: bool,
    /// Whether the row of a namespace may be older than it was.
    pub is_lost: &'d dyn Fn(&str) -> bool,
}

impl fmt::Debug for Damage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Damage").field("may_lack_rows", &self.may_lack_rows).finish_non_exhaustive()
    }
}

/// Whether the engine's database holds documents: its table `catalog` has what catalogs have.
///
/// # Errors
/// Those of the engine.
pub fn has_documents(engine: &spinney::Database) -> Result<bool> {
    let Some(table) = engine.table(CATALOG)? else { return Ok(false) };
    if table.get(NUMBER_KEY)?.is_some_and(|number| number.len() == 8) {
        return Ok(true);
    }
    let mut rows = table.range(..);
    Ok(match rows.advance()? {
        Some((key, row)) => is_record(key) || std::str::from_utf8(key).is_ok_and(|name| row::decode(name, row).is_ok()),
        None => engine.tables()?.iter().any(|table| is_ours(table.name())),
    })
}

/// Whether a table of an engine's database is part of its documents: the catalog, a collection, an index, what a
/// pipeline has spilled, or what a member of a replica set stores beside them. A program's own tables are not.
///
/// # Errors
/// Those of the engine.
pub fn is_of_documents(engine: &spinney::Database, table: &str) -> Result<bool> {
    let is_named_so = [CATALOG, OWN_CATALOG, MEMBER_TABLE].contains(&table)
        || is_ours(table)
        || own_number(table).is_some()
        || is_spill(table);
    Ok(is_named_so && has_documents(engine)?)
}

/// Brings the rows of a salvaged catalog and the engine's tables together. The database of documents must not be open.
///
/// # Errors
/// Those of the engine.
pub fn settle(engine: &spinney::Database, environment: &dyn Environment, damage: Damage<'_>) -> Result<Settled> {
    let mut settled = Settled::default();
    let Some(catalog) = engine.table(CATALOG)? else { return Ok(settled) };
    let tables: BTreeSet<String> = engine.tables()?.iter().map(|table| table.name().to_owned()).collect();
    let mut batch = Batch::new();
    batch.delete_range(&catalog, prefix_range(COUNTS));
    let mut rows = rows_of(&catalog, &mut batch, &mut settled)?;
    drop_second_rows(&catalog, &mut rows, &mut batch, &mut settled, damage);
    let mut next = next_number(engine, &catalog).unwrap_or(1);
    let mut named = BTreeSet::new();
    for (name, row) in &rows {
        named.extend(complete(engine, name, row, &tables, &mut settled)?);
    }
    let numbers = named.iter().chain(&tables).filter(|name| is_ours(name));
    let numbers = numbers.filter_map(|name| name.split_once('-')?.1.parse::<u64>().ok());
    next = next.max(numbers.max().unwrap_or(0) + 1);
    if damage.may_lack_rows {
        for table in tables.iter().filter(|table| is_ours(table) && !named.contains(*table)) {
            match table.strip_prefix("c-").and_then(|number| number.parse().ok()) {
                Some(number) => {
                    adopt_unnamed(engine, environment, number, &mut next, &catalog, &mut batch, &mut settled)?;
                }
                None => settled.unnamed_indexes.push(table.clone()),
            }
        }
    }
    batch.put(&catalog, NUMBER_KEY, next.to_le_bytes());
    if let Some(own) = engine.table(OWN_CATALOG)? {
        for (name, row) in rows_of(&own, &mut batch, &mut settled)? {
            if !tables_of_row(&row).iter().all(|(table, _, _)| tables.contains(table)) {
                batch.delete(&own, &name);
                settled.dropped_rows.push((name, "its table is lost".to_owned()));
            }
        }
    }
    engine.write(&batch)?;
    Ok(settled)
}

/// The rows of a catalog that can be read; the others go.
fn rows_of(catalog: &Table, batch: &mut Batch, settled: &mut Settled) -> Result<BTreeMap<String, Row>> {
    let (mut rows, mut found) = (catalog.range(..), BTreeMap::new());
    while let Some((key, value)) = rows.advance()? {
        if key == NUMBER_KEY || is_record(key) {
            continue;
        }
        let name = String::from_utf8_lossy(key).into_owned();
        match Namespace::parse(&name).and_then(|_| row::decode(&name, value)) {
            Ok(row) => drop(found.insert(name, row)),
            // Its keys are of other rules of collations, which is no damage; the open refuses it.
            Err(error) if error.code() == crate::base::ErrorCode::INCOMPATIBLE_COLLATION_VERSION => {}
            Err(error) => {
                batch.delete(catalog, key);
                settled.dropped_rows.push((name, error.to_string()));
            }
        }
    }
    Ok(found)
}

/// Of several rows that name one table, the one stays that cannot be older than it was.
fn drop_second_rows(
    catalog: &Table,
    rows: &mut BTreeMap<String, Row>,
    batch: &mut Batch,
    settled: &mut Settled,
    damage: Damage<'_>,
) {
    let mut by_number: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (name, row) in rows.iter() {
        row.number.into_iter().for_each(|number| by_number.entry(number).or_default().push(name.clone()));
    }
    for mut names in by_number.into_values().filter(|names| names.len() > 1) {
        names.sort_by_key(|name| (damage.is_lost)(name));
        for older in names.split_off(1) {
            batch.delete(catalog, &older);
            rows.remove(&older);
            settled.dropped_rows.push((older, format!("the collection was renamed to {}", names[0])));
        }
    }
}

/// The tables that a row names, their storage, and the indexes that these are.
fn tables_of_row(row: &Row) -> Vec<(String, StorageSpec, Option<&str>)> {
    let Some(number) = row.number else { return Vec::new() };
    let indexes = row.indexes.iter();
    let indexes = indexes.map(|index| (index_table(index.number), index.spec.storage, Some(index.spec.name.as_str())));
    indexes.chain([(collection_table(number), row.options.storage, None)]).collect()
}

/// Makes the tables that a row names and that are missing; returns the names of all.
fn complete(
    engine: &spinney::Database,
    name: &str,
    row: &Row,
    tables: &BTreeSet<String>,
    settled: &mut Settled,
) -> Result<Vec<String>> {
    let mut named = Vec::new();
    for (table, storage, index) in tables_of_row(row) {
        if !tables.contains(&table) {
            engine.open_or_create_table(&table, table_options(storage.layout))?;
            settled.without_table.push((name.to_owned(), index.map(str::to_owned)));
        }
        named.push(table);
    }
    Ok(named)
}

/// Makes a collection of a table of documents whose row is lost.
fn adopt_unnamed(
    engine: &spinney::Database,
    environment: &dyn Environment,
    number: u64,
    next: &mut u64,
    catalog: &Table,
    batch: &mut Batch,
    settled: &mut Settled,
) -> Result<()> {
    let name = collection_table(number);
    let Some(table) = engine.table(&name)?.filter(|table| matches!(table.first(), Ok(Some(_)))) else { return Ok(()) };
    // The keys of capped collections are no `_id`s, and those of collections with a collation are other ones.
    let number = if has_plain_ids(&table)? {
        number
    } else {
        let number = *next;
        *next += 1;
        let copy = engine.open_or_create_table(&collection_table(number), table_options(table.options().layout))?;
        copy_by_id(engine, &table, &copy)?;
        number
    };
    let namespace = Namespace::new(DATABASE, &name)?;
    let uuid = u128::from(environment.random()) << 64 | u128::from(environment.random());
    let uuid = (uuid & !(0xF << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62).to_be_bytes();
    let options = CollectionOptions::default();
    let schema = Schema {
        namespace: namespace.clone(),
        uuid,
        options,
        indexes: Vec::new(),
        damaged: Vec::new(),
        dropped: false,
    };
    batch.put(catalog, namespace.as_str(), row::encode(number, &schema).as_bytes());
    settled.unnamed.push((name, namespace.as_str().to_owned()));
    Ok(())
}

/// The key of a document in a collection without options.
fn plain_key(document: &[u8]) -> Option<Vec<u8>> {
    let document = Document::from_checked_bytes(document)?;
    let (mut key, id) = (Vec::new(), document.first().filter(|first| first.name == "_id")?);
    encode_id(&mut key, &id.value, None);
    Some(key)
}

fn has_plain_ids(table: &Table) -> Result<bool> {
    let mut documents = table.range(..);
    while let Some((key, document)) = documents.advance()? {
        if plain_key(document).as_deref() != Some(key) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies documents under the keys that they have in a collection without options.
fn copy_by_id(engine: &spinney::Database, from: &Table, to: &Table) -> Result<()> {
    let (mut documents, mut batch, mut count) = (from.range(..), Batch::new(), 0);
    while let Some((_, document)) = documents.advance()? {
        plain_key(document).into_iter().for_each(|key| batch.put(to, key, document));
        count += 1;
        if count % DOCUMENTS_MAX == 0 {
            engine.write(&std::mem::replace(&mut batch, Batch::new()))?;
        }
    }
    Ok(engine.write(&batch)?)
}
