//! How much time commands take on each collection, and the command `top`.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::timing::{CLASSES, class_of};
use crate::bson::DocumentBuilder;

/// The most collections that are counted.
const NAMESPACES_MAX: usize = 10_000;

/// The kinds of commands in the order in which `top` shows them, after the totals.
const KINDS: [&str; 6] = ["queries", "getmore", "insert", "update", "remove", "commands"];

/// The use of collections since the service began.
#[derive(Debug, Default)]
pub struct Usage {
    namespaces: Mutex<BTreeMap<String, Collected>>,
}

/// The use of a collection.
#[derive(Clone, Debug, Default)]
struct Collected {
    times: [Times; KINDS.len()],
    /// How often a command of each group took a time of each class.
    classes: [[u32; CLASSES]; GROUPS.len()],
}

/// The groups of kinds whose latencies `$collStats` tells.
const GROUPS: [(&str, &[usize]); 3] = [("reads", &[0, 1]), ("writes", &[2, 3, 4]), ("commands", &[5])];

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

impl Collected {
    fn sum(&self, kinds: &[usize]) -> Times {
        let times = kinds.iter().filter_map(|kind| self.times.get(*kind));
        times.fold(Times::default(), |sum, times| sum.plus(*times))
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
        let Some(used) = namespaces.get_mut(namespace) else { return };
        if let Some(times) = used.times.get_mut(kind) {
            *times = times.plus(Times { count: 1, micros: i64::try_from(micros).unwrap_or(i64::MAX) });
        }
        for (classes, (_, kinds)) in used.classes.iter_mut().zip(GROUPS) {
            if let Some(class) = classes.get_mut(class_of(micros)).filter(|_| kinds.contains(&kind)) {
                *class = class.saturating_add(1);
            }
        }
    }

    /// Appends the latencies of a collection: `{reads: {latency, ops}, writes, commands, transactions}`, in
    /// microseconds, with histograms whose buckets begin at powers of two.
    pub fn append_latencies(&self, namespace: &str, histograms: bool, builder: &mut DocumentBuilder) {
        let used = self.namespaces.lock().get(namespace).cloned().unwrap_or_default();
        let none = [0; CLASSES];
        let groups = GROUPS.iter().zip(&used.classes).map(|((name, kinds), classes)| (*name, used.sum(kinds), classes));
        // A transaction is of no collection.
        for (name, times, classes) in groups.chain([("transactions", Times::default(), &none)]) {
            builder.open_document(name);
            if histograms {
                builder.open_array("histogram");
                for (class, count) in classes.iter().enumerate().filter(|(_, count)| **count > 0) {
                    let least = if class == 0 { 0 } else { 1_i64 << (class - 1) };
                    builder.push_document().append("micros", least).append("count", i64::from(*count)).close();
                }
                builder.close();
            }
            builder.append("latency", times.micros).append("ops", times.count).close();
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
        for (namespace, used) in &*namespaces {
            builder.open_document(namespace.as_bytes());
            append(builder, "total", used.sum(&[0, 1, 2, 3, 4, 5]));
            append(builder, "readLock", used.sum(&[0, 1]));
            append(builder, "writeLock", used.sum(&[2, 3, 4]));
            for (name, times) in KINDS.iter().zip(&used.times) {
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
    fn latencies_are_told_by_groups_with_histograms() {
        let usage = Usage::default();
        usage.add("a.b", "find", 3);
        usage.add("a.b", "getMore", 5);
        usage.add("a.b", "delete", 1);
        let mut builder = DocumentBuilder::new();
        usage.append_latencies("a.b", true, &mut builder);
        let shown = builder.finish().view().to_json();
        let reads = r#"{"reads":{"histogram":[{"micros":2,"count":1},{"micros":4,"count":1}],"latency":8,"ops":2}"#;
        assert!(shown.starts_with(reads), "{shown}");
        assert!(shown.ends_with(r#""transactions":{"histogram":[],"latency":0,"ops":0}}"#), "{shown}");
    }

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
