//! The request phases: clients that do operations in the proportions of the original.

use super::distributions::{multiget_ids, unit};
use super::graph::{choose_link_type, happens};
use super::operations::{Effects, LIST_MAX, Operations};
use super::rows::{Link, List};
use super::setting::Setting;
use crate::driver::Client;
use crate::experiments::tally::{Tallies, Tally};
use crate::random::Random;
use crate::report::{Figure, LATENCIES};
use crate::run::{Db, Did, End, Plan, Role, Work};
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The operations, the most frequent first.
pub(super) const KINDS: [&str; 10] = [
    "getlinklist",
    "getnode",
    "addlink",
    "updatelink",
    "updatenode",
    "countlink",
    "deletelink",
    "addnode",
    "deletenode",
    "getlink",
];

/// An operation: its place in [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    GetList,
    GetNode,
    AddLink,
    UpdateLink,
    UpdateNode,
    CountLinks,
    DeleteLink,
    AddNode,
    DeleteNode,
    GetLinks,
}

/// The percentage of each operation, in the order in which the original looks for it.
pub(super) const MIX: [(Operation, f64); 10] = [
    (Operation::AddLink, 8.988_660_1),
    (Operation::DeleteLink, 2.990_766_4),
    (Operation::UpdateLink, 8.012_212_5),
    (Operation::CountLinks, 4.886_356_7),
    (Operation::GetLinks, 0.526_114_2),
    (Operation::GetList, 50.711_914_5),
    (Operation::AddNode, 2.573_278_9),
    (Operation::UpdateNode, 7.366_437),
    (Operation::DeleteNode, 1.011_591_4),
    (Operation::GetNode, 12.932_668_3),
];

impl Operation {
    pub(super) fn choose(random: &mut Random) -> Self {
        let mut left = unit(random) * 100.0;
        for (operation, percent) in MIX {
            left -= percent;
            if left <= 0.0 {
                return operation;
            }
        }
        Self::GetNode
    }
}

/// The probabilities with which operations are for links that were loaded.
const GET_LINKED: f64 = 0.5;
const UPDATE_LINKED: f64 = 0.9;
const DELETE_LINKED: f64 = 0.9;
const ADD_LINKED: f64 = 0.05;

/// The share of reads of lists that go on where an earlier one met its limit.
const HISTORY: f64 = 0.003;

/// How many such places a client keeps.
const HISTORY_MAX: usize = 2048;

/// Whether there is a change stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// None; the log is not kept for one
    Without,
    /// None, but the log is kept as for one
    Kept,
    /// One over all collections, read as events come
    With,
}

/// A phase: which one it is, how many clients ask, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    /// From 1.
    pub(super) number: u64,
    pub(super) requesters: usize,
    pub(super) end: End,
    /// What there is of a change stream meanwhile.
    pub(super) stream: Stream,
}

/// One client.
///
/// What it asks for in a call depends on the number of the call alone, but for a list that goes on with one it has
/// read.
pub(super) struct Requester<'a> {
    setting: &'a Setting,
    /// Retries, links in lists, lists that went on with an earlier one.
    tally: Tally<'a, 3>,
    phase: u64,
    limit: u64,
    session: Box<dyn Operations>,
    /// Lists that went on beyond the limit, and the time of the last link read.
    history: Vec<(List, u64)>,
    data: Vec<u8>,
}

/// Runs a phase as a step.
pub(super) fn run(setting: &Setting, phase: Phase, db: &mut Db<'_, '_>) -> Result<()> {
    let tallies = Tallies::new(phase.requesters);
    let make = |number| Requester::new(setting, tallies.of(number), phase.number, LIST_MAX);
    let role = Role::new(&KINDS, phase.requesters, phase.end, make);
    let mut roles = vec![role];
    if phase.stream == Stream::With {
        roles.push(Role::new(&["events"], 1, End::WithFirst, |_client| stream()));
    }
    let plan = Plan { name: name(phase.number, phase.stream), unit: "request", roles, live_bytes: None };
    let step = db.step(&plan)?;
    let [retries, links, history] = tallies.totals();
    let operations = step.cost.map_or(0, |cost| cost.operations);
    let ratio = |sum: u64, of: u64| (of > 0).then(|| sum as f64 / of as f64);
    let p99_ms = |kind: Operation| Some(LATENCIES[2].of(step, kind.name(), false)? / 1e3);
    let lists = step.operation(Operation::GetList.name()).map_or(0, |lists| lists.operations);
    step.figures = vec![
        Figure::less("un", "ms", p99_ms(Operation::UpdateNode)),
        Figure::less("gn", "ms", p99_ms(Operation::GetNode)),
        Figure::less("ul", "ms", p99_ms(Operation::UpdateLink)),
        Figure::less("gl", "ms", p99_ms(Operation::GetList)),
        Figure::less("retries/o", "", ratio(retries, operations)),
        Figure::plain("links/list", "", ratio(links, lists)),
        Figure::plain("history", "", history as f64),
    ];
    Ok(())
}

/// The name of a phase's step.
pub(super) fn name(phase: u64, stream: Stream) -> String {
    format!("run {phase}{}", stream.suffix())
}

impl Stream {
    /// What the names of steps end in.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Without => "",
            Self::Kept => " kept",
            Self::With => " stream",
        }
    }
}

