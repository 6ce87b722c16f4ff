//! A command that runs: its fields, and what it runs with.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use spinney::Durability;

use super::cursors::Owner;
use super::generic::{self, Acknowledged, Generic};
use super::parse;
use super::request::Request;
use super::scope::Scoped;
use super::spec::{Access, Declaration, Privilege, Target};
use super::state::State;
use super::statement_log::StatementLog;
use crate::base::{Error, ErrorCode, Interrupt, Need, Result};
use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, Fields, Timestamp, Value, long_of};
use crate::catalog::{CollectionOptions, Entry, Namespace};
use crate::collation::{Collated, Collation};
use crate::collection::Collection;
use crate::collection::handle::WriteOptions;
use crate::exec::Reader;
use crate::expr::{self, Context};
use crate::session::{Scope, TransactionReader};

/// The fields of a reply, to which `ok` is added.
pub type Reply = DocumentBuilder;

/// All commands.
pub trait Commands: Debug + Sync {
    /// The declaration of the command with a name.
    fn find(&self, name: &str) -> Option<&Declaration>;

    /// All declarations in the order of the names.
    fn all(&self) -> Vec<&Declaration>;

    /// Runs a command.
    ///
    /// # Errors
    /// Those of the command.
    fn run(&self, call: &Call<'_>) -> Result<Reply>;

    /// What the command with a name needs of its client.
    fn needs(&self, name: &str) -> Needs;

    /// Tells how a command would be done; nothing for one that does not tell it.
    fn explain(&self, call: &Call<'_>) -> Option<Result<Reply>>;
}

/// What a command needs of its client, as the command declares it.
#[derive(Clone, Copy, Debug)]
pub enum Needs {
    /// The command declares nothing, and no client may run it.
    Undeclared,
    /// Nothing, not even a login.
    Nothing,
    /// A login.
    Login,
    /// Privileges, all of them.
    All(&'static [Privilege]),
    /// What follows from its fields.
    By(NeedOf),
}

/// Tells from the fields of a command what the command needs.
pub type NeedOf = for<'c, 'r> fn(&'c Call<'r>) -> Result<Need>;

/// A command whose fields have been checked.
#[derive(Clone, Debug)]
pub struct Call<'r> {
    /// What all commands share.
    pub state: &'r State,
    /// All commands.
    pub table: &'static dyn Commands,
    /// The command's declaration.
    pub command: &'r Declaration,
    /// The command as it came.
    pub request: &'r Request<'r>,
    /// Its fields.
    pub fields: Fields<'r>,
    /// The generic fields.
    pub generic: Generic<'r>,
    /// How it is ended early.
    pub interrupt: Arc<Interrupt>,
    /// When it began, in milliseconds since 1970.
    pub now_ms: i64,
    /// The session, and where statements run.
    pub scoped: Scoped,
    /// Whether a command that is explained is run as well.
    pub executes: bool,
    /// What its statements did, while the database is profiled.
    pub statements: StatementLog,
}

impl<'r> Call<'r> {
    /// The value of a field; nothing when it is missing or null.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value<'r>> {
        let fields = self.fields.as_slice().get(1..)?;
        let value = fields.iter().find(|element| element.name == *name)?.value;
        (!value.is_nullish()).then_some(value)
    }

    /// The document in a field.
    #[must_use]
    pub fn document(&self, name: &str) -> Option<Document<'r>> {
        self.value(name).and_then(|value| value.as_document())
    }

