//! The table `replica`: what a member remembers of its set, in rows of the database itself.
//!
//! # Format
//!
//! | key | value |
//! |---|---|
//! | `appended` | the place of the last entry of the newest commit that holds entries |
//! | `applied` | the place of the last entry that was applied as a whole |
//! | `identity` | the member's number in the consensus: 8 bytes, random, of this copy of the log |
//! | `members` | the place of the last members that were applied, and the members as the entry has them |
//! | `purged` | the place of the last entry that was given up, and the LSN from which the entries behind it are found |
//! | `seeded` | there were data before the log began, so that the log alone does not make a copy |
//! | `set` | the name of the set |
//! | `vote` | the vote, as the consensus encodes it |

use spinney::base::codec::{Decoder, Malformed, put_varint};
use spinney::{Batch, Durability, Error, ErrorKind, Lsn, Result, Table, TableOptions};
use spinney_document::catalog::MEMBER_TABLE as TABLE;

use crate::entry::log_entry::LogId;

const APPENDED: &str = "appended";
const APPLIED: &str = "applied";
const IDENTITY: &str = "identity";
const MEMBERS: &str = "members";
const PURGED: &str = "purged";
const SEEDED: &str = "seeded";
const SET: &str = "set";
const VOTE: &str = "vote";

/// The table `replica`.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    engine: spinney::Database,
    table: Table,
}

impl Rows {
    /// The table of a database, created if there is none.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn open(engine: &spinney::Database) -> Result<Self> {
        let table = engine.open_or_create_table(TABLE, TableOptions::default())?;
        Ok(Self { engine: engine.clone(), table })
    }

    /// The engine's database.
    pub(crate) fn engine(&self) -> &spinney::Database {
        &self.engine
    }

    fn read<T>(
        &self,
        key: &str,
        decode: impl FnOnce(&mut Decoder<'_>) -> std::result::Result<T, Malformed>,
    ) -> Result<Option<T>> {
        let Some(value) = self.table.get(key)? else { return Ok(None) };
        match decode(&mut Decoder::new(&value)) {
            Ok(value) => Ok(Some(value)),
            Err(Malformed) => {
                let message = format!("row '{key}' of table '{TABLE}' makes no sense");
                Err(Error::new(ErrorKind::Corruption, message))
            }
        }
    }

    fn write(&self, key: &str, value: &[u8], durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(&self.table, key, value);
        self.engine.write_with(&batch, durability)
    }

    /// The place of the last entry that was appended.
    pub(crate) fn appended(&self) -> Result<Option<LogId>> {
        self.read(APPENDED, LogId::decode)
    }

    /// Adds the place of the last appended entry to a batch.
    pub(crate) fn put_appended(&self, id: LogId, batch: &mut Batch) {
        batch.put(&self.table, APPENDED, bytes_of(id));
    }

    /// The place of the last entry that was applied as a whole.
    pub(crate) fn applied(&self) -> Result<Option<LogId>> {
        self.read(APPLIED, LogId::decode)
    }

    /// Adds the place of the last applied entry to a batch.
    pub(crate) fn put_applied(&self, id: LogId, batch: &mut Batch) {
        batch.put(&self.table, APPLIED, bytes_of(id));
    }

    /// The last members that were applied, and their place.
    pub(crate) fn members(&self) -> Result<Option<(LogId, Vec<u8>)>> {
        self.read(MEMBERS, |input| Ok((LogId::decode(input)?, input.rest().to_vec())))
    }

    /// Adds the members to a batch.
    pub(crate) fn put_members(&self, id: LogId, members: &[u8], batch: &mut Batch) {
        let mut value = bytes_of(id);
        value.extend_from_slice(members);
        batch.put(&self.table, MEMBERS, value);
    }

    /// The place of the last entry that was given up, and from where the log is read for those behind it.
    pub(crate) fn purged(&self) -> Result<Option<(LogId, Lsn)>> {
        self.read(PURGED, |input| Ok((LogId::decode(input)?, Lsn(input.varint()?))))
    }

    /// Sets what [`Self::purged`] gives.
    pub(crate) fn set_purged(&self, id: LogId, from: Lsn, durability: Durability) -> Result<()> {
        let mut value = bytes_of(id);
        put_varint(&mut value, from.0);
        self.write(PURGED, &value, durability)
    }

    /// The vote as it was set.
    pub(crate) fn vote(&self) -> Result<Option<Vec<u8>>> {
        self.read(VOTE, |input| Ok(input.rest().to_vec()))
    }

    /// Sets the vote; it is durable when this returns.
    pub(crate) fn set_vote(&self, vote: &[u8]) -> Result<()> {
        self.write(VOTE, vote, Durability::Sync)
    }

    /// The number of this copy of the log; a new one of `random` when there is none.
    pub(crate) fn identity(&self, random: impl FnOnce() -> u64) -> Result<u64> {
        if let Some(identity) = self.read(IDENTITY, |input| input.u64())? {
            return Ok(identity);
        }
        let identity = random();
        self.set_identity(identity)?;
        Ok(identity)
    }

    /// Sets what [`Self::identity`] gives.
    pub(crate) fn set_identity(&self, identity: u64) -> Result<()> {
        self.write(IDENTITY, &identity.to_le_bytes(), Durability::Sync)
    }

    /// Whether there were data before the log began.
    pub(crate) fn is_seeded(&self) -> Result<bool> {
        Ok(self.table.get(SEEDED)?.is_some())
    }

    /// Notes that there are data, and the log begins now.
    pub(crate) fn set_seeded(&self) -> Result<()> {
        self.write(SEEDED, b"", Durability::Sync)
    }

    /// The name of the set that the database is part of; `name` when it is part of none.
    pub(crate) fn set_name(&self, name: &str) -> Result<String> {
        let known = self.read(SET, |input| String::from_utf8(input.rest().to_vec()).map_err(|_| Malformed))?;
        if let Some(known) = known {
            return Ok(known);
        }
        self.write(SET, name.as_bytes(), Durability::Sync)?;
        Ok(name.to_owned())
    }

    /// Forgets the log: the database is a copy of another member's as of the entry `applied`.
    pub(crate) fn restart_log(&self, vote: &[u8], identity: u64) -> Result<()> {
        let Some(applied) = self.applied()? else {
            return Err(Error::new(ErrorKind::Corruption, "a copy of a database has applied no entry"));
        };
        let mut purged = bytes_of(applied);
        put_varint(&mut purged, self.engine.log_end().0);
        let mut batch = Batch::new();
        batch.put(&self.table, PURGED, purged);
        batch.put(&self.table, APPENDED, bytes_of(applied));
        batch.put(&self.table, IDENTITY, identity.to_le_bytes());
        if vote.is_empty() {
            batch.delete(&self.table, VOTE);
        } else {
            batch.put(&self.table, VOTE, vote);
        }
        self.engine.write_with(&batch, Durability::Sync)
    }
}

fn bytes_of(id: LogId) -> Vec<u8> {
    let mut value = Vec::new();
    id.encode(&mut value);
    value
}
