//! Tables as mappings: the newest state, or within a snapshot, a transaction or a batch.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySlice, PyTuple};

use crate::at::{At, BoundTable, OpenTransaction};
use crate::bytes::{Bytes, Ends, ends, pair};
use crate::error::{Raise, invalid};
use crate::json::dict;
use crate::load;
use crate::range::{Range, Shows};

/// A mapping from `bytes` to `bytes`, in the order of the keys. `db[name]` is the newest state; `txn[table]`,
/// `snapshot[table]` and `batch[table]` are the table within those.
#[pyclass(frozen, mapping, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Table(BoundTable);

impl Table {
    pub(crate) fn new(db: &spinney::Database, table: spinney::Table) -> Self {
        Self(BoundTable { db: db.clone(), table, at: At::Latest })
    }

    pub(crate) fn within(&self, at: At) -> Self {
        Self(BoundTable { at, ..self.0.clone() })
    }

    #[inline]
    fn find(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<spinney::Value>> {
        self.0.read(
            py,
            |bound| bound.table.get(key),
            |snapshot, table| snapshot.get(table, key),
            |txn, table| txn.get(table, key),
        )
    }

    fn delete_key(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        self.0.write(
            py,
            |table| table.delete(key),
            |txn, table| txn.delete(table, key),
            |batch, table| batch.delete(table, key),
        )
    }

    fn range(&self, ends: Ends, reverse: bool, shows: Shows) -> Range {
        Range::new(self.0.clone(), ends, reverse, shows)
    }

    fn slice(&self, slice: &Bound<'_, PySlice>) -> PyResult<Range> {
        if !slice.getattr("step")?.is_none() {
            return Err(PyTypeError::new_err("a slice of a table has no step: use reversed(..) of it"));
        }
        let ends = ends(slice.getattr("start")?.extract()?, slice.getattr("stop")?.extract()?, None)?;
        Ok(self.range(ends, false, Shows::Items))
    }

    fn all(&self, shows: Shows) -> Range {
        self.range((std::ops::Bound::Unbounded, std::ops::Bound::Unbounded), false, shows)
    }

    /// Runs `body` in the transaction that the table is in, or in one of its own that is tried again.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnMut(&mut spinney::Transaction) -> spinney::Result<T> + Send,
    ) -> PyResult<T> {
        match &self.0.at {
            At::Latest => py.detach(|| self.0.db.transact(body)).raise(py),
            At::Transaction(txn) => txn.with(py, body),
            At::Snapshot(_) | At::Batch(_) => {
                Err(invalid(py, "this reads and writes: use the table itself or a transaction"))
            }
        }
    }

    fn transaction(&self, py: Python<'_>, call: &str) -> PyResult<&OpenTransaction> {
        let At::Transaction(txn) = &self.0.at else {
            return Err(invalid(
                py,
                &format!("{call} is for transactions: with db.begin() as txn: txn[table].{call}(..)"),
            ));
        };
        Ok(txn)
    }

    fn end<'py>(&self, py: Python<'py>, reverse: bool) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let mut range = self.0.walk(py, &all, reverse)?;
        let found = py.detach(|| range.next().transpose()).raise(py)?;
        found.map(|(key, value)| pair(py, &key, &value)).transpose()
    }
}

