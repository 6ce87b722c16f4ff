//! A copy of the database that comes from the primary.

use std::io;
use std::path::Path;

use tokio::task::JoinHandle;

use crate::base::blocking::spawn_blocking;
use crate::entry::copying::CopiedFile;
use crate::entry::log_entry::LogId;
use crate::storage::copies::Incoming;

/// A copy that comes, what of it is there on its way to the disk.
#[derive(Debug)]
pub(crate) struct Receiving {
    incoming: Incoming,
    /// The last entry that is in it.
    applied: LogId,
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl Receiving {
    /// Begins to receive a copy into a database's folder.
    ///
    /// # Errors
    /// Those of [`Incoming::begin`].
    pub(crate) fn begin(database: &Path, copy: u64, applied: LogId, files: Vec<CopiedFile>) -> io::Result<Self> {
        Ok(Self { incoming: Incoming::begin(database, copy, files)?, applied, syncing: None })
    }

    /// The number of the copy.
    pub(crate) const fn copy(&self) -> u64 {
        self.incoming.copy
    }

    /// Writes a part. Now and then it has what came made durable while more comes, and gives what is to be waited for.
    ///
    /// # Errors
    /// Those of [`Incoming::write`].
    pub(crate) fn write(
        &mut self,
        file: u64,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<Option<JoinHandle<io::Result<()>>>> {
        self.incoming.write(file, offset, bytes)?;
        let due = self.incoming.due();
        Ok(due.and_then(|file| self.syncing.replace(spawn_blocking(move || file.sync()))))
    }

    /// Makes all that was received durable: the copy and its last entry, if all of it has come.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) async fn end(self) -> io::Result<Option<(Incoming, LogId)>> {
        let Self { mut incoming, applied, syncing } = self;
        wait_for(syncing).await?;
        Ok(incoming.sync()?.then_some((incoming, applied)))
    }
}

/// Waits for a sync.
///
/// # Errors
/// What the system says.
pub(crate) async fn wait_for(syncing: Option<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    match syncing {
        Some(syncing) => syncing.await.map_err(io::Error::other)?,
        None => Ok(()),
    }
}
