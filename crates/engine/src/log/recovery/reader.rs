//! Reading fragments in order, and telling the end of the log from corruption.
//!
//! # Recovery
//! The reader stops at the first position where there is no valid fragment and no group continues from exactly there.
//! Is that the torn tail of a crash, or damage to what had been durable? It looks through everything behind: a marker
//! that says that more was durable when it was written, or a segment that sealed the log further on, proves damage.
//! Without proof the log ends there.

use super::chain::SegmentFile;
use super::read_window::ReadWindow;
use super::restorer::Restorer;
use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::SECTOR_BYTES;
use crate::log::format::{
    Begins, FRAGMENT_HEADER_BYTES, Form, FragmentKind, MARKER_BYTES, Marker, SECTOR, after, claim, sector_up,
};

/// Is shown each payload: where its first fragment begins, the position after it, and its bytes.
pub type Visit<'a> = dyn FnMut(Lsn, Lsn, &[u8]) -> Result<()> + 'a;

/// Reads a chain of segments.
pub(in crate::log) struct LogReader<'a> {
    log: &'a [SegmentFile],
    /// Payloads that end at or before it are not shown.
    from: Lsn,
    window: ReadWindow,
    /// Where the last valid fragment ends.
    pub(in crate::log) fragment_end: Lsn,
    /// The fragments of a payload so far, and the position of the first.
    fragments: Vec<u8>,
    begun: Option<Lsn>,
    /// How that payload is stored.
    form: Form,
    restorer: Restorer,
    /// Whether nothing but fragments of a payload was seen whose beginning lies in a segment that is gone.
    midway: bool,
    pub(in crate::log) summary: LogSummary,
    /// Where the first segment's fragments are read from, unless from its beginning.
    start: Option<Lsn>,
}

/// What was found in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// The position after the last whole payload; zero for a log that never had one.
    pub end: Lsn,
    /// The number of the segment that `end` lies in.
    pub(in crate::log) end_segment: u64,
    /// Whether the log was closed, rather than ended by a crash.
    pub closed: bool,
    /// Bytes of the payloads shown.
    pub bytes: u64,
    /// Payloads shown.
    pub payloads: u64,
}

/// What lies behind damage, besides the payloads that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Rest {
    /// Bytes of the files that no fragment can be read from.
    pub(in crate::log) unreadable_bytes: u64,
    /// Everything before it was durable once, as markers and seals tell, too.
    pub(in crate::log) durable: Lsn,
}

/// Why the fragments of a segment stopped.
enum Stop {
    /// The position up to which a later segment sealed the log.
    Sealed,
    /// The end mark.
    Closed,
    /// The segment is used up.
    Full,
    /// Nothing valid at this position, where the next fragment or group should be.
    Nothing(Lsn),
}

/// The segment of `log` that `at` lies in.
fn home(log: &[SegmentFile], at: Lsn) -> usize {
    log.iter().rposition(|found| found.header.first <= at).unwrap_or(0)
}

impl<'a> LogReader<'a> {
    pub(in crate::log) fn new(log: &'a [SegmentFile], from: Lsn) -> Self {
        let oldest = log.first().map(|found| found.header);
        let (end, end_segment) = oldest.map_or((Lsn(0), 0), |header| (header.previous_end, header.previous));
        Self {
            log,
            from,
            window: ReadWindow::default(),
            fragment_end: end,
            fragments: Vec::new(),
            begun: None,
            form: Form::Plain,
            restorer: Restorer::default(),
            midway: oldest.is_some_and(|header| header.begins == Begins::Continues),
            summary: LogSummary { end, end_segment, closed: false, bytes: 0, payloads: 0 },
            start: None,
        }
    }

    /// A reader that begins at `position`, where a payload ends: in the first segment of `log`, or before it.
    pub(in crate::log) fn resumed(log: &'a [SegmentFile], position: Lsn) -> Self {
        let mut reader = Self::new(log, position);
        if log.first().is_some_and(|found| found.header.first < position) {
            (reader.fragment_end, reader.midway, reader.start) = (position, false, Some(position));
        }
        reader
    }

