//! The operations of the graph on documents, as in LinkBenchX, with transactions.
//!
//! # Format
//!
//! | collection | fields |
//! |---|---|
//! | `nodetable` | `_id`, `type`, `version`, `time`, `data` |
//! | `linktable` | `id1`, `link_type`, `id2`, `visibility`, `time`, `version`, `data` |
//! | `counttable` | `id`, `link_type`, `count`, `time`, `version` |
//!
//! Unique indexes: `id1`, `link_type`, `id2` of links; `id`, `link_type` of counts. Another one of links has `id1`,
//! `link_type`, `visibility` and `time`, the newest first.
//!
//! Links and counts have an ObjectId as `_id`. Data is bytes, times are milliseconds, all else is integers.

use super::operations::{Effects, Found, Loaded, Operations};
use super::rows::{Count, Link, List, NODE_TYPE};
use crate::driver::{Client, Condition, Conflict, Documents, Field, Find, IndexSpec, Order, Outcome, Update, Value};
use crate::random::Random;
use anyhow::{Result, ensure};

const NODES: &str = "nodetable";
const LINKS: &str = "linktable";
const COUNTS: &str = "counttable";

const LINK_INDEXES: [IndexSpec; 2] = [
    IndexSpec {
        name: "link",
        fields: &[("id1", Order::Ascending), ("link_type", Order::Ascending), ("id2", Order::Ascending)],
        unique: true,
    },
    IndexSpec {
        name: "id1_type",
        fields: &[
            ("id1", Order::Ascending),
            ("link_type", Order::Ascending),
            ("visibility", Order::Ascending),
            ("time", Order::Descending),
        ],
        unique: false,
    },
];

const COUNT_INDEXES: [IndexSpec; 1] =
    [IndexSpec { name: "count", fields: &[("id", Order::Ascending), ("link_type", Order::Ascending)], unique: true }];

/// Bytes of a node, a link and a count as BSON without their data, about.
const NODE_BYTES: u64 = 80;
const LINK_BYTES: u64 = 130;
const COUNT_BYTES: u64 = 85;

/// What one client needs for its operations, and what they did.
#[derive(Debug, Default)]
pub(super) struct DocumentSession {
    done: Effects,
    loaded: Vec<Row>,
}

/// A row of the load.
#[derive(Debug)]
enum Row {
    Node { id: u64, time: u64, data: Vec<u8> },
    Link { list: List, id2: u64, link: Link },
    Count { list: List, count: Count },
}

/// Makes collections and indexes.
pub(super) fn create(client: &mut dyn Client) -> Result<()> {
    let documents = client.documents()?;
    [NODES, LINKS, COUNTS].into_iter().try_for_each(|collection| documents.create(collection))?;
    documents.create_indexes(LINKS, &LINK_INDEXES)?;
    documents.create_indexes(COUNTS, &COUNT_INDEXES)
}

fn int(number: u64) -> Value<'static> {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn node_fields(id: u64, version: u64, time: u64, data: &[u8]) -> [Field<'_>; 5] {
    let kind = ("type", Value::Int(NODE_TYPE.into()));
    [("_id", int(id)), kind, ("version", int(version)), ("time", int(time)), ("data", Value::Bytes(data))]
}

/// The fields that name a link.
fn link_key(list: List, id2: u64) -> [Field<'static>; 3] {
    let [id1, link_type] = list_key("id1", list);
    [id1, link_type, ("id2", int(id2))]
}

/// The fields that name a list.
fn list_key(id: &'static str, list: List) -> [Field<'static>; 2] {
    [(id, int(list.id1)), ("link_type", int(list.link_type))]
}

/// The fields of a link that may change.
fn link_values(link: &Link) -> [Field<'_>; 4] {
    [
        ("visibility", Value::Int(link.visible.into())),
        ("time", int(link.time)),
        ("version", int(link.version.into())),
        ("data", Value::Bytes(&link.data)),
    ]
}

impl Row {
    fn bytes(&self) -> u64 {
        match self {
            Self::Node { data, .. } => NODE_BYTES + data.len() as u64,
            Self::Link { link, .. } => LINK_BYTES + link.data.len() as u64,
            Self::Count { .. } => COUNT_BYTES,
        }
    }

    /// The collection, and the fields of the document.
    fn fields(&self) -> (&'static str, Vec<Field<'_>>) {
        match self {
            Self::Node { id, time, data } => (NODES, node_fields(*id, 1, *time, data).to_vec()),
            Self::Link { list, id2, link } => (LINKS, [&link_key(*list, *id2)[..], &link_values(link)].concat()),
            Self::Count { list, count } => {
                let values =
                    [("count", int(count.count.into())), ("time", int(count.time)), ("version", int(count.version))];
                (COUNTS, [&list_key("id", *list)[..], &values].concat())
            }
        }
    }
}

