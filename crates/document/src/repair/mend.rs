//! A salvaged database of documents is made to agree with itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use spinney::{LostRange, SalvageReport, SalvagedCopy, TableLoss};

use super::collection::{LeftOut, Repair};
use super::lost::{LostDocuments, names_of};
use crate::base::{Result, System};
use crate::catalog::own::is_own_number;
use crate::catalog::settle::{Damage, Settled, has_documents, settle};
use crate::catalog::tables::{CATALOG_TABLE, collection_table};
use crate::catalog::{CollectionState, Entry, is_of_member};
use crate::database::Database;

/// Gets the name of the collection that is compared with its indexes, and the documents and entries read so far.
pub type OnMended<'a> = dyn FnMut(&str, u64) + 'a;

/// What the engine's salvage reported.
#[derive(Clone, Copy, Debug)]
pub enum Salvaged<'r> {
    /// The database is a copy.
    Copy(&'r SalvagedCopy),
    /// The database's log was cut.
    InPlace(&'r SalvageReport),
}

/// What was done to a salvaged database of documents, and what it lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Whether the database is of a member of a replica set. Nothing was compared or changed then: the set decides on
    /// its documents.
    pub is_of_member: bool,
    /// Names of collections whose rows in the catalog are lost, or older than they were: from, to.
    pub lost_names: Vec<(String, Option<String>)>,
    /// What was done to the catalog.
    pub settled: Settled,
    /// The collections, in the order of their names.
    pub collections: Vec<MendedCollection>,
}

/// What was done to a collection of a salvaged database, and what it lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MendedCollection {
    /// Its name, with that of its database.
    pub namespace: String,
    /// The documents that are there.
    pub documents: u64,
    /// Documents of which each is lost, or older than it was.
    pub lost: Vec<LostDocuments>,
    /// How many changes of documents were given up with the redo log.
    pub changes_given_up: u64,
    /// The `_id`s of documents whose changes were given up, the first thousand.
    pub given_up: Vec<String>,
    /// What was found to disagree, and what was done.
    pub repair: Repair,
    /// Why the collection could not be repaired.
    pub failure: Option<String>,
}

impl Mended {
    /// The indexes that could not be built, with the names of their collections.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &LeftOut)> {
        let of = |collection: &'_ MendedCollection| collection.repair.left_out.len();
        self.collections.iter().filter(move |collection| of(collection) > 0).flat_map(|collection| {
            collection.repair.left_out.iter().map(|left_out| (collection.namespace.as_str(), left_out))
        })
    }

    /// Whether documents or collections were lost, or something disagrees still.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let is_whole = |collection: &MendedCollection| {
            let lost = !collection.lost.is_empty() || collection.changes_given_up > 0;
            let repair = &collection.repair;
            !lost
                && collection.failure.is_none()
                && repair.left_out.is_empty()
                && repair.removed.is_empty()
                && repair.after.is_valid()
        };
        self.lost_names.is_empty() && self.settled == Settled::default() && self.collections.iter().all(is_whole)
    }
}

/// What the engine lost of each table, by the table's name.
struct Losses<'r> {
    ranges: BTreeMap<&'r str, &'r [LostRange]>,
    given_up: BTreeMap<&'r str, &'r TableLoss>,
    /// Whether more may be lost than is named.
    is_damaged: bool,
}

impl<'r> Losses<'r> {
    fn of(salvaged: Salvaged<'r>) -> Self {
        let (copy, log) = match salvaged {
            Salvaged::Copy(copy) => (Some(copy), copy.log.as_ref()),
            Salvaged::InPlace(report) => (None, Some(report)),
        };
        let tables = copy.into_iter().flat_map(|copy| &copy.tables);
        let ranges = tables.filter(|table| !table.lost.is_empty());
        let given_up = log.into_iter().flat_map(|log| &log.lost);
        let is_log_damaged = log.is_some_and(|log| !log.is_complete() || !log.ahead.is_empty());
        Self {
            ranges: ranges.map(|table| (table.name.as_str(), table.lost.as_slice())).collect(),
            given_up: given_up.map(|loss| (loss.name.as_str(), loss)).collect(),
            is_damaged: is_log_damaged || copy.is_some_and(|copy| copy.manifest.is_some()),
        }
    }

    /// The ranges of names whose rows in the catalog may be lost.
    fn rows(&self) -> &'r [LostRange] {
        self.ranges.get(CATALOG_TABLE).copied().unwrap_or_default()
    }
}

/// Makes a salvaged database of documents agree with itself: the rows of its catalog with the engine's tables, its
/// indexes and counts with the documents. Nothing for a database without documents.
///
/// # Errors
/// Those of the engine, and as [`Database::with_engine`]. What is wrong with one collection is in the result.
pub fn mend(engine: &spinney::Database, salvaged: Salvaged<'_>, told: &mut OnMended<'_>) -> Result<Option<Mended>> {
    if !has_documents(engine)? {
        return Ok(None);
    }
    if is_of_member(engine)? {
        return Ok(Some(Mended { is_of_member: true, ..Mended::default() }));
    }
    let losses = Losses::of(salvaged);
    let is_lost = |name: &str| losses.rows().iter().any(|range| range.contains(name.as_bytes()));
    let damage = Damage { may_lack_rows: losses.is_damaged || !losses.rows().is_empty(), is_lost: &is_lost };
    let settled = settle(engine, &System, damage)?;
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let names = losses.rows().iter().map(|range| (text(&range.from), range.to.as_deref().map(text)));
    let mut mended = Mended { settled, lost_names: names.collect(), ..Mended::default() };
    let database = Database::with_engine(engine.clone())?;
    for (namespace, entry) in database.catalog().list(None) {
        let Entry::Collection(state) = entry else { continue };
        if is_own_number(state.number) {
            continue;
        }
        mended.collections.push(mend_collection(&database, namespace.as_str(), &state, &losses, told)?);
    }
    Ok(Some(mended))
}

fn mend_collection(
    database: &Database,
    namespace: &str,
    state: &Arc<CollectionState>,
    losses: &Losses<'_>,
    told: &mut OnMended<'_>,
) -> Result<MendedCollection> {
    let mut mended = MendedCollection { namespace: namespace.to_owned(), ..MendedCollection::default() };
    let mut tell = |read| {
        told(namespace, read);
        Ok(())
    };
    match database.repair(namespace, &mut tell) {
        Ok(repair) => {
            mended.documents = repair.after.documents;
            mended.repair = repair;
        }
        Err(error) => mended.failure = Some(error.to_string()),
    }
    let (snapshot, table) = (database.engine().snapshot(), collection_table(state.number));
    for range in losses.ranges.get(table.as_str()).copied().unwrap_or_default() {
        mended.lost.push(LostDocuments::new(state, &snapshot, range)?);
    }
    if let Some(loss) = losses.given_up.get(table.as_str()) {
        mended.changes_given_up = loss.changes;
        mended.given_up = names_of(state, &snapshot, &loss.keys)?;
    }
    Ok(mended)
}
