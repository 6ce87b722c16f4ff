//! The users of a server, in the collection `admin.system.users`, so that dumps move them.
//!
//! # Concurrency
//!
//! Each change is a transaction of its own and raises the generation behind it, so that connections look at their roles
//! again. A change that is not made here, such as a restored dump, is seen by the next login.

use std::sync::atomic::{AtomicU64, Ordering};

use spinney_document::base::ErrorCode;
use spinney_document::bson::{Document, DocumentBuf};
use spinney_document::{Collection, Database, Error, Result};

use crate::auth::User;
use crate::auth::credentials::random_bytes;

/// Where users are kept.
const COLLECTION: &str = "admin.system.users";

/// The users of a server.
#[derive(Debug)]
pub struct Users {
    database: Database,
    /// How often users were changed; published after the change is.
    generation: AtomicU64,
    /// What the credentials of users who are not there follow from.
    secret: Vec<u8>,
}

fn no_such_user(database: &str, name: &str) -> Error {
    Error::new(ErrorCode::new(11), format!("Could not find user \"{name}\" for db \"{database}\""))
}

impl Users {
    /// The users in a database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        // Without randomness a login of nobody differs from one of somebody, which is all that is lost.
        let secret = random_bytes(32).unwrap_or_default();
        Self { database, generation: AtomicU64::new(1), secret }
    }

    /// How often users were changed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What the credentials of users who are not there follow from.
    #[must_use]
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    fn collection(&self) -> Result<Option<Collection>> {
        self.database.collection(COLLECTION)
    }

    /// A user, if there is one with the name.
    ///
    /// # Errors
    /// Those of the engine and of [`User::parse`].
    pub fn find(&self, database: &str, name: &str) -> Result<Option<User>> {
        let Some(collection) = self.collection()? else { return Ok(None) };
        let key = User::key(database, name);
        match collection.find_by_id(key.as_str())? {
            Some(stored) => User::parse(stored.view()).map(Some),
            None => Ok(None),
        }
    }

    /// Whether there are no users.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn are_none(&self) -> Result<bool> {
        match self.collection()? {
            Some(collection) => Ok(collection.documents().next().transpose()?.is_none()),
            None => Ok(true),
        }
    }

    /// All users of a database, or of all.
    ///
    /// # Errors
    /// Those of the engine and of [`User::parse`].
    pub fn list(&self, database: Option<&str>) -> Result<Vec<User>> {
        let Some(collection) = self.collection()? else { return Ok(Vec::new()) };
        let mut users = Vec::new();
        for document in collection.documents() {
            let user = User::parse(document?.view())?;
            if database.is_none_or(|database| user.database == database) {
                users.push(user);
            }
        }
        Ok(users)
    }

    /// Adds a user.
    ///
    /// # Errors
    /// 51003 when there is one with the name; those of the engine.
    pub fn add(&self, user: &User) -> Result<()> {
        let collection = self.database.collection_or_create(COLLECTION)?;
        let added = collection.insert_one(user.document().view());
        self.changed();
        match added {
            Err(error) if error.code() == ErrorCode::DUPLICATE_KEY => {
                let what = format!("User \"{}@{}\" already exists", user.name, user.database);
                Err(Error::new(ErrorCode::new(51_003), what))
            }
            added => added.map(drop),
        }
    }

    /// Changes a user; fields of the document that this server does not know stay.
    ///
    /// # Errors
    /// `UserNotFound` (11), those of `change` and of the engine.
    pub fn change(&self, database: &str, name: &str, change: impl Fn(&mut User) -> Result<()>) -> Result<()> {
        let collection = self.collection()?.ok_or_else(|| no_such_user(database, name))?;
        let key = User::key(database, name);
        let changed = collection.transact(spinney_document::collection::WriteOptions::default(), |txn| {
            let id = key.as_str().into();
            let stored = txn.find_by_id(collection.state(), &id)?.ok_or_else(|| no_such_user(database, name))?;
            let mut user = User::parse(stored.view())?;
            change(&mut user)?;
            let new = with_unknown_fields(user.document().view(), stored.view());
            txn.replace(collection.state(), stored.view(), new.view()).map(drop)
        });
        self.changed();
        changed
    }

    /// Removes a user.
    ///
    /// # Errors
    /// `UserNotFound` (11); those of the engine.
    pub fn remove(&self, database: &str, name: &str) -> Result<()> {
        let removed = match self.collection()? {
            Some(collection) => collection.delete_by_id(User::key(database, name).as_str())?,
            None => false,
        };
        self.changed();
        if removed { Ok(()) } else { Err(no_such_user(database, name)) }
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// The fields of `new`, and those of `old` that a user of this server does not have.
fn with_unknown_fields(new: Document<'_>, old: Document<'_>) -> DocumentBuf {
    let mut builder = spinney_document::bson::DocumentBuilder::new();
    builder.append_all(new);
    let known = ["_id", "userId", "user", "db", "credentials", "roles", "customData"];
    for element in old.elements().filter(|element| !known.iter().any(|name| element.name == *name)) {
        builder.append_element(&element);
    }
    builder.finish()
}
