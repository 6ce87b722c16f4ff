//! The operations of the graph on a database, with the effects that the original's `MySQL` statements have.

use super::operations::{Effects, Found, Loaded, Operations};
use super::rows::{COUNT, Count, INDEX, LINK, Link, List, NODE, index_time, node_key, put_node_head};
use crate::driver::{Batch, Client, Direction, Lacks, Outcome, Scan, TableId, unless_lacking};
use anyhow::{Result, ensure};

/// What one client needs for its operations, and what they did.
#[derive(Debug, Default)]
pub(super) struct Session {
    batch: Batch,
    value: Vec<u8>,
    /// There is no read of many keys in one call.
    single_gets: bool,
    pub(super) done: Effects,
}

impl Operations for Session {
    fn add_link(&mut self, client: &mut dyn Client, list: List, id2: u64, link: &Link) -> Result<bool> {
        let key = list.link_key(id2);
        let mut was_there = false;
        self.transact(client, |own, client| {
            let old = own.get_link(client, &key)?;
            was_there = old.is_some();
            own.replace(list, id2, old.as_ref(), Some(link));
            let was_visible = old.is_some_and(|old| old.visible);
            if link.visible != was_visible {
                let count = own.get_count(client, list)?;
                own.put_count(
                    list,
                    match count {
                        Some(count) if link.visible => {
                            Count { count: count.count + 1, version: count.version + 1, ..count }
                        }
                        Some(count) => {
                            Count { count: count.count.saturating_sub(1), version: count.version + 1, ..count }
                        }
                        None => Count { count: link.visible.into(), time: link.time, version: link.version.into() },
                    },
                );
            }
            Ok(())
        })?;
        Ok(was_there)
    }

    fn delete_link(&mut self, client: &mut dyn Client, list: List, id2: u64, now: u64, expunge: bool) -> Result<bool> {
        let key = list.link_key(id2);
        let mut was_there = false;
        self.transact(client, |own, client| {
            let old = own.get_link(client, &key)?;
            was_there = old.is_some();
            let Some(old) = old.filter(|old| old.visible) else { return Ok(()) };
            let hidden = Link { visible: false, ..old.clone() };
            own.replace(list, id2, Some(&old), (!expunge).then_some(&hidden));
            let count = own.get_count(client, list)?;
            own.put_count(
                list,
                match count {
                    Some(count) => {
                        Count { count: count.count.saturating_sub(1), time: now, version: count.version + 1 }
                    }
                    None => Count { count: 0, time: now, version: 0 },
                },
            );
            Ok(())
        })?;
        Ok(was_there)
    }

    fn count_links(&mut self, client: &mut dyn Client, list: List) -> Result<u64> {
        let count = self.get(client, COUNT, &list.count_key(), false, Count::of_value)?;
        Ok(count.map_or(0, |count| count.count.into()))
    }

    fn get_links(&mut self, client: &mut dyn Client, list: List, id2s: &[u64]) -> Result<u64> {
        let keys: Vec<[u8; 24]> = id2s.iter().map(|&id2| list.link_key(id2)).collect();
        let mut found = 0;
        if !self.single_gets {
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 24]>::as_slice).collect();
            let (mut bytes, mut wrong) = (0, None);
            let read = client.multi_get(LINK, &keys, &mut |at, value| {
                if !value.is_empty() {
                    found += 1;
                    bytes += keys[at].len() + value.len();
                    wrong = wrong.take().or(Link::of_value(value).err());
                }
            });
            if unless_lacking(read)?.is_ok() {
                self.done.read_bytes += bytes as u64;
                return wrong.map_or(Ok(found), Err);
            }
            self.single_gets = true;
        }
        for key in &keys {
            found += u64::from(self.get(client, LINK, key, false, Link::of_value)?.is_some());
        }
        Ok(found)
    }

    fn get_list(&mut self, client: &mut dyn Client, list: List, newest: u64, skip: u64, limit: u64) -> Result<Found> {
        let from = list.index_key(true, newest, 0);
        // No time is stored inverted with all bits set, for that is time 0.
        let until = list.index_key(true, 0, u64::MAX);
        let scan = Scan {
            table: INDEX,
            from: Some(&from),
            until: Some(&until),
            direction: Direction::Forward,
            limit: skip.saturating_add(limit),
        };
        let (mut seen, mut bytes, mut last) = (0, 0, Vec::new());
        client.scan(&scan, &mut |key, value| {
            seen += 1;
            if seen > skip {
                bytes += key.len() + value.len();
                last.clear();
                last.extend_from_slice(key);
            }
        })?;
        self.done.read_bytes += bytes as u64;
        let oldest = if last.is_empty() { 0 } else { index_time(&last)? };
        Ok(Found { links: u64::saturating_sub(seen, skip), oldest })
    }

    fn add_node(&mut self, client: &mut dyn Client, id: u64, now: u64, data: &[u8]) -> Result<()> {
        self.put_node(id, 1, now, data);
        while client.write(&self.batch)? == Outcome::Conflict {
            self.done.retries += 1;
        }
        self.done.written_bytes += self.batch.bytes() as u64;
        self.batch.clear();
        Ok(())
    }

    fn get_node(&mut self, client: &mut dyn Client, id: u64) -> Result<bool> {
        Ok(self.get(client, NODE, &node_key(id), false, |_| Ok(()))?.is_some())
    }

    fn update_node(&mut self, client: &mut dyn Client, id: u64, now: u64, data: &[u8]) -> Result<bool> {
        let mut was_there = false;
        self.transact(client, |own, client| {
            was_there = own.get(client, NODE, &node_key(id), true, |_| Ok(()))?.is_some();
            if was_there {
                own.put_node(id, 2, now, data);
            }
            Ok(())
        })?;
        Ok(was_there)
    }

    fn delete_node(&mut self, client: &mut dyn Client, id: u64) -> Result<bool> {
        let mut was_there = false;
        self.transact(client, |own, client| {
            was_there = own.get(client, NODE, &node_key(id), true, |_| Ok(()))?.is_some();
            if was_there {
                own.batch.delete(NODE, &node_key(id));
            }
            Ok(())
        })?;
        Ok(was_there)
    }

    fn done(&self) -> Effects {
        self.done
    }

    fn load(&mut self, row: &Loaded<'_>) {
        match *row {
            Loaded::Node { id, time, data } => self.put_node(id, 1, time, data),
            Loaded::Link { list, id2, link } => put_link(&mut self.batch, &mut self.value, list, id2, link),
            Loaded::Count { list, count } => self.put_count(list, count),
        }
    }

    fn commit_load(&mut self, client: &mut dyn Client) -> Result<u64> {
        if self.batch.is_empty() {
            return Ok(0);
        }
        ensure!(client.write(&self.batch)? == Outcome::Done, "a conflict outside of transactions");
        let bytes = self.batch.bytes() as u64;
        self.batch.clear();
        Ok(bytes)
    }
}

