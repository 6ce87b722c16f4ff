//! A simulated environment in memory, which a seed replays, and which loses, tears and fails what a real machine may.
//!
//! A [`SimEnv`] is a machine. [`SimEnv::env`] is what a process on it sees. Each file has bytes that are durable and a
//! list of changes that are not yet; each directory likewise has durable entries and changes of its own. Reads show all
//! changes, as the page cache does. What is begun ([`super::File::begin`]) is made at once or when it is waited for, as
//! the seed has it. [`SimEnv::power_crash`] decides, from the seed, which of the changes that were not synced survive.
//!
//! ```
//! use spinney::env::sim::{CrashProfile, SimEnv};
//! use spinney::env::{Access, OpenOptions};
//!
//! let sim = SimEnv::new(1);
//! let fs = sim.env().fs;
//! let file = fs.open("/a".as_ref(), OpenOptions { access: Access::CreateNew, direct: false })?;
//! file.write_at(b"kept", 0)?;
//! file.sync()?;
//! fs.sync_dir("/".as_ref())?;
//! file.write_at(b"lost", 0)?;
//! sim.power_crash(CrashProfile::Strict);
//! assert_eq!(sim.read_file("/a")?, b"kept");
//! assert!(file.sync().is_err(), "the file was opened by a process that is gone");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Invariants
//! 1. `sync` makes a file's bytes and length durable, but not its name; `sync_dir` makes a directory's entries durable,
//!    but not the files; `write_durable_at` makes its own bytes, and the length they need, durable, but no older
//!    change.
//! 2. Whatever is durable survives every crash.
//! 3. The same seed and the same calls give the same outcome.

mod cached;
mod call;
mod content;
mod crash;
mod disk;
mod fault;
mod file;
mod fs;
mod machine;
mod node;
mod process;
mod rng;
mod state;
#[cfg(test)]
mod tests;
mod thread;
mod turns;
mod worker;

pub use call::{Call, Trace};
pub use crash::CrashProfile;
pub use fault::Fault;
pub use machine::Interruption;
pub use turns::Turns;

use super::environment::Env;
use crate::base::num::usize_of;
use crate::base::sync::thread::current;
use cached::Cached;
use content::Content;
use disk::Node;
use machine::Machine;
use process::SimFileSystem;
use state::{Observer, State};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thread::SimSystem;

/// A simulated machine. Clones are handles on the same machine; [`SimEnv::fork`] copies it.
#[derive(Clone)]
pub struct SimEnv(Arc<Machine>);

