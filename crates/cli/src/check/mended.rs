//! What a salvage means to the documents of a database.

use crate::store::{close_after, show};
use anyhow::{Context as _, Result};
use indicatif::ProgressDrawTarget;
use serde_json::{Value as Json, json};
use spinney::Database;
use spinney_document::catalog::settle::has_documents;
use spinney_document::repair::{LostDocuments, Mended, MendedCollection, Salvaged, mend};
use spinney_lab::progress;
use spinney_lab::text::{Table, count, counted};
use std::io::Write;
use std::path::Path;

/// The `_id`s of one collection on a line.
const IDS_SHOWN: usize = 20;

/// Makes indexes and counts of the documents agree after a salvage; nothing when the database holds none.
pub(crate) fn after(db: &Path, salvaged: Salvaged<'_>) -> Result<Option<Mended>> {
    // A database without documents stays as the salvage left it.
    if !close_after(Database::open_read_only(db)?, |engine| Ok(has_documents(engine)?))? {
        return Ok(None);
    }
    let wheel = progress::wheel("documents");
    wheel.set_draw_target(ProgressDrawTarget::hidden());
    let done = Database::builder(db).open().map_err(anyhow::Error::from).and_then(|engine| {
        close_after(engine, |engine| {
            let mended = mend(engine, salvaged, &mut |namespace, read| {
                wheel.set_message(format!("{namespace}: {} compared", count(read)));
                show(&wheel, read, read);
            });
            Ok(mended?)
        })
    });
    wheel.finish_and_clear();
    let db = db.display();
    done.with_context(|| {
        format!(
            "the documents of {db} were not compared with their indexes: spinney verify --documents {db} tries again"
        )
    })
}

/// Whether a table holds documents or an index of them, so that its keys mean nothing to anybody.
pub(crate) fn is_of_documents(table: &str) -> bool {
    let is_numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    table == "catalog" || ["c-", "i-"].iter().any(|kind| table.strip_prefix(kind).is_some_and(is_numbered))
}

/// Prints what was lost, by collection and `_id`, and what was built again.
pub(crate) fn print(mended: &Mended, out: &mut dyn Write) -> Result<()> {
    if mended.is_of_member {
        writeln!(
            out,
            "the database is of a member of a replica set: its documents were not compared with their indexes. Let the \
             member get a copy of another one's data, if there is one"
        )?;
        return Ok(());
    }
    print_catalog(mended, out)?;
    let mut list = Table::new(&["collection", "documents", "damaged", "indexes built again"]).left(1);
    for collection in &mended.collections {
        let rebuilt = collection.repair.rebuilt.join(", ");
        let numbers = [count(collection.documents), collection.lost.len().to_string()];
        list.row([collection.namespace.clone()].into_iter().chain(numbers).chain([rebuilt]));
    }
    write!(out, "{}", list.render())?;
    mended.collections.iter().try_for_each(|collection| print_collection(collection, out))
}

fn print_catalog(mended: &Mended, out: &mut dyn Write) -> Result<()> {
    for (from, to) in &mended.lost_names {
        let range = match (from.is_empty(), to) {
            (true, None) => "any name".to_owned(),
            (false, None) => format!("names from {from}"),
            (true, Some(to)) => format!("names up to {to}"),
            (false, Some(to)) => format!("names from {from} to {to}"),
        };
        writeln!(out, "the catalog is damaged: collections with {range} are lost, or have older options and indexes")?;
    }
    for (table, namespace) in &mended.settled.unnamed {
        writeln!(
            out,
            "the documents of table {table}, whose name is lost, are the collection {namespace} now: rename it"
        )?;
    }
    for table in &mended.settled.unnamed_indexes {
        writeln!(out, "the index in table {table}, whose name is lost, is left out: create it again")?;
    }
    for (namespace, index) in &mended.settled.without_table {
        match index {
            Some(index) => writeln!(out, "{namespace}: the index {index} was lost, and is built again")?,
            None => writeln!(out, "{namespace}: all documents are lost")?,
        }
    }
    for (namespace, why) in &mended.settled.dropped_rows {
        writeln!(out, "{namespace} is not in the catalog any more: {why}")?;
    }
    Ok(())
}

fn print_collection(collection: &MendedCollection, out: &mut dyn Write) -> Result<()> {
    let name = &collection.namespace;
    if !collection.lost.is_empty() {
        writeln!(out, "{name}: lost, or older than they were, are")?;
    }
    for LostDocuments { text, keys } in &collection.lost {
        writeln!(out, "  {text}: {}", keys.damage)?;
    }
    if collection.changes_given_up > 0 {
        let changes = counted(collection.changes_given_up, "change", "changes");
        let mut ids = collection.given_up.iter().take(IDS_SHOWN).cloned().collect::<Vec<_>>().join(", ");
        if collection.given_up.len() > IDS_SHOWN {
            ids += ", … (--json lists them)";
        }
        writeln!(out, "{name}: given up: {changes}, of the documents with _id {ids}")?;
    }
    let repair = &collection.repair;
    for left_out in &repair.left_out {
        writeln!(out, "{name}: the index {} is left out: {}", left_out.name, left_out.reason)?;
        writeln!(out, "  when one of these documents is gone, create it again: {}", left_out.spec.view().to_json())?;
    }
    for removed in &repair.removed {
        writeln!(out, "{name}: removed, since a newer document has its _id: {}", removed.view().to_json())?;
    }
    if let Some(count) = repair.before.wrong_count {
        writeln!(out, "{name}: the stored count said {count}, and is {} now", repair.before.documents)?;
    }
    for problem in &repair.after.problems {
        writeln!(out, "{name}: {problem}")?;
    }
    if let Some(failure) = &collection.failure {
        writeln!(out, "{name}: it could not be compared with its indexes: {failure}")?;
    }
    Ok(())
}

pub(crate) fn json_of(mended: &Mended) -> Json {
    let lost = |lost: &LostDocuments| {
        let keys = &lost.keys;
        json!({ "documents": lost.text, "file": keys.file, "offset": keys.offset, "damage": keys.damage })
    };
    let collections = mended.collections.iter().map(|collection| {
        let repair = &collection.repair;
        let left_out = repair.left_out.iter().map(|left_out| {
            json!({ "name": left_out.name, "reason": left_out.reason, "spec": left_out.spec.view().to_json() })
        });
        json!({
            "ns": collection.namespace,
            "documents": collection.documents,
            "lost": collection.lost.iter().map(lost).collect::<Vec<_>>(),
            "changes_given_up": collection.changes_given_up,
            "given_up": collection.given_up,
            "indexes_rebuilt": repair.rebuilt,
            "indexes_left_out": left_out.collect::<Vec<_>>(),
            "removed": repair.removed.iter().map(|document| document.view().to_json()).collect::<Vec<_>>(),
            "problems": repair.after.problems,
            "failure": collection.failure,
        })
    });
    json!({
        "is_of_member": mended.is_of_member,
        "lost_names": mended.lost_names,
        "unnamed": mended.settled.unnamed,
        "unnamed_indexes": mended.settled.unnamed_indexes,
        "without_table": mended.settled.without_table,
        "dropped_rows": mended.settled.dropped_rows,
        "collections": collections.collect::<Vec<_>>(),
    })
}
