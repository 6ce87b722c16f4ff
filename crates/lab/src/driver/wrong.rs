//! An engine that loses a key, to show that verification finds it.

use super::batch::Batch;
use super::client::{Client, Outcome, Scan};
use super::config::{Config, TableId, TableSpec};
use super::engine::Engine;
use super::store::Store;
use anyhow::Result;
use std::path::Path;

/// An engine whose reads pass one key over.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) engine: Box<dyn Engine>,
    pub(super) lost: &'static [u8],
}

struct WrongStore {
    store: Box<dyn Store>,
    lost: &'static [u8],
}

struct WrongClient<'a> {
    client: Box<dyn Client + 'a>,
    lost: &'static [u8],
}

impl Engine for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn version(&self) -> String {
        self.engine.version()
    }

    fn direct_io(&self) -> bool {
        self.engine.direct_io()
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        Ok(Box::new(WrongStore { store: self.engine.open(dir, config, tables)?, lost: self.lost }))
    }
}

impl Store for WrongStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(WrongClient { client: self.store.client()?, lost: self.lost }))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.store.settings()
    }

    fn sync(&self) -> Result<()> {
        self.store.sync()
    }

    fn wait_idle(&self) -> Result<()> {
        self.store.wait_idle()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close()
    }
}

impl Client for WrongClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        self.client.write(batch)
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if key == self.lost {
            return Ok(false);
        }
        self.client.get(table, key, found)
    }

    fn multi_get(&mut self, table: TableId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.client.multi_get(table, keys, &mut |at, value| {
            if keys[at] != self.lost {
                found(at, value);
            }
        })
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut visited = 0;
        self.client.scan(scan, &mut |key, value| {
            if key != self.lost {
                visited += 1;
                visit(key, value);
            }
        })?;
        Ok(visited)
    }

    fn view(&mut self) -> Result<()> {
        self.client.view()
    }

    fn begin(&mut self) -> Result<()> {
        self.client.begin()
    }

    fn commit(&mut self) -> Result<Outcome> {
        self.client.commit()
    }

    fn rollback(&mut self) -> Result<()> {
        self.client.rollback()
    }
}
