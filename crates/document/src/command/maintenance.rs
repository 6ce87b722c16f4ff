//! Commands that look after the data: `validate`, `compact`, `autoCompact`, `fsync`.

use std::sync::Arc;

use spinney::Shape;

use super::auto_compact::{Config, FREE_SPACE_TARGET_MB};
use super::call::{Call, Reply};
use super::commands::Command;
use super::indexes::{existing, is_view};
use super::reply::count;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Interrupt, Result};
use crate::bson::{Kind, Value};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{CollectionState, Damage, Entry, IndexSpec, Namespace};
use crate::repair::Repair;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "validate",
        Target::Collection,
        "Proves that a collection and its indexes agree; with repair, mends what does not.",
        validate,
    )
    .fields(&[
        Field::optional("full", FieldType::Any),
        Field::optional("metadata", FieldType::Any),
        Field::optional("background", FieldType::Any),
        Field::optional("repair", FieldType::Any),
        Field::optional("fixMultikey", FieldType::Any),
        Field::optional("checkBSONConformance", FieldType::Any),
        Field::optional("enforceFastCount", FieldType::Any),
        Field::optional("collHash", FieldType::Bool),
        Field::optional("hashPrefixes", FieldType::Array),
        Field::optional("revealHashedIds", FieldType::Array),
        Field::optional("atClusterTime", FieldType::OneOf(&[Kind::Timestamp])),
    ])
    .any_fields()
    .needs(&[Privilege::on_collection("validate")]),
    Command::new("compact", Target::Collection, "Compacts the tables of a collection and its indexes.", compact)
        .fields(&[
            Field::optional("force", FieldType::StrictBool),
            Field::optional("dryRun", FieldType::StrictBool),
            Field::optional("freeSpaceTargetMB", FieldType::Long).at_least(1),
        ])
        .needs(&[Privilege::on_collection("compact")]),
    Command::new(
        "autoCompact",
        Target::Value(&[Kind::Bool, Kind::Null]),
        "Keeps how files are to be compacted in the background, which the engine does in any case.",
        auto_compact,
    )
    .fields(&[
        Field::optional("freeSpaceTargetMB", FieldType::Long).at_least(1),
        Field::optional("runOnce", FieldType::StrictBool),
    ])
    .needs(&[Privilege::on_cluster("compact")])
    .admin_only(),
    Command::new(
        "fsync",
        Target::Value(&[]),
        "Makes everything durable that was committed; with a lock, writes wait.",
        fsync,
    )
    .fields(&[
        Field::optional("lock", FieldType::Bool),
        Field::optional("async", FieldType::Bool),
        Field::optional("fsyncLockAcquisitionTimeoutMillis", FieldType::OneOf(&[Kind::Int32])),
    ])
    .needs(&[Privilege::on_cluster("fsync")])
    .admin_only(),
    Command::new("fsyncUnlock", Target::Value(&[]), "Takes back a lock of 'fsync'.", fsync_unlock)
        .any_fields()
        .needs(&[Privilege::on_cluster("unlock")])
        .admin_only(),
];