    /// A reader of what ends after `position`: it begins there when a payload does, else with the first segment.
    pub(in crate::log) fn after(log: &'a [SegmentFile], position: Lsn) -> Result<Self> {
        let mut reader = Self::resumed(log, position);
        let begins = reader.start.is_none() || reader.begins_at(position)?;
        Ok(if begins { reader } else { Self::new(log, position) })
    }

    /// Goes on in what another reader of the log has read, unless it has read something itself.
    pub(in crate::log) fn go_on_in(&mut self, window: ReadWindow) {
        if self.window.is_empty() {
            self.window = window;
        }
    }

    /// What it has read, for another reader.
    pub(in crate::log) fn into_window(self) -> ReadWindow {
        self.window
    }

    /// Whether a payload begins at a position in the first segment, maybe in the group that follows there.
    fn begins_at(&mut self, position: Lsn) -> Result<bool> {
        let found = &self.log[0];
        let mut at = position;
        if self.window.fragment(found, at)?.is_none() {
            at = sector_up(at);
        }
        if self.window.marker(found, at)?.is_some_and(|marker| marker.previous_end == position) {
            at = after(at, MARKER_BYTES);
        }
        Ok(self.window.fragment(found, at)?.is_some_and(|(kind, _)| kind.begins().is_some()))
    }

    /// Shows every whole payload to `visit`.
    pub(in crate::log) fn read(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        for index in 0..self.log.len() {
            let next = self.log.get(index + 1).map(|found| found.header);
            let sealed = next.filter(|next| next.begins == Begins::Seals).map(|next| next.previous_end);
            let first = self.log[index].header.first;
            let start = self.start.take().unwrap_or(first);
            match self.read_segment(index, start, sealed, visit)? {
                Stop::Sealed if self.begun.is_none() => self.midway = false,
                Stop::Full if next.is_some() && sealed.is_none() => {}
                _ if let Some(end) = sealed => {
                    let what = format!("damaged: the log was found whole up to position {end} at an earlier open");
                    return Err(self.corruption(index, self.fragment_end, what));
                }
                Stop::Closed => {
                    self.summary.closed = true;
                    return Ok(());
                }
                stop => {
                    if let Stop::Nothing(at) = stop {
                        self.check_cut(index, at)?;
                    }
                    return self.judge(index);
                }
            }
        }
        Ok(())
    }

    fn read_segment(&mut self, index: usize, start: Lsn, sealed: Option<Lsn>, visit: &mut Visit<'_>) -> Result<Stop> {
        let SegmentFile { header, .. } = self.log[index];
        let mut at = start;
        if header.begins == Begins::Seals && at == header.first {
            self.fragment_end = at;
        }
        loop {
            if sealed == Some(self.fragment_end) && header.first <= self.fragment_end {
                return Ok(Stop::Sealed);
            }
            let Some((kind, length)) = self.window.fragment(&self.log[index], at)? else {
                let sector = sector_up(at);
                if sector == header.end() {
                    return Ok(Stop::Full);
                }
                if sector > at && self.window.marker(&self.log[index], sector)?.is_some() {
                    at = sector;
                    continue;
                }
                return Ok(Stop::Nothing(at));
            };
            let next = after(at, FRAGMENT_HEADER_BYTES + length);
            match kind {
                FragmentKind::Group => {
                    if !at.0.is_multiple_of(SECTOR) {
                        return Err(self.unpadded(index, at));
                    }
                    let follows =
                        self.window.marker(&self.log[index], at)?.is_some_and(|it| self.follows(index, at, it));
                    if !follows {
                        return Ok(Stop::Nothing(at));
                    }
                }
                // A sealed position lies before it, and cannot be reached any more.
                FragmentKind::End if sealed.is_some() => return Ok(Stop::Nothing(at)),
                FragmentKind::End => return Ok(Stop::Closed),
                _ => {
                    self.add_fragment(index, at, kind, length, visit)?;
                    self.fragment_end = next;
                }
            }
            at = next;
        }
    }

