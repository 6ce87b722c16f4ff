//! A change feed shows every durable commit once and in order, and nothing that a crash takes back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, ChangeFeed, Database, Durability, ErrorKind, Lsn, Options, Table, TableOptions};
use spinney_testkit::Rng;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn options() -> Options {
    Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10).log_bytes_max(256 << 10)
}

fn open(sim: &SimEnv) -> Database {
    Database::builder("/db").env(sim.env()).options(options()).open().unwrap()
}

fn table(db: &Database) -> Table {
    db.table("t").unwrap().unwrap_or_else(|| db.create_table("t", TableOptions::default()).unwrap())
}

fn commit(db: &Database, number: u64, bytes: usize, durability: Durability) {
    let mut batch = Batch::new();
    batch.put(&table(db), number.to_be_bytes(), vec![7; bytes]);
    batch.delete(&table(db), b"other");
    db.write_with(&batch, durability).unwrap();
}

/// The numbers of the commits that the feed shows now.
fn numbers(feed: &mut ChangeFeed) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut last = Lsn(0);
    while let Some(commit) = feed.poll().unwrap() {
        let changes = commit.changes();
        assert!(changes.len() == 2 && commit.count == 2 && last <= commit.lsn && commit.lsn < commit.end);
        assert_eq!((changes[1].key, changes[1].value), (b"other".as_slice(), b"".as_slice()));
        last = commit.end;
        assert_eq!(feed.resume_lsn(), last);
        numbers.push(u64::from_be_bytes(changes[0].key.try_into().unwrap()));
    }
    numbers
}

/// What it reads has mostly just been written, and it reads little at a time.
#[test]
fn a_feed_reads_the_log_through_the_page_cache() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let mut feed = db.changes(db.log_start()).unwrap();
    for number in 0..40 {
        commit(&db, number, 9000, Durability::Sync);
    }
    let direct = sim.direct_open_count();
    assert!(direct > 0, "the log is written past it");
    assert_eq!(numbers(&mut feed).len(), 40);
    assert_eq!(sim.direct_open_count(), direct);
}

#[test]
fn a_feed_shows_durable_commits_once_and_goes_on_after_a_reopen() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let mut feed = db.changes(db.log_start()).unwrap();
    assert_eq!(numbers(&mut feed), []);
    let mut shown = Vec::new();
    for number in 0..200 {
        commit(&db, number, [10, 40_000, 300, 0][usize::try_from(number % 4).unwrap()], Durability::Sync);
        if number % 7 == 0 {
            shown.extend(numbers(&mut feed));
            assert_eq!(shown.last(), Some(&number));
        }
        if number % 31 == 0 {
            table(&db).flush().unwrap();
        }
    }
    commit(&db, 200, 10, Durability::Buffered);
    shown.extend(numbers(&mut feed));
    assert_eq!(shown.last(), Some(&199), "what is not durable is not shown");
    let position = feed.resume_lsn();
    drop(feed);
    db.close().unwrap();
    let db = open(&sim);
    let mut feed = db.changes(position).unwrap();
    commit(&db, 201, 10, Durability::Sync);
    shown.extend(numbers(&mut feed));
    assert_eq!(shown, (0..202).collect::<Vec<_>>());
    assert_eq!(numbers(&mut feed), []);
    let error = db.changes(Lsn(u64::MAX)).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("behind the end"), "{error}");
}

#[test]
fn a_crash_takes_nothing_back_that_a_feed_showed() {
    for seed in 0..60 {
        let sim = SimEnv::new(seed);
        let db = open(&sim);
        let mut feed = db.changes(db.log_start()).unwrap();
        let mut shown = Vec::new();
        for number in 0..20 {
            let durability = if (number + seed) % 3 == 0 { Durability::Sync } else { Durability::Buffered };
            commit(&db, number, if number % 5 == 0 { 30_000 } else { 50 }, durability);
            shown.extend(numbers(&mut feed));
        }
        let position = feed.resume_lsn();
        sim.power_crash(CrashProfile::EVERY[usize::try_from(seed % 6).unwrap()]);
        drop((feed, db));
        let db = open(&sim);
        for number in &shown {
            assert!(db.snapshot().contains(&table(&db), number.to_be_bytes()).unwrap(), "{number} of seed {seed}");
        }
        let mut feed = db.changes(position).unwrap();
        commit(&db, 1000, 10, Durability::Sync);
        shown.extend(numbers(&mut feed));
        assert_eq!(shown.pop(), Some(1000));
        let survived: Vec<_> = (0..20)
            .take_while(|number: &u64| db.snapshot().contains(&table(&db), number.to_be_bytes()).unwrap())
            .collect();
        assert_eq!(shown, survived, "seed {seed}: shown before and after the crash are what survived it");
    }
}

