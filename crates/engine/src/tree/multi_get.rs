//! Several point lookups that go through the trees of a table together.
//!
//! One lookup after the other waits for memory, or the device, at each step of each. Together they take a step all at
//! once: what the next step of all needs is asked for before the first is made, and keys that lie in one block share
//! it.

use super::cost::Costs;
use super::cursor::Found;
use crate::base::checksum::hash_key;
use crate::base::{Result, SeqNum};

/// Keys of one group: enough to keep a device busy, and few enough that what they touch stays in the nearest caches.
const TOGETHER_MAX: usize = 64;

/// A key that is looked up together with others.
#[derive(Clone, Copy, Debug)]
pub struct GetRequest<'k> {
    /// The key.
    pub key: &'k [u8],
    /// Its hash ([`hash_key`]).
    pub hash: u64,
    /// Its place among the keys that were given.
    place: usize,
}

/// What a tree found of each of several keys, in their order.
pub type GetResults = Vec<Option<Found>>;

/// Lookups on their way through trees, newest first: what one tree finds is not asked of the next.
#[derive(Debug)]
pub struct MultiGet<'k> {
    snapshot: SeqNum,
    costs: Costs,
    /// Those that found nothing yet, in key order.
    open: Vec<GetRequest<'k>>,
    found: GetResults,
}

impl<'k> MultiGet<'k> {
    /// Looks up `keys` as `snapshot` sees them: calls `search` with some of them after the other, and returns what was
    /// found in the order of the keys.
    ///
    /// # Errors
    /// As `search`.
    pub fn run(
        keys: &[&'k [u8]],
        snapshot: SeqNum,
        costs: &mut Costs,
        mut search: impl FnMut(&mut MultiGet<'k>) -> Result<()>,
    ) -> Result<GetResults> {
        let mut order: Vec<_> =
            (0..).zip(keys).map(|(place, key)| GetRequest { key, hash: hash_key(key), place }).collect();
        order.sort_unstable_by_key(|request| request.key);
        let mut multi_get = MultiGet { snapshot, costs: *costs, open: Vec::new(), found: nothing(keys.len()) };
        for together in order.chunks(TOGETHER_MAX) {
            multi_get.open.clear();
            multi_get.open.extend_from_slice(together);
            search(&mut multi_get)?;
        }
        *costs = multi_get.costs;
        Ok(multi_get.found)
    }

    /// Asks a tree for the keys that were not found yet, in key order.
    ///
    /// # Errors
    /// As `tree`.
    pub fn search(
        &mut self,
        tree: impl FnOnce(&[GetRequest<'k>], SeqNum, &mut Costs) -> Result<GetResults>,
    ) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let results = tree(&self.open, self.snapshot, &mut self.costs)?;
        let mut results = results.into_iter();
        self.open.retain(|request| match results.next().flatten() {
            None => true,
            found => {
                self.found[request.place] = found;
                false
            }
        });
        Ok(())
    }
}

/// `count` results without a value.
pub(super) fn nothing(count: usize) -> GetResults {
    let mut results = Vec::new();
    results.resize_with(count, || None);
    results
}
