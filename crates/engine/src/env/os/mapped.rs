//! A file whose small writes are copied into the page cache through a memory mapping: a system call costs more than all the rest of
//! a small commit.
//!
//! Whoever wants this writes some pages in one piece, the later part of them zeros, and then fills these in by small writes. The
//! first write, made as any other, puts the pages into the page cache; they are mapped with it (the *window*), and a write that
//! falls within them is a copy. What was copied is in the kernel's hands: it survives the end of the process, and a sync makes it
//! durable, as if it had been handed over by a call.
//!
//! # Invariants
//! 1. The window lies within what was written to the file in one piece: within its length, and where the file has blocks.
//! 2. Only file systems are mapped on that write a block again where it stands (ext4, XFS). Elsewhere a copy might need new space, and
//!    the signal that tells of a full disk would end the process.
//!
//! Addresses are taken for a larger piece of the file at a time (the *frame*), which the window moves through: to give addresses back
//! interrupts all processors that run this process, and waits while any of its threads is given memory.
//!
//! What is left of such signals: somebody else cuts the file off, or the kernel has dropped a page of the window and the device
//! cannot read it back. The process then ends, as by any crash, and what was acknowledged is found by the next open.

use super::super::{File, SECTOR_BYTES};
use super::file::OsFile;
use crate::base::num::{round_down, u64_of, usize_of};
use parking_lot::Mutex;
use rustix::fs::fstatfs;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// A shorter write changes no window.
const WINDOW_BYTES_MIN: usize = 2 * SECTOR_BYTES;
/// Of a longer write the end is the window.
const WINDOW_BYTES_MAX: u64 = 128 << 10;
/// The size of a frame, which begins at a multiple of it.
const FRAME_BYTES: u64 = 4 << 20;
/// What ext4 and XFS call themselves.
const IN_PLACE: [i128; 2] = [0xef53, 0x5846_5342];

/// A file of the operating system with a window.
#[derive(Debug)]
pub(super) struct MappedFile {
    file: OsFile,
    window: Mutex<Option<Window>>,
}

impl MappedFile {
    /// Takes a file that is not direct; gives it back when its file system must not be mapped.
    pub(super) fn new(file: OsFile) -> Result<Self, OsFile> {
        let magic = fstatfs(file.as_fd()).map(|found| i128::from(found.f_type));
        if magic.is_ok_and(|magic| IN_PLACE.contains(&magic)) {
            return Ok(Self { file, window: Mutex::default() });
        }
        Err(file)
    }
}

impl File for MappedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut window = self.window.lock();
        if window.as_mut().is_some_and(|window| window.put(bytes, offset)) {
            return Ok(());
        }
        self.file.write_at(bytes, offset)?;
        if bytes.len() >= WINDOW_BYTES_MIN {
            // Without one the next writes are calls.
            *window = Window::open(self.file.as_fd(), offset..offset + u64_of(bytes.len()), window.take()).ok();
        }
        Ok(())
    }

    fn put(&self, bytes: &[u8], offset: u64) -> bool {
        self.window.lock().as_mut().is_some_and(|window| window.put(bytes, offset))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_durable_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        drop(self.window.lock().take());
        self.file.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        drop(self.window.lock().take());
        self.file.punch_hole(offset, bytes)
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }

    fn read_alignment(&self) -> usize {
        self.file.read_alignment()
    }
}

/// Pages of a file in memory, shared with the page cache.
#[derive(Debug)]
struct Window {
    frame: Frame,
    /// Where they stand in the file, within the frame.
    range: Range<u64>,
}

impl Window {
    /// The end of a range that was just written, in the frame of the window before it if it lies there.
    fn open(file: BorrowedFd<'_>, written: Range<u64>, before: Option<Self>) -> rustix::io::Result<Self> {
        let base = round_down(written.end - 1, FRAME_BYTES);
        let oldest = written.start.max(written.end.saturating_sub(WINDOW_BYTES_MAX)).max(base);
        // A window begins with a page, of which the bytes before `oldest` lie in the file too.
        let range = round_down(oldest, u64_of(rustix::param::page_size()))..written.end;
        // The one before is given back first: there is never more than one.
        let frame = match before.map(|window| window.frame).filter(|frame| frame.base == base) {
            Some(frame) => frame,
            None => Frame::map(file, base)?,
        };
        frame.populate(&range);
        Ok(Self { frame, range })
    }

