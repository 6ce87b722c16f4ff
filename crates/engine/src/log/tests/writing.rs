//! Appending, syncing, changing segments, recycling them, and reading all of it back.

use super::*;
use crate::base::num::{u32_of, usize_of32};
use crate::env::SECTOR_BYTES;
use crate::log::inspect_on;
use crate::log::pool::directory::segment_path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
fn an_empty_log_is_empty_and_opens_again() {
    let fixture = Fixture::new();
    for _ in 0..3 {
        let (payloads, log) = fixture.open(LogOptions::default());
        assert!(payloads.is_empty());
        assert_eq!(log.durable(), log.tail());
    }
    // Empty segments do not pile up.
    assert_eq!(fixture.names(), ["0000000000000003.log"]);
}

#[test]
fn payloads_of_every_size_come_back_in_order() {
    for (segment_bytes, direct) in [(64 << 10, true), (64 << 10, false), (256 << 10, true), (2 << 20, true)] {
        let fixture = Fixture::new();
        let (_, log) = fixture.open(LogOptions { segment_bytes, direct, ..LogOptions::default() });
        let mut random = Random(segment_bytes);
        let mut expected = Vec::new();
        for number in 0..300 {
            let bytes = [0, 1, 11, 12, 13, 100, 4055, 4056, 4057, 5000, 70_000, 300_000][random.below(12)];
            let payload = payload(number, bytes);
            let (front, back) = payload.split_at(bytes / 3);
            let end = log.append_parts(&[front, b"", back]).unwrap();
            assert_eq!(end, log.tail());
            match random.below(5) {
                0 => log.sync(end).unwrap(),
                1 => log.write(end).unwrap(),
                2 => log.prepare_spare().unwrap(),
                3 => log.extend_window().unwrap(),
                _ => {}
            }
            expected.push(payload);
        }
        log.close().unwrap();
        assert_eq!(log.append_parts(&[b"x"]).unwrap_err().kind(), ErrorKind::Closed);
        let (payloads, recovered) = read(&fixture.env, &fixture.path, Lsn(0)).unwrap();
        assert!(recovered.summary().closed);
        assert_eq!(payloads.len(), expected.len());
        assert!(payloads == expected, "segments of {segment_bytes}");
    }
}

#[test]
fn a_payload_larger_than_the_buffer_and_many_segments_comes_back() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() });
    let large = payload(1, 20 << 20);
    log.append_parts(&[b"before"]).unwrap();
    let end = log.append_parts(&[&large]).unwrap();
    assert!(log.written() > Lsn(16 << 20), "memory stays bounded");
    log.append_parts(&[b"after"]).unwrap();
    log.sync(end).unwrap();
    let payloads = fixture.read().unwrap();
    assert!(payloads.len() == 3 && payloads[1] == large);
}

#[test]
fn what_is_written_survives_the_process_and_what_is_not_does_not() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    log.append_parts(&[b"a"]).unwrap();
    let end = log.append_parts(&[b"b"]).unwrap();
    log.write(end).unwrap();
    assert_eq!((log.written(), log.durable() < end), (end, true));
    log.append_parts(&[b"c"]).unwrap();
    drop(log);
    assert_eq!(fixture.read().unwrap(), [b"a", b"b"]);
}

/// A file that is longer than its segment is of no use as a spare.
#[test]
fn pages_filled_ahead_end_with_their_segment() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    for number in 0..1000 {
        log.write(log.append_parts(&[&payload(number, 300)]).unwrap()).unwrap();
        log.extend_window().unwrap();
    }
    assert!(fixture.names().len() > 4);
    for name in fixture.names() {
        let bytes = fs::metadata(fixture.path.join(&name)).unwrap().len();
        assert!(bytes.is_multiple_of(4096), "{name}: {bytes}");
    }
}

