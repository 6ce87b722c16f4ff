//! Lost keys of a table as the `_id`s of documents.

use std::path::PathBuf;

use spinney::{LostRange, Snapshot};

use crate::base::Result;
use crate::bson::Document;
use crate::catalog::CollectionState;
use crate::collection::duplicate::write_value;
use crate::collection::validate::id_text;
use crate::keys::{Direction, field_len};

/// A range of documents of a collection, each of which is lost or older than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostDocuments {
    /// The documents, such as `documents with _id from 7 to 12`.
    pub text: String,
    /// The keys in the collection's table.
    pub keys: LostRange,
}

impl LostDocuments {
    /// Names a range of keys of a collection's table by `_id`s. Where an end is no whole key, or does not give its
    /// `_id` back, the nearest document that is left on that side is named: the range that is named is larger then.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn new(collection: &CollectionState, snapshot: &Snapshot, keys: &LostRange) -> Result<Self> {
        let from = End::of(collection, snapshot, &keys.from, false)?;
        let to = match &keys.to {
            Some(to) => End::of(collection, snapshot, to, true)?,
            None => End::Open,
        };
        let text = match (&from, &to) {
            (End::Open, End::Open) => "any document".to_owned(),
            (End::At(from), End::At(to)) if from == to => format!("the document with _id {from}"),
            (from, to) => {
                let from = from.text("from ", "behind ");
                let to = to.text("to ", "before ");
                let separator = if from.is_empty() || to.is_empty() { "" } else { " " };
                format!("documents with _id {from}{separator}{to}")
            }
        };
        let text = match &collection.capped {
            Some(_) => text.replace("documents with _id ", "documents inserted "),
            None => text,
        };
        Ok(Self { text, keys: keys.clone() })
    }

    /// The damaged file.
    #[must_use]
    pub fn file(&self) -> &PathBuf {
        &self.keys.file
    }
}

/// An end of a range.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It is that of the collection.
    Open,
    /// The `_id` of the end.
    At(String),
    /// The `_id` of the nearest document outside of the range.
    Outside(String),
}

impl End {
    fn of(collection: &CollectionState, snapshot: &Snapshot, key: &[u8], is_upper: bool) -> Result<Self> {
        if key.is_empty() {
            return Ok(Self::Open);
        }
        let (is_capped, is_collated) = (collection.capped.is_some(), collection.collation().is_some());
        let is_whole = field_len(key, Direction::Ascending) == Some(key.len());
        if is_whole && !is_capped {
            // Types of numbers are not in the key, and do not matter to who looks for the document.
            let text = id_text(key, &[], is_collated);
            if !text.starts_with("with the key") {
                return Ok(Self::At(text));
            }
        }
        let mut range =
            if is_upper { snapshot.range(&collection.table, key..) } else { snapshot.range(&collection.table, ..key) };
        let mut nearest = String::new();
        let mut name = |document: &[u8]| {
            let id = Document::from_checked_bytes(document).and_then(|document| document.get("_id"));
            id.iter().for_each(|id| write_value(&mut nearest, id));
        };
        if is_upper {
            while let Some((at, document)) = range.advance()? {
                // The end itself may be one that came back older than it was.
                if at != key {
                    name(document);
                    break;
                }
            }
        } else if let Some((_, document)) = range.next_back().transpose()? {
            name(&document);
        }
        Ok(if nearest.is_empty() { Self::Open } else { Self::Outside(nearest) })
    }

    fn text(&self, at: &str, outside: &str) -> String {
        match self {
            Self::Open => String::new(),
            Self::At(id) => format!("{at}{id}"),
            Self::Outside(id) => format!("{outside}{id}"),
        }
    }
}

/// The `_id`s of keys of a collection's table whose last changes were given up.
pub(super) fn names_of(collection: &CollectionState, snapshot: &Snapshot, keys: &[Vec<u8>]) -> Result<Vec<String>> {
    let is_collated = collection.collation().is_some();
    let mut names = Vec::new();
    for key in keys {
        let there = snapshot.get(&collection.table, key)?;
        let document = there.as_deref().and_then(Document::from_checked_bytes);
        match document.and_then(|document| document.get("_id")) {
            Some(id) => {
                let mut text = String::new();
                write_value(&mut text, &id);
                names.push(text);
            }
            None if collection.capped.is_some() => names.push(format!("of record {}", id_text(key, &[], false))),
            None => names.push(id_text(key, &[], is_collated)),
        }
    }
    Ok(names)
}
