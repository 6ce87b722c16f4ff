//! Ranges of keys, which can be walked again and again from both ends, and the walks.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::at::BoundTable;
use crate::bytes::{Bytes, Ends, pair};
use crate::error::Raise;

/// The most entries that a walk reads at once.
const AHEAD_MAX: usize = 128;

/// The most bytes that a walk reads at once, but for one entry that is larger.
const AHEAD_BYTES: usize = 64 << 10;

/// What a walk shows of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    Items,
    Keys,
    Values,
}

/// A range of a table's keys. Iterating over it, or over `reversed(..)` of it, walks the entries in key order, as of
/// when the walk begins.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Range {
    table: BoundTable,
    ends: Ends,
    reverse: bool,
    shows: Shows,
}

impl Range {
    pub(crate) const fn new(table: BoundTable, ends: Ends, reverse: bool, shows: Shows) -> Self {
        Self { table, ends, reverse, shows }
    }

    fn same(&self, shows: Shows) -> Self {
        Self::new(self.table.clone(), self.ends.clone(), self.reverse, shows)
    }

    const fn columns(&self) -> &'static [&'static str] {
        match self.shows {
            Shows::Items => &["key", "value"],
            Shows::Keys => &["key"],
            Shows::Values => &["value"],
        }
    }

    fn walk(&self, py: Python<'_>, reverse: bool) -> PyResult<Walk> {
        let range = self.table.walk(py, &self.ends, reverse)?;
        Ok(Walk { range: Mutex::new(range), shows: self.shows, read: Entries::default(), next: 0, ahead: 1 })
    }
}

#[pymethods]
impl Range {
    fn __iter__(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk(py, self.reverse)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk(py, !self.reverse)
    }

    /// The same range, showing keys only. Values that are stored apart are not read.
    fn keys(&self) -> Self {
        self.same(Shows::Keys)
    }

    /// The same range, showing values only.
    fn values(&self) -> Self {
        self.same(Shows::Values)
    }

    /// The same range, showing pairs of key and value.
    fn items(&self) -> Self {
        self.same(Shows::Items)
    }

    /// How many entries there are. Walks over the keys.
    pub(crate) fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let mut range = self.table.walk(py, &self.ends, false)?;
        let mut count = 0;
        loop {
            let counted = py.detach(|| {
                for passed in 0..0x1_0000 {
                    if range.advance_key()?.is_none() {
                        return Ok((passed, true));
                    }
                }
                Ok((0x1_0000, false))
            });
            let (passed, ended) = counted.raise(py)?;
            count += passed;
            if ended {
                return Ok(count);
            }
            py.check_signals()?;
        }
    }

    /// Deletes all entries of the range, by one range tombstone.
    pub(crate) fn delete(&self, py: Python<'_>) -> PyResult<()> {
        self.table.delete_ends(py, &self.ends)
    }

    /// Record batches of `pyarrow` with the columns `key` and `value` (one of them for keys and values only), of at
    /// most `rows` rows each: an iterator.
    #[pyo3(signature = (rows=65536))]
    fn to_arrow<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Bound<'py, PyAny>> {
        py.import("spinney._arrow")?.call_method1("batches", (self.walk(py, self.reverse)?, rows, self.columns()))
    }

    /// A frame of `pandas` with the same columns.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("spinney._arrow")?.call_method1("frame", (self.walk(py, self.reverse)?, self.columns()))
    }
}

/// Entries that were read, one behind the other.
#[derive(Debug, Default)]
struct Entries {
    bytes: Vec<u8>,
    /// The end of each key and of each value.
    ends: Vec<(usize, usize)>,
}

impl Entries {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let &(key_end, value_end) = self.ends.get(at)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some((&self.bytes[begin..key_end], &self.bytes[key_end..value_end]))
    }
}

/// A walk over a range: an iterator. It reads some entries ahead.
#[pyclass(module = "spinney")]
#[derive(Debug)]
pub(crate) struct Walk {
    /// Never locked: Python lends a walk to one thread at a time.
    range: Mutex<spinney::Range>,
    shows: Shows,
    read: Entries,
    /// Which of the entries that were read is next.
    next: usize,
    /// How many entries the next read takes.
    ahead: usize,
}

impl Walk {
    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        let Self { range, read, shows, ahead, .. } = self;
        let (count, shows) = (*ahead, *shows);
        let range = range.get_mut().unwrap_or_else(PoisonError::into_inner);
        py.detach(|| {
            read.clear();
            while read.ends.len() < count && read.bytes.len() < AHEAD_BYTES {
                let read_on = match shows {
                    Shows::Keys => range.advance_key()?.map(|key| read.push(key, b"")),
                    _ => range.advance()?.map(|(key, value)| read.push(key, value)),
                };
                if read_on.is_none() {
                    break;
                }
            }
            Ok(())
        })
        .raise(py)?;
        self.next = 0;
        self.ahead = (2 * count).min(AHEAD_MAX);
        Ok(())
    }
}

#[pymethods]
impl Walk {
    const fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.next == self.read.ends.len() {
            self.read(py)?;
        }
        let Some((key, value)) = self.read.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(match self.shows {
            Shows::Items => pair(py, key, value)?.into_any(),
            Shows::Keys => PyBytes::new(py, key).into_any(),
            Shows::Values => PyBytes::new(py, value).into_any(),
        }))
    }

    /// Goes on from `key`: the next entry is the first one of the range at it or, in the walk's direction, behind it.
    fn seek(&mut self, key: Bytes<'_>) {
        self.range.get_mut().unwrap_or_else(PoisonError::into_inner).seek(key);
        self.read.clear();
        (self.next, self.ahead) = (0, 1);
    }

    /// Up to `count` next entries, as a list.
    fn take<'py>(&mut self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let taken = PyList::empty(py);
        while taken.len() < count {
            self.ahead = (count - taken.len()).min(AHEAD_MAX);
            let Some(next) = self.__next__(py)? else { break };
            taken.append(next)?;
        }
        Ok(taken)
    }

    /// The next entries as two columns of Arrow, keys and values: how many, and of each column the 32-bit offsets and
    /// the bytes.
    fn columns<'py>(&mut self, py: Python<'py>, rows: usize) -> PyResult<Bound<'py, PyTuple>> {
        const COLUMN_BYTES: usize = 64 << 20;
        let mut columns = [(vec![0; 4], Vec::new()), (vec![0; 4], Vec::new())];
        let mut count = 0;
        while count < rows && columns.iter().all(|(_, bytes)| bytes.len() < COLUMN_BYTES) {
            if self.next == self.read.ends.len() {
                self.ahead = AHEAD_MAX;
                self.read(py)?;
                py.check_signals()?;
            }
            let Some((key, value)) = self.read.get(self.next) else { break };
            for ((offsets, bytes), part) in columns.iter_mut().zip([key, value]) {
                bytes.extend_from_slice(part);
                // A value is at most 512 MiB.
                let end = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
                offsets.extend_from_slice(&end.to_le_bytes());
            }
            self.next += 1;
            count += 1;
        }
        let of = |(offsets, bytes): &(Vec<u8>, Vec<u8>)| {
            PyTuple::new(py, [PyBytes::new(py, offsets), PyBytes::new(py, bytes)])
        };
        (count, of(&columns[0])?, of(&columns[1])?).into_pyobject(py)
    }
}
