//! Copies of data files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Result};
use crate::env::{Access, Env, File, OpenOptions};
use crate::store::Extent;

const COPY_BYTES: usize = 1 << 20;
/// A copy goes through the page cache, and commits may wait for what is dirty there: it is synced after so many bytes.
const SYNC_BYTES: u64 = 8 << 20;

/// Whether an error of a link says that the two places cannot share a file.
pub(crate) fn cannot_link(error: &io::Error) -> bool {
    [io::ErrorKind::CrossesDevices, io::ErrorKind::Unsupported].contains(&error.kind())
}

pub(crate) fn open_file(env: &Env, path: &Path, access: Access) -> Result<Arc<dyn File>> {
    env.fs.open(path, OpenOptions { access, direct: false }).map_err(|error| Error::io("open", path, error))
}

/// Copies a file but for what is free in it, durably; the copy has at least `bytes_min` bytes. Returns how many it has.
pub(crate) fn copy(
    env: &Env,
    source: &dyn File,
    (from, to): (&Path, &Path),
    bytes_min: u64,
    free: &[Extent],
) -> Result<u64> {
    let target = open_file(env, to, Access::CreateNew)?;
    let bytes = source.len().map_err(|error| Error::io("read", from, error))?;
    let mut buffer = vec![0; usize_of(bytes.min(u64_of(COPY_BYTES)))];
    let (mut at, mut unsynced) = (0, 0);
    let ends = free.iter().map(|extent| extent.offset().min(bytes)).chain([bytes]);
    let nexts = free.iter().map(|extent| extent.end_offset()).chain([bytes]);
    for (end, next) in ends.zip(nexts) {
        while at < end {
            let wanted = usize_of((end - at).min(u64_of(COPY_BYTES)));
            let read = source.read_at(&mut buffer[..wanted], at).map_err(|error| Error::io("read", from, error))?;
            if read == 0 {
                break;
            }
            target.write_at(&buffer[..read], at).map_err(|error| Error::io("write", to, error))?;
            (at, unsynced) = (at + u64_of(read), unsynced + u64_of(read));
            if unsynced >= SYNC_BYTES {
                target.sync().map_err(|error| Error::io("sync", to, error))?;
                unsynced = 0;
            }
        }
        at = next;
    }
    let sized = target.set_len(bytes.max(bytes_min));
    sized.and_then(|()| target.sync()).map_err(|error| Error::io("write", to, error))?;
    Ok(bytes.max(bytes_min))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::sim::{CrashProfile, SimEnv};
    use crate::store::space::UNIT_BYTES;

    /// A file that gives fewer bytes than are asked for.
    #[derive(Debug)]
    struct ShortReads(Arc<dyn File>, usize);

    impl File for ShortReads {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read_at(&mut buffer[..most], offset)
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.0.write_at(bytes, offset)
        }

        fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.0.write_durable_at(bytes, offset)
        }

        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }

        fn allocate(&self, bytes: u64) -> io::Result<bool> {
            self.0.allocate(bytes)
        }

        fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
            self.0.punch_hole(offset, bytes)
        }

        fn alignment(&self) -> usize {
            self.0.alignment()
        }

        fn read_alignment(&self) -> usize {
            self.0.read_alignment()
        }

        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn set_len(&self, bytes: u64) -> io::Result<()> {
            self.0.set_len(bytes)
        }
    }

    /// Copies `bytes`, which are read in pieces of `most` bytes at most, and gives the copy.
    fn copied(bytes: &[u8], most: usize, bytes_min: u64, free: &[Extent]) -> Vec<u8> {
        let sim = SimEnv::new(1);
        let (env, from, to) = (sim.env(), Path::new("/from"), Path::new("/to"));
        let source = open_file(&env, from, Access::CreateNew).unwrap();
        source.write_at(bytes, 0).unwrap();
        let source = ShortReads(source, most);
        let len = copy(&env, &source, (from, to), bytes_min, free).unwrap();
        env.fs.sync_dir(Path::new("/")).unwrap();
        sim.power_crash(CrashProfile::Strict);
        let copy = sim.read_file(to).unwrap();
        assert_eq!(u64_of(copy.len()), len);
        copy
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(1 + at % 251).unwrap()).collect()
    }

    #[test]
    fn a_copy_has_all_bytes_in_whatever_pieces_they_are_read() {
        for len in [0, 1, COPY_BYTES - 1, COPY_BYTES, COPY_BYTES + 1, 2 * COPY_BYTES, 2 * COPY_BYTES + 777] {
            let bytes = content(len);
            for most in [usize::MAX, COPY_BYTES - 1, 300_000] {
                assert!(copied(&bytes, most, 0, &[]) == bytes, "{len} bytes in pieces of {most} at most");
            }
        }
    }

    #[test]
    fn a_large_copy_leaves_little_unsynced() {
        let sim = SimEnv::new(1);
        let (env, from, to) = (sim.env(), Path::new("/from"), Path::new("/to"));
        let len = 3 * usize_of(SYNC_BYTES) + 5;
        sim.write_file(from, &content(len)).unwrap();
        copy(&env, &*open_file(&env, from, Access::Read).unwrap(), (from, to), 0, &[]).unwrap();
        assert!(sim.read_file(to).unwrap() == content(len));
        assert!((SYNC_BYTES..=SYNC_BYTES + u64_of(COPY_BYTES)).contains(&sim.unsynced_bytes_max()));
    }

    #[test]
    fn a_copy_leaves_free_extents_out_and_is_as_long_as_it_must_be() {
        let unit = usize_of(UNIT_BYTES);
        let bytes = content(600 * unit + 5);
        let extent = |start, units| Extent { start, units };
        for free in [vec![extent(1, 2)], vec![extent(3, 1), extent(5, 300)], vec![extent(2, 1), extent(599, 2)]] {
            let mut expected = bytes.clone();
            expected.extend_from_slice(&[0; 3]);
            for extent in &free {
                let end = usize_of(extent.end_offset()).min(expected.len());
                expected[usize_of(extent.offset())..end].fill(0);
            }
            for most in [usize::MAX, 100_000] {
                let copy = copied(&bytes, most, u64_of(expected.len()), &free);
                assert!(copy == expected, "without {free:?}, in pieces of {most} at most");
            }
        }
    }
}