#[test]
fn feeds_hold_the_log_back_up_to_a_limit_and_then_fail_without_harm() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let mut slow = db.changes(db.log_start()).unwrap();
    let mut fast = db.changes(db.log_start()).unwrap();
    let write = |from: u64, to: u64| {
        for number in from..to {
            commit(&db, number, 10_000, Durability::Sync);
            if number % 5 == 4 {
                table(&db).flush().unwrap();
            }
        }
    };
    write(0, 15);
    assert_eq!(numbers(&mut fast), (0..15).collect::<Vec<_>>());
    assert_eq!(numbers(&mut db.changes(slow.resume_lsn()).unwrap()), (0..15).collect::<Vec<_>>());
    write(15, 100);
    assert_eq!(numbers(&mut db.changes(db.log_start()).unwrap()).last(), Some(&99));
    let error = slow.poll().unwrap_err();
    assert!(error.kind() == ErrorKind::Gone, "{error}");
    let oldest = db.log_start();
    assert!(error.to_string().contains(&format!("before position {oldest}")), "{error}");
    assert_eq!(db.changes(slow.resume_lsn()).unwrap_err().kind(), ErrorKind::Gone);
    drop((slow, fast));
    write(100, 110);
    db.close().unwrap();
    // Nothing is held any more.
    let names = sim.env().fs.list("/db/log".as_ref()).unwrap();
    assert!(names.iter().filter(|entry| entry.name.ends_with(".log")).count() <= 4, "{names:?}");
}

/// Feeds of all speeds beside each other, begun and ended at any time: each sees every commit behind its beginning,
/// once.
#[test]
fn feeds_beside_each_other_hold_what_the_slowest_needs() {
    let options = options().log_bytes_max(16 << 20);
    for seed in 0..20 {
        let (mut rng, sim) = (Rng::new(seed), SimEnv::new(seed));
        let db = Database::builder("/db").env(sim.env()).options(options.clone()).open().unwrap();
        // Each with the number that it shows next, and how many of a hundred steps it reads at.
        let mut feeds: Vec<(ChangeFeed, u64, usize)> = Vec::new();
        for number in 0..120 {
            commit(&db, number, rng.in_range(0..30_000), Durability::Sync);
            if rng.chance(30) {
                table(&db).flush().unwrap();
            }
            if feeds.len() < 4 && rng.chance(20) {
                feeds.push((db.changes(db.log_end()).unwrap(), number + 1, *rng.pick(&[1, 5, 30])));
            }
            if rng.chance(5) {
                feeds.pop();
            }
            for (feed, next, speed) in &mut feeds {
                if rng.chance(*speed) {
                    let shown = numbers(feed);
                    assert_eq!(shown, (*next..=number).collect::<Vec<_>>(), "seed {seed}");
                    *next = number + 1;
                }
            }
        }
        for (feed, next, _) in &mut feeds {
            assert_eq!(numbers(feed), (*next..120).collect::<Vec<_>>(), "seed {seed}");
        }
        // Feeds that have ended hold nothing.
        drop(feeds);
        (120..130).for_each(|number| commit(&db, number, 10_000, Durability::Sync));
        table(&db).flush().unwrap();
        commit(&db, 130, 10_000, Durability::Sync);
        let names = sim.env().fs.list("/db/log".as_ref()).unwrap();
        let segments = names.iter().filter(|entry| entry.name.ends_with(".log")).count();
        assert!(segments <= 4, "seed {seed}: {names:?}");
    }
}

