//! Tests of writing and reading files of blocks, buffered and direct.

use super::space::STRETCH_UNITS;
use super::{BlockFile, BlockWriter, ExtentWriter, SpaceMap, StoreStats};
use crate::base::ErrorKind;
use crate::base::num::{round_down, round_up, u64_of};
use crate::base::sync::Mutex;
use crate::base::{Entry, Kind, SeqNum};
use crate::block::{BlockBuilder, BlockKind, BlockPointer, Compression};
use crate::env::buffer::AlignedBuffer;
use crate::env::sim::{Fault, SimEnv};
use crate::env::{Access, Env, File, InFlight, OpenOptions, Transfer};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn image(number: u8, value_bytes: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(BlockKind::Leaf);
    builder.push(&Entry { key: &[number], seqnum: SeqNum(1), kind: Kind::Put, value: &vec![number; value_bytes] });
    builder.finish()
}

fn write(env: &Env, path: &str, direct: bool, stats: &Arc<StoreStats>) -> Vec<BlockPointer> {
    let mut writer = BlockWriter::create(env, path.as_ref(), 3, direct, Arc::clone(stats)).unwrap();
    let sizes = [10, 5000, 3 << 20, 0, 1_000_000];
    let pointers = (0u8..).zip(sizes).map(|(number, bytes)| {
        let before = writer.position();
        let pointer = writer.append(&image(number, bytes), Compression::None).unwrap();
        assert_eq!((pointer.offset, pointer.end()), (before, writer.position()));
        pointer
    });
    let pointers = pointers.collect();
    writer.append_raw(b"footer").unwrap();
    let bytes = writer.position();
    assert_eq!(writer.finish().unwrap(), bytes);
    pointers
}

fn open(env: &Env, path: &str, direct: bool, stats: &Arc<StoreStats>) -> BlockFile {
    BlockFile::open(env, path.as_ref(), 3, Access::Read, direct, Arc::clone(stats)).unwrap()
}

