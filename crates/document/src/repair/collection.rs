//! Repair of a collection: indexes that disagree with its documents are built again, and the stored number of documents
//! is put right. Documents are not changed.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::DocumentBuf;
use crate::collection::rebuild_ids::rebuild_ids;
use crate::collection::{OnValidated, Validation};
use crate::database::Database;

/// An index that could not be built, and was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Its specification, as `createIndexes` takes it.
    pub spec: DocumentBuf,
    /// Why the documents cannot have it.
    pub reason: String,
}

/// What a repair found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// What was wrong before.
    pub before: Validation,
    /// What is wrong now; as before when nothing was to be done.
    pub after: Validation,
    /// The names of the indexes that were built again.
    pub rebuilt: Vec<String>,
    /// The indexes that could not be built again.
    pub left_out: Vec<LeftOut>,
    /// Documents of a capped collection that were removed, because a newer one has their `_id`.
    pub removed: Vec<DocumentBuf>,
}

impl Repair {
    /// Whether something was changed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let has_rebuilt = !self.rebuilt.is_empty() || !self.left_out.is_empty();
        has_rebuilt || !self.removed.is_empty() || self.before.wrong_count.is_some()
    }
}

impl Database {
    /// Validates a collection, builds the indexes again that disagree with the documents, and puts the stored number of
    /// documents right. An index that the documents cannot have, such as a unique one when two have the same key, is
    /// dropped, and returned with its specification. Documents are not changed, but of a capped collection that has two
    /// with one `_id`, which stores them in the order in which they came: the newer one stays.
    ///
    /// # Errors
    /// `NamespaceNotFound` (26); `IllegalOperation` (20) on a member of a replica set; those of `told` and of the
    /// engine.
    pub fn repair(&self, namespace: &str, told: &mut OnValidated<'_>) -> Result<Repair> {
        if self.catalog().committer().is_some() {
            let what =
                "a collection is repaired on a standalone server: let this member get a copy of another one's data";
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
        }
        let collection = self.existing(namespace)?;
        let before = collection.validate_with(told)?;
        if before.damaged_indexes.is_empty() && before.wrong_count.is_none() {
            return Ok(Repair { after: before.clone(), before, ..Repair::default() });
        }
        let mut repair = Repair { before, ..Repair::default() };
        let (documents, state) = (&collection.state().documents, collection.state());
        if let Some(count) = repair.before.wrong_count {
            // What was added since is added to either.
            documents.add(i64::try_from(repair.before.documents).unwrap_or(i64::MAX) - count);
            documents.change();
        }
        let schema = collection.schema();
        let is_damaged = |name: &String| repair.before.damaged_indexes.contains(name);
        let mut damaged: Vec<_> = schema.others().map(|index| index.spec.name.clone()).filter(is_damaged).collect();
        let ids = schema.indexes.iter().find(|index| index.spec.is_id());
        if let Some(ids) = ids.filter(|ids| repair.before.damaged_indexes.contains(&ids.spec.name)) {
            repair.removed = rebuild_ids(self.catalog(), state)?;
            repair.rebuilt.push(ids.spec.name.clone());
            if !repair.removed.is_empty() {
                damaged = schema.others().map(|index| index.spec.name.clone()).collect();
            }
        }
        for name in damaged {
            self.rebuild_or_drop(namespace, &name, &mut repair)?;
        }
        repair.after = self.existing(namespace)?.validate_with(told)?;
        Ok(repair)
    }

    fn rebuild_or_drop(&self, namespace: &str, name: &str, repair: &mut Repair) -> Result<()> {
        match self.rebuild_index(namespace, name, None) {
            Ok(()) => repair.rebuilt.push(name.to_owned()),
            Err(error) if is_of_keys(&error) => {
                let Some(index) = self.existing(namespace)?.schema().index(name).cloned() else { return Ok(()) };
                self.drop_indexes(namespace, name)?;
                let (name, spec) = (name.to_owned(), DocumentBuf::from(index.spec.document()));
                repair.left_out.push(LeftOut { name, spec, reason: error.message().to_owned() });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The codes of keys that the documents cannot have: `DuplicateKey`, `CannotIndexParallelArrays`, two of hashed
/// indexes, `KeyTooLong`.
const OF_KEYS: [i32; 5] = [11000, 171, 16766, 16746, 17280];

/// Whether an index cannot be built because of the documents.
fn is_of_keys(error: &Error) -> bool {
    OF_KEYS.contains(&error.code().number())
}
