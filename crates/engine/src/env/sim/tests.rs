//! What the simulated machine loses, tears, fails and keeps.

use super::super::{Access, AlignedBuffer, File, FileSystem, Next, OpenOptions};
use super::{Call, CrashProfile, Fault, SimEnv};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BUFFERED: OpenOptions = OpenOptions { access: Access::CreateNew, direct: false };
const READ: OpenOptions = OpenOptions { access: Access::Read, direct: false };

fn fs(sim: &SimEnv) -> Arc<dyn FileSystem> {
    sim.env().fs
}

fn create(sim: &SimEnv, path: &str) -> Arc<dyn File> {
    fs(sim).open(Path::new(path), BUFFERED).unwrap()
}

fn open(sim: &SimEnv, path: &str) -> Arc<dyn File> {
    fs(sim).open(Path::new(path), OpenOptions { access: Access::Write, ..BUFFERED }).unwrap()
}

/// A machine whose `/a` durably holds `bytes`.
fn with_file(seed: u64, bytes: &[u8]) -> (SimEnv, Arc<dyn File>) {
    let sim = SimEnv::new(seed);
    sim.write_file("/a", bytes).unwrap();
    let file = open(&sim, "/a");
    (sim, file)
}

fn names(sim: &SimEnv, dir: &str) -> String {
    let entries = fs(sim).list(Path::new(dir)).unwrap();
    entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(" ")
}

fn sync_root(sim: &SimEnv) {
    fs(sim).sync_dir(Path::new("/")).unwrap();
}

fn rename(sim: &SimEnv, from: &str, to: &str) {
    fs(sim).rename(Path::new(from), Path::new(to)).unwrap();
}

#[test]
fn strict_keeps_what_was_synced_and_nothing_else() {
    let (sim, file) = with_file(1, b"old");
    file.write_at(b"NEW and longer", 0).unwrap();
    file.sync().unwrap();
    file.write_at(b"lost", 0).unwrap();
    file.set_len(100).unwrap();
    file.allocate(5000).unwrap();
    assert_eq!(sim.unsynced_count(), 3);
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(sim.read_file("/a").unwrap(), b"NEW and longer");
    assert_eq!(sim.unsynced_count(), 0);
}

#[test]
fn all_keeps_everything() {
    let (sim, file) = with_file(1, b"old");
    file.write_at(b"new", 1).unwrap();
    create(&sim, "/b").write_at(b"b", 0).unwrap();
    rename(&sim, "/b", "/c");
    sim.power_crash(CrashProfile::All);
    assert_eq!((sim.read_file("/a").unwrap(), sim.read_file("/c").unwrap()), (b"onew".to_vec(), b"b".to_vec()));
    assert_eq!(names(&sim, "/"), "a c");
}

#[test]
fn a_synced_file_without_a_synced_directory_has_no_name() {
    let sim = SimEnv::new(1);
    let file = create(&sim, "/a");
    file.write_at(b"data", 0).unwrap();
    file.sync().unwrap();
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(names(&sim, "/"), "");
}

#[test]
fn a_synced_directory_without_a_synced_file_has_an_empty_file() {
    let sim = SimEnv::new(1);
    create(&sim, "/a").write_at(b"data", 0).unwrap();
    sync_root(&sim);
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(names(&sim, "/"), "a");
    assert_eq!(sim.read_file("/a").unwrap(), b"");
}

#[test]
fn names_change_durably_when_their_directory_is_synced() {
    for synced in [false, true] {
        let (sim, _) = with_file(1, b"a");
        sim.write_file("/b", b"b").unwrap();
        sim.write_file("/c", b"c").unwrap();
        rename(&sim, "/a", "/b");
        fs(&sim).remove(Path::new("/c")).unwrap();
        fs(&sim).hard_link(Path::new("/b"), Path::new("/d")).unwrap();
        assert_eq!(names(&sim, "/"), "b d");
        if synced {
            sync_root(&sim);
        }
        sim.power_crash(CrashProfile::Strict);
        assert_eq!(names(&sim, "/"), if synced { "b d" } else { "a b c" });
        let expected: &[u8] = if synced { b"a" } else { b"b" };
        assert_eq!(sim.read_file("/b").unwrap(), expected);
    }
}

