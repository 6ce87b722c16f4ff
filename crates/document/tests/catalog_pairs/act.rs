//! What the users do to the catalog.

use std::sync::Arc;

use spinney_document::catalog::{CollectionOptions, IndexSpec, Namespace};
use spinney_document::command::Service;
use spinney_document::{Error, Result, doc};
use spinney_testkit::Rng;

use crate::claims::Clock;
use crate::json;
use crate::member::NOW_MS;

/// The collections.
pub(crate) const NAMES: [&str; 3] = ["d.a", "d.b", "e.a"];

/// The view.
pub(crate) const VIEW: &str = "d.v";

/// The indexes: their names and the rest of their specifications. Documents have arrays in `t`.
pub(crate) const INDEXES: [(&str, &str); 4] = [
    ("t", r#""key":{"t":1}"#),
    ("u", r#""key":{"u":1},"unique":true"#),
    ("x", r#""key":{"x":1},"expireAfterSeconds":3600"#),
    ("s", r#""key":{"t":1,"n":-1},"sparse":true"#),
];

/// Kinds of operations on the catalog, each of which is put beside each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    CreateCapped,
    CreateView,
    Drop,
    DropDatabase,
    Rename,
    RenameOver,
    Index,
    Indexes,
    DropIndex,
    DropIndexes,
    Hide,
    Modify,
    ModifyView,
    Rebuild,
    Convert,
    Clone,
    Out,
    Merge,
    Expire,
    Insert,
    Update,
    Transaction,
    Aborted,
    Profile,
    DropProfile,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 26] = [
        Self::Create,
        Self::CreateCapped,
        Self::CreateView,
        Self::Drop,
        Self::DropDatabase,
        Self::Rename,
        Self::RenameOver,
        Self::Index,
        Self::Indexes,
        Self::DropIndex,
        Self::DropIndexes,
        Self::Hide,
        Self::Modify,
        Self::ModifyView,
        Self::Rebuild,
        Self::Convert,
        Self::Clone,
        Self::Out,
        Self::Merge,
        Self::Expire,
        Self::Insert,
        Self::Update,
        Self::Transaction,
        Self::Aborted,
        Self::Profile,
        Self::DropProfile,
    ];
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    kind: Kind,
    /// The collection, and another one.
    name: &'static str,
    other: &'static str,
    index: usize,
    /// A number that no other operation has: of `_id`s, and of what is set.
    number: usize,
    flag: bool,
}

impl Act {
    pub(crate) fn draw(rng: &mut Rng, kind: Kind, number: usize) -> Self {
        // Most are about one collection, so that they meet.
        let name = NAMES[rng.weighted(&[7, 2, 1])];
        let others: Vec<_> = NAMES.into_iter().filter(|other| *other != name).collect();
        let (other, index, flag) = (*rng.pick(&others), rng.in_range(0..INDEXES.len()), rng.chance(50));
        Self { kind, name, other, index, number, flag }
    }

    /// Does it, and says what it makes of what there is when it is acknowledged.
    pub(crate) fn run(&self, service: &Service, clock: &Clock) -> Result<()> {
        let claiming = clock.begin(self.touched());
        let done = self.execute(service);
        claiming.end(done.as_ref().map(|()| self.claims()).map_err(Error::code));
        done
    }

    fn database(&self) -> &'static str {
        self.name.split_once('.').unwrap().0
    }

    fn execute(&self, service: &Service) -> Result<()> {
        let Self { kind, name, other, index, number, flag } = self;
        let (database, collection) = name.split_once('.').unwrap();
        let (key, spec) = INDEXES[*index];
        let run = |database: &str, command: &str| {
            let reply = service.run_command(database, json(command).view())?;
            // A write that was refused has a reply that says so.
            let text = reply.view().to_json();
            match text.contains("writeErrors") {
                true => Err(Error::new(spinney_document::ErrorCode::new(1), text)),
                false => Ok(()),
            }
        };
        let here = |command: &str| run(database, command);
        match kind {
            Kind::Create => here(&format!(r#"{{"create":"{collection}"}}"#)),
            Kind::CreateCapped => here(&format!(r#"{{"create":"{collection}","capped":true,"size":100000}}"#)),
            Kind::CreateView => run("d", r#"{"create":"v","viewOn":"a","pipeline":[]}"#),
            Kind::Drop if *flag && *number % 3 == 0 => run("d", r#"{"drop":"v"}"#),
            Kind::Drop => here(&format!(r#"{{"drop":"{collection}"}}"#)),
            Kind::DropDatabase => here(r#"{"dropDatabase":1}"#),
            Kind::Rename | Kind::RenameOver => {
                let over = *kind == Kind::RenameOver;
                run("admin", &format!(r#"{{"renameCollection":"{name}","to":"{other}","dropTarget":{over}}}"#))
            }
            Kind::Index => {
                here(&format!(r#"{{"createIndexes":"{collection}","indexes":[{{"name":"{key}",{spec}}}]}}"#))
            }
            Kind::Indexes => {
                let specs: Vec<_> =
                    INDEXES.iter().map(|(name, spec)| format!(r#"{{"name":"{name}",{spec}}}"#)).collect();
                here(&format!(r#"{{"createIndexes":"{collection}","indexes":[{}]}}"#, specs.join(",")))
            }
            Kind::DropIndex => here(&format!(r#"{{"dropIndexes":"{collection}","index":"{key}"}}"#)),
            Kind::DropIndexes => here(&format!(r#"{{"dropIndexes":"{collection}","index":"*"}}"#)),
            Kind::Hide => here(&format!(r#"{{"collMod":"{collection}","index":{{"name":"{key}","hidden":{flag}}}}}"#)),
            Kind::Modify => here(&format!(r#"{{"collMod":"{collection}","validator":{{"m":{{"$ne":{number}}}}}}}"#)),
            Kind::ModifyView => run("d", r#"{"collMod":"v","viewOn":"b","pipeline":[]}"#),
            Kind::Rebuild => service.database().rebuild_index(name, key, None),
            Kind::Convert => here(&format!(r#"{{"convertToCapped":"{collection}","size":100000}}"#)),
            Kind::Clone => self.clone_as_capped(service),
            Kind::Out => here(&format!(
                r#"{{"aggregate":"{collection}","cursor":{{}},"pipeline":[{{"$out":{{"db":"{}","coll":"{}"}}}}]}}"#,
                other.split_once('.').unwrap().0,
                other.split_once('.').unwrap().1
            )),
            Kind::Merge => here(&format!(
                r#"{{"aggregate":"{collection}","cursor":{{}},"pipeline":[{{"$set":{{"m":{number}}}}},{{"$merge":{{"into":{{"db":"{}","coll":"{}"}}}}}}]}}"#,
                other.split_once('.').unwrap().0,
                other.split_once('.').unwrap().1
            )),
            Kind::Expire => service.database().expire().map(drop),
            Kind::Insert => here(&format!(r#"{{"insert":"{collection}","documents":[{}]}}"#, document(*number, *flag))),
            Kind::Update => here(&format!(
                r#"{{"update":"{collection}","updates":[{{"q":{{"_id":{}}},"u":{{"$set":{{"t":[1,{number}]}}}}}}]}}"#,
                number % 8
            )),
            Kind::Transaction | Kind::Aborted => self.transaction(service),
            Kind::Profile => run("d", r#"{"create":"system.profile","capped":true,"size":4096}"#),
            Kind::DropProfile => run("d", r#"{"drop":"system.profile"}"#),
        }
    }

    fn clone_as_capped(&self, service: &Service) -> Result<()> {
        service.database().clone_as_capped(self.name, self.other, 100_000)
    }

    /// A collection with an index and documents, created in a transaction.
    fn transaction(&self, service: &Service) -> Result<()> {
        let namespace = Namespace::parse(self.name)?;
        let mut txn = service.database().begin();
        let state = txn.create_collection(&namespace, CollectionOptions::parse(doc! {}.view())?)?;
        let (key, spec) = INDEXES[self.index];
        let specs = IndexSpec::parse_all(&[json(&format!(r#"{{"name":"{key}",{spec}}}"#))], None)?;
        if self.flag {
            txn.create_indexes(&state, &specs)?;
        }
        let state = txn.find_created(&namespace).unwrap_or_else(|| Arc::clone(&state));
        txn.insert(&state, json(&document(self.number, self.flag)).view())?;
        match self.kind {
            Kind::Transaction => txn.commit(),
            _ => Ok(()),
        }
    }

    /// What of the catalog it may change.
    fn touched(&self) -> Vec<String> {
        let (name, other) = (self.name.to_owned(), self.other.to_owned());
        match self.kind {
            Kind::CreateView | Kind::ModifyView => vec![VIEW.to_owned()],
            Kind::Drop if self.flag && self.number.is_multiple_of(3) => vec![VIEW.to_owned()],
            Kind::DropDatabase => {
                let all = NAMES.into_iter().chain([VIEW]).filter(|name| name.starts_with(self.database()));
                all.map(str::to_owned).collect()
            }
            Kind::Rename | Kind::RenameOver | Kind::Clone => vec![name, other],
            Kind::Out | Kind::Merge => vec![other],
            Kind::Expire | Kind::Aborted | Kind::Profile | Kind::DropProfile => Vec::new(),
            _ => vec![name],
        }
    }

    /// What was there at some moment between the beginning and the end of an operation that was acknowledged: of each
    /// collection whether it is there, and of what is in it, what is known.
    fn claims(&self) -> Vec<(String, Option<String>)> {
        let (name, other) = (self.name, self.other);
        let there = |name: &str| (name.to_owned(), Some("collection".to_owned()));
        let gone = |name: &str| (name.to_owned(), Some("gone".to_owned()));
        let inner = |what: &str, is: &str| (format!("{name}/{what}"), Some(is.to_owned()));
        // It is another collection now, of which nothing is known.
        let unknown = |name: &str| (format!("{name}/"), None);
        let index = |key: &str, is: Option<&str>, hidden: Option<&str>| {
            let of = |what: &str, is: Option<&str>| (format!("{name}/{what}"), is.map(str::to_owned));
            [of(key, is), of(&format!("{key} is hidden"), hidden)]
        };
        let key = INDEXES[self.index].0;
        // A document that expires may be gone.
        let document = (self.number % 5 != 4).then(|| inner(&format!("document {}", self.number), "there"));
        match self.kind {
            Kind::Create | Kind::CreateCapped => vec![there(name)],
            Kind::CreateView | Kind::ModifyView => vec![(VIEW.to_owned(), Some("view".to_owned()))],
            Kind::Drop | Kind::DropDatabase => {
                self.touched().iter().flat_map(|name| [gone(name), unknown(name)]).collect()
            }
            Kind::Rename | Kind::RenameOver => {
                vec![gone(name), there(other), unknown(name), unknown(other)]
            }
            Kind::Index | Kind::Rebuild => [there(name)].into_iter().chain(index(key, Some("index"), None)).collect(),
            Kind::Indexes => {
                let all = INDEXES.into_iter().flat_map(|(key, _)| index(key, Some("index"), None));
                [there(name)].into_iter().chain(all).collect()
            }
            Kind::DropIndex => [there(name)].into_iter().chain(index(key, Some("gone"), Some("gone"))).collect(),
            Kind::DropIndexes => {
                let all = INDEXES.into_iter().flat_map(|(key, _)| index(key, Some("gone"), Some("gone")));
                [there(name)].into_iter().chain(all).collect()
            }
            Kind::Hide => {
                let hidden = if self.flag { "true" } else { "false" };
                [there(name)].into_iter().chain(index(key, Some("index"), Some(hidden))).collect()
            }
            Kind::Modify => vec![there(name), inner("validator", &self.number.to_string())],
            Kind::Convert => vec![there(name), unknown(name)],
            Kind::Clone => vec![there(name), there(other), unknown(other)],
            Kind::Out => vec![there(other), unknown(other)],
            // It creates the collection when there are documents.
            Kind::Merge => vec![(other.to_owned(), None)],
            Kind::Insert => [there(name)].into_iter().chain(document).collect(),
            Kind::Update => Vec::new(),
            Kind::Transaction => {
                let index = index(key, Some("index"), None).into_iter().filter(|_| self.flag);
                [there(name)].into_iter().chain(document).chain(index).collect()
            }
            Kind::Expire | Kind::Aborted | Kind::Profile | Kind::DropProfile => Vec::new(),
        }
    }
}

/// A document, with an array or without. Every fifth has expired.
pub(crate) fn document(number: usize, has_array: bool) -> String {
    let values = if has_array { format!("[{number},{}]", number % 5) } else { (number % 5).to_string() };
    let expires = if number % 5 == 4 { format!(r#","x":{{"$date":{}}}"#, NOW_MS - 7_200_000) } else { String::new() };
    format!(r#"{{"_id":{number},"t":{values},"u":{number},"n":{number}{expires}}}"#)
}