    /// Copies `bytes` to their place, if they lie within the window.
    fn put(&mut self, bytes: &[u8], offset: u64) -> bool {
        if offset < self.range.start || offset + u64_of(bytes.len()) > self.range.end {
            return false;
        }
        // SAFETY: the range lies within the frame, which is writable, and so do the bytes within the range; the file has them all. No
        // reference into the frame is ever made, nobody else of this process has its address, and `bytes` cannot overlap it.
        unsafe { self.frame.at(offset).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        true
    }
}

/// A mapping of [`FRAME_BYTES`] of a file, which may end before it: only what lies in the file may be touched.
#[derive(Debug)]
struct Frame {
    start: NonNull<u8>,
    /// Where it begins in the file.
    base: u64,
}

// SAFETY: the frame owns its mapping alone, as a `Vec<u8>` does its memory.
unsafe impl Send for Frame {}

impl Frame {
    fn map(file: BorrowedFd<'_>, base: u64) -> rustix::io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
        let start =
            unsafe { mmap(ptr::null_mut(), usize_of(FRAME_BYTES), protection, MapFlags::SHARED, file, base) }?;
        Ok(Self { start: NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?, base })
    }

    /// Has all pages of a range of the file at once, ready to be written to: else the first write to each would fault, as it does where
    /// the system does not know this. The range begins with a page and lies within the frame.
    fn populate(&self, range: &Range<u64>) {
        let len = usize_of(range.end - range.start);
        // SAFETY: the pages lie within the mapping, and keep what they hold.
        unsafe { madvise(self.at(range.start).as_ptr().cast(), len, Advice::LinuxPopulateWrite) }.ok();
    }

    /// Where a position of the file within the frame is.
    ///
    /// # Safety
    /// It lies within the frame.
    unsafe fn at(&self, offset: u64) -> NonNull<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.start.add(usize_of(offset - self.base)) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the range is one mapping of our own, and `self.start` is not used any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), usize_of(FRAME_BYTES)) };
        unmapped.expect("a whole mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Access, OpenOptions};
    use super::super::env;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn copies_and_calls_make_the_same_file_for_every_reader() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let (fs, mut model) = (env().fs, vec![0; 1 << 20]);
        fs.open(&path, OpenOptions { access: Access::CreateNew, direct: false }).unwrap().write_at(&model, 0).unwrap();
        let file = fs.open_mapped(&path).unwrap();
        let reader = fs.open(&path, OpenOptions { access: Access::Read, direct: false }).unwrap();
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: usize| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            usize_of(word >> 8) % below
        };
        for round in 0..2000 {
            // Mostly small writes one after the other, sometimes a large one, or one across the end of the window.
            let len = [1 + random(300), 1 + random(300), 1 + random(5000), 1 + random(200_000)][round / 8 % 4];
            let at = random(model.len() - len);
            let mut at = at;
            for piece in 0..4 {
                let len = if piece == 0 { len } else { 1 + random(100) };
                let end = (at + len).min(model.len());
                let bytes = vec![u8::try_from(random(256)).unwrap(); end - at];
                file.write_at(&bytes, u64_of(at)).unwrap();
                model[at..end].copy_from_slice(&bytes);
                at = if piece == 0 { end.saturating_sub(random(8000)) } else { end };
            }
        }
        file.sync().unwrap();
        let mut found = vec![1; model.len()];
        assert_eq!(reader.read_at(&mut found, 0).unwrap(), model.len());
        assert!(found == model);
        file.set_len(5000).unwrap();
        file.write_at(b"behind", 6000).unwrap();
        assert_eq!(reader.len().unwrap(), 6006);
    }

    #[test]
    fn only_what_lies_within_the_window_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let options = OpenOptions { access: Access::CreateNew, direct: false };
        env().fs.open(&path, options).unwrap().write_at(&[0; 64 << 10], 0).unwrap();
        let descriptor = rustix::fs::open(&path, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).unwrap();
        let Ok(file) = MappedFile::new(OsFile::new(descriptor, false).unwrap()) else {
            // This directory's file system must not be mapped.
            return;
        };
        let file = Arc::new(file);
        let window = || file.window.lock().as_ref().map(|window| window.range.clone());
        file.write_at(&[1; 100], 0).unwrap();
        assert_eq!(window(), None, "small writes open no window");
        file.write_at(&[2; 3 * SECTOR_BYTES], 5000).unwrap();
        let page = u64_of(rustix::param::page_size());
        let opened = round_down(5000, page)..5000 + u64_of(3 * SECTOR_BYTES);
        assert_eq!(window(), Some(opened.clone()));
        let mut guard = file.window.lock();
        let put = |window: &mut Option<Window>, len, offset| window.as_mut().unwrap().put(&vec![3; len], offset);
        assert!(put(&mut guard, 100, opened.start) && put(&mut guard, 100, opened.end - 100));
        assert!(!put(&mut guard, 100, opened.end - 99) && !put(&mut guard, 100, opened.end));
        assert!(opened.start == 0 || !put(&mut guard, 100, opened.start - 1));
        assert!(!put(&mut guard, 2 * SECTOR_BYTES, 2 * opened.end));
    }
}
