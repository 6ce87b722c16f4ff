//! What all jobs share: what they work with, how they are checked against the free space, and what becomes of their
//! errors.

use crate::base::{Error, ErrorKind, Result};
use crate::db::state::State;
use crate::db::state::table::TableState;
use crate::db::throttle::Throttle;

use super::install::Progress;

/// What a job works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobContext<'a> {
    pub(crate) state: &'a State,
    pub(crate) throttle: &'a Throttle,
}

/// What came of looking for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// One is done, and the next look meets another table than this one did.
    Done(Progress),
    /// None is due.
    Nothing,
    /// One was due, and the table was dropped before it was done. Its trees stay as they are while the caller holds the
    /// compaction latch, so that the same job would be picked again: none is due any more.
    Dropped,
    /// One is due, and this many bytes of free space are missing for it.
    NoSpace(u64),
}

/// Bytes on disk that a job takes, and gives back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Free bytes that it may need while it runs.
    pub(crate) free: u64,
    /// Bytes of its inputs, which are removed in the end.
    pub(crate) inputs: u64,
}

/// Takes steps as long as each of them changes the table; what the last one came to, which is not [`Step::Done`]. All
/// loops over the jobs of a table are this one: a step that changes nothing ends it.
pub(crate) fn repeat(mut step: impl FnMut() -> Result<Step>) -> Result<Step> {
    loop {
        match step()? {
            Step::Done(_) => {}
            ended => return Ok(ended),
        }
    }
}

/// A job of one table that is due. The caller holds the table's compaction latch, and keeps no input open: its space
/// could not be given back.
pub(crate) trait Job {
    fn needs(&self) -> Needs;

    /// Does it, up to where readers see the result.
    fn run(self, context: JobContext<'_>) -> Result<Step>;
}

impl JobContext<'_> {
    /// Runs a job if the free space is enough.
    pub(crate) fn perform(self, job: impl Job) -> Result<Step> {
        let Needs { free, inputs } = job.needs();
        let space = self.throttle.space_for(free, inputs)?;
        if free > space { Ok(Step::NoSpace(free - space)) } else { job.run(self) }
    }

    /// Runs a job that was asked for by hand; refuses it when the free space is not enough. `otherwise` says what else
    /// may be done.
    pub(crate) fn perform_by_hand(self, table: &TableState, job: impl Job, otherwise: &str) -> Result<Step> {
        let Needs { free, inputs } = job.needs();
        let space = self.throttle.space_for(free, inputs)?;
        if free <= space {
            return job.run(self);
        }
        let message = format!(
            "table '{}': the compaction needs {free} bytes of free space, and {space} are there beside what flushes and the log need: \
             free {} bytes{otherwise}",
            table.name,
            free - space
        );
        Err(Error::new(ErrorKind::Full, message))
    }
}

/// Whether the error leaves the database as it was: there was no space or no descriptor, or what the job reads could
/// not be read or is damaged. It may be otherwise the next time; and a damaged block is no reason to take no commits.
pub(crate) fn leaves_unchanged(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || error.is_of_read() || error.is_unchanged()
}

/// Whether a job lacked space or descriptors, and may be done later.
pub(crate) fn is_lack(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || error.is_unchanged()
}

/// The one policy for the errors of jobs. An error that left the database as it was ends the job and nothing else: the
/// job is tried again later. After any other, a write or sync failed, and the database takes no more. (Of an
/// installation, which is one record in the manifest, only an error after which nothing was changed poisons nothing:
/// [`State::or_poison`].)
pub(crate) fn settle<T>(state: &State, result: Result<T>) -> Result<T> {
    result.map_err(|error| if leaves_unchanged(&error) { error } else { state.poison(error) })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::db::{Database, Options};
    use crate::env::sim::SimEnv;

    /// A job that needs free bytes, and tells whether it ran.
    struct Asking<'r> {
        free: u64,
        ran: &'r Cell<bool>,
    }

    impl Job for Asking<'_> {
        fn needs(&self) -> Needs {
            Needs { free: self.free, inputs: 0 }
        }

        fn run(self, _: JobContext<'_>) -> Result<Step> {
            self.ran.set(true);
            Ok(Step::Nothing)
        }
    }

    #[test]
    fn a_job_runs_only_where_its_bytes_are_free() {
        let sim = SimEnv::new(1);
        sim.set_free(1 << 30);
        let options = Options { memory_bytes: 4 << 20, ..Options::default() };
        let db = Database::builder("/db").env(sim.env()).options(options).open().unwrap();
        let core = db.core();
        let context = JobContext { state: &core.state, throttle: &core.throttle };
        let free = core.throttle.space_for_jobs().unwrap();
        assert!(free > 0);
        let ran = Cell::new(false);
        let perform = |free| (context.perform(Asking { free, ran: &ran }).unwrap(), ran.take());
        assert_eq!(perform(free / 2), (Step::Nothing, true));
        // Spare segments of the log may take some meanwhile.
        assert!(matches!(perform(2 * free), (Step::NoSpace(missing), false) if missing >= free));
        let table = db.create_table("t", crate::table::TableOptions::default()).unwrap();
        let by_hand = |free| context.perform_by_hand(table.state(), Asking { free, ran: &ran }, "Wait");
        assert_eq!(by_hand(free / 2).unwrap(), Step::Nothing);
        assert!(ran.take());
        assert_eq!(by_hand(2 * free).unwrap_err().kind(), ErrorKind::Full);
        assert!(!ran.get());
    }
}