impl DocumentSession {
    /// Runs `body` as a transaction, again and again until there is no conflict.
    fn transact<T>(
        &mut self,
        client: &mut dyn Client,
        mut body: impl FnMut(&mut Self, &mut dyn Documents) -> Result<T>,
    ) -> Result<T> {
        loop {
            client.begin()?;
            let done = body(self, client.documents()?);
            match done {
                Ok(value) => {
                    if client.commit()? == Outcome::Done {
                        return Ok(value);
                    }
                }
                Err(error) => {
                    client.rollback()?;
                    if !error.is::<Conflict>() {
                        return Err(error);
                    }
                }
            }
            self.done.retries += 1;
        }
    }

    /// Whether a link is there, and whether it is visible.
    fn visibility(&mut self, documents: &mut dyn Documents, list: List, id2: u64) -> Result<Option<bool>> {
        let (key, mut visible) = (link_key(list, id2), None);
        documents.find(&Find { limit: 1, ..Find::new(LINKS, Condition::equal(&key)) }, &mut |found| {
            self.done.read_bytes += found.bytes() as u64;
            visible = Some(found.int("visibility") == Some(1));
        })?;
        Ok(visible)
    }

    /// Adds to the count of a list, which is made when there is none.
    fn change_count(
        &mut self,
        documents: &mut dyn Documents,
        list: List,
        added: i64,
        set: &[Field<'_>],
        now: u64,
    ) -> Result<()> {
        let (key, time) = (list_key("id", list), [("time", int(now))]);
        let on_insert = if set.is_empty() { &time[..] } else { &[] };
        documents.update(&Update {
            collection: COUNTS,
            which: Condition::equal(&key),
            set,
            add: &[("count", added), ("version", 1)],
            or_insert: Some(on_insert),
        })?;
        self.done.written_bytes += COUNT_BYTES;
        Ok(())
    }
}

impl Operations for DocumentSession {
    fn add_link(&mut self, client: &mut dyn Client, list: List, id2: u64, link: &Link) -> Result<bool> {
        self.transact(client, |own, documents| {
            let old = own.visibility(documents, list, id2)?;
            let (key, values) = (link_key(list, id2), link_values(link));
            if old.is_some() {
                let which = Condition::equal(&key);
                documents.update(&Update { collection: LINKS, which, set: &values, add: &[], or_insert: None })?;
            } else {
                documents.insert(LINKS, &[&[&key[..], &values].concat()])?;
            }
            own.done.written_bytes += LINK_BYTES + link.data.len() as u64;
            if link.visible != old.unwrap_or(false) {
                own.change_count(documents, list, if link.visible { 1 } else { -1 }, &[], link.time)?;
            }
            Ok(old.is_some())
        })
    }

    fn delete_link(&mut self, client: &mut dyn Client, list: List, id2: u64, now: u64, expunge: bool) -> Result<bool> {
        self.transact(client, |own, documents| {
            let old = own.visibility(documents, list, id2)?;
            if old == Some(true) {
                let key = link_key(list, id2);
                let which = Condition::equal(&key);
                if expunge {
                    documents.delete(LINKS, &which, false)?;
                } else {
                    let set = [("visibility", Value::Int(0))];
                    documents.update(&Update { collection: LINKS, which, set: &set, add: &[], or_insert: None })?;
                }
                own.done.written_bytes += LINK_BYTES;
                own.change_count(documents, list, -1, &[("time", int(now))], now)?;
            }
            Ok(old.is_some())
        })
    }

    fn count_links(&mut self, client: &mut dyn Client, list: List) -> Result<u64> {
        let (key, mut count) = (list_key("id", list), 0);
        client.documents()?.find(&Find { limit: 1, ..Find::new(COUNTS, Condition::equal(&key)) }, &mut |found| {
            self.done.read_bytes += found.bytes() as u64;
            count = found.int("count").unwrap_or(0);
        })?;
        Ok(u64::try_from(count)?)
    }

    fn get_links(&mut self, client: &mut dyn Client, list: List, id2s: &[u64]) -> Result<u64> {
        let (key, wanted) = (list_key("id1", list), id2s.iter().map(|&id2| int(id2)).collect::<Vec<_>>());
        let which = Condition { any_of: Some(("id2", &wanted)), ..Condition::equal(&key) };
        client.documents()?.find(&Find::new(LINKS, which), &mut |found| self.done.read_bytes += found.bytes() as u64)
    }

