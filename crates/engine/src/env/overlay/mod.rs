//! A file system over another one of which nothing is changed: what is written stays in memory, and is gone with it.
//! A database that is opened to be read only works on it, so that it can neither write nor wants to. One directory may
//! be left out, to which a copy of what is read is written.
//!
//! # Invariants
//! 1. The file system below is asked to open files for reading, to list directories and to share locks, and nothing
//!    else, but for the directory that is left out and the way to it.
//! 2. A name that was removed or replaced here stays so, whatever becomes of it below.

mod file;

use super::file::{Access, DirEntry, File, FileLock, FileSystem, OpenOptions};
use crate::base::sync::Mutex;
use file::OverlayFile;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system whose changes stay in memory.
#[derive(Debug)]
pub struct OverlayFileSystem {
    below: Arc<dyn FileSystem>,
    /// What is not as it is below.
    names: Arc<Names>,
    /// The directory that is changed below.
    outlet: Option<PathBuf>,
}

/// What is not as it is below, by path.
type Names = Mutex<BTreeMap<PathBuf, Node>>;

/// What a name is here.
#[derive(Clone, Debug)]
enum Node {
    File(Arc<OverlayFile>),
    Dir,
    Removed,
}

/// Nobody else sees these files, so there is nothing to lock.
#[derive(Debug)]
struct NoLock;

impl FileLock for NoLock {}

impl OverlayFileSystem {
    /// A file system that shows what `below` does.
    #[must_use]
    pub fn new(below: Arc<dyn FileSystem>) -> Self {
        Self { below, names: Arc::default(), outlet: None }
    }

    /// As [`Self::new`], but changes in the directory `outlet` are made below. A file that was not changed here can be
    /// linked there.
    #[must_use]
    pub fn with_outlet(below: Arc<dyn FileSystem>, outlet: PathBuf) -> Self {
        Self { below, names: Arc::default(), outlet: Some(outlet) }
    }

    /// Whether a path lies in the directory that is changed below, or is that directory.
    fn is_let_out(&self, path: &Path) -> bool {
        self.outlet.as_ref().is_some_and(|outlet| path.starts_with(outlet))
    }

    /// A file that can be written here: one that was written before, or one of the file system below. That is named
    /// here when it is changed: else it is closed when nobody uses it.
    fn writable(&self, path: &Path) -> io::Result<Arc<OverlayFile>> {
        match self.names.lock().get(path) {
            Some(Node::File(file)) => return Ok(Arc::clone(file)),
            Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::Removed) => return Err(io::ErrorKind::NotFound.into()),
            None => {}
        }
        // Not direct: all that open the file have this one, also those whose reads are not aligned.
        let below = self.below.open(path, OpenOptions { access: Access::Read, direct: false })?;
        let (names, path) = (Arc::downgrade(&self.names), path.to_owned());
        OverlayFile::over(below, move |file| {
            if let Some(names) = names.upgrade() {
                names.lock().entry(path.clone()).or_insert(Node::File(file));
            }
        })
    }
}