impl SimEnv {
    /// A machine with an empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::of(State::new(seed))
    }

    fn of(state: State) -> Self {
        Self(Arc::new(Machine::new(state)))
    }

    /// What the process that runs now sees. After a crash its files, locks and directories fail: take a new one.
    #[must_use]
    pub fn env(&self) -> Env {
        let system = Arc::new(SimSystem(Arc::clone(&self.0)));
        let process = self.0.state.lock().process;
        Env {
            fs: Arc::new(SimFileSystem { machine: Arc::clone(&self.0), process }),
            clock: Arc::clone(&system) as _,
            threads: Arc::clone(&system) as _,
            random: system,
        }
    }

    /// A copy of the machine as it would be if its process died now: the page cache as it is, no locks, no open files,
    /// no planned faults, the counts going on. The disks share memory until one of them changes.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::of(self.0.state.lock().fork())
    }

    /// Calls `observer` before each change (see [`SimEnv::write_and_sync_count`]) with a fork of the machine at that
    /// moment, so that one run of a workload can be crashed at every point. `observer` must not use this machine, only
    /// the fork. `None` ends it.
    pub fn observe(&self, observer: Option<Box<dyn FnMut(Self) + Send>>) {
        let of_forks =
            |mut observer: Box<dyn FnMut(Self) + Send>| -> Observer { Box::new(move |fork| observer(Self::of(fork))) };
        self.0.state.lock().observed.observer = observer.map(of_forks);
    }

    /// Calls `interrupt` before each call that this thread makes to the file system. No latch of the machine is held
    /// during it, so other threads can use the machine while the call waits; calls made by `interrupt` itself are not
    /// interrupted. `None` ends it.
    pub fn interrupt(&self, interrupt: Option<Interruption>) {
        *self.0.interruption.lock() = interrupt.map(|interrupt| (current().id(), interrupt));
    }

    /// Gives new seeds to the decisions what later crashes leave, and when an operation that was begun is made.
    pub fn reseed(&self, seed: u64) {
        let mut state = self.0.state.lock();
        (state.random.crash, state.random.begun) = (rng::Rng::new(seed), rng::Rng::new(!seed));
    }

    /// Kills the process: locks vanish, open files fail from now on, and what was written stays in the page cache.
    pub fn process_crash(&self) {
        self.0.state.lock().process_crash();
    }

    /// Cuts the power: as [`SimEnv::process_crash`], and of what is not durable only that survives which `profile`
    /// lets.
    pub fn power_crash(&self, profile: CrashProfile) {
        self.0.state.lock().power_crash(profile);
    }

    /// Stops the machine at the change for which [`SimEnv::write_and_sync_count`] was `k`, or the next one if that is
    /// past. That change is begun: a write or a rename may survive the crash, a sync may have made a part durable. It
    /// and all later operations fail, until [`SimEnv::power_crash`] or [`SimEnv::process_crash`].
    pub fn crash_at(&self, k: u64) {
        self.0.state.lock().faults.crash_at = Some(k);
    }

    /// Whether the machine has stopped at [`SimEnv::crash_at`].
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.0.state.lock().faults.is_down
    }

    /// How many operations on files and directories were begun: those of [`SimEnv::write_and_sync_count`], and opens,
    /// reads, lists and locks.
    #[must_use]
    pub fn op_count(&self) -> u64 {
        self.0.state.lock().faults.operations
    }

    /// How many of the reads were made together with others, by [`super::File::read_many`].
    #[must_use]
    pub fn batched_read_count(&self) -> u64 {
        self.0.state.lock().observed.batched_reads
    }

    /// Bytes that were read from the files whose paths satisfy `of`.
    #[must_use]
    pub fn read_bytes(&self, of: impl Fn(&Path) -> bool) -> u64 {
        let state = self.0.state.lock();
        state.observed.read_bytes.iter().filter(|(path, _)| of(path)).map(|(_, bytes)| bytes).sum()
    }

    /// How many files were opened to be read or written past the page cache.
    #[must_use]
    pub fn direct_open_count(&self) -> u64 {
        self.0.state.lock().observed.direct_opens
    }

    /// How often the file system was asked for its free space.
    #[must_use]
    pub fn free_space_count(&self) -> u64 {
        self.0.state.lock().observed.free_space_asked
    }

    /// The most bytes that were ever written to a file between two of its syncs, by writes that are not durable by
    /// themselves.
    #[must_use]
    pub fn unsynced_bytes_max(&self) -> u64 {
        self.0.state.lock().observed.unsynced_max
    }

    /// How many operations were begun that may change what a crash leaves: writes, syncs of files and directories,
    /// changes of length and space, and the making, renaming, linking and removing of names.
    #[must_use]
    pub fn write_and_sync_count(&self) -> u64 {
        self.0.state.lock().faults.changes
    }

    /// How many changes a power loss may take back now.
    #[must_use]
    pub fn unsynced_count(&self) -> u64 {
        let state = self.0.state.lock();
        let unsynced = |node: &Node| match node {
            Node::File(file) => file.unsynced(),
            Node::Dir(dir) => dir.unsynced(),
        };
        state.disk.nodes.values().map(unsynced).sum()
    }

    /// Makes the operation fail for which [`SimEnv::op_count`] was `k`.
    pub fn fail_at(&self, k: u64, fault: Fault) {
        self.0.state.lock().faults.plan(k, fault, false, None);
    }

    /// Makes that operation fail, and all later ones that the fault can strike, also after a crash.
    pub fn fail_from(&self, k: u64, fault: Fault) {
        self.0.state.lock().faults.plan(k, fault, true, None);
    }

    /// Makes the next operation fail that the fault can strike, on a file for which `only` holds.
    pub fn fail_next(&self, fault: Fault, only: fn(&Path) -> bool) {
        let mut state = self.0.state.lock();
        let next = state.faults.operations;
        state.faults.plan(next, fault, false, Some(only));
    }

    /// The first call that a fault struck, since faults were planned.
    #[must_use]
    pub fn struck(&self) -> Option<(Call, std::path::PathBuf)> {
        self.0.state.lock().faults.struck.clone()
    }

    /// Begins a trace of all calls.
    pub fn begin_trace(&self) {
        self.0.state.lock().observed.trace = Some(Trace::default());
    }

    /// Ends the trace, and gives it.
    #[must_use]
    pub fn end_trace(&self) -> Trace {
        self.0.state.lock().observed.trace.take().unwrap_or_default()
    }

    /// Takes all planned faults back.
    pub fn clear_faults(&self) {
        self.0.state.lock().faults.clear();
    }

    /// Limits the space that all files together take, in bytes; `u64::MAX` is no limit. A write that does not fit
    /// writes what fits and fails with `StorageFull`.
    pub fn set_space(&self, bytes: u64) {
        self.0.state.lock().disk.space = bytes;
    }

    /// Limits the space so that files can take only `bytes` bytes more.
    pub fn set_free(&self, bytes: u64) {
        let mut state = self.0.state.lock();
        state.disk.space = u64::MAX - 1;
        let used = state.disk.space - state.disk.free();
        state.disk.space = used + bytes;
    }

    /// Whether files opened from now on can be direct (true unless set). A direct file panics on I/O that is not
    /// aligned.
    pub fn set_direct(&self, direct: bool) {
        self.0.state.lock().direct = direct;
    }

    /// Whether workers wait for [`SimEnv::work`] when they are woken, instead of working at once.
    pub fn set_lazy_workers(&self, lazy: bool) {
        self.0.state.lock().lazy_workers = lazy;
    }

    /// Has threads of this machine take turns from now on: what sleeps or waits for another thread rests, and workers
    /// are lazy, whose wakes are told. `None` ends it.
    pub fn set_turns(&self, turns: Option<Arc<dyn Turns>>) {
        self.0.state.lock().turns = turns;
    }

    /// Does a step of the work of one of the lazy workers that were woken; `choice` selects it. False when no worker
    /// has work.
    #[must_use]
    pub fn work(&self, choice: u64) -> bool {
        SimSystem(Arc::clone(&self.0)).work(choice)
    }

    /// Moves the clock, and runs the background work that waited for a time now past.
    pub fn advance(&self, time: Duration) {
        SimSystem(Arc::clone(&self.0)).advance(time);
    }

    /// Makes the wall clock wrong: from now on it is ahead of the time that has passed by `seconds`, or behind it if
    /// negative.
    pub fn set_wall_ahead(&self, seconds: i64) {
        self.0.state.lock().clock.wall_ahead_secs = seconds;
    }

    /// Changes a byte on the disk, without a call of the process: `xor` (not 0) is laid over the byte at `offset`.
    ///
    /// # Errors
    /// `NotFound`, or `UnexpectedEof` when the file ends before `offset`.
    pub fn corrupt(&self, path: impl AsRef<Path>, offset: u64, xor: u8) -> io::Result<()> {
        let mut found = false;
        self.meddle(path.as_ref(), |content| {
            let mut byte = [0];
            found = content.read(&mut byte, offset) == 1;
            if found {
                content.write(&[byte[0] ^ xor], offset);
            }
        })?;
        if found { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Cuts or extends a file on the disk, without a call of the process.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn truncate(&self, path: impl AsRef<Path>, bytes: u64) -> io::Result<()> {
        self.meddle(path.as_ref(), |content| content.set_len(bytes))
    }

    /// A file's bytes, as reads see them.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let state = self.0.state.lock();
        let content = &state.disk.file_ref(state.disk.resolve(path.as_ref())?)?.current;
        let mut bytes = vec![0; usize_of(content.len())];
        content.read(&mut bytes, 0);
        Ok(bytes)
    }

    /// Makes a file with these bytes, or gives it these bytes, durably. Its directory must exist, and is synced.
    ///
    /// # Errors
    /// `NotFound` when the directory does not exist.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        {
            let mut state = self.0.state.lock();
            if state.disk.resolve(path).is_err() {
                state.disk.create(path, Node::File(Cached::default()))?;
                let dir = state.disk.resolve_parent(path)?.0;
                state.disk.dir(dir)?.sync();
            }
        }
        self.meddle(path, |content| {
            content.set_len(0);
            content.write(bytes, 0);
        })
    }

    /// Removes a file's name, durably. Its directory is synced.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut state = self.0.state.lock();
        state.disk.remove(path.as_ref())?;
        let dir = state.disk.resolve_parent(path.as_ref())?.0;
        state.disk.dir(dir)?.sync();
        Ok(())
    }

    /// Changes a file's durable bytes, and then the current ones, alike and uncounted.
    fn meddle(&self, path: &Path, mut change: impl FnMut(&mut Content)) -> io::Result<()> {
        let mut state = self.0.state.lock();
        let node = state.disk.resolve(path)?;
        let file = state.disk.file(node)?;
        change(&mut file.durable);
        change(&mut file.current);
        Ok(())
    }
}

impl fmt::Debug for SimEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("SimEnv")
            .field("operations", &state.faults.operations)
            .field("writes_and_syncs", &state.faults.changes)
            .field("is_down", &state.faults.is_down)
            .finish_non_exhaustive()
    }
}
