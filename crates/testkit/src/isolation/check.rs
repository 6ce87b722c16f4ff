//! The check of a history.

use spinney::Isolation;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use super::graph::{Edge, FORBIDDEN, Graph, NOT_SERIALIZABLE, count};
use super::history::{End, Id, Key, Step, Txn};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name.
    pub name: &'static str,
    /// The transactions that show it.
    pub story: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:\n{}", self.name, self.story)
    }
}

/// What a history holds that is right under snapshot isolation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Transactions that are committed.
    pub committed: u64,
    /// Those of them of which a crash left it open.
    pub unknown_committed: u64,
    /// Dependencies.
    pub edges: u64,
    /// Groups of transactions that depend on each other in a circle, as in a write skew.
    pub skews: u64,
}

impl Seen {
    /// Adds up.
    pub fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.unknown_committed += other.unknown_committed;
        self.edges += other.edges;
        self.skews += other.skews;
    }
}

/// Checks a history of transactions with this isolation, which ends with reads of all keys.
///
/// # Errors
/// The first anomaly found.
///
/// # Panics
/// When the same was written twice.
pub fn check(history: &[Txn], isolation: Isolation) -> Result<Seen, Anomaly> {
    let mut check = Check::new(history);
    check.reads()?;
    check.settle();
    check.writes_seen()?;
    check.lists()?;
    check.registers()?;
    check.graph.real_time(history);
    let is_unknown = |txn: &&usize| history[**txn].end == End::Unknown;
    let seen = Seen {
        committed: count(check.committed.len()),
        unknown_committed: count(check.committed.iter().filter(is_unknown).count()),
        edges: check.graph.edges(),
        skews: check.graph.circles(),
    };
    let forbidden = FORBIDDEN.into_iter().chain((isolation == Isolation::Serializable).then_some(NOT_SERIALIZABLE));
    for (name, allowed) in forbidden {
        if let Some(cycle) = check.graph.cycle(allowed) {
            return Err(check.anomaly(name, &cycle));
        }
    }
    Ok(seen)
}

/// A check under way.
struct Check<'a> {
    history: &'a [Txn],
    /// Which transaction wrote what, and whether it is the last that the transaction wrote to the key.
    writers: HashMap<(Key, Id), (usize, bool)>,
    registers: HashSet<Key>,
    /// What transactions read of keys that they had not written: the version without what they appended before.
    reads: Vec<(usize, Key, Vec<Id>)>,
    committed: BTreeSet<usize>,
    graph: Graph,
}

impl<'a> Check<'a> {
    fn new(history: &'a [Txn]) -> Self {
        let (mut writers, mut registers) = (HashMap::new(), HashSet::new());
        for (number, txn) in history.iter().enumerate() {
            let mut last = HashMap::new();
            for step in &txn.steps {
                let (Step::Append(key, id) | Step::Put(key, id)) = step else { continue };
                registers.extend(matches!(step, Step::Put(..)).then_some(*key));
                let earlier = writers.insert((*key, *id), (number, true));
                assert!(earlier.is_none(), "{id} was written twice");
                if let Some(before) = last.insert(*key, *id) {
                    writers.insert((*key, before), (number, false));
                }
            }
        }
        let graph = Graph::new(history.len());
        Self { history, writers, registers, reads: Vec::new(), committed: BTreeSet::new(), graph }
    }

    /// Takes the reads of all transactions apart: also one that was aborted read from a snapshot.
    fn reads(&mut self) -> Result<(), Anomaly> {
        for (number, txn) in self.history.iter().enumerate() {
            let mut known: BTreeMap<Key, Vec<Id>> = BTreeMap::new();
            // Appended before the list was read.
            let mut tails: BTreeMap<Key, Vec<Id>> = BTreeMap::new();
            for step in &txn.steps {
                match step {
                    Step::Put(key, id) => drop(known.insert(*key, vec![*id])),
                    Step::Append(key, id) => match known.get_mut(key) {
                        Some(list) => list.push(*id),
                        None => tails.entry(*key).or_default().push(*id),
                    },
                    Step::Read(key, found) => match known.get(key) {
                        Some(expected) if expected == found => {}
                        Some(_) => return Err(self.anomaly("internal", &[number])),
                        None => {
                            let tail = tails.remove(key).unwrap_or_default();
                            let Some(version) = found.strip_suffix(&*tail) else {
                                return Err(self.anomaly("internal", &[number]));
                            };
                            self.reads.push((number, *key, version.to_vec()));
                            known.insert(*key, found.clone());
                        }
                    },
                }
            }
        }
        Ok(())
    }

