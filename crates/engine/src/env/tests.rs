//! What every environment must do: one suite, run on the real one and on the simulated one.

use super::sim::SimEnv;
use super::{Access, AlignedBuffer, Env, File, InFlight, Next, OpenOptions, SECTOR_BYTES, Transfer};
use crate::base::num::u64_of;
use parking_lot::{Condvar, Mutex};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Runs `test` on each environment, in an empty directory.
fn everywhere(test: impl Fn(&Env, &Path)) {
    let sim = SimEnv::new(1).env();
    sim.fs.create_dir_all(Path::new("/db")).unwrap();
    test(&sim, Path::new("/db"));
    let mut parents = vec![std::env::temp_dir()];
    // A file system in memory, which may refuse direct I/O and holes.
    parents.extend(Path::new("/dev/shm").is_dir().then(|| "/dev/shm".into()));
    for parent in parents {
        let dir = tempfile::tempdir_in(parent).unwrap();
        test(&Env::os(), dir.path());
        let by_std = dir.path().join("std");
        std::fs::create_dir(&by_std).unwrap();
        test(&Env::std(), &by_std);
        if let Ok(polling) = Env::os_polling() {
            let dir = dir.path().join("polling");
            std::fs::create_dir(&dir).unwrap();
            test(&polling, &dir);
        }
    }
}

fn open(env: &Env, path: &Path, access: Access, direct: bool) -> io::Result<Arc<dyn File>> {
    env.fs.open(path, OpenOptions { access, direct })
}

fn create(env: &Env, path: &Path) -> Arc<dyn File> {
    open(env, path, Access::CreateNew, false).unwrap()
}

