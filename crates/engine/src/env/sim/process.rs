//! A machine as one of its processes sees it: what the file system and the open files of that process go through.

use super::cached::{Cached, Change};
use super::call::Call;
use super::disk::Disk;
use super::fault::{Fault, Verdict, down};
use super::machine::Machine;
use super::rng::Rng;
use super::state::State;
use crate::base::debug::debug_by;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The file system, bound to the process that it was given to.
#[derive(Clone)]
pub(super) struct SimFileSystem {
    pub(super) machine: Arc<Machine>,
    pub(super) process: u64,
}

impl SimFileSystem {
    pub(super) fn change<T>(
        &self,
        call: (Call, &Path),
        change: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        self.machine.call(call.0, call.1).change(self.process, call, change)
    }

    pub(super) fn look<T>(&self, call: (Call, &Path), look: impl FnOnce(&State) -> io::Result<T>) -> io::Result<T> {
        self.machine.call(call.0, call.1).look(self.process, call, look)
    }
}

debug_by!(SimFileSystem, self => process: self.process);

/// Syncs a file or a directory, if the verdict lets it.
pub(super) fn sync<C: Change>(cached: &mut Cached<C>, verdict: Verdict, rng: &mut Rng) -> io::Result<()> {
    match verdict {
        Verdict::Go | Verdict::Deceive(_) => {
            cached.sync();
            Ok(())
        }
        Verdict::Crash => {
            cached.sync_partly(rng);
            Err(down())
        }
        Verdict::Fail(fault) => {
            if fault == Fault::SyncLost {
                cached.lose();
            }
            Err(fault.error())
        }
    }
}
