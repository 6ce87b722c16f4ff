//! Running the command and reading what it says.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The layouts, as the command names them.
pub(crate) const LAYOUTS: [&str; 3] = ["btree", "lsm", "lsm-tiered"];

/// A directory with a database called `db` in it, or not yet.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    /// A database of the sample records in table `packages`.
    pub(crate) fn loaded(layout: &str) -> Self {
        let place = Self::new();
        place.ok(&[
            "load",
            "db",
            "packages",
            "--jsonl",
            &sample("packages.jsonl"),
            "--key",
            "package",
            "--layout",
            layout,
        ]);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file and returns its name for an argument.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        name.to_owned()
    }

    /// The command with these arguments, in this directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spinney"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the command with text on stdin.
    pub(crate) fn run_with(&self, args: &[&str], stdin: &[u8]) -> Output {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command that fails early leaves the rest unread.
        child.stdin.take().unwrap().write_all(stdin).ok();
        child.wait_with_output().unwrap()
    }

    /// What a command that must succeed prints; it says nothing on stderr.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The bytes that a command prints that must succeed.
    pub(crate) fn bytes(&self, args: &[&str]) -> Vec<u8> {
        let output = self.run(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
        output.stdout
    }

    /// The message of a command that must fail: one line, and exit code 1.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        failure(&self.run(args), args)
    }

    /// The message of a command that must end with an exit code of its own.
    pub(crate) fn ends(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        stderr
    }

    /// The message of a command line that must be refused.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        self.ends(2, args)
    }

    /// All entries of a table.
    pub(crate) fn entries(&self, table: &str) -> Vec<(String, String)> {
        entries(&self.ok(&["scan", "db", table]))
    }

    pub(crate) fn count(&self, table: &str) -> usize {
        self.ok(&["count", "db", table]).trim().parse().unwrap()
    }

    /// Whether the database is sound.
    pub(crate) fn verify(&self) {
        self.ok(&["verify", "db"]);
    }
}

/// The message of a run that must have failed.
pub(crate) fn failure(output: &Output, args: &[&str]) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    stderr.strip_prefix("spinney: ").unwrap_or_else(|| panic!("{args:?}: {stderr}")).trim_end().to_owned()
}

/// Says that a part of a test cannot run here. Past the capture of the test's output, so that it is always seen.
pub(crate) fn skip(what: &str, why: &str) {
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED: {what}: {why}").unwrap();
}

/// The lines of a scan, taken apart.
pub(crate) fn entries(scan: &str) -> Vec<(String, String)> {
    scan.lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// A file of the repository's `testdata`.
pub(crate) fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// The sample records by their key.
pub(crate) fn sample_entries() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(sample("packages.jsonl")).unwrap();
    let entry = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        (record["package"].as_str().unwrap().to_owned(), line.to_owned())
    };
    text.lines().map(entry).collect()
}
