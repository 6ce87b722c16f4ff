//! Random pipelines: the whole over a collection or a view gives what its stages give one after the other over plain
//! documents, with each short cut on and off, with and without indexes, in memory and past the limit of memory.
//!
//! `SPINNEY_PIPELINES` says how many pipelines, `SPINNEY_SEED` the first seed. A failure is made smaller, and prints
//! its seed and the command that replays it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; it says what it did"
)]

mod case;
mod commands;
mod draw;
mod plain;

use case::{Case, Outcome};
use commands::Asked;
use spinney_document::aggregate::stage_names;
use spinney_testkit::rng::Rng;

/// Pipelines, unless the variable `SPINNEY_PIPELINES` says how many.
const PIPELINES: u64 = 20_000;

/// Pipelines over the same collections.
const OF_ONE_SEED: u64 = 50;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn replay(seed: u64) -> String {
    let variables = format!("SPINNEY_SEED={seed} SPINNEY_PIPELINES={OF_ONE_SEED}");
    format!("seed {seed}: {variables} cargo test -p spinney-document --test pipelines")
}

#[test]
fn a_pipeline_gives_what_its_stages_give_one_by_one() {
    let (count, first) = (variable("SPINNEY_PIPELINES", PIPELINES), variable("SPINNEY_SEED", 0));
    let (mut same, mut refused, mut unordered) = (0_u64, 0_u64, 0_u64);
    for seed in first..first + count.div_ceil(OF_ONE_SEED) {
        let mut rng = Rng::new(seed);
        let mut case = Case::draw(&mut rng);
        let world = case.open();
        for _ in 0..OF_ONE_SEED {
            if rng.chance(10) {
                let asked = Asked::draw(&mut rng);
                if let Some(what) = asked.differs(&world) {
                    panic!("{}\n{case:#?}\n{what}\n", replay(seed));
                }
            }
            case.draw_pipeline(&mut rng);
            match case.run(&world) {
                Outcome::Same => same += 1,
                Outcome::Refused => refused += 1,
                Outcome::Unordered => unordered += 1,
                Outcome::Differs(what) => panic!("{}\nfound first: {what}\n{}", case.smallest(), replay(seed)),
            }
        }
    }
    println!("{same} the same, {refused} refused, {unordered} without an order");
    assert!(count < 1000 || same > count / 2, "most pipelines must be compared: {same} of {count}");
}

#[test]
fn every_stage_is_drawn_or_says_why_not() {
    for name in stage_names() {
        let rows = draw::STAGES.iter().filter(|row| row.name == *name).count();
        assert_eq!(rows, 1, "{name} needs one row in STAGES of draw.rs: a generator, or why there is none");
    }
    for row in draw::STAGES {
        assert!(stage_names().contains(&row.name), "there is no stage {}", row.name);
        assert!(!matches!(row.draw, draw::Draw::Not("")), "{} is not drawn: say why", row.name);
    }
}
