//! How much is logged of what: the parameters `logLevel` and `logComponentVerbosity`.
//!
//! A level of 1 or more for `command` logs each command that ends, as if it were slow. Of the other components the same
//! is logged at each level.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::parse::wrong_type;
use crate::base::{Error, Result};
use crate::bson::{DocumentBuilder, Kind, Value};

/// The components, and those within them.
const COMPONENTS: [(&str, &[&str]); 16] = [
    ("accessControl", &[]),
    ("assert", &[]),
    ("command", &[]),
    ("control", &[]),
    ("executor", &[]),
    ("ftdc", &[]),
    ("geo", &[]),
    ("index", &[]),
    ("network", &["asio", "bridge", "connectionPool"]),
    ("query", &["optimizer", "rejected"]),
    ("replication", &["election", "heartbeats", "initialSync", "rollback"]),
    ("sharding", &["rangeDeleter", "shardingCatalogRefresh"]),
    ("storage", &["journal", "recovery"]),
    ("test", &[]),
    ("transaction", &[]),
    ("write", &[]),
];

/// The greatest level.
const LEVEL_MAX: i32 = 5;

/// The level of a component that has that of what it is within.
const INHERITED: i32 = -1;

/// The levels of all components.
#[derive(Debug, Default)]
pub struct Verbosity {
    /// Those that are not inherited, by names such as `network.asio`; the empty name is for all.
    levels: Mutex<BTreeMap<String, i32>>,
    /// Whether each command is logged. It orders nothing.
    commands: AtomicBool,
}

impl Verbosity {
    /// Whether each command is logged.
    #[must_use]
    pub fn logs_commands(&self) -> bool {
        self.commands.load(Ordering::Relaxed)
    }

    /// The level of all components that have none of their own.
    #[must_use]
    pub fn level(&self) -> i32 {
        self.of("").max(0)
    }

    fn of(&self, name: &str) -> i32 {
        self.levels.lock().get(name).copied().unwrap_or(INHERITED)
    }

    /// Sets the level of all components that have none of their own.
    ///
    /// # Errors
    /// `BadValue` (2) for a level that is not from 0 to 5.
    pub fn set_level(&self, level: i64) -> Result<()> {
        let level = checked(level).filter(|level| *level >= 0);
        let level = level.ok_or_else(|| Error::bad_value(format!("logLevel must be from 0 to {LEVEL_MAX}")))?;
        self.apply(vec![(String::new(), level)]);
        Ok(())
    }

    /// Sets the levels of `{verbosity: 1, command: {verbosity: 2}, network: {asio: {verbosity: 3}}, query: 1}`; all of
    /// them or, when one is wrong, none.
    ///
    /// # Errors
    /// `TypeMismatch` (14) for what is no document, `BadValue` (2) for an unknown component and a level that is not
    /// from -1 to 5.
    pub fn set(&self, levels: Value<'_>) -> Result<()> {
        let Value::Document(levels) = levels else {
            return Err(wrong_type("logComponentVerbosity", &levels, &[Kind::Document]));
        };
        let mut changes = Vec::new();
        let names: Vec<&str> = COMPONENTS.iter().map(|(name, _)| *name).collect();
        for element in levels {
            let name = element.name.to_str_lossy();
            if name == "verbosity" {
                changes.push((String::new(), level_of(&element.value)?));
                continue;
            }
            known(&names, &name)?;
            let within = COMPONENTS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, within)| within);
            read(&name, &element.value, within, &mut changes)?;
        }
        self.apply(changes);
        Ok(())
    }

    fn apply(&self, changes: Vec<(String, i32)>) {
        let mut levels = self.levels.lock();
        levels.extend(changes);
        let of = |name: &str| levels.get(name).copied().filter(|level| *level != INHERITED);
        self.commands.store(of("command").or_else(|| of("")).unwrap_or_default() > 0, Ordering::Relaxed);
    }

    /// Appends the levels of all components.
    pub fn append_to(&self, builder: &mut DocumentBuilder, field: &str) {
        builder.open_document(field).append("verbosity", self.level());
        for (name, within) in COMPONENTS {
            builder.open_document(name).append("verbosity", self.of(name));
            for inner in within {
                builder.open_document(inner).append("verbosity", self.of(&format!("{name}.{inner}"))).close();
            }
            builder.close();
        }
        builder.close();
    }
}

/// Reads the level of a component, and of those within it.
fn read(name: &str, value: &Value<'_>, within: &[&str], changes: &mut Vec<(String, i32)>) -> Result<()> {
    let Value::Document(levels) = value else {
        changes.push((name.to_owned(), level_of(value)?));
        return Ok(());
    };
    for element in *levels {
        let inner = element.name.to_str_lossy();
        if inner == "verbosity" {
            changes.push((name.to_owned(), level_of(&element.value)?));
            continue;
        }
        known(within, &inner)?;
        read(&format!("{name}.{inner}"), &element.value, &[], changes)?;
    }
    Ok(())
}

fn known(names: &[&str], name: &str) -> Result<()> {
    if names.contains(&name) {
        return Ok(());
    }
    Err(Error::bad_value(format!("there is no log component {name}")))
}

fn level_of(value: &Value<'_>) -> Result<i32> {
    let whole = value.as_number().filter(|number| !number.is_nan()).and_then(|number| number.trunc_to_i64());
    whole.and_then(checked).ok_or_else(|| {
        Error::bad_value(format!(
            "the verbosity of a log component is from {INHERITED} to {LEVEL_MAX}, and not {value}"
        ))
    })
}

fn checked(level: i64) -> Option<i32> {
    i32::try_from(level).ok().filter(|level| (INHERITED..=LEVEL_MAX).contains(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_inherited_and_set_all_or_none() {
        let verbosity = Verbosity::default();
        assert!(!verbosity.logs_commands());
        verbosity.set_level(1).unwrap();
        assert!(verbosity.logs_commands());
        verbosity.set(Value::Document(doc! {"command": 0}.view())).unwrap();
        assert!(!verbosity.logs_commands());
        let wrong = doc! {"command": &doc! {"verbosity": 2}, "none": 1};
        assert!(verbosity.set(Value::Document(wrong.view())).is_err());
        assert!(!verbosity.logs_commands());
        verbosity.set(Value::Document(doc! {"command": -1, "network": &doc! {"asio": 2}}.view())).unwrap();
        assert!(verbosity.logs_commands());
        let mut builder = DocumentBuilder::new();
        verbosity.append_to(&mut builder, "v");
        let shown = builder.finish().view().to_json();
        assert!(shown.contains(r#""network":{"verbosity":-1,"asio":{"verbosity":2}"#), "{shown}");
    }
}
