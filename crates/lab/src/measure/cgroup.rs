//! A limit on the memory that the kernel gives to this process and its children, page cache included.
//!
//! Without one an engine that reads through the page cache has all memory of the machine as its cache, whatever it was
//! told.

use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::PathBuf;

/// Where version 1 of control groups has the memory controller.
const V1: &str = "/sys/fs/cgroup/memory";
/// Where version 2 has everything.
const V2: &str = "/sys/fs/cgroup";

/// A control group that this process is in until the value is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
    parent: PathBuf,
}

impl MemoryLimit {
    /// Makes a group below the one that this process is in, limits it to `bytes`, and moves this process there.
    ///
    /// # Errors
    /// When there are no control groups or this process may not make one.
    pub fn enter(bytes: u64) -> Result<Self> {
        let (parent, limit_file) = parent()?;
        let group = parent.join(format!("spinney-bench-{}", std::process::id()));
        fs::create_dir(&group).with_context(|| format!("cannot make the control group {}", group.display()))?;
        let limit = Self { group, parent };
        let set = |file: &str, value: String| {
            let path = limit.group.join(file);
            fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
        };
        set(limit_file, bytes.to_string())?;
        set("cgroup.procs", std::process::id().to_string())?;
        Ok(limit)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // A group that cannot be left or removed now goes when the machine does; nothing is lost by it.
        let left = fs::write(self.parent.join("cgroup.procs"), std::process::id().to_string());
        drop(left.and_then(|()| fs::remove_dir(&self.group)));
    }
}

/// The group that this process is in, as a directory, and the name of the file that limits memory there.
fn parent() -> Result<(PathBuf, &'static str)> {
    let groups = fs::read_to_string("/proc/self/cgroup").context("there are no control groups")?;
    let path = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    if let Some(path) = path(&|controllers| controllers.split(',').any(|name| name == "memory")) {
        return Ok((existing(V1, &path), "memory.limit_in_bytes"));
    }
    let Some(path) = path(&str::is_empty) else { bail!("there are no control groups") };
    Ok((existing(V2, &path), "memory.max"))
}

/// `root/path`, or `root` where the path is not visible, as inside a container.
fn existing(root: &str, path: &str) -> PathBuf {
    let inside = PathBuf::from(root).join(path);
    if inside.is_dir() { inside } else { PathBuf::from(root) }
}
