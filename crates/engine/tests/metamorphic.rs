//! A list of operations shows one history, whatever the configuration and the way in which it is carried out.

use spinney::env::sim::SimEnv;
use spinney_testkit::metamorphic::{WAYS, Way, generate, tell};
use spinney_testkit::{Config, Engine, Model, Op, Outcome, Subject, parallel};
use std::path::Path;

const TABLES: usize = 2;
const EPISODES: usize = 5;

/// Of so many configurations one takes a list: 23 of all, others for the next list.
const STRIDE: usize = 3;

#[test]
fn a_list_shows_one_history_in_every_configuration_and_way() {
    let lists = parallel::count_from_env("SPINNEY_LISTS", 20);
    let (with_merges, without) = (Config::all(), Config::all_without_merges());
    let run = |seed: u64| {
        let configs = if seed.is_multiple_of(2) { &with_merges } else { &without };
        let mut list = generate(seed, TABLES, EPISODES);
        list.iter_mut().flatten().for_each(|op| *op = configs[0].fit(op.clone()));
        let expected = tell(&list, TABLES, Way::Plain, &mut Model::new(TABLES))?;
        let turn = usize::try_from(seed).expect("small");
        for (number, config) in configs.iter().enumerate().skip(turn % STRIDE).step_by(STRIDE) {
            // Over the lists every configuration meets every way.
            let way = WAYS[(number + turn / STRIDE) % WAYS.len()];
            let explain = |told: String| format!("list {seed}, {}, {way:?}:\n{told}", config.name);
            let mut engine = Engine::open(Path::new("/db"), SimEnv::new(seed).env(), config, TABLES)
                .map_err(|error| explain(error.to_string()))?;
            let told = tell(&list, TABLES, way, &mut engine).map_err(explain)?;
            let found = engine.apply(&Op::Verify);
            if found != Outcome::Done {
                return Err(explain(found.to_string()));
            }
            // One by one the changes of a batch are other commits, but what is read after them is the same.
            if told != expected {
                return Err(explain(difference(&expected, &told)));
            }
        }
        Ok(())
    };
    parallel::each(0..lists, run).unwrap_or_else(|message| panic!("{message}"));
}

/// The first line in which a history is another, with those before it.
fn difference(expected: &str, told: &str) -> String {
    let same = expected.lines().zip(told.lines()).take_while(|(a, b)| a == b).count();
    let before: Vec<_> = expected.lines().take(same).skip(same.saturating_sub(10)).collect();
    let line = |text: &str| text.lines().nth(same).unwrap_or("the end").to_owned();
    format!("{}\n  expected {}\n  found    {}", before.join("\n"), line(expected), line(told))
}
