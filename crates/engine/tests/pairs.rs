//! Every operation beside every other: what both leave is what the one after the other leaves, also after a crash.

use spinney::base::CoveragePoint;
use spinney_testkit::pairs::{Case, Kind, Tally};
use spinney_testkit::parallel;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// How many cases each pair has unless more are asked for.
const ROUNDS: u64 = 4;

/// At least so many kinds end in the middle of each that makes calls: the others wait for it.
const MET: usize = 3;

#[test]
fn every_operation_beside_every_other_is_before_or_after_it() {
    let replay = std::env::var("SPINNEY_SIM").ok();
    let rounds = parallel::count_from_env("SPINNEY_PAIRS", ROUNDS);
    let from = parallel::count_from_env("SPINNEY_PAIRS_FROM", 0);
    let cases = Kind::EVERY.into_iter().flat_map(|first| Kind::EVERY.into_iter().map(move |second| (first, second)));
    let cases = cases.flat_map(|pair| (from..from + rounds).map(move |seed| (pair, seed)));
    let total = Mutex::new(BTreeMap::<(Kind, Kind), Tally>::new());
    let run = |((first, second), seed)| {
        let name = format!("{first:?}/{second:?}/{seed}");
        if replay.as_ref().is_some_and(|replay| *replay != name) {
            return Ok(());
        }
        let tally = Case::new(first, second, seed).and_then(Case::run);
        let tally = tally.map_err(|message| format!("{first:?} and in it {second:?}, seed {seed}: {message}\nreplay: SPINNEY_SIM={name} SPINNEY_PAIRS_FROM={seed} cargo test -p spinney --test pairs"))?;
        let mut total = total.lock().expect("nobody panics here");
        let sum = total.entry((first, second)).or_default();
        *sum = sum.plus(tally);
        Ok(())
    };
    parallel::each(cases, run).unwrap_or_else(|message| panic!("{message}"));
    let total = total.into_inner().expect("nobody panics here");
    let sum = total.values().fold(Tally::default(), |sum, tally| sum.plus(*tally));
    eprintln!("{} pairs: {sum:?}", total.len());
    if replay.is_some() || rounds < ROUNDS {
        return;
    }
    assert_eq!(total.len(), Kind::EVERY.len().pow(2));
    assert!(CoveragePoint::View.is_reached(), "no view was made");
    for kind in Kind::EVERY.into_iter().filter(|kind| kind.makes_calls()) {
        let met = |((first, _), tally): &(&(Kind, Kind), &Tally)| *first == kind && tally.inside > 0;
        let met = total.iter().filter(met).count();
        assert!(met >= MET, "only {met} operations ended in the middle of {kind:?}");
    }
}
