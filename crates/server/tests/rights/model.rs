//! The model: what roles allow, from what the server says of them, and what each case needs, written by hand.

use spinney_document::bson::{Document, DocumentBuf};

/// On what an action is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Cluster,
    AnyDatabase,
    Db(&'static str),
    Coll(&'static str, &'static str),
}

/// What a case needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    Act(&'static str, On),
    Lacks(&'static str, On),
    All(&'static [Need]),
    Any(&'static [Need]),
}

pub(crate) const NOTHING: Need = Need::All(&[]);

/// A privilege, as `rolesInfo` shows it.
#[derive(Clone, Debug)]
struct Privilege {
    /// The database and the collection that the resource names, either of them empty for all; nothing for the cluster.
    named: Option<(String, String)>,
    any_resource: bool,
    actions: Vec<String>,
}

/// The privileges of a user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted(Vec<Privilege>);

impl Granted {
    /// The privileges that `rolesInfo` shows of the roles.
    pub(crate) fn of(info: &DocumentBuf) -> Self {
        let mut all = Vec::new();
        for role in info.view().get("roles").unwrap().as_array().unwrap().values() {
            let privileges = role.as_document().unwrap().get("inheritedPrivileges").unwrap().as_array().unwrap();
            for privilege in privileges.values() {
                let privilege = privilege.as_document().unwrap();
                let resource = privilege.get("resource").unwrap().as_document().unwrap();
                let text =
                    |document: Document<'_>, name| document.get(name).and_then(|v| v.as_str().map(str::to_owned));
                let named = text(resource, "db").zip(text(resource, "collection"));
                let actions = privilege.get("actions").unwrap().as_array().unwrap();
                let actions = actions.values().map(|action| action.as_str().unwrap().to_owned()).collect();
                all.push(Privilege { named, any_resource: resource.get("anyResource").is_some(), actions });
            }
        }
        Self(all)
    }

    /// Whether they allow an action, by the rules of MongoDB's manual ("Resource Document").
    pub(crate) fn allow(&self, action: &str, on: (Option<&str>, Option<&str>, bool)) -> bool {
        let (database, collection, cluster) = on;
        self.0.iter().any(|privilege| {
            let covers = match &privilege.named {
                _ if privilege.any_resource => true,
                None => cluster,
                Some(_) if cluster => false,
                Some((db, coll)) => {
                    let within = db.is_empty() || database == Some(db);
                    let normal = collection.is_none_or(|name| !name.starts_with("system."));
                    within && if coll.is_empty() { normal } else { collection == Some(coll) }
                }
            };
            covers && privilege.actions.iter().any(|allowed| allowed == action)
        })
    }

    pub(crate) fn may(&self, action: &str, on: On) -> bool {
        match on {
            On::Cluster => self.allow(action, (None, None, true)),
            On::AnyDatabase => self.allow(action, (None, None, false)),
            On::Db(database) => self.allow(action, (Some(database), None, false)),
            On::Coll(database, collection) => self.allow(action, (Some(database), Some(collection), false)),
        }
    }

    pub(crate) fn meet(&self, need: &Need) -> bool {
        match need {
            Need::Act(action, on) => self.may(action, *on),
            Need::Lacks(action, on) => !self.may(action, *on),
            Need::All(needs) => needs.iter().all(|need| self.meet(need)),
            Need::Any(needs) => needs.iter().any(|need| self.meet(need)),
        }
    }

    /// Whether they allow to read a namespace.
    pub(crate) fn reads(&self, namespace: &str) -> bool {
        let (database, collection) = namespace.split_once('.').unwrap();
        self.allow("find", (Some(database), Some(collection), false))
    }

    /// Whether they allow to change a namespace in any way.
    pub(crate) fn changes(&self, namespace: &str) -> bool {
        const WRITES: [&str; 7] =
            ["insert", "update", "remove", "createCollection", "dropCollection", "collMod", "convertToCapped"];
        const USERS: [&str; 8] = [
            "createUser",
            "dropUser",
            "createRole",
            "dropRole",
            "grantRole",
            "revokeRole",
            "changePassword",
            "changeCustomData",
        ];
        let (database, collection) = namespace.split_once('.').unwrap();
        let has =
            |action: &&str| self.0.iter().any(|privilege| privilege.actions.iter().any(|allowed| allowed == action));
        WRITES.iter().any(|action| self.allow(action, (Some(database), Some(collection), false)))
            || ["dropDatabase", "renameCollectionSameDB"].iter().any(|action| self.allow(action, (Some(database), None, false)))
            // The users and roles of all databases are there.
            || namespace.starts_with("admin.system.") && USERS.iter().any(has)
    }
}

/// A command, the database that it is sent to, and what it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) database: &'static str,
    pub(crate) command: &'static str,
    pub(crate) need: Need,
}

/// A case of a command.
pub(crate) const fn case(name: &'static str, database: &'static str, command: &'static str, need: Need) -> Case {
    Case { name, database, command, need }
}
