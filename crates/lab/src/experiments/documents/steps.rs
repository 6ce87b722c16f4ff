//! The steps.

use super::data::{BUILT, COLLECTION, DOCUMENT_BYTES, GROUPS, INDEXES, Maker, Text, group, id, price, scattered};
use super::params::Documents;
use crate::driver::{Client, Condition, Field, Find, Order, Update, Value};
use crate::random::{Permutation, Random};
use crate::report::Figure;
use crate::run::{Db, Did, End, Plan, Role, Work};
use anyhow::{Result, ensure};

/// Documents that a range has at most.
const RANGE_DOCUMENTS: u64 = 10;

/// What the steps share.
pub(super) struct Steps<'a> {
    pub(super) params: &'a Documents,
    pub(super) seed: u64,
    pub(super) text: &'a Text,
}

impl<'a> Steps<'a> {
    /// Makes the collection and its indexes.
    pub(super) fn make(&self, db: &Db<'_, '_>) -> Result<()> {
        let mut client = db.store().client()?;
        let documents = client.documents()?;
        documents.create(COLLECTION)?;
        documents.create_indexes(COLLECTION, &INDEXES)
    }

    pub(super) fn insert(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let singles = self.params.singles();
        self.inserts(db, "insert", (0, singles), 1)
    }

    pub(super) fn bulk(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let singles = self.params.singles();
        match self.params.documents - singles {
            0 => Ok(()),
            others => self.inserts(db, "bulk", (singles, others), self.params.batch),
        }
    }

