//! An open file: positioned reads and writes that finish what they begin, buffered or direct.

use super::super::buffer::SECTOR_BYTES;
use super::super::file::{File, Pages};
use super::mapped::MappedPages;
use super::ring;
use crate::base::debug::debug_by;
use crate::base::num::{u64_of, usize_of32};
use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::fs::{fallocate, fcntl_getfl, fcntl_setfl, fdatasync, fstat, ftruncate, statx};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2, retry_on_intr};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of the operating system.
pub(super) struct OsFile {
    fd: OwnedFd,
    /// Whether the page cache is passed by. Publishes nothing: a thread that still sees the old value only hands in
    /// aligned buffers without need.
    direct: AtomicBool,
    /// What direct reads are a multiple of.
    read_alignment: usize,
    /// Whether small direct reads are waited for awake.
    polls: bool,
}

impl OsFile {
    /// Takes an open descriptor, and makes it direct if that is wanted and the file system can. With `polls` a thread
    /// waits awake for small direct reads.
    pub(super) fn new(fd: OwnedFd, direct: bool, polls: bool) -> io::Result<Self> {
        // O_DIRECT is set on the open descriptor and not handed to open(2), which on refusal may leave a new file
        // behind.
        let direct = direct && set_direct(&fd, true)?;
        let read_alignment = if direct { read_alignment_of(&fd) } else { 1 };
        Ok(Self { fd, direct: AtomicBool::new(direct), read_alignment, polls })
    }

    fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Runs one call on the file, and once more through the page cache if direct I/O was refused although the caller's
    /// buffer is `aligned`.
    fn call<T>(&self, aligned: bool, mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
        // Asked before the call: another thread may meet the refusal at the same time.
        let was_direct = self.is_direct();
        match retry_on_intr(&mut call) {
            Err(Errno::INVAL) if aligned && was_direct => {
                set_direct(&self.fd, false)?;
                self.direct.store(false, Ordering::Relaxed);
                Ok(retry_on_intr(call)?)
            }
            result => Ok(result?),
        }
    }

    /// Reads by one call.
    fn read(&self, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
        match self.polls && buffer.len() <= ring::BYTES_MAX && self.is_direct() {
            true => ring::read(self.fd.as_fd(), buffer, offset),
            false => pread(&self.fd, buffer, offset),
        }
    }

    /// Writes all of `bytes` by calls of `write`, which may each write a part.
    fn write_all(
        &self,
        mut bytes: &[u8],
        mut offset: u64,
        write: impl Fn(&[u8], u64) -> rustix::io::Result<usize>,
    ) -> io::Result<()> {
        // Asked of the whole: what a call left over may begin anywhere, and is then finished through the page cache.
        let aligned = is_aligned(bytes, offset, SECTOR_BYTES);
        while !bytes.is_empty() {
            let written = self.call(aligned, || write(bytes, offset))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
            offset += u64_of(written);
        }
        Ok(())
    }
}

impl File for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let aligned = is_aligned(buffer, offset, self.read_alignment);
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            let at = offset + u64_of(filled);
            let read = self.call(aligned, || self.read(rest, at))?;
            filled += read;
            // A direct read that ends inside a sector has met the end of the file, and asking there for more would be
            // refused; or, rarely, an error that only asking for more shows.
            let inside_sector = self.is_direct() && !filled.is_multiple_of(self.read_alignment);
            if read == 0 || (inside_sector && offset + u64_of(filled) >= self.len()?) {
                break;
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all(bytes, offset, |bytes, offset| pwrite(&self.fd, bytes, offset))
    }

    fn map(&self, range: Range<u64>) -> Option<Box<dyn Pages>> {
        Some(Box::new(MappedPages::of(self.fd.as_fd(), range)?))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let durably =
            |bytes: &[u8], offset| pwritev2(&self.fd, &[io::IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC);
        match self.write_all(bytes, offset, durably) {
            Err(error) if is_unsupported(&error) => {
                self.write_at(bytes, offset)?;
                self.sync()
            }
            result => result,
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fdatasync(&self.fd))?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(u64::try_from(fstat(&self.fd)?.st_size).expect("a file's length is not negative"))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| ftruncate(&self.fd, bytes))?)
    }

    fn allocate(&self, bytes: u64) -> io::Result<bool> {
        if bytes == 0 {
            return Ok(true);
        }
        match retry_on_intr(|| fallocate(&self.fd, FallocateFlags::empty(), 0, bytes)).map_err(io::Error::from) {
            Err(error) if is_unsupported(&error) => {
                if self.len()? < bytes {
                    self.set_len(bytes)?;
                }
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&self.fd, flags, offset, bytes)).map_err(io::Error::from) {
            Err(error) if is_unsupported(&error) => Ok(()),
            result => result,
        }
    }

    fn alignment(&self) -> usize {
        if self.is_direct() { SECTOR_BYTES } else { 1 }
    }

    fn read_alignment(&self) -> usize {
        if self.is_direct() { self.read_alignment } else { 1 }
    }
}

impl AsFd for OsFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

debug_by!(OsFile, self => fd: self.fd, direct: self.is_direct());

/// Makes a descriptor direct or buffered; false when the file system refuses.
fn set_direct(fd: &OwnedFd, direct: bool) -> io::Result<bool> {
    let mut flags = fcntl_getfl(fd)?;
    flags.set(OFlags::DIRECT, direct);
    match fcntl_setfl(fd, flags) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What direct reads of the file must be a multiple of, as far as the kernel says (Linux 6.1 and later).
fn read_alignment_of(fd: &OwnedFd) -> usize {
    let known = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let units = known.filter(|known| known.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    let unit = units.map(|units| usize_of32(units.stx_dio_offset_align.max(units.stx_dio_mem_align)));
    unit.filter(|unit| unit.is_power_of_two() && *unit <= SECTOR_BYTES).unwrap_or(SECTOR_BYTES)
}

fn is_aligned(bytes: &[u8], offset: u64, unit: usize) -> bool {
    let numbers = [u64_of(bytes.as_ptr().addr()), u64_of(bytes.len()), offset];
    numbers.iter().all(|number| number.is_multiple_of(u64_of(unit)))
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSYS | Errno::OPNOTSUPP))
}