#[test]
fn a_feed_in_another_thread_sees_every_commit_of_many_writers_once() {
    let options = options().log_bytes_max(1 << 30);
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db"), options).unwrap();
    let table = table(&db);
    let done = AtomicBool::new(false);
    let each = 150;
    thread::scope(|scope| {
        let (db, done, table) = (&db, &done, &table);
        let mut feed = db.changes(db.log_start()).unwrap();
        let reader = scope.spawn(move || {
            let (mut seen, mut last) = (vec![0; 4], None);
            loop {
                let finished = done.load(Ordering::Acquire);
                let Some(commit) = feed.wait(Duration::from_millis(20)).unwrap() else {
                    if finished { return seen } else { continue }
                };
                assert!(last < Some(commit.seqnum), "in order");
                last = Some(commit.seqnum);
                let changes = commit.changes();
                let writer = usize::from(changes[0].key[0]);
                let number = u64::from_be_bytes(changes[0].key[1..9].try_into().unwrap());
                assert_eq!(seen[writer], number, "each commit of a writer once");
                seen[writer] += 1;
                assert!(db.snapshot().contains(table, changes[0].key).unwrap(), "what is shown can be read");
            }
        });
        let writer = |writer: u8| {
            for number in 0_u64..each {
                let mut batch = Batch::new();
                batch.put(table, [&[writer], &number.to_be_bytes()[..]].concat(), [writer; 900]);
                let durability = if writer == 0 { Durability::Buffered } else { Durability::Sync };
                db.write_with(&batch, durability).unwrap();
                if number % 40 == 39 {
                    table.flush().unwrap();
                }
            }
        };
        let writers: Vec<_> = (0..4).map(|number| scope.spawn(move || writer(number))).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        db.sync().unwrap();
        done.store(true, Ordering::Release);
        assert_eq!(reader.join().unwrap(), vec![each; 4]);
    });
}

/// A feed that waits longer than any test takes is woken by whatever makes a commit visible and durable.
#[test]
fn a_waiting_feed_is_woken_when_a_commit_is_visible_and_durable_and_when_the_database_is_closed() {
    const LONG: Duration = Duration::from_secs(60);
    let dir = tempfile::tempdir().unwrap();
    let options = options().interval(Duration::from_millis(2));
    let db = Database::open(dir.path().join("db"), options).unwrap();
    let (mut feed, table) = (db.changes(db.log_start()).unwrap(), table(&db));
    let ways: [(Durability, &dyn Fn()); 4] = [
        (Durability::Sync, &|| ()),
        (Durability::Interval, &|| ()),
        (Durability::Buffered, &|| db.sync().unwrap()),
        (Durability::Buffered, &|| table.flush().unwrap()),
    ];
    for (number, (durability, then)) in (0..).zip(ways) {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| feed.wait(LONG).unwrap().map(|commit| commit.count));
            // The feed sleeps by now, or finds the commit at once, which is no failure.
            thread::yield_now();
            commit(&db, number, 10, durability);
            then();
            assert_eq!(waiting.join().unwrap(), Some(2), "{durability:?}");
        });
    }
    thread::scope(|scope| {
        let waiting = scope.spawn(|| feed.wait(LONG).unwrap_err().kind());
        thread::yield_now();
        db.close().unwrap();
        assert_eq!(waiting.join().unwrap(), ErrorKind::Closed);
    });
}

/// What a feed has read ahead is kept until it is taken: whoever stores where the feed stands goes on there.
#[test]
fn a_feed_begins_where_another_stands_that_has_read_ahead() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let from = db.log_start();
    (0..12).for_each(|number| commit(&db, number, 10_000, Durability::Sync));
    let mut feed = db.changes(from).unwrap();
    for taken in 0..12 {
        table(&db).flush().unwrap();
        let after = numbers(&mut db.changes(feed.resume_lsn()).unwrap());
        assert_eq!(after, (taken..12).collect::<Vec<_>>());
        feed.next().expect("a commit").unwrap();
    }
}