#[test]
fn buffered_and_durable_commits_mix() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let mut random = Random(1);
    let mut expected = Vec::new();
    for number in 0..3000 {
        let payload = payload(number, random.below(300));
        let end = log.append_parts(&[&payload]).unwrap();
        expected.push(payload);
        if random.below(3) == 0 {
            log.sync(end).unwrap();
            assert!(log.durable() >= end);
        } else {
            log.write(end).unwrap();
            assert!(log.written() >= end);
        }
        if random.below(4) == 0 {
            log.extend_window().unwrap();
        }
        if random.below(200) == 0 {
            assert!(fixture.read().unwrap() == expected);
        }
    }
}

#[test]
fn every_open_goes_on_behind_what_it_found() {
    let fixture = Fixture::new();
    let mut expected = Vec::new();
    let mut last = Lsn(0);
    for round in 0..10 {
        let (payloads, log) = fixture.open(small());
        assert!(payloads == expected);
        assert!(log.tail() > last, "positions are never used twice");
        for number in 0..round {
            let payload = payload(number, 1000 * number);
            log.append_parts(&[&payload]).unwrap();
            expected.push(payload);
        }
        last = log.tail();
        if round % 2 == 0 { log.close().unwrap() } else { log.sync(last).unwrap() }
    }
}

#[test]
fn obsolete_segments_are_recycled_and_their_bytes_never_come_back() {
    let fixture = Fixture::new();
    let mut from = Lsn(0);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut recycled = 0;
    // Segments of several sizes, recycling with and without.
    for (round, segment_bytes) in [65536, 65536, 131_072, 65536, 65536].into_iter().enumerate() {
        let options = LogOptions { segment_bytes, direct: round % 2 == 0, ..LogOptions::default() };
        let (payloads, log) = fixture.open_from(from, options).unwrap();
        assert!(payloads == kept, "round {round}");
        for number in 0..400 {
            // All payloads of the same size, so that stale records lie exactly where new ones could.
            let payload = payload(number + round * 1000, 2000);
            let end = log.append_parts(&[&payload]).unwrap();
            if number % 3 == 0 {
                log.sync(end).unwrap()
            } else {
                log.write(end).unwrap()
            }
            kept.push(payload);
            if number % 20 == 19 {
                from = end;
                kept.clear();
                if round != 3 {
                    log.release(from).unwrap();
                }
                log.prepare_spare().unwrap();
            }
            if number % 50 == 33 {
                let (payloads, _) = read(&fixture.env, &fixture.path, from).unwrap();
                assert!(payloads == kept, "round {round}, payload {number}");
            }
        }
        recycled += log.stats().segments_recycled;
        log.release(from).unwrap();
        let names = fixture.names();
        assert!(names.len() <= 8, "released segments are gone: {names:?}");
    }
    assert!(recycled > 20, "{recycled}");
}