    /// Whether the group at `at` goes on exactly where the fragments before it end.
    fn follows(&mut self, index: usize, at: Lsn, marker: Marker) -> bool {
        // The end of the fragments before the first segment read is not known.
        let first = index == 0 && at == self.log[0].header.first && self.log[0].header.begins == Begins::Continues;
        first || marker.previous_end == self.fragment_end
    }

    /// Adds a fragment to its payload, and shows the payload when it is whole.
    fn add_fragment(
        &mut self,
        index: usize,
        at: Lsn,
        kind: FragmentKind,
        length: usize,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let found = &self.log[index];
        let payload = self.window.get(found, after(at, FRAGMENT_HEADER_BYTES), length)?.unwrap_or_default();
        let end = after(at, FRAGMENT_HEADER_BYTES + length);
        let start = match (kind, self.begun) {
            (FragmentKind::Middle | FragmentKind::Last, None) if self.midway => {
                if kind == FragmentKind::Last {
                    self.midway = false;
                    (self.summary.end, self.summary.end_segment) = (end, found.header.number);
                }
                return Ok(());
            }
            (FragmentKind::Middle | FragmentKind::Last, Some(start)) => start,
            (_, None) if let Some(form) = kind.begins() => {
                self.form = form;
                at
            }
            _ => return Err(self.corruption(index, at, "the fragments of a payload are out of order")),
        };
        self.midway = false;
        let whole = match (self.begun, kind.is_last()) {
            (None, true) => payload,
            (_, is_last) => {
                self.fragments.extend_from_slice(payload);
                self.begun = Some(start);
                if !is_last {
                    return Ok(());
                }
                &self.fragments
            }
        };
        if end > self.from {
            let whole = self.restorer.restore(self.form, whole, &self.log[home(self.log, start)], start)?;
            visit(start, end, whole)?;
            self.summary.bytes += u64_of(whole.len());
            self.summary.payloads += 1;
        }
        (self.summary.end, self.summary.end_segment) = (end, found.header.number);
        self.begun = None;
        self.fragments.clear();
        Ok(())
    }

    /// The first group marker at or behind `from`, and before `end`, in the segment at `index`, and its position.
    fn next_marker(&mut self, index: usize, from: Lsn, end: Lsn) -> Result<Option<(Lsn, Marker)>> {
        let mut at = sector_up(from);
        while at < end {
            if let Some(marker) = self.window.marker(&self.log[index], at)? {
                return Ok(Some((at, marker)));
            }
            at = after(at, SECTOR_BYTES);
        }
        Ok(None)
    }

    /// Refuses a log that stops at `at` in the segment at `index`, if the file may have been truncated inside the
    /// record there. A file that was truncated further on has lost nothing: the next fragment would be here, or the
    /// next group at the next sector.
    fn check_cut(&mut self, index: usize, at: Lsn) -> Result<()> {
        let found = &self.log[index];
        let (cut, end, header) = (found.readable_end(), found.header.end(), found.header);
        if !found.is_cut() {
            return Ok(());
        }
        let head = self.window.get(found, at, FRAGMENT_HEADER_BYTES)?.and_then(claim);
        let fragment_end = head.map_or(at, |(_, length)| after(at, FRAGMENT_HEADER_BYTES + length));
        let next = after(sector_up(at), MARKER_BYTES);
        if fragment_end <= cut && (next <= cut || next > end) {
            return Ok(());
        }
        let what = format!("the segment is cut off: {} of {} bytes are left", found.bytes, header.bytes);
        Err(Error::corruption(&found.path, found.bytes, what))
    }