#[test]
fn a_file_that_was_created_renamed_and_never_synced_leaves_no_trace() {
    let sim = SimEnv::new(1);
    create(&sim, "/a.tmp").sync().unwrap();
    rename(&sim, "/a.tmp", "/a");
    let fork = sim.fork();
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(names(&sim, "/"), "");
    sync_root(&fork);
    fork.power_crash(CrashProfile::Strict);
    assert_eq!(names(&fork, "/"), "a");
}

#[test]
fn directories_are_durable_when_create_dir_all_returns() {
    let sim = SimEnv::new(1);
    fs(&sim).create_dir_all(Path::new("/a/b/c")).unwrap();
    create(&sim, "/a/b/c/f");
    sim.power_crash(CrashProfile::Strict);
    assert_eq!((names(&sim, "/a/b"), names(&sim, "/a/b/c")), ("c".into(), String::new()));
}

#[test]
fn the_halves_of_a_rename_between_directories_are_durable_apart() {
    let sim = SimEnv::new(1);
    fs(&sim).create_dir_all(Path::new("/d")).unwrap();
    sim.write_file("/a", b"a").unwrap();
    rename(&sim, "/a", "/d/b");
    fs(&sim).sync_dir(Path::new("/d")).unwrap();
    assert_eq!(names(&sim, "/"), "d");
    sim.power_crash(CrashProfile::Strict);
    assert_eq!((names(&sim, "/"), names(&sim, "/d")), ("a d".into(), "b".into()));
}

#[test]
fn a_durable_write_keeps_itself_and_not_the_writes_before_it() {
    let (sim, file) = with_file(1, b"................");
    file.write_at(b"AAAA", 0).unwrap();
    file.write_durable_at(b"BB", 2).unwrap();
    file.write_durable_at(b"end", 20).unwrap();
    let (all, strict) = (sim.fork(), sim.fork());
    all.power_crash(CrashProfile::All);
    assert_eq!(all.read_file("/a").unwrap(), b"AABB............\0\0\0\0end");
    strict.power_crash(CrashProfile::Strict);
    assert_eq!(strict.read_file("/a").unwrap(), b"..BB............\0\0\0\0end");
    for seed in 0..100 {
        let fork = sim.fork();
        fork.reseed(seed);
        fork.power_crash(CrashProfile::EVERY[usize::try_from(seed % 6).unwrap()]);
        let bytes = fork.read_file("/a").unwrap();
        assert_eq!((&bytes[2..4], &bytes[20..]), (&b"BB"[..], &b"end"[..]), "an older write came over a durable one");
    }
}

#[test]
fn metadata_only_keeps_lengths_and_names_without_data() {
    let (sim, file) = with_file(1, b"old");
    file.write_at(b"new data", 0).unwrap();
    rename(&sim, "/a", "/b");
    create(&sim, "/c").write_at(b"12345", 0).unwrap();
    sim.power_crash(CrashProfile::MetadataOnly);
    assert_eq!(sim.read_file("/b").unwrap(), b"old\0\0\0\0\0");
    assert_eq!(sim.read_file("/c").unwrap(), [0; 5]);
}

#[test]
fn prefix_keeps_what_was_done_before_one_moment() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (sim, a) = with_file(seed, b"");
        sim.write_file("/b", b"").unwrap();
        let b = open(&sim, "/b");
        for round in 0..4u8 {
            a.write_at(&[round], u64::from(round)).unwrap();
            b.write_at(&[round], u64::from(round)).unwrap();
        }
        sim.power_crash(CrashProfile::Prefix);
        let lens = (sim.read_file("/a").unwrap().len(), sim.read_file("/b").unwrap().len());
        assert!(lens.0 == lens.1 || lens.0 == lens.1 + 1, "{lens:?}");
        seen.insert(lens);
    }
    assert_eq!(seen.len(), 9, "each moment comes up");
}

