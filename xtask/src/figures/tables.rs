//! Which tables there are: the result that each is of, and the figures that it shows.

/// A table of the pages.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name in markers and of its chart.
    pub(super) name: &'static str,
    /// The experiment whose result it shows.
    pub(super) experiment: &'static str,
    /// A sentence before it.
    pub(super) about: &'static str,
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
    /// Whether larger figures are better.
    pub(super) more: bool,
}

/// A figure of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Figure {
    /// A field of what its operations cost.
    Cost(&'static str),
    /// A column of the experiment's own.
    Own(&'static str),
    /// Bytes on disk after the step, without the redo log, for each operation of another step, which wrote the rows.
    Disk(&'static str),
    /// Bytes that the step and these after it sent to storage, for each of its operations.
    Written(&'static [&'static str]),
}

use Figure::{Cost, Disk, Own, Written};

/// A column of which larger figures are better.
const fn more(title: &'static str, step: &'static str, figure: Figure) -> Column {
    Column { title, step, figure, more: true }
}

/// A column of which smaller figures are better.
const fn less(title: &'static str, step: &'static str, figure: Figure) -> Column {
    Column { title, step, figure, more: false }
}

/// The rate of a step.
const fn rate(title: &'static str, step: &'static str) -> Column {
    more(title, step, Cost("rate"))
}

const OPERATIONS: &[Column] = &[
    rate("fillrandom", "fillrandom"),
    rate("readrandom", "readrandom"),
    rate("readmissing", "readmissing"),
    rate("multireadrandom, keys", "multireadrandom"),
    rate("seekrandom and 8 next", "seekrandom"),
    rate("readseq", "readseq"),
];

const THREADS: &[Column] = &[
    rate("fillrandom", "fillrandom"),
    rate("readrandom", "readrandom"),
    rate("multireadrandom, keys", "multireadrandom"),
    rate("seekrandom and 8 next", "seekrandom"),
];

const SPACE: &[Column] = &[
    less("written, to the end of compaction", "fillrandom", Written(&["waitforcompaction"])),
    less("written, `compact` too", "fillrandom", Written(&["waitforcompaction", "compact"])),
    less("on disk after the fill", "waitforcompaction", Disk("fillrandom")),
    less("on disk after `compact`", "compact", Disk("fillrandom")),
];

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "kv",
        experiment: "kv",
        about: "Operations per second, keys of 16 and values of 128 bytes, one thread, no compression, all in memory.",
        columns: OPERATIONS,
        chart: 1,
    },
    Table {
        name: "space",
        experiment: "kv",
        about: "Bytes per row of 144 bytes, of the same run: sent to storage, log included, and on disk, without the log.",
        columns: SPACE,
        chart: 0,
    },
    Table {
        name: "kv-lz4",
        experiment: "kv-lz4",
        about: "The same with ten million keys and LZ4.",
        columns: OPERATIONS,
        chart: 1,
    },
    Table {
        name: "space-lz4",
        experiment: "kv-lz4",
        about: "Bytes per row with LZ4; the values compress to half.",
        columns: SPACE,
        chart: 3,
    },
    Table {
        name: "kv-threads",
        experiment: "kv-threads",
        about: "Operations per second of eight threads together, no compression.",
        columns: THREADS,
        chart: 1,
    },
    Table {
        name: "kv-lz4-threads",
        experiment: "kv-lz4-threads",
        about: "Eight threads with LZ4.",
        columns: THREADS,
        chart: 1,
    },
    Table {
        name: "kv-ordered",
        experiment: "kv-ordered",
        about: "Keys put in order: 1,000 puts per commit, one put per commit, and reads after the latter.",
        columns: &[
            rate("fillbatch", "fillbatch"),
            rate("fillseq", "fillseq"),
            less("bytes written per row", "fillseq", Written(&["waitforcompaction"])),
            rate("readrandom", "readrandom"),
            rate("seekrandom and 8 next", "seekrandom"),
            rate("readseq", "readseq"),
            rate("readreverse", "readreverse"),
        ],
        chart: 1,
    },
    Table {
        name: "ycsb",
        experiment: "ycsb",
        about: "YCSB, records of 1 KB, one thread, operations per second.",
        columns: &[
            rate("load", "load"),
            rate("A", "A"),
            rate("B", "B"),
            rate("C", "C"),
            rate("D", "D"),
            rate("E", "E"),
            rate("F", "F"),
        ],
        chart: 1,
    },
    Table {
        name: "insert",
        experiment: "insert",
        about: "Inserts with three secondary indexes and as many deletions (step l.i1), memory for four times the data and \
                for a tenth.",
        columns: &[
            rate("rows/s, 4x", "l.i1 4x"),
            rate("rows/s, 0.1x", "l.i1 0.1x"),
            less("KB read per row, 0.1x", "l.i1 0.1x", Cost("read_kib")),
            less("KB written per row, 0.1x", "l.i1 0.1x", Cost("written_kib")),
            less("CPU us per row, 0.1x", "l.i1 0.1x", Cost("cpu_us")),
            rate("rows/s without indexes, 4x", "l.i0 4x"),
        ],
        chart: 1,
    },
    Table {
        name: "insert-in-place",
        experiment: "insert-in-place",
        about: "The same beside a B-tree that changes its leaves in place, smaller, memory for four times the data and for a \
                quarter.",
        columns: &[
            rate("rows/s, 4x", "l.i1 4x"),
            rate("rows/s, 0.25x", "l.i1 0.25x"),
            less("KB read per row, 0.25x", "l.i1 0.25x", Cost("read_kib")),
            less("KB written per row, 0.25x", "l.i1 0.25x", Cost("written_kib")),
        ],
        chart: 1,
    },
    Table {
        name: "commit",
        experiment: "commit",
        about: "Durable commits, one row with three index entries each. \"x floor\" is the mean latency of a commit over \
                that of a raw durable write of 4 KiB to the same disk.",
        columns: &[
            rate("1 client, commits/s", "sync"),
            less("x floor", "sync", Own("x floor")),
            less("bytes written per commit", "sync", Own("bwpi")),
            less("KB to the device per commit", "sync", Cost("device_written_kib")),
            rate("8 clients, commits/s", "sync-8"),
        ],
        chart: 0,
    },
    Table {
        name: "documents",
        experiment: "documents",
        about: "Documents of 1 KB with three indexes: single inserts, finds by `_id`, covered and fetched ranges of ten, \
                operations per second.",
        columns: &[
            rate("insert", "insert"),
            rate("bulk", "bulk"),
            rate("find", "find"),
            rate("covered", "covered"),
            rate("fetched", "fetched"),
        ],
        chart: 2,
    },
    Table {
        name: "documents-more",
        experiment: "documents",
        about: "The same run: documents counted, scanned and grouped per second, updates, deletes, and bytes on disk over \
                those of the documents as BSON.",
        columns: &[
            rate("count", "count"),
            rate("scan", "scan"),
            rate("group", "group"),
            rate("inc", "inc"),
            rate("move", "move"),
            rate("delete", "delete"),
            less("disk/BSON", "settle", Own("disk/BSON")),
        ],
        chart: 3,
    },
    Table {
        name: "link",
        experiment: "link",
        about: "LinkBench, cached: rows per second of the load, requests per second, 99th percentile of getlinklist.",
        columns: &[
            rate("load, rows/s", "load"),
            rate("requests/s", "run 1"),
            less("getlinklist p99, ms", "run 1", Own("gl")),
            less("KB written per request", "run 1", Cost("written_kib")),
            less("CPU us per request", "run 1", Cost("cpu_us")),
        ],
        chart: 1,
    },
    Table {
        name: "journal",
        experiment: "journal",
        about: "The redo log: MB sent to storage until all items are durable, with items in key order and in random order.",
        columns: &[
            less("MB, sequential", "seq", Own("MBw")),
            less("MB, random", "random", Own("MBw")),
            less("MB, random, log with LZ4", "random lz4", Own("MBw")),
            less("s, random", "random", Own("secs")),
            less("CPU us per item, random", "random", Own("cpu/i")),
        ],
        chart: 1,
    },
    Table {
        name: "shape",
        experiment: "shape",
        about: "Reads per second by the shape of the tree: worst is a memtable, six runs in L0 and all levels.",
        columns: &[
            rate("ranges, worst", "pre_flush range"),
            rate("ranges, one run", "compact_all range"),
            rate("points, worst", "pre_flush point"),
            rate("points, one run", "compact_all point"),
            rate("points without filters, worst", "pre_flush nofilter"),
            rate("points without filters, one run", "compact_all nofilter"),
        ],
        chart: 0,
    },
    Table {
        name: "scale",
        experiment: "scale",
        about: "Rows of 48 bytes in random order, flushed 16 MiB at a time, memory for reads 1 GiB: bytes written for each byte \
                of rows, memory for indexes and filters, device reads of a get and of a range of ten.",
        columns: &[
            less("written/B, 10 M", "model 10.0M", Own("written/B")),
            less("100 M", "model 100M", Own("written/B")),
            less("1 G", "model 1.00G", Own("written/B")),
            less("levels, 1 G", "model 1.00G", Own("levels")),
            less("index MB, 1 G", "model 1.00G", Own("index.MB")),
            less("filter MB, 1 G", "model 1.00G", Own("filter.MB")),
            less("reads/get, 100 M", "model 100M", Own("get.reads")),
            less("reads/get, 1 G", "model 1.00G", Own("get.reads")),
            less("reads/range, 1 G", "model 1.00G", Own("range.reads")),
        ],
        chart: 2,
    },
    Table {
        name: "scale-measured",
        experiment: "scale",
        about: "The model beside a table of a million rows that was made with the engine.",
        columns: &[
            less("written/B, measured", "measured 1.00M", Own("written/B")),
            less("written/B, model", "measured 1.00M", Own("written/B.model")),
            less("levels, measured", "measured 1.00M", Own("levels")),
            less("levels, model", "measured 1.00M", Own("levels.model")),
            less("index MB, measured", "measured 1.00M", Own("index.MB")),
            less("index MB, model", "measured 1.00M", Own("index.MB.model")),
        ],
        chart: 0,
    },
];