/// Opens a change stream, and reads it as events come.
fn stream() -> impl FnMut(&mut dyn Client, u64) -> Result<Did> {
    let mut is_open = false;
    move |client, _at| {
        let documents = client.documents()?;
        if !is_open {
            documents.watch()?;
            is_open = true;
        }
        match documents.events()? {
            0 => Ok(Did::idle()),
            events => Ok(Did::read(0).operations(events)),
        }
    }
}

impl Operation {
    fn name(self) -> &'static str {
        KINDS[self as usize]
    }
}

impl Work for Requester<'_> {
    fn call(&mut self, client: &mut dyn Client, at: u64) -> Result<Did> {
        let mut random = Random::of(self.setting.seed ^ self.phase.rotate_right(8), at);
        let operation = Operation::choose(&mut random);
        let before = self.session.done();
        self.request(client, operation, &mut random, at)?;
        let Effects { retries, read_bytes, written_bytes } = self.session.done();
        self.tally.add([retries - before.retries, 0, 0]);
        Ok(Did {
            kind: operation as usize,
            operations: 1,
            read_bytes: read_bytes - before.read_bytes,
            written_bytes: written_bytes - before.written_bytes,
            ..Did::default()
        })
    }
}

impl<'a> Requester<'a> {
    pub(super) fn new(setting: &'a Setting, tally: Tally<'a, 3>, phase: u64, limit: u64) -> Self {
        Self { setting, tally, phase, limit, session: setting.form.operations(), history: Vec::new(), data: Vec::new() }
    }

    fn request(&mut self, client: &mut dyn Client, operation: Operation, random: &mut Random, at: u64) -> Result<()> {
        let Setting { graph, access, .. } = self.setting;
        // Each phase has its own 50 days and ids; a call has its own millisecond and, should it add a node, id.
        let now = self.setting.loaded_at + (self.phase << 32) + at;
        match operation {
            Operation::AddLink | Operation::UpdateLink => {
                let linked = if operation == Operation::AddLink { ADD_LINKED } else { UPDATE_LINKED };
                let list = List { id1: access.link_write(random), link_type: choose_link_type(random) };
                let id2 = graph.choose_id2(random, list.id1, list.link_type, linked);
                let mut data = std::mem::take(&mut self.data);
                data.clear();
                self.setting.link_data.extend(random, &mut data);
                let link = Link { visible: true, time: now, version: 0, data };
                self.session.add_link(client, list, id2, &link)?;
                self.data = link.data;
            }
            Operation::DeleteLink => {
                let list = List { id1: access.link_write(random), link_type: choose_link_type(random) };
                let id2 = graph.choose_id2(random, list.id1, list.link_type, DELETE_LINKED);
                // The original never asks for the other way to delete.
                self.session.delete_link(client, list, id2, now, false)?;
            }
            Operation::CountLinks => {
                let list = List { id1: access.link_read(random), link_type: choose_link_type(random) };
                self.session.count_links(client, list)?;
            }
            Operation::GetLinks => {
                let list = List { id1: access.link_read(random), link_type: choose_link_type(random) };
                let wanted = multiget_ids(random);
                let id2s = graph.choose_id2s(random, list.id1, list.link_type, GET_LINKED, wanted);
                self.session.get_links(client, list, &id2s)?;
            }
            Operation::GetList => self.get_list(client, random)?,
            Operation::AddNode => {
                let id = graph.nodes() + 1 + (self.phase << 40) + at;
                self.make_node(random);
                self.session.add_node(client, id, now, &self.data)?;
            }
            Operation::UpdateNode => {
                let id = access.node_update(random);
                self.make_node(random);
                self.session.update_node(client, id, now, &self.data)?;
            }
            Operation::DeleteNode => {
                self.session.delete_node(client, access.node_delete(random))?;
            }
            Operation::GetNode => {
                self.session.get_node(client, access.node_read(random))?;
            }
        }
        Ok(())
    }

    fn make_node(&mut self, random: &mut Random) {
        self.data.clear();
        self.setting.node_data.extend(random, &mut self.data);
    }

    fn get_list(&mut self, client: &mut dyn Client, random: &mut Random) -> Result<()> {
        if happens(random, HISTORY) && !self.history.is_empty() {
            return self.get_history(client, random);
        }
        let list = List { id1: self.setting.access.link_read(random), link_type: choose_link_type(random) };
        let found = self.session.get_list(client, list, u64::MAX, 0, self.limit)?;
        self.tally.add([0, found.links, 0]);
        if found.links >= self.limit && self.history.iter().all(|&(known, _)| known != list) {
            if self.history.len() == HISTORY_MAX {
                let gone = self.choose_history(random);
                self.history.swap_remove(gone);
            }
            self.history.push((list, found.oldest));
        }
        Ok(())
    }

    /// Goes on with a list where the last read of it ended.
    fn get_history(&mut self, client: &mut dyn Client, random: &mut Random) -> Result<()> {
        let at = self.choose_history(random);
        let (list, oldest) = self.history[at];
        let found = self.session.get_list(client, list, oldest, 1, self.limit)?;
        self.tally.add([0, found.links, 1]);
        if found.links >= self.limit {
            self.history[at].1 = found.oldest;
        } else {
            self.history.swap_remove(at);
        }
        Ok(())
    }

    fn choose_history(&self, random: &mut Random) -> usize {
        spinney::base::num::usize_of(random.below(self.history.len() as u64))
    }
}
