//! Keyword arguments as options: their names, kinds and ranges are the engine's.

use std::str::FromStr;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt};
use spinney::{Durability, Error, Isolation, NamedOption, OptionKind, Options, Prefix, TableOptions};

use crate::bytes::Bytes;
use crate::error::{Raise as _, invalid};

/// One of the engine's values by its name.
fn named<T: FromStr<Err = Error>>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    let name: String = value.extract()?;
    name.parse::<T>().raise(value.py())
}

/// A durability by its name.
pub(crate) fn durability(value: &Bound<'_, PyAny>) -> PyResult<Durability> {
    named(value)
}

/// An isolation by its name.
pub(crate) fn isolation(value: &Bound<'_, PyAny>) -> PyResult<Isolation> {
    named(value)
}

/// Options of a database.
pub(crate) fn database(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    set(given, "database", Options::named())
}

/// Options of a table.
pub(crate) fn table(given: Option<&Bound<'_, PyDict>>) -> PyResult<TableOptions> {
    set(given, "table", TableOptions::named())
}

/// The default options of `what`, with those that are given. `None` leaves an option as it is.
fn set<O: Default>(given: Option<&Bound<'_, PyDict>>, what: &str, named: &[NamedOption<O>]) -> PyResult<O> {
    let mut options = O::default();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        let Some(option) = named.iter().find(|option| option.name() == name) else {
            let known: Vec<&str> = named.iter().map(NamedOption::name).collect();
            let known = known.join(", ");
            return Err(PyTypeError::new_err(format!("a {what} has no option '{name}': there are {known}")));
        };
        if !value.is_none() {
            let text = text(option.kind(), &name, &value)?;
            option.set(&mut options, &text).raise(value.py())?;
        }
    }
    Ok(options)
}

/// An option's value as the text of its kind.
fn text(kind: OptionKind, option: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    match kind {
        OptionKind::Flag => Ok(value.cast::<PyBool>()?.is_true().to_string()),
        // A number of any size, so that the engine tells the range.
        OptionKind::Number(..) | OptionKind::NumberOrZero(..) => Ok(value.cast::<PyInt>()?.str()?.extract()?),
        OptionKind::Seconds(..) => {
            let seconds: f64 = value.extract()?;
            let time = Duration::try_from_secs_f64(seconds).map_err(|_| {
                invalid(value.py(), &format!("{option} is {seconds}: it must be a time in seconds, from 0 on"))
            })?;
            Ok(format!("{}.{:09}", time.as_secs(), time.subsec_nanos()))
        }
        OptionKind::Prefix => prefix(value).map(|prefix| prefix.to_string()),
        OptionKind::Path => {
            let path: std::path::PathBuf = value.extract()?;
            path.into_os_string()
                .into_string()
                .map_err(|_| invalid(value.py(), &format!("the path {option} must be UTF-8")))
        }
        _ => value.extract(),
    }
}

/// A number of bytes, or the byte that ends a prefix.
fn prefix(value: &Bound<'_, PyAny>) -> PyResult<Prefix> {
    if let Ok(count) = value.extract::<u8>() {
        return Ok(Prefix::Bytes(count));
    }
    match value.extract::<Bytes<'_>>()?.as_slice() {
        [end] => Ok(Prefix::UpTo(*end)),
        _ => {
            Err(invalid(value.py(), "prefix_filter is a number of bytes, 1 to 255, or the one byte that ends a prefix"))
        }
    }
}