fn read(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn names(env: &Env, dir: &Path) -> Vec<String> {
    env.fs.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn what_is_written_is_read_back() {
    everywhere(|env, dir| {
        let file = create(env, &dir.join("a"));
        assert!(file.is_empty().unwrap());
        file.write_at(b"hello world", 0).unwrap();
        file.write_durable_at(b"W", 6).unwrap();
        file.write_at(b"far", 10_000).unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 10_003);
        let mut buffer = [9; 16];
        assert_eq!(file.read_at(&mut buffer[..11], 0).unwrap(), 11);
        assert_eq!(&buffer[..11], b"hello World");
        assert_eq!(file.read_at(&mut buffer, 9998).unwrap(), 5, "the read ends with the file");
        assert_eq!(&buffer[..5], b"\0\0far");
        assert_eq!(file.read_at(&mut buffer, 10_003).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
        let again = open(env, &dir.join("a"), Access::Read, false).unwrap();
        assert_eq!(read(&*again), read(&*file));
        again.write_at(b"x", 0).unwrap_err();
    });
}

#[test]
fn what_was_begun_is_done_when_it_was_waited_for() {
    everywhere(|env, dir| {
        for direct in [false, true] {
            let file = open(env, &dir.join(format!("direct-{direct}")), Access::CreateNew, direct).unwrap();
            let buffer = |byte: u8| {
                let mut buffer = AlignedBuffer::zeroed(SECTOR_BYTES);
                buffer.fill(byte);
                buffer
            };
            let at = |i: u8| u64::from(i) * u64_of(SECTOR_BYTES);
            let begun: Vec<_> = (0..40).map(|i| file.begin(Transfer::write(&file, at(i), buffer(i)))).collect();
            for (i, made) in (0..).zip(begun.into_iter().map(InFlight::wait)) {
                assert_eq!((made.result.unwrap(), &*made.buffer), (SECTOR_BYTES, &*buffer(i)));
            }
            let begun: Vec<_> = (0..41).map(|i| file.begin(Transfer::read_into(&file, at(i), buffer(99)))).collect();
            for (i, made) in (0..40).zip(begun.into_iter().map(InFlight::wait)) {
                assert_eq!((made.result.unwrap(), &*made.buffer), (SECTOR_BYTES, &*buffer(i)));
            }
            let past_the_end = file.begin(Transfer::read(&file, at(40), SECTOR_BYTES)).wait();
            assert_eq!(past_the_end.result.unwrap(), 0);
        }
    });
}

#[test]
fn what_was_begun_and_is_dropped_uses_the_file_no_more() {
    everywhere(|env, dir| {
        let file = open(env, &dir.join("a"), Access::CreateNew, true).unwrap();
        for _ in 0..500 {
            let write = file.begin(Transfer::write(&file, 0, AlignedBuffer::zeroed(16 * SECTOR_BYTES)));
            let read = file.begin(Transfer::read(&file, u64_of(20 * SECTOR_BYTES), SECTOR_BYTES));
            drop((write, read));
            assert_eq!(Arc::strong_count(&file), 1);
        }
    });
}

#[test]
fn opening_checks_whether_the_file_exists() {
    everywhere(|env, dir| {
        let path = dir.join("a");
        for access in [Access::Read, Access::Write] {
            assert_eq!(open(env, &path, access, false).unwrap_err().kind(), ErrorKind::NotFound);
        }
        for direct in [false, true] {
            drop(open(env, &path, Access::CreateNew, direct).unwrap());
            assert_eq!(open(env, &path, Access::CreateNew, direct).unwrap_err().kind(), ErrorKind::AlreadyExists);
            drop(open(env, &path, Access::Write, direct).unwrap());
            env.fs.remove(&path).unwrap();
        }
        assert_eq!(env.fs.remove(&path).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(env.fs.list(&path).unwrap_err().kind(), ErrorKind::NotFound);
        let below = dir.join("no/file");
        assert_eq!(open(env, &below, Access::CreateNew, false).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_direct_file_takes_aligned_io_and_ends_anywhere() {
    everywhere(|env, dir| {
        let file = open(env, &dir.join("a"), Access::CreateNew, true).unwrap();
        assert!([1, SECTOR_BYTES].contains(&file.alignment()));
        let unit = file.read_alignment();
        assert!(file.alignment().is_multiple_of(unit));
        let mut buffer = AlignedBuffer::zeroed(3 * SECTOR_BYTES);
        buffer.fill(5);
        file.write_at(&buffer, 0).unwrap();
        buffer.fill(6);
        file.write_durable_at(&buffer[..SECTOR_BYTES], 3 * 4096).unwrap();
        file.set_len(3 * 4096 + 100).unwrap();
        file.sync().unwrap();
        buffer.fill(0);
        assert_eq!(file.read_at(&mut buffer, 2 * 4096).unwrap(), SECTOR_BYTES + 100);
        assert!(buffer[..SECTOR_BYTES].iter().all(|byte| *byte == 5));
        assert!(buffer[SECTOR_BYTES..SECTOR_BYTES + 100].iter().all(|byte| *byte == 6));
        assert_eq!(file.read_at(&mut buffer, 4 * 4096).unwrap(), 0);
        let near_end = 3 * SECTOR_BYTES - unit;
        assert_eq!(file.read_at(&mut buffer[..2 * unit], u64_of(near_end)).unwrap(), unit + unit.min(100));
        let buffered = open(env, &dir.join("a"), Access::Read, false).unwrap();
        assert_eq!(buffered.alignment(), 1);
        assert_eq!(read(&*buffered).len(), 3 * 4096 + 100);
    });
}

#[test]
fn lengths_space_and_holes_change_as_asked() {
    everywhere(|env, dir| {
        let file = create(env, &dir.join("a"));
        file.write_at(&[1; 20_000], 0).unwrap();
        file.set_len(10_000).unwrap();
        file.set_len(12_000).unwrap();
        let mut model = vec![1; 10_000];
        model.resize(12_000, 0);
        assert!(read(&*file) == model, "what was cut off reads as zeros when the file grows again");
        file.allocate(0).unwrap();
        file.allocate(100).unwrap();
        assert_eq!(file.len().unwrap(), 12_000, "allocate does not cut");
        file.allocate(50_000).unwrap();
        model.resize(50_000, 0);
        assert!(read(&*file) == model);
        file.punch_hole(0, 0).unwrap();
        file.punch_hole(4096, 4096).unwrap();
        let whole = model.clone();
        model[4096..8192].fill(0);
        let found = read(&*file);
        assert!(found == model || found == whole, "it reads as zeros, or the environment cannot make holes");
        file.punch_hole(45_056, 1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 50_000, "a hole does not change the length");
        assert!(env.fs.free_bytes(dir).unwrap() > 0);
    });
}

#[test]
fn names_can_be_listed_renamed_linked_and_removed() {
    everywhere(|env, dir| {
        create(env, &dir.join("b")).write_at(b"bb", 0).unwrap();
        create(env, &dir.join("a")).write_at(b"a", 0).unwrap();
        env.fs.create_dir_all(&dir.join("c/d/e")).unwrap();
        env.fs.create_dir_all(&dir.join("c/d")).unwrap();
        let entries = env.fs.list(dir).unwrap();
        let seen = entries.iter().map(|entry| (&*entry.name, entry.bytes, entry.is_dir)).collect::<Vec<_>>();
        assert_eq!(seen, [("a", 1, false), ("b", 2, false), ("c", 0, true)]);

        env.fs.rename(&dir.join("a"), &dir.join("b")).unwrap();
        assert_eq!(env.fs.link_count(&dir.join("b")).unwrap(), 1);
        env.fs.hard_link(&dir.join("b"), &dir.join("c/d/e/f")).unwrap();
        assert_eq!(env.fs.link_count(&dir.join("b")).unwrap(), 2);
        assert_eq!(env.fs.link_count(&dir.join("c/d/e/f")).unwrap(), 2);
        assert_eq!(env.fs.link_count(&dir.join("x")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(
            env.fs.hard_link(&dir.join("b"), &dir.join("c/d/e/f")).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        open(env, &dir.join("b"), Access::Write, false).unwrap().write_at(b"both", 0).unwrap();
        env.fs.remove(&dir.join("b")).unwrap();
        assert_eq!(names(env, dir), ["c"]);
        let linked = open(env, &dir.join("c/d/e/f"), Access::Read, false).unwrap();
        assert_eq!(read(&*linked), b"both");
        env.fs.rename(&dir.join("c/d/e/f"), &dir.join("f")).unwrap();
        env.fs.remove(&dir.join("f")).unwrap();
        assert_eq!(read(&*linked), b"both", "an open file lives on without a name");
        env.fs.sync_dir(dir).unwrap();
        env.fs.rename(&dir.join("c"), &dir.join("g")).unwrap();
        assert_eq!(names(env, &dir.join("g/d")), ["e"]);
        assert_eq!(env.fs.rename(&dir.join("c"), &dir.join("h")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(env.fs.remove(&dir.join("g")).is_err(), "a directory is not a file");
    });
}

#[test]
fn a_file_where_a_directory_should_be_is_an_error() {
    everywhere(|env, dir| {
        let path = dir.join("a");
        drop(create(env, &path));
        assert!(env.fs.create_dir_all(&path).is_err());
        assert!(env.fs.create_dir_all(&path.join("b")).is_err());
        assert_eq!(env.fs.list(&path).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(env.fs.sync_dir(&path).is_err());
        assert!(env.fs.sync_dir(&dir.join("no")).is_err());
    });
}

#[test]
fn a_second_handle_cannot_take_the_lock() {
    everywhere(|env, dir| {
        let path = dir.join("LOCK");
        let lock = env.fs.lock(&path).unwrap();
        assert_eq!(env.fs.lock(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(lock);
        drop(env.fs.lock(&path).unwrap());
        assert_eq!(names(env, dir), ["LOCK"]);
    });
}

#[test]
fn absolute_paths_do_not_depend_on_the_working_directory() {
    everywhere(|env, dir| {
        assert_eq!(env.fs.absolute(dir).unwrap(), dir);
        let absolute = env.fs.absolute(Path::new("a/b")).unwrap();
        assert!(absolute.is_absolute() && absolute.ends_with("a/b"));
    });
}

#[test]
fn time_goes_on_and_numbers_differ() {
    everywhere(|env, _| {
        let start = env.clock.now();
        env.threads.sleep(Duration::from_millis(1));
        assert!(env.clock.now() >= start + Duration::from_millis(1));
        assert!(env.clock.wall() > Duration::from_secs(1_700_000_000));
        assert_ne!(env.random.next(), env.random.next());
    });
}

/// Counts calls, and lets a test wait for them.
#[derive(Default)]
struct Calls {
    count: Mutex<u32>,
    changed: Condvar,
}

impl Calls {
    fn add(&self) -> u32 {
        let mut count = self.count.lock();
        *count += 1;
        self.changed.notify_all();
        *count
    }

    fn wait_for(&self, wanted: u32) {
        let mut count = self.count.lock();
        self.changed.wait_while(&mut count, |count| *count < wanted);
    }
}

#[test]
fn a_worker_works_at_the_start_when_woken_and_when_it_asks_to() {
    everywhere(|env, _| {
        let calls = Arc::new(Calls::default());
        let theirs = Arc::clone(&calls);
        let worker = env.threads.worker(
            "test",
            Box::new(move || match theirs.add() {
                1 => Next::Again,
                3 => Next::WaitAtMost(Duration::from_millis(1)),
                _ => Next::Wait,
            }),
        );
        let worker = worker.unwrap();
        calls.wait_for(2);
        worker.wake();
        calls.wait_for(3);
        // In the simulation only this moves the time; in reality it passes anyhow.
        env.threads.sleep(Duration::from_millis(1));
        calls.wait_for(4);
        worker.stop();
        worker.stop();
        let count = *calls.count.lock();
        worker.wake();
        drop(worker);
        assert_eq!(*calls.count.lock(), count, "a stopped worker does not work");
    });
}

#[test]
fn a_wake_from_inside_the_work_is_not_lost_and_a_stop_from_inside_ends_it() {
    everywhere(|env, _| {
        let calls = Arc::new(Calls::default());
        let slot = Arc::new(Mutex::new(None::<Arc<dyn super::Worker>>));
        let (theirs, own) = (Arc::clone(&calls), Arc::clone(&slot));
        let work = move || {
            let me = own.lock().clone();
            let Some(me) = me else { return Next::Wait };
            match theirs.add() {
                1 | 2 => me.wake(),
                3 => {
                    me.wake();
                    me.stop();
                }
                _ => unreachable!("it was stopped"),
            }
            Next::Wait
        };
        let worker: Arc<dyn super::Worker> = Arc::from(env.threads.worker("test", Box::new(work)).unwrap());
        *slot.lock() = Some(Arc::clone(&worker));
        worker.wake();
        calls.wait_for(3);
        slot.lock().take();
        worker.stop();
        assert_eq!(*calls.count.lock(), 3);
    });
}

#[test]
fn no_wake_is_lost_in_a_race() {
    let env = Env::os();
    let (posted, done) = (Arc::new(AtomicU32::new(0)), Arc::new(Calls::default()));
    let (inbox, counter) = (Arc::clone(&posted), Arc::clone(&done));
    let work = move || {
        for _ in 0..inbox.swap(0, Ordering::SeqCst) {
            counter.add();
        }
        Next::Wait
    };
    let worker = env.threads.worker("race", Box::new(work)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..5000 {
                    posted.fetch_add(1, Ordering::SeqCst);
                    worker.wake();
                }
            });
        }
    });
    done.wait_for(10_000);
}
