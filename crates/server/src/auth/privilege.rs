//! Privileges: actions on resources, as roles grant them and commands need them.

use std::collections::HashMap;
use std::fmt;

use spinney_document::base::On;
use spinney_document::bson::{Array, Document, DocumentBuilder};
use spinney_document::{Error, ErrorCode, Result};

use super::actions;
use crate::base::fields::Fields;

/// On what a privilege allows its actions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The cluster.
    Cluster,
    /// Everything, the cluster and the collections of the system included.
    Any,
    /// Collections.
    Collections {
        /// The database; empty for all.
        database: String,
        /// The collection; empty for all but those of the system.
        collection: String,
    },
}

/// On what an action is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The cluster.
    Cluster,
    /// All databases; their collections in general.
    AnyDatabase,
    /// A database; its collections in general.
    Database(&'a str),
    /// A collection of a database.
    Collection(&'a str, &'a str),
}

/// Actions on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The resource.
    pub resource: Resource,
    /// The actions, sorted, each once.
    pub actions: Vec<String>,
}

/// Privileges, one for each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    all: Vec<Privilege>,
    /// The place of each resource among them.
    places: HashMap<Resource, usize>,
}

impl<'a> From<&'a On> for Target<'a> {
    fn from(on: &'a On) -> Self {
        match on {
            On::Cluster => Self::Cluster,
            On::AnyDatabase => Self::AnyDatabase,
            On::Database(database) => Self::Database(database),
            On::Collection { database, collection } => Self::Collection(database, collection),
        }
    }
}

impl Resource {
    /// The collections of a database; an empty name stands for all.
    #[must_use]
    pub fn collections(database: &str, collection: &str) -> Self {
        Self::Collections { database: database.to_owned(), collection: collection.to_owned() }
    }

    /// The resource that a document is: `{cluster: true}`, `{anyResource: true}` or `{db: .., collection: ..}`.
    ///
    /// # Errors
    /// `BadValue` (2) for another form, `NotImplemented` (238) for `system_buckets`, `TypeMismatch` (14).
    pub fn parse(document: Document<'_>) -> Result<Self> {
        let fields = Fields::new("resource", document);
        let named = |name: &str| document.elements().all(|element| element.name == *name);
        if document.get("system_buckets").is_some() {
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, "resources with system_buckets are not supported"));
        }
        if fields.bool("cluster")? == Some(true) && named("cluster") {
            return Ok(Self::Cluster);
        }
        if fields.bool("anyResource")? == Some(true) && named("anyResource") {
            return Ok(Self::Any);
        }
        match (fields.text("db")?, fields.text("collection")?) {
            (Some(database), Some(collection)) if document.elements().count() == 2 => {
                Ok(Self::collections(database, collection))
            }
            _ => {
                Err(Error::bad_value("a resource is {cluster: true}, {anyResource: true} or {db: .., collection: ..}"))
            }
        }
    }

    /// The database that is all that it reaches, if there is one.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        match self {
            Self::Collections { database, .. } if !database.is_empty() => Some(database),
            _ => None,
        }
    }

    fn covers(&self, target: Target<'_>) -> bool {
        let (database, collection) = match self {
            Self::Any => return true,
            Self::Cluster => return target == Target::Cluster,
            Self::Collections { database, collection } => (database.as_str(), collection.as_str()),
        };
        let within = |wanted: &str| database.is_empty() || database == wanted;
        match target {
            Target::Cluster => false,
            Target::AnyDatabase => database.is_empty() && collection.is_empty(),
            Target::Database(wanted) => within(wanted) && collection.is_empty(),
            Target::Collection(wanted, name) if collection.is_empty() => within(wanted) && !name.starts_with("system."),
            Target::Collection(wanted, name) => within(wanted) && collection == name,
        }
    }

    fn append_to(&self, builder: &mut DocumentBuilder) {
        builder.open_document("resource");
        match self {
            Self::Cluster => builder.append("cluster", true),
            Self::Any => builder.append("anyResource", true),
            Self::Collections { database, collection } => {
                builder.append("db", database.as_str()).append("collection", collection.as_str())
            }
        };
        builder.close();
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("the cluster"),
            Self::Any => f.write_str("any resource"),
            Self::Collections { database, collection } => write!(f, "{database}.{collection}"),
        }
    }
}

