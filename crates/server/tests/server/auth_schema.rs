//! `admin.system.version`, which dumps and restores of users look for.

use spinney::Durability;
use spinney_document::Database;
use spinney_server::auth::Mechanism;

use crate::client::{TestServer, batch, number};

const VERSION: &str = r#"{"_id":"authSchema","currentVersion":5}"#;

/// A dump of a server with users could not be restored: mongorestore takes the users of a dump without the version of
/// their form for users of 2.4, and restores nothing at all.
#[test]
fn the_version_of_the_users_form_is_there_as_soon_as_there_is_a_user() {
    let server = TestServer::new(|settings| settings.auth = true);
    let mut root = server.client();
    root.ok("admin", r#"{"createUser": "root", "pwd": "p", "roles": ["root"]}"#);
    root.log_in(Mechanism::Sha256, "admin", "root", "p");
    assert_eq!(batch(&root.ok("admin", r#"{"find": "system.version"}"#)), [VERSION]);
    let listed = batch(&root.ok("admin", r#"{"listCollections": 1, "nameOnly": true}"#)).concat();
    assert!(listed.contains("system.version") && listed.contains("system.users"), "{listed}");
    // It may be put back, as other documents.
    root.ok("admin", r#"{"drop": "system.version"}"#);
    root.ok("admin", &format!(r#"{{"insert": "system.version", "documents": [{VERSION}]}}"#));
    root.ok("app", r#"{"createUser": "ada", "pwd": "p", "roles": []}"#);
    assert_eq!(batch(&root.ok("admin", r#"{"find": "system.version"}"#)), [VERSION]);
}

/// Users who were made before the version was stored with them are dumped as others are. The database is of a server
/// that did not know the version.
#[test]
fn a_database_with_older_users_gets_the_version_at_the_start() {
    let dir = tempfile::TempDir::new().unwrap();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/faults/users")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let options = spinney::Options::default().durability(Durability::Buffered);
    let database = Database::open(dir.path(), options).unwrap();
    assert!(database.collection("admin.system.version").unwrap().is_none(), "the kept database has the version");
    let server = TestServer::over(database, |settings| settings.auth = true);
    let mut root = server.client();
    assert_eq!(number(&root.log_in(Mechanism::Sha256, "admin", "root", "p"), "ok"), 1);
    assert_eq!(batch(&root.ok("admin", r#"{"find": "system.version"}"#)), [VERSION]);
}

/// A database without users has no collection for the version of their form.
#[test]
fn a_database_without_users_has_no_version() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    client.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    assert!(batch(&client.ok("admin", r#"{"listCollections": 1}"#)).is_empty());
}
