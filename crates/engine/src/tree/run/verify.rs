//! Reads all of a run straight from its file and checks that its parts agree with each other.

use super::filter::{LINE_BYTES, Layout};
use super::format::Footer;
use super::meta::RunMeta;
use super::readahead::ReadAhead;
use super::reader::Run;
use crate::base::checksum::{hash_key, hash_prefix};
use crate::base::key::descends;
use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Kind, Result, SeqNum};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::cache::Fill;
use crate::tree::values::ValuePointer;
use std::fmt;

/// What [`verify`] looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Blocks read.
    pub blocks: u64,
    /// Entries in the leaves.
    pub entries: u64,
    /// Length of the file, and bytes of the values that it has apart.
    pub bytes: u64,
}

/// What was found so far, on the way through a run.
struct Walk<'a> {
    run: &'a Run,
    filter: Option<(Layout, Vec<Block>)>,
    /// What a footer of the entries seen so far would say.
    seen: Footer,
    blocks: u64,
    key: Vec<u8>,
    last_key: Vec<u8>,
    last_seqnum: SeqNum,
    /// The separator of the leaf before.
    separator: Vec<u8>,
    /// What the entries seen so far refer to.
    referred: RunMeta,
    /// Bytes of the separated values that were read.
    value_bytes: u64,
}

/// Reads every block, also those of separated values, and checks checksums, order, counts, bounds, the index, and that
/// the filter knows every key.
///
/// # Errors
/// `Corruption` for the first disagreement, `Io` when a block cannot be read.
pub fn verify(run: &Run) -> Result<RunReport> {
    run.open_ends()?;
    run.verify_ends()?;
    let mut walk = Walk {
        run,
        filter: read_filter(run)?,
        seen: Footer { leaves_end: 0, ..Footer::default() },
        blocks: 1,
        key: Vec::new(),
        last_key: Vec::new(),
        last_seqnum: SeqNum::ZERO,
        separator: Vec::new(),
        referred: RunMeta::default(),
        value_bytes: 0,
    };
    walk.blocks += walk.filter.as_ref().map_or(0, |(_, parts)| 1 + u64_of(parts.len()));
    let mut readahead = ReadAhead::new(Fill::Bypass);
    for part in 0..run.top().count() {
        walk.index_part(part, &mut readahead)?;
    }
    walk.end()?;
    Ok(RunReport { blocks: walk.blocks, entries: walk.seen.entries, bytes: run.meta().bytes + walk.value_bytes })
}