impl Session {
    /// Runs `body` as a transaction, again and again until there is no conflict. What it adds to the batch is written
    /// at its end.
    fn transact(
        &mut self,
        client: &mut dyn Client,
        mut body: impl FnMut(&mut Self, &mut dyn Client) -> Result<()>,
    ) -> Result<()> {
        loop {
            client.begin()?;
            self.batch.clear();
            if let Err(error) = body(self, client) {
                // The first error is the one to tell.
                drop(client.rollback());
                return Err(error);
            }
            let wrote = if self.batch.is_empty() { Outcome::Done } else { client.write(&self.batch)? };
            if wrote == Outcome::Done && client.commit()? == Outcome::Done {
                self.done.written_bytes += self.batch.bytes() as u64;
                self.batch.clear();
                return Ok(());
            }
            self.done.retries += 1;
        }
    }

    /// Adds to the batch what makes `new` of a link, in its table and in the index.
    fn replace(&mut self, list: List, id2: u64, old: Option<&Link>, new: Option<&Link>) {
        let index_key = |link: &Link| list.index_key(link.visible, link.time, id2);
        if let Some(stale) = old.map(index_key).filter(|&stale| new.map(index_key) != Some(stale)) {
            self.batch.delete(INDEX, &stale);
        }
        match new {
            Some(new) => put_link(&mut self.batch, &mut self.value, list, id2, new),
            None => self.batch.delete(LINK, &list.link_key(id2)),
        }
    }

    fn put_node(&mut self, id: u64, version: u64, now: u64, data: &[u8]) {
        self.value.clear();
        put_node_head(&mut self.value, version, now);
        self.value.extend_from_slice(data);
        self.batch.put(NODE, &node_key(id), &self.value);
    }

    fn put_count(&mut self, list: List, count: Count) {
        self.batch.put(COUNT, &list.count_key(), &count.value());
    }

    fn get_link(&mut self, client: &mut dyn Client, key: &[u8]) -> Result<Option<Link>> {
        self.get(client, LINK, key, true, Link::of_value)
    }

    fn get_count(&mut self, client: &mut dyn Client, list: List) -> Result<Option<Count>> {
        self.get(client, COUNT, &list.count_key(), true, Count::of_value)
    }

    /// Reads a row and makes of it what `parse` does. No row is empty: an engine that has one has none, or does
    /// nothing.
    fn get<T>(
        &mut self,
        client: &mut dyn Client,
        table: TableId,
        key: &[u8],
        for_update: bool,
        parse: impl Fn(&[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        let (mut row, mut bytes) = (None, 0);
        let mut found = |value: &[u8]| {
            if !value.is_empty() {
                bytes = key.len() + value.len();
                row = Some(parse(value));
            }
        };
        if for_update {
            client.get_for_update(table, key, &mut found)?;
        } else {
            client.get(table, key, &mut found)?;
        }
        self.done.read_bytes += bytes as u64;
        row.transpose()
    }
}

/// Adds a link to a batch, in its table and in the index.
fn put_link(batch: &mut Batch, value: &mut Vec<u8>, list: List, id2: u64, link: &Link) {
    value.clear();
    link.put_value(value);
    batch.put(LINK, &list.link_key(id2), value);
    value.clear();
    link.put_index_value(value);
    batch.put(INDEX, &list.index_key(link.visible, link.time, id2), value);
}

/// What an engine lacks for the requests, if so.
pub(super) fn lacks_transactions(client: &mut dyn Client) -> Result<Option<Lacks>> {
    match unless_lacking(client.begin())? {
        Ok(()) => client.rollback().map(|()| None),
        Err(lacks) => Ok(Some(lacks)),
    }
}
