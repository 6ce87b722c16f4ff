//! What a database that is read only remembers: where it comes from, and what it read of the redo log.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::FileId;
use crate::base::debug::debug_by;
use crate::db::state::options::Options;
use crate::db::state::registered::Registered;
use crate::env::Env;
use crate::log::LogSummary;

use super::recovery::OnReplay;

/// What a database is opened from.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) env: Env,
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    pub(crate) registered: Registered,
    pub(crate) on_replay: Option<Arc<OnReplay>>,
}

/// Where a database that is read only comes from.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) source: Source,
    /// What was replayed.
    pub(crate) log: LogSummary,
    /// The manifest that was read.
    pub(crate) manifest: FileId,
}

debug_by!(Source, self => path: self.path);
