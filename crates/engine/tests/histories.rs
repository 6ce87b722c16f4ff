//! What concurrent transactions read, with locks, savepoints, crashes and reopening in between, is what their isolation
//! allows: in half of the histories snapshot isolation, in half they are serializable.

use spinney_testkit::isolation::{Seen, workload};
use spinney_testkit::parallel;
use std::sync::Mutex;

/// Transactions of one history.
const HISTORY: u64 = 1000;

/// A quarter of them by threads, the others in interleavings of one.
const THREADED: u64 = 4;

#[test]
fn concurrent_transactions_read_what_their_isolation_allows() {
    let histories = parallel::count_from_env("SPINNEY_TRANSACTIONS", 20_000).div_ceil(HISTORY);
    let count = usize::try_from(HISTORY).expect("small");
    let seen = Mutex::new(Seen::default());
    let run = |seed: u64| {
        let found = if seed.is_multiple_of(THREADED) {
            let folder = tempfile::tempdir().expect("a folder for temporary files");
            workload::threaded(&folder.path().join("db"), seed, count)
        } else {
            workload::simulated(seed, count)
        };
        seen.lock().expect("nobody panics here").add(found?);
        Ok(())
    };
    parallel::each(0..histories, run).unwrap_or_else(|message| panic!("{message}"));
    let seen = seen.into_inner().expect("nobody panics here");
    eprintln!("{seen:?}");
    // What the checker must see to have looked: write skews, which snapshot isolation allows, and commits that a crash
    // left open.
    assert!(seen.committed > histories * HISTORY / 4 && seen.skews > 0 && seen.unknown_committed > 0, "{seen:?}");
}
