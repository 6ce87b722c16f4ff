//! The commits of a command that makes several: they are made durable together, by one sync before the reply.

use super::call::Call;
use crate::base::Result;
use crate::collection::WriteOptions;
use spinney::Durability;

/// How the statements of a command are committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commits {
    /// Of each statement.
    pub(super) options: WriteOptions,
    /// Whether [`Self::end`] makes them durable.
    together: bool,
}

impl Commits {
    /// The commits of a command of one statement, or of many.
    ///
    /// # Errors
    /// As [`Call::write_options`].
    pub(super) fn of(call: &Call<'_>, many: bool) -> Result<Self> {
        let mut options = call.write_options()?;
        // A transaction has one commit, which is another command's.
        let agrees = call.state.database.catalog().committer().is_some();
        // What a replica set agrees on is durable with each commit.
        let together = many && call.durability(&options) == Durability::Sync && !call.is_in_transaction() && !agrees;
        if together {
            options.durability = Some(Durability::Buffered);
        }
        Ok(Self { options, together })
    }

    /// Waits until what the command has committed is as durable as its write concern asks for. Also when a statement
    /// failed: those before it are acknowledged.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn end(&self, call: &Call<'_>) -> Result<()> {
        if self.together {
            call.state.database.engine().sync()?;
        }
        Ok(())
    }
}
