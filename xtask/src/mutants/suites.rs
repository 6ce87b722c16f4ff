//! Which tests look at a mutant, in which order, at which sizes.

/// Small sizes first: most mutants are caught by them.
const SMALL: [(&str, &str); 12] = [
    ("SPINNEY_SEEDS", "100"),
    ("SPINNEY_CRASH_POINTS", "3000"),
    ("SPINNEY_SIM_SEEDS", "100"),
    ("SPINNEY_LISTS", "4"),
    ("SPINNEY_FAULTS", "1"),
    ("SPINNEY_DAMAGE", "800"),
    ("SPINNEY_TRANSACTIONS", "4000"),
    ("SPINNEY_SALVAGE_POINTS", "300"),
    ("SPINNEY_CHECKPOINT_SEEDS", "4"),
    ("SPINNEY_UNLOGGED_SEEDS", "3"),
    ("SPINNEY_FUZZ", "100"),
    ("PROPTEST_CASES", "64"),
];

/// In every run: no time for shorter examples, and no example of one mutant for the next.
const ALWAYS: [(&str, &str); 3] =
    [("PROPTEST_MAX_SHRINK_ITERS", "0"), ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"), ("RUST_BACKTRACE", "0")];

/// The suites of `crates/engine/tests`, those that notice most for their time first. Those that are not named here come behind them.
const ORDER: [&str; 14] = [
    "model",
    "simulation",
    "crash",
    "histories",
    "faults",
    "edges",
    "metamorphic",
    "changes",
    "bulk_load",
    "erasures",
    "concurrent",
    "parked",
    "recovery",
    "salvage",
];

/// Suites that say nothing about what the engine does.
const NEVER: [&str; 2] = ["tidy", "fuzz"];

/// Sizes of the suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Size {
    Small,
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
}

/// The steps whose size is a setting: only these show more at the default sizes.
const SIZED: [&str; 12] = [
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
    /// Whether it looks at more at the default size than at the small one.
    pub(super) fn is_sized(&self) -> bool {
        SIZED.contains(&self.name.as_str())
    }
}

/// The layers of the engine that have unit tests of their own.
const LAYERS: [&str; 8] = ["log", "tree", "table", "txn", "db", "store", "block", "cache"];

/// The steps for a mutant in a file, of these programs.
pub(super) fn steps<'a>(file: &str, programs: impl Iterator<Item = &'a String>) -> Vec<Step> {
    let layer = file.strip_prefix("crates/engine/src/").and_then(|path| path.split('/').next());
    let layer = layer.filter(|layer| LAYERS.contains(layer));
    let mut suites: Vec<&String> = programs.filter(|name| *name != "lib" && !NEVER.contains(&name.as_str())).collect();
    suites.sort_by_key(|name| (ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len()), *name));
    let suites = suites.into_iter().map(|name| Step { name: name.clone(), suite: name.clone(), arguments: Vec::new() });
    let own = layer.map(unit);
    let others = LAYERS.into_iter().filter(|other| Some(*other) != layer).map(unit);
    own.into_iter().chain(suites).chain(others).collect()
}

/// The unit tests of a layer.
fn unit(layer: &str) -> Step {
    Step { name: format!("unit {layer}"), suite: "lib".to_owned(), arguments: vec![format!("{layer}::")] }
}

/// The environment of a step.
pub(super) fn environment(size: Size, mutant: Option<u32>) -> Vec<(String, String)> {
    let small: &[(&str, &str)] = if size == Size::Small { &SMALL } else { &[] };
    let settings = ALWAYS.iter().chain(small).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    settings.chain(mutant.map(|number| ("SPINNEY_MUTANT".to_owned(), number.to_string()))).collect()
}
