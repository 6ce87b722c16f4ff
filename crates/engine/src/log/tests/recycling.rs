//! Segments written ahead and used again: how large they are, and that what an earlier life left in them is never
//! replayed.

use super::*;
use crate::env::sim::{CrashProfile, SimEnv};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const DIRECTORY: &str = "/log";

fn sim(seed: u64) -> SimEnv {
    let sim = SimEnv::new(seed);
    sim.env().fs.create_dir_all(DIRECTORY.as_ref()).unwrap();
    sim
}

fn open(sim: &SimEnv, from: Lsn, options: LogOptions) -> (Vec<Vec<u8>>, LogWriter) {
    let (found, recovered) = read(&sim.env(), DIRECTORY.as_ref(), from).unwrap();
    (found, LogWriter::open(&sim.env(), DIRECTORY.as_ref(), options, recovered).unwrap())
}

/// What the background worker does when a commit wakes it.
fn work(log: &LogWriter) {
    if log.wants_spare() {
        log.prepare_spare().unwrap();
    }
}

/// Bytes of the files in the directory.
fn file_bytes(sim: &SimEnv) -> Vec<u64> {
    sim.env().fs.list(DIRECTORY.as_ref()).unwrap().iter().map(|entry| entry.bytes).collect()
}

#[test]
fn a_thousand_small_commits_are_not_paid_for_with_whole_segments() {
    let sim = sim(1);
    let (_, log) = open(&sim, Lsn(0), LogOptions::default());
    work(&log);
    for number in 0..1000 {
        let end = log.append_parts(&[&payload(number, 100)]).unwrap();
        log.sync(end).unwrap();
        work(&log);
    }
    log.close().unwrap();
    let stats = log.stats();
    assert!(stats.spare_bytes <= 4 << 20, "{stats:?}");
    assert!(file_bytes(&sim).iter().sum::<u64>() <= 5 << 20);
    // Every segment but the first was ready when it was needed.
    assert_eq!(stats.segments_created, stats.spare_bytes / (1 << 20) + 1);
    assert_eq!((stats.group_appends.count(), stats.group_appends.sum), (1001, 1000), "the end mark is a group of none");
    assert_eq!(stats.sync_us.count(), stats.syncs);
}

#[test]
fn zeros_are_written_for_a_log_that_is_forced_often_and_for_no_other() {
    let zeros = |commits: usize, bytes: usize, is_forced: bool| {
        let sim = sim(3);
        let (_, log) = open(&sim, Lsn(0), LogOptions::default());
        work(&log);
        for number in 0..commits {
            let end = log.append_parts(&[&payload(number, bytes)]).unwrap();
            if is_forced { log.sync(end) } else { log.write(end) }.unwrap();
            work(&log);
        }
        let stats = log.stats();
        assert!(stats.segments_created > 4, "{stats:?}");
        log.close().unwrap();
        drop(log);
        assert!(file_bytes(&sim).iter().all(|bytes| bytes.is_multiple_of(1 << 16)), "{:?}", file_bytes(&sim));
        // Either kind of file holds what was written to it, and nothing else.
        assert_eq!(open(&sim, Lsn(0), LogOptions::default()).0.len(), commits);
        stats.spare_bytes
    };
    let first = 1 << 20;
    assert!(zeros(500, 60_000, true) >= 16 << 20);
    assert_eq!(zeros(500, 60_000, false), first, "buffered");
    assert_eq!(zeros(40, 1_000_000, true), first, "large transactions");
}

