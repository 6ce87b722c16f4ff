//! The files that a writer has begun, so that all of them can be removed, also one that could not be completed.

use crate::base::FileId;
use crate::db::state::State;
use crate::table::files::FileKind;

/// Files that a writer has begun.
pub(super) struct BegunFiles<'a> {
    state: &'a State,
    kind: FileKind,
    /// A verification may meet the files half written, and must know them.
    is_pending: bool,
    /// With the number under which the cache knows the file, once it is created.
    files: Vec<(FileId, Option<u64>)>,
}

impl<'a> BegunFiles<'a> {
    pub(super) const fn new(state: &'a State, kind: FileKind, is_pending: bool) -> Self {
        Self { state, kind, is_pending, files: Vec::new() }
    }

    /// The id of the next file, before it is created.
    pub(super) fn begin(&mut self) -> FileId {
        let id = self.state.files.new_id();
        self.files.push((id, None));
        if self.is_pending {
            self.state.files.begin_pending(id);
        }
        id
    }

    /// The file begun last is created; the cache knows it as `instance`.
    pub(super) fn created(&mut self, instance: u64) {
        self.files.last_mut().expect("it was begun").1 = Some(instance);
    }

    /// Removes all of them, from the cache too.
    pub(super) fn discard(self) {
        for (id, instance) in &self.files {
            instance.iter().for_each(|instance| self.state.cache.forget(*instance));
            self.state.files.remove(self.kind, *id);
        }
        if self.is_pending {
            self.state.files.end_pending(|pending| self.files.iter().any(|(id, _)| *id == pending));
        }
    }
}
