//! Random operations give the history that the model gives, and the same history with every layout and option set.

use spinney::base::CoveragePoint;
use spinney::env::{Env, sim::SimEnv};
use spinney_testkit::{Config, Divergence, Engine, Model, Op, Outcome, history, ops, parallel};
use std::path::{Path, PathBuf};

const TABLES: usize = 2;
const OPS: usize = 400;

/// How many seeds are run unless more are asked for.
const SEEDS: u64 = 1000;

/// Every so many seeds, one runs on the real file system.
const REAL_EVERY: u64 = 10;

#[test]
fn every_seed_gives_the_history_of_the_model() {
    let replay = std::env::var("SPINNEY_SIM").ok().map(|seed| seed.parse::<u64>().expect("SPINNEY_SIM is a number"));
    let seeds = parallel::count_from_env("SPINNEY_SEEDS", SEEDS);
    let configs = [Config::all(), Config::all_without_merges()].concat();
    let run = |seed: u64| {
        let position = usize::try_from(seed).expect("a seed is small") % configs.len();
        let (config, ops) = (&configs[position], ops::generate(seed, TABLES, OPS));
        let ops: Vec<_> = ops.into_iter().map(|op| config.fit(op)).collect();
        match told(seed, config, &ops) {
            Ok(history) if replay.is_some() => eprintln!("{}\n{history}", config.name),
            Ok(_) => {}
            Err(divergence) => return Err(explain(seed, config, &ops, &divergence)),
        }
        Ok(())
    };
    let done = match replay {
        Some(seed) => run(seed),
        None => parallel::each(0..seeds, run),
    };
    done.unwrap_or_else(|message| panic!("{message}"));
    let slices = [CoveragePoint::Slice, CoveragePoint::TreeSlice];
    assert!(replay.is_some() || seeds < SEEDS || slices.iter().all(|event| event.is_reached()), "no slice was met");
}

#[test]
fn all_configurations_tell_the_same_history() {
    for seed in 1000..1010 {
        let configs = if seed % 2 == 0 { Config::all() } else { Config::all_without_merges() };
        let ops = ops::generate(seed, TABLES, OPS / 2).into_iter().map(|op| configs[0].fit(op)).collect::<Vec<_>>();
        let expected = told(seed, &configs[0], &ops).unwrap_or_else(|divergence| panic!("{divergence}"));
        let run = |config: Config| match told(seed, &config, &ops) {
            Ok(history) if history == expected => Ok(()),
            Ok(history) => {
                Err(format!("seed {seed}, {}: another history:\n{history}\nand not\n{expected}", config.name))
            }
            Err(divergence) => Err(explain(seed, &config, &ops, &divergence)),
        };
        parallel::each(configs, run).unwrap_or_else(|message| panic!("{message}"));
    }
}

/// The history of operations under a configuration; most seeds run in a simulated environment.
fn told(seed: u64, config: &Config, ops: &[Op]) -> Result<String, Box<Divergence>> {
    if seed % REAL_EVERY == REAL_EVERY - 1 {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        tell(folder.path().join("db"), Env::os(), config, ops)
    } else {
        tell(PathBuf::from("/db"), SimEnv::new(seed).env(), config, ops)
    }
}

fn tell(path: PathBuf, env: Env, config: &Config, ops: &[Op]) -> Result<String, Box<Divergence>> {
    let mut model = Model::new(TABLES);
    let mut engine = open(&path, env, config)?;
    let history = history::compare(ops, &mut model, &mut engine)?;
    let end = [Op::Verify, Op::Checkpoint, Op::Reopen(ops::Leave::Drop), Op::Verify, Op::Checkpoint];
    history::compare(&end, &mut model, &mut engine)?;
    Ok(history)
}

fn open(path: &Path, env: Env, config: &Config) -> Result<Engine, Box<Divergence>> {
    Engine::open(path, env, config, TABLES).map_err(|error| {
        let (op, found) = (Op::Reopen(ops::Leave::Close), Outcome::Failed(error.to_string()));
        Box::new(Divergence { index: 0, op, expected: Outcome::Done, found, history: String::new() })
    })
}

/// What went wrong, with the shortest list of operations that still shows it.
fn explain(seed: u64, config: &Config, ops: &[Op], divergence: &Divergence) -> String {
    let short = history::shorten(&ops[..ops.len().min(divergence.index + 1)], |ops| told(seed, config, ops).is_err());
    let shown = told(seed, config, &short).err().map_or_else(|| divergence.to_string(), |short| short.to_string());
    format!("seed {seed}, {}:\n{shown}\nreplay: cargo xtask model {seed}", config.name)
}
