//! l.x: the secondary indexes are made from the rows.
//!
//! Entries are gathered in pieces, sorted, and put in order: what a database without a bulk loader would do. A piece
//! takes so much memory beside the database's.

use super::documents;
use super::entries::{ROWS, each_row};
use super::form::Form;
use super::rows::{ENTRY_BYTES, ENTRY_BYTES_MAX};
use super::steps::Steps;
use crate::driver::{Batch, Client, TableId};
use crate::run::{Db, Did, End, Plan, Role};
use anyhow::Result;

/// Rows of which the entries are sorted together.
const PIECE_ROWS: u64 = 1 << 20;

/// Entries in one commit.
const BATCH_ENTRIES: usize = 1_000;

impl Steps<'_> {
    /// Makes the indexes.
    pub(super) fn make_indexes(&self, db: &mut Db<'_, '_>) -> Result<()> {
        let (indexes, rows) = (self.indexes(), self.live.inserted());
        if indexes == 0 {
            return Ok(());
        }
        // An engine that keeps indexes itself makes them itself; what the others lack is no result.
        let name = self.name("l.x");
        if db.bench().takes_over(&name)? {
            return Ok(());
        }
        let step = db.verb(&name, |store| match self.form {
            Form::Entries => store.build_indexes(),
            Form::Documents => {
                let wanted = &documents::INDEXES[..indexes];
                store.client()?.documents()?.create_indexes(documents::COLLECTION, wanted)
            }
        })?;
        if step.skipped.is_none() {
            step.unit = "row".to_owned();
            if let Some(cost) = &mut step.cost {
                cost.scale(rows);
            }
            return Ok(());
        }
        db.bench().steps().pop();
        let make = move |_client| {
            move |client: &mut dyn Client, at: u64| {
                let from = at * PIECE_ROWS;
                let until = rows.min(from + PIECE_ROWS);
                let written = make_piece(client, from, until, indexes)?;
                Ok(Did::wrote(written).operations(until - from))
            }
        };
        let role = Role::new(&["piece"], 1, End::Calls(rows.div_ceil(PIECE_ROWS)), make);
        let live_bytes = Some(self.live_bytes(rows, indexes));
        db.step(&Plan { name, unit: "row", roles: vec![role], live_bytes }).map(drop)
    }
}

/// Puts the entries of the rows in a range of keys, and returns how many bytes they have.
fn make_piece(client: &mut dyn Client, from: u64, until: u64, indexes: usize) -> Result<u64> {
    // One allocation for each index, which goes back to the system when the piece is done: all entries of an index have
    // one length, so that those in arrays of the longest are in the same order.
    let rows = usize::try_from(until - from)?;
    let mut entries: Vec<Vec<[u8; ENTRY_BYTES_MAX]>> = (0..indexes).map(|_| Vec::with_capacity(rows)).collect();
    each_row(client, from..until, |row| {
        for (entries, entry) in entries.iter_mut().zip(row.entries()) {
            let mut padded = [0; ENTRY_BYTES_MAX];
            padded[..entry.len()].copy_from_slice(entry);
            entries.push(padded);
        }
    })?;
    let (mut batch, mut written) = (Batch::new(), 0);
    for (at, mut entries) in entries.into_iter().enumerate() {
        entries.sort_unstable();
        for entries in entries.chunks(BATCH_ENTRIES) {
            batch.clear();
            for entry in entries {
                batch.put(TableId(ROWS.0 + 1 + at), &entry[..ENTRY_BYTES[at]], b"");
            }
            let _done = client.write(&batch)?;
            written += batch.bytes() as u64;
        }
    }
    Ok(written)
}