    fn inserts(&self, db: &mut Db<'_, '_>, name: &str, (first, count): (u64, u64), batch: u64) -> Result<()> {
        let (seed, text) = (self.seed, self.text);
        let make = move |_client| {
            let mut maker = Maker::new(seed, text);
            move |client: &mut dyn Client, at: u64| {
                let from = at * batch;
                let documents = maker.make(first + from, batch.min(count - from));
                let documents: Vec<&[Field<'_>]> = documents.iter().map(<[Field<'_>; 10]>::as_slice).collect();
                client.documents()?.insert(COLLECTION, &documents)?;
                let inserted = documents.len() as u64;
                Ok(Did::wrote(inserted * DOCUMENT_BYTES).operations(inserted))
            }
        };
        let role = self.role(count.div_ceil(batch), make);
        let live_bytes = Some((first + count) * DOCUMENT_BYTES);
        db.step(&Plan { name: name.to_owned(), unit: "document", roles: vec![role], live_bytes }).map(drop)
    }

    /// Waits until no background work is left, and says how large the database is then.
    pub(super) fn settle(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let bson = self.params.documents * DOCUMENT_BYTES;
        let step = db.settle("settle")?;
        let ratio = step.after.size.map(|size| size.data_bytes() as f64 / bson as f64);
        step.figures = vec![Figure::less("disk/BSON", "", ratio)];
        Ok(())
    }

    pub(super) fn find(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let (seed, documents) = (self.seed ^ 2, self.params.documents);
        self.reads(db, "find", move |client: &mut dyn Client, at: u64| {
            let number = Random::of(seed, at).below(documents);
            let mut read = 0;
            let which = [("_id", id(number))];
            let find = Find::new(COLLECTION, Condition::equal(&which));
            let found = client.documents()?.find(&find, &mut |found| read += found.bytes() as u64)?;
            ensure!(found == 1, "document {number} is not there");
            Ok(Did::read(read))
        })
    }

    /// Ranges of the index on `b` and `price`, each from a document that is there on.
    pub(super) fn ranges(&self, db: &mut Db<'_, '_>, name: &str, shown: &'a [&'static str]) -> Result<()> {
        let (seed, documents) = (self.seed, self.params.documents);
        self.reads(db, name, move |client: &mut dyn Client, at: u64| {
            let number = Random::of(seed ^ 3, at).below(documents);
            let (equal, from) = ([("b", Value::Int(group(number)))], [("price", Value::Double(price(seed, number)))]);
            let which = Condition { from: &from, ..Condition::equal(&equal) };
            let find = Find {
                sorted_by: &["price"],
                order: Order::Descending,
                shown,
                limit: RANGE_DOCUMENTS,
                ..Find::new(COLLECTION, which)
            };
            let mut read = 0;
            let found = client.documents()?.find(&find, &mut |found| read += found.bytes() as u64)?;
            ensure!(found > 0, "no document has the price of document {number} or a lower one");
            Ok(Did::read(read))
        })
    }

    /// The documents in the upper half of the values of `b`.
    pub(super) fn count(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let half = GROUPS / 2;
        let documents = self.params.documents;
        let wanted = documents / GROUPS * half + (documents % GROUPS).saturating_sub(half);
        self.scans(db, "count", move |client: &mut dyn Client, _at: u64| {
            let which = Condition { from: &[("b", Value::Int(group(half)))], ..Condition::default() };
            let counted = client.documents()?.count(COLLECTION, &which)?;
            ensure!(counted == wanted, "{counted} documents are counted, and there are {wanted}");
            Ok(Did::read(0).operations(wanted))
        })
    }

    pub(super) fn scan(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let documents = self.params.documents;
        self.scans(db, "scan", move |client: &mut dyn Client, _at: u64| {
            let which = Condition::equal(&[("x", Value::Int(1))]);
            let found = client.documents()?.find(&Find::new(COLLECTION, which), &mut |_| {})?;
            ensure!(found == 0, "{found} documents have a field that none has");
            Ok(Did::read(documents * DOCUMENT_BYTES).operations(documents))
        })
    }

    pub(super) fn group(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let documents = self.params.documents;
        self.scans(db, "group", move |client: &mut dyn Client, _at: u64| {
            let (groups, wanted) = (client.documents()?.group(COLLECTION, "b", "price")?, documents.min(GROUPS));
            ensure!(groups == wanted, "there are {groups} groups, and not {wanted}");
            Ok(Did::read(0).operations(documents))
        })
    }

    pub(super) fn update(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let (seed, documents) = (self.seed ^ 4, self.params.documents);
        let work = move |client: &mut dyn Client, at: u64| {
            let number = Random::of(seed, at).below(documents);
            change(client, number, &[], &[("n", 1)])
        };
        self.changes(db, "inc", self.params.updates, work)
    }

    pub(super) fn move_entries(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let (seed, documents) = (self.seed ^ 5, self.params.documents);
        let work = move |client: &mut dyn Client, at: u64| {
            let number = Random::of(seed, at).below(documents);
            change(client, number, &[("a", Value::Int(scattered(seed, at)))], &[])
        };
        self.changes(db, "move", self.params.updates, work)
    }

    pub(super) fn delete(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let order = Permutation::new(self.seed ^ 6, self.params.documents);
        let work = move |client: &mut dyn Client, at: u64| {
            let number = order.at(at);
            let which = [("_id", id(number))];
            let deleted = client.documents()?.delete(COLLECTION, &Condition::equal(&which), false)?;
            ensure!(deleted == 1, "document {number} is not there");
            Ok(Did::wrote(0))
        };
        self.changes(db, "delete", self.params.deletes(), work)
    }

    /// Builds another index over the documents that are left.
    pub(super) fn build(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let left = self.params.documents - self.params.deletes();
        if left == 0 {
            return Ok(());
        }
        self.changes(db, "build", 1, move |client: &mut dyn Client, _at: u64| {
            client.documents()?.create_indexes(COLLECTION, &[BUILT])?;
            Ok(Did::wrote(0).operations(left))
        })
    }

    fn reads<W>(&self, db: &mut Db<'_, '_>, name: &str, work: W) -> Result<()>
    where
        W: Work + Copy + Sync + 'a,
    {
        let roles = vec![self.role(self.params.reads, move |_client| work)];
        db.step(&Plan { name: name.to_owned(), unit: "query", roles, live_bytes: None }).map(drop)
    }

    fn scans<W>(&self, db: &mut Db<'_, '_>, name: &str, work: W) -> Result<()>
    where
        W: Work + Copy + Sync + 'a,
    {
        let roles = vec![self.role(self.params.scans, move |_client| work)];
        db.step(&Plan { name: name.to_owned(), unit: "document", roles, live_bytes: None }).map(drop)
    }

    fn changes<W>(&self, db: &mut Db<'_, '_>, name: &str, calls: u64, work: W) -> Result<()>
    where
        W: Work + Clone + Sync + 'a,
    {
        let roles = vec![self.role(calls, move |_client| work.clone())];
        db.step(&Plan { name: name.to_owned(), unit: "document", roles, live_bytes: None }).map(drop)
    }

    fn role<W: Work + 'a>(&self, calls: u64, make: impl Fn(usize) -> W + Sync + 'a) -> Role<'a> {
        Role::new(&["call"], self.params.clients.into(), End::Calls(calls), make)
    }
}

/// Changes the document with a number.
fn change(client: &mut dyn Client, number: u64, set: &[Field<'_>], add: &[(&'static str, i64)]) -> Result<Did> {
    let which = [("_id", id(number))];
    let update = Update { collection: COLLECTION, which: Condition::equal(&which), set, add, or_insert: None };
    let matched = client.documents()?.update(&update)?;
    ensure!(matched == 1, "document {number} is not there");
    Ok(Did::wrote(DOCUMENT_BYTES))
}
