//! The types of BSON values: their numbers in the format, their names, and their classes in the order of values.

/// The type of a value. The discriminants are the format's type bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A 64-bit IEEE 754 number.
    Double = 0x01,
    /// Text.
    String = 0x02,
    /// A document within a document.
    Document = 0x03,
    /// An array.
    Array = 0x04,
    /// Bytes with a subtype.
    Binary = 0x05,
    /// Deprecated: a value that is not defined.
    Undefined = 0x06,
    /// Twelve bytes that identify a document.
    ObjectId = 0x07,
    /// True or false.
    Bool = 0x08,
    /// Milliseconds since 1970, UTC.
    DateTime = 0x09,
    /// Null.
    Null = 0x0A,
    /// A regular expression.
    Regex = 0x0B,
    /// Deprecated: a reference to a document of another collection.
    DbPointer = 0x0C,
    /// JavaScript.
    Code = 0x0D,
    /// Deprecated: text, equal to a string.
    Symbol = 0x0E,
    /// Deprecated: JavaScript with variables.
    CodeWithScope = 0x0F,
    /// A 32-bit integer.
    Int32 = 0x10,
    /// Seconds and an ordinal, of MongoDB's own use.
    Timestamp = 0x11,
    /// A 64-bit integer.
    Int64 = 0x12,
    /// A 128-bit IEEE 754 decimal number.
    Decimal128 = 0x13,
    /// The greatest of all values.
    MaxKey = 0x7F,
    /// The least of all values.
    MinKey = 0xFF,
}

/// The class of a value: values of a lower class come before all values of a higher one. The discriminants are the
/// first bytes of encoded keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// The least of all values.
    MinKey = 0x08,
    /// Undefined.
    Undefined = 0x10,
    /// Null; a missing field counts as null in sorts and indexes.
    Null = 0x14,
    /// Numbers of the four types, by exact value.
    Number = 0x20,
    /// Strings and symbols.
    String = 0x40,
    /// Documents.
    Document = 0x48,
    /// Arrays.
    Array = 0x50,
    /// Binary values.
    Binary = 0x58,
    /// Object ids.
    ObjectId = 0x60,
    /// False and true.
    Bool = 0x68,
    /// Dates.
    DateTime = 0x70,
    /// Timestamps.
    Timestamp = 0x78,
    /// Regular expressions.
    Regex = 0x80,
    /// Pointers to documents.
    DbPointer = 0x88,
    /// Code.
    Code = 0x90,
    /// Code with variables.
    CodeWithScope = 0x98,
    /// The greatest of all values.
    MaxKey = 0xF0,
}

impl Kind {
    /// The type with a type byte, if there is one.
    #[inline]
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::Double,
            0x02 => Self::String,
            0x03 => Self::Document,
            0x04 => Self::Array,
            0x05 => Self::Binary,
            0x06 => Self::Undefined,
            0x07 => Self::ObjectId,
            0x08 => Self::Bool,
            0x09 => Self::DateTime,
            0x0A => Self::Null,
            0x0B => Self::Regex,
            0x0C => Self::DbPointer,
            0x0D => Self::Code,
            0x0E => Self::Symbol,
            0x0F => Self::CodeWithScope,
            0x10 => Self::Int32,
            0x11 => Self::Timestamp,
            0x12 => Self::Int64,
            0x13 => Self::Decimal128,
            0x7F => Self::MaxKey,
            0xFF => Self::MinKey,
            _ => return None,
        })
    }

    /// The type byte.
    #[inline]
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The type's number in `$type`: its byte, but -1 for `MinKey`.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::MinKey => -1,
            other => other as i32,
        }
    }

    /// The type's name in `$type` and in MongoDB's error messages, such as `int`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::String => "string",
            Self::Document => "object",
            Self::Array => "array",
            Self::Binary => "binData",
            Self::Undefined => "undefined",
            Self::ObjectId => "objectId",
            Self::Bool => "bool",
            Self::DateTime => "date",
            Self::Null => "null",
            Self::Regex => "regex",
            Self::DbPointer => "dbPointer",
            Self::Code => "javascript",
            Self::Symbol => "symbol",
            Self::CodeWithScope => "javascriptWithScope",
            Self::Int32 => "int",
            Self::Timestamp => "timestamp",
            Self::Int64 => "long",
            Self::Decimal128 => "decimal",
            Self::MaxKey => "maxKey",
            Self::MinKey => "minKey",
        }
    }

    /// The class in the order of values.
    #[inline]
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::Double | Self::Int32 | Self::Int64 | Self::Decimal128 => Class::Number,
            Self::String | Self::Symbol => Class::String,
            Self::Document => Class::Document,
            Self::Array => Class::Array,
            Self::Binary => Class::Binary,
            Self::Undefined => Class::Undefined,
            Self::ObjectId => Class::ObjectId,
            Self::Bool => Class::Bool,
            Self::DateTime => Class::DateTime,
            Self::Null => Class::Null,
            Self::Regex => Class::Regex,
            Self::DbPointer => Class::DbPointer,
            Self::Code => Class::Code,
            Self::CodeWithScope => Class::CodeWithScope,
            Self::Timestamp => Class::Timestamp,
            Self::MaxKey => Class::MaxKey,
            Self::MinKey => Class::MinKey,
        }
    }

    /// Whether the type is one of the four number types.
    #[inline]
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Double | Self::Int32 | Self::Int64 | Self::Decimal128)
    }
}
