//! The laboratory's `bench` command with other storage engines beside our own.
//!
//! All engines of this binary share one allocator, the one that RocksDB's authors recommend, and are built for the
//! processor of the machine that builds them.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(any(feature = "fjall", feature = "lmdb", feature = "redb", feature = "sqlite"))]
mod log_options;
#[cfg(feature = "mariadb")]
mod mariadb;
#[cfg(any(feature = "mariadb", feature = "wiredtiger"))]
mod quiet;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(
    feature = "fjall",
    feature = "lmdb",
    feature = "mariadb",
    feature = "redb",
    feature = "rocksdb",
    feature = "sqlite",
    feature = "wiredtiger"
))]
mod ticker;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

use anyhow::Result;
use clap::Parser;
use spinney_lab::command::{self, BenchArgs, Host};
use spinney_lab::driver::{self, Engine};
use spinney_lab::{Interrupted, signals};
use std::process::ExitCode;

/// jemalloc reads it at its beginning: memory on huge pages, from which all engines gain.
// SAFETY: nothing else has this name, and jemalloc looks at the address in front only, which is that of a string that
// ends with a zero.
#[unsafe(export_name = "malloc_conf")]
pub static MALLOC_CONF: &[u8] = b"thp:always\0";

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measure storage engines: speed, and what each operation costs
#[derive(Debug, Parser)]
#[command(name = "peers", version)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::from(if error.chain().any(|cause| cause.is::<Interrupted>()) { 130 } else { 1 })
        }
    }
}

fn run(args: BenchArgs) -> Result<()> {
    let host = Host { engines: engines(), worker: &["worker"] };
    command::run(args, &host, &signals::stop()?, &mut std::io::stdout().lock())
}

/// Our own engines, and the others in the order in which reports show them.
fn engines() -> Vec<Box<dyn Engine>> {
    let mut engines = driver::engines();
    engines.extend(driver::document_engines());
    #[cfg(feature = "rocksdb")]
    engines.extend(rocksdb::engines());
    #[cfg(feature = "wiredtiger")]
    {
        use wiredtiger::{Tree, WiredTiger};
        engines.push(Box::new(WiredTiger { tree: Tree::Btree }));
        engines.push(Box::new(WiredTiger { tree: Tree::Lsm }));
    }
    #[cfg(feature = "lmdb")]
    engines.push(Box::new(lmdb::Lmdb));
    #[cfg(feature = "redb")]
    engines.push(Box::new(redb::Redb));
    #[cfg(feature = "fjall")]
    engines.push(Box::new(fjall::Fjall));
    #[cfg(feature = "sqlite")]
    {
        engines.push(Box::new(sqlite::Sqlite));
        engines.push(Box::new(sqlite::SqliteDocuments));
    }
    #[cfg(feature = "mariadb")]
    {
        use mariadb::{Kind, MariaDb};
        engines.push(Box::new(MariaDb { kind: Kind::InnoDb }));
        engines.push(Box::new(MariaDb { kind: Kind::MyRocks }));
    }
    engines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check that none of these engines can do.
    const MANY_KEYS: &str = "a read of many keys finds what single reads find";

    /// Puts the engine with this name through the lab's checks; returns those that it had no way to do.
    fn lacking(name: &str) -> Vec<&'static str> {
        let dir = tempfile::tempdir().unwrap();
        let engine = engines().into_iter().find(|engine| engine.name() == name).unwrap();
        let lacking = driver::conformance(&*engine, dir.path()).unwrap_or_else(|error| panic!("{error:#}"));
        lacking.into_iter().map(|(check, _)| check).collect()
    }

    #[test]
    #[cfg(feature = "lmdb")]
    fn lmdb_conforms() {
        assert_eq!(lacking("lmdb"), [MANY_KEYS]);
    }

    #[test]
    #[cfg(feature = "redb")]
    fn redb_conforms() {
        assert_eq!(lacking("redb"), [MANY_KEYS]);
    }

    #[test]
    #[cfg(feature = "fjall")]
    fn fjall_conforms() {
        assert_eq!(lacking("fjall"), [MANY_KEYS]);
    }

    #[test]
    #[cfg(feature = "sqlite")]
    fn sqlite_conforms() {
        assert_eq!(lacking("sqlite"), [MANY_KEYS]);
    }
}