/// A row of the summary: a column of a table by its title, and what it is in a few words.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) about: &'static str,
    pub(super) table: &'static str,
    pub(super) column: &'static str,
}

const fn line(about: &'static str, table: &'static str, column: &'static str) -> Line {
    Line { about, table, column }
}

/// The summary of README.md.
pub(super) const SUMMARY: &[Line] = &[
    line("random puts/s", "kv", "fillrandom"),
    line("random gets/s", "kv", "readrandom"),
    line("ranges of 9/s", "kv", "seekrandom and 8 next"),
    line("random puts/s, 8 threads", "kv-threads", "fillrandom"),
    line("bytes written per random put", "space", "written, to the end of compaction"),
    line("bytes on disk per row, LZ4", "space-lz4", "on disk after `compact`"),
    line("YCSB A, operations/s", "ycsb", "A"),
    line("YCSB C, operations/s", "ycsb", "C"),
    line("rows/s with three indexes, memory for a tenth of the data", "insert", "rows/s, 0.1x"),
    line("durable commits/s, 1 client", "commit", "1 client, commits/s"),
    line("durable commits/s, 8 clients", "commit", "8 clients, commits/s"),
    line("documents found by `_id`/s", "documents", "find"),
    line("single inserts of documents/s", "documents", "insert"),
];
