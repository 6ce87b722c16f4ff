//! What the names of a catalog stand for, and the ways to find it: by name, by number, by database.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::damage::Damage;
use super::namespace::Namespace;
use super::options::CollectionOptions;
use super::state::CollectionState;
use crate::collation::Collated;

/// What a namespace names.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A collection.
    Collection(Arc<CollectionState>),
    /// A view.
    View(Arc<CollectionOptions>),
    /// What cannot be used, but can be dropped.
    Damaged(Arc<Damage>),
}

impl Entry {
    /// The collation of the collection or view.
    #[must_use]
    pub fn collation(&self) -> Collated {
        match self {
            Self::Collection(state) => state.schema().options.collation.clone(),
            Self::View(options) => options.collation.clone(),
            Self::Damaged(_) => None,
        }
    }

    pub(super) fn has_options(&self, options: &CollectionOptions) -> bool {
        match self {
            Self::Collection(state) => state.schema().options.document() == options.document(),
            Self::View(view) => view.document() == options.document(),
            Self::Damaged(_) => false,
        }
    }
}

/// The collections and views by their names. A look-up by name or by number, and a change, take the logarithm of how
/// many there are at the most; what concerns a database takes as many steps as the database has names.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_name: BTreeMap<Namespace, Entry>,
    by_number: HashMap<u64, Arc<CollectionState>>,
    /// By the names of the databases in lower case: the databases that are called so, and how many names each has.
    databases: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Names {
    /// What a name stands for.
    pub(super) fn get(&self, namespace: &Namespace) -> Option<&Entry> {
        self.by_name.get(namespace)
    }

    /// The collection with a number.
    pub(super) fn by_number(&self, number: u64) -> Option<&Arc<CollectionState>> {
        self.by_number.get(&number)
    }

    /// Gives a name what it stands for, in the place of what it stood for.
    pub(super) fn insert(&mut self, namespace: Namespace, entry: Entry) {
        let database = namespace.database().to_owned();
        let state = match &entry {
            Entry::Collection(state) => Some(Arc::clone(state)),
            Entry::View(_) | Entry::Damaged(_) => None,
        };
        match self.by_name.insert(namespace, entry) {
            Some(Entry::Collection(before)) => self.forget_number(&before),
            Some(_) => {}
            None => *self.databases.entry(database.to_lowercase()).or_default().entry(database).or_default() += 1,
        }
        self.by_number.extend(state.map(|state| (state.number, state)));
    }

    /// Takes a name away; what it stood for.
    pub(super) fn remove(&mut self, namespace: &Namespace) -> Option<Entry> {
        let entry = self.by_name.remove(namespace)?;
        if let Entry::Collection(state) = &entry {
            self.forget_number(state);
        }
        let lower = namespace.database().to_lowercase();
        if let Some(alike) = self.databases.get_mut(&lower) {
            if let Some(count) = alike.get_mut(namespace.database()) {
                *count -= 1;
            }
            alike.retain(|_, count| *count > 0);
            if alike.is_empty() {
                self.databases.remove(&lower);
            }
        }
        Some(entry)
    }

    fn forget_number(&mut self, state: &Arc<CollectionState>) {
        // Another name may stand for the number by now.
        if self.by_number.get(&state.number).is_some_and(|known| Arc::ptr_eq(known, state)) {
            self.by_number.remove(&state.number);
        }
    }

    /// All names in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Namespace, &Entry)> {
        self.by_name.iter()
    }

    /// The names of a database in their order.
    pub(super) fn of_database<'n>(&'n self, database: &'n str) -> impl Iterator<Item = (&'n Namespace, &'n Entry)> {
        let first = Namespace::before_all_of(database);
        self.by_name
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(name, _)| name.database() == database)
    }

    /// The names of the databases, in the order of their collections.
    pub(super) fn databases(&self) -> Vec<String> {
        let mut names: Vec<String> = self.databases.values().flat_map(|alike| alike.keys().cloned()).collect();
        names.sort_by(|a, b| a.bytes().chain([b'.']).cmp(b.bytes().chain([b'.'])));
        names
    }

    /// A database that is called so but for capital and small letters.
    pub(super) fn alike(&self, database: &str) -> Option<&str> {
        let alike = self.databases.get(&database.to_lowercase())?;
        alike.keys().map(String::as_str).find(|name| *name != database)
    }
}

#[cfg(test)]
mod tests {
    use spinney_testkit::assert_growth;

    use super::*;
    use crate::bson::Document;

    #[test]
    fn names_are_found_by_database_and_regardless_of_case() {
        let name = |text: &str| Namespace::parse(text).unwrap();
        let view = || Entry::View(Arc::new(CollectionOptions::parse(Document::empty()).unwrap()));
        let mut names = Names::default();
        for text in ["a.x", "a-b.c", "a.b", "aa.x", "A.x"] {
            names.insert(name(text), view());
            names.insert(name(text), view());
        }
        let of = |names: &Names, database: &str| -> Vec<String> {
            names.of_database(database).map(|(name, _)| name.as_str().to_owned()).collect()
        };
        assert_eq!(of(&names, "a"), ["a.b", "a.x"]);
        assert_eq!(of(&names, "a-b"), ["a-b.c"]);
        assert_eq!(of(&names, "b"), [] as [&str; 0]);
        assert_eq!(names.databases(), ["A", "a-b", "a", "aa"]);
        assert_eq!((names.alike("a"), names.alike("AA"), names.alike("aa")), (Some("A"), Some("aa"), None));
        assert!(names.remove(&name("A.x")).is_some() && names.remove(&name("A.x")).is_none());
        assert_eq!((names.alike("a"), names.databases().len()), (None, 3));
        names.remove(&name("a.x"));
        assert_eq!((of(&names, "a"), names.databases().len()), (vec!["a.b".to_owned()], 3));
    }

    /// For each new collection the names of all databases were written in small letters, and a commit of another member
    /// looked at all collections for the number of each that it changes.
    #[test]
    fn names_are_found_among_any_number_of_others() {
        assert_growth(
            "names of databases",
            2000,
            9.0,
            |count| count,
            |count| {
                let mut names = Names::default();
                for number in 0..count {
                    let name = Namespace::parse(&format!("Db{number}.c")).unwrap();
                    assert!(
                        names.alike(name.database()).is_none() && names.of_database(name.database()).next().is_none()
                    );
                    assert!(names.by_number(u64::try_from(number).unwrap()).is_none());
                    names.insert(name, Entry::View(Arc::new(CollectionOptions::parse(Document::empty()).unwrap())));
                }
            },
        );
    }
}