fn validate(call: &Call<'_>) -> Result<Reply> {
    let namespace = call.namespace()?;
    check_validate(call)?;
    let collection = match call.state.database.catalog().find(&namespace) {
        Some(Entry::View(_)) => return Err(is_view(&namespace)),
        Some(Entry::Damaged(damage)) => return Ok(damaged(&namespace, &damage)),
        None => {
            let what = format!("Collection '{namespace}' does not exist to validate.");
            return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what));
        }
        Some(Entry::Collection(_)) => call.state.database.collection(namespace.as_str())?,
    };
    let Some(collection) = collection else {
        return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, format!("{namespace} was dropped")));
    };
    let repairs = call.is_set("repair") || call.is_set("fixMultikey");
    let mut check = |_| call.check();
    let repair = match repairs {
        true => call.state.database.repair(namespace.as_str(), &mut check)?,
        false => Repair { after: collection.validate_with(&mut check)?, ..Repair::default() },
    };
    let schema = collection.schema();
    let (found, mut reply) = (&repair.after, Reply::new());
    reply.append("ns", namespace.as_str()).append("uuid", Value::Binary(4, &schema.uuid));
    if !call.is_set("metadata") {
        reply.append("nInvalidDocuments", count(found.malformed_documents)).append("nNonCompliantDocuments", 0);
        reply.append("nrecords", count(found.documents));
    }
    reply.append("nIndexes", count(u64_of(schema.index_count()))).open_document("keysPerIndex");
    reply.append(ID_INDEX, count(found.documents));
    for (name, entries) in found.entries.iter().filter(|(name, _)| name != ID_INDEX) {
        reply.append(name, count(*entries));
    }
    reply.close().open_document("indexDetails");
    let id_index = IndexSpec::of_id(schema.options.collation.as_deref());
    reply.open_document(ID_INDEX).append("valid", true).append("spec", id_index.document()).close();
    for index in schema.others() {
        let name = &index.spec.name;
        let valid = !found.damaged_indexes.contains(name);
        reply.open_document(name).append("valid", valid).append("spec", index.spec.document()).close();
    }
    let mode = if repairs { "FixErrors" } else { "None" };
    reply.close().append("valid", found.is_valid()).append("repaired", repair.has_changed()).append("repairMode", mode);
    reply.open_array("warnings");
    found.warnings.iter().chain(&repaired(&repair)).for_each(|warning| {
        reply.push(warning.as_str());
    });
    reply.close().open_array("errors");
    found.problems.iter().for_each(|problem| {
        reply.push(problem.as_str());
    });
    if !found.damaged_indexes.is_empty() || found.wrong_count.is_some() {
        reply.push(
            "the indexes and counts are mended by reIndex, or validate with {repair: true}, on a standalone server",
        );
    }
    reply.close();
    for none in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        reply.open_array(none).close();
    }
    if repairs {
        reply.append("numRemovedCorruptRecords", 0);
        reply.append("numRemovedExtraIndexEntries", count(repair.before.extra_entries));
        reply.append("numInsertedMissingIndexEntries", count(repair.before.missing_entries));
    }
    Ok(reply)
}

/// The reply for a collection that cannot be used.
fn damaged(namespace: &Namespace, damage: &Damage) -> Reply {
    let mut reply = Reply::new();
    reply.append("ns", namespace.as_str()).append("valid", false).append("repaired", false);
    reply.append("repairMode", "None").open_array("warnings").close();
    reply.open_array("errors").push(damage.error().message());
    reply.close();
    reply
}

/// What a repair did, a sentence each.
fn repaired(repair: &Repair) -> Vec<String> {
    let rebuilt = repair.rebuilt.iter().map(|name| format!("index {name} was built again"));
    let left_out = repair.left_out.iter().map(|left_out| {
        let (name, reason, spec) = (&left_out.name, &left_out.reason, left_out.spec.view().to_json());
        format!("index {name} was dropped, since it cannot be built: {reason}: create it again with {spec}")
    });
    let removed = repair.removed.iter().map(|document| {
        format!("a document was removed, since a newer one has its _id: {}", document.view().to_json())
    });
    let counted = repair
        .before
        .wrong_count
        .map(|count| format!("the stored count said {count}, and is {} now", repair.before.documents));
    rebuilt.chain(left_out).chain(removed).chain(counted).collect()
}

