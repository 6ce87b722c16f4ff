//! From what clients and the kernel counted to what an operation cost.

use super::clients::{KindResult, RoleResult};
use super::plan::{Plan, Role};
use crate::measure::Usage;
use crate::report::{Cost, Operation};
use std::time::Duration;

/// The cost of the operations of the first of `roles`; of the whole where there is no role.
pub(super) fn cost(
    roles: &[RoleResult],
    elapsed: Duration,
    usage: &Usage,
    overhead_us: Option<f64>,
    rss_bytes: Option<u64>,
) -> Cost {
    let operations = roles.first().map_or(1, RoleResult::operations);
    let per_operation = |value: f64| value / operations.max(1) as f64;
    let kib = |bytes: u64| per_operation(bytes as f64 / 1024.0);
    let us = |time: Duration| per_operation(time.as_secs_f64() * 1e6);
    let foreground: Duration = roles.iter().map(|role| role.foreground_cpu).sum();
    let amplification = |bytes: u64, logical: u64| (logical > 0).then(|| bytes as f64 / logical as f64);
    let read_bytes = roles.iter().map(|role| role.read_bytes).sum();
    let written_bytes = roles.iter().map(|role| role.written_bytes).sum();
    let seconds = elapsed.as_secs_f64();
    Cost {
        operations,
        seconds,
        rate: operations as f64 / seconds,
        // Requests of the device where it is counted: what reads through the page cache or a mapping asks of storage is
        // seen nowhere else. Calls, which direct I/O makes requests of, where it is not.
        reads: Some(per_operation(usage.device.map_or(usage.read_calls, |device| device.reads) as f64)),
        read_kib: Some(kib(usage.read_bytes)),
        written_kib: Some(kib(usage.written_bytes)),
        switches: Some(per_operation(usage.switches as f64)),
        cpu_us: us(usage.cpu),
        foreground_cpu_us: us(foreground.min(usage.cpu)),
        background_cpu_us: us(usage.cpu.saturating_sub(foreground)),
        overhead_us,
        rss_bytes,
        write_amplification: amplification(usage.written_bytes, written_bytes),
        read_amplification: amplification(usage.read_bytes, read_bytes),
        space_amplification: None,
        device_read_kib: usage.device.map(|device| kib(device.read_bytes)),
        device_written_kib: usage.device.map(|device| kib(device.written_bytes)),
        device_reads: usage.device.map(|device| per_operation(device.reads as f64)),
        device_writes: usage.device.map(|device| per_operation(device.writes as f64)),
    }
}

/// The operations of a step by kind, those that never came left out.
pub(super) fn operations(plan: &Plan<'_>, results: &[RoleResult], elapsed: Duration) -> Vec<Operation> {
    let of_role = |(role, result): (&Role<'_>, &RoleResult)| {
        let kinds = role.kinds.iter().zip(&result.kinds).filter(|(_, kind)| kind.latency.calls() > 0);
        let calls: u64 = result.kinds.iter().map(|kind| kind.latency.calls()).sum();
        let operation = |(&name, kind): (&&str, &KindResult)| Operation {
            name: name.to_owned(),
            calls: kind.latency.calls(),
            operations: kind.operations,
            wanted_rate: role.rate,
            achieved_rate: role.rate.map(|_| calls as f64 / elapsed.as_secs_f64()),
            latency: kind.latency.percentiles(),
            corrected: role.rate.map(|_| kind.corrected.percentiles()),
            curve: kind.latency.curve(),
            histogram: if role.rate.is_some() { &kind.corrected } else { &kind.latency }.histogram(),
            over_limit: result.limit().map(|_| kind.over_limit),
        };
        kinds.map(operation).collect::<Vec<_>>()
    };
    plan.roles.iter().zip(results).flat_map(of_role).collect()
}
