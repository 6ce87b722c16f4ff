//! A server process of our own on a data directory of its own.
//!
//! The server listens on a socket in its data directory only. The path of a socket has to be short, and that of a data
//! directory may be long: the server binds a relative path, and we go through `/proc/<pid>/cwd`, which is the data
//! directory.

use super::config::Options;
use anyhow::{Context as _, Result, bail, ensure};
use mysql::{Conn, OptsBuilder};
use spinney_lab::Clock;
use std::ffi::{c_int, c_ulong};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOCKET: &str = "socket";
const ERRORS: &str = "errors.txt";
/// A start recovers what the last end left.
const START: Duration = Duration::from_secs(600);
const STOP: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(50);

/// A running server; dropped, it is killed.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
}

/// The server's version, if there is one.
pub(super) fn version() -> Option<String> {
    let output = Command::new(program("mariadbd")?).args(["--no-defaults", "--version"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // "mariadbd  Ver 10.11.6-MariaDB for …"
    let version = text.split("Ver ").nth(1)?.split_whitespace().next()?;
    Some(version.split("-MariaDB").next()?.to_owned())
}

/// The program that makes data directories, if it is there.
pub(super) fn installer() -> Option<PathBuf> {
    program("mariadb-install-db")
}

/// Whether the server has a plugin where distributions put them.
pub(super) fn has_plugin(file: &str) -> bool {
    ["/usr/lib/mysql/plugin", "/usr/lib64/mysql/plugin", "/usr/lib64/mariadb/plugin"]
        .iter()
        .any(|dir| Path::new(dir).join(file).exists())
}

/// Servers lie in directories that not every user's `PATH` has.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(name)).find(|path| path.is_file())
}

impl Server {
    /// Makes the data directory if there is none, and starts a server that accepts connections when this returns.
    pub(super) fn start(dir: &Path, log_dir: Option<&Path>, options: &Options) -> Result<Self> {
        let dir = std::path::absolute(dir)?;
        let temporary = temporary(&dir)?;
        if !dir.exists() {
            install(&dir, &temporary)?;
        }
        // What a server that was killed left behind must not be taken for this one's.
        std::fs::remove_file(dir.join(SOCKET)).ok();
        let mut command = Command::new(program("mariadbd").context("there is no mariadbd")?);
        command.arg("--no-defaults").arg(format!("--datadir={}", dir.display())).args(as_user());
        command.env("TMPDIR", &temporary);
        command.args([&format!("--socket={SOCKET}"), &format!("--log-error={ERRORS}")]);
        command.args([
            "--skip-networking",
            "--skip-grant-tables",
            "--skip-log-bin",
            "--skip-name-resolve",
            "--performance-schema=OFF",
            "--query-cache-type=0",
            "--max-connections=1000",
            "--key-buffer-size=1M",
            "--aria-pagecache-buffer-size=8M",
            "--table-open-cache=400",
        ]);
        if let Some(log_dir) = log_dir {
            std::fs::create_dir_all(log_dir)?;
            let log_dir = std::path::absolute(log_dir)?;
            let rocks = options.iter().any(|(name, _)| name == "plugin_load_add");
            let name = if rocks { "rocksdb_wal_dir" } else { "innodb_log_group_home_dir" };
            command.arg(format!("--{name}={}", log_dir.display()));
        }
        // Plugins have to be named before their options.
        let (plugins, rest): (Vec<_>, Vec<_>) = options.iter().partition(|(name, _)| name == "plugin_load_add");
        for (name, value) in plugins.into_iter().chain(rest).filter(|(name, _)| name != "flush_log_at_trx_commit") {
            command.arg(format!("--{name}={value}"));
        }
        // Our stdout is the worker's result.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        die_with_parent(&mut command);
        let process = command.spawn().context("cannot start mariadbd")?;
        let mut server = Self { process };
        server.wait_until_ready(&dir)?;
        Ok(server)
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// A connection, with `database` if it is named.
    pub(super) fn connect(&self, database: Option<&str>) -> Result<Conn> {
        let socket = format!("/proc/{}/cwd/{SOCKET}", self.id());
        let options = OptsBuilder::new().socket(Some(socket)).user(Some("root")).db_name(database).stmt_cache_size(0);
        Ok(Conn::new(options)?)
    }

    /// Ends it in order.
    pub(super) fn stop(mut self) -> Result<()> {
        use mysql::prelude::Queryable as _;
        self.connect(None)?.query_drop("SHUTDOWN")?;
        let clock = Clock::real();
        while clock.now() < STOP {
            if let Some(status) = self.process.try_wait()? {
                ensure!(status.success(), "mariadbd ended with {status}");
                return Ok(());
            }
            clock.sleep(LOOK);
        }
        bail!("mariadbd did not end within {} s", STOP.as_secs())
    }

    fn wait_until_ready(&mut self, dir: &Path) -> Result<()> {
        let clock = Clock::real();
        while clock.now() < START {
            if let Some(status) = self.process.try_wait()? {
                bail!("mariadbd ended at its start with {status}: {}", last_errors(dir));
            }
            if dir.join(SOCKET).exists() && self.connect(None).is_ok() {
                return Ok(());
            }
            clock.sleep(LOOK);
        }
        bail!("mariadbd was not ready after {} s: {}", START.as_secs(), last_errors(dir))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is as well.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Keeps the terminal's signals from the server, which ends when it is told to, and ends it when this process is
/// killed.
fn die_with_parent(command: &mut Command) {
    const PR_SET_PDEATHSIG: c_int = 1;
    const SIGKILL: c_ulong = 9;
    unsafe extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
    }
    command.process_group(0);
    let ask = || {
        // SAFETY: a system call that touches no memory of ours; its failure leaves the server as it would be without.
        unsafe { prctl(PR_SET_PDEATHSIG, SIGKILL) };
        Ok(())
    };
    // SAFETY: between fork and exec the closure does nothing but that call.
    unsafe { command.pre_exec(ask) };
}

/// A directory for temporary files beside the data directory: a server that starts removes all that servers left in it,
/// so that one which is shared is no place for those of a server that runs.
fn temporary(dir: &Path) -> Result<PathBuf> {
    let mut name = dir.file_name().context("a data directory has a name")?.to_owned();
    name.push("-temporary");
    let temporary = dir.with_file_name(name);
    std::fs::create_dir_all(&temporary).with_context(|| format!("cannot make {}", temporary.display()))?;
    Ok(temporary)
}

fn install(dir: &Path, temporary: &Path) -> Result<()> {
    let mut command = Command::new(installer().context("there is no mariadb-install-db")?);
    command.arg("--no-defaults").arg(format!("--datadir={}", dir.display())).args(as_user());
    command.env("TMPDIR", temporary);
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
    let output = command.stdin(Stdio::null()).output().context("cannot start mariadb-install-db")?;
    ensure!(output.status.success(), "mariadb-install-db failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A server refuses to be root's unless it is told so.
fn as_user() -> Option<&'static str> {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0);
    root.then_some("--user=root")
}

fn last_errors(dir: &Path) -> String {
    let text = std::fs::read_to_string(dir.join(ERRORS)).unwrap_or_default();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("[ERROR]")).collect();
    errors[errors.len().saturating_sub(5)..].join("; ")
}
