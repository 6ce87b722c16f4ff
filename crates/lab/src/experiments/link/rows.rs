//! Keys and values of the tables.
//!
//! # Format
//! All numbers big-endian, so that bytes order as numbers do.
//!
//! | table | key | value |
//! |---|---|---|
//! | `node` | id 8 | type 4, version 8, time 4, data |
//! | `link` | id1 8, link type 8, id2 8 | visibility 1, time 8, version 4, data |
//! | `linktime` | id1 8, link type 8, visibility 1, inverted time 8, id2 8 | version 4, data |
//! | `count` | id 8, link type 8 | count 4, time 8, version 8 |
//!
//! `linktime` is the index `id1_type` of the original's `MySQL` schema, which covers the link. Its time is stored
//! inverted, so that the links of a node and type that are visible are one range, newest first.

use crate::driver::{TableId, TableSpec};
use anyhow::{Context as _, Result};

pub(super) const NODE: TableId = TableId(0);
pub(super) const LINK: TableId = TableId(1);
pub(super) const INDEX: TableId = TableId(2);
pub(super) const COUNT: TableId = TableId(3);

/// The tables, in the order of their ids.
pub(super) const TABLES: [TableSpec; 4] =
    [TableSpec::new("node"), TableSpec::new("link"), TableSpec::index("linktime", LINK), TableSpec::new("count")];

/// The type of all nodes.
pub(super) const NODE_TYPE: u32 = 2048;

/// The links of one node that have one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct List {
    pub(super) id1: u64,
    pub(super) link_type: u64,
}

/// What is stored of a link besides its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) visible: bool,
    /// Milliseconds since 1970.
    pub(super) time: u64,
    pub(super) version: u32,
    pub(super) data: Vec<u8>,
}

/// What is stored of a list of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// How many of the links are visible.
    pub(super) count: u32,
    /// Milliseconds since 1970.
    pub(super) time: u64,
    pub(super) version: u64,
}

pub(super) fn node_key(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

/// A node's value up to its data, at this many milliseconds since 1970.
pub(super) fn put_node_head(value: &mut Vec<u8>, version: u64, time_ms: u64) {
    value.extend_from_slice(&NODE_TYPE.to_be_bytes());
    value.extend_from_slice(&version.to_be_bytes());
    // The original keeps seconds in 32 bits.
    value.extend_from_slice(&u32::try_from(time_ms / 1000).unwrap_or(u32::MAX).to_be_bytes());
}

impl List {
    pub(super) fn count_key(self) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.id1.to_be_bytes());
        key[8..].copy_from_slice(&self.link_type.to_be_bytes());
        key
    }

    pub(super) fn link_key(self, id2: u64) -> [u8; 24] {
        let mut key = [0; 24];
        key[..16].copy_from_slice(&self.count_key());
        key[16..].copy_from_slice(&id2.to_be_bytes());
        key
    }

    pub(super) fn index_key(self, visible: bool, time: u64, id2: u64) -> [u8; 33] {
        let mut key = [0; 33];
        key[..16].copy_from_slice(&self.count_key());
        key[16] = u8::from(visible);
        key[17..25].copy_from_slice(&(!time).to_be_bytes());
        key[25..].copy_from_slice(&id2.to_be_bytes());
        key
    }

    /// The list that a key of any table of links or counts begins with.
    pub(super) fn of_key(key: &[u8]) -> Result<Self> {
        Ok(Self { id1: number(key, 0)?, link_type: number(key, 8)? })
    }
}

/// The time of a link by its index key.
pub(super) fn index_time(key: &[u8]) -> Result<u64> {
    Ok(!number(key, 17)?)
}

impl Link {
    pub(super) fn put_value(&self, value: &mut Vec<u8>) {
        value.push(u8::from(self.visible));
        value.extend_from_slice(&self.time.to_be_bytes());
        self.put_index_value(value);
    }

    pub(super) fn put_index_value(&self, value: &mut Vec<u8>) {
        value.extend_from_slice(&self.version.to_be_bytes());
        value.extend_from_slice(&self.data);
    }

    pub(super) fn of_value(value: &[u8]) -> Result<Self> {
        let version = value.get(9..13).context(SHORT)?;
        Ok(Self {
            visible: value[0] == 1,
            time: number(value, 1)?,
            version: u32::from_be_bytes(version.try_into()?),
            data: value[13..].to_vec(),
        })
    }
}

impl Count {
    pub(super) fn value(self) -> [u8; 20] {
        let mut value = [0; 20];
        value[..4].copy_from_slice(&self.count.to_be_bytes());
        value[4..12].copy_from_slice(&self.time.to_be_bytes());
        value[12..].copy_from_slice(&self.version.to_be_bytes());
        value
    }

    pub(super) fn of_value(value: &[u8]) -> Result<Self> {
        let count = value.get(..4).context(SHORT)?;
        Ok(Self { count: u32::from_be_bytes(count.try_into()?), time: number(value, 4)?, version: number(value, 12)? })
    }
}

const SHORT: &str = "a row is shorter than it was written";

fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let bytes = bytes.get(at..at + 8).context(SHORT)?;
    Ok(u64::from_be_bytes(bytes.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_in_descending_order_of_time_and_hidden_links_lie_apart() {
        let list = List { id1: 7, link_type: 1 };
        let keys = [
            list.index_key(false, 5, 1),
            list.index_key(true, 1000, 9),
            list.index_key(true, 999, 2),
            list.index_key(true, 999, 3),
            list.index_key(true, 0, 1),
            List { id1: 7, link_type: 2 }.index_key(false, 9, 0),
            List { id1: 256, link_type: 0 }.index_key(false, 9, 0),
        ];
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!((index_time(&keys[2]).unwrap(), List::of_key(&keys[2]).unwrap()), (999, list));
    }

    #[test]
    fn links_of_a_list_and_counts_of_a_node_lie_together() {
        let list = |id1, link_type| List { id1, link_type };
        let keys = [list(1, 1).link_key(300), list(1, 2).link_key(1), list(2, 1).link_key(0), list(256, 1).link_key(0)];
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert!(
            keys.iter()
                .all(|key| List::of_key(key).unwrap().link_key(u64::from_be_bytes(key[16..].try_into().unwrap()))
                    == *key)
        );
        assert!([node_key(1), node_key(255), node_key(256)].is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn values_come_back() {
        let link = Link { visible: true, time: 1 << 40, version: 3, data: b"data".to_vec() };
        let mut value = Vec::new();
        link.put_value(&mut value);
        assert_eq!((value.len(), Link::of_value(&value).unwrap()), (17, link));
        let count = Count { count: 5, time: 6, version: 7 };
        assert_eq!(Count::of_value(&count.value()).unwrap(), count);
        assert!(Link::of_value(&value[..12]).is_err() && Count::of_value(&[0; 19]).is_err());
    }
}