/// Reads every block but the leaves: how many are sound, and what is wrong with the others.
///
/// # Errors
/// `Io` when a block cannot be read.
pub fn verify_parts(run: &Run) -> Result<(u64, Vec<Error>)> {
    match run.open_ends() {
        Err(error) if error.kind() == ErrorKind::Corruption => return Ok((0, vec![error])),
        opened => opened?,
    }
    let index = (0..run.top().count()).map(|part| run.pointer(run.top(), part));
    let filter = run.filter().map_or(&[][..], |filter| &filter.parts);
    let blocks = index.chain(filter.iter().map(|pointer| Ok(*pointer)));
    let checks = blocks.map(|pointer| pointer.and_then(|pointer| run.file().read(pointer).map(drop)));
    let (mut sound, mut wrong) = (0, Vec::new());
    for checked in checks.chain([run.verify_ends()]) {
        match checked {
            Ok(()) => sound += 1,
            Err(error) if error.kind() == ErrorKind::Corruption => wrong.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok((sound, wrong))
}

/// The parts of the filter, from the file.
fn read_filter(run: &Run) -> Result<Option<(Layout, Vec<Block>)>> {
    let Some(filter) = run.filter() else { return Ok(None) };
    let (layout, pointers) = (filter.layout, &filter.parts);
    let mut parts = Vec::with_capacity(pointers.len());
    for (part, pointer) in pointers.iter().enumerate() {
        let block = run.file().read(*pointer)?;
        if block.kind() != BlockKind::Raw || block.bytes().len() != layout.part_bytes(part) {
            return Err(run.file().corruption(pointer.offset, "a part of the filter has the wrong length"));
        }
        parts.push(block);
    }
    Ok(Some((layout, parts)))
}

impl Walk<'_> {
    fn index_part(&mut self, part: usize, readahead: &mut ReadAhead) -> Result<()> {
        let pointer = self.run.pointer(self.run.top(), part)?;
        let index = self.run.file().read(pointer)?;
        self.blocks += 1;
        if index.kind() != BlockKind::Branch || index.count() == 0 {
            return Err(self.wrong(pointer, "a part of the index is none"));
        }
        index.key_into(index.count() - 1, &mut self.key);
        if self.run.top().compare_key(part, &self.key).is_ne() {
            return Err(self.wrong(pointer, "the last separator of a part of the index is not the one above it"));
        }
        for slot in 0..index.count() {
            let pointer = self.run.pointer(&index, slot)?;
            if pointer.offset != self.seen.leaves_end {
                return Err(self.wrong(pointer, "a leaf does not begin where the one before it ends"));
            }
            let (leaf, _) = readahead.leaf(self.run, (pointer, None), || 0..self.run.footer().leaves_end)?;
            self.run.check_leaf(pointer, &leaf)?;
            self.blocks += 1;
            self.seen.leaves += 1;
            self.seen.leaves_end = pointer.end();
            self.leaf(pointer, &leaf)?;
            if index.compare_key(slot, &self.last_key).is_lt() {
                return Err(self.wrong(pointer, "the separator of a leaf is below its last key"));
            }
            index.key_into(slot, &mut self.separator);
        }
        Ok(())
    }

    /// Checks the entries of a leaf.
    fn leaf(&mut self, pointer: BlockPointer, leaf: &Block) -> Result<()> {
        let continues = leaf.compare_key(0, &self.last_key).is_eq();
        if self.seen.leaves > 1 && !continues && leaf.compare_key(0, &self.separator).is_le() {
            return Err(self.wrong(pointer, "the first key of a leaf is not above the separator before it"));
        }
        for at in 0..leaf.count() {
            let entry = leaf.slot(at);
            leaf.key_into(at, &mut self.key);
            let new_key = self.seen.entries == 0 || self.key != self.last_key;
            let ascends = new_key && (self.seen.entries == 0 || self.key > self.last_key);
            if !ascends && (new_key || !descends(self.last_seqnum, (entry.seqnum, entry.kind))) {
                return Err(self.wrong(pointer, "entries are out of order"));
            }
            if new_key && !self.passes_filter() {
                return Err(self.wrong(pointer, "the filter does not know a key or its prefix"));
            }
            self.seen.entries += 1;
            self.seen.tombstones += u64::from(entry.kind.is_tombstone());
            self.seen.raw_bytes += u64_of(self.key.len() + entry.value_len);
            self.seen.seqnum_max = self.seen.seqnum_max.max(entry.seqnum);
            if entry.kind == Kind::PutPointer {
                self.value(leaf.value(at))?;
            }
            self.last_seqnum = entry.seqnum;
            if self.seen.entries == 1 && self.key != self.run.meta().smallest {
                return Err(self.wrong(pointer, "the first key is not the one in the manifest"));
            }
            std::mem::swap(&mut self.key, &mut self.last_key);
        }
        Ok(())
    }

    /// Reads a separated value from its file.
    fn value(&mut self, pointer: &[u8]) -> Result<()> {
        let value = self.run.values().read_from_file(pointer)?;
        self.referred.refer(&ValuePointer::decode(pointer)?);
        self.blocks += 1;
        self.value_bytes += u64_of(value.len());
        Ok(())
    }

    fn passes_filter(&self) -> bool {
        let Some((layout, parts)) = &self.filter else { return true };
        let passes = |hash| {
            let (part, at) = layout.place(hash);
            let line = parts[part].bytes()[at..].first_chunk::<LINE_BYTES>();
            line.is_some_and(|line| layout.may_contain(line, hash))
        };
        let prefix = self.run.footer().filter_prefix.and_then(|rule| rule.of(&self.key));
        passes(hash_key(&self.key)) && prefix.is_none_or(|prefix| passes(hash_prefix(prefix)))
    }

    /// Checks the totals.
    fn end(&self) -> Result<()> {
        let footer = self.run.footer();
        let pointer = footer.top;
        let (top, filter_table) = (footer.top, footer.filter_table);
        let (filter_probes, filter_lines, filter_prefix) =
            (footer.filter_probes, footer.filter_lines, footer.filter_prefix);
        if *footer != (Footer { top, filter_table, filter_probes, filter_lines, filter_prefix, ..self.seen }) {
            return Err(self.wrong(pointer, "the footer counts other entries than there are"));
        }
        if self.referred.references != self.run.meta().references {
            return Err(self.wrong(pointer, "the separated values are not those that the manifest counts"));
        }
        if self.last_key != self.run.meta().largest {
            return Err(self.wrong(pointer, "the last key is not the one in the manifest"));
        }
        Ok(())
    }

    fn wrong(&self, pointer: BlockPointer, what: impl fmt::Display) -> Error {
        self.run.file().corruption(pointer.offset, what)
    }
}