fn write_and_read(env: &Env, dir: &Path) {
    for direct in [false, true] {
        let path = dir.join(format!("direct-{direct}"));
        let path = path.to_str().unwrap();
        let stats = Arc::new(StoreStats::default());
        let pointers = write(env, path, direct, &stats);
        let file = open(env, path, direct, &stats);
        let end = pointers[4].end();
        assert_eq!(file.len().unwrap(), end + 6, "the padding is cut off");
        for (number, pointer) in (0u8..).zip(&pointers) {
            let block = file.read(*pointer).unwrap();
            assert!(block.find(&[number]) == Some(0) && block.value(0).iter().all(|byte| *byte == number));
        }
        let before = stats.block_read_bytes.load(Ordering::Relaxed);
        file.read(pointers[1]).unwrap();
        let read = stats.block_read_bytes.load(Ordering::Relaxed) - before;
        let unit = u64_of(file.file().read_alignment());
        assert_eq!(
            read,
            round_up(pointers[1].end(), unit) - round_down(pointers[1].offset, unit),
            "no more than it must"
        );
        let mut buffer = AlignedBuffer::default();
        let span = file.read_span(end, 6, &mut buffer).unwrap();
        assert_eq!(&buffer[span], b"footer");
        assert_eq!(file.read_span(end + 1, 6, &mut buffer).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(stats.block_reads.load(Ordering::Relaxed), 8);
        assert!(stats.written_bytes.load(Ordering::Relaxed) >= end && stats.syncs.load(Ordering::Relaxed) == 1);
    }
}

#[test]
fn what_was_written_is_read_in_a_simulated_file() {
    (0..8).for_each(|seed| write_and_read(&SimEnv::new(seed).env(), Path::new("/")));
}

#[test]
fn what_was_written_is_read_in_a_real_file() {
    let dir = tempfile::tempdir().unwrap();
    write_and_read(&Env::os(), dir.path());
}

#[test]
fn a_pointer_to_elsewhere_is_corruption_and_allocates_nothing() {
    let (env, stats) = (SimEnv::new(1).env(), Arc::new(StoreStats::default()));
    let pointers = write(&env, "/a", true, &stats);
    let file = open(&env, "/a", true, &stats);
    let wrong = [
        BlockPointer { bytes: u32::MAX, ..pointers[0] },
        BlockPointer { bytes: 3, ..pointers[0] },
        BlockPointer { offset: u64::MAX, ..pointers[0] },
        BlockPointer { offset: 1 << 60, ..pointers[0] },
        BlockPointer { checksum: 0, ..pointers[0] },
    ];
    for pointer in wrong {
        let error = file.read(pointer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{pointer:?}: {error}");
    }
}

#[test]
fn two_open_files_have_two_instances() {
    let (env, stats) = (SimEnv::new(1).env(), Arc::new(StoreStats::default()));
    write(&env, "/a", true, &stats);
    assert_ne!(open(&env, "/a", true, &stats).instance(), open(&env, "/a", true, &stats).instance());
}

#[test]
fn a_failed_write_is_never_tried_again() {
    for seed in 0..8 {
        let sim = SimEnv::new(seed);
        let mut writer = BlockWriter::create(&sim.env(), "/a".as_ref(), 3, true, Arc::default()).unwrap();
        sim.fail_at(sim.op_count(), Fault::NoSpace);
        assert_eq!(writer.append(&image(1, 2 << 20), Compression::None).unwrap_err().kind(), ErrorKind::Full);
        let operations = sim.op_count();
        assert_eq!(writer.append(&image(1, 2 << 20), Compression::None).unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(sim.op_count(), operations, "nothing is written or synced after a failure");
    }
}

#[test]
fn a_write_in_flight_that_fails_is_told_by_what_comes_next() {
    let mut at_once = 0;
    for seed in 0..8 {
        for (finishes, fault) in [(false, Fault::ShortWrite), (true, Fault::NoSpace), (true, Fault::ShortWrite)] {
            let sim = SimEnv::new(seed);
            let mut writer = BlockWriter::create(&sim.env(), "/a".as_ref(), 3, true, Arc::default()).unwrap();
            let before = sim.op_count();
            sim.fail_at(before, fault);
            writer.append(&image(1, 600 << 10), Compression::None).unwrap();
            at_once += sim.op_count() - before;
            let failed = if finishes { writer.finish().map(drop) } else { writer.append_raw(&vec![0; 1 << 20]) };
            let kind = if fault == Fault::NoSpace { ErrorKind::Full } else { ErrorKind::Io };
            assert_eq!(failed.unwrap_err().kind(), kind);
            assert_eq!(sim.op_count(), before + 1, "nothing is written or synced after a failure");
        }
    }
    assert!((1..24).contains(&at_once), "{at_once} of 24 writes were made when they were begun");
}

#[test]
fn space_is_given_back_only_when_nothing_is_written_to_it() {
    /// A write that would still go on when it is dropped: notes whether its space was free then.
    #[derive(Debug)]
    struct Device {
        space: Arc<Mutex<SpaceMap>>,
        taken: Arc<AtomicBool>,
    }

    impl Drop for Device {
        fn drop(&mut self) {
            self.taken.store(self.space.lock().free_units() < STRETCH_UNITS, Ordering::Relaxed);
        }
    }

    /// A file to which only writes are begun.
    #[derive(Debug)]
    struct Slow(Arc<dyn File>, Arc<Mutex<SpaceMap>>, Arc<AtomicBool>);

    impl File for Slow {
        fn begin(&self, transfer: Transfer) -> InFlight {
            let device = Device { space: Arc::clone(&self.1), taken: Arc::clone(&self.2) };
            InFlight::until(move || {
                drop(device);
                transfer
            })
        }
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.read_at(buffer, offset)
        }
        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.0.write_at(bytes, offset)
        }
        fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.0.write_durable_at(bytes, offset)
        }
        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn set_len(&self, bytes: u64) -> io::Result<()> {
            self.0.set_len(bytes)
        }
        fn allocate(&self, bytes: u64) -> io::Result<bool> {
            self.0.allocate(bytes)
        }
        fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
            self.0.punch_hole(offset, bytes)
        }
        fn alignment(&self) -> usize {
            self.0.alignment()
        }
        fn read_alignment(&self) -> usize {
            self.0.read_alignment()
        }
    }

    let options = OpenOptions { access: Access::CreateNew, direct: true };
    let file = SimEnv::new(1).env().fs.open("/a".as_ref(), options).unwrap();
    let (space, taken) = (Arc::new(Mutex::new(SpaceMap::new(1, &[]))), Arc::new(AtomicBool::new(false)));
    space.lock().grow(STRETCH_UNITS);
    let slow = Arc::new(Slow(file, Arc::clone(&space), Arc::clone(&taken)));
    let file = BlockFile::from_file(slow, "/a".as_ref(), 3, Arc::default());
    let mut writer = ExtentWriter::new(&file, &space);
    writer.append(&image(1, (1 << 20) - 100), Compression::None).unwrap();
    assert!(!taken.load(Ordering::Relaxed), "the write is in flight");
    drop(writer);
    assert!(taken.load(Ordering::Relaxed));
    assert_eq!(space.lock().free_units(), STRETCH_UNITS);
}
