//! Whether the counts, the links and the index agree, as they do when transactions are what they should be.

use super::rows::{COUNT, Count, INDEX, LINK, Link, List};
use crate::driver::{Client, Direction, Scan, TableId};
use crate::random::{Random, mix};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::ops::Range;

/// Nodes that are looked at together.
const RANGE_NODES: u64 = 256;

/// Up to so many nodes all are looked at, and in a larger graph about as many, in ranges here and there.
const ALL_NODES: u64 = 1_000_000;

/// What a check saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) nodes: u64,
    pub(super) counts: u64,
    pub(super) links: u64,
}

/// What three tables say of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    count: u64,
    visible: u64,
    links: u64,
    entries: u64,
    /// Sums of hashes of the index entries: those that the links should have, and those that are there.
    wanted: u64,
    there: u64,
}

/// Looks at the links of the nodes `1..=nodes`, or of a part of them.
///
/// # Errors
/// What is wrong, or what the engine says.
pub(super) fn check(client: &mut dyn Client, nodes: u64, seed: u64) -> Result<Checked> {
    let mut checked = Checked::default();
    let ranges = nodes.div_ceil(RANGE_NODES);
    let mut random = Random::new(seed);
    let sampled = ranges.min(ALL_NODES.div_ceil(RANGE_NODES));
    for at in 0..sampled {
        let range = if sampled == ranges { at } else { random.below(ranges) };
        let first = range * RANGE_NODES + 1;
        check_range(client, first..(first + RANGE_NODES).min(nodes + 1), &mut checked)?;
    }
    Ok(checked)
}

fn check_range(client: &mut dyn Client, ids: Range<u64>, checked: &mut Checked) -> Result<()> {
    let mut lists: BTreeMap<List, Seen> = BTreeMap::new();
    let mut value = Vec::new();
    scan(client, LINK, &ids, |key, row| {
        let (list, link) = (List::of_key(key)?, Link::of_value(row)?);
        let id2 = u64::from_be_bytes(key[16..].try_into()?);
        let seen = lists.entry(list).or_default();
        seen.links += 1;
        seen.visible += u64::from(link.visible);
        value.clear();
        link.put_index_value(&mut value);
        seen.wanted = seen.wanted.wrapping_add(hash(&list.index_key(link.visible, link.time, id2), &value));
        Ok(())
    })?;
    scan(client, INDEX, &ids, |key, row| {
        let seen = lists.entry(List::of_key(key)?).or_default();
        seen.entries += 1;
        seen.there = seen.there.wrapping_add(hash(key, row));
        Ok(())
    })?;
    scan(client, COUNT, &ids, |key, row| {
        lists.entry(List::of_key(key)?).or_default().count = Count::of_value(row)?.count.into();
        checked.counts += 1;
        Ok(())
    })?;
    for (List { id1, link_type }, seen) in lists {
        let Seen { count, visible, links, entries, wanted, there } = seen;
        ensure!(
            count == visible,
            "the database is wrong: node {id1} has {visible} visible links of type {link_type} and a count of {count}"
        );
        ensure!(
            links == entries && wanted == there,
            "the database is wrong: the {links} links of node {id1} with type {link_type} and their {entries} index entries differ"
        );
        checked.links += links;
    }
    checked.nodes += ids.end - ids.start;
    Ok(())
}

/// Visits all rows of a table whose keys begin with one of `ids`.
fn scan(
    client: &mut dyn Client,
    table: TableId,
    ids: &Range<u64>,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let (from, until) = (ids.start.to_be_bytes(), ids.end.to_be_bytes());
    let scan = Scan { table, from: Some(&from), until: Some(&until), direction: Direction::Forward, limit: u64::MAX };
    let mut result = Ok(());
    client.scan(&scan, &mut |key, row| {
        if result.is_ok() {
            result = visit(key, row);
        }
    })?;
    result
}

fn hash(key: &[u8], row: &[u8]) -> u64 {
    let lengths = mix(key.len() as u64) ^ row.len() as u64;
    key.iter().chain(row).fold(lengths, |hash, &byte| mix(hash ^ u64::from(byte)))
}
