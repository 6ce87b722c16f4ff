//! Runs one test program until it ends, a test of it fails, or it is clear that it will not end.
//!
//! Limits are of processor time, so that a busy machine does not make a slow run a caught mutant: a run that takes four
//! times what the run without a mutant took does not end, and one that takes no processor time for long stands still.
//! Only a generous limit is of the clock, for tests whose threads tick while they wait.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How often a run is looked at: soon after its start, and then this often.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_SOON: Duration = Duration::from_millis(4);

/// A run without any processor time for so long stands still.
const STANDSTILL: Duration = Duration::from_secs(20);

/// No run needs so much memory.
const MEMORY_MAX: u64 = 3 << 30;

/// No run needs so much address space, in KiB. It ends what allocates faster than the run is looked at.
const ADDRESSES_MAX: u64 = 64 << 20;

/// No file of a test is so large, in units of 512 bytes.
const FILE_MAX: u64 = 8 << 20;

/// A run may take so many times the processor time of the run without a mutant, and so much more.
const TIMES: u32 = 4;
const MORE: Duration = Duration::from_secs(2);

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All tests were green.
    Green,
    /// A test failed: its name.
    Failed(String),
    /// The program died of a signal or the like.
    Died(String),
    /// It would not have ended.
    Wedged(String),
    /// It took all memory.
    Memory,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Took {
    pub(super) processor: Duration,
    pub(super) wall: Duration,
}

impl Took {
    /// What it costs to run it beside others: its processor time, and a share of the time that it only waits.
    pub(super) fn cost(self) -> Duration {
        self.processor + self.wall / 16
    }
}

/// What is run, and where.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) environment: &'a [(String, String)],
    /// The folder of the program's package.
    pub(super) folder: &'a Path,
    /// Gets its output.
    pub(super) log: PathBuf,
    /// For its temporary files; emptied behind it.
    pub(super) scratch: PathBuf,
    /// What the run without a mutant took of the processor, if it is known.
    pub(super) usual: Option<Duration>,
    /// How long it may take by the clock.
    pub(super) wall_max: Option<Duration>,
}

/// Runs a program to its end, and returns what it took.
///
/// # Errors
/// When it cannot be started.
pub(super) fn run(task: &Task<'_>) -> Result<(End, Took), String> {
    let told = |error: std::io::Error| format!("{}: {error}", task.program.display());
    fs::create_dir_all(&task.scratch).map_err(told)?;
    let log = File::create(&task.log).map_err(told)?;
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -f {FILE_MAX}; ulimit -v {ADDRESSES_MAX}; exec \"$0\" \"$@\"")])
        .arg(task.program)
        .args(task.arguments)
        .envs(task.environment.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", &task.scratch)
        .env("CARGO_MANIFEST_DIR", task.folder)
        .current_dir(task.folder)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(told)?)
        .stderr(log);
    let mut child = command.spawn().map_err(told)?;
    let ended = watch(&mut child, task);
    // What it started may outlive it. Where all is gone already, `kill` fails.
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status().map_err(told)?;
    child.wait().map_err(told)?;
    match fs::remove_dir_all(&task.scratch) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", task.scratch.display())),
        _ => ended,
    }
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn watch(child: &mut Child, task: &Task<'_>) -> Result<(End, Took), String> {
    let start = Instant::now();
    let (mut took, mut moved, mut look) = (Took::default(), start, LOOK_SOON);
    loop {
        // Before it is reaped: then what it has used is complete.
        let used = Used::of(child.id()).unwrap_or(Used { processor: took.processor, memory: 0 });
        took.wall = start.elapsed();
        if used.processor > took.processor {
            (took.processor, moved) = (used.processor, Instant::now());
        }
        let ended = child.try_wait().map_err(|error| format!("{}: {error}", task.program.display()))?;
        let log = fs::read(&task.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        if let Some(test) = failed(&log) {
            return Ok((End::Failed(test), took));
        }
        if let Some(status) = ended {
            let end = match (status.success(), status.code()) {
                (true, _) => End::Green,
                (false, Some(code)) => End::Died(format!("exit code {code}")),
                (false, None) => End::Died(status.to_string()),
            };
            return Ok((end, took));
        }
        if used.memory > MEMORY_MAX {
            return Ok((End::Memory, took));
        }
        if let Some(usual) = task.usual {
            if took.processor > usual * TIMES + MORE {
                return Ok((End::Wedged(format!("{} s of processor time", took.processor.as_secs())), took));
            }
            if moved.elapsed() > STANDSTILL {
                return Ok((End::Wedged("stands still".to_owned()), took));
            }
        }
        if task.wall_max.is_some_and(|max| took.wall > max) {
            return Ok((End::Wedged(format!("{} s by the clock", took.wall.as_secs())), took));
        }
        std::thread::sleep(look);
        look = LOOK.min(look * 2);
    }
}

/// A folder for temporary files of a run, with a short path: that of a socket must not be longer than 107 bytes.
pub(super) fn scratch(label: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    label.hash(&mut hasher);
    std::env::temp_dir().join(format!("mutant-{}-{:08x}", std::process::id(), hasher.finish() >> 32))
}

/// Does something with each of a list, so many at once; stops at the first error.
///
/// # Errors
/// The first.
pub(super) fn each<T: Sync>(
    jobs: usize,
    list: &[T],
    act: impl Fn(&T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(item)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no step panics"))
    })
}

/// Appends a line to a file of results.
///
/// # Errors
/// When it cannot be written.
#[expect(clippy::disallowed_methods, reason = "a real file of results")]
pub(super) fn append(path: &Path, line: &impl Serialize) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let line = serde_json::to_string(line).expect("plain data");
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(told)?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(told)
}

/// The first test that the output says has failed.
fn failed(log: &str) -> Option<String> {
    let test = log.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))?;
    Some(test.to_owned())
}

/// What a process has used.
struct Used {
    processor: Duration,
    memory: u64,
}

impl Used {
    /// From `/proc`; none where there is no such thing, or the process is gone.
    fn of(process: u32) -> Option<Self> {
        const TICKS: u64 = 100;
        const PAGE: u64 = 4096;
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program stands in brackets and may be anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number).and_then(|field| field.parse::<u64>().ok());
        // User and system time, of the process and of its children that have ended.
        let ticks: u64 = (11..15).filter_map(field).sum();
        Some(Self { processor: Duration::from_millis(ticks * 1000 / TICKS), memory: field(21)? * PAGE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(script: &str, usual: Option<Duration>) -> End {
        let home = std::env::temp_dir().join(format!("spinney-xtask-{}-{}", std::process::id(), script.len()));
        fs::create_dir_all(&home).unwrap();
        let task = Task {
            program: Path::new("/bin/sh"),
            arguments: &["-c".to_owned(), script.to_owned()],
            environment: &[],
            folder: Path::new("/"),
            log: home.join("log"),
            scratch: home.join("scratch"),
            usual,
            wall_max: Some(Duration::from_secs(60)),
        };
        let end = run(&task).unwrap().0;
        fs::remove_dir_all(&home).unwrap();
        end
    }

    #[test]
    fn every_end_is_told() {
        assert_eq!(ran("echo test a ... ok", None), End::Green);
        assert_eq!(ran("echo 'test b::c ... FAILED'; sleep 100", None), End::Failed("b::c".to_owned()));
        assert_eq!(ran("exit 7", None), End::Died("exit code 7".to_owned()));
        assert!(matches!(ran("kill -ABRT $$", None), End::Died(_)));
    }
}