    fn get_list(&mut self, client: &mut dyn Client, list: List, newest: u64, skip: u64, limit: u64) -> Result<Found> {
        let [id1, link_type] = list_key("id1", list);
        let (key, from) = ([id1, link_type, ("visibility", Value::Int(1))], [("time", int(newest))]);
        let find = Find {
            sorted_by: &["time"],
            order: Order::Descending,
            skip,
            limit,
            ..Find::new(LINKS, Condition { from: &from, ..Condition::equal(&key) })
        };
        let mut oldest = 0;
        let links = client.documents()?.find(&find, &mut |found| {
            self.done.read_bytes += found.bytes() as u64;
            oldest = found.int("time").unwrap_or(0);
        })?;
        Ok(Found { links, oldest: u64::try_from(oldest)? })
    }

    fn add_node(&mut self, client: &mut dyn Client, id: u64, now: u64, data: &[u8]) -> Result<()> {
        self.done.written_bytes += NODE_BYTES + data.len() as u64;
        client.documents()?.insert(NODES, &[&node_fields(id, 1, now, data)])
    }

    fn get_node(&mut self, client: &mut dyn Client, id: u64) -> Result<bool> {
        let key = [("_id", int(id))];
        let find = Find::new(NODES, Condition::equal(&key));
        let found = client.documents()?.find(&find, &mut |found| self.done.read_bytes += found.bytes() as u64)?;
        Ok(found > 0)
    }

    /// One statement, which is a transaction.
    fn update_node(&mut self, client: &mut dyn Client, id: u64, now: u64, data: &[u8]) -> Result<bool> {
        let [key, set @ ..] = node_fields(id, 2, now, data);
        let which = [key];
        let which = Condition::equal(&which);
        let matched =
            client.documents()?.update(&Update { collection: NODES, which, set: &set, add: &[], or_insert: None })?;
        self.done.written_bytes += matched * (NODE_BYTES + data.len() as u64);
        Ok(matched > 0)
    }

    fn delete_node(&mut self, client: &mut dyn Client, id: u64) -> Result<bool> {
        let key = [("_id", int(id))];
        Ok(client.documents()?.delete(NODES, &Condition::equal(&key), false)? > 0)
    }

    fn done(&self) -> Effects {
        self.done
    }

    fn load(&mut self, row: &Loaded<'_>) {
        self.loaded.push(match *row {
            Loaded::Node { id, time, data } => Row::Node { id, time, data: data.to_vec() },
            Loaded::Link { list, id2, link } => Row::Link { list, id2, link: link.clone() },
            Loaded::Count { list, count } => Row::Count { list, count },
        });
    }

    /// The rows of a commit are of one collection.
    fn commit_load(&mut self, client: &mut dyn Client) -> Result<u64> {
        let rows: Vec<(&str, Vec<Field<'_>>)> = self.loaded.iter().map(Row::fields).collect();
        let Some(&(collection, _)) = rows.first() else { return Ok(0) };
        ensure!(rows.iter().all(|(other, _)| *other == collection), "a commit of the load in several collections");
        let documents: Vec<&[Field<'_>]> = rows.iter().map(|(_, fields)| fields.as_slice()).collect();
        client.documents()?.insert(collection, &documents)?;
        let bytes = self.loaded.iter().map(Row::bytes).sum();
        self.loaded.clear();
        Ok(bytes)
    }
}

/// Checks for a sample of so many nodes that each list has as many visible links as its count says; returns how many
/// lists were looked at.
pub(super) fn check(client: &mut dyn Client, nodes: u64, seed: u64, sample: u64) -> Result<u64> {
    let (documents, mut random) = (client.documents()?, Random::new(seed ^ 5));
    let mut lists = 0;
    for at in 1..=sample.min(nodes) {
        let id1 = if sample < nodes { 1 + random.below(nodes) } else { at };
        for link_type in super::graph::link_types() {
            let list = List { id1, link_type };
            let [id, kind] = list_key("id1", list);
            let links = documents.count(LINKS, &Condition::equal(&[id, kind, ("visibility", Value::Int(1))]))?;
            let (key, mut count) = (list_key("id", list), 0);
            documents.find(&Find::new(COUNTS, Condition::equal(&key)), &mut |found| {
                count = found.int("count").unwrap_or(-1);
            })?;
            ensure!(
                u64::try_from(count) == Ok(links),
                "node {id1} has {links} visible links of type {link_type}, and a count of {count}"
            );
            lists += 1;
        }
    }
    Ok(lists)
}
