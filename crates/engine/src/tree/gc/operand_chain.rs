//! Operands of one key that are held back, newest first.

use crate::base::key::check_value;
use crate::base::{Entry, SeqNum};
use crate::tree::operator::TableOperator;

/// Operands from which on a chain is made shorter where the operator can, so that a key with millions of them takes
/// little memory.
const OPERANDS_MANY: usize = 1024;

/// Operands, newest first. All of them are merged into one key, and every snapshot sees all of them or none.
#[derive(Debug)]
pub(super) struct OperandChain {
    /// Each with the place in `bytes` where it ends.
    operands: Vec<(SeqNum, usize)>,
    bytes: Vec<u8>,
    /// How many there may be before it is tried to make them one.
    many: usize,
}

impl Default for OperandChain {
    fn default() -> Self {
        Self { operands: Vec::new(), bytes: Vec::new(), many: OPERANDS_MANY }
    }
}

impl OperandChain {
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// Adds an operand that is older than all others.
    pub(super) fn push(&mut self, entry: &Entry<'_>, key: &[u8], operator: &TableOperator) {
        self.bytes.extend_from_slice(entry.value);
        self.operands.push((entry.seqnum, self.bytes.len()));
        if self.operands.len() < self.many {
            return;
        }
        self.many = 2 * self.operands.len();
        if let Some(operand) = self.partial(key, operator) {
            let newest = self.newest();
            self.clear();
            self.bytes = operand;
            self.operands.push((newest, self.bytes.len()));
        }
    }

    pub(super) fn clear(&mut self) {
        self.operands.clear();
        self.bytes.clear();
        self.many = OPERANDS_MANY;
    }

    /// The seqnum of the newest operand.
    pub(super) fn newest(&self) -> SeqNum {
        self.operands.first().map_or(SeqNum::ZERO, |(seqnum, _)| *seqnum)
    }

    /// The operands, newest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (SeqNum, &[u8])> {
        let start = |i: usize| i.checked_sub(1).map_or(0, |before| self.operands[before].1);
        self.operands.iter().enumerate().map(move |(i, (seqnum, end))| (*seqnum, &self.bytes[start(i)..*end]))
    }

    /// The operands, oldest first, as operators want them.
    pub(super) fn operands(&self) -> Vec<&[u8]> {
        self.iter().rev().map(|(_, operand)| operand).collect()
    }

    /// One operand that does what all of them do, if there are several and the operator can.
    pub(super) fn partial(&self, key: &[u8], operator: &TableOperator) -> Option<Vec<u8>> {
        let operator = operator.registered().filter(|_| self.operands.len() > 1)?;
        let operand = operator.partial(key, &self.operands()).ok()??;
        check_value(&operand).is_ok().then_some(operand)
    }
}
