//! Tests of the whole log: what is appended comes back, whatever happened in between.

mod crash;
mod damage;
mod deltas;
mod golden;
mod recycling;
#[cfg(shuttle)]
mod schedules;
mod writing;

use super::buffer::builder::Payload;
use super::format::Form;
use super::{
    Base, CopyRange, LogCompression, LogOptions, LogSummary, LogWriter, RecoveredLog, Visit, inspect, recover,
};
use crate::base::num::{u64_of, usize_of};
use crate::base::{ErrorKind, Lsn, Result};
use crate::env::{Access, Env, OpenOptions};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const DATABASE: u64 = 0x5eed;

impl LogWriter {
    /// Appends a payload, given in parts, that is not compressed and for which nothing is reserved.
    pub(in crate::log) fn append_parts(&self, parts: &[&[u8]]) -> Result<Lsn> {
        let payload = Payload::new(parts, Form::Plain);
        let raw_bytes = payload.left();
        self.push(payload, None, raw_bytes).map(|place| place.end)
    }
}

/// A log directory on the real file system.
struct Fixture {
    env: Env,
    _temporary: tempfile::TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().to_owned();
        Self { env: Env::os(), _temporary: temporary, path }
    }

    /// Recovers from `from` on, and goes on with a writer.
    fn open_from(&self, from: Lsn, options: LogOptions) -> Result<(Vec<Vec<u8>>, LogWriter)> {
        let (payloads, recovered) = read(&self.env, &self.path, from)?;
        Ok((payloads, LogWriter::open(&self.env, &self.path, options, recovered)?))
    }

    fn open(&self, options: LogOptions) -> (Vec<Vec<u8>>, LogWriter) {
        self.open_from(Lsn(0), options).unwrap()
    }

    /// What a recovery would find. Without its syncs, which change nothing here and take their time.
    fn read(&self) -> Result<Vec<Vec<u8>>> {
        collect(|visit| inspect(&self.env, &self.path, Lsn(0), visit)).map(|(payloads, _)| payloads)
    }

    /// Makes `bytes` the contents of a file, in place.
    fn put(&self, path: &Path, bytes: &[u8]) {
        let file = self.env.fs.open(path, OpenOptions { access: Access::Write, direct: false }).unwrap();
        file.set_len(u64_of(bytes.len())).unwrap();
        file.write_at(bytes, 0).unwrap();
    }

    /// The names in the directory, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Recovers, and checks what every recovery must hold.
fn read(env: &Env, path: &Path, from: Lsn) -> Result<(Vec<Vec<u8>>, RecoveredLog)> {
    let mut recovered = None;
    let (payloads, _) = collect(|visit| {
        let found = recover(env, path, DATABASE, from, visit)?;
        let summary = found.summary();
        recovered = Some(found);
        Ok(summary)
    })?;
    Ok((payloads, recovered.unwrap()))
}

/// The payloads that `read` shows.
fn collect(read: impl FnOnce(&mut Visit<'_>) -> Result<LogSummary>) -> Result<(Vec<Vec<u8>>, LogSummary)> {
    let (mut payloads, mut last) = (Vec::new(), Lsn(0));
    let summary = read(&mut |start, end, payload| {
        assert!(last <= start && start < end, "payloads come in order");
        last = end;
        payloads.push(payload.to_owned());
        Ok(())
    })?;
    assert!(last <= summary.end);
    assert_eq!(summary.payloads, u64_of(payloads.len()));
    Ok((payloads, summary))
}

fn small() -> LogOptions {
    LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() }
}

/// Every form that a log can have.
const FORMS: [LogCompression; 3] = [LogCompression::Off, LogCompression::Lz4, LogCompression::Zstd];

/// As [`small`], in one of the [`FORMS`].
fn small_in(compression: LogCompression) -> LogOptions {
    LogOptions { compression, ..small() }
}

/// Bytes of a payload that are its head.
const HEAD: usize = 7;

/// Appends a payload as commits do: its first bytes are the head.
fn append(log: &LogWriter, payload: &[u8]) -> Result<Lsn> {
    append_repeating(log, payload, None).map(|place| place.end)
}

/// As [`append`], of a payload that repeats parts of another.
fn append_repeating(log: &LogWriter, payload: &[u8], base: Option<&Base>) -> Result<Range<Lsn>> {
    let (head, body) = payload.split_at(payload.len().min(HEAD));
    log.append(head, &mut base.map_or_else(|| log.prepare(body), |base| log.prepare_delta(body, base))?)
}

/// Appends two parts of an earlier payload to one, the first and the last half of the `ends`; between them stands
/// something else. Tells what of the body repeats that payload.
fn repeat(position: Lsn, earlier: &[u8], mut ends: [usize; 4], payload: &mut Vec<u8>) -> Base {
    ends.sort_unstable();
    payload.resize(payload.len().max(HEAD), 0);
    let mut copies = Vec::new();
    for range in [ends[0]..ends[1], ends[2]..ends[3]] {
        if !range.is_empty() {
            copies.push(CopyRange { at: payload.len() - HEAD, from: range.start, len: range.len() });
            payload.extend_from_slice(&earlier[range]);
        }
        payload.extend_from_slice(b"else");
    }
    Base { position, copies }
}

/// Payload `number`: recognisable bytes of that many.
fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from((number * 31 + at * 7) % 253).unwrap()).collect()
}

/// A reproducible sequence of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize_of((word ^ (word >> 31)) % u64_of(limit))
    }
}
