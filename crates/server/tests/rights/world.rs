//! A server with documents that say where they come from, and a user for each role.

use std::collections::BTreeMap;
use std::net::TcpStream;

use spinney::env::sim::SimEnv;
use spinney_document::Database;
use spinney_document::bson::{DocumentBuf, Value};
use spinney_server::auth::Mechanism;

use crate::client::{Client, TestServer, number};
use crate::model::Granted;
use crate::roles::{OWN, ROLES, Role};

/// The collections whose documents have a mark of their own.
const MARKED: &[&str] = &["app.open", "app.secret", "app.target", "app.wide", "other.secret", "admin.plain"];

/// What the credentials of users have.
const CREDENTIALS: &str = "storedKey";

/// The databases whose documents are compared.
const DATABASES: [&str; 4] = ["app", "other", "admin", "spare"];

/// What there is: the hash of each database and its list of collections.
type State = Vec<(String, String)>;

/// The environment variable with the address of a server without users that is tested in place of one of our own.
const AT: &str = "SPINNEY_RIGHTS_AT";

pub(crate) struct World {
    address: String,
    /// Nothing for a server of another process.
    _server: Option<TestServer>,
    pub(crate) root: Client<TcpStream>,
    clients: BTreeMap<Role, Client<TcpStream>>,
    granted: BTreeMap<Role, Granted>,
    state: State,
    documents: BTreeMap<String, String>,
}