/// Refuses options that do not go together. It always runs in the background: it reads a snapshot, and writers go on.
fn check_validate(call: &Call<'_>) -> Result<()> {
    let set = |name: &str| call.is_set(name);
    let invalid = |what: &str| Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    if set("background") && (set("full") || set("enforceFastCount") || set("repair")) {
        return invalid("Running the validate command with { background: true } and another mode is not supported");
    }
    if set("metadata")
        && ["full", "background", "enforceFastCount", "repair", "fixMultikey", "checkBSONConformance"]
            .iter()
            .any(|name| set(name))
    {
        return invalid("Running the validate command with { metadata: true } is not supported with any other options");
    }
    if (set("repair") || set("fixMultikey")) && set("checkBSONConformance") {
        return invalid("Cannot run validate with { checkBSONConformance: true } and a repair");
    }
    if let Some(name) = ["repair", "fixMultikey"].into_iter().find(|name| set(name))
        && call.state.options.replica_set
    {
        let what =
            format!("Running the validate command with {{ {name}: true }} can only be performed in standalone mode.");
        return invalid(&what);
    }
    for name in ["collHash", "hashPrefixes", "revealHashedIds", "atClusterTime"] {
        if call.value(name).is_some_and(|value| value != Value::Bool(false)) {
            let what = format!("the option '{name}' of validate is not supported; dbHash gives hashes");
            return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what));
        }
    }
    Ok(())
}

fn compact(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let state = existing(&namespace, entry, "collection does not exist: ")?;
    let before = size(&state)?;
    let mut reply = Reply::new();
    if call.is_set("dryRun") {
        reply.append("estimatedBytesFreed", 0);
        return Ok(reply);
    }
    state.table.compact()?;
    for index in &state.schema().indexes {
        call.check()?;
        index.table.compact()?;
    }
    reply.append("bytesFreed", count(before.saturating_sub(size(&state)?)));
    Ok(reply)
}

/// The bytes of the files of a collection and its indexes.
fn size(state: &CollectionState) -> Result<u64> {
    let schema = state.schema();
    let tables = schema.indexes.iter().map(|index| &index.table).chain([&state.table]);
    tables.map(|table| Ok(file_bytes(&table.shape()?))).sum()
}

fn file_bytes(shape: &Shape) -> u64 {
    let runs = shape.l0.iter().map(|run| run.bytes).chain(shape.levels.iter().map(|level| level.bytes));
    let tree = shape.btree.as_ref().map_or(0, |tree| tree.file_bytes);
    runs.sum::<u64>() + tree + shape.values.bytes
}

fn auto_compact(call: &Call<'_>) -> Result<Reply> {
    let Some(Value::Bool(enable)) = call.request.body.first().map(|first| first.value) else {
        let what = "BSON field 'autoCompact.autoCompact' is missing but a required field";
        return Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what));
    };
    if enable {
        call.state.auto_compact.enable(Config {
            free_space_target_mb: call.long("freeSpaceTargetMB").unwrap_or(FREE_SPACE_TARGET_MB),
            run_once: call.is_set("runOnce"),
        })?;
    } else {
        call.state.auto_compact.disable();
    }
    Ok(Reply::new())
}

/// How long `fsync` with a lock waits for the writes that run when it does not say it, in milliseconds.
const LOCK_WAIT_MS: u64 = 90_000;

fn fsync(call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    if !call.is_set("lock") {
        call.state.database.engine().sync()?;
        reply.append("numFiles", 1);
        return Ok(reply);
    }
    // A wait of no time still takes a lock that is free.
    let wait = call.long("fsyncLockAcquisitionTimeoutMillis").map(|wait| u64::try_from(wait).unwrap_or(0).max(1));
    let environment = Arc::clone(call.state.database.environment());
    let waiting = Interrupt::after(environment, wait.unwrap_or(LOCK_WAIT_MS));
    let count = call.state.write_gate.lock(&call.interrupt, &waiting)?;
    if let Err(error) = call.state.database.engine().flush() {
        call.state.write_gate.unlock()?;
        return Err(error.into());
    }
    reply.append("info", "now locked against writes, use db.fsyncUnlock() to unlock").append("lockCount", count);
    reply.append("seeAlso", "the page on the server in the guide");
    Ok(reply)
}

fn fsync_unlock(call: &Call<'_>) -> Result<Reply> {
    let left = call.state.write_gate.unlock()?;
    let mut reply = Reply::new();
    reply.append("info", "fsyncUnlock completed").append("lockCount", left);
    Ok(reply)
}
