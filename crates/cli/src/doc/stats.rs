//! `doc stats`: the collections of a database.

use super::args::StatsArgs;
use crate::output::Output;
use crate::store::look;
use crate::tables::Size;
use anyhow::Result;
use serde_json::json;
use spinney_document::Database;
use spinney_lab::text::{self, bytes, count};
use std::io::Write as _;

pub(super) fn run(args: &StatsArgs, out: &mut Output) -> Result<()> {
    look(&args.db, |engine| {
        let db = Database::with_engine(engine.clone())?;
        let mut rows = Vec::new();
        for database in db.list_databases() {
            for listed in db.list_collections(&database) {
                let name = listed.view().get("name").and_then(|name| name.as_str()).unwrap_or_default();
                let namespace = format!("{database}.{name}");
                let kind = listed.view().get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
                if kind != "collection" {
                    rows.push(json!({"ns": namespace, "type": kind}));
                    continue;
                }
                let Some(collection) = db.collection(&namespace)? else { continue };
                let (shape, schema) = (collection.state().table.shape()?, collection.schema());
                let size = Size::of(&shape);
                let (mut index_bytes, mut memory_bytes) = (0, size.memory_bytes);
                for index in &schema.indexes {
                    let size = Size::of(&index.table.shape()?);
                    index_bytes += size.disk_bytes;
                    memory_bytes += size.memory_bytes;
                }
                rows.push(json!({
                    "ns": namespace, "type": kind, "entries": size.entries, "disk": size.disk_bytes,
                    "trees": shape.trees, "indexes": schema.indexes.len() + 1, "index_disk": index_bytes,
                    "memory": memory_bytes,
                }));
            }
        }
        if args.json {
            return out.json(&rows);
        }
        let header = ["collection", "type", "entries", "disk", "trees", "indexes", "disk of indexes", "memory"];
        let mut list = text::Table::new(&header).left(2);
        for row in &rows {
            let words = ["ns", "type"].map(|name| row[name].as_str().unwrap_or_default().to_owned());
            let number = |name: &str| row[name].as_u64();
            let counted = |name: &str| number(name).map(count).unwrap_or_default();
            let sized = |name: &str| number(name).map(bytes).unwrap_or_default();
            let entries = [counted("entries"), sized("disk"), counted("trees")];
            let indexes = [counted("indexes"), sized("index_disk"), sized("memory")];
            list.row(words.into_iter().chain(entries).chain(indexes));
        }
        Ok(write!(out, "{}", list.render_within(out.columns().unwrap_or(usize::MAX)))?)
    })
}
