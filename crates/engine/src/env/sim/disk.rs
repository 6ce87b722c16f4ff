//! The simulated disk: a tree of directories and files, each with what is durable and what is not yet.

use super::cached::{Cached, DirChange, FileChange};
use super::content::CHUNK_BYTES;
use super::node::NodeId;
use crate::base::num::u64_of;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

#[derive(Clone)]
pub(super) enum Node {
    File(Cached<FileChange>),
    Dir(Cached<DirChange>),
}

/// Everything that outlives a process.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    /// Open handles by file: such a file lives on without a name.
    pub(super) handles: BTreeMap<NodeId, u64>,
    /// Bytes that all files together may take.
    pub(super) space: u64,
    /// The next stamp of a change, and the next node's number.
    next: u64,
    /// Whether a node may have lost its last name since the last sweep.
    has_garbage: bool,
}

const ROOT: NodeId = NodeId(0);

impl Disk {
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Dir(Cached::default()))]),
            handles: BTreeMap::new(),
            space: u64::MAX,
            next: 1,
            has_garbage: false,
        }
    }

    /// The node that `path` leads to. Relative paths begin at the root.
    pub(super) fn resolve(&self, path: &Path) -> io::Result<NodeId> {
        let mut trail = vec![ROOT];
        for component in path.components() {
            let here = *trail.last().unwrap_or(&ROOT);
            match component {
                Component::Normal(name) => {
                    let entries = &self.dir_ref(here)?.current;
                    let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
                    trail.push(*entries.get(name).ok_or(io::ErrorKind::NotFound)?);
                }
                Component::ParentDir => {
                    trail.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(*trail.last().unwrap_or(&ROOT))
    }

    /// The directory that holds `path`, and the name in it.
    pub(super) fn resolve_parent(&self, path: &Path) -> io::Result<(NodeId, Arc<str>)> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidFilename)?;
        let dir = self.resolve(path.parent().unwrap_or(Path::new("/")))?;
        self.dir_ref(dir)?;
        Ok((dir, name.into()))
    }

    pub(super) fn file(&mut self, id: NodeId) -> io::Result<&mut Cached<FileChange>> {
        match self.nodes.get_mut(&id).ok_or(io::ErrorKind::NotFound)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file_ref(&self, id: NodeId) -> io::Result<&Cached<FileChange>> {
        match self.nodes.get(&id).ok_or(io::ErrorKind::NotFound)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn dir(&mut self, id: NodeId) -> io::Result<&mut Cached<DirChange>> {
        match self.nodes.get_mut(&id).ok_or(io::ErrorKind::NotFound)? {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn dir_ref(&self, id: NodeId) -> io::Result<&Cached<DirChange>> {
        match self.nodes.get(&id).ok_or(io::ErrorKind::NotFound)? {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Makes a new file or directory.
    pub(super) fn create(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let (dir, name) = self.resolve_parent(path)?;
        if self.dir(dir)?.current.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.free() == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = NodeId(self.stamp());
        self.nodes.insert(id, node);
        self.change_dir(dir, DirChange::Link { name, node: id })?;
        Ok(id)
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.resolve_parent(path)?;
        let node = self.resolve(path)?;
        self.file(node)?;
        self.has_garbage = true;
        self.change_dir(dir, DirChange::Unlink { name, node })
    }

    pub(super) fn link_count(&self, path: &Path) -> io::Result<u64> {
        let node = self.resolve(path)?;
        let names = self.nodes.values().map(|other| match other {
            Node::Dir(dir) => dir.current.values().filter(|named| **named == node).count(),
            Node::File(_) => 0,
        });
        Ok(names.map(u64_of).sum())
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.resolve(from)?;
        if self.file(node).is_err() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (dir, name) = self.resolve_parent(to)?;
        if self.dir(dir)?.current.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change_dir(dir, DirChange::Link { name, node })
    }

    /// Within one directory a rename survives a crash or not; between two, its halves do so independently.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.resolve(from)?;
        let (from_dir, from_name) = self.resolve_parent(from)?;
        let (to_dir, to_name) = self.resolve_parent(to)?;
        if let Some(&old) = self.dir(to_dir)?.current.get(&to_name) {
            if old == node {
                return Ok(());
            }
            match (self.nodes.get(&node), self.nodes.get(&old)) {
                (Some(Node::File(_)), Some(Node::Dir(_))) => return Err(io::ErrorKind::IsADirectory.into()),
                (Some(Node::Dir(_)), Some(Node::File(_))) => return Err(io::ErrorKind::NotADirectory.into()),
                (_, Some(Node::Dir(dir))) if !dir.current.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                _ => self.has_garbage = true,
            }
        }
        if from_dir == to_dir {
            return self.change_dir(to_dir, DirChange::Rename { from: from_name, to: to_name, node });
        }
        if to.starts_with(from) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.change_dir(to_dir, DirChange::Link { name: to_name, node })?;
        self.change_dir(from_dir, DirChange::Unlink { name: from_name, node })
    }

    pub(super) fn change_file(&mut self, id: NodeId, change: FileChange) -> io::Result<()> {
        let stamp = self.stamp();
        self.file(id)?.change(stamp, change);
        Ok(())
    }

    pub(super) fn change_file_durably(&mut self, id: NodeId, change: FileChange) -> io::Result<()> {
        let stamp = self.stamp();
        self.file(id)?.change_durably(stamp, change);
        Ok(())
    }

    fn change_dir(&mut self, id: NodeId, change: DirChange) -> io::Result<()> {
        let stamp = self.stamp();
        self.dir(id)?.change(stamp, change);
        Ok(())
    }

    /// How many of `len` bytes at `offset` of a file there is room for.
    pub(super) fn writable(&self, id: NodeId, offset: u64, len: usize) -> io::Result<usize> {
        if self.space == u64::MAX {
            return Ok(len);
        }
        Ok(self.file_ref(id)?.current.writable(offset, len, self.free()))
    }

    /// Bytes that can still be taken.
    pub(super) fn free(&self) -> u64 {
        if self.space == u64::MAX {
            return u64::MAX;
        }
        let mut used = self.handles.keys().copied().collect::<BTreeSet<_>>();
        for node in self.nodes.values() {
            if let Node::Dir(dir) = node {
                used.extend(dir.current.values());
            }
        }
        let space = |node: &NodeId| match self.nodes.get(node) {
            Some(Node::File(file)) => file.current.space(),
            Some(Node::Dir(_)) => u64_of(CHUNK_BYTES),
            None => 0,
        };
        self.space.saturating_sub(used.iter().map(space).sum())
    }

    /// Drops the nodes that no name, durable or pending, and no handle can lead to any more.
    pub(super) fn sweep(&mut self) {
        if !std::mem::take(&mut self.has_garbage) {
            return;
        }
        let mut live = self.handles.keys().copied().collect::<BTreeSet<_>>();
        let mut found = vec![ROOT];
        while let Some(id) = found.pop() {
            if let (true, Some(Node::Dir(dir))) = (live.insert(id), self.nodes.get(&id)) {
                found.extend(dir.current.values().chain(dir.durable.values()));
                found.extend(dir.pending.iter().map(|pending| pending.change.node()));
            }
        }
        self.nodes.retain(|id, _| live.contains(id));
    }

    pub(super) fn open_handle(&mut self, id: NodeId) {
        *self.handles.entry(id).or_default() += 1;
    }

    pub(super) fn close_handle(&mut self, id: NodeId) {
        if let Some(count) = self.handles.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.handles.remove(&id);
                self.has_garbage = true;
            }
        }
    }

    /// Forgets all handles and drops what only they held.
    pub(super) fn close_all_handles(&mut self) {
        self.handles.clear();
        self.has_garbage = true;
        self.sweep();
    }

    const fn stamp(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
