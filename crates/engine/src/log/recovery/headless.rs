//! Identifying a segment whose header is damaged.
//!
//! Its number is the file's name, and the database is known. The rest of the header is guessed: from what is left of
//! the sector, from the segments before and after it, and from the positions that the markers of its groups tell. A
//! guess counts only when a checksum proves it: the header's own, or that of a group, which is seeded with the
//! database, the number and the position.

use super::chain::{SegmentFile, is_link};
use super::reader::LogReader;
use crate::base::codec::Decoder;
use crate::base::num::usize_of;
use crate::base::{Error, Lsn, Result};
use crate::env::{File, SECTOR_BYTES};
use crate::log::format::{
    Begins, FRAGMENT_HEADER_BYTES, MARKER_BYTES, MARKER_CLAIM, Marker, SECTOR, SegmentHeader, sector_up,
};
use std::path::Path;

/// How much of the content is searched for groups.
const SEARCH_BYTES: usize = 1 << 20;
/// How many groups are asked for their position.
const GROUPS_MAX: usize = 16;

/// A segment file without a header that can be believed.
pub(in crate::log) struct Headless<'a> {
    pub(in crate::log) database: u64,
    pub(in crate::log) number: u64,
    pub(in crate::log) path: &'a Path,
    pub(in crate::log) file: &'a dyn File,
    /// Length of the file.
    pub(in crate::log) bytes: u64,
    /// The segment of the number before it, if that is known.
    pub(in crate::log) before: Option<&'a SegmentFile>,
    /// That of the number after it.
    pub(in crate::log) after: Option<&'a SegmentFile>,
}

/// The fields of a header that nothing but the header tells.
#[derive(Clone, Copy)]
struct Fields {
    bytes: u64,
    first: Lsn,
    previous: u64,
    previous_end: Lsn,
}

impl Headless<'_> {
    /// The header that the segment had, if that can be proven.
    pub(in crate::log) fn identify(&self) -> Result<Option<SegmentHeader>> {
        let mut sector = vec![0; usize_of(SECTOR)];
        self.read(&mut sector, 0)?;
        let mut content = vec![0; SEARCH_BYTES.min(usize_of(self.bytes.saturating_sub(SECTOR)))];
        self.read(&mut content, SECTOR)?;
        let left = Fields::of(&sector);
        let firsts = self.firsts(&left, &content);
        let end = self.end_before();
        let stored = &sector[sector.len() - 8..];
        for first in &firsts {
            let by_header = self.guesses(*first, &left, end).into_iter().find(|header| {
                let mut guess = vec![0; usize_of(SECTOR)];
                header.encode(&mut guess);
                guess.ends_with(stored)
            });
            if by_header.is_some() {
                return Ok(by_header);
            }
        }
        let is_proven = |first: &Lsn| {
            let identity = self.header(Begins::Seals, Fields { first: *first, ..left }).identity();
            Marker::is_in(identity, *first, &content)
        };
        // Perhaps it is the checksum that is damaged.
        let begins = if sector[12] == 1 { Begins::Continues } else { Begins::Seals };
        let as_it_stands = self.header(begins, left);
        let fits = self.before.is_none_or(|before| is_link(&before.header, &as_it_stands));
        if as_it_stands.is_sound() && fits && is_proven(&left.first) {
            return Ok(Some(as_it_stands));
        }
        let Some(first) = firsts.into_iter().find(is_proven) else { return Ok(None) };
        let continues = self.before.is_some_and(|before| before.header.end() == first);
        let begins = if continues { Begins::Continues } else { Begins::Seals };
        let previous = self.before.map_or(0, |before| before.header.number);
        let previous_end = if continues { first } else { end.unwrap_or_default() };
        let header = self.header(begins, Fields { bytes: self.bytes, first, previous, previous_end });
        // A seal cannot be reconstructed without the segment that it seals.
        let is_known = self.number == 1 || self.before.is_some();
        Ok(Some(header).filter(|header| is_known && header.is_sound()))
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(bytes, offset).map(drop).map_err(|error| Error::io("read", self.path, error))
    }

    fn header(&self, begins: Begins, fields: Fields) -> SegmentHeader {
        let Fields { bytes, first, previous, previous_end } = fields;
        SegmentHeader { begins, database: self.database, number: self.number, bytes, first, previous, previous_end }
    }

    /// Where the content may begin.
    fn firsts(&self, left: &Fields, content: &[u8]) -> Vec<Lsn> {
        let mut firsts = vec![left.first, Lsn(SECTOR)];
        firsts.extend(self.before.map(|before| before.header.end()));
        let content_bytes = self.bytes.saturating_sub(SECTOR);
        firsts.extend(self.after.and_then(|after| after.header.previous_end.0.checked_sub(content_bytes)).map(Lsn));
        let fragments =
            content.chunks(SECTOR_BYTES).zip(0..).filter_map(|(it, number)| Some((it.get(..MARKER_BYTES)?, number)));
        let claims =
            fragments.filter(|(fragment, _)| fragment[8..FRAGMENT_HEADER_BYTES] == MARKER_CLAIM).take(GROUPS_MAX);
        for (fragment, number) in claims {
            let Some(marker) =
                Marker::decode(&fragment[FRAGMENT_HEADER_BYTES..]).filter(|it| it.previous_end <= Lsn::MAX)
            else {
                continue;
            };
            // A group begins at the first sector behind the fragments before it.
            firsts.extend(sector_up(marker.previous_end).0.checked_sub(number * SECTOR).map(Lsn));
        }
        firsts.retain(|first| first.0.is_multiple_of(SECTOR) && *first <= Lsn::MAX);
        firsts.dedup();
        firsts
    }

    /// Where the fragments of the segment before this one end.
    fn end_before(&self) -> Option<Lsn> {
        let log = [self.before?.clone()];
        let mut reader = LogReader::new(&log, Lsn::MAX);
        // How it ends does not matter here.
        drop(reader.read(&mut |_, _, _| Ok(())));
        Some(reader.fragment_end)
    }

    /// Sound headers whose content begins at `first`.
    fn guesses(&self, first: Lsn, left: &Fields, end: Option<Lsn>) -> Vec<SegmentHeader> {
        let before = self.before.map_or(0, |before| before.header.number);
        let mut guesses = Vec::new();
        for begins in [Begins::Continues, Begins::Seals] {
            for bytes in [left.bytes, self.bytes] {
                for previous in [left.previous, before, self.number.saturating_sub(1)] {
                    for previous_end in [left.previous_end, first, end.unwrap_or_default()] {
                        guesses.push(self.header(begins, Fields { bytes, first, previous, previous_end }));
                    }
                }
            }
        }
        guesses.retain(SegmentHeader::is_sound);
        guesses
    }
}

impl Fields {
    /// The contents of a header sector.
    fn of(sector: &[u8]) -> Self {
        let field = |at: usize| sector.get(at..).and_then(|rest| Decoder::new(rest).u64().ok()).unwrap_or_default();
        Self { bytes: field(32), first: Lsn(field(40)), previous: field(48), previous_end: Lsn(field(56)) }
    }
}
