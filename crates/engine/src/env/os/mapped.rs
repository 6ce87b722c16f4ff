//! Pages of a file in memory, shared with the page cache: a system call costs more than all the rest of a small write.
//!
//! A caller writes some pages in one piece, the later part of them zeros, and maps these (see
//! [`File::map`](super::super::File::map)). What is copied into them is in the kernel's hands: it survives the end of
//! the process, and a sync makes it durable, as if it had been handed over by a call.
//!
//! # Invariants
//! 1. The range lies within what was written to the file in one piece: within its length, and where the file has
//!    blocks.
//! 2. Files are mapped only on file systems that rewrite a block in place (ext4, XFS). Elsewhere a copy might need new
//!    space, and the signal that tells of a full disk would end the process.
//!
//! What is left of such signals: another process cuts the file off, or the kernel has dropped a page of the range and
//! the device cannot read it back. The process then ends, as by any crash, and what was acknowledged is found by the
//! next open.

use super::super::file::Pages;
use crate::base::num::{round_down, u64_of, usize_of};
use crate::base::prefetch::prefetch_behind_write;
use rustix::fs::fstatfs;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

/// What ext4 and XFS call themselves.
const IN_PLACE: [i128; 2] = [0xef53, 0x5846_5342];

/// A mapping of a range of a file.
#[derive(Debug)]
pub(super) struct MappedPages {
    start: NonNull<u8>,
    /// What of the file is mapped: from the page on that the range begins in.
    mapped: Range<u64>,
    range: Range<u64>,
}

// SAFETY: the pages own their mapping alone, as a `Vec<u8>` does its memory.
unsafe impl Send for MappedPages {}

impl MappedPages {
    /// Maps a range of a file that was just written. `None` when its file system must not be mapped, or does not want
    /// to.
    pub(super) fn of(file: BorrowedFd<'_>, range: Range<u64>) -> Option<Self> {
        if range.is_empty() || !fstatfs(file).is_ok_and(|found| IN_PLACE.contains(&i128::from(found.f_type))) {
            return None;
        }
        let mapped = round_down(range.start, u64_of(rustix::param::page_size()))..range.end;
        let len = usize_of(mapped.end - mapped.start);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, mapped.start) }.ok()?;
        let pages = Self { start: NonNull::new(start.cast())?, mapped, range };
        // All pages at once, ready to be written to: else the first write to each would fault, as it does where the
        // system does not know this. SAFETY: the pages are the mapping that was just made, and keep what they hold.
        unsafe { madvise(start, len, Advice::LinuxPopulateWrite) }.ok();
        Some(pages)
    }
}

impl Pages for MappedPages {
    fn put(&mut self, bytes: &[u8], offset: u64) {
        let is_within = offset >= self.range.start && self.range.end.checked_sub(offset) >= Some(u64_of(bytes.len()));
        assert!(is_within, "{} bytes at {offset} are not within {:?}", bytes.len(), self.range);
        let at = usize_of(offset - self.mapped.start);
        // SAFETY: the bytes from `at` on lie within the mapping, which is writable, as was just checked. No reference
        // into it is ever made, no other code of this process has its address, and `bytes` cannot overlap it.
        unsafe { self.start.add(at).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        prefetch_behind_write(self.start.as_ptr().wrapping_add(at), bytes.len());
    }
}

impl Drop for MappedPages {
    fn drop(&mut self) {
        let len = usize_of(self.mapped.end - self.mapped.start);
        // Where the system has no room to note one more hole between mappings, for which neighbours are one, the pages
        // stay. SAFETY: the range is mapped by us alone, and `self.start` is not used any more.
        unsafe { munmap(self.start.as_ptr().cast(), len) }.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Access, OpenOptions};
    use super::super::env;
    use super::*;

    #[test]
    fn copies_and_calls_make_the_same_file_for_every_reader() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let (fs, mut model) = (env().fs, vec![0; 1 << 20]);
        let file = fs.open(&path, OpenOptions { access: Access::CreateNew, direct: false }).unwrap();
        file.write_at(&model, 0).unwrap();
        let reader = fs.open(&path, OpenOptions { access: Access::Read, direct: false }).unwrap();
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: usize| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            usize_of(word >> 8) % below
        };
        for _ in 0..500 {
            let len = 1 + random(200_000);
            let at = random(model.len() - len);
            let range = at..at + len;
            let Some(mut pages) = file.map(u64_of(at)..u64_of(range.end)) else {
                // This directory's file system must not be mapped.
                return;
            };
            for _ in 0..4 {
                let from = range.start + random(len);
                let to = from + 1 + random(range.end - from);
                let bytes = vec![u8::try_from(random(256)).unwrap(); to - from];
                if random(4) == 0 {
                    file.write_at(&bytes, u64_of(from)).unwrap();
                } else {
                    pages.put(&bytes, u64_of(from));
                }
                model[from..to].copy_from_slice(&bytes);
            }
        }
        file.sync().unwrap();
        let mut found = vec![1; model.len()];
        assert_eq!(reader.read_at(&mut found, 0).unwrap(), model.len());
        assert!(found == model);
        assert!(file.map(7..7).is_none());
    }

    #[test]
    fn nothing_is_copied_beyond_the_range() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions { access: Access::CreateNew, direct: false };
        let file = env().fs.open(&dir.path().join("a"), options).unwrap();
        file.write_at(&[0; 64 << 10], 0).unwrap();
        for (bytes, offset) in [(1, 4999), (1, 9000), (4001, 5000), (4000, 5001), (1, u64::MAX)] {
            let Some(mut pages) = file.map(5000..9000) else { return };
            pages.put(&[3; 4000], 5000);
            let put = std::panic::AssertUnwindSafe(|| pages.put(&vec![3; bytes], offset));
            assert!(std::panic::catch_unwind(put).is_err(), "{bytes} at {offset}");
        }
    }
}
