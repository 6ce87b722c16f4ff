//! Tests of the manifest: what was recorded is read back, and damage is told apart from a torn end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::checksum::checksum;
use crate::base::codec::Decoder;
use crate::base::{ErrorKind, FileId, Lsn, SeqNum, TableId};
use crate::env::Env;
use crate::env::sim::{Fault, SimEnv};
use crate::tree::Limits;
use crate::tree::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::tree::run::{Reference, RunMeta};

use super::catalog::Catalog;
use super::codec::Stored;
use super::edit::Edit;
use super::files::{self, FileKind};
use super::manifest::{LoadedManifest, Manifest};
use super::record::RunRecord;
use super::seqnum_to_time::{SeqnumToTime, TimeSample};
use super::{Layout, LevelId, TableOptions};

const DIR: &str = "/db";

fn run(id: u64, key: &[u8]) -> RunRecord {
    let references =
        vec![Reference { file: FileId(id + 100), bytes: 9 }, Reference { file: FileId(id + 200), bytes: 1 }];
    let meta = RunMeta { entries: 1, smallest: key.to_vec(), largest: key.to_vec(), references, ..RunMeta::default() };
    RunRecord { id: FileId(id), meta }
}

/// Range tombstones from a key to another, or to the last, with their seqnums.
fn range_tombstones(range_tombstones: &[(&str, &str, u64)]) -> Arc<RangeTombstones> {
    let range_tombstone = |(low, high, seqnum): &(&str, &str, u64)| RangeTombstone {
        range: Limits::new(
            low.as_bytes().to_vec(),
            Some(high.as_bytes().to_vec()).filter(|high| !high.is_empty()),
            None,
        ),
        seqnum: SeqNum(*seqnum),
    };
    Arc::new(range_tombstones.iter().map(range_tombstone).collect())
}

fn mark(seqnum: u64, at_ms: u64, ahead_ms: u64) -> TimeSample {
    TimeSample { seqnum: SeqNum(seqnum), at_ms, ahead_ms }
}

/// SeqnumToTime of seqnum and time.
fn seqnum_to_time(seqnum_to_time: &[(u64, u64)]) -> SeqnumToTime {
    let mark = |(seqnum, at_ms): &(u64, u64)| mark(*seqnum, *at_ms, 0);
    SeqnumToTime::new(seqnum_to_time.iter().map(mark).collect()).unwrap()
}

fn edits() -> Vec<Edit> {
    let named = |name: &str| Some(name.to_owned());
    let (merge, compaction_filter) = (named("add"), named("drop-sessions"));
    let options = TableOptions { layout: Layout::BTree, merge, compaction_filter, ..TableOptions::default() };
    let create = |id, name: &str, tree| Edit::CreateTable {
        id: TableId(id),
        name: name.to_owned(),
        options: options.clone(),
        replay_from: Lsn(77),
        tree,
    };
    vec![
        create(1, "orders", Some(FileId(9))),
        Edit::Opened { seqnum_floor: SeqNum(1 << 40), log_from: Lsn(80) },
        create(2, "lines", Some(FileId(10))),
        Edit::Flush {
            table: TableId(1),
            replay_from: Lsn(100),
            log_from: Lsn(90),
            run: None,
            tree: Some(Default::default()),
            range_tombstones: range_tombstones(&[("b", "d", 40), ("c", "", 41)]),
        },
        Edit::Load {
            table: TableId(1),
            replay_from: Lsn(110),
            runs: vec![(LevelId::Level(6), run(20, b"a")), (LevelId::L0, run(21, b"c"))],
        },
        Edit::Load { table: TableId(1), replay_from: Lsn(120), runs: vec![(LevelId::L0, run(22, b"b"))] },
        Edit::BTreeMerge {
            table: TableId(1),
            replay_from: Lsn(130),
            log_from: Lsn(92),
            removed: vec![FileId(22), FileId(20), FileId(21)],
            tree: Default::default(),
            range_tombstones: range_tombstones(&[("", "c", 45)]),
        },
        Edit::RangeDelete { table: TableId(1), range_tombstones: range_tombstones(&[("", "a", 45)]) },
        Edit::CreateTable {
            id: TableId(3),
            name: "sessions".to_owned(),
            options: TableOptions { time_to_live: Some(Duration::from_secs(3600)), ..TableOptions::default() },
            replay_from: Lsn(131),
            tree: None,
        },
        Edit::Expire {
            table: TableId(3),
            seqnum_to_time: seqnum_to_time(&[(50, 1), (60, 1), (61, 9)]),
            range_tombstones: range_tombstones(&[("", "", 50)]),
        },
        Edit::DropTable { id: TableId(2), log_from: Lsn(95) },
        Edit::Many(vec![create(4, "a", Some(FileId(30))), create(5, "b", None)]),
    ]
}

