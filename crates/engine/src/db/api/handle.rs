//! What keeps a database open: all handles of it share one, and the last of them closes it.

use std::mem;
use std::sync::Arc;

use crate::base::debug::debug_by;
use crate::db::open::core::Core;

/// Shares an open database.
#[derive(Clone)]
pub(crate) struct DatabaseHandle(Arc<OpenDatabase>);

/// Closes the database when the last user of it is gone.
struct OpenDatabase {
    core: Arc<Core>,
}

impl DatabaseHandle {
    pub(crate) fn new(core: Core) -> Self {
        Self(Arc::new(OpenDatabase { core: Arc::new(core) }))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        // Errors have poisoned the log already and cannot be told from here; `close` tells them.
        drop(self.core.shut());
        if self.core.state.health.is_forked() {
            // Its threads are not here, and its latches may be held by them.
            mem::forget(Arc::clone(&self.core));
        }
    }
}

debug_by!(DatabaseHandle, self => path: self.core().state.dir);