#[test]
fn a_page_written_again_after_its_sync_keeps_its_old_bytes_and_any_sectors_of_the_new() {
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let (sim, file) = with_file(seed, &[b'o'; 4096]);
        // Into the middle of a sector, up to the middle of another.
        file.write_at(&[b'n'; 1500], 700).unwrap();
        sim.power_crash(CrashProfile::Random);
        let bytes = sim.read_file("/a").unwrap();
        let old = |range: Range<usize>| bytes[range].iter().all(|byte| *byte == b'o');
        assert!(bytes.len() == 4096 && old(0..700) && old(2200..4096), "seed {seed}");
        // Of each sector all of the new bytes or none.
        let fates = [700..1024, 1024..1536, 1536..2048, 2048..2200].map(|range| {
            let is_new = bytes[range.clone()].iter().all(|byte| *byte == b'n');
            assert!(is_new || old(range), "seed {seed}");
            is_new
        });
        seen.insert(fates);
    }
    assert_eq!(seen.len(), 16, "any sectors");
}

/// What became of a sector: 0 old, 1 new, 2 zeros, 3 garbage.
fn fates(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.chunks(512).map(|sector| match sector {
        _ if sector.iter().all(|byte| *byte == b'o') => 0,
        _ if sector.iter().all(|byte| *byte == b'n') => 1,
        _ if sector.iter().all(|byte| *byte == 0) => 2,
        _ => 3,
    })
}

#[test]
fn random_tears_writes_by_sectors_and_spares_durable_ones_from_garbage() {
    for (profile, old_fates) in [(CrashProfile::Random, &[0, 1][..]), (CrashProfile::Hostile, &[0, 1, 2, 3][..])] {
        let (mut over_old, mut past_end, mut lens) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for seed in 0..300 {
            let (sim, file) = with_file(seed, &[b'o'; 4096]);
            file.write_at(&[b'n'; 8192], 0).unwrap();
            sim.power_crash(profile);
            let bytes = sim.read_file("/a").unwrap();
            lens.insert(bytes.len());
            over_old.extend(fates(&bytes[..4096]));
            past_end.extend(fates(&bytes[4096..]));
        }
        assert!(over_old.iter().eq(old_fates), "{profile:?} {over_old:?}");
        assert!(past_end.iter().eq(&[1, 2, 3]), "{profile:?} {past_end:?}");
        assert!(lens.contains(&4096) && lens.contains(&8192) && lens.len() > 3, "{lens:?}");
    }
}

#[test]
fn random_lets_names_and_data_survive_independently() {
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let (sim, file) = with_file(seed, b"");
        file.write_at(b"x", 0).unwrap();
        create(&sim, "/b");
        rename(&sim, "/a", "/c");
        sim.power_crash(CrashProfile::Random);
        let name = if names(&sim, "/").contains('c') { "/c" } else { "/a" };
        seen.insert((names(&sim, "/"), sim.read_file(name).unwrap() == b"x"));
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}

/// Does a bit of everything, as the seed says, and gives the disk after a crash.
fn history(seed: u64, profile: CrashProfile) -> Vec<(String, Vec<u8>)> {
    let sim = SimEnv::new(seed);
    let random = sim.env().random;
    let mut files = (0..5).map(|index| create(&sim, &format!("/f{index}"))).collect::<Vec<_>>();
    for round in 0..200u32 {
        let index = usize::try_from(random.next() % 5).unwrap();
        let bytes = round.to_le_bytes().repeat(usize::try_from(random.next() % 1000).unwrap());
        match random.next() % 12 {
            0 => files[index].sync().unwrap(),
            1 => sync_root(&sim),
            2 => files[index].write_durable_at(&bytes, random.next() % 10_000).unwrap(),
            3 => files[index].set_len(random.next() % 10_000).unwrap(),
            4 => rename(&sim, &format!("/f{index}"), &format!("/f{}", random.next() % 5)),
            _ => files[index].write_at(&bytes, random.next() % 10_000).unwrap(),
        }
        if sim.read_file(format!("/f{index}")).is_err() {
            files[index] = create(&sim, &format!("/f{index}"));
        }
    }
    sim.power_crash(profile);
    let entries = fs(&sim).list(Path::new("/")).unwrap();
    entries.into_iter().map(|entry| (entry.name.clone(), sim.read_file(entry.name).unwrap())).collect()
}