/// On a full disk what is reserved behind the manifest is for edits that free space: it is not used up by others.
#[test]
fn edits_that_only_take_space_give_none_back() {
    let options = TableOptions::default();
    let create = Edit::CreateTable { id: TableId(1), name: "t".to_owned(), options, replay_from: Lsn(1), tree: None };
    let load = Edit::Load { table: TableId(1), replay_from: Lsn(1), runs: Vec::new() };
    let gone = Edit::DropTable { id: TableId(2), log_from: Lsn(1) };
    for (edits, gives_back) in [
        (vec![&gone, &gone], true),
        (vec![&create], false),
        (vec![&create, &create], false),
        (vec![&gone, &load], false),
        (vec![&create, &gone], false),
    ] {
        assert_eq!(edits.iter().all(|edit| edit.gives_back()), gives_back);
        assert_eq!(Edit::Many(edits.into_iter().cloned().collect()).gives_back(), gives_back);
    }
}

/// A manifest of several edits, and the catalog after each of them.
fn written(env: &Env) -> Vec<Catalog> {
    let dir = Path::new(DIR);
    env.fs.create_dir_all(dir).unwrap();
    let mut catalog = Catalog { database_id: 42, next_table: TableId(1), next_file: FileId(3), ..Catalog::default() };
    let mut manifest = Manifest::create(env, dir, FileId(2), &catalog).unwrap();
    let mut states = vec![catalog.clone()];
    for edit in edits() {
        manifest.append(&edit).unwrap();
        catalog.apply(&edit).unwrap();
        states.push(catalog.clone());
    }
    states
}

fn path() -> PathBuf {
    FileKind::Manifest.path(Path::new(DIR), FileId(2))
}

fn copy_path() -> PathBuf {
    FileKind::ManifestCopy.path(Path::new(DIR), FileId(2))
}

#[test]
fn a_manifest_reads_back_as_it_was_recorded() {
    let sim = SimEnv::new(1);
    let states = written(&sim.env());
    let (catalog, id) = Manifest::load(&sim.env(), Path::new(DIR)).unwrap().unwrap();
    assert_eq!((&catalog, id), (states.last().unwrap(), FileId(2)));
    assert_eq!(catalog.log_from, Lsn(95));
}

#[test]
fn no_current_is_no_database() {
    let sim = SimEnv::new(1);
    sim.env().fs.create_dir_all(Path::new(DIR)).unwrap();
    assert_eq!(Manifest::load(&sim.env(), Path::new(DIR)).unwrap(), None);
}

