//! Loads of many entries from an iterable.

use pyo3::prelude::*;
use pyo3::types::PyIterator;
use spinney::{Batch, Database, Table};

use crate::bytes::Bytes;
use crate::error::Raise;

/// Bytes of entries that are handed over at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The next entries of an iterable, about [`CHUNK_BYTES`] of them; none at its end.
fn chunk<'py>(entries: &mut Bound<'py, PyIterator>) -> PyResult<Vec<(Bytes<'py>, Bytes<'py>)>> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while bytes < CHUNK_BYTES {
        let Some(entry) = entries.next() else { break };
        let (key, value): (Bytes<'py>, Bytes<'py>) = entry?.extract()?;
        bytes += key.as_slice().len() + value.as_slice().len() + 32;
        taken.push((key, value));
    }
    Ok(taken)
}

/// The slices of a chunk, which other threads may read.
fn slices<'a>(chunk: &'a [(Bytes<'_>, Bytes<'_>)]) -> Vec<(&'a [u8], &'a [u8])> {
    chunk.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect()
}

/// Puts entries in commits of about a MiB.
pub(crate) fn in_batches(py: Python<'_>, db: &Database, table: &Table, entries: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut entries = entries.try_iter()?;
    loop {
        let chunk = chunk(&mut entries)?;
        if chunk.is_empty() {
            return Ok(());
        }
        let slices = slices(&chunk);
        py.detach(|| {
            let mut batch = Batch::new();
            for (key, value) in slices {
                batch.put(table, key, value);
            }
            db.write(&batch)
        })
        .raise(py)?;
        py.check_signals()?;
    }
}

/// Loads ascending entries as one commit.
pub(crate) fn bulk(py: Python<'_>, table: &Table, entries: &Bound<'_, PyAny>) -> PyResult<u64> {
    let mut entries = entries.try_iter()?;
    let mut load = table.bulk_load().raise(py)?;
    loop {
        let chunk = chunk(&mut entries)?;
        if chunk.is_empty() {
            break;
        }
        let slices = slices(&chunk);
        py.detach(|| slices.iter().try_for_each(|(key, value)| load.push(key, value))).raise(py)?;
        py.check_signals()?;
    }
    let count = load.entries();
    py.detach(move || load.finish()).raise(py)?;
    Ok(count)
}
