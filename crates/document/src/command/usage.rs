//! How much time commands take on each collection, and the command `top`.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::bson::DocumentBuilder;

/// The most collections that are counted.
const NAMESPACES_MAX: usize = 10_000;

/// The kinds of commands in the order in which `top` shows them, after the totals.
const KINDS: [&str; 6] = ["queries", "getmore", "insert", "update", "remove", "commands"];

/// The use of collections since the service began.
#[derive(Debug, Default)]
pub struct Usage {
    namespaces: Mutex<BTreeMap<String, [Times; KINDS.len()]>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    count: i64,
    micros: i64,
}

impl Times {
    fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, micros: self.micros.saturating_add(other.micros) }
    }
}

impl Usage {
    /// Notes a command on a collection and the microseconds that it took.
    pub fn add(&self, namespace: &str, command: &str, micros: u64) {
        let kind = match command {
            "find" | "count" | "distinct" | "aggregate" => 0,
            "getMore" => 1,
            "insert" => 2,
            "update" | "findAndModify" => 3,
            "delete" => 4,
            _ => 5,
        };
        let mut namespaces = self.namespaces.lock();
        if !namespaces.contains_key(namespace) {
            if namespaces.len() >= NAMESPACES_MAX {
                return;
            }
            namespaces.insert(namespace.to_owned(), Default::default());
        }
        if let Some(times) = namespaces.get_mut(namespace).and_then(|times| times.get_mut(kind)) {
            *times = times.plus(Times { count: 1, micros: i64::try_from(micros).unwrap_or(i64::MAX) });
        }
    }

    /// Forgets a collection.
    pub fn forget(&self, namespace: &str) {
        self.namespaces.lock().remove(namespace);
    }

    /// Appends a document for each collection.
    pub fn append_to(&self, builder: &mut DocumentBuilder) {
        for (namespace, times) in &*self.namespaces.lock() {
            builder.open_document(namespace.as_bytes());
            let sum = |kinds: &[usize]| kinds.iter().fold(Times::default(), |sum, kind| sum.plus(times[*kind]));
            append(builder, "total", sum(&[0, 1, 2, 3, 4, 5]));
            append(builder, "readLock", sum(&[0, 1]));
            append(builder, "writeLock", sum(&[2, 3, 4]));
            for (name, times) in KINDS.iter().zip(times) {
                append(builder, name, *times);
            }
            builder.close();
        }
    }
}

fn append(builder: &mut DocumentBuilder, name: &str, times: Times) {
    builder.open_document(name).append("time", times.micros).append("count", times.count).close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_by_kind() {
        let usage = Usage::default();
        usage.add("a.b", "find", 3000);
        usage.add("a.b", "insert", 4000);
        usage.add("a.c", "drop", 1);
        usage.forget("a.c");
        let mut builder = DocumentBuilder::new();
        usage.append_to(&mut builder);
        let shown = builder.finish().view().to_json();
        assert!(
            shown.starts_with(r#"{"a.b":{"total":{"time":7000,"count":2},"readLock":{"time":3000,"count":1}"#),
            "{shown}"
        );
        assert!(!shown.contains("a.c"));
    }
}