    /// Decides which transactions are committed.
    fn settle(&mut self) {
        let seen: HashSet<usize> = self
            .reads
            .iter()
            .flat_map(|(_, key, version)| version.iter().filter_map(|id| Some(self.writers.get(&(*key, *id))?.0)))
            .collect();
        let is_in = |number: &usize| match self.history[*number].end {
            End::Committed => true,
            End::Aborted => false,
            End::Unknown => seen.contains(number),
        };
        self.committed = (0..self.history.len()).filter(is_in).collect();
    }

    /// Nobody reads what was never there.
    fn writes_seen(&self) -> Result<(), Anomaly> {
        for (reader, key, version) in &self.reads {
            for id in version {
                let Some((writer, _)) = self.writers.get(&(*key, *id)) else {
                    return Err(self.anomaly("a value that nobody wrote", &[*reader]));
                };
                if !self.committed.contains(writer) {
                    return Err(self.anomaly("G1a, aborted read", &[*writer, *reader]));
                }
            }
            if let Some((writer, false)) = version.last().map(|id| self.writers[&(*key, *id)]) {
                return Err(self.anomaly("G1b, intermediate read", &[writer, *reader]));
            }
        }
        Ok(())
    }

    fn lists(&mut self) -> Result<(), Anomaly> {
        let mut orders: BTreeMap<Key, (usize, &[Id])> = BTreeMap::new();
        for (reader, key, version) in self.reads.iter().filter(|(_, key, _)| !self.registers.contains(key)) {
            let longest = orders.entry(*key).or_insert((*reader, version));
            let (short, long) =
                if version.len() > longest.1.len() { (longest.1, &**version) } else { (&**version, longest.1) };
            if !long.starts_with(short) {
                return Err(self.anomaly("two orders of one list", &[longest.0, *reader]));
            }
            if version.len() > longest.1.len() {
                *longest = (*reader, version);
            }
        }
        for ((key, id), (writer, _)) in self.writers.iter().filter(|((key, _), _)| !self.registers.contains(key)) {
            let is_there = orders.get(key).is_some_and(|(_, order)| order.contains(id));
            if self.committed.contains(writer) && !is_there {
                return Err(self.anomaly("a committed write that is lost", &[*writer]));
            }
        }
        let orders: BTreeMap<Key, Vec<usize>> = orders
            .into_iter()
            .map(|(key, (_, order))| (key, order.iter().map(|id| self.writers[&(key, *id)].0).collect()))
            .collect();
        for (key, order) in &orders {
            order.windows(2).for_each(|pair| self.graph.add(pair[0], pair[1], Edge::Ww(*key)));
        }
        for (reader, key, version) in &self.reads {
            let Some(order) = orders.get(key) else { continue };
            if let Some(writer) = version.len().checked_sub(1).map(|last| order[last]) {
                self.graph.add(writer, *reader, Edge::Wr(*key));
            }
            if let Some(next) = order.get(version.len()) {
                self.graph.add(*reader, *next, Edge::Rw(*key));
            }
        }
        Ok(())
    }

    fn registers(&mut self) -> Result<(), Anomaly> {
        let reads: Vec<_> = self.reads.iter().filter(|(_, key, _)| self.registers.contains(key)).cloned().collect();
        let mut next: HashMap<(Key, Option<Id>), usize> = HashMap::new();
        for (reader, key, version) in &reads {
            let writes = |step: &Step| matches!(step, Step::Put(put, _) if put == key);
            if !self.committed.contains(reader) || !self.history[*reader].steps.iter().any(writes) {
                continue;
            }
            if let Some(other) = next.insert((*key, version.first().copied()), *reader) {
                return Err(self.anomaly("P4, lost update", &[other, *reader]));
            }
        }
        for (reader, key, version) in &reads {
            let writer = version.first().map(|id| self.writers[&(*key, *id)].0);
            let next = next.get(&(*key, version.first().copied())).copied();
            writer.into_iter().for_each(|writer| self.graph.add(writer, *reader, Edge::Wr(*key)));
            next.into_iter().for_each(|next| self.graph.add(*reader, next, Edge::Rw(*key)));
            if let (Some(writer), Some(next)) = (writer, next) {
                self.graph.add(writer, next, Edge::Ww(*key));
            }
        }
        Ok(())
    }

    fn anomaly(&self, name: &'static str, txns: &[usize]) -> Anomaly {
        let line = |txn: &usize| match self.history.get(*txn) {
            Some(Txn { begun, ended, steps, end }) => format!("  T{txn} {end:?}, from {begun} to {ended}: {steps:?}\n"),
            None => "  (then)\n".to_owned(),
        };
        let edges = self.graph.explain(txns);
        Anomaly { name, story: txns.iter().map(line).collect::<String>() + &edges }
    }
}
