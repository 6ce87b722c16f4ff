//! Which tests look at a mutant, in which order, at which sizes. For the crates above the engine only the sizes are
//! here: their tests are chosen by what they reach.

use std::path::{Path, PathBuf};

use super::packages::ENGINE;

/// Small sizes first: most mutants are caught by them.
const SMALL: [(&str, &str); 14] = [
    ("SPINNEY_PAIRS", "1"),
    ("SPINNEY_SEEDS", "40"),
    ("SPINNEY_CRASH_POINTS", "1000"),
    ("SPINNEY_SIM_SEEDS", "80"),
    ("SPINNEY_LISTS", "6"),
    ("SPINNEY_FAULTS", "1"),
    ("SPINNEY_DAMAGE", "400"),
    ("SPINNEY_TRANSACTIONS", "4000"),
    ("SPINNEY_SALVAGE_POINTS", "200"),
    ("SPINNEY_CHECKPOINT_SEEDS", "4"),
    ("SPINNEY_UNLOGGED_SEEDS", "3"),
    ("SPINNEY_FUZZ", "100"),
    ("SPINNEY_SCHEDULES", "200"),
    ("PROPTEST_CASES", "32"),
];

/// The same for the suites of the other crates, by the program.
const SMALL_BY_PROGRAM: [(&str, &str, &str); 12] = [
    ("document/pipelines", "SPINNEY_PIPELINES", "4000"),
    ("document/order", "SPINNEY_ORDER_EVENTS", "15000"),
    ("document/documents", "SPINNEY_DOCUMENT_CRASH_POINTS", "1000"),
    ("document/documents", "SPINNEY_REPLICATED_SEEDS", "10"),
    ("document/catalog_pairs", "SPINNEY_CATALOG_PAIRS", "200"),
    ("document/salvage", "SPINNEY_SALVAGE_DOCUMENTS", "24"),
    ("document/invariants", "SPINNEY_CONSTRAINTS", "5"),
    ("document/fuzz", "SPINNEY_FUZZ", "200"),
    ("server/fuzz", "SPINNEY_FUZZ", "200"),
    ("server/rights", "SPINNEY_RIGHTS", "100"),
    ("replica/lib", "SPINNEY_REPLICA_SEEDS", "60"),
    ("replica/lib", "SPINNEY_REPLICA_GRAPHS", "30"),
];

/// Programs, with starts of the names of their tests, that show more at the default sizes.
pub(super) const SIZED_BY_NAME: [&str; 10] = [
    "document/pipelines ",
    "document/order ",
    "document/documents crash::",
    "document/documents replicated::",
    "document/catalog_pairs ",
    "document/salvage ",
    "document/invariants constraints::",
    "document/fuzz ",
    "server/rights pipelines::",
    "replica/lib node::simulation::",
];

/// In every run: no time for shorter examples, and no example of one mutant for the next.
const ALWAYS: [(&str, &str); 3] =
    [("PROPTEST_MAX_SHRINK_ITERS", "0"), ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"), ("RUST_BACKTRACE", "0")];

/// The suites of `crates/engine/tests` that take a second or so at small sizes: all mutants meet these before any meets
/// the others.
const QUICK: [&str; 12] = [
    "metamorphic",
    "histories",
    "simulation",
    "changes",
    "recovery",
    "range_deletes",
    "delta_runs",
    "values",
    "single_deletes",
    "merges",
    "rows",
    "log_dir",
];

/// The others, those that notice most for their time first. Those that are not named here come behind them.
const ORDER: [&str; 9] =
    ["crash", "pairs", "time_to_live", "edges", "bulk_load", "model", "salvage", "faults", "concurrent"];

/// The suites that are about the files below a path of the engine's sources: they come first.
const NEAR: [(&str, &[&str]); 11] = [
    ("db/api/change_feed", &["changes", "feed_kills"]),
    ("db/api/bulk_load", &["bulk_load", "load_below"]),
    ("db/api/", &["api", "transactions", "ranges", "reads", "bounds"]),
    ("db/commit/", &["transactions", "serializable", "prepared", "bounds"]),
    ("db/jobs/", &["background", "checkpoint_since", "delta_runs", "cache_population"]),
    ("db/maintenance/salvage", &["salvage", "salvage_to"]),
    ("db/maintenance/tree_salvage", &["salvage_to"]),
    ("db/maintenance/", &["checkpoint_since", "checkpoint_crash", "close"]),
    ("db/open/", &["recovery", "read_only", "log_dir", "close"]),
    ("table/", &["estimates", "delta_runs", "time_to_live", "background"]),
    ("txn/", &["serializable", "isolation", "locks", "transactions"]),
];

/// What the tests under schedules run of the engine's sources.
const SCHEDULED: [&str; 3] = ["log/", "txn/", "db/"];

/// The program of the tests that decide themselves how threads take turns.
pub(super) const SCHEDULES: &str = "schedules";

/// Suites that say nothing about what the engine does.
const NEVER: [&str; 2] = ["tidy", "fuzz"];

/// How much is done for a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Size {
    /// The quick suites, at small sizes.
    Quick,
    /// The others, at small sizes.
    Small,
    /// Those with a size, at the default sizes.
    Default,
}

/// One step: a program, with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Its name in reports.
    pub(super) name: String,
    /// The program.
    pub(super) suite: String,
    pub(super) arguments: Vec<String>,
    /// Whether it is about the mutant's own file or module.
    pub(super) is_near: bool,
}

/// The steps whose size is a setting: only these show more at the default sizes.
const SIZED: [&str; 14] = [
    "pairs",
    "model",
    "simulation",
    "crash",
    "histories",
    "faults",
    "metamorphic",
    "damage",
    "salvage_to",
    "checkpoint_crash",
    "unlogged_crash",
    "unit log",
    "unit tree",
    SCHEDULES,
];

