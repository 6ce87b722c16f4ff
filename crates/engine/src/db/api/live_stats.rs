//! The counters of a database that another process has open, which tells them in the file `STATS`.
//!
//! # Format
//! Lines of text: `spinney stats 1`, then a name and a number each, in any order, for every counter that is not zero,
//! and at last `sum` with the checksum of the lines before it as 16 hexadecimal digits. A part of a group has a dot
//! between both names; a bucket of a histogram and a level are named by their number, a table by its name in
//! hexadecimal digits. What the last failure said is one line, its bytes in hexadecimal digits too. A name that is not
//! known is left out, so that programs of different versions understand each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::base::checksum::checksum;
use crate::base::histogram::Histogram;
use crate::base::num::usize_of;
use crate::base::{Error, Result};
use crate::env::{Access, Env, OpenOptions};
use crate::table::files;
use crate::table::reads::ReadStats;

use super::stats::{Stats, no_levels};

const FIRST_LINE: &str = "spinney stats 1";
/// The reads of no more tables are told one by one.
const TABLES_MAX: usize = 1000;
/// How often the file is read while it is written, and the pause between.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(200);

/// What a process that has a database open for writing tells of it, about once a second.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveStats {
    /// The process, as far as the system tells: `process 12 (name)`.
    pub process: String,
    /// Its counters; of reads by table those of the first thousand tables that were read.
    pub stats: Stats,
}

/// Reads what the process tells that has the database in `path` open; `None` when there is none, or when it has told
/// nothing yet.
pub(crate) fn live_stats(env: &Env, path: &Path) -> Result<Option<LiveStats>> {
    let dir = env.fs.absolute(path).map_err(|error| Error::io("find", path, error))?;
    let path = dir.join(files::STATS);
    let wrong = |error| Error::io("read", &path, error);
    match env.fs.is_locked(&path) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    }
    for _ in 0..ATTEMPTS {
        let file = match env.fs.open(&path, OpenOptions { access: Access::Read, direct: false }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(wrong)?,
        };
        let mut bytes = vec![0; usize_of(file.len().map_err(wrong)?)];
        let read = file.read_at(&mut bytes, 0).map_err(wrong)?;
        if let Some(stats) = std::str::from_utf8(&bytes[..read]).ok().and_then(decode) {
            let holder = env.fs.lock_holder(&dir.join(files::LOCK));
            return Ok(Some(LiveStats { process: holder.unwrap_or_else(|| "another process".to_owned()), stats }));
        }
        // It is being written.
        env.threads.sleep(PAUSE);
    }
    Err(Error::corruption(&path, 0, "the checksum of the counters does not match"))
}

/// The text of `STATS`.
pub(crate) fn encode(mut stats: Stats) -> String {
    let mut text = format!("{FIRST_LINE}\n");
    if let Some(failure) = &stats.flush.last_failure {
        put(&mut text, "last_failure", &hex(failure.as_bytes()));
    }
    stats.table_reads.retain(|_, reads| *reads != ReadStats::default());
    while stats.table_reads.len() > TABLES_MAX {
        stats.table_reads.pop_last();
    }
    visit(&mut stats, &mut |name, number| {
        if *number > 0 {
            put(&mut text, name, &number.to_string());
        }
    });
    let sum = checksum(0, 0, text.as_bytes());
    put(&mut text, "sum", &format!("{sum:016x}"));
    text
}

fn put(text: &mut String, name: &str, value: &str) {
    writeln!(text, "{name} {value}").expect("a string takes all that is written");
}