#[test]
fn who_begins_a_segment_by_a_buffered_commit_finds_its_header_written_and_leaves_its_name_to_others() {
    let sim = sim(4);
    let (_, log) = open(&sim, Lsn(0), LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() });
    let commit = |bytes| log.write(log.append_parts(&[&payload(1, bytes)]).unwrap()).unwrap();
    let current = || log.current();
    let is_ready = || log.pool.is_spare_ready();
    assert!(current().is_named() && is_ready().is_none());
    for _ in 0..5 {
        work(&log);
        assert_eq!((is_ready(), current().is_named()), (Some(true), true));
        let calls = sim.op_count();
        commit(1_100_000);
        // The write of what filled the segment, a rename, and the write of the rest.
        assert!(sim.op_count() - calls <= 3, "{} calls", sim.op_count() - calls);
        assert!(!current().is_named());
        // A segment that was given up meanwhile does not come before the one that is ready.
        log.sync(log.tail()).unwrap();
        assert!(current().is_named());
        log.release(log.tail()).unwrap();
    }
    // A commit that fills several segments makes each one's name durable before the next, and a force that of the last.
    commit(3_500_000);
    let segments = log.unsynced();
    let named: Vec<_> = segments.iter().map(|segment| segment.is_named()).collect();
    assert!(named.len() > 2 && named[..named.len() - 1].iter().all(|is_named| *is_named), "{named:?}");
    assert!(!current().is_named());
    log.sync(log.tail()).unwrap();
    assert!(current().is_named());
    // A release of all segments before the last must not leave the log without any name: here it comes before any sync
    // of the last one, as the drop of a table does.
    commit(1_100_000);
    assert!(!current().is_named());
    log.release(log.tail()).unwrap();
    assert!(current().is_named());
}

#[test]
fn a_long_run_ends_with_whole_segments_that_are_used_again_and_again() {
    const WHOLE: u64 = 8 << 20;
    let options = LogOptions { segment_bytes: WHOLE, ..LogOptions::default() };
    let sim = sim(2);
    let (_, log) = open(&sim, Lsn(0), options);
    work(&log);
    let run = |log: &LogWriter, bytes: u64| {
        let stop = log.stats().record_bytes + bytes;
        while log.stats().record_bytes < stop {
            let end = log.append_parts(&[&payload(1, 100_000)]).unwrap();
            log.write(end).unwrap();
            work(log);
            let stats = log.stats();
            assert!(stats.spare_bytes <= 2 * stats.written_bytes + (2 << 20), "{stats:?}");
            if log.live_bytes() > 3 * WHOLE {
                log.sync(end).unwrap();
                log.release(end).unwrap();
            }
        }
        log.stats()
    };
    let grown = run(&log, 12 * WHOLE);
    let ended = run(&log, 10 * WHOLE);
    assert_eq!((ended.segments_created, ended.spare_bytes), (grown.segments_created, grown.spare_bytes));
    assert!(ended.segments_recycled >= grown.segments_recycled + 8, "{ended:?}");
    assert!(file_bytes(&sim).iter().all(|bytes| *bytes == WHOLE), "{:?}", file_bytes(&sim));
    // Whole spares are there already: an open that has used nothing yet makes none.
    let from = log.tail();
    log.close().unwrap();
    log.release(from).unwrap();
    drop(log);
    let (_, log) = open(&sim, from, options);
    work(&log);
    assert_eq!((log.stats().spare_bytes, log.stats().segments_removed), (0, 0));
    // Smaller whole segments give the space of larger ones back.
    drop(log);
    let (_, log) = open(&sim, from, LogOptions { segment_bytes: 2 << 20, ..LogOptions::default() });
    assert!(log.stats().segments_removed >= 4, "{:?}", log.stats());
    assert!(file_bytes(&sim).iter().filter(|bytes| **bytes == WHOLE).count() <= 1, "{:?}", file_bytes(&sim));
}

#[test]
fn a_spare_of_a_length_that_no_segment_has_is_removed() {
    for bytes in [0, 4096, (64 << 10) + 1, 1 << 40] {
        let sim = sim(3);
        let name = Path::new(DIRECTORY).join("0000000000000007.spare");
        sim.write_file(&name, b"").unwrap();
        let file = sim.env().fs.open(&name, OpenOptions { access: Access::Write, direct: false }).unwrap();
        file.set_len(bytes).unwrap();
        let (_, log) = open(&sim, Lsn(0), small());
        assert!(sim.read_file(&name).is_err(), "{bytes}");
        log.sync(log.append_parts(&[&payload(1, 200_000)]).unwrap()).unwrap();
    }
}

/// What becomes of segments that are not needed any more.
#[derive(Clone, Copy, Debug)]
enum Recycling {
    On,
    Off,
    /// The one or the other, from open to open.
    Changed,
}

/// What the user of the log knows.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Every payload since `from`.
    appended: Vec<Vec<u8>>,
    /// How many of them are durable.
    durable: usize,
    from: Lsn,
}

