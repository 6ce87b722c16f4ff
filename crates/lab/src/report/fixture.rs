//! Reports for tests: small ones, and one that fills every part of a page.

use super::build::Build;
use super::machine::Machine;
use super::model::{Cost, EngineInfo, FORMAT, Figure, Missing, Operation, Report, Run, Second, State, Step};
use crate::driver::{Counters, LevelShape, LevelWork, TableShape};
use crate::measure::Percentiles;
use crate::measure::Size;
use crate::random::Random;

/// A report of these runs.
pub(crate) fn report(runs: Vec<Run>) -> Report {
    Report {
        format: FORMAT,
        benchmark: "insert".to_owned(),
        command: "spinney bench insert --rows 10M --repeat 3".to_owned(),
        began: 1_795_276_953,
        machine: Machine {
            cpu: "Processor <X> & \"Y\"".to_owned(),
            cores: 8,
            memory_bytes: 64 << 30,
            kernel: "Linux 6.18".to_owned(),
            storage: "ext4 on nvme0n1".to_owned(),
            mount_options: "rw,relatime".to_owned(),
            ..Machine::default()
        },
        build: Build::this(),
        columns: vec![("ips".to_owned(), "rows per second".to_owned())],
        parameters: [("rows", "10,000,000"), ("memory", "1.00 GiB"), ("seed", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        partial: false,
        missing: Vec::new(),
        remarks: Vec::new(),
        runs,
    }
}

/// One engine's run.
pub(crate) fn run(engine: &str, repetition: u32, steps: Vec<Step>) -> Run {
    let engine = EngineInfo {
        name: engine.to_owned(),
        version: "1.2.3".to_owned(),
        client_server: engine == "innodb",
        durability: "interval 100 ms".to_owned(),
        settings: vec![
            ("cache".to_owned(), "1.00 GiB".to_owned()),
            ("compression".to_owned(), "none, but <LZ4> for filters & indexes".to_owned()),
            ("compaction style".to_owned(), "leveled with dynamic level sizes".to_owned()),
        ],
    };
    Run { engine, repetition, partial: false, error: None, notes: Vec::new(), steps, operations_hash: None }
}

/// A step at this rate, with a cost in every column.
pub(crate) fn step(name: &str, rate: f64) -> Step {
    let latency = Percentiles {
        mean_us: 1e6 / rate,
        p50_us: 0.8e6 / rate,
        p90_us: 2e6 / rate,
        p95_us: 3e6 / rate,
        p99_us: 8e6 / rate,
        p999_us: 90e6 / rate,
        max_us: 5e9 / rate,
    };
    Step {
        name: name.to_owned(),
        unit: "row".to_owned(),
        cost: Some(Cost {
            operations: 1_000_000,
            seconds: 1e6 / rate,
            rate,
            reads: Some(0.0003),
            read_kib: Some(0.12),
            written_kib: Some(1.5),
            switches: Some(0.4),
            cpu_us: 12.5,
            foreground_cpu_us: 8.0,
            background_cpu_us: 4.5,
            overhead_us: Some(0.15),
            rss_bytes: Some(1 << 30),
            write_amplification: Some(4.2),
            space_amplification: Some(1.3),
            ..Cost::default()
        }),
        operations: vec![Operation {
            name: "insert".to_owned(),
            calls: 1_000_000,
            operations: 1_000_000,
            latency,
            ..Operation::default()
        }],
        ..Step::default()
    }
}

/// A report of six engines, eight steps of two minutes and two repetitions, with something in every part, and something
/// missing.
pub(crate) fn large() -> Report {
    let engines = ["spinney-btree", "spinney-lsm", "spinney-lsm-tiered", "rocksdb-leveled", "lmdb", "innodb"];
    let mut runs = Vec::new();
    for repetition in 0..2 {
        for (number, engine) in engines.iter().enumerate() {
            runs.push(large_run(engine, number, repetition));
        }
    }
    let missing =
        Missing { engine: "wiredtiger".to_owned(), why: "not installed; apt-get install libwiredtiger-dev".to_owned() };
    Report { missing: vec![missing], ..report(runs) }
}

fn large_run(engine: &str, number: usize, repetition: u32) -> Run {
    let mut random = Random::new(number as u64 * 10 + u64::from(repetition));
    let names = ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr1000", "qp1000"];
    let mut before = State::default();
    let mut steps = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if *name == "l.x" && engine == "lmdb" {
            steps.push(Step::skipped(name, "row", "the engine has no secondary indexes to make later".to_owned()));
            continue;
        }
        let rate = 50_000.0 * (1.0 + number as f64) / (1.0 + at as f64) * (0.9 + 0.2 * unit(&mut random));
        let mut step = large_step(step(name, rate), number, &mut random);
        if name.starts_with('q') {
            // The writers' role; the last engine does not keep up.
            let achieved = if number == 4 { 62.0 } else { 100.0 };
            let queries = step.operations[0].latency;
            let insert = Operation {
                name: "insert".to_owned(),
                wanted_rate: Some(100.0),
                achieved_rate: Some(achieved),
                corrected: Some(Percentiles { p99_us: queries.p99_us * 3.0, max_us: queries.max_us * 2.0, ..queries }),
                ..step.operations[0].clone()
            };
            step.operations[0].name = "query".to_owned();
            step.operations.push(insert);
        }
        step.before = before;
        step.after = state(engine, at as u64 + 1);
        before = step.after.clone();
        steps.push(step);
    }
    let mut run = run(engine, repetition, steps);
    if engine == "lmdb" {
        run.notes.push("reads may be answered by the page cache: the engine cannot pass it by".to_owned());
    }
    run
}

fn large_step(mut step: Step, number: usize, random: &mut Random) -> Step {
    let cost = step.cost.as_mut().expect("made with a cost");
    let share = 0.3 + 0.6 * unit(random);
    cost.seconds = 120.0;
    cost.operations = whole(cost.rate * cost.seconds);
    cost.cpu_us *= 0.5 + unit(random);
    cost.foreground_cpu_us = cost.cpu_us * share;
    cost.background_cpu_us = cost.cpu_us * (1.0 - share);
    cost.written_kib = Some(0.6 + 4.0 * unit(random));
    cost.reads = if number == 5 { None } else { Some(0.05 * unit(random)) };
    let operations = cost.operations;
    let written = cost.written_kib.unwrap_or(0.0) * 1024.0 * operations as f64;
    if number < 4 {
        let part = |share: f64| Some(whole(written * share));
        step.counters = Counters {
            log_written_bytes: part(0.2),
            flush_bytes: part(0.25),
            compaction_written_bytes: part(0.5),
            stall_us: Some(1_234_567),
            stalls: Some(12),
            gets: Some(1000),
            get_trees: Some(1100 + number as u64),
            get_filters: Some(if number == 0 { 0 } else { 7_890 }),
            get_filter_misses: Some(1),
            get_blocks: Some(2_100),
            get_blocks_read: Some(333),
            ..Counters::default()
        };
    }
    step.level_work = vec![LevelWork {
        level: "L0".to_owned(),
        jobs: 12,
        in_bytes: Some(whole(written * 0.2)),
        written_bytes: whole(written * 0.25),
        debt_bytes: Some(0),
        ..LevelWork::default()
    }];
    let mean = cost.rate;
    let max = step.operations[0].latency.max_us;
    for second in 0..120_u64 {
        let dip = if second % 37 > 33 { 0.4 } else { 1.0 };
        step.seconds.push(Second {
            operations: whole(mean * dip * (0.85 + 0.3 * unit(random))),
            max_us: max * (0.01 + unit(random).powi(6)) / dip,
            disk_bytes: Some((second + 1) * 40_000_000 * (number as u64 + 2)),
            rss_bytes: Some(1 << 30),
            written_bytes: Some((second + 1) * 90_000_000),
            debt_bytes: Some(second % 30 * 4_000_000),
        });
    }
    let latency = step.operations[0].latency;
    step.operations[0].curve = vec![
        (0.0, latency.p50_us * 0.5),
        (0.5, latency.p50_us),
        (0.9, latency.p90_us),
        (0.95, latency.p95_us),
        (0.99, latency.p99_us),
        (0.999, latency.p999_us),
        (0.9999, latency.p999_us * 2.0),
        (1.0, latency.max_us),
    ];
    step.figures = vec![
        Figure::more("ips", "rows/s", mean),
        Figure::less("bpd", "bytes", 512.0 + number as f64),
        Figure::plain("index rows", "", (number != 4).then_some(3e6)),
    ];
    step
}

fn state(engine: &str, steps: u64) -> State {
    let bytes = steps * 900_000_000;
    let size = Size { apparent_bytes: bytes, allocated_bytes: bytes + bytes / 8, log_bytes: 64 << 20 };
    let mut shape = TableShape { table: "purchases".to_owned(), ..TableShape::default() };
    if engine.contains("lsm") || engine.contains("rocksdb") {
        shape.memtable_entries = Some(38_239);
        shape.memtable_bytes = Some(6 << 20);
        let level = |level, bytes| LevelShape {
            level,
            sorted_runs: if level == 0 { 6 } else { 1 },
            files: 9,
            bytes,
            entries: None,
        };
        shape.levels = vec![level(0, 33 << 20), level(1, 87 << 20), level(2, 700 << 20), level(3, bytes)];
    } else if engine == "spinney-btree" {
        shape.btree_height = Some(4);
        shape.btree_bytes = Some(bytes);
    } else {
        return State { size: Some(size), shape: Vec::new() };
    }
    State { size: Some(size), shape: vec![shape] }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn whole(value: f64) -> u64 {
    value as u64
}

fn unit(random: &mut Random) -> f64 {
    random.below(1_000_000) as f64 / 1e6
}