/// What the text of `STATS` says; `None` when it is not whole.
fn decode(text: &str) -> Option<Stats> {
    let (lines, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let covered = &text[..lines.len() + 1];
    if sum.strip_prefix("sum ")? != format!("{:016x}", checksum(0, 0, covered.as_bytes())) {
        return None;
    }
    let mut lines = lines.lines();
    if lines.next() != Some(FIRST_LINE) {
        return None;
    }
    let values: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
    let mut stats = Stats { levels: no_levels(), ..Stats::default() };
    let tables = values.keys().filter_map(|name| name.strip_prefix("table_reads.")?.split_once('.'));
    let tables = tables.filter_map(|(table, _)| String::from_utf8(unhex(table)?).ok());
    stats.table_reads = tables.map(|table| (table, ReadStats::default())).collect();
    visit(&mut stats, &mut |name, number| {
        *number = values.get(name).and_then(|value| value.parse().ok()).unwrap_or_default();
    });
    let failure = values.get("last_failure").and_then(|text| unhex(text));
    stats.flush.last_failure = failure.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Some(stats)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Is shown a number and its name.
type Visit<'a> = dyn FnMut(&str, &mut u64) + 'a;

/// Shows fields of a struct by names that begin with `group`.
macro_rules! show {
    ($visit:ident, $group:expr, $stats:expr => $($field:ident),* $(,)?) => {
        $($visit(&format!("{}{}", $group, stringify!($field)), &mut $stats.$field);)*
    };
}

/// Shows all numbers.
fn visit(stats: &mut Stats, visit: &mut Visit<'_>) {
    show!(visit, "", stats => commits, conflicts, delays, delay_us, stalls, stall_us, memtable_bytes, memory_bytes);
    show!(visit, "", stats => unlogged_memtable_bytes, unlogged_tables, snapshots);
    let log = &mut stats.log;
    show!(visit, "log.", log => appends, record_bytes, packed_bytes, compression_us, groups, written_bytes, waits);
    show!(visit, "log.", log => filled_bytes, writes, syncs, segments_created, segments_recycled, segments_removed);
    show!(visit, "log.", log => spare_bytes, bytes_replayed, replay_us);
    visit_histogram(&mut log.group_appends, "log.group_appends.", visit);
    visit_histogram(&mut log.sync_us, "log.sync_us.", visit);
    let flush = &mut stats.flush;
    show!(visit, "flush.", flush => flushes, flush_bytes, compactions, compaction_read_bytes, compaction_write_bytes);
    show!(visit, "flush.", flush => compaction_reused_leaves, space_missing_bytes, failed_compactions, failed_merges);
    for (at, level) in stats.levels.iter_mut().enumerate() {
        let group = format!("levels.{at}.");
        show!(visit, group, level => jobs, in_bytes, rewritten_bytes, written_bytes, time_us, bytes, debt_bytes);
    }
    show!(visit, "cache.", stats.cache => hits, misses, populated, evicted, bytes, capacity_bytes);
    show!(visit, "storage.", stats.storage => reads, read_bytes, writes, written_bytes, syncs);
    show!(visit, "values.", stats.values => files, bytes, live_bytes);
    visit_reads(&mut stats.reads, "reads.", visit);
    for (table, reads) in &mut stats.table_reads {
        visit_reads(reads, &format!("table_reads.{}.", hex(table.as_bytes())), visit);
    }
}

fn visit_histogram(histogram: &mut Histogram, group: &str, visit: &mut Visit<'_>) {
    show!(visit, group, histogram => sum);
    histogram.counts.iter_mut().enumerate().for_each(|(at, count)| visit(&format!("{group}{at}"), count));
}

fn visit_reads(reads: &mut ReadStats, group: &str, visit: &mut Visit<'_>) {
    show!(visit, group, reads => gets, get_trees, get_filters, get_filter_misses, get_blocks, get_blocks_read);
    show!(visit, group, reads => seeks, seek_trees, seek_blocks, seek_blocks_read, seek_filters, seek_filter_misses);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::sim::SimEnv;
    use crate::{Database, TableOptions};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Statistics in which every number is another one.
    fn all_different() -> Stats {
        let tables = ["a", "with space and \n", "ä.b"].map(|name| (name.to_owned(), ReadStats::default()));
        let mut stats = Stats { levels: no_levels(), table_reads: BTreeMap::from(tables), ..Stats::default() };
        stats.flush.last_failure = Some("a: damaged\nat 7".to_owned());
        let mut next = 0;
        visit(&mut stats, &mut |_, number| {
            next += 1;
            *number = next;
        });
        stats
    }

    #[test]
    fn all_that_is_told_is_read_again() {
        let stats = all_different();
        let text = encode(stats.clone());
        assert_eq!(format!("{:?}", decode(&text).unwrap()), format!("{stats:?}"));
        // No number keeps its default: each field of the statistics is told.
        assert!(!format!("{stats:?}").contains(": 0,"), "{stats:?}");
        (0..text.len()).for_each(|end| assert!(decode(&text[..end]).is_none()));
        assert!(decode(&text.replacen("commits 1", "commits 2", 1)).is_none());
    }

    #[test]
    fn a_database_tells_its_counters_while_it_is_open() {
        let sim = SimEnv::new(1);
        let live = || live_stats(&sim.env(), "/db".as_ref()).unwrap();
        let is_there = || sim.env().fs.list("/db".as_ref()).unwrap().iter().any(|entry| entry.name == files::STATS);
        let db = Database::builder("/db").env(sim.env()).open().unwrap();
        let table = db.create_table("t", TableOptions::default()).unwrap();
        assert!(live().is_none() && !is_there());
        (0..7).for_each(|number| table.put([number], "value").unwrap());
        sim.advance(Duration::from_secs(2));
        assert_eq!(live().unwrap().stats.commits, 7);
        table.get([1]).unwrap();
        table.put([1], "other").unwrap();
        sim.advance(Duration::from_secs(2));
        let LiveStats { stats, process, .. } = live().unwrap();
        assert_eq!((stats.commits, stats.table_reads["t"].gets, &*process), (8, 1, "process 0"));
        let changes = sim.write_and_sync_count();
        sim.advance(Duration::from_secs(60));
        assert_eq!(sim.write_and_sync_count(), changes, "what is not new is not written");
        drop(table);
        db.close().unwrap();
        assert!(live().is_none() && !is_there());
        let db = Database::builder("/db").env(sim.env()).open().unwrap();
        sim.advance(Duration::from_secs(2));
        assert!(live().is_some() && is_there());
        sim.process_crash();
        assert!(live().is_none() && is_there());
        drop(db);
        let _db = Database::builder("/db").env(sim.env()).open().unwrap();
        sim.advance(Duration::from_secs(2));
        assert_eq!(live().unwrap().stats.commits, 0);
    }

    /// The other process may end while its counters are read.
    #[test]
    fn counters_that_go_while_they_are_read_are_there_or_not_and_no_error() {
        let mut found = [0, 0];
        for place in 0.. {
            let sim = SimEnv::new(1);
            let db = Database::builder("/db").env(sim.env()).open().unwrap();
            db.create_table("t", TableOptions::default()).unwrap();
            sim.advance(Duration::from_secs(2));
            let (calls, machine) = (Arc::new(AtomicU64::new(0)), sim.clone());
            let made = Arc::clone(&calls);
            sim.interrupt(Some(Box::new(move |_, _| {
                if made.fetch_add(1, Ordering::Relaxed) == place {
                    machine.remove_file("/db/STATS").unwrap();
                }
            })));
            let live = live_stats(&sim.env(), "/db".as_ref()).unwrap();
            sim.interrupt(None);
            found[usize::from(live.is_some())] += 1;
            if calls.load(Ordering::Relaxed) <= place {
                break;
            }
        }
        assert!(found[0] >= 1 && found[1] >= 2, "{found:?}");
    }
}