impl FileSystem for OverlayFileSystem {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        if self.is_let_out(path) {
            return self.below.open(path, options);
        }
        let mut names = self.names.lock();
        match (options.access, names.get(path)) {
            (Access::CreateNew, Some(Node::File(_) | Node::Dir)) => Err(io::ErrorKind::AlreadyExists.into()),
            (Access::CreateNew, _) => {
                let file = Arc::new(OverlayFile::new());
                names.insert(path.to_owned(), Node::File(Arc::clone(&file)));
                Ok(file)
            }
            (access, known) => {
                let is_known = known.is_some();
                drop(names);
                match access {
                    Access::Read if !is_known => self.below.open(path, options),
                    _ => Ok(self.writable(path)?),
                }
            }
        }
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if self.is_let_out(path) {
            return self.below.create_dir_all(path);
        }
        if let Err(error) = self.list(path) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            self.names.lock().insert(path.to_owned(), Node::Dir);
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        if self.is_let_out(dir) {
            return self.below.list(dir);
        }
        let below = self.below.list(dir);
        let names = self.names.lock();
        let mut entries = match below {
            Err(error) if error.kind() == io::ErrorKind::NotFound && names.contains_key(dir) => Vec::new(),
            listed => listed?,
        };
        for (path, node) in names.iter().filter(|(path, _)| path.parent() == Some(dir)) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            entries.retain(|entry| entry.name != name);
            let (bytes, is_dir) = match node {
                Node::File(file) => (file.len()?, false),
                Node::Dir => (0, true),
                Node::Removed => continue,
            };
            entries.push(DirEntry { name: name.to_owned(), bytes, is_dir });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.is_let_out(from) && self.is_let_out(to) {
            return self.below.rename(from, to);
        }
        let file = self.writable(from)?;
        let mut names = self.names.lock();
        names.insert(from.to_owned(), Node::Removed);
        names.insert(to.to_owned(), Node::File(file));
        Ok(())
    }

    /// Another name would lie outside of what is read, unless it is let out. What was changed here is in memory, as on
    /// another device.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if !self.is_let_out(to) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        match self.names.lock().get(from) {
            Some(Node::File(_)) => Err(io::ErrorKind::CrossesDevices.into()),
            Some(Node::Dir | Node::Removed) => Err(io::ErrorKind::NotFound.into()),
            None => self.below.hard_link(from, to),
        }
    }

    /// Does not look below, where the file may be gone by now, but for what is let out.
    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.is_let_out(path) {
            return self.below.remove(path);
        }
        match self.names.lock().insert(path.to_owned(), Node::Removed) {
            Some(Node::Removed) => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(()),
        }
    }

    fn sync_files(&self, dir: &Path, names: &[String]) -> Result<(), (PathBuf, io::Error)> {
        if self.is_let_out(dir) { self.below.sync_files(dir, names) } else { Ok(()) }
    }

    /// The directories above the one that is let out have its name.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let is_above = self.outlet.as_ref().is_some_and(|outlet| outlet.starts_with(dir));
        if is_above || self.is_let_out(dir) { self.below.sync_dir(dir) } else { Ok(()) }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        if self.is_let_out(path) { self.below.lock(path) } else { Ok(Box::new(NoLock)) }
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.below.lock_shared(path)
    }

    /// It is memory that is taken, but for what is let out.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        if self.is_let_out(dir) { self.below.free_bytes(dir) } else { Ok(u64::MAX) }
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.below.absolute(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::sim::SimEnv;

    #[test]
    fn what_is_written_is_read_again_and_nothing_changes_below() {
        let sim = SimEnv::new(1);
        let (below, sizes) = (sim.env().fs, [0, 1, 5000, 8192]);
        below.create_dir_all("/d".as_ref()).unwrap();
        let create = OpenOptions { access: Access::CreateNew, direct: false };
        for (name, bytes) in ["/d/a", "/d/b", "/d/c", "/d/e"].iter().zip(sizes) {
            below.open(name.as_ref(), create).unwrap().write_at(&vec![7; bytes], 0).unwrap();
        }
        let changes = sim.write_and_sync_count();
        let over = OverlayFileSystem::new(Arc::clone(&below));
        let write = OpenOptions { access: Access::Write, direct: false };
        let file = over.open("/d/c".as_ref(), write).unwrap();
        file.write_at(&[1; 300], 4000).unwrap();
        file.write_at(&[2; 10], 9000).unwrap();
        let mut bytes = vec![0xff; 10_000];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 9010);
        let mut wanted = [vec![7; 4000], vec![1; 300], vec![7; 700], vec![0; 4000], vec![2; 10]].concat();
        assert_eq!(bytes[..9010], wanted);
        file.set_len(100).unwrap();
        file.set_len(200).unwrap();
        wanted.truncate(100);
        wanted.resize(200, 0);
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 200);
        assert_eq!(bytes[..200], wanted);
        over.remove("/d/a".as_ref()).unwrap();
        over.rename("/d/b".as_ref(), "/d/e".as_ref()).unwrap();
        over.open("/d/f".as_ref(), create).unwrap().allocate(77).unwrap();
        over.create_dir_all("/d/log".as_ref()).unwrap();
        let names = |fs: &dyn FileSystem| -> Vec<_> {
            fs.list("/d".as_ref()).unwrap().into_iter().map(|entry| (entry.name, entry.bytes)).collect()
        };
        let entry = |name: &str, bytes| (name.to_owned(), bytes);
        assert_eq!(names(&over), [entry("c", 200), entry("e", 1), entry("f", 77), entry("log", 0)]);
        assert!(over.open("/d/b".as_ref(), write).is_err() && over.list("/d/log".as_ref()).unwrap().is_empty());
        assert_eq!(names(&*below), [entry("a", 0), entry("b", 1), entry("c", 5000), entry("e", 8192)]);
        assert_eq!(sim.write_and_sync_count(), changes);
    }
}
