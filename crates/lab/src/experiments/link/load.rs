//! The load: all nodes, and the links of each with their counts.
//!
//! As in the original, nodes are inserted in the order of their ids, at the same time as links; links by chunks of
//! 2,048 nodes, the last chunk first; and there is a commit for each 1,024 nodes or links. The counts of a piece of a
//! chunk are committed after its links.

use super::graph::link_types;
use super::operations::{Loaded, Operations};
use super::rows::{Count, Link, List};
use super::setting::Setting;
use crate::driver::Client;
use crate::experiments::tally::{Tallies, Tally};
use crate::random::Random;
use crate::report::Figure;
use crate::run::{Db, Did, End, Plan, Role, Work};
use anyhow::Result;
use std::ops::Range;

/// Nodes of a chunk.
const CHUNK_NODES: u64 = 2048;

/// Nodes whose links one call inserts.
const PIECE_NODES: u64 = 256;

/// Rows of a commit.
const COMMIT_ROWS: u64 = 1024;

/// Of so many calls the first inserts nodes, and the others the links of as many nodes.
const STRIDE: u64 = 1 + COMMIT_ROWS / PIECE_NODES;

const KINDS: &[&str] = &["links", "nodes"];

/// Kinds of sums: nodes, links, counts, live bytes.
type Sums = [u64; 4];

/// One loader.
struct Loader<'a> {
    setting: &'a Setting,
    tally: Tally<'a, 4>,
    /// What the call under way has added.
    sums: Sums,
    operations: Box<dyn Operations>,
    data: Vec<u8>,
}

/// Runs the load as a step.
pub(super) fn run(setting: &Setting, loaders: usize, name: &str, db: &mut Db<'_, '_>) -> Result<()> {
    let tallies = Tallies::new(loaders);
    let make = |number| Loader {
        setting,
        tally: tallies.of(number),
        sums: Sums::default(),
        operations: setting.form.operations(),
        data: Vec::new(),
    };
    let role = Role::new(KINDS, loaders, End::Calls(calls(setting.graph.nodes())), make);
    let plan = Plan { name: name.to_owned(), unit: "row", roles: vec![role], live_bytes: None };
    let step = db.step(&plan)?;
    let [nodes, links, counts, live_bytes] = tallies.totals();
    let size = step.after.size;
    let Some(cost) = &mut step.cost else { return Ok(()) };
    cost.space_amplification = size.map(|size| size.allocated_bytes as f64 / live_bytes.max(1) as f64);
    let per_second = |rows: u64| rows as f64 / cost.seconds;
    // The article counts all rows in its ops, and divides what they cost by the nodes.
    let per_node = |value: Option<f64>| value.map(|value| value * cost.operations as f64 / nodes.max(1) as f64);
    step.figures = vec![
        Figure::more("nodes/s", "", per_second(nodes)),
        Figure::more("links/s", "", per_second(links)),
        Figure::plain("nodes", "", nodes as f64),
        Figure::plain("links", "", links as f64),
        Figure::plain("counts", "", counts as f64),
        Figure::less("r/node", "", per_node(cost.reads)),
        Figure::less("wKB/node", "KiB", per_node(cost.written_kib)),
        Figure::less("cs/node", "", per_node(cost.switches)),
        Figure::less("cpu/node", "µs", per_node(Some(cost.cpu_us))),
    ];
    Ok(())
}

/// How many calls load so many nodes.
fn calls(nodes: u64) -> u64 {
    STRIDE * (CHUNK_NODES / COMMIT_ROWS) * nodes.div_ceil(CHUNK_NODES)
}

