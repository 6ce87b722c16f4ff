//! Which directory a member's database belongs to: a checkpoint, which has the rows of the database and not the token,
//! is no member.
//!
//! # Format
//! The file `member` in the folder of the database, which neither a checkpoint nor a copy for another member has: the
//! token that the row `identity` names, 8 bytes, little-endian.
//!
//! # Recovery
//! The file is written before the row that names its token: a row without the file is that of another directory.

use std::io;
use std::path::Path;

use spinney::{Error, ErrorKind, Result};

use super::copies::replace_durable;
use super::rows::Rows;

const MEMBER: &str = "member";

/// The number of a database's copy of the log; a new one of `random` for a database that was no member, and for one
/// that is a checkpoint of a member's: that forgets what the member had voted and had in its log.
///
/// # Errors
/// Those of the engine and of the file system.
pub(crate) fn identity(rows: &Rows, random: impl Fn() -> u64) -> Result<u64> {
    let dir = rows.engine().path();
    match rows.token()? {
        Some(token) if read_token(dir)? == Some(token) => rows.identity(random),
        Some(_) => {
            let identity = random();
            rows.forget_member(identity, new_token(dir, random())?)?;
            Ok(identity)
        }
        // Of an earlier version, which had no tokens, or of nobody.
        None => {
            let identity = rows.identity(&random)?;
            rows.set_identity(identity, new_token(dir, random())?)?;
            Ok(identity)
        }
    }
}

/// Writes a token into the folder of a database, in place of the one that it had.
///
/// # Errors
/// What the system says.
pub(crate) fn new_token(dir: &Path, token: u64) -> Result<u64> {
    replace_durable(dir, MEMBER, &token.to_le_bytes()).map_err(|error| failed(dir, &error))?;
    Ok(token)
}

fn read_token(dir: &Path) -> Result<Option<u64>> {
    match std::fs::read(dir.join(MEMBER)) {
        Ok(bytes) => Ok(bytes.try_into().ok().map(u64::from_le_bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(dir, &error)),
    }
}

fn failed(dir: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {error}", dir.join(MEMBER).display()))
}
