//! Where results lie.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(super) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The result file of an experiment.
pub(super) fn result_path(experiment: &str) -> PathBuf {
    root().join("results").join(format!("{experiment}.json"))
}
