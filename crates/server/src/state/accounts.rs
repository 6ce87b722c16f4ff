//! The users of a server and the roles that clients define.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use spinney_document::bson::{Document, DocumentBuf};
use spinney_document::{Database, Error, ErrorCode, Result};

use super::auth_schema;
use super::records::{Record, Records};
use crate::auth::credentials::random_bytes;
use crate::auth::{MemberKey, Privileges, Role, RoleName, User, roles};

/// The users of a server and the roles that clients define.
#[derive(Debug)]
pub struct Accounts {
    /// The users.
    pub users: Records<User>,
    /// The roles that clients define.
    pub roles: Records<Role>,
    /// The user as whom other members of the replica set log in.
    member: Option<User>,
    /// Held while a role is changed, so that two changes make no circle of roles together. Nothing is taken under it
    /// but what a transaction takes.
    pub changing: Mutex<()>,
    /// How often they were changed.
    generation: Arc<AtomicU64>,
    /// What the credentials of users who are not there follow from.
    secret: Vec<u8>,
}

/// What roles give: all roles that they have the privileges of, themselves first, and the privileges.
#[derive(Clone, Debug, Default)]
pub struct Granted {
    /// The roles, each once.
    pub roles: Vec<RoleName>,
    /// The privileges.
    pub privileges: Privileges,
}

/// What a role consists of.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Whether it is a built-in role.
    pub built_in: bool,
    /// The roles whose privileges it has.
    pub roles: Vec<RoleName>,
    /// The privileges of its own.
    pub privileges: Privileges,
}

impl Record for User {
    const COLLECTION: &str = "admin.system.users";
    const FIELDS: &[&str] = &["_id", "userId", "user", "db", "credentials", "roles", "customData"];

    fn parse(document: Document<'_>) -> Result<Self> {
        Self::parse(document)
    }

    fn document(&self) -> DocumentBuf {
        self.document()
    }

    fn database(&self) -> &str {
        &self.database
    }

    fn missing(key: &str) -> Error {
        let (database, name) = key.split_once('.').unwrap_or(("", key));
        Error::new(ErrorCode::USER_NOT_FOUND, format!("Could not find user \"{name}\" for db \"{database}\""))
    }

    fn exists(&self) -> Error {
        Error::new(ErrorCode::new(51_003), format!("User \"{}@{}\" already exists", self.name, self.database))
    }
}

impl Record for Role {
    const COLLECTION: &str = "admin.system.roles";
    const FIELDS: &[&str] = &["_id", "role", "db", "privileges", "roles"];

    fn parse(document: Document<'_>) -> Result<Self> {
        Self::parse(document)
    }

    fn document(&self) -> DocumentBuf {
        self.document()
    }

    fn database(&self) -> &str {
        &self.name.database
    }

    fn missing(key: &str) -> Error {
        let (database, role) = key.split_once('.').unwrap_or(("", key));
        no_such_role(&RoleName { role: role.to_owned(), database: database.to_owned() })
    }

    fn exists(&self) -> Error {
        Error::new(ErrorCode::new(51_002), format!("Role \"{}\" already exists", self.name))
    }
}

/// `RoleNotFound` (31).
#[must_use]
pub fn no_such_role(role: &RoleName) -> Error {
    Error::new(ErrorCode::ROLE_NOT_FOUND, format!("Could not find role: {role}"))
}

impl Accounts {
    /// The users and roles in a database, and the user as whom members of a replica set log in by a key.
    #[must_use]
    pub fn new(database: Database, key: Option<&MemberKey>) -> Self {
        let generation = database.catalog().generation_of(&[User::COLLECTION, Role::COLLECTION]);
        // Without randomness a login of nobody differs from one of somebody, which is all that is lost.
        let secret = random_bytes(32).unwrap_or_default();
        Self {
            users: Records::new(database.clone(), Arc::clone(&generation)),
            roles: Records::new(database, Arc::clone(&generation)),
            // Without randomness no member can log in, which the log tells for each.
            member: key.and_then(|key| key.user().ok()),
            changing: Mutex::default(),
            generation,
            secret,
        }
    }

    /// The user with a key, if there is one; also the one as whom members log in.
    ///
    /// # Errors
    /// Those of the engine and of [`User::parse`].
    pub fn find(&self, key: &str) -> Result<Option<User>> {
        let member = self.member.as_ref().filter(|member| User::key(&member.database, &member.name) == key);
        match member {
            Some(member) => Ok(Some(member.clone())),
            None => self.users.find(key),
        }
    }

    /// Stores the version of the form of users and roles in a database whose users were made before the version was
    /// stored with them; whether there are users or roles.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn store_schema(&self, database: &Database) -> Result<bool> {
        let there = !self.users.are_none()? || !self.roles.are_none()?;
        if there {
            auth_schema::store(database)?;
        }
        Ok(there)
    }

    /// How often users and roles were changed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Lets connections look at their users and roles again.
    pub fn touch(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// What the credentials of users who are not there follow from.
    #[must_use]
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// What a role consists of, built in or not; nothing when there is none.
    ///
    /// # Errors
    /// Those of the engine and of [`Role::parse`].
    pub fn contents(&self, role: &RoleName) -> Result<Option<Contents>> {
        if let Some((roles, privileges)) = roles::contents(role) {
            return Ok(Some(Contents { built_in: true, roles, privileges }));
        }
        let own = self.roles.find(&role.key())?;
        Ok(own.map(|role| Contents { built_in: false, roles: role.roles, privileges: role.privileges }))
    }

    /// What roles give. Roles that are not there give nothing; circles, which a restored dump may have, end.
    ///
    /// # Errors
    /// Those of the engine and of [`Role::parse`].
    pub fn granted(&self, roles: &[RoleName]) -> Result<Granted> {
        let mut granted = Granted::default();
        let mut seen = HashSet::new();
        let mut add = |to: &mut Vec<RoleName>, roles: &[RoleName]| {
            to.extend(roles.iter().filter(|role| seen.insert((*role).clone())).cloned());
        };
        add(&mut granted.roles, roles);
        let mut at = 0;
        while let Some(role) = granted.roles.get(at).cloned() {
            if let Some(contents) = self.contents(&role)? {
                add(&mut granted.roles, &contents.roles);
                granted.privileges.add_all(&contents.privileges);
            }
            at += 1;
        }
        Ok(granted)
    }

    /// Takes roles from all users and roles that have them.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn revoke_everywhere(&self, gone: &[RoleName]) -> Result<()> {
        let gone: HashSet<&RoleName> = gone.iter().collect();
        let has = |roles: &[RoleName]| roles.iter().any(|role| gone.contains(role));
        for user in self.users.list(None)?.iter().filter(|user| has(&user.roles)) {
            self.users.change(&User::key(&user.database, &user.name), |user| {
                user.roles.retain(|role| !gone.contains(role));
                Ok(())
            })?;
        }
        for role in self.roles.list(None)?.iter().filter(|role| has(&role.roles)) {
            self.roles.change(&role.name.key(), |role| {
                role.roles.retain(|role| !gone.contains(role));
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Adds roles to a list that has each once.
pub fn add_once(roles: &mut Vec<RoleName>, more: &[RoleName]) {
    let mut known: HashSet<RoleName> = roles.iter().cloned().collect();
    roles.extend(more.iter().filter(|role| known.insert((*role).clone())).cloned());
}
