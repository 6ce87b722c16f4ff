//! `admin.system.version`: the version of the form in which users and roles are stored, as dumps and restores look for
//! it. It is there as soon as there is a user or a role.

use spinney_document::bson::Value;
use spinney_document::{Database, ErrorCode, Result, doc};

/// The collection.
const COLLECTION: &str = "admin.system.version";

/// The `_id` of its document.
const ID: &str = "authSchema";

/// The version of the form: that of users with credentials of SCRAM.
const VERSION: i32 = 5;

/// Stores the version of the form of users and roles, unless it is there.
///
/// # Errors
/// Those of the engine.
pub fn store(database: &Database) -> Result<()> {
    let collection = database.collection_or_create(COLLECTION)?;
    if collection.find_by_id(Value::from(ID))?.is_some() {
        return Ok(());
    }
    match collection.insert_one(doc! {"_id": ID, "currentVersion": VERSION}.view()) {
        // Another connection has stored it meanwhile.
        Err(error) if error.code() == ErrorCode::DUPLICATE_KEY => Ok(()),
        done => done.map(drop),
    }
}
