//! The command `serverStatus`.

use std::sync::atomic::Ordering;

use super::call::{Call, Reply};
use super::commands::Command;
use super::host;
use super::spec::{Access, Privilege, Target};
use crate::base::Result;
use crate::base::num::nearest_f64;
use crate::bson::{DocumentBuilder, Value};
use crate::catalog::Entry;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(
    "serverStatus",
    Target::Value(&[]),
    "Tells what the server has done and does; a section is left out with the field of its name as 0.",
    server_status,
)
.any_fields()
.needs(&[Privilege::on_cluster("serverStatus")])];

/// A section: its name, and what fills it.
type Section = (&'static str, fn(&Call<'_>, &mut DocumentBuilder));

const SECTIONS: &[Section] = &[
    ("asserts", asserts),
    ("catalogStats", catalog),
    ("connections", connections),
    ("extra_info", extra),
    ("globalLock", global_lock),
    ("locks", nothing),
    ("logicalSessionRecordCache", nothing),
    ("network", network),
    ("opLatencies", latencies),
    ("opcounters", counters),
    ("opcountersRepl", no_counters),
    ("storageEngine", engine),
    ("transactions", nothing),
    ("spinney", spinney),
    ("mem", memory),
    ("metrics", metrics),
];

/// The sections that are there only when they are asked for.
const ASKED: &[Section] = &[("mirroredReads", mirrored)];

fn server_status(call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    let now = call.state.now_ms();
    let uptime = now.saturating_sub(call.state.started_ms);
    reply.append("host", &host::name()).append("version", &call.state.options.version);
    // What kind of server tools take it for.
    reply.append("process", "mongod").append("pid", i64::from(std::process::id()));
    // Whole seconds: some tools read them as an integer.
    reply.append("uptime", nearest_f64(uptime / 1000)).append("uptimeMillis", uptime);
    reply.append("uptimeEstimate", uptime / 1000).append("localTime", Value::DateTime(now));
    for (name, fill) in SECTIONS {
        if is_shown(call, name) {
            reply.open_document(name);
            fill(call, &mut reply);
            reply.close();
        }
    }
    for (name, fill) in ASKED.iter().filter(|(name, _)| call.is_set(name)) {
        reply.open_document(name);
        fill(call, &mut reply);
        reply.close();
    }
    Ok(reply)
}

/// Whether a section is shown that is there unless it is left out, by null as well.
fn is_shown(call: &Call<'_>, name: &str) -> bool {
    call.request.body.get(name).is_none_or(|value| !value.is_nullish() && crate::expr::value::truth(&value))
}

