//! An open file of the simulated file system.

use super::super::buffer::SECTOR_BYTES;
use super::super::file::{Access, File, InFlight, Pages, Transfer};
use super::cached::FileChange;
use super::call::Call;
use super::disk::Disk;
use super::fault::{Fault, Verdict, down};
use super::node::NodeId;
use super::process::{SimFileSystem, sync};
use super::state::State;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::give_way;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What direct reads are a multiple of, as of most devices.
const READ_ALIGNMENT: usize = 512;

/// A handle on a file. It dies with the process that opened it.
#[derive(Debug)]
pub(super) struct SimFile {
    fs: SimFileSystem,
    node: NodeId,
    /// The name it was opened by, for messages.
    path: PathBuf,
    access: Access,
    direct: bool,
}

impl SimFile {
    pub(super) fn new(fs: SimFileSystem, node: NodeId, path: &Path, access: Access, direct: bool) -> Self {
        Self { fs, node, path: path.to_owned(), access, direct }
    }

    fn change(&self, call: Call, change: FileChange) -> io::Result<()> {
        self.check_writable()?;
        let call = (call, self.path.as_path());
        self.fs.machine.call(call.0, call.1).change(self.fs.process, call, |disk| disk.change_file(self.node, change))
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::Read => Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is open for reading only")),
            Access::Write | Access::CreateNew => Ok(()),
        }
    }

    /// What the kernel refuses only on some devices is a bug of the caller everywhere.
    fn assert_aligned(&self, bytes: &[u8], offset: u64, unit: usize) {
        let aligned = |number: u64| number.is_multiple_of(u64_of(unit));
        assert!(
            aligned(offset) && aligned(u64_of(bytes.len())) && aligned(u64_of(bytes.as_ptr().addr())),
            "direct I/O on {} that is not aligned: {} bytes from {:p} at {offset}",
            self.path.display(),
            bytes.len(),
            bytes.as_ptr(),
        );
    }

    fn write(&self, bytes: &[u8], offset: u64, durable: bool) -> io::Result<()> {
        self.assert_aligned(bytes, offset, self.alignment());
        self.check_writable()?;
        give_way();
        let call = if durable { Call::WriteDurable } else { Call::Write };
        let mut state = self.fs.machine.call(call, &self.path);
        let verdict = state.judge(self.fs.process, call, &self.path)?;
        state.trace(offset, bytes);
        if state.faults.keep_overwritten() {
            let mut old = vec![0; bytes.len()];
            state.disk.file_ref(self.node)?.current.read(&mut old, offset);
            state.overwritten.insert(self.node, (offset, old));
        }
        let disk = &mut state.disk;
        let mut offset = offset;
        let (bytes, result) = match verdict {
            Verdict::Go => (bytes, Ok(())),
            Verdict::Crash => (bytes, Err(down())),
            Verdict::Deceive(Fault::MisdirectedWrite) => {
                offset += u64_of(bytes.len());
                (bytes, Ok(()))
            }
            Verdict::Deceive(_) => return Ok(()),
            Verdict::Fail(Fault::ShortWrite) => (&bytes[..bytes.len() / 2], Err(Fault::ShortWrite.error())),
            Verdict::Fail(Fault::SyncLost) if durable => {
                let bytes = bytes.into();
                disk.file(self.node)?.change_and_lose(&FileChange::Write { offset, bytes });
                return Err(Fault::SyncLost.error());
            }
            Verdict::Fail(fault) => (&bytes[..0], Err(fault.error())),
        };
        let room = disk.writable(self.node, offset, bytes.len())?;
        let full = || Err(io::ErrorKind::StorageFull.into());
        let (bytes, result) = if room < bytes.len() { (&bytes[..room], full()) } else { (bytes, result) };
        let change = FileChange::Write { offset, bytes: bytes.into() };
        match (bytes, &result) {
            ([], _) => {}
            (_, Ok(())) if durable => disk.change_file_durably(self.node, change)?,
            _ => {
                disk.change_file(self.node, change)?;
                state.observed.wrote(self.node, bytes.len());
            }
        }
        result
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.assert_aligned(buffer, offset, self.read_alignment());
        let mut state = self.fs.machine.call(Call::Read, &self.path);
        let deceit = match state.judge(self.fs.process, Call::Read, &self.path)? {
            Verdict::Go | Verdict::Crash => None,
            Verdict::Deceive(fault) => Some(fault),
            Verdict::Fail(fault) => return Err(fault.error()),
        };
        let file = state.disk.file_ref(self.node)?;
        let read = match self.direct {
            true => file.past_cache().read(buffer, offset),
            false => file.current.read(buffer, offset),
        };
        match deceit {
            Some(Fault::FlippedRead) if read > 0 => {
                let at = usize_of(state.random.crash.below(u64_of(read)));
                buffer[at] ^= 1 << state.random.crash.below(8);
            }
            Some(Fault::StaleRead) => {
                if let Some((from, old)) = state.overwritten.get(&self.node) {
                    lay_over(&mut buffer[..read], offset, old, *from);
                }
            }
            _ => {}
        }
        state.observed.read(&self.path, read);
        state.trace(offset, &buffer[..read]);
        Ok(read)
    }

    fn read_many(&self, reads: &mut [Transfer]) {
        if reads.len() > 1 {
            self.fs.machine.state.lock().observed.batched_reads += u64_of(reads.len());
        }
        reads.iter_mut().for_each(Transfer::make);
    }

    fn begin(&self, transfer: Transfer) -> InFlight {
        let at_once = self.fs.machine.state.lock().random.begun.one_in(2);
        if at_once { InFlight::made(transfer) } else { InFlight::due(transfer) }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(bytes, offset, false)
    }

    fn map(&self, range: Range<u64>) -> Option<Box<dyn Pages>> {
        let mut state = self.fs.machine.state.lock();
        let len = state.disk.file_ref(self.node).ok()?.current.len();
        assert!(!self.direct && range.end <= len, "{range:?} of {} is not what was written", self.path.display());
        let pages = SimPages { fs: self.fs.clone(), node: self.node, range };
        state.random.begun.one_in(2).then(|| Box::new(pages) as _)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(bytes, offset, true)
    }

    fn sync(&self) -> io::Result<()> {
        give_way();
        let mut state = self.fs.machine.call(Call::Sync, &self.path);
        let verdict = state.judge(self.fs.process, Call::Sync, &self.path)?;
        let State { disk, random, observed, .. } = &mut *state;
        observed.synced(self.node);
        sync(disk.file(self.node)?, verdict, &mut random.crash)
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.fs.machine.state.lock();
        state.check(self.fs.process)?;
        Ok(state.disk.file_ref(self.node)?.current.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.change(Call::SetLen, FileChange::SetLen(bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<bool> {
        self.check_writable()?;
        let reserve = |disk: &mut Disk| {
            let len = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
            if disk.writable(self.node, 0, len)? < len {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.change_file(self.node, FileChange::Reserve(bytes))
        };
        let call = (Call::Allocate, self.path.as_path());
        self.fs.machine.call(call.0, call.1).change(self.fs.process, call, reserve)?;
        Ok(true)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.change(Call::Punch, FileChange::Punch { offset, bytes })
    }

    fn alignment(&self) -> usize {
        if self.direct { SECTOR_BYTES } else { 1 }
    }

    fn read_alignment(&self) -> usize {
        if self.direct { READ_ALIGNMENT } else { 1 }
    }
}

/// A part of a file in memory. It too dies with the process.
#[derive(Debug)]
struct SimPages {
    fs: SimFileSystem,
    node: NodeId,
    range: Range<u64>,
}

impl Pages for SimPages {
    fn put(&mut self, bytes: &[u8], offset: u64) {
        assert!(self.range.start <= offset && offset + u64_of(bytes.len()) <= self.range.end, "within the range");
        give_way();
        let mut state = self.fs.machine.state.lock();
        // A process that has crashed copies nothing.
        if state.check(self.fs.process).is_ok() {
            state.trace(offset, bytes);
            let change = FileChange::Write { offset, bytes: bytes.into() };
            state.disk.change_file(self.node, change).expect("pages were written before they were mapped");
        }
    }
}

/// Lays bytes that belong at `from` over those of `buffer`, which belong at `offset`.
fn lay_over(buffer: &mut [u8], offset: u64, bytes: &[u8], from: u64) {
    for (at, byte) in (from..).zip(bytes) {
        if let Some(place) = at.checked_sub(offset).and_then(|at| buffer.get_mut(usize_of(at))) {
            *place = *byte;
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.fs.machine.state.lock();
        if state.process == self.fs.process {
            state.disk.close_handle(self.node);
        }
    }
}