#[pymethods]
impl Table {
    /// The name of the table.
    #[getter]
    fn name(&self) -> &str {
        self.0.table.name()
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'py>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.find(py, key.as_slice())?;
        Ok(found.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            return Ok(Bound::new(py, self.slice(slice)?)?.into_any());
        }
        let found = self.find(py, key.extract::<Bytes<'_>>()?.as_slice())?;
        let found = found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))?;
        Ok(PyBytes::new(py, &found).into_any())
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let key = key.as_slice();
        self.0.read(
            py,
            |bound| bound.table.contains(key),
            |snapshot, table| snapshot.contains(table, key),
            |txn, table| txn.contains(table, key),
        )
    }

    /// The values of many keys, `None` for those that are not there. Faster than one by one.
    fn multi_get<'py>(&self, py: Python<'py>, keys: Vec<Bytes<'py>>) -> PyResult<Bound<'py, PyList>> {
        let keys: Vec<&[u8]> = keys.iter().map(Bytes::as_slice).collect();
        let found = self.0.read(
            py,
            |bound| bound.db.snapshot().multi_get(&bound.table, &keys),
            |snapshot, table| snapshot.multi_get(table, &keys),
            |txn, table| txn.multi_get(table, &keys),
        )?;
        PyList::new(py, found.iter().map(|value| value.as_ref().map(|value| PyBytes::new(py, value))))
    }

    /// Sets the value of a key.
    fn put(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        let (key, value) = (key.as_slice(), value.as_slice());
        self.0.write(
            py,
            |table| table.put(key, value),
            |txn, table| txn.put(table, key, value),
            |batch, table| batch.put(table, key, value),
        )
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    /// Removes a key, if it is there.
    fn delete(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.delete_key(py, key.as_slice())
    }

    /// `del table[key]` removes a key, if it is there: it reads nothing. `del table[start:stop]` removes a range.
    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match key.cast::<PySlice>() {
            Ok(slice) => self.slice(slice)?.delete(py),
            Err(_) => self.delete_key(py, key.extract::<Bytes<'_>>()?.as_slice()),
        }
    }

    /// Removes all keys from `start` on and before `stop`, or those that begin with `prefix`.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<()> {
        self.0.delete_ends(py, &ends(start, stop, prefix)?)
    }

    /// Removes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.all(Shows::Items).delete(py)
    }

    /// Merges an operand into the value of a key by the table's merge operator, without a read.
    fn merge(&self, py: Python<'_>, key: Bytes<'_>, operand: Bytes<'_>) -> PyResult<()> {
        let (key, operand) = (key.as_slice(), operand.as_slice());
        self.0.write(
            py,
            |table| table.merge(key, operand),
            |txn, table| txn.merge(table, key, operand),
            |batch, table| batch.merge(table, key, operand),
        )
    }

    /// Adds to the counter of a key of a table with `merge="add"`, without a read. Values are 8 bytes, little-endian.
    #[pyo3(signature = (key, number=1))]
    fn add(&self, py: Python<'_>, key: Bytes<'_>, number: i64) -> PyResult<()> {
        let operand = PyBytes::new(py, &number.to_le_bytes());
        self.merge(py, key, Bytes::Lent(operand))
    }

    /// Puts all entries of a mapping or of an iterable of pairs, in commits of about a MiB.
    fn update(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let entries = match entries.cast::<PyDict>() {
            Ok(mapping) => mapping.call_method0("items")?,
            Err(_) if entries.hasattr("items")? => entries.call_method0("items")?,
            Err(_) => entries.clone(),
        };
        let At::Latest = self.0.at else {
            for entry in entries.try_iter()? {
                let (key, value) = entry?.extract()?;
                self.put(py, key, value)?;
            }
            return Ok(());
        };
        load::in_batches(py, &self.0.db, &self.0.table, &entries)
    }

    /// Loads an iterable of pairs whose keys ascend, as one commit that is not logged: the fastest way to fill a table.
    /// Keys that are there already are overwritten. Returns how many entries it loaded.
    fn bulk_load(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<u64> {
        let At::Latest = self.0.at else {
            return Err(invalid(py, "bulk_load is a commit of its own: call it on the table itself"));
        };
        load::bulk(py, &self.0.table, entries)
    }

    /// The value of a key, which is removed; or `default`. Without a default a missing key is a `KeyError`.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(&self, py: Python<'py>, key: Bytes<'py>, default: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        let (table, name) = (&self.0.table, key.as_slice());
        let found = self.change(py, |txn| {
            let found = txn.get(table, name)?;
            if found.is_some() {
                txn.delete(table, name)?;
            }
            Ok(found)
        })?;
        match found {
            Some(value) => Ok(PyBytes::new(py, &value).into_any()),
            None if default.is_empty() => Err(PyKeyError::new_err(name.to_vec())),
            None => default.get_item(0),
        }
    }

    /// The value of a key, which is set to `default` first when it is not there.
    fn setdefault<'py>(&self, py: Python<'py>, key: Bytes<'py>, default: Bytes<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let (table, key, default) = (&self.0.table, key.as_slice(), default.as_slice());
        let found = self.change(py, |txn| {
            let found = txn.get(table, key)?;
            if found.is_none() {
                txn.put(table, key, default)?;
            }
            Ok(found)
        })?;
        Ok(PyBytes::new(py, found.as_deref().unwrap_or(default)))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Bound::new(py, self.all(Shows::Keys))?.try_iter()?.into_any())
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Bound::new(py, self.all(Shows::Keys))?.call_method0("__reversed__")
    }

    /// The entries from `start` on and before `stop`, or with keys that begin with `prefix`.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Range> {
        Ok(self.range(ends(start, stop, prefix)?, reverse, Shows::Items))
    }

    /// The keys of such a range.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn keys(
        &self,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Range> {
        Ok(self.range(ends(start, stop, prefix)?, reverse, Shows::Keys))
    }

    /// The values of such a range.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn values(
        &self,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Range> {
        Ok(self.range(ends(start, stop, prefix)?, reverse, Shows::Values))
    }

    /// How many entries there are. Walks over all keys; there is no `len`, which `list(table)` would call unasked.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.all(Shows::Keys).count(py)
    }

    /// The first entry, or `None`.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.end(py, false)
    }

    /// The last entry, or `None`.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.end(py, true)
    }

    /// In a transaction: the value of a key, which is locked until the transaction ends. Waits for others' locks.
    fn get_for_update<'py>(&self, py: Python<'py>, key: Bytes<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = key.as_slice();
        let found = self.transaction(py, "get_for_update")?.with(py, |txn| txn.get_for_update(&self.0.table, key))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// In a transaction: locks all keys of a range, there or not, until the transaction ends.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn lock_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<()> {
        let (low, high) = ends(start, stop, prefix)?;
        self.transaction(py, "lock_range")?.with(py, |txn| txn.lock_range(&self.0.table, (low, high)))
    }

    /// In a transaction: sets the value of a key that has none. `AlreadyExistsError` when it has one; the commit is a
    /// `ConflictError` when another transaction gives it one before.
    fn put_new(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        let (key, value) = (key.as_slice(), value.as_slice());
        self.transaction(py, "put_new")?.with(py, |txn| txn.put_new(&self.0.table, key, value))
    }

    /// Writes what memory holds of the table to its trees.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.table.flush()).raise(py)
    }

    /// Merges all of the table into one tree.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.table.compact()).raise(py)
    }

    /// The trees of the table, as a dict.
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shape = py.detach(|| self.0.table.shape()).raise(py)?;
        dict(py, &shape)
    }

    fn __repr__(&self) -> String {
        let within = match &self.0.at {
            At::Latest => "",
            At::Snapshot(_) => " within a snapshot",
            At::Transaction(_) => " within a transaction",
            At::Batch(_) => " within a batch",
        };
        format!("<spinney.Table '{}'{within}>", self.0.table.name())
    }
}
