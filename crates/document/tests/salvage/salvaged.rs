//! Salvage in place and to a copy, and what was reported.

use std::path::Path;

use spinney::{SalvageMode, SalvageReport, SalvagedCopy};
use spinney_document::bson::DocumentBuf;
use spinney_document::catalog::index_entry::EncodedId;
use spinney_document::collation::Collation;
use spinney_document::repair::{Mended, MendedCollection, Salvaged, mend};

use crate::made::options;

/// What a salvage reported.
pub(crate) struct Report {
    copy: Option<SalvagedCopy>,
    log: Option<SalvageReport>,
    mended: Mended,
}

impl Report {
    /// Whether anything may be older than it was, by a damaged manifest or log of which not all can be read.
    fn names_all(&self) -> bool {
        let unreadable = self.log.as_ref().is_some_and(|log| log.unreadable_bytes != Some(0));
        unreadable || self.copy.as_ref().is_some_and(|copy| copy.manifest.is_some())
    }

    fn collection(&self, collection: &str) -> Option<&MendedCollection> {
        let namespace = format!("shop.{collection}");
        self.mended.collections.iter().find(|mended| mended.namespace == namespace)
    }

    /// Whether a document, by the JSON of its `_id`, was named.
    pub(crate) fn names(&self, collection: &str, id: &str) -> bool {
        if self.names_all() || self.names_collection(collection) {
            return true;
        }
        let Some(mended) = self.collection(collection) else { return false };
        let document = DocumentBuf::from_json(&format!(r#"{{"_id": {id}}}"#)).unwrap();
        let id = document.view().get("_id").unwrap();
        let collation = (collection == "names").then(|| {
            let collation = DocumentBuf::from_json(r#"{"c": {"locale": "en", "strength": 2}}"#).unwrap();
            Collation::parse(&collation.view().get("c").unwrap()).unwrap().unwrap()
        });
        let mut key = EncodedId::default();
        key.set(&id, collation.as_deref());
        // The keys of a capped collection are not its `_id`s.
        let is_capped = collection == "events";
        let is_in_range = mended.lost.iter().any(|lost| is_capped || lost.keys.contains(key.key()));
        let mut text = String::new();
        spinney_document::collection::duplicate::write_value(&mut text, &id);
        let is_given_up = mended.given_up.contains(&text) || is_capped && mended.changes_given_up > 0;
        let was_removed = mended.repair.removed.iter().any(|gone| gone.view().get("_id") == Some(id));
        // A sort key does not give the `_id` back, when no document with it is left.
        let has_no_text = collection == "names" && mended.given_up.iter().any(|text| text.starts_with("with the key"));
        is_in_range || is_given_up || was_removed || has_no_text
    }

    /// Whether all of a collection may be older than it was.
    pub(crate) fn names_collection(&self, collection: &str) -> bool {
        let namespace = format!("shop.{collection}");
        let is_within =
            |(from, to): &(String, Option<String>)| *from <= namespace && to.as_ref().is_none_or(|to| namespace <= *to);
        let catalog_given_up = self.log.as_ref().is_some_and(|log| log.lost.iter().any(|loss| loss.name == "catalog"));
        self.names_all() || catalog_given_up || self.mended.lost_names.iter().any(is_within)
    }

    /// Whether an index could not be built.
    pub(crate) fn leaves_out(&self, collection: &str, index: &str) -> bool {
        let namespace = format!("shop.{collection}");
        let is_left_out = self.mended.left_out().any(|(of, left_out)| of == namespace && left_out.name == index);
        is_left_out || self.names_collection(collection)
    }

    pub(crate) fn text(&self) -> String {
        format!("{:?} {:?} {:?}", self.mended, self.log, self.copy)
    }
}

/// Whether a salvage in place has something to do.
pub(crate) fn is_for_place(dir: &Path) -> bool {
    spinney::Database::salvage(dir, SalvageMode::Report).is_ok()
}

/// Cuts the log, and mends what depends on it. Nothing when the tables cannot be read.
pub(crate) fn in_place(dir: &Path) -> Result<Option<Report>, String> {
    let log = spinney::Database::salvage(dir, SalvageMode::Repair).map_err(|error| error.to_string())?;
    if !is_sound(dir) {
        return Ok(None);
    }
    let mended = mended(dir, Salvaged::InPlace(&log))?;
    Ok(Some(Report { copy: None, log: Some(log), mended }))
}

/// Whether all blocks of the tables can be read.
pub(crate) fn is_sound(dir: &Path) -> bool {
    let verified = spinney::Database::open_read_only(dir).and_then(|db| db.verify());
    verified.is_ok_and(|report| report.problem_count == 0)
}

/// Copies what can be read, and mends the copy.
pub(crate) fn to_copy(dir: &Path, out: &Path) -> Result<Report, String> {
    let copy = spinney::Database::salvage_to(dir, out).map_err(|error| error.to_string())?;
    let mended = mended(out, Salvaged::Copy(&copy))?;
    Ok(Report { log: copy.log.clone(), copy: Some(copy), mended })
}

fn mended(dir: &Path, salvaged: Salvaged<'_>) -> Result<Mended, String> {
    let engine = spinney::Database::open(dir, options()).map_err(|error| error.to_string())?;
    let mended = mend(&engine, salvaged, &mut |_, _| ()).map_err(|error| format!("it was not mended: {error}"))?;
    engine.close().map_err(|error| error.to_string())?;
    let mended = mended.ok_or("it has no documents")?;
    if let Some(failed) = mended.collections.iter().find(|collection| collection.failure.is_some()) {
        return Err(format!("a collection was not mended: {failed:?}"));
    }
    Ok(mended)
}