/// The nodes that call `at` inserts, or those whose links it inserts.
fn share(at: u64, nodes: u64) -> (Share, Range<u64>) {
    let ids = |first: u64, count: u64| first.min(nodes) + 1..(first + count).min(nodes) + 1;
    if at.is_multiple_of(STRIDE) {
        return (Share::Nodes, ids(at / STRIDE * COMMIT_ROWS, COMMIT_ROWS));
    }
    const PIECES: u64 = CHUNK_NODES / PIECE_NODES;
    let piece = at / STRIDE * (STRIDE - 1) + at % STRIDE - 1;
    let chunk = nodes.div_ceil(CHUNK_NODES) - 1 - piece / PIECES;
    (Share::Links, ids(chunk * CHUNK_NODES + piece % PIECES * PIECE_NODES, PIECE_NODES))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Nodes,
    Links,
}

impl Work for Loader<'_> {
    fn call(&mut self, client: &mut dyn Client, at: u64) -> Result<Did> {
        self.sums = Sums::default();
        let (share, ids) = share(at, self.setting.graph.nodes());
        let kind = match share {
            Share::Links => self.insert_links(client, ids)?,
            Share::Nodes => self.insert_nodes(client, ids)?,
        };
        self.tally.add(self.sums);
        let [nodes, links, counts, bytes] = self.sums;
        Ok(Did::wrote(bytes).operations(nodes + links + counts).kind(kind))
    }
}

impl Loader<'_> {
    fn insert_nodes(&mut self, client: &mut dyn Client, ids: Range<u64>) -> Result<usize> {
        for id in ids {
            let mut random = Random::of(self.setting.seed ^ 1, id);
            self.data.clear();
            self.setting.loaded_nodes.extend(&mut random, &mut self.data);
            self.operations.load(&Loaded::Node { id, time: self.setting.loaded_at, data: &self.data });
            self.sums[0] += 1;
        }
        self.commit(client)?;
        Ok(1)
    }

    fn insert_links(&mut self, client: &mut dyn Client, ids: Range<u64>) -> Result<usize> {
        /// Links were loaded within so many milliseconds, about 50 days.
        const LOAD_MS: u64 = 1 << 32;
        let mut counts: Vec<(List, Count)> = Vec::new();
        let mut uncommitted = 0;
        for id1 in ids {
            let mut random = Random::of(self.setting.seed ^ 2, id1);
            for link_type in link_types() {
                let list = List { id1, link_type };
                let links = self.setting.graph.links(id1, link_type);
                let mut count = Count { count: u32::try_from(links)?, ..Count::default() };
                for id2 in id1..id1 + links {
                    let mut data = Vec::new();
                    self.setting.link_data.extend(&mut random, &mut data);
                    let time = self.setting.loaded_at - LOAD_MS + random.below(LOAD_MS);
                    let link = Link { visible: true, time, version: 0, data };
                    self.operations.load(&Loaded::Link { list, id2, link: &link });
                    count.time = count.time.max(time);
                    uncommitted += 1;
                    if uncommitted == COMMIT_ROWS {
                        self.commit(client)?;
                        uncommitted = 0;
                    }
                }
                self.sums[1] += links;
                if links > 0 {
                    counts.push((list, count));
                }
            }
        }
        self.commit(client)?;
        for (list, count) in counts {
            self.operations.load(&Loaded::Count { list, count });
            self.sums[2] += 1;
        }
        self.commit(client)?;
        Ok(0)
    }

    fn commit(&mut self, client: &mut dyn Client) -> Result<()> {
        self.sums[3] += self.operations.commit_load(client)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_node_and_its_links_are_loaded_by_one_call() {
        for nodes in [1, 255, 1024, 2049, 10_000] {
            let (mut inserted, mut linked) = (BTreeSet::new(), BTreeSet::new());
            for at in 0..calls(nodes) {
                let (share, ids) = share(at, nodes);
                let set = if share == Share::Nodes { &mut inserted } else { &mut linked };
                assert!(ids.into_iter().all(|id| set.insert(id)), "{nodes} {at}");
            }
            assert!(inserted == linked && inserted == (1..=nodes).collect(), "{nodes}");
        }
    }

    #[test]
    fn the_last_chunk_is_loaded_first() {
        assert_eq!(share(1, 4096), (Share::Links, 2049..2305));
        assert_eq!(share(0, 4096), (Share::Nodes, 1..1025));
    }
}
