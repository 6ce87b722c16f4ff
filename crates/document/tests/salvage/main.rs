//! Document databases with random damage are salvaged: afterwards each index agrees with its documents, and every
//! document that is lost was named.
//!
//! `SPINNEY_SALVAGE_DOCUMENTS=N` is the number of damaged databases, `SPINNEY_SALVAGE_DOCUMENTS_FROM=SEED` the first.

#![expect(clippy::unwrap_used, reason = "a test")]

mod agree;
mod damage;
mod kept;
mod made;
mod salvaged;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use made::Truth;
use spinney_testkit::engine::panic_message;
use spinney_testkit::parallel;
use spinney_testkit::rng::Rng;

/// The damaged copies of each database.
const COPIES: u64 = 8;

/// The copies of a run that is not told how many.
const DEFAULT: u64 = 96;

/// What a run has met, so that the test shows that it met everything.
#[derive(Debug, Default)]
struct Met {
    copied: AtomicU64,
    in_place: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

/// Damages some copies of the database of a seed, and salvages each.
fn run(seed: u64, met: &Met) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let sound = place.path().join("sound");
    let truth = made::make(&sound, &mut rng);
    for copy in 0..COPIES {
        let dir = place.path().join(format!("{copy}"));
        damage::copy(&sound, &dir);
        let damaged = damage::damage(&dir, &mut rng.fork());
        // A segment that is cut off as well does not prove that the one before it was longer.
        let logs = damaged.iter().filter(|what| what.contains(".log")).count();
        let may_be_torn = logs > 1 || damage::lacks_newest_without_proof(&sound, &dir);
        let done = catch_unwind(AssertUnwindSafe(|| check(&dir, &truth, may_be_torn, &mut rng, met)));
        let done = done.unwrap_or_else(|panic| Err(panic_message(&*panic).to_owned()));
        done.map_err(|what| format!("copy {copy} ({}): {what}", damaged.join(", ")))?;
    }
    Ok(())
}

/// Salvages a damaged database in place or to a copy. With `may_be_torn` the end of its log may be taken for that of a
/// commit which a crash cut off: then nothing names what it held.
fn check(dir: &Path, truth: &Truth, may_be_torn: bool, rng: &mut Rng, met: &Met) -> Result<(), String> {
    // In place where the log or the manifest is all that is damaged: what is left of it must be whole then.
    if rng.chance(50) && salvaged::is_for_place(dir) {
        let Some(report) = salvaged::in_place(dir)? else { return Ok(()) };
        met.in_place.fetch_add(1, Ordering::Relaxed);
        // The tables were not read, and may be damaged beside.
        if salvaged::is_sound(dir) {
            met.lost.fetch_add(agree::check(dir, truth, &report, may_be_torn)?, Ordering::Relaxed);
        }
        return Ok(());
    }
    let out = dir.with_extension("salvaged");
    match salvaged::to_copy(dir, &out) {
        Err(refused) if refused.contains("manifest") || refused.contains("CURRENT") => {
            met.refused.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(refused) => Err(format!("it was not salvaged: {refused}")),
        Ok(report) => {
            met.copied.fetch_add(1, Ordering::Relaxed);
            met.lost.fetch_add(agree::check(&out, truth, &report, may_be_torn)?, Ordering::Relaxed);
            Ok(())
        }
    }
}

#[test]
fn salvaged_documents_agree_with_their_indexes_and_lost_ones_are_named() {
    // The copy of a database of 313 documents with damage in one run had 294 of them, a count of 314, and indexes that
    // answered with documents that were gone, while `verify` called it sound.
    let count = parallel::count_from_env("SPINNEY_SALVAGE_DOCUMENTS", DEFAULT);
    let from = parallel::count_from_env("SPINNEY_SALVAGE_DOCUMENTS_FROM", 0);
    let met = Met::default();
    parallel::each(from..from + count.div_ceil(COPIES), |seed| {
        let done = catch_unwind(AssertUnwindSafe(|| run(seed, &met)));
        done.unwrap_or_else(|panic| Err(panic_message(&*panic).to_owned())).map_err(|what| {
            format!(
                "seed {seed}, {what}\nagain: SPINNEY_SALVAGE_DOCUMENTS=1 SPINNEY_SALVAGE_DOCUMENTS_FROM={seed} \
                 cargo test -p spinney-document --test salvage agree_with"
            )
        })
    })
    .unwrap_or_else(|what| panic!("{what}"));
    eprintln!("{met:?}");
    if count >= DEFAULT {
        for (name, times) in [("copied", &met.copied), ("in place", &met.in_place), ("lost documents", &met.lost)] {
            assert!(times.load(Ordering::Relaxed) > 0, "no database was {name}: {met:?}");
        }
    }
}
