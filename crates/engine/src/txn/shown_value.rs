//! The value that a snapshot's iterator shows, when it is not the one of the entry at the cursor.

use crate::base::{Result, Value};
use crate::cache::Fill;
use crate::store::BlocksRead;
use crate::tree::values::ValueFiles;

/// The value of the current key.
pub(super) struct ShownValue {
    /// The value when the cursor has moved on: to the key before (backward), or over the operands that the value was
    /// folded from; or when it was read from a value file. `None`: it is that of the entry at the cursor.
    value: Option<Value>,
    pointer: PointerState,
    /// The value files into which entries point.
    files: ValueFiles,
    /// Blocks of these files that were read.
    blocks_read: u64,
}

/// Whether the entry holds a pointer to a value file instead of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointerState {
    No,
    /// It does; the value was not read.
    Unread,
    /// It did; the value was read.
    Fetched,
}

impl ShownValue {
    /// No value yet, of a table with these value files.
    pub(super) const fn new(files: ValueFiles) -> Self {
        Self { value: None, pointer: PointerState::No, files, blocks_read: 0 }
    }

    /// Blocks of value files that were read so far.
    pub(super) const fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    /// The value, if it is not the one of the entry at the cursor.
    #[inline]
    pub(super) const fn get(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// Whether the entry holds the value itself and never held a pointer to it.
    #[inline]
    pub(super) fn is_inline(&self) -> bool {
        self.pointer == PointerState::No
    }

    /// Whether the entry still holds a pointer instead of the value.
    #[inline]
    pub(super) fn is_unread(&self) -> bool {
        self.pointer == PointerState::Unread
    }

    /// Goes back to the entry at the cursor, whose value is inline.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.set(None, false);
    }

    /// Shows `value`, or that of the entry at the cursor; `is_pointer` says that it is a pointer to a value file.
    #[inline]
    pub(super) fn set(&mut self, value: Option<Value>, is_pointer: bool) {
        self.value = value;
        self.pointer = if is_pointer { PointerState::Unread } else { PointerState::No };
    }

    /// Takes the value out.
    pub(super) fn take(&mut self) -> Option<Value> {
        self.pointer = PointerState::No;
        self.value.take()
    }

    /// Reads what a pointer points to.
    pub(super) fn read(&mut self, pointer: &[u8]) -> Result<Value> {
        let read = BlocksRead::so_far();
        let value = self.files.read(pointer, Fill::Keep)?;
        self.blocks_read += read.since();
        Ok(value)
    }

    /// Replaces the pointer, which is `at_cursor` unless it was taken from there, with what it points to.
    #[cold]
    pub(super) fn fetch(&mut self, at_cursor: &[u8]) -> Result<()> {
        let pointer = self.value.take();
        let value = self.read(pointer.as_deref().unwrap_or(at_cursor));
        match value {
            Ok(value) => (self.value, self.pointer) = (Some(value), PointerState::Fetched),
            Err(error) => {
                self.value = pointer;
                return Err(error);
            }
        }
        Ok(())
    }
}
