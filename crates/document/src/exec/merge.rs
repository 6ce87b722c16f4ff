//! Rows of several inputs: one after the other, or by their keys.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::met::Met;
use super::operator::{Operator, Run};
use super::row::Row;
use crate::base::Result;

/// The rows of one input after the other, each document once.
#[derive(Debug)]
pub(super) struct Union {
    inputs: Vec<Box<dyn Operator>>,
    met: Met,
}

impl Union {
    pub(super) fn new(run: &Run<'_>, mut inputs: Vec<Box<dyn Operator>>) -> Self {
        inputs.reverse();
        Self { inputs, met: Met::new(run.query.memory()) }
    }
}

impl Operator for Union {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        while let Some(input) = self.inputs.last_mut() {
            while input.next(run, row)? {
                if self.met.insert(&row.id)? {
                    return Ok(true);
                }
            }
            self.inputs.pop();
        }
        Ok(false)
    }
}

/// The rows of inputs over one index, in the order of what follows the values that each has in common.
#[derive(Debug)]
pub(super) struct MergeByKey {
    inputs: Vec<(Box<dyn Operator>, usize)>,
    heads: Option<BinaryHeap<Head>>,
    reverse: bool,
    /// The documents that were met, when one may be met several times.
    met: Option<Met>,
}

/// The next row of an input.
#[derive(Debug)]
struct Head {
    row: Row,
    prefix: usize,
    input: usize,
    reverse: bool,
}

impl MergeByKey {
    /// Inputs with the length of the prefix that their keys have in common.
    pub(super) fn new(run: &Run<'_>, inputs: Vec<(Box<dyn Operator>, usize)>, reverse: bool, multikey: bool) -> Self {
        let met = multikey.then(|| Met::new(run.query.memory()));
        Self { inputs, heads: None, reverse, met }
    }

    fn pull(&mut self, run: &Run<'_>, input: usize) -> Result<Option<Head>> {
        let (operator, prefix) = &mut self.inputs[input];
        let mut row = Row::default();
        Ok(operator.next(run, &mut row)?.then_some(Head { row, prefix: *prefix, input, reverse: self.reverse }))
    }
}

impl Operator for MergeByKey {
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool> {
        let mut heads = match self.heads.take() {
            Some(heads) => heads,
            None => {
                let all = (0..self.inputs.len()).map(|input| self.pull(run, input));
                all.filter_map(Result::transpose).collect::<Result<_>>()?
            }
        };
        let mut found = false;
        while let Some(Head { row: next, input, .. }) = heads.pop() {
            heads.extend(self.pull(run, input)?);
            let is_new = match &mut self.met {
                Some(met) => met.insert(&next.id)?,
                None => true,
            };
            if is_new {
                *row = next;
                found = true;
                break;
            }
        }
        self.heads = Some(heads);
        Ok(found)
    }
}

impl Head {
    fn rest(&self) -> (&[u8], &[u8]) {
        (&self.row.key[self.prefix..], &self.row.id)
    }
}

impl Ord for Head {
    /// The first of the merge is the greatest, as the heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.rest().cmp(&other.rest());
        if self.reverse { order } else { order.reverse() }
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}
