//! Which runs of the lab there are, the most important first: each writes one result file.

/// A run of the lab.
#[derive(Debug)]
pub(super) struct Experiment {
    /// Its name, which is that of its result file.
    pub(super) name: &'static str,
    /// The engines that take part, the first the one with which the lab compares.
    pub(super) engines: &'static str,
    /// The lab's arguments for a run of a minute or two, without the engines.
    pub(super) small: &'static str,
    /// The lab's arguments for the run that the pages should have, on a quiet machine, likewise: three
    /// repetitions with the engines in turns.
    pub(super) full: &'static str,
    /// Minutes that the full run takes on two quiet cores, about.
    pub(super) minutes: u32,
}

/// The order in which they run, so that a run that is stopped has what matters most.
pub(super) const EXPERIMENTS: [Experiment; 14] = [
    Experiment {
        name: "kv",
        engines: "spinney-lsm,spinney-btree,rocksdb,lmdb",
        small: "kv --num 200000 --reads 100000 --repeat 3 \
                --workloads fillrandom,waitforcompaction,compact,warm,readrandom,readmissing,multireadrandom,seekrandom,readseq \
                --settle false",
        full: "kv --num 5000000 --reads 1000000 --memory 4GiB --repeat 3 \
               --workloads fillrandom,waitforcompaction,compact,warm,readrandom,readmissing,multireadrandom,seekrandom,readseq \
               --settle false",
        minutes: 9,
    },
    Experiment {
        name: "kv-lz4",
        engines: "spinney-lsm,spinney-btree,rocksdb",
        small: "kv --num 200000 --reads 100000 --compression lz4 --repeat 3 \
                --workloads fillrandom,waitforcompaction,compact,warm,readrandom,readmissing,multireadrandom,seekrandom,readseq \
                --settle false",
        full: "kv --num 10000000 --reads 1000000 --memory 4GiB --compression lz4 \
               --repeat 3 \
               --workloads fillrandom,waitforcompaction,compact,warm,readrandom,readmissing,multireadrandom,seekrandom,readseq \
               --settle false",
        minutes: 12,
    },
    Experiment {
        name: "kv-threads",
        engines: "spinney-lsm,spinney-btree,rocksdb,lmdb",
        small: "kv --num 200000 --reads 100000 --threads 8 --repeat 3 \
                --workloads fillrandom,waitforcompaction,compact,warm,readrandom,multireadrandom,seekrandom --settle false",
        full: "kv --num 2000000 --reads 2000000 --memory 2GiB --threads 8 \
               --repeat 3 --workloads fillrandom,waitforcompaction,compact,warm,readrandom,multireadrandom,seekrandom --settle false",
        minutes: 5,
    },
    Experiment {
        name: "kv-lz4-threads",
        engines: "spinney-lsm,spinney-btree,rocksdb",
        small: "kv --num 200000 --reads 100000 --threads 8 --compression lz4 \
                --repeat 3 --workloads fillrandom,waitforcompaction,compact,warm,readrandom,multireadrandom,seekrandom --settle false",
        full: "kv --num 2000000 --reads 2000000 --memory 2GiB --threads 8 \
               --compression lz4 --repeat 3 \
               --workloads fillrandom,waitforcompaction,compact,warm,readrandom,multireadrandom,seekrandom --settle false",
        minutes: 3,
    },
    Experiment {
        name: "kv-ordered",
        engines: "spinney-lsm,spinney-btree,rocksdb,lmdb",
        small: "kv --num 200000 --reads 100000 --repeat 3 \
                --workloads fillbatch,fillseq,waitforcompaction,warm,readrandom,seekrandom,readseq,readreverse --settle false",
        full: "kv --num 3000000 --reads 1000000 --memory 3GiB --repeat 3 \
               --workloads fillbatch,fillseq,waitforcompaction,warm,readrandom,seekrandom,readseq,readreverse --settle false",
        minutes: 5,
    },
    Experiment {
        name: "ycsb",
        engines: "spinney-lsm,spinney-btree,rocksdb,lmdb,wiredtiger-btree",
        small: "ycsb --records 20000 \
                --operations 20000 --warm --repeat 3",
        full: "ycsb --records 200000 --operations 200000 \
               --warm --repeat 3",
        minutes: 4,
    },
    Experiment {
        name: "insert",
        engines: "spinney-btree,spinney-lsm,spinney-lsm-tiered,rocksdb",
        small: "insert --rows 100000 --memory 4x,0.1x \
                --rates none --load-seconds 4 --repeat 3",
        full: "insert --rows 1000000 --memory 4x,0.1x \
               --rates none --load-seconds 6 --repeat 3",
        minutes: 6,
    },
    Experiment {
        name: "commit",
        engines: "spinney-lsm,spinney-btree,rocksdb,lmdb,redb,sqlite,innodb",
        small: "commit --modes sync --clients 1,8 --rows 500 \
                --warm-rows 500 --device-writes 200 --log-segment 8MiB --repeat 3",
        full: "commit --modes sync --clients 1,8 \
               --rows 8000 --warm-rows 8000 --log-segment 8MiB --repeat 3",
        minutes: 6,
    },
    Experiment {
        name: "documents",
        engines: "spinney-documents,spinney-documents-btree,sqlite-documents",
        small: "documents --documents 20000 --reads 20000 \
                --updates 5000 --repeat 3",
        full: "documents --documents 200000 --reads 200000 \
               --updates 50000 --repeat 3",
        minutes: 3,
    },
    Experiment {
        name: "link",
        engines: "spinney-btree,spinney-lsm,rocksdb,wiredtiger-btree,lmdb,sqlite",
        small: "link --nodes 5000 --phases 1 \
                --seconds 1 --repeat 3",
        full: "link --nodes 50000 --phases 1 \
               --seconds 4 --repeat 3",
        minutes: 3,
    },
    Experiment {
        name: "journal",
        engines: "spinney-lsm,rocksdb,wiredtiger-btree,sqlite",
        small: "journal --items 50000 --logs plain,lz4 --repeat 3",
        full: "journal --items 500000 --logs plain,lz4 --repeat 3",
        minutes: 4,
    },
    Experiment {
        name: "shape",
        engines: "spinney-lsm,rocksdb",
        small: "shape --values 100K --fanout 8 --reads 20K --ranges 20K --repeat 3",
        full: "shape --values 1M --fanout 8 --seconds 1 --repeat 3",
        minutes: 4,
    },
    Experiment {
        name: "insert-in-place",
        engines: "spinney-btree,spinney-lsm,wiredtiger-btree",
        small: "insert --rows 20000 --memory 4x,0.25x --rates none \
                --load-seconds 3 --repeat 3",
        full: "insert --rows 200000 --memory 4x,0.25x --rates none \
               --load-seconds 5 --repeat 3",
        minutes: 3,
    },
    Experiment {
        name: "scale",
        engines: "spinney-lsm,spinney-btree,spinney-lsm-tiered",
        small: "scale --rows 10M,100M,1G --measure 1M",
        full: "scale --rows 10M,100M,1G,10G --measure 1M,10M",
        minutes: 8,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of a cold cache and of a warm one do not compare: engines differ in what a compaction leaves in memory.
    #[test]
    fn reads_of_single_operations_come_after_a_warming() {
        for experiment in EXPERIMENTS.iter().filter(|experiment| experiment.name.starts_with("kv")) {
            for arguments in [experiment.small, experiment.full] {
                let (_, workloads) = arguments.split_once("--workloads ").expect("its workloads");
                let names: Vec<&str> = workloads.split([',', ' ']).collect();
                let first_read = names.iter().position(|name| name.starts_with("read")).expect("reads");
                assert_eq!(names[first_read - 1], "warm", "{}", experiment.name);
            }
        }
    }

    #[test]
    fn a_full_run_takes_about_an_hour_and_repeats_each_engine() {
        assert!(EXPERIMENTS.iter().map(|experiment| experiment.minutes).sum::<u32>() <= 75);
        // The model says the same each time.
        let timed = EXPERIMENTS.iter().filter(|experiment| experiment.name != "scale");
        assert!(timed.into_iter().all(|experiment| experiment.full.contains("--repeat 3")));
    }
}
