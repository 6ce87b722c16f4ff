//! The calls that a process makes to the simulated file system, and a trace of them.

use crate::base::checksum::checksum;
use std::path::{Path, PathBuf};

/// What a call asks of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "named as the methods of `FileSystem` and `File` are")]
pub enum Call {
    Open,
    List,
    Lock,
    Read,
    Create,
    MakeDir,
    Write,
    WriteDurable,
    Sync,
    SyncDir,
    SetLen,
    Allocate,
    Punch,
    Rename,
    Link,
    Remove,
}

impl Call {
    /// Whether it can change what a crash leaves.
    #[must_use]
    pub const fn is_change(self) -> bool {
        !matches!(self, Self::Open | Self::List | Self::Lock | Self::Read)
    }
}

/// The calls since the trace began: what was asked of which file, and a hash over that, all bytes, and all results.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In their order.
    pub calls: Vec<(Call, PathBuf)>,
    /// Equal traces have equal hashes.
    pub hash: u64,
}

impl Trace {
    pub(super) fn call(&mut self, call: Call, path: &Path) {
        self.calls.push((call, path.to_owned()));
        self.note(call as u64, path.as_os_str().as_encoded_bytes());
    }

    /// Takes a number and bytes into the hash.
    pub(super) fn note(&mut self, number: u64, bytes: &[u8]) {
        self.hash = checksum(self.hash, number, bytes);
    }
}
