//! Catalog pairs: every operation on the catalog beside every other, on simulated files.
//!
//! A *round* has a database, alone or with a second one that applies the same entries, and two users. Each has an
//! operation of a given kind, and up to two more behind it, drawn from the seed. The second user comes at a moment of
//! the first: before a call to the file system, or around a proposal to the set; it ends meanwhile, or it waits for
//! what the first one holds, and both go on beside each other. In a part of the rounds both begin at once. The process
//! is then closed or killed, or the power fails, behind the operations or at a change of the disk in the middle of
//! them; or one call of theirs fails.
//!
//! Real threads meet at moments that the seed draws, as they do in `pairs.rs` of the engine, since what takes part here
//! (the catalog's locks, the engine, its simulated files) has no scheduler of its own, and since a window between two
//! transactions of one operation is found as soon as a moment lies in it, without luck.
//!
//! # Invariants
//! At the next start
//! 1. both databases open, and the second one can apply all that was agreed on;
//! 2. each row of the catalog has its tables, each table its row, and no number is given twice;
//! 3. each index agrees with the documents, and a query finds the same by it as without;
//! 4. both databases hold the same;
//! 5. what is there is what was acknowledged last, or was under way; and, when nothing failed, what was there before
//!    the end.
//!
//! `SPINNEY_CATALOG_PAIRS` is how many rounds there are, `SPINNEY_CATALOG_PAIRS_FROM` the first seed.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; it says what it did"
)]

mod act;
mod check;
mod claims;
mod meeting;
mod member;
mod round;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use act::Kind;
use round::Tally;
use spinney_document::bson::DocumentBuf;
use spinney_testkit::parallel;

/// Rounds of a usual run: each kind beside each, once and a half.
const ROUNDS: u64 = 1000;

/// A round that has not ended after so many seconds never does.
const SECONDS_MAX: u64 = 60;

/// A document in JSON.
fn json(text: &str) -> DocumentBuf {
    DocumentBuf::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The kinds that meet in a round: all pairs in turn.
fn kinds(seed: u64) -> (Kind, Kind) {
    let count = u64::try_from(Kind::ALL.len()).unwrap();
    let kind = |number: u64| Kind::ALL[usize::try_from(number % count).unwrap()];
    (kind(seed), kind(seed / count))
}

fn replay(seed: u64) -> String {
    format!(
        "seed {seed}, {:?}; again: SPINNEY_CATALOG_PAIRS=1 SPINNEY_CATALOG_PAIRS_FROM={seed} cargo test -p \
         spinney-document --test catalog_pairs",
        kinds(seed)
    )
}

/// Ends the process when a round hangs.
fn watch<T>(running: &Mutex<BTreeMap<u64, u64>>, body: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                for (seed, seconds) in &mut *running.lock().unwrap() {
                    *seconds += 1;
                    if *seconds > SECONDS_MAX {
                        eprintln!("a round hangs: {}", replay(*seed));
                        std::process::exit(101);
                    }
                }
            }
        });
        let done = body();
        drop(end);
        done
    })
}

#[test]
fn every_operation_on_the_catalog_goes_with_every_other() {
    let rounds = parallel::count_from_env("SPINNEY_CATALOG_PAIRS", ROUNDS);
    let from = parallel::count_from_env("SPINNEY_CATALOG_PAIRS_FROM", 0);
    let (running, all) = (Mutex::new(BTreeMap::new()), Mutex::new((Tally::default(), 0_u64)));
    let done = watch(&running, || {
        parallel::each(from..from + rounds, |seed| {
            let (first, second) = kinds(seed);
            running.lock().unwrap().insert(seed, 0);
            let done = catch_unwind(AssertUnwindSafe(|| round::run(seed, first, second)));
            running.lock().unwrap().remove(&seed);
            let done = done.unwrap_or_else(|panic| Err(spinney_testkit::engine::panic_message(&*panic).to_owned()));
            let tally = done.map_err(|what| format!("{what}\n{}", replay(seed)))?;
            let (total, inside) = &mut *all.lock().unwrap();
            total.acknowledged += tally.acknowledged;
            total.operations += tally.operations;
            *inside += u64::from(tally.inside);
            Ok(())
        })
    });
    done.unwrap_or_else(|what| panic!("{what}"));
    let (Tally { acknowledged, operations, .. }, inside) = all.into_inner().unwrap();
    println!("{rounds} rounds: {acknowledged} of {operations} operations acknowledged, {inside} meetings inside");
    assert!(rounds < 100 || acknowledged > operations / 3, "most operations are refused: nothing is shown");
    assert!(rounds < 100 || inside > rounds / 25, "the users hardly ever meet: nothing is shown");
}
