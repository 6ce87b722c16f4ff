//! `doc indexes`: the indexes of a collection.

use super::args::IndexesArgs;
use super::query::{existing, json_of};
use crate::output::Output;
use crate::store::{look, with_db};
use crate::tables::Size;
use anyhow::Result;
use spinney_document::Database;
use spinney_document::bson::{DocumentBuf, DocumentBuilder};
use spinney_document::keys::KeyPattern;
use spinney_lab::text::{self, bytes, count};
use std::io::Write as _;

pub(super) fn run(args: &IndexesArgs, out: &mut Output) -> Result<()> {
    let namespace = &args.collection.namespace;
    if let Some(keys) = &args.create {
        let keys = json_of("--create", keys)?;
        let name = KeyPattern::parse(keys.view())?.default_name();
        let mut spec = DocumentBuilder::new();
        spec.append("key", keys.view()).append("name", &*name);
        if args.unique {
            spec.append("unique", true);
        }
        let spec = spec.finish();
        let created = with_db(&args.collection.db, |engine| {
            let db = Database::with_engine(engine.clone())?;
            existing(&db, namespace)?;
            Ok(db.create_indexes(namespace, &[spec])?)
        })?;
        let what = if created == 0 { "is there already" } else { "made" };
        return Ok(writeln!(out, "index {name} of {namespace}: {what}")?);
    }
    if let Some(name) = &args.drop {
        with_db(&args.collection.db, |engine| {
            Ok(Database::with_engine(engine.clone())?.drop_indexes(namespace, name)?)
        })?;
        return Ok(writeln!(out, "index {name} of {namespace}: dropped")?);
    }
    look(&args.collection.db, |engine| {
        let db = Database::with_engine(engine.clone())?;
        let collection = existing(&db, namespace)?;
        let specs = db.list_indexes(namespace)?;
        if args.json {
            for spec in &specs {
                writeln!(out, "{}", spec.view().to_json())?;
            }
            return Ok(());
        }
        let schema = collection.schema();
        let mut list = text::Table::new(&["index", "keys", "options", "entries", "disk", "memory"]).left(3);
        for spec in &specs {
            let view = spec.view();
            let name = view.get("name").and_then(|name| name.as_str()).unwrap_or_default();
            let table = schema.index(name).map_or(&collection.state().table, |index| &index.table);
            let size = Size::of(&table.shape()?);
            let keys = view.get("key").map(|key| key.to_json()).unwrap_or_default();
            let numbers = [count(size.entries), bytes(size.disk_bytes), bytes(size.memory_bytes)];
            list.row([name.to_owned(), keys, options_of(spec)].into_iter().chain(numbers));
        }
        Ok(write!(out, "{}", list.render_within(out.columns().unwrap_or(usize::MAX)))?)
    })
}

/// The options of an index on a line.
fn options_of(spec: &DocumentBuf) -> String {
    let told =
        spec.view().elements().filter(|element| !["v", "key", "name"].iter().any(|known| element.name == *known));
    let told = told.map(|element| match element.value.to_json() {
        yes if yes == "true" => element.name.to_string(),
        value => format!("{} {value}", element.name),
    });
    told.collect::<Vec<_>>().join(", ")
}
