//! The simulated file system, as one process sees it.

use super::super::file::{Access, DirEntry, File, FileLock, FileSystem, OpenOptions};
use super::cached::Cached;
use super::call::Call;
use super::disk::Node;
use super::file::SimFile;
use super::node::NodeId;
use super::process::{SimFileSystem, sync};
use super::state::State;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl FileSystem for SimFileSystem {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let mut state = self.machine.call(Call::Open, path);
        let node = match options.access {
            Access::CreateNew => state.create_file(self.process, path)?,
            Access::Read | Access::Write => {
                state.look(self.process, (Call::Open, path), |state| state.disk.resolve(path))?
            }
        };
        state.disk.file(node)?;
        state.disk.open_handle(node);
        let direct = options.direct && state.direct;
        state.observed.direct_opens += u64::from(direct);
        drop(state);
        Ok(Arc::new(SimFile::new(self.clone(), node, path, options.access, direct)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let found = self.machine.state.lock().disk.resolve(path);
        match found {
            Ok(node) => {
                let mut state = self.machine.state.lock();
                state.check(self.process)?;
                state.disk.dir(node).map(drop).map_err(|_| io::ErrorKind::AlreadyExists.into())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(Path::new("/"));
                self.create_dir_all(parent)?;
                self.change((Call::MakeDir, path), |disk| disk.create(path, Node::Dir(Cached::default())))?;
                self.sync_dir(parent)
            }
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.look((Call::List, dir), |state| {
            let entries = &state.disk.dir_ref(state.disk.resolve(dir)?)?.current;
            let entry = |(name, node): (&Arc<str>, &NodeId)| {
                let file = state.disk.file_ref(*node);
                DirEntry {
                    name: name.to_string(),
                    bytes: file.as_ref().map_or(0, |file| file.current.len()),
                    is_dir: file.is_err(),
                }
            };
            Ok(entries.iter().map(entry).collect())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change((Call::Rename, from), |disk| disk.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change((Call::Link, to), |disk| disk.hard_link(from, to))
    }

    fn link_count(&self, path: &Path) -> io::Result<u64> {
        self.machine.state.lock().disk.link_count(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change((Call::Remove, path), |disk| disk.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.machine.call(Call::SyncDir, dir);
        let verdict = state.judge(self.process, Call::SyncDir, dir)?;
        let State { disk, random, .. } = &mut *state;
        let node = disk.resolve(dir)?;
        sync(disk.dir(node)?, verdict, &mut random.crash)?;
        disk.sweep();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let mut state = self.machine.state.lock();
        let node = match state.look(self.process, (Call::Lock, path), |state| state.disk.resolve(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => state.create_file(self.process, path)?,
            result => result?,
        };
        if state.shared_locks.contains_key(&node) || !state.locks.insert(node) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.disk.open_handle(node);
        Ok(Box::new(SimLock { fs: self.clone(), node, shared: false }))
    }

    fn lock_holder(&self, _path: &Path) -> Option<String> {
        Some(format!("process {}", self.process))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let mut state = self.machine.call(Call::Lock, path);
        let node = state.look(self.process, (Call::Lock, path), |state| state.disk.resolve(path))?;
        if state.locks.contains(&node) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        *state.shared_locks.entry(node).or_default() += 1;
        state.disk.open_handle(node);
        Ok(Box::new(SimLock { fs: self.clone(), node, shared: true }))
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.look((Call::Lock, path), |state| {
            let node = state.disk.resolve(path)?;
            Ok(state.locks.contains(&node) || state.shared_locks.contains_key(&node))
        })
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let mut state = self.machine.state.lock();
        state.check(self.process)?;
        state.observed.free_space_asked += 1;
        Ok(state.disk.free())
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(Path::new("/").join(path))
    }
}

#[derive(Debug)]
struct SimLock {
    fs: SimFileSystem,
    node: NodeId,
    shared: bool,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.fs.machine.state.lock();
        if state.process != self.fs.process {
            return;
        }
        state.disk.close_handle(self.node);
        if !self.shared {
            state.locks.remove(&self.node);
        } else if let Entry::Occupied(mut holders) = state.shared_locks.entry(self.node) {
            *holders.get_mut() -= 1;
            if *holders.get() == 0 {
                holders.remove();
            }
        }
    }
}
