//! What a shell completes: the names of tables and collections of the database that the command line names.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap_complete::engine::CompletionCandidate;
use spinney::Database;

/// The words of the command line that is completed. The shell gives them behind `--`.
fn words() -> impl Iterator<Item = PathBuf> {
    std::env::args_os().skip_while(|word| word != "--").skip(2).map(PathBuf::from)
}

/// The database that the command line names, for looking at it.
fn database() -> Option<Database> {
    let path = words().find(|word| word.join("CURRENT").is_file())?;
    Database::open_read_only(path).ok()
}

fn beginning_with(current: &OsStr, names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    names.into_iter().filter(|name| name.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

/// The tables whose names begin so.
pub(crate) fn tables(current: &OsStr) -> Vec<CompletionCandidate> {
    let tables = database().and_then(|db| db.tables().ok()).unwrap_or_default();
    beginning_with(current, tables.iter().map(|table| table.name().to_owned()))
}

/// The collections whose names, as `DATABASE.COLLECTION`, begin so.
pub(crate) fn collections(current: &OsStr) -> Vec<CompletionCandidate> {
    let documents = database().and_then(|engine| spinney_document::Database::with_engine(engine).ok());
    let names = documents.iter().flat_map(|documents| {
        documents.list_databases().into_iter().flat_map(|database| {
            let collections = documents.list_collections(&database);
            let name = move |found: &spinney_document::bson::DocumentBuf| {
                let view = found.view();
                Some(format!("{database}.{}", view.get("name")?.as_str()?))
            };
            collections.iter().filter_map(name).collect::<Vec<_>>()
        })
    });
    beginning_with(current, names)
}
