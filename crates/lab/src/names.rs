//! The engine's choices and shapes in words.

use crate::text::{bytes, counted};
use spinney::{Durability, Shape};

/// A durability as users write it.
#[must_use]
pub const fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Interval => "interval",
        Durability::Buffered => "buffered",
    }
}

/// The shape of a table in one line, newest tree first.
#[must_use]
pub fn shape_line(shape: &Shape) -> String {
    let mut parts = Vec::new();
    if shape.memtable_entries > 0 {
        parts.push(format!("memtable {}", bytes(shape.memtable_bytes)));
    }
    if shape.immutable_memtables > 0 {
        parts.push(format!(
            "{} {}",
            counted(shape.immutable_memtables, "full memtable", "full memtables"),
            bytes(shape.immutable_bytes)
        ));
    }
    if !shape.l0.is_empty() {
        let total = shape.l0.iter().map(|run| run.bytes).sum();
        parts.push(format!("L0 {} {}", counted(shape.l0.len() as u64, "run", "runs"), bytes(total)));
    }
    for level in shape.levels.iter().filter(|level| level.runs > 0) {
        parts.push(format!("L{} {} {}", level.level, counted(level.runs, "run", "runs"), bytes(level.bytes)));
    }
    if let Some(btree) = &shape.btree {
        let free = btree.free_bytes as f64 / btree.file_bytes.max(1) as f64 * 100.0;
        let leaves = counted(btree.leaves, "leaf", "leaves");
        parts.push(format!("height {}, {leaves}, {}, {free:.0}% free", btree.height, bytes(btree.file_bytes)));
    }
    if parts.is_empty() { "empty".to_owned() } else { parts.join(" | ") }
}
