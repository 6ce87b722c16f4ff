//! How many leaves changes reach, which is what a merge of them rewrites.

use std::sync::Arc;

use super::root::TreeRoot;
use crate::base::Result;
use crate::cache::Fill;
use crate::tree::Cursor;

impl TreeRoot {
    /// How many leaves a merge of `changes` would rewrite; when it is more than `most`, any number over it. Only branches are read.
    ///
    /// # Errors
    /// When the changes or a branch cannot be read or are corrupt.
    pub fn reach(self: &Arc<Self>, changes: &mut dyn Cursor, most: u64) -> Result<u64> {
        if self.meta.leaves <= most {
            return Ok(self.meta.leaves);
        }
        let (mut reached, mut end) = (0, Vec::new());
        changes.first()?;
        while reached <= most
            && let Some(change) = changes.entry()
        {
            reached += 1;
            if !self.leaf_end(change.key, &mut end)? {
                break;
            }
            changes.seek_ge(&end)?;
        }
        Ok(reached)
    }

    /// Makes `end` the border behind the leaf for `key`; false when that is the last one.
    fn leaf_end(&self, key: &[u8], end: &mut Vec<u8>) -> Result<bool> {
        let Some(mut pointer) = self.meta.root else { return Ok(false) };
        let mut found = false;
        for height in (1..=self.meta.height).rev() {
            let branch = self.block(pointer, height, Fill::Keep)?;
            let next = branch.upper_bound(key).max(1);
            if next < branch.count() {
                branch.key_into(next, end);
                found = true;
            }
            pointer = self.file.child(&branch, next - 1)?;
        }
        Ok(found)
    }
}
