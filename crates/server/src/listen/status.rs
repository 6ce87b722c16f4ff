//! What the page shows, as JSON.
//!
//! # Invariants
//!
//! 1. Who reads the page has not logged in: it tells names and sizes, and no values of documents or commands.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use spinney::{Shape, Table};
use spinney_document::base::num::u64_of;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::catalog::{CollectionState, Entry};
use spinney_document::command::timing::{CLASSES, Timed};

use super::health::trouble;
use super::members;
use crate::base::clock::{monotonic, now_ms};
use crate::state::Server;
use crate::state::history::{GROUPS, KINDS, STEP_MS};

/// How long what is costly to find out is told again.
const STALE: Duration = Duration::from_secs(20);

/// The most collections and tables that are told.
const LISTED_MAX: usize = 300;

/// What is costly to find out, and when it was.
#[derive(Debug, Default)]
pub(super) struct Status {
    collections: Option<(Instant, DocumentBuf)>,
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Appends numbers under their names.
fn append_all(to: &mut DocumentBuilder, numbers: &[(&str, u64)]) {
    for (name, number) in numbers {
        to.append(*name, long(*number));
    }
}

impl Status {
    /// All of it, with the samples after a time.
    pub(super) fn json(&mut self, server: &Server, since_ms: i64) -> String {
        let mut all = DocumentBuilder::new();
        append_server(&mut all, server);
        members::append(&mut all, server);
        append_history(&mut all, server, since_ms);
        append_commands(&mut all, server);
        append_slow(&mut all, server);
        append_engine(&mut all, server);
        let fresh = self.collections.take().filter(|(when, _)| monotonic() - *when < STALE);
        let (when, listed) = fresh.unwrap_or_else(|| (monotonic(), collections(server)));
        all.append_all(listed.view());
        self.collections = Some((when, listed));
        all.finish().view().to_json()
    }
}

fn append_server(all: &mut DocumentBuilder, server: &Server) {
    let (state, network) = (server.service.state(), &server.service.state().network);
    all.append("time", now_ms()).append("version", env!("CARGO_PKG_VERSION"));
    all.append("compatible", state.options.version.as_str()).append("address", server.topology.address().as_str());
    all.append("path", server.service.database().engine().path().display().to_string().as_str());
    all.append("set", server.topology.set().map_or(Value::Null, Value::from)).append("auth", server.settings.auth);
    all.append("uptime", long((monotonic() - server.started).as_secs()));
    all.append("trouble", trouble(server).as_deref().map_or(Value::Null, Value::from));
    let (opened, refused) = server.connections.totals();
    all.open_document("connections");
    append_all(
        all,
        &[
            ("open", u64_of(server.connections.current())),
            ("available", u64_of(server.connections.available())),
            ("opened", opened),
            ("refused", refused),
            ("running", u64_of(state.operations.list().len())),
            ("cursors", state.cursors.counts().open),
            ("logins", server.counters.authenticated.get()),
            ("loginsFailed", server.counters.refused.get()),
            ("unauthorized", server.counters.unauthorized.get()),
            ("bytesIn", network.bytes_in.load(Ordering::Relaxed)),
            ("bytesOut", network.bytes_out.load(Ordering::Relaxed)),
        ],
    );
    all.close();
}

/// The samples, each a row of numbers, and what the numbers are.
fn append_history(all: &mut DocumentBuilder, server: &Server, since_ms: i64) {
    all.append("step", STEP_MS).open_array("kinds");
    KINDS.iter().for_each(|kind| {
        all.push(*kind);
    });
    all.close().open_array("groups");
    GROUPS.iter().for_each(|group| {
        all.push(*group);
    });
    all.close().open_array("samples");
    for sample in server.history.since(since_ms) {
        all.push_array().push(sample.time_ms).push(sample.span_ms);
        for operations in sample.operations {
            all.push(long(operations));
        }
        for (count, micros) in sample.times {
            all.push(long(count)).push(long(micros));
        }
        all.push(sample.connections).push(long(sample.bytes_in)).push(long(sample.bytes_out)).close();
    }
    all.close();
}

/// The time below which a share of a command's runs took, by the upper end of its class.
fn quantile(timed: &Timed, percent: u64) -> u64 {
    let wanted = (timed.total * percent).div_ceil(100);
    let mut below = 0;
    for (at, count) in timed.classes.iter().enumerate() {
        below += count;
        if below >= wanted {
            return 1 << at.min(CLASSES - 1);
        }
    }
    0
}

fn append_commands(all: &mut DocumentBuilder, server: &Server) {
    all.open_array("commands");
    for (name, timed) in server.service.state().timings.iter() {
        all.push_document().append("name", name);
        append_all(
            all,
            &[
                ("total", timed.total),
                ("failed", timed.failed),
                ("mean", timed.micros.checked_div(timed.total).unwrap_or(0)),
                ("p50", quantile(&timed, 50)),
                ("p99", quantile(&timed, 99)),
            ],
        );
        all.close();
    }
    all.close();
}

/// The slow commands of late, without their values.
fn append_slow(all: &mut DocumentBuilder, server: &Server) {
    let state = server.service.state();
    all.append("slowMillis", state.profiler.slow_ms()).open_array("slow");
    for command in state.slow.list().iter().take(100) {
        let view = command.view();
        all.push_document();
        for name in ["op", "ns", "planSummary", "keysExamined", "docsExamined", "nreturned", "millis", "errName"] {
            if let Some(element) = view.element(name) {
                all.append_element(&element);
            }
        }
        if let Some(Value::DateTime(when)) = view.get("ts") {
            all.append("when", when);
        }
        let mut shown = String::new();
        if let Some(command) = view.get("command").and_then(|command| command.as_document()) {
            shape_of_command(command, &mut shown);
        }
        all.append("command", shown.as_str()).close();
    }
    all.close();
}

/// Generic fields of commands, which tell nothing of what is slow.
const GENERIC: [&str; 8] =
    ["lsid", "$db", "$clusterTime", "$readPreference", "txnNumber", "autocommit", "startTransaction", "documents"];

/// The longest text of a command.
const SHAPE_BYTES_MAX: usize = 400;

/// A command with the names of its fields and `?` for its values.
fn shape_of_command(command: Document<'_>, to: &mut String) {
    for (at, element) in command.elements().enumerate() {
        let name = element.name.to_str_lossy();
        if GENERIC.contains(&&*name) {
            continue;
        }
        if at == 0 {
            to.push_str(&name);
            if let Some(collection) = element.value.as_str() {
                to.push(' ');
                to.push_str(collection);
            }
        } else {
            to.push_str(", ");
            to.push_str(&name);
            to.push_str(": ");
            shape_of(element.value, to);
        }
    }
}

fn shape_of(value: Value<'_>, to: &mut String) {
    if to.len() > SHAPE_BYTES_MAX {
        if !to.ends_with('…') {
            to.push('…');
        }
        return;
    }
    match (value.as_document(), value.as_array()) {
        (Some(document), _) => {
            to.push('{');
            for (at, element) in document.elements().enumerate() {
                to.push_str(if at > 0 { ", " } else { "" });
                to.push_str(&element.name.to_str_lossy());
                to.push_str(": ");
                shape_of(element.value, to);
            }
            to.push('}');
        }
        (None, Some(array)) => {
            to.push('[');
            for (at, value) in array.values().enumerate().take(4) {
                to.push_str(if at > 0 { ", " } else { "" });
                shape_of(value, to);
            }
            to.push_str(if array.values().nth(4).is_some() { ", …]" } else { "]" });
        }
        _ => to.push('?'),
    }
}

fn append_engine(all: &mut DocumentBuilder, server: &Server) {
    let engine = server.service.database().engine();
    let stats = engine.stats();
    let (resident, mapped) = spinney_document::command::process_bytes();
    all.open_document("memory");
    append_all(
        all,
        &[
            ("resident", resident),
            ("mapped", mapped),
            ("budget", stats.memory_bytes),
            ("cache", stats.cache.bytes),
            ("cacheMax", stats.cache.capacity_bytes),
            ("hits", stats.cache.hits),
            ("misses", stats.cache.misses),
            ("memtables", stats.memtable_bytes),
            ("snapshots", stats.snapshots),
        ],
    );
    all.close().open_document("log");
    append_all(
        all,
        &[
            ("appends", stats.log.appends),
            ("recordBytes", stats.log.record_bytes),
            ("writtenBytes", stats.log.written_bytes),
            ("writes", stats.log.writes),
            ("syncs", stats.log.syncs),
            ("spareBytes", stats.log.spare_bytes),
        ],
    );
    all.close().open_document("work");
    append_all(
        all,
        &[
            ("commits", stats.commits),
            ("conflicts", stats.conflicts),
            ("delayMicros", stats.delay_us),
            ("stalls", stats.stalls),
            ("stallMicros", stats.stall_us),
            ("flushes", stats.flush.flushes),
            ("flushBytes", stats.flush.flush_bytes),
            ("compactions", stats.flush.compactions),
            ("compactionReadBytes", stats.flush.compaction_read_bytes),
            ("compactionWriteBytes", stats.flush.compaction_write_bytes),
            ("readBytes", stats.storage.read_bytes),
            ("spaceMissingBytes", stats.flush.space_missing_bytes),
        ],
    );
    all.close();
}

/// The collections with their indexes, the trees of each table, and how many collections were left out.
fn collections(server: &Server) -> DocumentBuf {
    let database = server.service.database();
    let entries = database.catalog().list(None);
    let mut states: Vec<_> = entries
        .into_iter()
        .filter_map(|(name, entry)| match entry {
            Entry::Collection(state) if !state.schema().dropped => Some((name, state)),
            _ => None,
        })
        .collect();
    let left_out = states.len().saturating_sub(LISTED_MAX);
    states.truncate(LISTED_MAX);
    let (mut all, snapshot) = (DocumentBuilder::new(), database.engine().snapshot());
    all.open_array("collections");
    for (name, state) in &states {
        let size = |table: &Table| {
            let whole = (std::ops::Bound::<Vec<u8>>::Unbounded, std::ops::Bound::<Vec<u8>>::Unbounded);
            snapshot.estimate(table, &whole).unwrap_or_default()
        };
        let held = size(&state.table);
        all.push_document().append("name", name.as_str());
        append_all(&mut all, &[("documents", held.entries), ("bytes", held.bytes)]);
        all.open_array("indexes");
        all.push_document().append("name", "_id_").append("uses", long(state.id_uses.count())).close();
        for index in &state.schema().indexes {
            all.push_document().append("name", index.spec.name.as_str());
            append_all(&mut all, &[("uses", index.uses.count()), ("bytes", size(&index.table).bytes)]);
            all.append("ready", index.ready).close();
        }
        all.close().close();
    }
    all.close().append("leftOut", long(u64_of(left_out))).open_array("tables");
    for (name, state) in &states {
        append_shapes(&mut all, name.as_str(), state);
    }
    all.close();
    all.finish()
}

/// The trees of the tables of a collection, those of its indexes behind its own.
fn append_shapes(all: &mut DocumentBuilder, name: &str, state: &CollectionState) {
    let schema = state.schema();
    let indexes = schema.indexes.iter().map(|index| (format!("{name} · {}", index.spec.name), &index.table));
    for (label, table) in std::iter::once((name.to_owned(), &state.table)).chain(indexes) {
        // Dropped meanwhile.
        let Ok(shape) = table.shape() else { continue };
        all.push_document().append("name", label.as_str()).append("layout", shape.layout.as_str());
        append_all(all, &[("trees", shape.trees), ("treesOfGet", shape.trees_of_get)]);
        append_parts(all, &shape);
        all.close();
    }
}

/// The parts of a table, newest first: where, bytes, how many trees or files.
fn append_parts(all: &mut DocumentBuilder, shape: &Shape) {
    all.open_array("parts");
    let mut part = |label: &str, bytes: u64, count: u64| {
        all.push_array().push(label).push(long(bytes)).push(long(count)).close();
    };
    part("memory", shape.memtable_bytes + shape.immutable_bytes, 1 + shape.immutable_memtables);
    if !shape.l0.is_empty() {
        part("L0", shape.l0.iter().map(|run| run.bytes).sum(), u64_of(shape.l0.len()));
    }
    for level in &shape.levels {
        part(&format!("L{}", level.level), level.bytes, level.runs);
    }
    if let Some(btree) = &shape.btree {
        part("B-tree", btree.file_bytes.saturating_sub(btree.free_bytes), 1);
        part("free", btree.free_bytes, 0);
    }
    if shape.values.files > 0 {
        part("values", shape.values.live_bytes, shape.values.files);
        part("dead", shape.values.bytes.saturating_sub(shape.values.live_bytes), 0);
    }
    all.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_command_has_no_values() {
        let command = DocumentBuf::from_json(
            r#"{"find": "people", "filter": {"name": "Ada", "$or": [{"a": 1}, {"b": {"$in": [1,2,3,4,5]}}]}, "limit": 5,
                "lsid": {"id": 1}, "$db": "app"}"#,
        )
        .unwrap();
        let mut shown = String::new();
        shape_of_command(command.view(), &mut shown);
        assert_eq!(shown, "find people, filter: {name: ?, $or: [{a: ?}, {b: {$in: [?, ?, ?, ?, …]}}]}, limit: ?");
    }
}
