//! Names of databases and collections: `database.collection`.

use std::fmt;

use crate::base::{Error, ErrorCode, Result};

/// The longest name of a database in bytes.
pub const DATABASE_BYTES_MAX: usize = 63;

/// The longest namespace in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 255;

/// A collection whose name begins with `system.`.
#[derive(Clone, Copy, Debug)]
struct System {
    name: &'static str,
    /// Whether it holds what proves passwords or gives rights, which nothing else shows.
    holds_secrets: bool,
}

/// The collections that may begin with `system.`.
const SYSTEM: [System; 7] = [
    System { name: "system.views", holds_secrets: false },
    System { name: "system.profile", holds_secrets: false },
    System { name: "system.js", holds_secrets: false },
    System { name: "system.users", holds_secrets: true },
    System { name: "system.roles", holds_secrets: true },
    System { name: "system.version", holds_secrets: false },
    System { name: "system.sessions", holds_secrets: false },
];

fn system(collection: &str) -> Option<&'static System> {
    SYSTEM.iter().find(|system| system.name == collection)
}

/// The name of a collection with that of its database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    text: String,
    dot: usize,
}

impl Namespace {
    /// The namespace of a collection in a database.
    ///
    /// # Errors
    /// `InvalidNamespace` (73) for names that are empty, too long, or hold characters that they may not.
    pub fn new(database: &str, collection: &str) -> Result<Self> {
        if collection.starts_with("system.") && system(collection).is_none() {
            let what = format!("Invalid system namespace: {database}.{collection}");
            return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
        }
        if collection.contains(".system.") {
            return Err(Error::new(
                ErrorCode::INVALID_NAMESPACE,
                format!("Invalid namespace: {database}.{collection}"),
            ));
        }
        Self::to_read(database, collection)
    }

    /// The namespace of a collection that is read: also one with `system.` in its name, which is then not there.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn to_read(database: &str, collection: &str) -> Result<Self> {
        let invalid = |what: String| Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
        let text = [database, ".", collection].concat();
        let forbidden = |c: char| matches!(c, '/' | '\\' | '.' | ' ' | '"' | '$' | '\0');
        if database.is_empty() || database.len() > DATABASE_BYTES_MAX || database.contains(forbidden) {
            return invalid(format!("Invalid database name: '{database}'"));
        }
        if collection.is_empty() || collection.starts_with('.') || collection.contains(['$', '\0']) {
            return invalid(format!("Invalid collection name: '{collection}'"));
        }
        if text.len() > NAMESPACE_BYTES_MAX {
            let what = format!("Fully qualified namespace is too long. Namespace: {text} Max: {NAMESPACE_BYTES_MAX}");
            return invalid(what);
        }
        Ok(Self { text, dot: database.len() })
    }

    /// What is before all namespaces of a database in their order, and names no collection.
    pub(super) fn before_all_of(database: &str) -> Self {
        Self { text: [database, "."].concat(), dot: database.len() }
    }

    /// The namespace that a text like `database.collection` names; the first dot ends the database's name.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn parse(text: &str) -> Result<Self> {
        let (database, collection) = text.split_once('.').unwrap_or((text, ""));
        Self::new(database, collection)
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.text[..self.dot]
    }

    /// The collection.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.text[self.dot + 1..]
    }

    /// Whether the collection holds what proves passwords or gives rights, so that no view may be on it.
    #[must_use]
    pub fn holds_secrets(&self) -> bool {
        system(self.collection()).is_some_and(|system| system.holds_secrets)
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_rules() {
        let namespace = Namespace::parse("shop.orders.old").unwrap();
        assert_eq!((namespace.database(), namespace.collection()), ("shop", "orders.old"));
        for wrong in ["", "a", "a.", ".b", "a..b", "a b.c", "a.$b", "a.system.b", "a.b.system.c", "a.b\0"] {
            assert_eq!(Namespace::parse(wrong).unwrap_err().code(), ErrorCode::INVALID_NAMESPACE, "{wrong}");
        }
        assert!(Namespace::new(&"d".repeat(64), "c").is_err());
        assert!(Namespace::new("d", &"c".repeat(253)).is_ok());
        assert!(Namespace::new("d", &"c".repeat(254)).is_err());
        assert!(Namespace::parse("a.system.views").is_ok());
        assert!(Namespace::parse("a.b.systems.c").is_ok() && Namespace::to_read("a", "b.system.c").is_ok());
        assert!(Namespace::to_read("a", "system.b").is_ok() && Namespace::to_read("a", "system.$").is_err());
    }
}