#[test]
fn a_feed_names_the_tables_of_its_changes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db"), Options::default()).unwrap();
    let (kept, dropped) = (db.create_table("kept", TableOptions::default()), db.create_table("u", Default::default()));
    let (kept, dropped) = (kept.unwrap(), dropped.unwrap());
    let mut early = db.changes(db.log_start()).unwrap();
    dropped.put("a", "").unwrap();
    let name =
        |commit: &spinney::Commit, at: usize| commit.table_name(commit.changes()[at].table).map(ToOwned::to_owned);
    assert_eq!(early.next().map(|commit| name(&commit.unwrap(), 0)), Some(Some("u".to_owned())));
    assert!(early.next().is_none());
    let mut batch = Batch::new();
    batch.put(&kept, "a", "");
    batch.put(&dropped, "b", "");
    db.write(&batch).unwrap();
    db.drop_table("u").unwrap();
    let names = |feed: &mut ChangeFeed| {
        let last = feed.map(|commit| commit.unwrap()).last().expect("a commit");
        [name(&last, 0), name(&last, 1)]
    };
    // It is known to the feed that has shown it while it was there.
    let (k, u) = (Some("kept".to_owned()), Some("u".to_owned()));
    assert_eq!(names(&mut early), [k.clone(), u]);
    assert_eq!(names(&mut db.changes(db.log_start()).unwrap()), [k.clone(), None]);
    // Nor is it known by the name of a table that was created since, also by another process.
    db.create_table("later", TableOptions::default()).unwrap();
    assert_eq!(names(&mut db.changes(db.log_start()).unwrap()), [k.clone(), None]);
    db.drop_table("later").unwrap();
    drop((early, kept, dropped));
    db.close().unwrap();
    let db = Database::open(dir.path().join("db"), Options::default()).unwrap();
    db.create_table("reopened", TableOptions::default()).unwrap();
    let mut early = db.changes(db.log_start()).unwrap();
    assert_eq!(names(&mut early), [k, None]);
    let kept = db.table("kept").unwrap().unwrap();
    // At its end a feed is not over.
    kept.put("b", "").unwrap();
    assert_eq!(early.by_ref().count(), 1);
}

/// Bytes of the log that was released.
fn age(db: &Database, from: u64, to: u64) {
    for number in from..to {
        commit(db, number, 10_000, Durability::Sync);
        if number % 5 == 0 {
            table(db).flush().unwrap();
        }
    }
    table(db).flush().unwrap();
}

/// What a feed from there shows is all up to the newest, or it is told from where it could.
fn go_on(db: &Database, from: Lsn, next: u64, last: u64) -> bool {
    match db.changes(from) {
        Ok(mut feed) => {
            assert_eq!(numbers(&mut feed), (next..last).collect::<Vec<_>>());
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Gone);
            let oldest = format!("before position {} was given up", db.log_start());
            assert!(error.to_string().contains(&oldest), "{error}");
            let rest = numbers(&mut db.changes(db.log_start()).unwrap());
            assert!(rest.is_empty() || rest.ends_with(&[last - 1]), "{rest:?}");
            false
        }
    }
}

#[test]
fn the_log_is_kept_by_bytes_for_feeds_to_come() {
    for (kept_bytes, reaches) in [(0, false), (512 << 10, true)] {
        let sim = SimEnv::new(1);
        let open = || {
            let options = options().log_keep_bytes(kept_bytes);
            Database::builder("/db").env(sim.env()).options(options).open().unwrap()
        };
        let db = open();
        let position = db.log_end();
        age(&db, 0, 20);
        assert_eq!(go_on(&db, position, 0, 20), reaches);
        drop(db);
        sim.power_crash(CrashProfile::EVERY[0]);
        let db = open();
        assert_eq!(go_on(&db, position, 0, 20), reaches);
        age(&db, 20, 30);
        assert_eq!(go_on(&db, position, 0, 30), reaches);
        age(&db, 30, 200);
        assert!(!go_on(&db, position, 0, 200), "it is more than is kept");
        let kept = db.log_end().0 - db.log_start().0;
        assert!(kept <= kept_bytes + (512 << 10), "{kept}");
        let newest = db.log_end();
        age(&db, 200, 220);
        assert_eq!(go_on(&db, newest, 200, 220), reaches);
    }
}

#[test]
fn the_log_is_kept_by_age_within_its_limit() {
    let sim = SimEnv::new(1);
    let open = || {
        let options = options().log_bytes_max(1 << 20).log_keep_time(Duration::from_secs(60));
        Database::builder("/db").env(sim.env()).options(options).open().unwrap()
    };
    let db = open();
    let position = db.log_end();
    age(&db, 0, 20);
    sim.advance(Duration::from_secs(50));
    age(&db, 20, 40);
    assert!(go_on(&db, position, 0, 40));
    let later = db.log_end();
    sim.advance(Duration::from_secs(30));
    age(&db, 40, 60);
    assert!(!go_on(&db, position, 0, 60), "it is older than is kept");
    assert!(go_on(&db, later, 40, 60));
    db.close().unwrap();
    sim.advance(Duration::from_secs(1000));
    let db = open();
    assert!(go_on(&db, later, 40, 60), "what an open finds counts as new");
    age(&db, 60, 200);
    assert!(!go_on(&db, later, 40, 200), "there is a limit");
}
