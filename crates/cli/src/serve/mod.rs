//! `serve`: the documents of a database for clients of MongoDB.

pub(crate) mod args;
pub(crate) mod config;
mod limits;
mod member;
mod notify;

use crate::failure::Usage;
use crate::output::Output;
use crate::prometheus;
use crate::store::{cut_log, in_new_or_old, keep_log};
use anyhow::{Context as _, Error, Result, bail};
use args::ServeArgs;
use member::Part;
use notify::Notify;
use spinney::base::num::u64_of;
use spinney::env::os::allocator::give_large_buffers_back;
use spinney::{Database, Options};
use spinney_document::command::{Service, ServiceOptions};
use spinney_lab::text::counted;
use spinney_lab::{Stop, signals};
use spinney_replica::Status;
use spinney_server::auth::MemberKey;
use spinney_server::base::log::Log;
use spinney_server::{Listening, Running, Settings, Tls, start};
use std::io::{self, ErrorKind, Write as _};
use std::net::TcpListener;
use std::time::Duration;

/// How often it is looked whether a signal came.
const SIGNALS: Duration = Duration::from_millis(100);

/// Why serving has ended.
enum Ended {
    /// A signal or the command `shutdown` came.
    Asked,
    /// The database is to be opened again: a copy of the primary's is to take its place, or the replica set has other
    /// times for heartbeats and elections.
    ToBeOpened,
}

/// Serves until a signal or the command `shutdown` comes.
pub(crate) fn run(args: &ServeArgs, out: &mut Output) -> Result<()> {
    // Before there are threads, which would have arenas of their own.
    give_large_buffers_back();
    member::check(args)?;
    let (key, stop) = (member::key_of(args)?, signals::stop()?);
    loop {
        // Before the database is opened or made.
        let (sockets, metrics) = (sockets(args)?, args.metrics.as_deref().map(listen).transpose()?);
        let mut options = Options::default().durability(args.journal.into());
        if args.replica_set.is_some() {
            options = options.log_keep_bytes(u64::from(args.oplog_size) << 20);
        }
        if args.db.path.exists() {
            spinney_replica::install_copy(&args.db.path)?;
        }
        if args.cut_log && args.db.path.exists() {
            cut_log(&args.db)?;
        }
        let ended =
            in_new_or_old(&args.db, options, |db| serve(args, db, key.clone(), (sockets, metrics), &stop, out))?;
        if matches!(ended, Ended::Asked) {
            return Ok(());
        }
    }
}

fn serve(
    args: &ServeArgs,
    db: &Database,
    key: Option<MemberKey>,
    (sockets, metrics): (Vec<Listening>, Option<TcpListener>),
    stop: &Stop,
    out: &mut Output,
) -> Result<Ended> {
    let listening = sockets.first().map(Listening::address).unwrap_or_default();
    let (replica, documents) = if member::is_member(args, db)? {
        let (replica, documents) = Part::of(args, &listening, key.as_ref())?.begin(db)?;
        (Some(replica), documents)
    } else {
        (None, spinney_document::Database::with_engine(db.clone())?)
    };
    let log = Log::stderr(args.log_json);
    if args.replica_set.is_none() && db.options().log_keep_bytes > 0 {
        let bytes = db.log_bytes_after(db.log_start()).to_string();
        let fields = [("bytes", &*bytes), ("advice", "--cut-log gives it up, --replSet has streams go on in it")];
        log.warning("the log of changes is kept that was kept with --replSet", &fields);
    }
    for (collection, sentence) in documents.catalog().damages() {
        log.warning("damage was found", &[("collection", collection.as_str()), ("error", &sentence)]);
    }
    let options = ServiceOptions {
        test_commands: args.test_commands,
        durability: Some(args.journal.into()),
        replica_set: args.replica_set.is_some(),
        ..ServiceOptions::default()
    };
    let service = Service::with_options(documents.clone(), options);
    let mut settings = settings(args, &log);
    settings.auth |= key.is_some();
    (settings.replica, settings.key) = (replica.clone(), key);
    let mut running = start(service, settings, log, sockets)?;
    if let Some(listener) = metrics {
        writeln!(out, "page, /metrics and /health on http://{}/", listener.local_addr()?)?;
        let db = db.clone();
        running.serve_metrics(listener, Box::new(move || prometheus::text(&db.stats())))?;
    }
    if args.replica_set.is_some() {
        keep_log(&args.db.path, args.oplog_size)?;
    }
    tell(args, &documents, &running, out)?;
    wait_for_the_end(&running, stop)?;
    // Before the node ends with the server.
    let status = replica.map(|replica| replica.node.status());
    running.end();
    match status {
        Some(status) if (status.copy_received || status.times_changed) && !stop.asked() => Ok(Ended::ToBeOpened),
        Some(Status { failure: Some(why), .. }) => bail!("the member of the replica set has failed: {why}"),
        _ => Ok(Ended::Asked),
    }
}