#[test]
fn the_same_seed_leaves_the_same_disk() {
    for profile in CrashProfile::EVERY {
        for seed in 0..20 {
            assert!(history(seed, profile) == history(seed, profile), "{profile:?} seed {seed}");
        }
    }
    assert!(history(1, CrashProfile::Random) != history(2, CrashProfile::Random));
}

#[test]
fn a_crash_kills_what_the_process_had() {
    let (sim, file) = with_file(1, b"old");
    let old = sim.env();
    let lock = old.fs.lock(Path::new("/LOCK")).unwrap();
    file.write_at(b"new", 0).unwrap();
    sim.process_crash();
    assert_eq!(sim.read_file("/a").unwrap(), b"new", "the page cache outlives the process");
    file.write_at(b"late", 0).unwrap_err();
    file.sync().unwrap_err();
    file.len().unwrap_err();
    file.read_at(&mut [0], 0).unwrap_err();
    old.fs.remove(Path::new("/a")).unwrap_err();
    let again = fs(&sim).lock(Path::new("/LOCK")).unwrap();
    drop(lock);
    assert_eq!(fs(&sim).lock(Path::new("/LOCK")).unwrap_err().kind(), ErrorKind::WouldBlock, "a dead lock unlocked");
    drop(again);
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(sim.read_file("/a").unwrap(), b"old", "the page cache does not outlive the machine");
}

#[test]
fn an_unlinked_file_can_still_be_used_and_synced() {
    let (sim, file) = with_file(1, b"old");
    fs(&sim).remove(Path::new("/a")).unwrap();
    sync_root(&sim);
    file.write_at(b"new", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), 3);
    sim.power_crash(CrashProfile::All);
    assert_eq!(names(&sim, "/"), "");
}

#[test]
fn a_removal_that_was_not_durable_brings_the_file_back_with_its_data() {
    let (sim, file) = with_file(1, b"old");
    drop(file);
    fs(&sim).remove(Path::new("/a")).unwrap();
    drop(create(&sim, "/b"));
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(sim.read_file("/a").unwrap(), b"old");
}

#[test]
fn the_machine_stops_at_the_wanted_change() {
    let (sim, file) = with_file(1, b"old");
    sim.crash_at(sim.write_and_sync_count() + 2);
    file.write_at(b"1", 0).unwrap();
    file.read_at(&mut [0; 3], 0).unwrap();
    file.sync().unwrap();
    assert!(!sim.is_down());
    file.write_at(b"2", 1).unwrap_err();
    assert!(sim.is_down());
    file.read_at(&mut [0; 3], 0).unwrap_err();
    file.sync().unwrap_err();
    fs(&sim).list(Path::new("/")).unwrap_err();
    let fork = sim.fork();
    fork.power_crash(CrashProfile::All);
    assert_eq!(fork.read_file("/a").unwrap(), b"12d", "the write that was begun may survive");
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(sim.read_file("/a").unwrap(), b"1ld");
    open(&sim, "/a").write_at(b"3", 0).unwrap();
}

#[test]
fn a_sync_cut_short_keeps_a_part() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let (sim, file) = with_file(seed, b"ab");
        file.write_at(b"1", 0).unwrap();
        file.write_at(b"2", 1).unwrap();
        sim.crash_at(0);
        file.sync().unwrap_err();
        sim.power_crash(CrashProfile::Strict);
        seen.insert(String::from_utf8(sim.read_file("/a").unwrap()).unwrap());
    }
    assert!(seen.iter().eq(["12", "1b", "a2", "ab"]), "{seen:?}");
}

#[test]
fn a_fault_strikes_the_operation_it_was_planned_for() {
    let (sim, file) = with_file(1, b"old");
    sim.fail_at(sim.op_count() + 1, Fault::Error(ErrorKind::TimedOut));
    file.write_at(b"1", 0).unwrap();
    assert_eq!(file.read_at(&mut [0], 0).unwrap_err().kind(), ErrorKind::TimedOut);
    file.write_at(b"2", 1).unwrap();
    sim.fail_from(sim.op_count(), Fault::NoSpace);
    assert_eq!(file.write_at(b"3", 2).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::StorageFull);
    // What needs no space is done on a full disk.
    fs(&sim).remove(Path::new("/a")).unwrap();
    sim.clear_faults();
    file.sync().unwrap();
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(sim.read_file("/a").unwrap(), b"12d");
}