impl World {
    pub(crate) fn new() -> Self {
        let server = std::env::var(AT).is_err().then(watched);
        let address = server.as_ref().map_or_else(|| std::env::var(AT).unwrap(), |server| server.address.clone());
        let mut root = Client::over(TcpStream::connect(&address).unwrap());
        // A server of another process may have the users and roles of a test before.
        root.json(
            "admin",
            r#"{"createUser": "root", "pwd": "p", "roles": ["root"], "customData": {"m": "MARK-users"}}"#,
        );
        root.log_in(Mechanism::Sha256, "admin", "root", "p");
        for (name, privileges) in OWN {
            root.json("app", &format!(r#"{{"createRole": "{name}", "roles": [], "privileges": {privileges}}}"#));
        }
        let (mut clients, mut granted) = (BTreeMap::new(), BTreeMap::new());
        for (database, role) in ROLES {
            let user = format!("u_{database}_{role}");
            let roles = format!(r#"[{{"role": "{role}", "db": "{database}"}}]"#);
            let mechanisms = r#"["SCRAM-SHA-1"]"#;
            let user_of = format!(r#""pwd": "p", "mechanisms": {mechanisms}, "roles": {roles}"#);
            root.json("admin", &format!(r#"{{"createUser": "{user}", {user_of}}}"#));
            let mut client = Client::over(TcpStream::connect(&address).unwrap());
            client.log_in(Mechanism::Sha1, "admin", &user, "p");
            let info = format!(r#"{{"rolesInfo": "{role}", "showPrivileges": true}}"#);
            granted.insert((*database, *role), Granted::of(&root.ok(database, &info)));
            clients.insert((*database, *role), client);
        }
        let (state, documents) = (State::new(), BTreeMap::new());
        let mut world = Self { address, _server: server, root, clients, granted, state, documents };
        world.fill();
        world
    }

    /// Puts everything back as it was.
    pub(crate) fn fill(&mut self) {
        for name in ["app", "other", "spare"] {
            self.root.ok(name, r#"{"dropDatabase": 1}"#);
            self.root.ok(name, r#"{"dropAllUsersFromDatabase": 1}"#);
        }
        for name in DATABASES {
            self.root.json(name, r#"{"dropUser": "new"}"#);
            self.root.json(name, r#"{"dropRole": "new"}"#);
        }
        self.root.ok("app", r#"{"updateRole": "nothing", "privileges": []}"#);
        for listed in collections(&mut self.root, "admin") {
            if !listed.starts_with("system.") {
                self.root.ok("admin", &format!(r#"{{"drop": "{listed}"}}"#));
            }
        }
        for namespace in MARKED {
            let (database, collection) = namespace.split_once('.').unwrap();
            let documents = (1..=3).map(|id| document(namespace, id)).collect::<Vec<_>>().join(",");
            self.root.ok(database, &format!(r#"{{"insert": "{collection}", "documents": [{documents}]}}"#));
        }
        let view = |name: &str, on: &str| {
            format!(r#"{{"create": "{name}", "viewOn": "{on}", "pipeline": [{{"$project": {{"shown": 1}}}}]}}"#)
        };
        self.root.ok("app", &view("shown", "secret"));
        self.root.ok("app", &view("twice", "shown"));
        self.root.ok("spare", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
        self.root.ok("app", r#"{"createIndexes": "open", "indexes": [{"key": {"n": 1}, "name": "n_1"}]}"#);
        self.state = self.now();
        self.documents = self.all_documents();
    }

    pub(crate) fn granted(&self, role: Role) -> &Granted {
        &self.granted[&role]
    }

    pub(crate) fn client(&mut self, role: Role) -> &mut Client<TcpStream> {
        self.clients.get_mut(&role).unwrap()
    }

    /// A connection of a user with the password that all users have.
    pub(crate) fn connect(&self, database: &str, user: &str) -> Client<TcpStream> {
        let mut client = Client::over(TcpStream::connect(&self.address).unwrap());
        client.log_in(Mechanism::Sha256, database, user, "p");
        client
    }

    /// Runs a command as a user with a role, and checks what the user sees by it and has changed by it: an error for
    /// each of what the user may not see or change. The reply, too.
    pub(crate) fn run(&mut self, role: Role, database: &str, command: &str) -> (DocumentBuf, Vec<String>) {
        let before = self.state.clone();
        let reply = self.client(role).json(database, command);
        let mut wrong = self.seen(role, &reply, "the reply");
        wrong.extend(self.followed(role, database, &reply));
        let after = self.now();
        if before != after {
            wrong.extend(self.changed(role));
            wrong.extend(self.probed(role));
            self.fill();
        }
        (reply, wrong)
    }

    /// Goes on with the cursor of a reply, behind a change of everything that is watched for secrets.
    fn followed(&mut self, role: Role, database: &str, reply: &DocumentBuf) -> Vec<String> {
        let Some(cursor) = reply.view().get("cursor").and_then(|cursor| cursor.as_document()) else {
            return Vec::new();
        };
        let id = cursor.get("id").and_then(|id| id.as_exact_i64()).unwrap_or_default();
        if id == 0 {
            return Vec::new();
        }
        let of_stream = cursor.get("postBatchResumeToken").is_some();
        for namespace in MARKED.iter().filter(|_| of_stream) {
            let (database, collection) = namespace.split_once('.').unwrap();
            let new = document(namespace, 9);
            self.root.ok(database, &format!(r#"{{"insert": "{collection}", "documents": [{new}]}}"#));
        }
        let name = cursor.get("ns").unwrap().as_str().unwrap().split_once('.').unwrap().1.to_owned();
        // The stream shows what was inserted before, or nothing comes at all.
        let wait = if of_stream { r#", "maxTimeMS": 20"# } else { "" };
        let more = format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "{name}"{wait}}}"#);
        let mut wrong = Vec::new();
        for _ in 0..=usize::from(of_stream) {
            let reply = self.client(role).json(database, &more);
            wrong.extend(self.seen(role, &reply, "a batch"));
        }
        let kill = format!(r#"{{"killCursors": "{name}", "cursors": [{{"$numberLong": "{id}"}}]}}"#);
        self.client(role).json(database, &kill);
        for namespace in MARKED.iter().filter(|_| of_stream) {
            let (database, collection) = namespace.split_once('.').unwrap();
            let delete = format!(r#"{{"delete": "{collection}", "deletes": [{{"q": {{"_id": 9}}, "limit": 1}}]}}"#);
            self.root.ok(database, &delete);
        }
        wrong
    }

    /// Which documents a text shows that the user may not read.
    fn seen(&self, role: Role, reply: &DocumentBuf, place: &str) -> Vec<String> {
        let (text, granted) = (reply.view().to_json(), &self.granted[&role]);
        let mut wrong = Vec::new();
        for namespace in MARKED.iter().filter(|namespace| !granted.reads(namespace)) {
            if text.contains(&format!("MARK-{namespace}-")) {
                wrong.push(format!("{place} shows documents of {namespace}: {}", short(&text)));
            }
        }
        let users =
            ["find", "viewUser"].map(|action| granted.allow(action, (Some("admin"), Some("system.users"), false)));
        let views = granted.allow("viewUser", (Some("admin"), None, false));
        if !users.contains(&true) && !views && (text.contains("MARK-users") || text.contains(CREDENTIALS)) {
            wrong.push(format!("{place} shows users or their credentials: {}", short(&text)));
        }
        wrong
    }

    /// Which namespaces have changed that the user may not change.
    fn changed(&mut self, role: Role) -> Vec<String> {
        let (old, new) = (self.documents.clone(), self.all_documents());
        let names = old.keys().chain(new.keys()).filter(|name| old.get(*name) != new.get(*name));
        let granted = &self.granted[&role];
        names.filter(|name| !granted.changes(name)).map(|name| format!("{name} was changed")).collect()
    }

    /// What the user sees in everything that there is now.
    fn probed(&mut self, role: Role) -> Vec<String> {
        let mut wrong = Vec::new();
        for database in DATABASES {
            for collection in collections(&mut self.root, database) {
                let reply = self.client(role).json(database, &format!(r#"{{"find": "{collection}"}}"#));
                wrong.extend(self.seen(role, &reply, &format!("{database}.{collection}, found afterwards,")));
            }
        }
        wrong
    }

    fn now(&mut self) -> State {
        let root = &mut self.root;
        let of = |database: &&str| {
            let hash = root.ok(database, r#"{"dbHash": 1}"#);
            let listed = root.ok(database, r#"{"listCollections": 1}"#);
            let listed = listed.view().get("cursor").unwrap().to_string();
            (hash.view().get("md5").unwrap().to_string(), listed)
        };
        DATABASES.iter().map(of).collect()
    }

    fn all_documents(&mut self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for database in DATABASES {
            for collection in collections(&mut self.root, database) {
                let found = self.root.json(database, &format!(r#"{{"find": "{collection}"}}"#));
                let batch = found.view().get("cursor").and_then(|cursor| cursor.as_document()?.get("firstBatch"));
                all.insert(format!("{database}.{collection}"), format!("{batch:?}"));
            }
        }
        all
    }
}

/// A server with users and change streams, on a simulated disk.
fn watched() -> TestServer {
    let options = spinney::Options::default().memory_bytes(64 << 20).log_keep_bytes(64 << 20);
    let options = options.durability(spinney::Durability::Buffered);
    let engine = spinney::Database::builder("/db").env(SimEnv::new(1).env()).options(options).open().unwrap();
    TestServer::over(Database::with_engine(engine).unwrap(), |settings| settings.auth = true)
}

/// A document of a collection.
fn document(namespace: &str, id: i32) -> String {
    format!(r#"{{"_id": {id}, "n": {id}, "shown": "shown", "m": "MARK-{namespace}-{id}"}}"#)
}

fn collections(root: &mut Client<TcpStream>, database: &str) -> Vec<String> {
    let listed = root.ok(database, r#"{"listCollections": 1, "nameOnly": true}"#);
    let cursor = listed.view().get("cursor").and_then(|cursor| cursor.as_document()).unwrap();
    let name = |entry: Value<'_>| entry.as_document()?.get("name")?.as_str().map(str::to_owned);
    let names = cursor.get("firstBatch").unwrap().as_array().unwrap().values().filter_map(name);
    names.filter(|name| name != "system.views").collect()
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Whether a reply refuses a command for want of rights.
pub(crate) fn is_refused(reply: &DocumentBuf) -> bool {
    number(reply, "ok") == 0 && number(reply, "code") == 13
}
