//! Forcing the log to the device when commits do not.
//!
//! Neither storage engine has a verb for it that works whatever a commit does, nor an interval under a second; so for a
//! moment a commit is made to force the log. InnoDB's log is then forced by `FLUSH ENGINE LOGS`, MyRocks' by a commit
//! of a row of our own. Commits of others in that moment wait for the device too.

use super::kind::Kind;
use anyhow::Result;
use mysql::Conn;
use mysql::prelude::Queryable as _;

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