    /// Decides whether the log ends at `self.fragment_end`, in the segment at `index` or at the end of the one before.
    fn judge(&mut self, index: usize) -> Result<()> {
        let stop = self.fragment_end;
        let home = home(self.log, stop).min(index);
        for later in home..self.log.len() {
            let header = self.log[later].header;
            if later > home && header.begins == Begins::Seals && header.previous_end > stop {
                let what =
                    format!("damaged: segment {} says that the log was whole up to here and beyond", header.number);
                return Err(self.corruption(home, stop, what));
            }
            let mut from = header.first.max(stop);
            while let Some((at, marker)) = self.next_marker(later, from, header.end())? {
                if marker.durable > stop {
                    let file = self.log[later].path.display();
                    let proof =
                        format!("damaged: {file} proves at offset {} that it was durable", header.offset_of(at));
                    return Err(self.corruption(home, stop, proof));
                }
                from = after(at, MARKER_BYTES);
            }
        }
        Ok(())
    }

    /// Shows what can be read behind damage, of the payloads that begin at or behind a group in `self.log`, and counts
    /// what cannot. `seals` tells up to where a segment counts, and everything before `durable` is known to have been
    /// durable.
    pub(in crate::log) fn read_rest(
        &mut self,
        durable: Lsn,
        seals: &dyn Fn(u64) -> Option<Lsn>,
        visit: &mut Visit<'_>,
    ) -> Result<Rest> {
        let mut rest = Rest { durable, unreadable_bytes: 0 };
        for index in 0..self.log.len() {
            let SegmentFile { header, .. } = self.log[index];
            let sealed = seals(header.number);
            let end = sealed.map_or(header.end(), |sealed| sealed.clamp(header.first, header.end()));
            if header.begins == Begins::Seals && header.first > self.fragment_end {
                self.give_up(header.previous_end, seals, &mut rest);
                self.fragment_end = header.first;
            }
            rest.durable = rest.durable.max(if header.begins == Begins::Seals { header.previous_end } else { Lsn(0) });
            let mut at = self.fragment_end.max(header.first);
            while let Some((group, marker)) = self.next_marker(index, at, end)? {
                self.give_up(marker.previous_end, seals, &mut rest);
                rest.durable = rest.durable.max(marker.durable);
                self.fragment_end = marker.previous_end.max(self.fragment_end);
                match self.read_segment(index, group, sealed, visit) {
                    Err(error) if error.place().is_none() => return Err(error),
                    _ => {}
                }
                at = after(group, 1).max(self.fragment_end);
            }
        }
        self.give_up(rest.durable, seals, &mut rest);
        Ok(rest)
    }

    /// Counts the bytes of the files between the last fragment and `position`; the fragments of a payload before it are
    /// without an end. (Positions that no file has are left out: they are not bytes.)
    fn give_up(&mut self, position: Lsn, seals: &dyn Fn(u64) -> Option<Lsn>, rest: &mut Rest) {
        let bytes = |found: &SegmentFile| {
            let header = &found.header;
            let end = seals(header.number).unwrap_or(Lsn::MAX).min(found.readable_end()).min(position);
            end.0.saturating_sub(header.first.max(self.fragment_end).0)
        };
        rest.unreadable_bytes += self.log.iter().map(bytes).sum::<u64>();
        if position > self.fragment_end {
            self.begun = None;
            self.fragments.clear();
            self.midway = true;
        }
    }

    /// A group within a sector: earlier versions could be told to write the log so.
    fn unpadded(&self, index: usize, at: Lsn) -> Error {
        let SegmentFile { header, path, .. } = &self.log[index];
        let (path, offset) = (path.display(), header.offset_of(at));
        let message = format!("{path}: at offset {offset}: written without padding, which only earlier versions read");
        Error::new(ErrorKind::Unsupported, message)
    }

    fn corruption(&self, index: usize, at: Lsn, what: impl std::fmt::Display) -> Error {
        let SegmentFile { header, path, .. } = &self.log[index];
        Error::corruption(path, header.offset_of(at.clamp(header.first, header.end())), what)
    }
}