#[test]
fn a_fault_that_lasts_strikes_what_it_can() {
    let (sim, file) = with_file(1, b"old");
    sim.fail_from(sim.op_count(), Fault::TooManyFiles);
    assert!(fs(&sim).open(Path::new("/a"), READ).unwrap_err().to_string().contains("Too many open files"));
    file.write_at(b"new", 0).unwrap();
    fs(&sim).list(Path::new("/")).unwrap_err();
    assert_eq!(sim.struck(), Some((Call::Open, "/a".into())));
}

#[test]
fn a_write_may_be_lost_or_go_elsewhere_and_a_read_be_wrong_and_nobody_is_told() {
    let (sim, file) = with_file(1, b"old.....");
    let any = |_: &Path| true;
    sim.fail_next(Fault::LostWrite, any);
    file.write_at(b"lost", 0).unwrap();
    sim.fail_next(Fault::MisdirectedWrite, |path| path == Path::new("/a"));
    file.write_at(b"new", 0).unwrap();
    assert_eq!(sim.read_file("/a").unwrap(), b"oldnew..");
    let mut read = [0; 8];
    sim.fail_next(Fault::FlippedRead, any);
    file.read_at(&mut read, 0).unwrap();
    let flipped: u32 = read.iter().zip(b"oldnew..").map(|(read, right)| (read ^ right).count_ones()).sum();
    assert_eq!(flipped, 1);
    sim.fail_next(Fault::StaleRead, any);
    file.write_at(b"12", 3).unwrap();
    file.read_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"oldnew..");
    file.read_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"old12w..");
}

#[test]
fn equal_calls_have_equal_traces_and_other_ones_do_not() {
    let trace = |bytes: &[u8]| {
        let sim = SimEnv::new(1);
        sim.begin_trace();
        let file = create(&sim, "/a");
        file.write_at(bytes, 0).unwrap();
        file.read_at(&mut [0; 4], 0).unwrap();
        sim.end_trace()
    };
    let calls = [Call::Create, Call::Write, Call::Read].map(|call| (call, "/a".into()));
    assert_eq!(trace(b"same").calls, calls);
    assert_eq!(trace(b"same").hash, trace(b"same").hash);
    assert_ne!(trace(b"same").hash, trace(b"Same").hash);
}

#[test]
fn a_short_write_writes_half() {
    let (sim, file) = with_file(1, b"........");
    sim.fail_at(sim.op_count(), Fault::ShortWrite);
    file.write_at(b"12345678", 0).unwrap_err();
    assert_eq!(sim.read_file("/a").unwrap(), b"1234....");
}

#[test]
fn a_lost_sync_shows_data_that_no_later_sync_makes_durable() {
    let (sim, file) = with_file(1, b"old");
    file.write_at(b"new", 0).unwrap();
    sim.fail_at(sim.op_count(), Fault::SyncLost);
    file.sync().unwrap_err();
    sim.fail_at(sim.op_count(), Fault::SyncLost);
    file.write_durable_at(b"er", 3).unwrap_err();
    create(&sim, "/b");
    sim.fail_at(sim.op_count(), Fault::SyncLost);
    fs(&sim).sync_dir(Path::new("/")).unwrap_err();
    assert_eq!(sim.read_file("/a").unwrap(), b"newer");
    assert_eq!(names(&sim, "/"), "a b");
    file.sync().unwrap();
    sync_root(&sim);
    sim.power_crash(CrashProfile::All);
    assert_eq!(sim.read_file("/a").unwrap(), b"old");
    assert_eq!(names(&sim, "/"), "a");
}

