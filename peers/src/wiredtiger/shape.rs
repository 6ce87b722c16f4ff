//! The shape of the trees, from WiredTiger's metadata and statistics and from the sizes of its files.

use super::handle::Session;
use super::table::TablePlace;
use anyhow::Result;
use spinney_lab::driver::{LevelShape, TableShape};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;

/// The metadata of an LSM tree; empty for a B-tree.
pub(super) fn metadata(session: &Session<'_>, table: &str) -> Result<String> {
    let cursor = session.cursor(c"metadata:", c"")?;
    cursor.text(&CString::new(format!("lsm:{table}"))?)
}

/// A B-tree in one file.
pub(super) fn btree(session: &Session<'_>, dir: &Path, table: &TablePlace, depth_key: i32) -> Result<TableShape> {
    let uri = CString::new(format!("statistics:table:{}", table.name))?;
    let depth = session.cursor(&uri, c"statistics=(fast)")?.statistic(depth_key)?;
    Ok(TableShape {
        table: table.name.to_owned(),
        btree_height: Some(depth),
        btree_bytes: file_bytes(dir, &format!("{}.wt", table.name)),
        trees: Some(1),
        ..TableShape::default()
    })
}

/// The chunks of an LSM tree. Its generations, counted from 0 for chunks that no merge has made, are what comes nearest
/// to levels.
pub(super) fn lsm(session: &Session<'_>, dir: &Path, table: &TablePlace) -> Result<TableShape> {
    let chunks = chunks(&metadata(session, table.name)?);
    let mut levels: BTreeMap<u64, LevelShape> = BTreeMap::new();
    let mut shape =
        TableShape { table: table.name.to_owned(), trees: Some(chunks.len() as u64), ..TableShape::default() };
    let newest = chunks.iter().map(|chunk| chunk.id).max();
    for chunk in &chunks {
        if !chunk.on_disk {
            match Some(chunk.id) == newest {
                true => shape.memtable_entries = Some(chunk.entries),
                false => *shape.immutable_memtables.get_or_insert(0) += 1,
            }
            continue;
        }
        let level = levels.entry(chunk.generation).or_default();
        level.level = chunk.generation;
        level.sorted_runs += 1;
        level.files += 1;
        level.bytes += file_bytes(dir, &format!("{}-{:06}.lsm", table.name, chunk.id)).unwrap_or(0);
        *level.entries.get_or_insert(0) += chunk.entries;
        if let Some(bytes) = file_bytes(dir, &format!("{}-{:06}.bf", table.name, chunk.id)) {
            level.files += 1;
            level.bytes += bytes;
        }
    }
    shape.levels = levels.into_values().collect();
    Ok(shape)
}

#[derive(Debug, PartialEq, Eq)]
struct Chunk {
    id: u64,
    generation: u64,
    entries: u64,
    on_disk: bool,
}

/// The chunks in an LSM tree's metadata:
/// `…,chunks=[id=1,chunk_size=8192,count=10,generation=0,id=2,generation=0],old_chunks=[…`.
fn chunks(metadata: &str) -> Vec<Chunk> {
    let list = metadata.split_once(",chunks=[").map_or("", |(_, rest)| rest);
    let list = list.split_once(']').map_or(list, |(list, _)| list);
    let mut chunks: Vec<Chunk> = Vec::new();
    for (name, value) in list.split(',').filter_map(|part| part.split_once('=')) {
        let number = value.trim_matches('"').parse().unwrap_or(0);
        if name == "id" {
            chunks.push(Chunk { id: number, generation: 0, entries: 0, on_disk: false });
            continue;
        }
        let Some(chunk) = chunks.last_mut() else { continue };
        match name {
            "generation" => chunk.generation = number,
            "count" => chunk.entries = number,
            "chunk_size" => chunk.on_disk = number > 0,
            _ => {}
        }
    }
    chunks
}

fn file_bytes(dir: &Path, name: &str) -> Option<u64> {
    std::fs::metadata(dir.join(name)).ok().map(|metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_from_the_metadata() {
        let text = "app_metadata=,lsm=(bloom=true),last=5,chunks=[id=3,bloom,chunk_size=4096,count=20,generation=1,id=5,generation=0],old_chunks=[\"file:x\"]";
        let expected = [
            Chunk { id: 3, generation: 1, entries: 20, on_disk: true },
            Chunk { id: 5, generation: 0, entries: 0, on_disk: false },
        ];
        assert_eq!(chunks(text), expected);
        assert!(chunks("key_format=u").is_empty());
    }
}
