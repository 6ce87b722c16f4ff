//! Rights: which actions a client needs on what, as commands and stages declare it and roles grant it.

/// On what a client needs an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// The cluster.
    Cluster,
    /// All databases and their collections, except those of the system.
    AnyDatabase,
    /// A database and its collections, except those of the system.
    Database(String),
    /// A collection.
    Collection {
        /// The database.
        database: String,
        /// The collection.
        collection: String,
    },
}

/// What a client needs for a command or a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// An action.
    Action(&'static str, On),
    /// That the client lacks an action.
    Lacks(&'static str, On),
    /// All of these; nothing when there are none.
    All(Vec<Need>),
    /// One of these; no client has what is needed when there are none.
    Any(Vec<Need>),
}

impl On {
    /// A collection of a database.
    #[must_use]
    pub fn collection(database: &str, collection: &str) -> Self {
        Self::Collection { database: database.to_owned(), collection: collection.to_owned() }
    }

    /// The collection that a text such as `database.collection` names; the first dot ends the database's name.
    #[must_use]
    pub fn namespace(text: &str) -> Self {
        let (database, collection) = text.split_once('.').unwrap_or((text, ""));
        Self::collection(database, collection)
    }
}

impl Need {
    /// Every client may.
    pub const NOTHING: Self = Self::All(Vec::new());

    /// No client may.
    pub const NEVER: Self = Self::Any(Vec::new());

    /// Some actions, all on the same.
    #[must_use]
    pub fn actions(actions: &[&'static str], on: &On) -> Self {
        Self::All(actions.iter().map(|action| Self::Action(action, on.clone())).collect())
    }

    /// Whether a client may whose roles allow actions as `allows` says.
    #[must_use]
    pub fn is_met(&self, allows: &dyn Fn(&str, &On) -> bool) -> bool {
        match self {
            Self::Action(action, on) => allows(action, on),
            Self::Lacks(action, on) => !allows(action, on),
            Self::All(needs) => needs.iter().all(|need| need.is_met(allows)),
            Self::Any(needs) => needs.iter().any(|need| need.is_met(allows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_always_met_and_never_is_not() {
        let (all, none) = (|_: &str, _: &On| true, |_: &str, _: &On| false);
        assert!(Need::NOTHING.is_met(&none) && !Need::NEVER.is_met(&all));
        let find = Need::Action("find", On::namespace("a.b.c"));
        assert!(
            find.is_met(&|action, on| action == "find" && *on == On::collection("a", "b.c")) && !find.is_met(&none)
        );
        let either = Need::Any(vec![find.clone(), Need::Lacks("find", On::Cluster)]);
        assert!(either.is_met(&none) && either.is_met(&all));
        assert!(!Need::All(vec![either, find]).is_met(&none));
        assert!(!Need::actions(&["find", "insert"], &On::Cluster).is_met(&|action, _| action == "find"));
    }
}
