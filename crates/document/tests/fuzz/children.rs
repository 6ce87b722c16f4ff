//! Cases that may end their process, by the stack or by memory: each runs in a child with 256 MiB of memory, on a
//! thread with 256 KiB of stack.
//!
//! The child prints the number of each case before it begins; the parent reads which one the child did not survive, and
//! starts another behind it.

use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use spinney_testkit::parallel;

/// The stack of the thread that runs a case.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// What the process may take beyond what the tests themselves have.
const MEMORY_BYTES: usize = 256 << 20;

/// How many findings end the search.
const FINDINGS_MAX: usize = 8;

/// How much of a case is shown.
const SHOWN_BYTES_MAX: usize = 2000;

/// The child's cases, `FIRST..END`.
const CHILD: &str = "SPINNEY_FUZZ_CHILD";

/// A test whose cases have numbers.
pub(crate) struct Suite {
    /// The module of the test.
    pub(crate) module: &'static str,
    /// The test.
    pub(crate) name: &'static str,
    /// How many of the cases of other targets are as long as one of these.
    pub(crate) part: u64,
}

impl Suite {
    /// Runs the cases, which are texts; what runs one is made once in a child.
    pub(crate) fn run<R>(&self, case: fn(u64) -> String, make: impl FnOnce() -> R)
    where
        R: Fn(&str) + Send + Sync + 'static,
    {
        self.run_each(0, case, make);
    }

    /// As [`Self::run`], for at least so many cases.
    pub(crate) fn run_each<R>(&self, least: usize, case: fn(u64) -> String, make: impl FnOnce() -> R)
    where
        R: Fn(&str) + Send + Sync + 'static,
    {
        if let Ok(cases) = std::env::var(CHILD) {
            return child(&cases, case, make());
        }
        let first = parallel::count_from_env("SPINNEY_FUZZ_FROM", 0);
        let end = first + parallel::count_from_env("SPINNEY_FUZZ", 1000).div_ceil(self.part).max(least as u64);
        let (mut from, mut findings) = (first, Vec::new());
        while from < end && findings.len() < FINDINGS_MAX {
            match self.survived(from, end) {
                Ok(()) => break,
                Err((number, how)) => {
                    let text: String = case(number).chars().take(SHOWN_BYTES_MAX).collect();
                    findings.push(format!("case {number}: {how}\n  {text}"));
                    from = number + 1;
                }
            }
        }
        let test = format!("cargo test -p spinney-document --test fuzz {}", self.name);
        let replay = format!("SPINNEY_FUZZ=1 SPINNEY_FUZZ_FROM=NUMBER {test}");
        assert!(findings.is_empty(), "{}\nto run one again: {replay}", findings.join("\n"));
    }

    /// Runs cases in a child: the one that it did not survive, and how it ended.
    fn survived(&self, first: u64, end: u64) -> Result<(), (u64, String)> {
        let name = format!("{}::{}", self.module, self.name);
        let program = std::env::current_exe().expect("the test's program");
        let mut child = Command::new(program)
            .args([&*name, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{first}..{end}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        let (send, lines) = channel();
        let (out, error) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let reader = thread::Builder::new()
            .spawn(move || BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let errors = thread::Builder::new()
            .spawn(move || BufReader::new(error).lines().map_while(Result::ok).collect::<Vec<_>>());
        let (mut at, mut ended) = (first, None);
        loop {
            match lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => {
                    let number = line.rsplit_once("case ").and_then(|(_, number)| number.parse().ok());
                    at = number.unwrap_or(at);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    ended = Some("it takes more than a minute".to_owned());
                    child.kill().expect("the child can be ended");
                    break;
                }
            }
        }
        let status = child.wait().expect("the child ends");
        // The reader ends with the pipe, whether or not the lines were taken.
        drop(lines);
        drop(reader.expect("a thread").join());
        let errors = errors.expect("a thread").join().expect("no panic");
        if at == end && status.success() {
            return Ok(());
        }
        let said = |line: &&String| {
            ["overflow", "memory", "panicked", "nested", "invalid"].iter().any(|word| line.contains(word))
        };
        let said: Vec<&str> = errors.iter().filter(said).map(String::as_str).collect();
        Err((at, ended.unwrap_or_else(|| format!("{status}: {}", said.join("; ")))))
    }
}

/// The child: each case on a thread with little stack.
fn child<R: Fn(&str) + Send + Sync + 'static>(cases: &str, case: fn(u64) -> String, run: R) {
    let (first, end) = cases.split_once("..").expect("a range");
    let (first, end): (u64, u64) = (first.parse().expect("a number"), end.parse().expect("a number"));
    super::memory::limit(MEMORY_BYTES);
    let run = Arc::new(run);
    for number in first..end {
        writeln!(stdout(), "case {number}").expect("the parent reads");
        let (text, run) = (case(number), Arc::clone(&run));
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || run(&text));
        thread.expect("a thread").join().expect("the case holds");
    }
    writeln!(stdout(), "case {end}").expect("the parent reads");
}
