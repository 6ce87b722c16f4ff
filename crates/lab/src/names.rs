//! The engine's choices and shapes in words.

use crate::text::{bytes, count};
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
        parts.push(format!("{} full memtables {}", shape.immutable_memtables, bytes(shape.immutable_bytes)));
    }
    if !shape.l0.is_empty() {
        let total = shape.l0.iter().map(|run| run.bytes).sum();
        parts.push(format!("L0 {} {}", plural(count(shape.l0.len() as u64), "run"), bytes(total)));
    }
    for level in shape.levels.iter().filter(|level| level.runs > 0) {
        parts.push(format!("L{} {} {}", level.level, plural(count(level.runs), "run"), bytes(level.bytes)));
    }
    if let Some(btree) = &shape.btree {
        let free = btree.free_bytes as f64 / btree.file_bytes.max(1) as f64 * 100.0;
        let leaves = plural(count(btree.leaves), "leaf");
        parts.push(format!("height {}, {leaves}, {}, {free:.0}% free", btree.height, bytes(btree.file_bytes)));
    }
    if parts.is_empty() { "empty".to_owned() } else { parts.join(" | ") }
}

/// `1 run`, `2 runs`, `3 leaves`.
fn plural(count: String, noun: &str) -> String {
    match (count.as_str(), noun) {
        ("1", _) => format!("1 {noun}"),
        (_, "leaf") => format!("{count} leaves"),
        _ => format!("{count} {noun}s"),
    }
}