#[test]
fn a_full_disk_takes_what_fits_until_space_is_freed() {
    let (sim, file) = with_file(1, &[1; 4096]);
    sim.set_space(3 * 4096);
    assert_eq!(fs(&sim).free_bytes(Path::new("/")).unwrap(), 8192);
    assert_eq!(file.allocate(1 << 40).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_at(&[2; 16_384], 4096).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 3 * 4096);
    file.write_at(&[3; 4096], 0).unwrap();
    let other = fs(&sim).open(Path::new("/b"), BUFFERED);
    assert_eq!(other.unwrap_err().kind(), ErrorKind::StorageFull);
    file.punch_hole(0, 4096).unwrap();
    create(&sim, "/b").write_at(b"b", 0).unwrap();
    drop(file);
    fs(&sim).remove(Path::new("/a")).unwrap();
    assert_eq!(fs(&sim).free_bytes(Path::new("/")).unwrap(), 8192);
    sim.set_space(u64::MAX);
    open(&sim, "/b").write_at(&[4; 65_536], 0).unwrap();
}

#[test]
fn corruption_is_on_the_disk_and_in_the_cache() {
    let (sim, file) = with_file(1, b"abc");
    sim.corrupt("/a", 1, 0x20).unwrap();
    assert_eq!(sim.read_file("/a").unwrap(), b"aBc");
    assert_eq!(sim.corrupt("/a", 3, 1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(sim.corrupt("/b", 3, 1).unwrap_err().kind(), ErrorKind::NotFound);
    sim.truncate("/a", 2).unwrap();
    assert_eq!(file.len().unwrap(), 2);
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(sim.read_file("/a").unwrap(), b"aB");
    sim.remove_file("/a").unwrap();
    sim.power_crash(CrashProfile::Strict);
    assert_eq!(names(&sim, "/"), "");
}

#[test]
fn a_fork_goes_its_own_way() {
    let (sim, file) = with_file(1, b"old");
    file.write_at(b"mid", 0).unwrap();
    let fork = sim.fork();
    assert_eq!(fork.write_and_sync_count(), sim.write_and_sync_count());
    file.write_at(b"new", 0).unwrap();
    file.sync().unwrap();
    open(&fork, "/a").write_at(b"F", 0).unwrap();
    assert_eq!(sim.read_file("/a").unwrap(), b"new");
    assert_eq!(fork.read_file("/a").unwrap(), b"Fid");
    fork.power_crash(CrashProfile::Strict);
    assert_eq!(fork.read_file("/a").unwrap(), b"old");
}

#[test]
fn one_run_can_be_crashed_at_each_point() {
    let (sim, file) = with_file(1, b"");
    let acknowledged = Arc::new(AtomicU64::new(0));
    let points = Arc::new(Mutex::new(Vec::new()));
    let (promise, out) = (Arc::clone(&acknowledged), Arc::clone(&points));
    sim.observe(Some(Box::new(move |fork| {
        fork.power_crash(CrashProfile::Random);
        let bytes = fork.read_file("/a").unwrap();
        let promised = usize::try_from(promise.load(Ordering::Relaxed)).unwrap();
        assert!(bytes.len() >= promised && bytes[..promised].iter().all(|byte| *byte == 7));
        out.lock().push(fork.write_and_sync_count());
    })));
    for commit in 0..10_000 {
        file.write_at(&[7], commit).unwrap();
        file.sync().unwrap();
        acknowledged.store(commit + 1, Ordering::Relaxed);
    }
    sim.observe(None);
    assert!(points.lock().iter().copied().eq(0..20_000));
}

#[test]
#[should_panic(expected = "not aligned")]
fn direct_io_that_is_not_aligned_panics() {
    let sim = SimEnv::new(1);
    let file = fs(&sim).open(Path::new("/a"), OpenOptions { direct: true, ..BUFFERED }).unwrap();
    let buffer = AlignedBuffer::zeroed(8192);
    file.write_at(&buffer, 0).unwrap();
    // The panic that is expected is the next write's.
    drop(file.write_at(&buffer[512..4608], 0));
}

#[test]
fn direct_io_can_be_refused() {
    let sim = SimEnv::new(1);
    sim.set_direct(false);
    let file = fs(&sim).open(Path::new("/a"), OpenOptions { direct: true, ..BUFFERED }).unwrap();
    assert_eq!(file.alignment(), 1);
    file.write_at(b"abc", 1).unwrap();
}

#[test]
fn time_passes_only_when_it_is_moved() {
    let sim = SimEnv::new(1);
    let env = sim.env();
    let (start, wall) = (env.clock.now(), env.clock.wall());
    sim.advance(Duration::from_secs(5));
    let passed = env.clock.now() - start;
    assert!(passed > Duration::from_secs(5) && passed < Duration::from_secs(6));
    assert!(env.clock.wall() - wall < Duration::from_secs(6));
    assert!(!env.threads.concurrent());
}

#[test]
fn work_is_done_when_wake_returns_and_timed_work_when_its_time_has_come() {
    let sim = SimEnv::new(1);
    let threads = sim.env().threads;
    let count = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&count);
    let work = move || match theirs.fetch_add(1, Ordering::Relaxed) {
        0..10 => Next::Again,
        _ => Next::WaitAtMost(Duration::from_secs(1)),
    };
    let worker = threads.worker("test", Box::new(work)).unwrap();
    let calls = || count.load(Ordering::Relaxed);
    assert_eq!(calls(), 11, "it runs at once, until it waits");
    worker.wake();
    assert_eq!(calls(), 12);
    sim.advance(Duration::from_millis(500));
    assert_eq!(calls(), 12);
    threads.sleep(Duration::from_millis(500));
    assert_eq!(calls(), 13);
    sim.fork().advance(Duration::from_secs(9));
    assert_eq!(calls(), 13, "a fork has no workers");
    drop(worker);
    sim.advance(Duration::from_secs(9));
    assert_eq!(calls(), 13);
}

#[test]
fn lazy_work_is_done_a_step_at_a_time_when_it_is_asked_for() {
    let sim = SimEnv::new(1);
    sim.set_lazy_workers(true);
    let count = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&count);
    let step = move || if seen.fetch_add(1, Ordering::Relaxed) < 2 { Next::Again } else { Next::Wait };
    let worker = sim.env().threads.worker("work", Box::new(step)).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert!((0..3).all(|choice| sim.work(choice)));
    assert_eq!((sim.work(0), count.load(Ordering::Relaxed)), (false, 3));
    worker.wake();
    assert!(sim.work(7) && !sim.work(7));
    worker.wake();
    drop(worker);
    assert!(!sim.work(0));
}

