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

    /// Forgets the collections of a database.
    pub fn forget_database(&self, name: &str) {
        let prefix = format!("{name}.");
        self.namespaces.lock().retain(|namespace, _| !namespace.starts_with(&prefix));
    }

    /// Appends a document for each collection that there is.
    pub fn append_to(&self, builder: &mut DocumentBuilder, exists: &dyn Fn(&str) -> bool) {
        let mut namespaces = self.namespaces.lock();
        namespaces.retain(|namespace, _| exists(namespace));
        for (namespace, times) in &*namespaces {
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
        usage.add("a.d", "find", 1);
        usage.add("b.e", "find", 1);
        usage.forget_database("b");
        usage.append_to(&mut builder, &|namespace| namespace != "a.d");
        let shown = builder.finish().view().to_json();
        assert!(
            shown.starts_with(r#"{"a.b":{"total":{"time":7000,"count":2},"readLock":{"time":3000,"count":1}"#),
            "{shown}"
        );
        assert!(!["a.c", "a.d", "b.e"].iter().any(|gone| shown.contains(gone)), "{shown}");
    }
}
