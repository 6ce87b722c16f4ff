//! What the experiment asks of a graph, whichever form its nodes, links and counts have.

use super::rows::{Count, Link, List};
use crate::driver::Client;
use anyhow::Result;

/// The longest list that a read gets.
pub(super) const LIST_MAX: u64 = 10_000;

/// What operations did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// Transactions that were run again because of a conflict.
    pub(super) retries: u64,
    /// Bytes of keys and values, or of documents, that were read.
    pub(super) read_bytes: u64,
    /// Bytes of keys and values, or of documents, that were written.
    pub(super) written_bytes: u64,
}

/// What a read of a list found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) links: u64,
    /// The time of the last, oldest link.
    pub(super) oldest: u64,
}

/// What the load inserts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loaded<'a> {
    Node { id: u64, time: u64, data: &'a [u8] },
    Link { list: List, id2: u64, link: &'a Link },
    Count { list: List, count: Count },
}

/// The operations of one client, with the effects that the original's `MySQL` statements have.
pub(super) trait Operations {
    /// Adds a link, or changes the one that is there. Says whether it was there, be it hidden.
    fn add_link(&mut self, client: &mut dyn Client, list: List, id2: u64, link: &Link) -> Result<bool>;

    /// Hides a link, or with `expunge` removes it. Says whether it was there, be it hidden.
    fn delete_link(&mut self, client: &mut dyn Client, list: List, id2: u64, now: u64, expunge: bool) -> Result<bool>;

    /// How many links of a list are visible, by its count.
    fn count_links(&mut self, client: &mut dyn Client, list: List) -> Result<u64>;

    /// How many of these links are there, hidden ones too.
    fn get_links(&mut self, client: &mut dyn Client, list: List, id2s: &[u64]) -> Result<u64>;

    /// Reads visible links of a list that are not newer than `newest`, newest first, after those that are skipped.
    fn get_list(&mut self, client: &mut dyn Client, list: List, newest: u64, skip: u64, limit: u64) -> Result<Found>;

    /// Adds a node that is not there.
    fn add_node(&mut self, client: &mut dyn Client, id: u64, now: u64, data: &[u8]) -> Result<()>;

    /// Says whether a node is there, having read it.
    fn get_node(&mut self, client: &mut dyn Client, id: u64) -> Result<bool>;

    /// Changes a node if it is there.
    fn update_node(&mut self, client: &mut dyn Client, id: u64, now: u64, data: &[u8]) -> Result<bool>;

    /// Deletes a node if it is there. Its links stay, as in the original.
    fn delete_node(&mut self, client: &mut dyn Client, id: u64) -> Result<bool>;

    /// What all of them did.
    fn done(&self) -> Effects;

    /// Adds a row to the commit of the load that is under way.
    fn load(&mut self, row: &Loaded<'_>);

    /// Commits what the load has added; returns its bytes.
    fn commit_load(&mut self, client: &mut dyn Client) -> Result<u64>;
}