impl Step {
    /// Whether it is done for a mutant that all before have missed.
    pub(super) fn is_of(&self, size: Size) -> bool {
        let is_quick = QUICK.contains(&self.suite.as_str()) || self.is_near;
        match size {
            Size::Quick => is_quick,
            Size::Small => !is_quick,
            Size::Default => SIZED.contains(&self.name.as_str()),
        }
    }
}

/// The layers of the engine that have unit tests of their own.
const LAYERS: [&str; 8] = ["log", "tree", "table", "txn", "db", "store", "block", "cache"];

/// The steps for a mutant in a file, of these programs: the unit tests of its module, the suites, those that are about
/// the file first, all unit tests, and the tests under schedules.
pub(super) fn steps<'a>(file: &str, programs: impl Iterator<Item = &'a String>) -> Vec<Step> {
    let of_engine = file.strip_prefix("crates/engine/src/").unwrap_or("");
    let near = NEAR.iter().filter(|(prefix, _)| of_engine.starts_with(prefix)).flat_map(|(_, suites)| *suites);
    let near: Vec<&str> = near.copied().collect();
    let (mut suites, mut is_scheduled) = (Vec::new(), false);
    for name in programs {
        match name.as_str() {
            SCHEDULES => is_scheduled = SCHEDULED.iter().any(|layer| of_engine.starts_with(layer)),
            "lib" => {}
            suite if NEVER.contains(&suite) => {}
            suite => suites.push(suite),
        }
    }
    let order = || near.iter().chain(&QUICK).chain(&ORDER);
    suites.sort_by_key(|name| (order().position(|known| known == name).unwrap_or(usize::MAX), *name));
    let suites = suites.into_iter().map(|name| Step {
        name: name.to_owned(),
        suite: name.to_owned(),
        arguments: Vec::new(),
        is_near: near.contains(&name),
    });
    let own = of_engine.split('/').next().unwrap_or("");
    let module = module(file).map(|module| unit(&module, true));
    let (mut layers, all) = (LAYERS.to_vec(), SCHEDULES.to_owned());
    layers.sort_by_key(|layer| *layer != own);
    let layers = layers.into_iter().map(|layer| unit(layer, false));
    let schedules =
        is_scheduled.then(|| Step { name: all.clone(), suite: all.clone(), arguments: vec![all], is_near: false });
    module.into_iter().chain(suites).chain(layers).chain(schedules).collect()
}

/// The module whose unit tests are about a file: the file itself in the large layers, the layer in the small ones.
fn module(file: &str) -> Option<String> {
    let path = file.strip_prefix("crates/engine/src/")?;
    let path = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(path);
    let mut parts = path.split('/');
    let layer = parts.next()?;
    let depth = match layer {
        "db" => 1,
        "tree" if path.starts_with("tree/run/") => 2,
        "tree" => 1,
        _ => 0,
    };
    Some([layer].into_iter().chain(parts.take(depth)).collect::<Vec<_>>().join("::"))
}

/// The unit tests of a module.
fn unit(module: &str, is_near: bool) -> Step {
    Step { name: format!("unit {module}"), suite: "lib".to_owned(), arguments: vec![format!("{module}::")], is_near }
}

/// The folder of the package of a program, in the copy.
pub(super) fn folder(tree: &Path, program: &str) -> PathBuf {
    let package = program.split_once('/').map_or(ENGINE, |(package, _)| package);
    tree.join("crates").join(package)
}

/// The environment of a step.
pub(super) fn environment(size: Size, mutant: Option<u32>, program: &str) -> Vec<(String, String)> {
    let own = SMALL_BY_PROGRAM.iter().filter(|(of, _, _)| *of == program).map(|(_, name, value)| (*name, *value));
    let small = SMALL.into_iter().filter(|_| !program.contains('/')).chain(own).filter(|_| size != Size::Default);
    let settings = ALWAYS.into_iter().chain(small).map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.chain(mutant.map(|number| ("SPINNEY_MUTANT".to_owned(), number.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_the_module_come_first_and_those_of_the_layer_last() {
        let programs = ["lib", "tidy", "model", "zoo"].map(str::to_owned);
        let names = |file: &str| {
            let steps = steps(&format!("crates/engine/src/{file}"), programs.iter());
            steps.into_iter().map(|step| step.name).take(3).collect::<Vec<_>>()
        };
        assert_eq!(names("db/jobs/flush.rs"), ["unit db::jobs", "model", "zoo"]);
        assert_eq!(names("tree/run/view/mod.rs")[0], "unit tree::run::view");
        assert_eq!(names("tree/gc/mod.rs")[0], "unit tree::gc");
        assert_eq!(names("table/policy/read_triggered.rs")[0], "unit table");
    }

    #[test]
    fn suites_about_the_file_come_first_and_those_under_schedules_last() {
        let programs = ["crash", "lib", SCHEDULES, "salvage_to", "model"].map(str::to_owned);
        let names = |file: &str| {
            let steps = steps(&format!("crates/engine/src/{file}"), programs.iter());
            steps.into_iter().map(|step| step.name).collect::<Vec<_>>()
        };
        let salvage = names("db/maintenance/salvage.rs");
        assert_eq!(salvage[..3], ["unit db::maintenance", "salvage_to", "crash"]);
        assert_eq!((salvage[4].as_str(), salvage.last().unwrap().as_str()), ("unit db", SCHEDULES));
        assert!(!names("table/level.rs").contains(&SCHEDULES.to_owned()));
    }
}
