//! How a command is declared: its name, its fields, and what it needs.

use crate::bson::Kind;

/// What is known of a command before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What the value of the first field, whose name is the command's, is.
    pub target: Target,
    /// The other fields.
    pub fields: &'static [Field],
    /// Whether it takes fields that are not declared.
    pub any_fields: bool,
    /// What it does, a sentence.
    pub help: &'static str,
    /// Whether a client may run it that has not logged in.
    pub before_login: bool,
    /// Whether it reads or writes documents.
    pub access: Access,
    /// Whether a transaction may contain it.
    pub in_transaction: bool,
    /// Whether it is part of version 1 of the stable API.
    pub stable: bool,
    /// Whether it may be run in other databases than `admin`.
    pub everywhere: bool,
}

impl Declaration {
    /// A command without fields, which may be run on any database.
    #[must_use]
    pub const fn new(name: &'static str, target: Target, help: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            target,
            fields: &[],
            any_fields: false,
            help,
            before_login: false,
            access: Access::Neither,
            in_transaction: false,
            stable: false,
            everywhere: true,
        }
    }
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
    /// Whether a null is as good as no field.
    pub nullable: bool,
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
        Self { name, kind, required: false, nullable: true, min: None, max: None }
    }

    /// A field that must be there.
    #[must_use]
    pub const fn required(name: &'static str, kind: FieldType) -> Self {
        Self { required: true, ..Self::optional(name, kind) }
    }

    /// The same field, of which a null is of the wrong type.
    #[must_use]
    pub const fn not_null(self) -> Self {
        Self { nullable: false, ..self }
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