impl Known {
    /// What was found is the beginning of what was appended, and all that was acknowledged of it.
    fn check(&self, found: &[Vec<u8>], kept: usize) -> std::result::Result<(), String> {
        let is_prefix = found.len() <= self.appended.len() && found == &self.appended[..found.len()];
        if is_prefix && found.len() >= kept {
            return Ok(());
        }
        Err(format!("{} payloads of {}, {kept} acknowledged, prefix: {is_prefix}", found.len(), self.appended.len()))
    }
}

/// Gives up what waits to be used again.
fn remove_waiting(log: &LogWriter) {
    log.pool.remove_spares();
}

/// Fills segments of several sizes over and over with payloads of one length, so that each record of an earlier life
/// lies where one of the new life could; crashes at changes of the disk, and recovers. Returns how many crashes there
/// were and how many files were used again.
fn fill_and_crash(seed: u64, recycling: Recycling, sizes: &[u64]) -> (usize, u64) {
    let sim = sim(seed);
    let known = Arc::new(Mutex::new(Known::default()));
    let tried = Arc::new(AtomicUsize::new(0));
    let mut random = Random(seed);
    let (shared, count) = (Arc::clone(&known), Arc::clone(&tried));
    sim.observe(Some(Box::new(move |fork| {
        if random.below(16) > 0 {
            return;
        }
        let known = shared.lock().clone();
        let profile = CrashProfile::EVERY[random.below(CrashProfile::EVERY.len())];
        fork.power_crash(profile);
        let found = read(&fork.env(), DIRECTORY.as_ref(), known.from).map(|(found, _)| found);
        let checked = found.map_err(|error| error.to_string()).and_then(|found| known.check(&found, known.durable));
        let at = fork.write_and_sync_count();
        checked.unwrap_or_else(|error| panic!("seed {seed}, change {at}, {recycling:?}, {profile:?}: {error}"));
        count.fetch_add(1, Ordering::Relaxed);
    })));
    let (mut random, mut recycled) = (Random(seed), 0);
    for round in 0..8 {
        let keeps = match recycling {
            Recycling::On => true,
            Recycling::Off => false,
            Recycling::Changed => round % 2 == 0,
        };
        let options =
            LogOptions { segment_bytes: sizes[round % sizes.len()], direct: round % 3 > 0, ..LogOptions::default() };
        if !keeps {
            crate::log::remove_spares(&sim.env(), DIRECTORY.as_ref());
        }
        let from = known.lock().from;
        let (found, log) = open(&sim, from, options);
        {
            let mut known = known.lock();
            // The process ended, not the machine: nothing that was written is lost.
            assert_eq!(known.check(&found, known.durable), Ok(()), "round {round}");
            known.appended.truncate(found.len());
            known.durable = found.len();
        }
        for number in 0..150 {
            let payload = payload(number + round * 1000, 2000);
            known.lock().appended.push(payload.clone());
            let end = log.append_parts(&[&payload]).unwrap();
            if random.below(2) == 0 {
                log.sync(end).unwrap();
                let mut known = known.lock();
                known.durable = known.appended.len();
            } else {
                log.write(end).unwrap();
            }
            if number % 25 == 24 {
                log.sync(end).unwrap();
                *known.lock() = Known { from: end, ..Known::default() };
                log.release(end).unwrap();
            }
            work(&log);
            if !keeps {
                remove_waiting(&log);
            }
        }
        recycled += log.stats().segments_recycled;
    }
    (tried.load(Ordering::Relaxed), recycled)
}

#[test]
fn bytes_of_an_earlier_life_are_never_replayed_with_recycling_on_off_or_changed() {
    for recycling in [Recycling::On, Recycling::Off, Recycling::Changed] {
        let (mut tried, mut recycled) = (0, 0);
        let sizes: [&[u64]; 4] =
            [&[64 << 10], &[64 << 10, 128 << 10], &[128 << 10, 192 << 10], &[192 << 10, 64 << 10, 64 << 10]];
        for (seed, sizes) in sizes.iter().enumerate() {
            let (crashes, used_again) = fill_and_crash(u64_of(seed) + 1, recycling, sizes);
            tried += crashes;
            recycled += used_again;
        }
        assert!(tried > 300 && recycled > 20, "{recycling:?}: {tried} crashes, {recycled} files kept");
    }
}