#[test]
fn a_manifest_cut_anywhere_is_an_earlier_state_or_an_error() {
    for has_copy in [false, true] {
        let whole = SimEnv::new(1);
        let states = written(&whole.env());
        Manifest::give_reserve_back(&whole.env(), Path::new(DIR), FileId(2)).unwrap();
        let bytes = whole.read_file(path()).unwrap().len();
        for cut in 0..bytes {
            let sim = whole.fork();
            sim.truncate(path(), cut as u64).unwrap();
            if !has_copy {
                sim.remove_file(copy_path()).unwrap();
            }
            match Manifest::load(&sim.env(), Path::new(DIR)) {
                Ok(loaded) => assert!(!has_copy && states.contains(&loaded.unwrap().0), "cut at {cut}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "cut at {cut}"),
            }
            if has_copy {
                let LoadedManifest { catalog, damage, .. } =
                    Manifest::load_damaged(&sim.env(), Path::new(DIR)).unwrap().unwrap();
                assert_eq!(Some(&catalog), states.last(), "cut at {cut}: the copy has it all");
                assert!(damage.is_some_and(|damage| !damage.is_mended), "the copy does not prove that it has it all");
            }
        }
    }
}

#[test]
fn a_flipped_bit_is_corruption_unless_it_is_in_the_last_record() {
    for has_copy in [false, true] {
        let whole = SimEnv::new(1);
        let states = written(&whole.env());
        let reserved = whole.read_file(path()).unwrap().len() as u64;
        Manifest::give_reserve_back(&whole.env(), Path::new(DIR), FileId(2)).unwrap();
        assert!(whole.read_file(path()).unwrap().len() as u64 + (32 << 10) <= reserved);
        if !has_copy {
            whole.remove_file(copy_path()).unwrap();
        }
        let bytes = whole.read_file(path()).unwrap().len();
        for at in 0..bytes {
            let sim = whole.fork();
            sim.corrupt(path(), at as u64, 0x10).unwrap();
            match Manifest::load(&sim.env(), Path::new(DIR)) {
                // The last record may be a write that a crash tore: nothing but the copy proves that it was complete.
                Ok(loaded) => {
                    assert!(!has_copy && loaded.unwrap().0 == states[states.len() - 2], "flip at {at}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "flip at {at}: {error}"),
            }
            if has_copy {
                let loaded = Manifest::load_damaged(&sim.env(), Path::new(DIR)).unwrap().unwrap();
                assert_eq!(Some(&loaded.catalog), states.last(), "flip at {at}");
                assert!(loaded.damage.unwrap().is_mended, "flip at {at}");
            }
        }
    }
}

/// Behind a damaged record every offset may be the start of a sound one. At a quarter of them stands what may be a
/// length of 262,144 bytes here: to check each of these is a matter of 275 GB, and it was done.
#[test]
fn behind_a_damaged_record_the_search_for_a_sound_one_checks_next_to_nothing() {
    const RECORD_BYTES: usize = 4 << 20;
    let whole = SimEnv::new(1);
    let states = written(&whole.env());
    Manifest::give_reserve_back(&whole.env(), Path::new(DIR), FileId(2)).unwrap();
    whole.remove_file(copy_path()).unwrap();
    let (mut bytes, records_end) = (whole.read_file(path()).unwrap(), whole.read_file(path()).unwrap().len());
    bytes.extend((0..RECORD_BYTES / 4).flat_map(|_| 1024_u32.to_le_bytes()));
    let load = |bytes: &[u8]| {
        let sim = whole.fork();
        sim.write_file(path(), bytes).unwrap();
        Manifest::load(&sim.env(), Path::new(DIR))
    };
    assert_eq!(&load(&bytes).unwrap().unwrap().0, states.last().unwrap(), "a torn record ends the manifest");
    bytes[records_end - 1] ^= 1;
    assert_eq!(&load(&bytes).unwrap().unwrap().0, &states[states.len() - 2], "no sound record is behind it");
}

#[test]
fn damage_to_the_file_that_names_the_manifest_or_to_the_copy_loses_nothing() {
    let whole = SimEnv::new(1);
    let states = written(&whole.env());
    let dir = Path::new(DIR);
    let current = dir.join(files::CURRENT);
    let check = |sim: &SimEnv, what: &str| {
        let error = Manifest::load(&sim.env(), dir).map(|loaded| loaded.map(|_| ()));
        assert!(!matches!(error, Ok(Some(()))), "{what}");
        let loaded = Manifest::load_damaged(&sim.env(), dir).unwrap().unwrap();
        assert_eq!(Some(&loaded.catalog), states.last(), "{what}");
        assert!(loaded.damage.unwrap().is_mended, "{what}");
    };
    for at in 0..whole.read_file(&current).unwrap().len() {
        for bits in [1, 2, 0x10, 0x80] {
            let sim = whole.fork();
            sim.corrupt(&current, at as u64, bits).unwrap();
            let error = Manifest::load(&sim.env(), dir).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            check(&sim, &format!("flip at {at}"));
        }
    }
    let sim = whole.fork();
    sim.remove_file(&current).unwrap();
    check(&sim, "no CURRENT");
    for at in 0..whole.read_file(copy_path()).unwrap().len() {
        let sim = whole.fork();
        sim.corrupt(copy_path(), at as u64, 0x10).unwrap();
        assert_eq!(Manifest::load(&sim.env(), dir).unwrap().unwrap().0, *states.last().unwrap());
        assert!(Manifest::load_damaged(&sim.env(), dir).unwrap().unwrap().damage.is_none());
    }
}

#[test]
fn a_manifest_whose_copy_cannot_be_written_goes_on_without() {
    for at in 0..20 {
        let sim = SimEnv::new(1);
        let (env, dir) = (sim.env(), Path::new(DIR));
        env.fs.create_dir_all(dir).unwrap();
        let catalog = Catalog { database_id: 42, next_file: FileId(3), ..Catalog::default() };
        sim.fail_at(sim.op_count() + at, Fault::NoSpace);
        let Ok(mut manifest) = Manifest::create(&env, dir, FileId(2), &catalog) else { continue };
        if manifest.append(&edits()[0]).is_err() {
            continue;
        }
        sim.clear_faults();
        let mut expected = catalog.clone();
        expected.apply(&edits()[0]).unwrap();
        assert_eq!(Manifest::load(&env, dir).unwrap().unwrap().0, expected, "failure of operation {at}");
        assert_eq!(
            manifest.has_copy(),
            sim.read_file(copy_path()).is_ok_and(|copy| {
                let bytes = sim.read_file(path()).unwrap();
                // Zeros may follow in the manifest, which are room.
                bytes.starts_with(&copy) && bytes[copy.len()..].iter().all(|byte| *byte == 0)
            })
        );
    }
}

#[test]
fn another_format_is_unsupported() {
    let sim = SimEnv::new(1);
    written(&sim.env());
    for (version, what) in [(1, "older"), (3, "newer")] {
        let lines = format!("spinney {version}\n000002.manifest");
        let current = format!("{lines}\n{:016x}\n", checksum(0, 0, lines.as_bytes()));
        sim.write_file(Path::new(DIR).join(files::CURRENT), current.as_bytes()).unwrap();
        let error = Manifest::load(&sim.env(), Path::new(DIR)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(what), "{error}");
    }
    let sim = SimEnv::new(1);
    written(&sim.env());
    let mut bytes = sim.read_file(path()).unwrap();
    bytes[8] ^= 1;
    sim.write_file(path(), &bytes).unwrap();
    let error = Manifest::load(&sim.env(), Path::new(DIR)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "a flipped bit is damage: {error}");
    let sum = checksum(0, 0, &bytes[..24]).to_le_bytes();
    bytes[24..32].copy_from_slice(&sum);
    sim.write_file(path(), &bytes).unwrap();
    let error = Manifest::load(&sim.env(), Path::new(DIR)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn an_edit_that_does_not_fit_is_refused() {
    let mut catalog = Catalog::default();
    assert!(catalog.apply(&Edit::DropTable { id: TableId(7), log_from: Lsn(0) }).is_err());
    assert!(catalog.apply(&edits()[0]).is_ok());
    assert!(catalog.apply(&edits()[0]).is_err(), "a table is created once");
    let compact = Edit::Compact { table: TableId(1), removed: vec![FileId(5)], added: Vec::new() };
    assert!(catalog.apply(&compact).is_err(), "only runs that are there are replaced");
    let expire =
        Edit::Expire { table: TableId(1), seqnum_to_time: seqnum_to_time(&[(1, 1)]), range_tombstones: Arc::default() };
    assert!(catalog.apply(&expire).is_err(), "the table's entries live for ever");
    assert!(SeqnumToTime::new(vec![mark(2, 2, 0), mark(3, 1, 0)]).is_none());
    assert!(SeqnumToTime::new(vec![mark(2, 2, 9), mark(3, 2, 8)]).is_none());
    assert!(SeqnumToTime::new(vec![mark(2, 2, 9), mark(3, 3, 8)]).is_some());
}

/// Compactions count on it, and a worker that finds it otherwise ended the process.
#[test]
fn runs_of_a_level_with_a_key_in_common_are_refused() {
    use crate::base::codec::Decoder;
    let to = |id, smallest: &[u8], largest: &[u8]| {
        let mut run = run(id, largest);
        run.meta.smallest = smallest.to_vec();
        run
    };
    let mut catalog = Catalog::default();
    catalog.apply(&edits()[0]).unwrap();
    let table = TableId(1);
    let load = |id, smallest: &[u8], largest: &[u8]| Edit::Load {
        table,
        replay_from: Lsn(1),
        runs: vec![(LevelId::Level(2), to(id, smallest, largest))],
    };
    catalog.apply(&load(20, b"c", b"e")).unwrap();
    for (smallest, largest) in [(b"a", b"c"), (b"e", b"g"), (b"d", b"d"), (b"a", b"g")] {
        assert!(catalog.clone().apply(&load(21, smallest, largest)).is_err(), "{smallest:?} to {largest:?}");
    }
    catalog.apply(&load(22, b"f", b"g")).unwrap();
    catalog.apply(&load(23, b"a", b"b")).unwrap();
    let decoded = |catalog: &Catalog| {
        let mut bytes = Vec::new();
        catalog.encode(&mut bytes);
        Catalog::decode(&mut Decoder::new(&bytes)).map(|decoded| decoded == *catalog)
    };
    assert_eq!(decoded(&catalog), Ok(true));
    let runs = &mut catalog.tables.get_mut(&table).unwrap().levels[2];
    assert_eq!(runs.iter().map(|run| run.id.0).collect::<Vec<_>>(), [23, 20, 22]);
    runs[0].meta.largest = b"c".to_vec();
    assert!(decoded(&catalog).is_err());
}

#[test]
fn numbers_without_a_successor_are_refused() {
    use crate::base::codec::Decoder;
    let decoded = |catalog: &Catalog| {
        let mut bytes = Vec::new();
        catalog.encode(&mut bytes);
        Catalog::decode(&mut Decoder::new(&bytes)).is_ok()
    };
    assert!(decoded(&Catalog::default()));
    assert!(!decoded(&Catalog { seqnum_floor: SeqNum(u64::MAX), ..Catalog::default() }));
    assert!(!decoded(&Catalog { next_file: FileId(u64::MAX), ..Catalog::default() }));
    let mut catalog = Catalog::default();
    catalog.apply(&edits()[0]).unwrap();
    let mut refers_to = |file| {
        let mut run = run(3, b"k");
        run.meta.references = vec![Reference { file, bytes: 1 }];
        let (replay_from, log_from) = (Lsn(100), Lsn(90));
        let run = Some(run);
        catalog
            .apply(&Edit::Flush {
                table: TableId(1),
                replay_from,
                log_from,
                run,
                tree: None,
                range_tombstones: Arc::default(),
            })
            .unwrap();
        (catalog.next_file, decoded(&catalog))
    };
    assert_eq!(refers_to(FileId(50)), (FileId(51), true));
    assert!(!refers_to(FileId(u64::MAX)).1);
}

#[test]
fn references_of_a_run_that_make_no_sense_are_refused() {
    use crate::base::codec::Decoder;
    let decoded = |references: &[(u64, u64)]| {
        let mut meta = run(3, b"k").meta;
        meta.references =
            references.iter().map(|(file, bytes)| Reference { file: FileId(*file), bytes: *bytes }).collect();
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        (RunMeta::decode(&mut Decoder::new(&bytes)).ok() == Some(meta)).then_some(bytes)
    };
    assert!(decoded(&[(4, 1)]).is_some() && decoded(&[]).is_some());
    for references in [&[(4, 0)][..], &[(4, 1), (4, 1)], &[(5, 1), (4, 1)]] {
        assert!(decoded(references).is_none(), "{references:?}");
    }
    let bytes = decoded(&[(4, 1), (9, 1 << 40)]).unwrap();
    assert!((0..bytes.len()).all(|cut| RunMeta::decode(&mut Decoder::new(&bytes[..cut])).is_err()));
}

#[test]
fn runs_merged_within_l0_take_the_place_of_the_newest_of_them() {
    use super::LevelId;
    use super::record::RunRecord;
    use crate::base::codec::Decoder;
    let meta = RunMeta { entries: 1, ..RunMeta::default() };
    let run = |id| RunRecord { id: FileId(id), meta: meta.clone() };
    let mut catalog = Catalog::default();
    catalog.apply(&edits()[0]).unwrap();
    for id in 1..=4 {
        let run = Some(run(id));
        let (replay_from, log_from) = (Lsn(100), Lsn(90));
        catalog
            .apply(&Edit::Flush {
                table: TableId(1),
                replay_from,
                log_from,
                run,
                tree: None,
                range_tombstones: range_tombstones(&[]),
            })
            .unwrap();
    }
    let within = |removed: &[u64], added| Edit::Compact {
        table: TableId(1),
        removed: removed.iter().copied().map(FileId).collect(),
        added: vec![(added, run(9))],
    };
    let merge = within(&[2, 3], LevelId::L0);
    let mut bytes = Vec::new();
    merge.encode(&mut bytes);
    assert_eq!(Edit::decode(&mut Decoder::new(&bytes)).ok().unwrap(), merge);
    assert!(catalog.clone().apply(&within(&[], LevelId::L0)).is_err(), "it has no place");
    catalog.apply(&merge).unwrap();
    let ids: Vec<_> = catalog.tables[&TableId(1)].l0.iter().map(|run| run.id.0).collect();
    assert_eq!(ids, [4, 9, 1]);
    bytes.clear();
    within(&[2, 3], LevelId::Level(7)).encode(&mut bytes);
    assert!(Edit::decode(&mut Decoder::new(&bytes)).is_err(), "there is no such level");
}

/// A load was stored with one place for all of its runs.
#[test]
fn a_load_that_was_stored_with_one_place_is_read() {
    for (stored, place) in [(&[0][..], LevelId::L0), (&[1, 6], LevelId::Level(6))] {
        let runs = [run(20, b"a"), run(21, b"c")];
        let mut bytes = [&[7, 1, 110], stored].concat();
        runs.to_vec().put(&mut bytes);
        let runs = runs.into_iter().map(|run| (place, run)).collect();
        let load = Edit::Load { table: TableId(1), replay_from: Lsn(110), runs };
        assert_eq!(Edit::decode(&mut Decoder::new(&bytes)), Ok(load));
    }
}