#[test]
fn what_the_work_owned_is_dropped_when_it_is_stopped() {
    let sim = SimEnv::new(1);
    let owned = Arc::new(());
    let inside = Arc::clone(&owned);
    let worker = sim.env().threads.worker(
        "test",
        Box::new(move || {
            let _kept = &inside;
            Next::Wait
        }),
    );
    worker.unwrap().stop();
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn paths_may_be_relative_and_go_up() -> io::Result<()> {
    let sim = SimEnv::new(1);
    fs(&sim).create_dir_all(Path::new("a/b"))?;
    sim.write_file("a/./b/../c", b"c")?;
    assert_eq!(sim.read_file("/a/c")?, b"c");
    assert_eq!(names(&sim, "a/b/.."), "b c");
    Ok(())
}

#[test]
fn a_call_waits_while_another_thread_uses_the_machine() {
    let sim = SimEnv::new(1);
    let (env, machine) = (sim.env(), sim.clone());
    let mut met = Vec::new();
    let (send, receive) = std::sync::mpsc::channel();
    sim.interrupt(Some(Box::new(move |call, path| {
        let names = std::thread::scope(|scope| {
            scope.spawn(|| machine.env().fs.list("/".as_ref()).unwrap().len()).join().unwrap()
        });
        send.send((call, path.to_owned(), names)).unwrap();
    })));
    let file = env.fs.open("/a".as_ref(), OpenOptions { access: Access::CreateNew, direct: false }).unwrap();
    file.write_at(b"x", 0).unwrap();
    sim.interrupt(None);
    file.sync().unwrap();
    met.extend(receive.iter());
    assert_eq!(met, [(Call::Open, "/a".into(), 0), (Call::Write, "/a".into(), 1)]);
}
