//! Faults of the server under clients that write by pymongo: scripts do it.

use std::path::PathBuf;
use std::process::Command;

use crate::clients;
use crate::step;

/// The script of a server that is killed again and again.
pub(super) const KILLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kills.py");
/// The script of pairs of catalog operations.
pub(super) const CATALOG_PAIRS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/catalog_pairs.py");
/// The script of the faults of a replica set.
pub(super) const REPLICA_FAULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/replica_faults.py");
/// The script of bad links between the members of a replica set.
pub(super) const PARTITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/partitions.py");
/// The script of reads at cluster times beside transfers.
pub(super) const SNAPSHOT_READS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/snapshot_reads.py");
/// The script that tells how long a replica set is without a primary.
pub(super) const REPLICA_FAILOVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/replica_failover.py");
/// The script of what a client can make long.
pub(super) const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/limits.py");
/// The script that tells how fast a member is replaced.
pub(super) const REPLICA_REPLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/replica_replace.py");

/// Runs a script with `[--python PATH] [--binary PATH] [ARGUMENTS ..]`; the others are those of the script.
pub(super) fn command(script: &str, arguments: &[&str]) -> Result<(), String> {
    let (mut python, mut binary, mut others) = (None, None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--python" => python = Some(PathBuf::from(rest.next().ok_or("--python needs a path")?)),
            "--binary" => binary = Some(PathBuf::from(rest.next().ok_or("--binary needs a path")?)),
            other => others.push(other),
        }
    }
    let python = match python {
        Some(python) => python,
        None => clients::python("python3")?,
    };
    let binary = match binary {
        Some(binary) => binary,
        None => clients::built()?,
    };
    let mut command = Command::new(python);
    command.arg(script).arg(binary).args(others).env("PYTHONDONTWRITEBYTECODE", "1");
    step::run("faults of the server", &mut command)
}
