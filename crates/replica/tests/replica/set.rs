//! A set of members, each with a database of its own.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spinney_document::base::System;
use spinney_document::{Database, doc};
use spinney_replica::{Member, Node, Role, Settings, Status, install_copy};

use super::mesh::Mesh;

/// Longer than anything takes on a machine that does much else.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The members that run, as writers find them.
pub(crate) type Members = Mutex<Vec<Option<(Node, Database)>>>;

/// The database of the member that takes writes.
pub(crate) fn writable(members: &Members) -> Option<Database> {
    let members = members.lock().unwrap();
    members.iter().flatten().find(|(node, _)| node.status().writable).map(|(_, database)| database.clone())
}

/// A member that runs.
pub(crate) struct Running {
    pub(crate) host: String,
    pub(crate) node: Node,
    pub(crate) database: Database,
}

/// A set.
pub(crate) struct Set {
    pub(crate) mesh: Mesh,
    dir: tempfile::TempDir,
    /// What each member keeps of its log.
    log_keep_bytes: u64,
    /// The memory of members that are opened from now on.
    pub(crate) memory_bytes: u64,
    pub(crate) members: Vec<Option<Running>>,
}

pub(crate) fn host(at: usize) -> String {
    format!("m{at}.test:27017")
}

pub(crate) fn member(at: usize) -> Member {
    Member::new(at as u64, host(at))
}

impl Set {
    /// Members that run and have no configuration.
    pub(crate) fn new(count: usize) -> Self {
        Self::keeping(count, 64 << 20)
    }

    /// The same, which keep so much of their logs.
    pub(crate) fn keeping(count: usize, log_keep_bytes: u64) -> Self {
        let mut set = Self::empty(log_keep_bytes);
        for at in 0..count {
            set.members.push(None);
            set.open(at);
        }
        set
    }

    /// A set without members.
    pub(crate) fn empty(log_keep_bytes: u64) -> Self {
        let (mesh, dir) = (Mesh::default(), tempfile::tempdir().unwrap());
        Self { mesh, dir, log_keep_bytes, memory_bytes: 256 << 20, members: Vec::new() }
    }

    /// Members of a set that has a primary.
    pub(crate) fn initiated(count: usize) -> Self {
        let set = Self::new(count);
        set.member(0).node.initiate((0..count).map(member).collect()).unwrap();
        set.primary();
        set
    }

    pub(crate) fn path(&self, at: usize) -> std::path::PathBuf {
        self.dir.path().join(format!("m{at}"))
    }

    /// Opens a member that does not run.
    pub(crate) fn open(&mut self, at: usize) {
        let running = self.start(&self.path(at), &host(at)).unwrap();
        self.mesh.put(&running.host, running.node.clone());
        self.members[at] = Some(running);
    }

    /// Starts a member with a directory, whom the others do not reach.
    pub(crate) fn start(&self, dir: &Path, host: &str) -> spinney_replica::Result<Running> {
        let options = spinney::Options::default().memory_bytes(self.memory_bytes).log_keep_bytes(256 << 20);
        let engine = spinney::Database::open(dir, options).unwrap();
        let settings = Settings::new("rs0", host).log_keep_bytes(self.log_keep_bytes);
        let node = Node::open(&engine, settings, self.mesh.link(host))?;
        let database = Database::with_committer(engine, Arc::new(System), node.committer()).unwrap();
        node.run(&database).unwrap();
        Ok(Running { host: host.to_owned(), node, database })
    }

    /// Ends a member, which hands over when `within` is not zero.
    pub(crate) fn close(&mut self, at: usize, within: Duration) {
        let running = self.members[at].take().unwrap();
        if within.is_zero() {
            self.mesh.cut(&running.host, true);
        }
        running.node.end(within);
        self.mesh.remove(&running.host);
        self.mesh.cut(&running.host, false);
        running.database.engine().clone().close().unwrap();
    }

