//! What an operation gave, in a form that the engine and the model share and a history prints.

use std::fmt;

pub use crate::entry::Pair;

/// What an operation gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Its slot was empty, so nothing was done.
    Nothing,
    /// Another transaction was first.
    Conflict,
    /// What a key has.
    Value(Option<Vec<u8>>),
    /// What several keys have.
    Values(Vec<Option<Vec<u8>>>),
    /// Whether the key is there.
    Contains(bool),
    /// Entries in the order in which they were read.
    Entries(Vec<Pair>),
    /// All entries of all tables.
    Tables(Vec<Vec<Pair>>),
    /// An error, or something that must not be.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Nothing => f.write_str("nothing to do"),
            Self::Conflict => f.write_str("conflict"),
            Self::Value(value) => f.write_str(&show(value.as_deref())),
            Self::Values(values) => {
                let values: Vec<_> = values.iter().map(|value| show(value.as_deref())).collect();
                f.write_str(&values.join(" "))
            }
            Self::Contains(found) => write!(f, "{found}"),
            Self::Entries(entries) => f.write_str(&show_entries(entries)),
            Self::Tables(tables) => {
                let tables: Vec<_> = tables.iter().map(|entries| show_entries(entries)).collect();
                f.write_str(&tables.join(" | "))
            }
            Self::Failed(message) => write!(f, "failed: {message}"),
        }
    }
}

/// Bytes as text: short ones in full, of longer ones the beginning, the length and a hash.
#[must_use]
pub fn show_bytes(bytes: &[u8]) -> String {
    if bytes.len() <= 40 {
        format!("\"{}\"", bytes.escape_ascii())
    } else {
        format!("\"{}..\"({}#{:08x})", bytes[..8].escape_ascii(), bytes.len(), hash(bytes))
    }
}

/// A value as text: a short one in full, else its length and hash, or that there is none.
#[must_use]
pub fn show(value: Option<&[u8]>) -> String {
    match value {
        None => "none".to_owned(),
        Some(bytes) if bytes.len() <= 8 => format!("\"{}\"", bytes.escape_ascii()),
        Some(bytes) => format!("{}#{:08x}", bytes.len(), hash(bytes)),
    }
}

fn show_entries(entries: &[Pair]) -> String {
    let pairs = entries.iter().map(|(key, value)| format!("{}:{}", show_bytes(key), show(Some(value))));
    format!("{} entries {}", entries.len(), pairs.collect::<Vec<_>>().join(" "))
}

/// FNV-1a: good enough to tell values apart in a history.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
