//! The table `replica`: what a member remembers of its set, in rows of the database itself.
//!
//! # Format
//!
//! | key | value |
//! |---|---|
//! | `appended` | the place of the last entry of the newest commit that holds entries |
//! | `applied` | the place of the last entry that was applied as a whole |
//! | `copied` | the database is a copy of a member's: the LSN from which its own log is found |
//! | `identity` | the member's number in the consensus, random, of this copy of the log; the token of its directory |
//! | `members` | the place of the last members that were applied, and the members as the entry has them |
//! | `older-set` | another set counts on this member, which refuses writes since: what is to be done, in words |
//! | `owed` | the index up to which the member had acknowledged the log before it lost some of it |
//! | `points` | what was known of the log a while ago: see [`Known`] |
//! | `purged` | the place of the last entry that was given up, and the LSN from which the entries behind it are found |
//! | `removed` | the member was removed from its set: in words |
//! | `seeded` | there were data before the log began, so that the log alone does not make a copy |
//! | `set` | the name of the set |
//! | `vote` | the vote, as the consensus encodes it |

use spinney::base::codec::{Decoder, Malformed, put_varint};
use spinney::{Batch, Durability, Error, ErrorKind, Lsn, Result, Table, TableOptions};
use spinney_document::catalog::MEMBER_TABLE as TABLE;

use super::points::Known;
use crate::entry::log_entry::LogId;

const APPENDED: &str = "appended";
const APPLIED: &str = "applied";
const COPIED: &str = "copied";
const IDENTITY: &str = "identity";
const MEMBERS: &str = "members";
const OLDER_SET: &str = "older-set";
const OWED: &str = "owed";
const POINTS: &str = "points";
const PURGED: &str = "purged";
const REMOVED: &str = "removed";
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

    /// The last members that were applied, and their place. Not those of another member of which this is a copy.
    pub(crate) fn members(&self) -> Result<Option<(LogId, Vec<u8>)>> {
        if self.copied()?.is_some() { Ok(None) } else { self.former_members() }
    }

    /// The same, also those of another member of which this is a copy.
    pub(crate) fn former_members(&self) -> Result<Option<(LogId, Vec<u8>)>> {
        self.read(MEMBERS, |input| Ok((LogId::decode(input)?, input.rest().to_vec())))
    }

    /// Adds the members to a batch.
    pub(crate) fn put_members(&self, id: LogId, members: &[u8], batch: &mut Batch) {
        let mut value = bytes_of(id);
        value.extend_from_slice(members);
        batch.put(&self.table, MEMBERS, value);
    }

    /// What was known of the log when [`Self::put_known`] was called last; nothing when that makes no sense, as the log
    /// tells it as well.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn known(&self) -> Result<Option<Known>> {
        match self.read(POINTS, Known::decode) {
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
            known => known,
        }
    }

    pub(crate) fn put_known(&self, known: &Known, batch: &mut Batch) {
        batch.put(&self.table, POINTS, known.encode());
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
        self.write(IDENTITY, &identity.to_le_bytes(), Durability::Sync)?;
        Ok(identity)
    }

    /// The token of the directory that this copy of the log belongs to; nothing when it has none yet.
    pub(crate) fn token(&self) -> Result<Option<u64>> {
        let token = self.read(IDENTITY, |input| {
            input.u64()?;
            if input.is_empty() { Ok(None) } else { input.u64().map(Some) }
        })?;
        Ok(token.flatten())
    }

    /// Sets what [`Self::identity`] and [`Self::token`] give.
    pub(crate) fn set_identity(&self, identity: u64, token: u64) -> Result<()> {
        self.write(IDENTITY, &identity_bytes(identity, token), Durability::Sync)
    }

    /// The LSN from which the log of a member is found whose database is a copy of another directory's; nothing when it
    /// is none.
    pub(crate) fn copied(&self) -> Result<Option<Lsn>> {
        self.read(COPIED, |input| input.varint().map(Lsn))
    }

    /// Forgets what the member of another directory, of which the database is a copy, voted, had in its log and had
    /// applied: it is a new member with an identity of its own, which needs a copy of the primary's database.
    pub(crate) fn forget_member(&self, identity: u64, token: u64) -> Result<()> {
        let mut batch = Batch::new();
        for row in [APPENDED, APPLIED, OLDER_SET, OWED, POINTS, PURGED, REMOVED, SEEDED, VOTE] {
            batch.delete(&self.table, row);
        }
        let mut from = Vec::new();
        put_varint(&mut from, self.engine.log_end().0);
        batch.put(&self.table, COPIED, from);
        batch.put(&self.table, IDENTITY, identity_bytes(identity, token));
        self.engine.write_with(&batch, Durability::Sync)
    }

    /// Why the member takes no part in its set: it was removed.
    pub(crate) fn removed(&self) -> Result<Option<String>> {
        self.read(REMOVED, text)
    }

    /// Sets what [`Self::removed`] gives.
    pub(crate) fn set_removed(&self, why: &str) -> Result<()> {
        self.write(REMOVED, why.as_bytes(), Durability::Sync)
    }

    /// The older set that counts on this member, in words.
    pub(crate) fn older_set(&self) -> Result<Option<String>> {
        self.read(OLDER_SET, text)
    }

    /// Sets what [`Self::older_set`] gives.
    pub(crate) fn set_older_set(&self, set: &str) -> Result<()> {
        self.write(OLDER_SET, set.as_bytes(), Durability::Sync)
    }

    /// The index up to which the log must reach before the member votes.
    pub(crate) fn owed(&self) -> Result<Option<u64>> {
        self.read(OWED, |input| input.varint())
    }

    /// Sets what [`Self::owed`] gives; it is durable when this returns.
    pub(crate) fn set_owed(&self, index: u64) -> Result<()> {
        let mut value = Vec::new();
        put_varint(&mut value, index);
        self.write(OWED, &value, Durability::Sync)
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
        let known = self.read(SET, text)?;
        if let Some(known) = known {
            return Ok(known);
        }
        self.write(SET, name.as_bytes(), Durability::Sync)?;
        Ok(name.to_owned())
    }

    /// Forgets the log: the database is a copy of another member's as of the entry `applied`.
    pub(crate) fn restart_log(&self, vote: &[u8], identity: u64, token: u64) -> Result<()> {
        let Some(applied) = self.applied()? else {
            return Err(Error::new(ErrorKind::Corruption, "a copy of a database has applied no entry"));
        };
        let mut purged = bytes_of(applied);
        put_varint(&mut purged, self.engine.log_end().0);
        let mut batch = Batch::new();
        batch.put(&self.table, PURGED, purged);
        batch.put(&self.table, APPENDED, bytes_of(applied));
        batch.put(&self.table, IDENTITY, identity_bytes(identity, token));
        // What the other member found out about itself.
        [COPIED, OLDER_SET, OWED, POINTS, REMOVED].into_iter().for_each(|row| batch.delete(&self.table, row));
        if vote.is_empty() {
            batch.delete(&self.table, VOTE);
        } else {
            batch.put(&self.table, VOTE, vote);
        }
        self.engine.write_with(&batch, Durability::Sync)
    }
}

fn text(input: &mut Decoder<'_>) -> std::result::Result<String, Malformed> {
    String::from_utf8(input.rest().to_vec()).map_err(|_| Malformed)
}

fn identity_bytes(identity: u64, token: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&identity.to_le_bytes());
    value[8..].copy_from_slice(&token.to_le_bytes());
    value
}

fn bytes_of(id: LogId) -> Vec<u8> {
    let mut value = Vec::new();
    id.encode(&mut value);
    value
}
