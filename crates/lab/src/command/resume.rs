//! What a benchmark leaves in its directory, so that it can go on when it was interrupted.
//!
//! # Format `options.json` has what was asked for, and `ENGINE-REPETITION.progress` what each run came to, as its
//! worker hands it over. The data of a run is in `ENGINE-REPETITION`.

use super::common::Common;
use super::handover::Heard;
use crate::experiments::Experiment;
use crate::report::{Build, Run};
use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was asked for, as far as results depend on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) experiment: Experiment,
    pub(super) common: Common,
    pub(super) repeat: u32,
    pub(super) build: Build,
}

impl Asked {
    fn path(dir: &Path) -> PathBuf {
        dir.join("options.json")
    }

    /// Writes it down for a run that may go on.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let path = Self::path(dir);
        std::fs::write(&path, serde_json::to_vec(self)?).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Refuses to go on with a run that was begun with other options.
    pub(super) fn check(&self, dir: &Path) -> Result<()> {
        let path = Self::path(dir);
        let text = std::fs::read(&path).with_context(|| {
            format!("there is no run in {} that could go on: cannot read {}", dir.display(), path.display())
        })?;
        let earlier: Value = serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
        let differences = differences(&earlier, &serde_json::to_value(self)?);
        ensure!(
            differences.is_empty(),
            "the run in {} was begun with other options: {}; give the same, or begin anew without --resume",
            dir.display(),
            differences.join(", ")
        );
        Ok(())
    }

    /// Refuses what cannot go on, before it begins.
    pub(super) fn check_resumes(&self) -> Result<()> {
        if !self.experiment.resumes() {
            bail!("`{}` cannot go on when it was interrupted: only insert and kv can", self.experiment.name());
        }
        ensure!(!self.common.verify, "--verify cannot go on: its model of the database is gone; leave one of both out");
        Ok(())
    }
}

/// Which values differ, by name: `num was 2000 and is 3000`.
fn differences(earlier: &Value, now: &Value) -> Vec<String> {
    let (mut then, mut here) = (BTreeMap::new(), BTreeMap::new());
    flatten("", earlier, &mut then);
    flatten("", now, &mut here);
    let names: std::collections::BTreeSet<_> = then.keys().chain(here.keys()).collect();
    let differs = |name: &&String| then.get(*name) != here.get(*name);
    let text = |value: Option<&String>| value.cloned().unwrap_or_else(|| "none".to_owned());
    let line = |name: &String| {
        let short = name.rsplit('.').next().unwrap_or(name).replace('_', "-");
        format!("{short} was {} and is {}", text(then.get(name)), text(here.get(name)))
    };
    names.into_iter().filter(differs).map(line).collect()
}

/// The values that are no objects, by their path.
fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            fields.iter().for_each(|(name, value)| flatten(&inner(name), value, into));
        }
        Value::Null => {}
        value => drop(into.insert(path.to_owned(), value.to_string())),
    }
}

/// What a run came to, by the file of its progress: nothing when it was never begun. The end of a line that was cut
/// short is removed from the file, so that more can be written behind it.
pub(super) fn progress(path: &Path) -> Result<Option<Run>> {
    let cannot = || format!("cannot read {}", path.display());
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(cannot)?,
    };
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        std::fs::write(path, &bytes[..whole]).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = std::str::from_utf8(&bytes[..whole]).with_context(cannot)?;
    Ok(Heard::new(text).into_run("it was interrupted"))
}

/// Whether a run came to its end, so that nothing of it is left to do.
pub(super) fn is_over(run: &Run) -> bool {
    !run.partial && run.error.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::job;

    fn asked(arguments: &str) -> Asked {
        let job = job(arguments, "spinney-lsm", Path::new(""));
        Asked { experiment: job.experiment, common: job.common, repeat: 1, build: Build::this() }
    }

    #[test]
    fn a_run_goes_on_with_the_same_options_only() {
        let dir = tempfile::tempdir().unwrap();
        let begun = asked("kv --num 2000 --threads 2");
        assert!(begun.check(dir.path()).unwrap_err().to_string().contains("no run"), "nothing is there");
        begun.write(dir.path()).unwrap();
        asked("kv --threads 2 --num 2K").check(dir.path()).unwrap();
        let refused = asked("kv --num 3000 --threads 2 --duration 5").check(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains("other options: duration was none and is 5.0, num was 2000 and is 3000;"),
            "{refused}"
        );
        let other = Asked { build: Build { version: "0.0.9".to_owned(), ..Build::this() }, ..begun.clone() };
        assert!(other.check(dir.path()).unwrap_err().to_string().contains("version was"));
        assert!(begun.check_resumes().is_ok());
        assert!(asked("shape").check_resumes().unwrap_err().to_string().contains("only insert and kv"));
        assert!(asked("kv --verify").check_resumes().unwrap_err().to_string().contains("--verify"));
    }

    #[test]
    fn a_line_that_was_cut_short_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lsm-0.progress");
        assert!(progress(&path).unwrap().is_none());
        std::fs::write(&path, "{\"begins\":\"load\"}\n{\"step\":[0,").unwrap();
        assert!(progress(&path).unwrap().is_none(), "nothing but a beginning");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"begins\":\"load\"}\n");
    }
}