/// Memory for messages: while they are executed, documents are in memory several times.
fn message_memory(args: &ServeArgs) -> u64 {
    let memory = args.db.memory.unwrap_or(Options::default().memory_bytes);
    args.message_memory.unwrap_or((2 * memory).clamp(128 << 20, 1 << 30))
}

/// Tells the service manager that the server is ready, and waits until the server is to end.
fn wait_for_the_end(running: &Running, stop: &Stop) -> Result<()> {
    let manager = Notify::of_process();
    let addresses: Vec<_> = running.listening().map(Listening::address).collect();
    manager.ready(&format!("listening on {}", addresses.join(" and ")))?;
    while !running.wait(SIGNALS) && !stop.asked() {}
    // The server ends whether or not the manager hears of it.
    if let Err(error) = manager.stopping() {
        running.server().log.warning("the service manager was not told", &[("error", &error.to_string())]);
    }
    Ok(())
}

fn listen(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| cannot_listen(address, error))
}

/// Why it is not possible to listen on a TCP address.
fn cannot_listen(address: &str, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidInput => {
            let what = format!("{address} is no address to listen on: give a host and a port, as in 127.0.0.1:27017");
            Usage(what).into()
        }
        _ => Error::new(error).context(format!("cannot listen on {address}")),
    }
}

/// Where the server listens.
fn sockets(args: &ServeArgs) -> Result<Vec<Listening>> {
    let tcp = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            let tls = Tls::from_files(certificate, key, args.tls_ca.as_deref())?;
            Listening::tcp_with_tls(&args.listen, tls)
        }
        _ => Listening::tcp(&args.listen),
    };
    let mut sockets = vec![tcp.map_err(|error| cannot_listen(&args.listen, error))?];
    if let Some(path) = &args.unix {
        let socket = Listening::unix(path).with_context(|| format!("cannot listen on {}", path.display()))?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn settings(args: &ServeArgs, log: &Log) -> Settings {
    let mut settings = Settings::default();
    settings.replica_set.clone_from(&args.replica_set);
    settings.auth = args.auth;
    settings.test_commands = args.test_commands;
    settings.connections_max = usize::try_from(args.connections).unwrap_or(usize::MAX);
    settings.message_memory = usize::try_from(message_memory(args)).unwrap_or(usize::MAX);
    settings.arguments = std::env::args().collect();
    let (max, reason) = limits::connections();
    if max < settings.connections_max {
        settings.connections_max = max;
        let fields = [("connections", &*max.to_string()), ("limit", &*reason)];
        log.info("the system allows fewer connections", &fields);
    }
    settings
}

/// Prints what is served, and where.
fn tell(args: &ServeArgs, db: &spinney_document::Database, running: &Running, out: &mut Output) -> Result<()> {
    let databases = db.list_databases();
    let collections: u64 = databases.iter().map(|database| u64_of(db.list_collections(database).len())).sum();
    let mut trees = 0;
    for table in db.engine().tables()? {
        trees += table.shape()?.trees;
    }
    writeln!(
        out,
        "serving {}: {}, {}, {}",
        args.db.path.display(),
        counted(u64_of(databases.len()), "database", "databases"),
        counted(collections, "collection", "collections"),
        counted(trees, "tree", "trees"),
    )?;
    for socket in running.listening() {
        let at = socket.connection_string();
        let at = match &args.replica_set {
            Some(set) if at.contains('?') => format!("{at}&replicaSet={set}"),
            Some(set) => format!("{at}/?replicaSet={set}"),
            None => at,
        };
        writeln!(out, "listening on {}: {at}", socket.address())?;
    }
    for warning in running.warnings() {
        writeln!(out, "warning: {} ({} {})", warning.what, warning.field.0, warning.field.1)?;
    }
    Ok(out.flush()?)
}
