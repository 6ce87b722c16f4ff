//! Which tables there are: what is run for each, and which figures it shows.

/// A table of the pages.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name in markers and of its files.
    pub(super) name: &'static str,
    /// A sentence before it, without its end.
    pub(super) about: &'static str,
    /// The lab's arguments for a run of a minute or two.
    pub(super) small: &'static str,
    /// The lab's arguments for the run that the pages should have, on a quiet machine.
    pub(super) full: &'static str,
    pub(super) columns: &'static [Column],
    /// Which column the chart shows.
    pub(super) chart: usize,
}

/// A column of a table.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// The step of the experiment.
    pub(super) step: &'static str,
    pub(super) figure: Figure,
}

/// A figure of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Figure {
    /// A field of what its operations cost.
    Cost(&'static str),
    /// A column of the experiment's own.
    Own(&'static str),
}

use Figure::{Cost, Own};

const fn column(title: &'static str, step: &'static str, figure: Figure) -> Column {
    Column { title, step, figure }
}

pub(super) const TABLES: [Table; 6] = [
    Table {
        name: "commit",
        about: "Durable commits, one row with three index entries each.",
        small: "commit --engines spinney-lsm,spinney-btree,sqlite --modes sync --clients 1,8 --rows 1000 --warm-rows 1000 \
                --log-segment 8MiB",
        full: "commit --engines spinney-lsm,spinney-btree,rocksdb,rocksdb-default,lmdb,redb,innodb --modes sync --clients 1,8 \
               --rows 10000 --warm-rows 10000 --log-segment 8MiB --repeat 3",
        columns: &[
            column("1 client, commits/s", "sync", Cost("rate")),
            column("x floor", "sync", Own("x floor")),
            column("bytes written per commit", "sync", Own("bwpi")),
            column("8 clients, commits/s", "sync-8", Cost("rate")),
        ],
        chart: 0,
    },
    Table {
        name: "insert",
        about: "Inserts with three secondary indexes and as many deletions, memory for four times the data and for a tenth.",
        small: "insert --engines spinney-btree,spinney-lsm,spinney-lsm-tiered --rows 200000 --memory 4x,0.1x --rates none \
                --load-seconds 8",
        full: "insert --engines spinney-btree,spinney-lsm,spinney-lsm-tiered,rocksdb,rocksdb-universal,wiredtiger-btree --memory 4x,0.1x \
               --rates none --load-seconds 8",
        columns: &[
            column("rows/s, 4x", "l.i1 4x", Cost("rate")),
            column("rows/s, 0.1x", "l.i1 0.1x", Cost("rate")),
            column("KB read per row, 0.1x", "l.i1 0.1x", Cost("read_kib")),
            column("KB written per row, 0.1x", "l.i1 0.1x", Cost("written_kib")),
            column("CPU us per row, 0.1x", "l.i1 0.1x", Cost("cpu_us")),
        ],
        chart: 1,
    },
    Table {
        name: "kv",
        about: "Single operations per second, one thread, everything in memory.",
        small: "kv --engines spinney-lsm,spinney-btree,sqlite --num 200000 --reads 100000 \
                --workloads fillrandom,waitforcompaction,compact,readrandom,seekrandom,readseq --settle false",
        full: "kv --engines spinney-lsm,spinney-btree,rocksdb,lmdb --num 10000000 --reads 2000000 --memory 6GiB \
               --workloads fillrandom,waitforcompaction,compact,readrandom,seekrandom,readseq --settle false",
        columns: &[
            column("fillrandom", "fillrandom", Cost("rate")),
            column("readrandom", "readrandom", Cost("rate")),
            column("seekrandom", "seekrandom", Cost("rate")),
            column("readseq", "readseq", Cost("rate")),
        ],
        chart: 1,
    },
    Table {
        name: "shape",
        about: "Reads per second by the shape of the tree: six runs in L0 and a memtable, and one run.",
        small: "shape --engines spinney-lsm --values 100K --fanout 8 --seconds 1",
        full: "shape --engines spinney-lsm,rocksdb,rocksdb-universal --values 1M --fanout 8 --seconds 1 --repeat 3",
        columns: &[
            column("ranges, worst shape", "pre_flush range", Cost("rate")),
            column("ranges, one run", "compact_all range", Cost("rate")),
            column("points, worst shape", "pre_flush point", Cost("rate")),
            column("points, one run", "compact_all point", Cost("rate")),
        ],
        chart: 0,
    },
    Table {
        name: "journal",
        about: "The cost of the redo log: bytes and time of sequential and random items, compressed or not.",
        small: "journal --engines spinney-lsm,sqlite --items 100000",
        full: "journal --engines spinney-lsm,rocksdb,wiredtiger-btree,sqlite",
        columns: &[
            column("MB written, sequential", "seq", Own("MBw")),
            column("MB written, random", "random", Own("MBw")),
            column("s, random", "random", Own("secs")),
            column("CPU us per item, random", "random", Own("cpu/i")),
        ],
        chart: 1,
    },
    Table {
        name: "link",
        about: "LinkBench, cached: rows per second of the load, requests per second of the first phase.",
        small: "link --engines spinney-btree,spinney-lsm,sqlite --nodes 5000 --phases 1 --seconds 3",
        full: "link --engines spinney-btree,spinney-lsm,rocksdb,wiredtiger-btree,lmdb,sqlite --nodes 50000 --phases 2 --seconds 4",
        columns: &[
            column("load, rows/s", "load", Cost("rate")),
            column("run 1, requests/s", "run 1", Cost("rate")),
            column("KB written per request", "run 1", Cost("written_kib")),
            column("CPU us per request", "run 1", Cost("cpu_us")),
        ],
        chart: 1,
    },
];
