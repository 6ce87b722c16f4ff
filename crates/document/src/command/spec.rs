//! How a command is declared: its name, its fields, what it needs, and the function that runs it.

use std::collections::HashMap;

use super::call::Call;
use crate::base::Result;
use crate::bson::{DocumentBuilder, Kind};

/// The fields of a reply, to which `ok` is added.
pub type Reply = DocumentBuilder;

/// Runs a command whose fields have been checked.
pub type Run = for<'c, 'r> fn(&'c Call<'r>) -> Result<Reply>;

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What the value of the first field, whose name is the command's, is.
    pub target: Target,
    /// The other fields.
    pub fields: &'static [Field],
    /// What it does, a sentence.
    pub help: &'static str,
    /// The privileges that it needs, all of them.
    pub privileges: &'static [Privilege],
    /// Whether it reads or writes documents.
    pub access: Access,
    /// Whether a transaction may contain it.
    pub in_transaction: bool,
    /// Whether it is part of version 1 of the stable API.
    pub stable: bool,
    /// Whether it may be run in other databases than `admin`.
    pub everywhere: bool,
    /// What it does.
    pub run: Run,
    /// Tells how it would be done, for commands that `explain` takes.
    pub explain: Option<Run>,
}

/// What the value of the field is that names the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The name of a collection.
    Collection,
    /// The name of a collection, or 1 for the database.
    CollectionOrDatabase,
    /// A namespace, `database.collection`.
    Namespace,
    /// A value of one of some types, all when there are none, which the command reads itself.
    Value(&'static [Kind]),
}

/// What a command does to documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Neither reads nor writes documents of collections.
    Neither,
    /// Reads, with a read concern.
    Read,
    /// Writes, with a write concern.
    Write,
}

/// An action on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The action, such as `find`.
    pub action: &'static str,
    /// On what.
    pub resource: Resource,
}

/// What a privilege is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The collection that the command names.
    Collection,
    /// The database that the command is sent to.
    Database,
    /// All of it.
    Cluster,
}

/// A field of a command.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// What its value is.
    pub kind: FieldType,
    /// Whether it must be there.
    pub required: bool,
    /// The least number.
    pub min: Option<i64>,
    /// The greatest number.
    pub max: Option<i64>,
}

/// What the value of a field is. A null is as good as no field, unless it is one of the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A bool, or a number that is not 0 for true.
    Bool,
    /// A bool and nothing else.
    StrictBool,
    /// A number, of which the fraction is dropped, of 32 bits.
    Int,
    /// A number, of which the fraction is dropped, of 64 bits.
    Long,
    /// A number.
    Number,
    /// A string.
    String,
    /// A document.
    Object,
    /// An array.
    Array,
    /// An array of documents, which may also come beside the command.
    Documents,
    /// One of some types.
    OneOf(&'static [Kind]),
    /// Anything.
    Any,
}

impl FieldType {
    /// The types; none for any.
    #[must_use]
    pub const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Bool => &[Kind::Bool, Kind::Int64, Kind::Int32, Kind::Decimal128, Kind::Double],
            Self::StrictBool => &[Kind::Bool],
            Self::Int | Self::Long | Self::Number => &[Kind::Int64, Kind::Int32, Kind::Decimal128, Kind::Double],
            Self::String => &[Kind::String],
            Self::Object => &[Kind::Document],
            Self::Array | Self::Documents => &[Kind::Array],
            Self::OneOf(kinds) => kinds,
            Self::Any => &[],
        }
    }
}

impl Field {
    /// A field that may be left out.
    #[must_use]
    pub const fn optional(name: &'static str, kind: FieldType) -> Self {
        Self { name, kind, required: false, min: None, max: None }
    }

    /// A field that must be there.
    #[must_use]
    pub const fn required(name: &'static str, kind: FieldType) -> Self {
        Self { required: true, ..Self::optional(name, kind) }
    }

    /// The same field with the least number that it may have.
    #[must_use]
    pub const fn at_least(self, min: i64) -> Self {
        Self { min: Some(min), ..self }
    }

    /// The same field with the greatest number that it may have.
    #[must_use]
    pub const fn at_most(self, max: i64) -> Self {
        Self { max: Some(max), ..self }
    }
}

impl Command {
    /// A command without fields.
    #[must_use]
    pub const fn new(name: &'static str, target: Target, help: &'static str, run: Run) -> Self {
        Self {
            name,
            aliases: &[],
            target,
            fields: &[],
            help,
            privileges: &[],
            access: Access::Neither,
            in_transaction: false,
            stable: false,
            everywhere: true,
            run,
            explain: None,
        }
    }

    /// The same command with other names that it has.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The same command with fields.
    #[must_use]
    pub const fn fields(self, fields: &'static [Field]) -> Self {
        Self { fields, ..self }
    }

    /// The same command with the privileges that it needs.
    #[must_use]
    pub const fn needs(self, privileges: &'static [Privilege]) -> Self {
        Self { privileges, ..self }
    }

    /// The same command, which reads documents.
    #[must_use]
    pub const fn reads(self) -> Self {
        Self { access: Access::Read, ..self }
    }

    /// The same command, which writes.
    #[must_use]
    pub const fn writes(self) -> Self {
        Self { access: Access::Write, ..self }
    }

    /// The same command, which a transaction may contain.
    #[must_use]
    pub const fn in_transactions(self) -> Self {
        Self { in_transaction: true, ..self }
    }

    /// The same command, which is part of the stable API.
    #[must_use]
    pub const fn stable(self) -> Self {
        Self { stable: true, ..self }
    }

    /// The same command, which only the database `admin` has.
    #[must_use]
    pub const fn admin_only(self) -> Self {
        Self { everywhere: false, ..self }
    }

    /// The same command, which `explain` takes.
    #[must_use]
    pub const fn explained(self, explain: Run) -> Self {
        Self { explain: Some(explain), ..self }
    }
}

impl Privilege {
    /// An action on the collection that the command names.
    #[must_use]
    pub const fn on_collection(action: &'static str) -> Self {
        Self { action, resource: Resource::Collection }
    }

    /// An action on the database that the command is sent to.
    #[must_use]
    pub const fn on_database(action: &'static str) -> Self {
        Self { action, resource: Resource::Database }
    }

    /// An action on all of it.
    #[must_use]
    pub const fn on_cluster(action: &'static str) -> Self {
        Self { action, resource: Resource::Cluster }
    }
}

/// All commands.
#[derive(Debug)]
pub struct Table {
    commands: Vec<Command>,
    /// The commands' places by all of their names.
    names: HashMap<&'static str, usize>,
}

impl Table {
    /// The table of commands.
    ///
    /// # Panics
    /// When two commands have one name.
    #[must_use]
    pub fn new(families: &[&'static [Command]]) -> Self {
        let mut commands: Vec<Command> = families.iter().flat_map(|family| family.iter().copied()).collect();
        commands.sort_by_key(|command| command.name);
        let mut names = HashMap::new();
        for (at, command) in commands.iter().enumerate() {
            for name in command.aliases.iter().chain([&command.name]) {
                assert!(names.insert(*name, at).is_none(), "two commands are called {name}");
            }
        }
        Self { commands, names }
    }

    /// The command with a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Command> {
        self.names.get(name).and_then(|at| self.commands.get(*at))
    }

    /// All commands in the order of their names.
    #[must_use]
    pub fn all(&self) -> &[Command] {
        &self.commands
    }
}
