//! The value files of a table or a run, and the one place where a pointer becomes a value.

use super::file::ValueFile;
use super::pointer::ValuePointer;
use crate::base::{Error, ErrorKind, FileId, Result, Value};
use crate::cache::Fill;
use std::sync::Arc;

/// Open value files by id. Cheap to clone; without files it holds nothing.
#[derive(Clone, Debug, Default)]
pub struct ValueFiles(Option<Arc<[Arc<ValueFile>]>>);

impl ValueFiles {
    /// No files.
    pub const NONE: Self = Self(None);

    /// A set of these files, in any order, each once or more often.
    #[must_use]
    pub fn new(mut files: Vec<Arc<ValueFile>>) -> Self {
        files.sort_unstable_by_key(|file| file.id());
        files.dedup_by_key(|file| file.id());
        Self((!files.is_empty()).then(|| files.into()))
    }

    /// The files, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ValueFile>> {
        self.0.iter().flat_map(|files| files.iter())
    }

    /// The file with this id.
    #[must_use]
    pub fn find(&self, id: FileId) -> Option<&Arc<ValueFile>> {
        let files = self.0.as_deref()?;
        files.binary_search_by_key(&id, |file| file.id()).ok().map(|at| &files[at])
    }

    /// The files that the other set has not.
    pub fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Arc<ValueFile>> {
        self.iter().filter(|file| other.find(file.id()).is_none())
    }

    /// The value to which `pointer`, as it is stored in an entry, points.
    ///
    /// # Errors
    /// `Corruption` when there is no such value or it is not what was written, `Io` when it cannot be read.
    pub fn read(&self, pointer: &[u8], fill: Fill) -> Result<Value> {
        let (file, pointer) = self.place(pointer)?;
        file.read(pointer.block, fill)
    }

    /// As [`Self::read`], from the file, also where the cache has it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_from_file(&self, pointer: &[u8]) -> Result<Value> {
        let (file, pointer) = self.place(pointer)?;
        file.read_from_file(pointer.block)
    }

    /// As [`Self::read`], of several, which are read in parallel where the system can.
    ///
    /// # Errors
    /// As [`Self::read`], of the first that has one.
    pub fn read_many<'p>(&self, pointers: impl Iterator<Item = &'p [u8]>) -> Result<Vec<Value>> {
        let places = pointers.map(|pointer| self.place(pointer).map(|(file, pointer)| (file, pointer.block)));
        ValueFile::read_many(&places.collect::<Result<Vec<_>>>()?)
    }

    fn place(&self, pointer: &[u8]) -> Result<(&ValueFile, ValuePointer)> {
        let pointer = ValuePointer::decode(pointer)?;
        let missing = || {
            let file = pointer.file;
            let message =
                format!("an entry points into value file {file}, which cannot be opened or is not of its run");
            Error::new(ErrorKind::Corruption, message)
        };
        Ok((self.find(pointer.file).ok_or_else(missing)?, pointer))
    }
}