/// It filled files of a mebibyte with zeros, one after the other, and overwrote them.
#[test]
fn a_large_payload_goes_to_large_segments_for_which_room_is_reserved() {
    let sim = sim(4);
    let options = LogOptions { segment_bytes: 4 << 20, ..LogOptions::default() };
    let (_, log) = open(&sim, Lsn(0), options);
    let before = log.stats();
    let large = payload(1, 30 << 20);
    let end = log.append(&[], &mut log.prepare(&large).unwrap()).unwrap().end;
    log.sync(end).unwrap();
    let stats = log.stats();
    assert!(stats.segments_created - before.segments_created <= 12, "{stats:?}");
    assert_eq!(stats.spare_bytes, before.spare_bytes);
    assert!(file_bytes(&sim).iter().sum::<u64>() < 38 << 20);
    log.close().unwrap();
    assert!(open(&sim, Lsn(0), options).0 == [large]);
}

/// The log met it in the middle of the payload, and was poisoned.
#[test]
fn a_payload_for_which_the_disk_has_no_room_is_refused_before_anything_of_it_is_appended() {
    let sim = sim(5);
    let options = LogOptions { segment_bytes: 4 << 20, ..LogOptions::default() };
    let (_, log) = open(&sim, Lsn(0), options);
    let large = payload(1, 30 << 20);
    sim.set_free(20 << 20);
    let (before, tail) = (file_bytes(&sim), log.tail());
    let refused = log.prepare(&large).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert_eq!((file_bytes(&sim), log.tail()), (before, tail), "others get the room");
    let small = payload(2, 1000);
    let end = log.append_parts(&[&small]).unwrap();
    log.sync(end).unwrap();
    sim.set_space(u64::MAX);
    let end = log.append(&[], &mut log.prepare(&large).unwrap()).unwrap().end;
    log.sync(end).unwrap();
    log.close().unwrap();
    assert!(open(&sim, Lsn(0), options).0 == [small, large]);
}

#[test]
fn a_payload_that_needs_another_segment_is_refused_while_the_disk_is_full_and_no_longer() {
    let sim = sim(7);
    let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let (_, log) = open(&sim, Lsn(0), options);
    work(&log);
    sim.set_free(0);
    let payload = payload(1, 50_000);
    let mut appended = 0;
    let refused = loop {
        // What the background worker does fails, and is tried again by commits alone.
        log.pool.clear_wants_spare();
        let is_made = log.prepare_spare().is_ok();
        assert!(is_made || log.wants_spare(), "what was not made is asked for again");
        match log.prepare(&payload) {
            Ok(mut prepared) => {
                let end = log.append(&[7; 20], &mut prepared).unwrap().end;
                log.sync(end).unwrap();
                appended += 1;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!((20..42).contains(&appended), "{appended} fit the segment and the spare");
    let tail = log.tail();
    assert_eq!(log.prepare(&payload).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(log.tail(), tail, "nothing of it is appended");
    sim.set_space(u64::MAX);
    let end = log.append(&[7; 20], &mut log.prepare(&payload).unwrap()).unwrap().end;
    log.sync(end).unwrap();
    log.close().unwrap();
    assert_eq!(open(&sim, Lsn(0), options).0.len(), appended + 1);
}

/// The second took what was made for the first for its own, and met the full disk when that had used it.
#[test]
fn each_of_several_large_payloads_has_files_of_its_own() {
    let sim = sim(6);
    let options = LogOptions { segment_bytes: 4 << 20, ..LogOptions::default() };
    let (_, log) = open(&sim, Lsn(0), options);
    let large = [payload(1, 9 << 20), payload(2, 9 << 20)];
    sim.set_free(16 << 20);
    let first = log.prepare(&large[0]).unwrap();
    assert_eq!(log.prepare(&large[1]).unwrap_err().kind(), ErrorKind::Full);
    sim.set_space(u64::MAX);
    let second = log.prepare(&large[1]).unwrap();
    sim.set_free(0);
    for mut body in [first, second] {
        let end = log.append(&[], &mut body).unwrap().end;
        log.write(end).unwrap();
    }
    assert_eq!(log.prepare(&large[1]).unwrap_err().kind(), ErrorKind::Full, "nothing is reserved any more");
    log.close().unwrap();
    sim.set_space(u64::MAX);
    assert!(open(&sim, Lsn(0), options).0 == large);
}