/// Reads that were sent to other servers, of which there are none.
fn mirrored(_call: &Call<'_>, section: &mut DocumentBuilder) {
    section.append("seen", 0_i64).append("sent", 0_i64);
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn nothing(_call: &Call<'_>, _section: &mut DocumentBuilder) {}

fn asserts(call: &Call<'_>, section: &mut DocumentBuilder) {
    section.append("regular", 0).append("warning", 0).append("msg", 0);
    section.append("user", whole(call.state.counters.failed.load(Ordering::Relaxed)));
    section.append("tripwire", 0).append("rollovers", 0);
}

fn catalog(call: &Call<'_>, section: &mut DocumentBuilder) {
    let all = call.state.database.catalog().list(None);
    let views = all.iter().filter(|(_, entry)| matches!(entry, Entry::View(_))).count();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    section.append("collections", count(all.len() - views)).append("capped", 0).append("clustered", 0);
    section.append("timeseries", 0).append("views", count(views));
    section.append("internalCollections", 0).append("internalViews", 0);
}

fn connections(call: &Call<'_>, section: &mut DocumentBuilder) {
    let network = &call.state.network;
    let open = network.connections.load(Ordering::Relaxed);
    let most = network.connections_max.load(Ordering::Relaxed);
    section.append("current", open).append("available", most.saturating_sub(open).max(0));
    section.append("totalCreated", network.connections_created.load(Ordering::Relaxed));
    section.append("active", whole(crate::base::num::u64_of(call.state.operations.list().len())));
}

fn extra(_call: &Call<'_>, section: &mut DocumentBuilder) {
    section.append("note", "fields vary by platform");
}

fn global_lock(call: &Call<'_>, section: &mut DocumentBuilder) {
    let uptime = call.state.now_ms().saturating_sub(call.state.started_ms);
    section.append("totalTime", uptime.saturating_mul(1000));
    section.open_document("currentQueue").append("total", 0).append("readers", 0).append("writers", 0).close();
    section.open_document("activeClients").append("total", 0).append("readers", 0).append("writers", 0).close();
}

fn network(call: &Call<'_>, section: &mut DocumentBuilder) {
    let network = &call.state.network;
    section.append("bytesIn", whole(network.bytes_in.load(Ordering::Relaxed)));
    section.append("bytesOut", whole(network.bytes_out.load(Ordering::Relaxed)));
    section.append("numRequests", whole(network.requests.load(Ordering::Relaxed)));
}

/// How many commands there were and how many microseconds they took, of those that read, write, and do neither.
fn latencies(call: &Call<'_>, section: &mut DocumentBuilder) {
    for (name, access) in [("reads", Access::Read), ("writes", Access::Write), ("commands", Access::Neither)] {
        let (mut micros, mut count) = (0_u64, 0_u64);
        for (_, timed) in call.state.timings.iter().filter(|(_, timed)| timed.access == access) {
            micros = micros.saturating_add(timed.micros);
            count += timed.total;
        }
        section.open_document(name).append("latency", whole(micros)).append("ops", whole(count)).close();
    }
}

fn counters(call: &Call<'_>, section: &mut DocumentBuilder) {
    call.state.counters.append_to(section);
}

fn no_counters(_call: &Call<'_>, section: &mut DocumentBuilder) {
    super::state::Counters::default().append_to(section);
}

fn engine(call: &Call<'_>, section: &mut DocumentBuilder) {
    section.append("name", "spinney").append("supportsCommittedReads", true).append("persistent", true);
    section.append("readOnly", call.state.database.engine().is_read_only());
    section.append("supportsSnapshotReadConcern", true);
}

fn spinney(call: &Call<'_>, section: &mut DocumentBuilder) {
    let (engine, options) = (call.state.database.engine(), &call.state.options);
    let stats = engine.stats();
    let durability = options.durability.unwrap_or(engine.options().durability);
    section.append("durability", &format!("{durability:?}").to_lowercase());
    for (name, number) in [
        ("commits", stats.commits),
        ("conflicts", stats.conflicts),
        ("delays", stats.delays),
        ("delayMicros", stats.delay_us),
        ("stalls", stats.stalls),
        ("stallMicros", stats.stall_us),
        ("memtableBytes", stats.memtable_bytes),
        ("memoryBytes", stats.memory_bytes),
        ("snapshots", stats.snapshots),
    ] {
        section.append(name, whole(number));
    }
    section.open_document("cache");
    for (name, number) in [
        ("hits", stats.cache.hits),
        ("misses", stats.cache.misses),
        ("evicted", stats.cache.evicted),
        ("bytes", stats.cache.bytes),
        ("capacityBytes", stats.cache.capacity_bytes),
    ] {
        section.append(name, whole(number));
    }
    section.close().open_document("flush");
    for (name, number) in [
        ("flushes", stats.flush.flushes),
        ("bytes", stats.flush.flush_bytes),
        ("compactions", stats.flush.compactions),
        ("compactionReadBytes", stats.flush.compaction_read_bytes),
        ("compactionWriteBytes", stats.flush.compaction_write_bytes),
    ] {
        section.append(name, whole(number));
    }
    section.close().open_document("storage");
    for (name, number) in [
        ("reads", stats.storage.reads),
        ("readBytes", stats.storage.read_bytes),
        ("writes", stats.storage.writes),
        ("writtenBytes", stats.storage.written_bytes),
        ("syncs", stats.storage.syncs),
    ] {
        section.append(name, whole(number));
    }
    section.close();
}

fn memory(_call: &Call<'_>, section: &mut DocumentBuilder) {
    let (resident, mapped) = host::process_bytes();
    let megabytes = |bytes: u64| i32::try_from(bytes >> 20).unwrap_or(i32::MAX);
    section.append("bits", 64).append("resident", megabytes(resident)).append("virtual", megabytes(mapped));
    section.append("supported", true);
}

fn metrics(call: &Call<'_>, section: &mut DocumentBuilder) {
    let counts = call.state.cursors.counts();
    section.open_document("commands");
    for (name, timed) in call.state.timings.iter() {
        section.open_document(name).append("failed", whole(timed.failed)).append("total", whole(timed.total)).close();
    }
    section.close();
    section
        .open_document("cursor")
        .append("timedOut", whole(counts.timed_out))
        .append("gaveWay", whole(counts.gave_way));
    section.open_document("open").append("noTimeout", whole(counts.no_timeout));
    section.append("pinned", whole(counts.pinned)).append("total", whole(counts.open)).close().close();
    let counters = &call.state.counters;
    let (passes, expired) = (&counters.expiry_passes, &counters.expired);
    section.open_document("ttl").append("deletedDocuments", whole(expired.load(Ordering::Relaxed)));
    section.append("passes", whole(passes.load(Ordering::Relaxed))).close();
}
