//! The arguments of `serve`.

use crate::args::{DbArgs, DurabilityArg, number_within, size_within};
use clap::Args;
use std::path::PathBuf;

/// Serve the documents of a database to clients of MongoDB, until ctrl-C
///
/// Drivers, shells and tools of MongoDB connect as they are. The database is made if there is none. With --replSet it
/// appears as the only member of a replica set, which drivers ask for before they use transactions, retryable writes
/// and change streams; with --members three or more servers are one replica set, which goes on while more than half of
/// them run. Where it listens and how clients connect is printed; events go to stderr.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  spinney serve shop
  spinney serve shop --listen 0.0.0.0:27017 --replSet rs0
  spinney serve shop --unix /run/spinney.sock --log-json
  spinney serve shop --replSet rs0 --listen db1:27017 --members db1:27017,db2:27017,db3:27017
  spinney serve --config /etc/spinney/spinney.toml
  mongosh mongodb://127.0.0.1:27017/shop")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(super) db: DbArgs,
    /// File in TOML with options by their names here; those here and in the environment, as SPINNEY_LISTEN, win
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Address and port to listen on; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:27017")]
    pub(super) listen: String,
    /// Path of a Unix domain socket to listen on as well
    #[arg(long, value_name = "PATH")]
    pub(super) unix: Option<PathBuf>,
    /// Name of the replica set to appear as, or to be a member of
    #[arg(long = "replSet", alias = "repl-set", value_name = "NAME")]
    pub(super) replica_set: Option<String>,
    /// Addresses of the members of the replica set, this one included, with commas between them. The first forms the
    /// set when all are new; later changes of the members are by rs.add() and rs.remove()
    #[arg(long, value_name = "ADDRESSES", requires = "replica_set")]
    pub(super) members: Option<String>,
    /// Wait until rs.initiate() here, or rs.add() on the primary of a set, makes this server a member
    #[arg(long, requires = "replica_set", conflicts_with = "members")]
    pub(super) join: bool,
    /// Address by which clients and other members reach this member [default: that of --listen]
    #[arg(long, value_name = "ADDRESS", requires = "replica_set")]
    pub(super) advertise: Option<String>,
    /// File with the key that the members of the replica set share, in base64: members log in by it; implies --auth
    #[arg(long = "keyFile", alias = "key-file", value_name = "FILE", requires = "replica_set")]
    pub(super) key_file: Option<PathBuf>,
    /// MiB of the log that are kept for change streams and for writes that are sent again, from 1
    #[arg(
        long = "oplogSize",
        alias = "oplog-size",
        value_name = "MIB",
        default_value_t = 1024,
        value_parser = number_within::<u32>((1, u64::from(u32::MAX))),
        requires = "replica_set"
    )]
    pub(super) oplog_size: u32,
    /// Give up the log of changes that a server with --replSet has kept: without this it is kept
    #[arg(long, conflicts_with = "replica_set")]
    pub(super) cut_log: bool,
    /// Clients must log in. While there are no users, a client of this machine may create the first one in `admin`
    #[arg(long)]
    pub(super) auth: bool,
    /// Certificates of the server in PEM, its own first: connections by TCP are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// Certificates in PEM of which one must have signed the certificate of each client
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_ca: Option<PathBuf>,
    /// Address and port for a page of what the server does, /metrics (Prometheus) and /health, without a login
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,
    /// What a write waits for whose write concern does not say
    #[arg(long, value_enum, value_name = "DURABILITY", default_value_t = DurabilityArg::Sync)]
    pub(super) journal: DurabilityArg,
    /// Write events to stderr as JSON, one object a line
    #[arg(long)]
    pub(super) log_json: bool,
    /// Most connections at a time. Each takes a file descriptor and a thread: where the system allows fewer open files
    /// (ulimit -n) or mappings of memory (vm.max_map_count), fewer connections are taken
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = number_within::<u32>((1, 100_000)))]
    pub(super) connections: u32,
    /// Memory for all messages together that clients send and that are not answered yet: connections wait in their
    /// order for a message for which there is none. From 128MiB; twice --memory, up to 1GiB, unless it is given
    #[arg(long, value_name = "SIZE", value_parser = size_within((128 << 20, 1 << 40)))]
    pub(super) message_memory: Option<u64>,
    /// Have commands that only tests need, such as configureFailPoint
    #[arg(long)]
    pub(super) test_commands: bool,
}