    /// Waits until a member has received a copy of the primary's database, and opens that.
    pub(crate) fn take_copy(&mut self, at: usize) {
        let begun = Instant::now();
        while !self.member(at).node.status().copy_received {
            assert!(begun.elapsed() < SOON, "no copy: {:#?}", self.member(at).node.status());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.close(at, Duration::ZERO);
        assert!(install_copy(self.path(at)).unwrap());
        assert!(!install_copy(self.path(at)).unwrap(), "it is in its place");
        self.open(at);
    }

    /// The status of a member when it is as wanted.
    pub(crate) fn status_when(&self, at: usize, wanted: impl Fn(&Status) -> bool) -> Status {
        let (node, begun) = (&self.member(at).node, Instant::now());
        let mut status = node.status();
        while !wanted(&status) {
            assert!(begun.elapsed() < SOON, "{status:?}");
            status = node.wait_for_change(status.change, Duration::from_millis(20));
        }
        status
    }

    pub(crate) fn member(&self, at: usize) -> &Running {
        self.members[at].as_ref().unwrap()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &Running)> {
        self.members.iter().enumerate().filter_map(|(at, member)| Some((at, member.as_ref()?)))
    }

    /// The primary that takes writes, when there is one.
    pub(crate) fn primary(&self) -> usize {
        let begun = Instant::now();
        loop {
            for (at, member) in self.running() {
                let status = member.node.status();
                if status.role == Role::Primary && status.writable {
                    return at;
                }
            }
            let statuses: Vec<Status> = self.running().map(|(_, member)| member.node.status()).collect();
            assert!(begun.elapsed() < SOON, "no primary: {statuses:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Inserts a document on a member.
    pub(crate) fn insert(&self, at: usize, id: i32) -> spinney_document::Result<()> {
        let people = self.member(at).database.collection_or_create("app.people")?;
        people.insert_one(doc! {"_id": id, "name": "Ada"}.view()).map(drop)
    }

    /// Puts a large document on a member, in the place of the one with its `_id`.
    pub(crate) fn insert_thing(&self, at: usize, id: i32, filler: &str) -> spinney_document::Result<()> {
        let things = self.member(at).database.collection_or_create("app.things")?;
        match things.insert_one(doc! {"_id": id, "filler": filler}.view()) {
            Err(error) if error.code().number() == 11000 => Ok(()),
            inserted => inserted.map(drop),
        }
    }

    /// Inserts a document as a client does, which tries again when the primary changes; the primary.
    pub(crate) fn insert_by_primary(&self, id: i32) -> usize {
        let begun = Instant::now();
        loop {
            let primary = self.primary();
            match self.insert(primary, id).map_err(|error| error.code().number()) {
                // A change of the primary, and what was unknown then was done.
                Ok(()) | Err(11000) => return primary,
                Err(code @ (11602 | 10107)) => assert!(begun.elapsed() < SOON, "{code}"),
                Err(code) => panic!("{code}"),
            }
        }
    }

    /// Waits until all members that run have applied what the primary has, and checks that they have the same.
    pub(crate) fn check_equal(&self) {
        let primary = self.primary();
        let applied = self.member(primary).node.status().applied;
        let all = |at: usize| -> Vec<String> {
            let database = &self.member(at).database;
            let mut lines = Vec::new();
            for name in database.list_databases() {
                for listed in database.list_collections(&name) {
                    lines.push(listed.view().to_json());
                }
            }
            if let Some(people) = database.collection("app.people").unwrap() {
                assert!(people.validate().unwrap().is_valid());
                lines.push(people.count().unwrap().to_string());
                for found in people.documents() {
                    lines.push(found.unwrap().view().to_json());
                }
            }
            lines
        };
        let wanted = all(primary);
        for (at, member) in self.running() {
            member.node.wait_applied(applied, SOON).unwrap();
            assert_eq!(all(at), wanted, "member {at} has what the primary, {primary}, has");
        }
    }
}