    /// The document in a field, or the empty one.
    #[must_use]
    pub fn document_or_empty(&self, name: &str) -> Document<'r> {
        self.document(name).unwrap_or(Document::empty())
    }

    /// The array in a field.
    #[must_use]
    pub fn array(&self, name: &str) -> Option<Array<'r>> {
        self.value(name).and_then(|value| value.as_array())
    }

    /// The text in a field.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'r str> {
        self.value(name).and_then(|value| value.as_str())
    }

    /// The truth of a field; nothing when it is missing.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.value(name).map(|value| expr::value::truth(&value))
    }

    /// Whether a field is true.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.flag(name) == Some(true)
    }

    /// The number in a field as a whole one.
    #[must_use]
    pub fn long(&self, name: &str) -> Option<i64> {
        long_of(&self.value(name)?)
    }

    /// The number in a field that is declared not to be negative.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.long(name).map(|number| u64::try_from(number).unwrap_or_default())
    }

    /// The documents in a field, or those that came beside the command under its name.
    #[must_use]
    pub fn documents(&self, name: &str) -> Vec<Document<'r>> {
        if let Some((_, documents)) = self.request.sequences.iter().find(|(field, _)| *field == name) {
            return documents.clone();
        }
        let values = self.array(name).into_iter().flatten();
        values.filter_map(|value| value.as_document()).collect()
    }

    /// The collection that the command names.
    ///
    /// # Errors
    /// `InvalidNamespace` (73).
    pub fn namespace(&self) -> Result<Namespace> {
        let first = self.request.body.first().and_then(|first| first.value.as_str());
        let (database, collection) = (self.request.database, first.unwrap_or_default());
        if self.command.access == Access::Read {
            Namespace::to_read(database, collection)
        } else {
            Namespace::new(database, collection)
        }
    }

    /// The name of the collection that the command is about, if it is about one.
    #[must_use]
    pub fn collection_name(&self) -> Option<&'r str> {
        let name = match self.command.target {
            Target::Collection | Target::CollectionOrDatabase => {
                self.request.body.first().and_then(|first| first.value.as_str())
            }
            _ => self.text("collection"),
        };
        name.filter(|name| !name.is_empty())
    }

    /// The same error, with the collection that the command is about when damage was found: the engine names a file.
    #[must_use]
    pub fn placed(&self, error: Error) -> Error {
        match self.collection_name().filter(|_| error.code() == ErrorCode::DATA_CORRUPTION_DETECTED) {
            Some(collection) => error.prefixed(&format!("{}.{collection}: ", self.request.database)),
            None => error,
        }
    }

    /// What the namespace of the command names.
    ///
    /// # Errors
    /// As [`Self::namespace`]; `CollectionUUIDMismatch` (361) when the command has another UUID.
    pub fn entry(&self) -> Result<(Namespace, Option<Entry>)> {
        let namespace = self.namespace()?;
        let entry = self.find(&namespace)?;
        self.check_uuid(&namespace, entry.as_ref())?;
        Ok((namespace, entry))
    }

    /// What a namespace names for the command: it sees what its transaction has created.
    ///
    /// # Errors
    /// `NoSuchTransaction` (251); `DataCorruptionDetected` (374) for what is damaged.
    pub fn find(&self, namespace: &Namespace) -> Result<Option<Entry>> {
        let created = match &self.scoped.scope {
            Scope::Within(open) => open.with(|txn| Ok(txn.find_created(namespace)))?,
            _ => None,
        };
        if let Some(at) = self.scoped.snapshot_at
            && self.state.database.catalog().recorder().has_ended_since(namespace.as_str(), at)
        {
            let what = format!("'{}' was dropped or renamed behind the time of the snapshot", namespace.as_str());
            return Err(Error::new(ErrorCode::SNAPSHOT_UNAVAILABLE, what));
        }
        match created.map(Entry::Collection).or_else(|| self.state.database.catalog().find(namespace)) {
            Some(Entry::Damaged(damage)) => Err(damage.error()),
            found => Ok(found),
        }
    }

    /// As [`Self::entry`], of a command that takes what is damaged too.
    ///
    /// # Errors
    /// As [`Self::entry`].
    pub fn entry_to_drop(&self) -> Result<(Namespace, Option<Entry>)> {
        let namespace = self.namespace()?;
        match self.state.database.catalog().find(&namespace) {
            Some(damaged @ Entry::Damaged(_)) => Ok((namespace, Some(damaged))),
            _ => self.entry(),
        }
    }

    /// The collection with a name; nothing when there is none.
    ///
    /// # Errors
    /// `CommandNotSupportedOnView` (166), `NoSuchTransaction` (251).
    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Collection>> {
        match self.find(namespace)? {
            Some(Entry::Collection(state)) => Ok(Some(self.state.database.parts().collection(state))),
            _ => self.state.database.collection(namespace.as_str()),
        }
    }

    /// The collection with a name, created when there is none: in the transaction of the command, if it has one.
    ///
    /// # Errors
    /// Those of [`Database::collection_or_create`](crate::Database::collection_or_create); `NoSuchTransaction` (251).
    pub fn collection_or_create(&self, namespace: &Namespace) -> Result<Collection> {
        let Scope::Within(open) = &self.scoped.scope else {
            return self.state.database.collection_or_create(namespace.as_str());
        };
        loop {
            if let Some(collection) = self.collection(namespace)? {
                return Ok(collection);
            }
            let options = CollectionOptions::parse(Document::empty())?;
            match open.with(|txn| txn.create_collection(namespace, options)) {
                Ok(state) => return Ok(self.state.database.parts().collection(state)),
                // Another session has created it meanwhile.
                Err(error) if error.code() == ErrorCode::NAMESPACE_EXISTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Refuses a `collectionUUID` that is another than that of the collection.
    ///
    /// # Errors
    /// `CollectionUUIDMismatch` (361).
    pub fn check_uuid(&self, namespace: &Namespace, entry: Option<&Entry>) -> Result<()> {
        let Some(Value::Binary(_, wanted)) = self.value("collectionUUID") else { return Ok(()) };
        if matches!(entry, Some(Entry::Collection(state)) if state.schema().uuid == wanted) {
            return Ok(());
        }
        let all = self.state.database.catalog().list(Some(self.request.database));
        let actual = all
            .into_iter()
            .find(|(_, entry)| matches!(entry, Entry::Collection(state) if state.schema().uuid == wanted));
        let info = match &actual {
            Some((name, _)) => {
                doc! {"db": self.request.database, "expectedCollection": namespace.collection(), "actualCollection": name.collection()}
            }
            None => {
                doc! {"db": self.request.database, "expectedCollection": namespace.collection(), "actualCollection": Value::Null}
            }
        };
        let error = Error::new(ErrorCode::COLLECTION_UUID_MISMATCH, "Collection UUID does not match that specified");
        Err(error.with_err_info(info.into_bytes()))
    }

    /// The constants that the expressions of the command are compiled with, `let` included.
    ///
    /// # Errors
    /// Those of the collation and of the expressions in `let`.
    pub fn context(&self) -> Result<Context> {
        let mut context = Context::new(self.now_ms);
        context.seed = self.state.database.environment().random();
        context.cluster_time = self.generic.cluster_time.or_else(|| self.cluster_time());
        context.collation = self.collation()?;
        let Some(variables) = self.document("let") else { return Ok(context) };
        for element in variables {
            let name = element.name.to_str_lossy();
            check_variable(&name)?;
            let expression = expr::parse(element.value, &context)?;
            if let Some(value) = expression.of(Document::empty())?.into_buf() {
                context.set(&name, value);
            }
        }
        Ok(context)
    }

    /// How the command compares strings: as it says, or as its collection or view does.
    ///
    /// # Errors
    /// Those of [`Collation::parse`].
    pub fn collation(&self) -> Result<Collated> {
        if let Some(given) = Collation::of_operation(self.value("collation"))? {
            return Ok(given);
        }
        let named = matches!(self.request.body.first(), Some(first) if matches!(first.value, Value::String(_)));
        let Some(namespace) = named.then(|| self.namespace().ok()).flatten() else { return Ok(None) };
        Ok(self.find(&namespace)?.and_then(|entry| entry.collation()))
    }

    /// The time of the cluster, where a client has told one.
    fn cluster_time(&self) -> Option<Timestamp> {
        self.generic.read_concern.after
    }

    /// Where the command reads: in its transaction, in the snapshot that it asks for, or in the newest state.
    ///
    /// # Errors
    /// `NoSuchTransaction` (251), `SnapshotTooOld` (239); those of the engine.
    pub fn reader(&self) -> Result<Box<dyn Reader>> {
        if let Scope::Within(open) = &self.scoped.scope {
            return Ok(Box::new(TransactionReader::new(open)?));
        }
        Ok(Box::new(match self.scoped.snapshot_at {
            Some(at) => self.state.snapshots.at(at, self.now_ms)?,
            None => self.state.database.engine().snapshot(),
        }))
    }

    /// Whether the command reads what is there now: not within a transaction and not as of an earlier time.
    #[must_use]
    pub fn reads_now(&self) -> bool {
        !matches!(self.scoped.scope, Scope::Within(_)) && self.scoped.snapshot_at.is_none()
    }

    /// How the command's writes are committed.
    ///
    /// # Errors
    /// `BadValue` (2) for a write concern of other servers than this one.
    pub fn write_options(&self) -> Result<WriteOptions> {
        let mut options = WriteOptions { durability: self.state.options.durability, ..WriteOptions::default() };
        options.bypass_validation = self.is_set("bypassDocumentValidation");
        let Some(concern) = &self.generic.write_concern else { return Ok(options) };
        match &concern.w {
            // They are told behind the write.
            _ if self.state.options.replica_set => {}
            Some(Acknowledged::Servers(2..)) => {
                return Err(Error::bad_value("cannot use 'w' > 1 when a host is not replicated"));
            }
            Some(Acknowledged::Tag(tag)) => {
                let what =
                    format!("cannot use non-majority 'w' mode \"{tag}\" when a host is not a member of a replica set");
                return Err(Error::bad_value(what));
            }
            // One server has all tags.
            _ => {}
        }
        if concern.is_durable() {
            options.durability = Some(Durability::Sync);
        } else if concern.journal == Some(false) && self.durability(&options) == Durability::Sync {
            options.durability = Some(Durability::Interval);
        }
        Ok(options)
    }

    /// What a write with these options survives.
    #[must_use]
    pub fn durability(&self, options: &WriteOptions) -> Durability {
        options.durability.unwrap_or(self.state.database.engine().options().durability)
    }

    /// What of the write concern cannot be met, whatever the members of the replica set do: the write is done all the
    /// same. For those that can be met, the server waits behind the write.
    #[must_use]
    pub fn write_concern_error(&self) -> Option<DocumentBuf> {
        let concern = self.generic.write_concern.as_ref().filter(|_| self.state.options.replica_set)?;
        let (code, what, servers) = match &concern.w {
            Some(Acknowledged::Servers(count)) if *count > self.members() => {
                let what = "Not enough data-bearing nodes".to_owned();
                (ErrorCode::UNSATISFIABLE_WRITE_CONCERN, what, expr::value::int(*count))
            }
            Some(Acknowledged::Tag(tag)) => {
                let what = format!("No write concern mode named '{tag}' found in replica set configuration");
                (ErrorCode::UNKNOWN_REPL_WRITE_CONCERN, what, Value::from(&**tag))
            }
            // No member has tags.
            Some(Acknowledged::Tags(tags)) => {
                let tags = Value::Document(tags.view());
                let what = format!("No write concern mode for the tags {tags} found in replica set configuration");
                (ErrorCode::UNKNOWN_REPL_WRITE_CONCERN, what, tags)
            }
            _ => return None,
        };
        let concern = doc! {"w": servers, "wtimeout": concern.timeout_ms, "provenance": "clientSupplied"};
        Some(doc! {
            "code": code.number(), "codeName": &code.name(), "errmsg": &what,
            "errInfo": &doc! {"writeConcern": &concern},
        })
    }

    /// How many servers hold the data.
    #[must_use]
    pub fn members(&self) -> i64 {
        1 + self.state.settings.other_members.load(Ordering::Relaxed)
    }

    /// Whether the command may go on.
    ///
    /// # Errors
    /// `MaxTimeMSExpired` (50), `Interrupted` (11601).
    pub fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Who a cursor belongs to that the command opens or uses.
    #[must_use]
    pub fn owner(&self, namespace: impl Into<String>) -> Owner {
        let txn_number = self.generic.txn_number.filter(|_| self.generic.autocommit == Some(false));
        Owner {
            namespace: namespace.into(),
            session: self.generic.session,
            txn_number,
            user: self.request.client.user.clone(),
            need: self.request.client.need.clone(),
            client: self.request.client.origin(),
        }
    }

    /// Runs another command in the place of this one, with the same generic fields. The body need not have them.
    ///
    /// # Errors
    /// Those of the command.
    pub fn run_as(&self, name: &str, body: &DocumentBuf) -> Result<Reply> {
        self.as_other(name, body, |call| self.table.run(call))
    }

    /// Explains another command in the place of this one.
    ///
    /// # Errors
    /// Those of the command; `CommandNotFound` (59) for one that is not explained.
    pub fn explain_as(&self, name: &str, body: &DocumentBuf) -> Result<Reply> {
        self.as_other(name, body, |call| self.table.explain(call).unwrap_or_else(|| Err(no_such_command(name))))
    }

    fn as_other(&self, name: &str, body: &DocumentBuf, run: impl FnOnce(&Call<'_>) -> Result<Reply>) -> Result<Reply> {
        let command = self.table.find(name).ok_or_else(|| no_such_command(name))?;
        let request = Request { body: body.view(), sequences: &[], ..self.request.clone() };
        let fields = parse::check(command, generic::FIELDS, &request)?;
        let call = Call { command, request: &request, fields, ..self.clone() };
        run(&call)
    }
}

/// The names of variables begin with a small letter.
fn check_variable(name: &str) -> Result<()> {
    let valid = name.starts_with(|c: char| c.is_ascii_lowercase() || !c.is_ascii())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
    if valid {
        return Ok(());
    }
    let what = match name {
        "" => "empty variable names are not allowed".to_owned(),
        _ => format!("'{name}' starts with an invalid character for a user variable name"),
    };
    Err(Error::new(ErrorCode::FAILED_TO_PARSE, what))
}

/// `CommandNotFound` (59).
#[must_use]
pub fn no_such_command(name: &str) -> Error {
    Error::new(ErrorCode::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))
}