impl Privileges {
    /// The privileges in an array of `{resource, actions}`.
    ///
    /// # Errors
    /// `BadValue` (2) for an action that there is not, those of [`Resource::parse`] and [`Fields`].
    pub fn parse(array: Array<'_>) -> Result<Self> {
        let mut parsed = Self::default();
        for value in array.values() {
            let document = value.as_document().ok_or_else(|| Error::bad_value("a privilege is a document"))?;
            let fields = Fields::new("privilege", document);
            let missing = || Error::bad_value("a privilege has a resource and actions");
            let resource = Resource::parse(fields.nested("resource")?.ok_or_else(missing)?)?;
            let mut names = Vec::new();
            for action in fields.array("actions")?.ok_or_else(missing)?.values() {
                let action = action.as_str().ok_or_else(|| Error::bad_value("actions are strings"))?;
                if !actions::is_known(action) {
                    return Err(Error::bad_value(format!("Unrecognized action privilege string: {action}")));
                }
                names.push(action);
            }
            if names.is_empty() {
                return Err(Error::bad_value("a privilege needs at least one action"));
            }
            parsed.add(&resource, names);
        }
        Ok(parsed)
    }

    /// Adds actions on a resource.
    pub fn add<'a>(&mut self, resource: &Resource, actions: impl IntoIterator<Item = &'a str>) {
        let at = *self.places.entry(resource.clone()).or_insert(self.all.len());
        if at == self.all.len() {
            self.all.push(Privilege { resource: resource.clone(), actions: Vec::new() });
        }
        let Some(privilege) = self.all.get_mut(at) else { return };
        privilege.actions.extend(actions.into_iter().map(str::to_owned));
        privilege.actions.sort_unstable();
        privilege.actions.dedup();
    }

    /// Adds privileges.
    pub fn add_all(&mut self, more: &Self) {
        for privilege in &more.all {
            self.add(&privilege.resource, privilege.actions.iter().map(String::as_str));
        }
    }

    /// Takes the actions of privileges away, each from the same resource only.
    pub fn remove_all(&mut self, less: &Self) {
        for privilege in &mut self.all {
            let gone = less.places.get(&privilege.resource).and_then(|at| less.all.get(*at));
            privilege.actions.retain(|action| gone.is_none_or(|gone| !gone.actions.contains(action)));
        }
        self.all.retain(|privilege| !privilege.actions.is_empty());
        self.places = self.all.iter().enumerate().map(|(at, privilege)| (privilege.resource.clone(), at)).collect();
    }

    /// Whether they allow an action on something.
    #[must_use]
    pub fn allow(&self, action: &str, target: Target<'_>) -> bool {
        let mut covering = self.all.iter().filter(|privilege| privilege.resource.covers(target));
        covering.any(|privilege| privilege.actions.iter().any(|allowed| allowed == action))
    }

    /// Whether they allow anything at all in a database or on one of its collections.
    #[must_use]
    pub fn reach_database(&self, name: &str) -> bool {
        self.all.iter().any(|privilege| match &privilege.resource {
            Resource::Any => true,
            Resource::Cluster => false,
            Resource::Collections { database, .. } => database.is_empty() || database == name,
        })
    }

    /// Whether they allow anything at all on a collection.
    #[must_use]
    pub fn reach_collection(&self, database: &str, collection: &str) -> bool {
        self.all.iter().any(|privilege| privilege.resource.covers(Target::Collection(database, collection)))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Privilege> {
        self.all.iter()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Appends them as an array of `{resource, actions}`.
    pub fn append_to(&self, builder: &mut DocumentBuilder, name: &str) {
        builder.open_array(name);
        for privilege in &self.all {
            builder.push_document();
            privilege.resource.append_to(builder);
            builder.open_array("actions");
            for action in &privilege.actions {
                builder.push(action.as_str());
            }
            builder.close().close();
        }
        builder.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::bson::DocumentBuf;

    fn parsed(json: &str) -> Result<Privileges> {
        let document = DocumentBuf::from_json(&format!(r#"{{"p": {json}}}"#)).unwrap();
        Privileges::parse(document.view().get("p").unwrap().as_array().unwrap())
    }

    #[test]
    fn a_resource_covers_what_it_names_and_system_collections_by_name_only() {
        let all = parsed(r#"[{"resource": {"db": "a", "collection": ""}, "actions": ["find"]}]"#).unwrap();
        assert!(all.allow("find", Target::Collection("a", "c")) && all.allow("find", Target::Database("a")));
        assert!(!all.allow("find", Target::Collection("a", "system.js")));
        assert!(!all.allow("find", Target::Collection("b", "c")) && !all.allow("insert", Target::Collection("a", "c")));
        let one = parsed(r#"[{"resource": {"db": "", "collection": "system.js"}, "actions": ["find"]}]"#).unwrap();
        assert!(one.allow("find", Target::Collection("b", "system.js")) && !one.allow("find", Target::Database("b")));
        let any = parsed(r#"[{"resource": {"anyResource": true}, "actions": ["find", "shutdown"]}]"#).unwrap();
        assert!(any.allow("shutdown", Target::Cluster) && any.allow("find", Target::Collection("a", "system.users")));
        assert!(one.reach_database("x") && one.reach_collection("x", "system.js") && !one.reach_collection("x", "y"));
    }

    #[test]
    fn privileges_are_merged_by_resource_and_taken_away_so() {
        let mut all = parsed(
            r#"[{"resource": {"db": "a", "collection": "c"}, "actions": ["update", "find"]},
                {"resource": {"db": "a", "collection": "c"}, "actions": ["find", "insert"]},
                {"resource": {"cluster": true}, "actions": ["shutdown"]}]"#,
        )
        .unwrap();
        assert_eq!(all.iter().next().unwrap().actions, ["find", "insert", "update"]);
        all.remove_all(&parsed(r#"[{"resource": {"db": "a", "collection": "c"}, "actions": ["find"]}]"#).unwrap());
        all.remove_all(&parsed(r#"[{"resource": {"db": "a", "collection": ""}, "actions": ["insert"]}]"#).unwrap());
        all.remove_all(&parsed(r#"[{"resource": {"cluster": true}, "actions": ["shutdown"]}]"#).unwrap());
        let mut shown = DocumentBuilder::new();
        all.append_to(&mut shown, "p");
        assert_eq!(
            shown.finish().view().to_json(),
            r#"{"p":[{"resource":{"db":"a","collection":"c"},"actions":["insert","update"]}]}"#
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for json in [
            "[1]",
            r#"[{"actions": ["find"]}]"#,
            r#"[{"resource": {}, "actions": ["find"]}]"#,
            r#"[{"resource": {"db": "a"}, "actions": ["find"]}]"#,
            r#"[{"resource": {"cluster": true, "db": "a"}, "actions": ["find"]}]"#,
            r#"[{"resource": {"cluster": true}, "actions": ["fly"]}]"#,
            r#"[{"resource": {"cluster": true}, "actions": []}]"#,
            r#"[{"resource": {"cluster": true}}]"#,
        ] {
            assert_eq!(parsed(json).unwrap_err().code(), ErrorCode::BAD_VALUE, "{json}");
        }
        let buckets = r#"[{"resource": {"db": "a", "system_buckets": "b"}, "actions": ["find"]}]"#;
        assert_eq!(parsed(buckets).unwrap_err().code(), ErrorCode::NOT_IMPLEMENTED);
    }
}