#[test]
fn threads_that_sync_together_share_groups_and_lose_nothing() {
    const THREADS: usize = 8;
    const EACH: usize = 60;
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let (start, done) = (Barrier::new(THREADS), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            // As long as the others work; not for ever if one fails.
            for _ in (0..1_000_000).take_while(|_| done.load(Ordering::Relaxed) < THREADS) {
                log.prepare_spare().unwrap();
                thread::yield_now();
            }
        });
        for thread in 0..THREADS {
            let (log, start, done) = (&log, &start, &done);
            scope.spawn(move || {
                start.wait();
                for number in 0..EACH {
                    let payload = payload(thread * 1000 + number, 100 + number);
                    let end = log
                        .append_parts(&[&u32_of(thread).to_le_bytes(), &u32_of(number).to_le_bytes(), &payload])
                        .unwrap();
                    if number % 4 == 3 {
                        log.write(end).unwrap()
                    } else {
                        log.sync(end).unwrap()
                    }
                    assert!(log.written() >= end && (number % 4 == 3 || log.durable() >= end));
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    let stats = log.stats();
    assert_eq!(stats.appends, u64_of(THREADS * EACH));
    assert!(stats.groups < stats.appends && stats.waits > 0, "{stats:?}");
    assert_eq!(stats.group_appends.count(), stats.groups);
    assert!(stats.group_appends.sum <= stats.appends, "{stats:?}");
    let mut next = [0u32; THREADS];
    for payload in fixture.read().unwrap() {
        let thread = u32::from_le_bytes(payload[..4].try_into().unwrap());
        let thread = usize_of32(thread);
        assert_eq!(u32::from_le_bytes(payload[4..8].try_into().unwrap()), next[thread]);
        next[thread] += 1;
    }
    assert_eq!(next, [u32_of(EACH); THREADS]);
}

#[test]
fn options_out_of_range_are_refused() {
    for segment_bytes in [0, 4096, (64 << 10) + 1, (1 << 30) + 4096] {
        let error = LogOptions { segment_bytes, ..LogOptions::default() }.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn inspecting_shows_what_is_there_and_changes_nothing() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    for number in 0..200 {
        let end = log.append_parts(&[&payload(number, 1000)]).unwrap();
        log.sync(end).unwrap();
    }
    let middle = log.tail();
    log.append_parts(&[b"last"]).unwrap();
    log.release(middle).unwrap();
    log.close().unwrap();
    let names = fixture.names();
    let (payloads, summary) = collect(|visit| inspect(&fixture.env, &fixture.path, Lsn(0), visit)).unwrap();
    assert!(summary.closed);
    assert_eq!(payloads.last().unwrap(), b"last");
    assert_eq!(fixture.names(), names);
}

/// Bytes of pages filled ahead by one buffered commit of 150 bytes, which is written in any case.
fn filled_by_one(log: &LogWriter) -> u64 {
    let before = log.stats();
    log.write(log.append_parts(&[&payload(1, 150)]).unwrap()).unwrap();
    let written = log.stats().written_bytes - before.written_bytes;
    assert!((162..220).contains(&written), "{written} bytes, of a record or two and a marker");
    log.stats().filled_bytes - before.filled_bytes
}

#[test]
fn a_stream_of_buffered_commits_rarely_meets_a_page_that_is_not_filled_yet() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(LogOptions::default());
    let filled: Vec<_> = (0..2000).map(|_| filled_by_one(&log)).collect();
    let pages = filled.iter().filter(|bytes| **bytes > 0).count();
    assert!(filled.iter().all(|bytes| *bytes < 70_000) && (5..20).contains(&pages), "{pages} times");
    // What a force finds of them goes to the device.
    let before = log.stats().written_bytes;
    log.sync(log.tail()).unwrap();
    let zeros = log.stats().written_bytes - before;
    assert!((1..70_000).contains(&zeros), "{zeros}");
    log.append_parts(&[&payload(1, 150)]).unwrap();
    log.sync(log.tail()).unwrap();
    assert!((162..=8192).contains(&(log.stats().written_bytes - before - zeros)), "and only once");
}

#[test]
fn no_more_pages_are_filled_ahead_than_were_written_since_the_last_force() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(LogOptions::default());
    for commits in [1, 1, 2, 20, 100, 300, 1, 1] {
        let filled: u64 = (0..commits).map(|_| filled_by_one(&log)).sum();
        assert!(filled <= 2 * 162 * commits + 2 * 4096, "{filled} bytes of pages for {commits} commits");
        log.sync(log.tail()).unwrap();
    }
}

/// The next segment begins with the next payload only.
#[test]
fn a_position_at_the_end_of_a_full_segment_is_where_the_log_goes_on() {
    let (path, mut are_full) = (Path::new("/log"), 0);
    for bytes in 65_536 - 4096 - 100..65_536 - 4096 {
        let env = crate::env::sim::SimEnv::new(1).env();
        env.fs.create_dir_all(path).unwrap();
        let recovered = recover(&env, path, DATABASE, Lsn(0), &mut |_, _, _| Ok(())).unwrap();
        let log = LogWriter::open(&env, path, small(), recovered).unwrap();
        let commit = |bytes| log.sync(log.append_parts(&[&payload(1, bytes)]).unwrap()).unwrap();
        commit(bytes);
        let from = log.tail();
        are_full += usize::from(from == log.current().header.end());
        for more in 0..3 {
            let summary = inspect_on(&env, path, from, &mut |_, _, _| Ok(())).unwrap();
            assert_eq!(summary.payloads, more, "behind {bytes} bytes");
            commit(10);
        }
    }
    assert!(are_full > 0);
}

/// Bytes that were read before they were written look like damage to a reader that reads on behind them.
#[test]
fn a_log_that_grows_while_it_is_inspected_shows_each_payload_once() {
    let env = crate::env::sim::SimEnv::new(1).env();
    let path = Path::new("/log");
    env.fs.create_dir_all(path).unwrap();
    let recovered = recover(&env, path, DATABASE, Lsn(0), &mut |_, _, _| Ok(())).unwrap();
    let log = LogWriter::open(&env, path, LogOptions::default(), recovered).unwrap();
    let commit = |bytes| log.sync(log.append_parts(&[&vec![7; bytes]]).unwrap()).unwrap();
    // A segment of several times what is read at a time.
    commit(9 << 20);
    log.prepare_spare().unwrap();
    commit(2 << 20);
    let from = log.tail();
    commit(1);
    let mut shown = Vec::new();
    let summary = inspect(&env, path, from, &mut |_, _, payload| {
        if shown.is_empty() {
            (2..600).for_each(|_| commit(4000));
        }
        shown.push(payload.len());
        Ok(())
    });
    let expected: Vec<_> = [1].into_iter().chain(std::iter::repeat_n(4000, 598)).collect();
    assert_eq!(shown, expected);
    assert_eq!(summary.unwrap().payloads, 599);
}

#[test]
fn a_buffered_write_that_failed_is_never_said_to_be_written() {
    let sim = crate::env::sim::SimEnv::new(1);
    let path = Path::new("/log");
    sim.env().fs.create_dir_all(path).unwrap();
    let recovered = recover(&sim.env(), path, DATABASE, Lsn(0), &mut |_, _, _| Ok(())).unwrap();
    let log = LogWriter::open(&sim.env(), path, LogOptions::default(), recovered).unwrap();
    let end = log.append_parts(&[b"a"]).unwrap();
    sim.fail_at(sim.op_count(), crate::env::sim::Fault::Error(std::io::ErrorKind::Other));
    // A later call, such as one that waited for the latch, must not find the write done.
    for _ in 0..2 {
        assert_eq!(log.write(end).unwrap_err().kind(), ErrorKind::Poisoned);
        assert!(log.written() < end);
    }
}

#[test]
fn a_cursor_begins_where_a_payload_does_and_reads_nothing_before() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let (mut payloads, mut ends) = (Vec::new(), Vec::new());
    for number in 0..40 {
        let bytes = payload(number, 1 + number * 53 % 900);
        ends.push(log.append_parts(&[&bytes]).unwrap());
        payloads.push(bytes);
        if number % 3 == 0 {
            log.sync(ends[number]).unwrap();
        }
    }
    log.sync(ends[39]).unwrap();
    let shown = |from| {
        let mut cursor = log.cursor(from, u64::MAX).unwrap();
        let mut shown = Vec::new();
        let read = loop {
            match log.read_ahead(&mut cursor) {
                Ok(true) => shown.extend(std::iter::from_fn(|| cursor.take()).map(|logged| logged.payload)),
                Ok(false) => break Ok(shown),
                Err(error) => break Err(error.kind()),
            }
        };
        log.end_cursor(&cursor);
        read
    };
    for from in (log.oldest().0..=ends[39].0).map(Lsn) {
        let first = ends.partition_point(|end| *end <= from);
        assert!(shown(from).as_deref() == Ok(&payloads[first..]), "from {from}");
    }
    let first = segment_path(&fixture.path, 1);
    let mut bytes = fs::read(&first).unwrap();
    bytes[SECTOR_BYTES..2 * SECTOR_BYTES].fill(0xff);
    fs::write(&first, bytes).unwrap();
    assert!(shown(ends[8]).as_deref() == Ok(&payloads[9..]));
    assert_eq!(shown(Lsn(ends[8].0 - 1)), Err(ErrorKind::Corruption));
}
