//! Forcing the log to the device when commits do not.
//!
//! Neither storage engine has a verb for it that works whatever a commit does, nor an interval under a second; so for a moment a
//! commit is made to force the log. InnoDB's log is then forced by `FLUSH ENGINE LOGS`, MyRocks' by a commit of a row of our own.
//! Commits of others in that moment wait for the device too.

use super::engine::Kind;
use anyhow::{Result, anyhow};
use mysql::Conn;
use mysql::prelude::Queryable as _;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Makes what [`force`] needs.
pub(super) fn prepare(connection: &mut Conn, kind: Kind) -> Result<()> {
    if kind == Kind::MyRocks {
        connection.query_drop(
            "CREATE TABLE IF NOT EXISTS heartbeat (id INT PRIMARY KEY, beats BIGINT NOT NULL) ENGINE=ROCKSDB",
        )?;
        connection.query_drop("INSERT IGNORE INTO heartbeat VALUES (1, 0)")?;
    }
    Ok(())
}

/// Forces the log, where commits have their log at `flush_at_commit`.
pub(super) fn force(connection: &mut Conn, kind: Kind, flush_at_commit: u32) -> Result<()> {
    let (variable, verb) = match kind {
        Kind::InnoDb => ("innodb_flush_log_at_trx_commit", "FLUSH ENGINE LOGS"),
        Kind::MyRocks => ("rocksdb_flush_log_at_trx_commit", "UPDATE heartbeat SET beats = beats + 1"),
    };
    connection.query_drop(format!("SET GLOBAL {variable} = 1"))?;
    let forced = connection.query_drop(verb);
    connection.query_drop(format!("SET GLOBAL {variable} = {flush_at_commit}"))?;
    Ok(forced?)
}

/// A thread that forces the log each so many milliseconds.
#[derive(Debug)]
pub(super) struct Forcer {
    thread: Option<JoinHandle<Result<()>>>,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Forcer {
    /// Starts it on a connection of its own.
    pub(super) fn start(mut connection: Conn, kind: Kind, flush_at_commit: u32, period: Duration) -> Result<Self> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let ended_there = Arc::clone(&ended);
        let work = move || {
            let (flag, told) = &*ended_there;
            let mut over = flag.lock().expect("no holder of the flag panics");
            while !*over {
                force(&mut connection, kind, flush_at_commit)?;
                over = told.wait_timeout(over, period).expect("no holder of the flag panics").0;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("log-forcer".to_owned()).spawn(work)?;
        Ok(Self { thread: Some(thread), ended })
    }

    /// Ends it, with the error that ended it before if there was one.
    pub(super) fn end(mut self) -> Result<()> {
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        *self.ended.0.lock().expect("no holder of the flag panics") = true;
        self.ended.1.notify_one();
        thread.join().map_err(|_| anyhow!("the thread that forces the log panicked"))?
    }
}

impl Drop for Forcer {
    fn drop(&mut self) {
        // The error of a database that is given up is nobody's.
        self.join().ok();
    }
}
