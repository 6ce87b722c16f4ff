//! Which tests look at a mutant, in which order, at which sizes.

/// Small sizes first: most mutants are caught by them.
const SMALL: [(&str, &str); 13] = [
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
    ("PROPTEST_CASES", "32"),
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
    /// The unit tests of the mutant's own module.
    pub(super) is_module: bool,
}

/// The steps whose size is a setting: only these show more at the default sizes.
const SIZED: [&str; 13] = [
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
];

impl Step {
    /// Whether it is done for a mutant that all before have missed.
    pub(super) fn is_of(&self, size: Size) -> bool {
        let is_quick = QUICK.contains(&self.suite.as_str()) || self.is_module;
        match size {
            Size::Quick => is_quick,
            Size::Small => !is_quick,
            Size::Default => SIZED.contains(&self.name.as_str()),
        }
    }
}

/// The layers of the engine that have unit tests of their own.
const LAYERS: [&str; 8] = ["log", "tree", "table", "txn", "db", "store", "block", "cache"];

/// The steps for a mutant in a file, of these programs: the unit tests of its module, the suites, and all unit tests.
pub(super) fn steps<'a>(file: &str, programs: impl Iterator<Item = &'a String>) -> Vec<Step> {
    let mut suites: Vec<&String> = programs.filter(|name| *name != "lib" && !NEVER.contains(&name.as_str())).collect();
    let place = |name: &String| QUICK.iter().chain(&ORDER).position(|known| known == name);
    suites.sort_by_key(|name| (place(name).unwrap_or(QUICK.len() + ORDER.len()), *name));
    let suites = suites.into_iter().map(|name| Step {
        name: name.clone(),
        suite: name.clone(),
        arguments: Vec::new(),
        is_module: false,
    });
    let layers = LAYERS.into_iter().map(|layer| unit(layer, false));
    module(file).map(|module| unit(&module, true)).into_iter().chain(suites).chain(layers).collect()
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
fn unit(module: &str, is_module: bool) -> Step {
    Step { name: format!("unit {module}"), suite: "lib".to_owned(), arguments: vec![format!("{module}::")], is_module }
}

/// The environment of a step.
pub(super) fn environment(size: Size, mutant: Option<u32>) -> Vec<(String, String)> {
    let small: &[(&str, &str)] = if size == Size::Default { &[] } else { &SMALL };
    let settings = ALWAYS.iter().chain(small).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
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
}
