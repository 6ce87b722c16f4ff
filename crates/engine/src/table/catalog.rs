//! The catalog: all that the manifest remembers of a database, and how an edit changes it.
//!
//! # Format
//! A snapshot of the catalog, the first record of a manifest (numbers are varints unless said otherwise):
//!
//! | field | |
//! |---|---|
//! | database id | u64, fixed width; part of the identity of every file |
//! | next file id, next table id, seqnum floor | none below was or will be given out |
//! | log position | recovery reads the log from here |
//! | number of tables, then each: id, record | see `table/codec.rs` |
//! | log directory | its absolute path, length first, UTF-8; only when it is not `log` in the database's directory |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::codec::{Decoder, Malformed, put_varint};
use crate::base::num::u64_of;
use crate::base::{FileId, Lsn, Result, SeqNum, TableId};
use crate::tree::btree::TreeMeta;

use super::codec::{self, Stored};
use super::edit::Edit;
use super::files;
use super::level::LevelId;
use super::record::{RunRecord, TableRecord, check_disjoint};

/// All that the manifest remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Random, chosen when the database was created.
    pub database_id: u64,
    /// The smallest file id not yet given out.
    pub next_file: FileId,
    /// The smallest table id not yet given out.
    pub next_table: TableId,
    /// Every seqnum below was possibly given out before the last open.
    pub seqnum_floor: SeqNum,
    /// Recovery reads the log from here.
    pub log_from: Lsn,
    /// The tables by id.
    pub tables: BTreeMap<TableId, TableRecord>,
    /// The absolute path of the log's directory, when it is not the one in the database's directory.
    pub log_dir: Option<String>,
}

impl Catalog {
    /// Checks that this build has the compression of every table.
    ///
    /// # Errors
    /// `Unsupported`, naming the table and the feature that is missing.
    pub fn check_built(&self) -> Result<()> {
        let check = |table: &TableRecord| table.options.compression.check_built(&format!("table '{}'", table.name));
        self.tables.values().try_for_each(check)
    }

    /// Appends the catalog's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.database_id.to_le_bytes());
        self.next_file.put(out);
        self.next_table.put(out);
        self.seqnum_floor.put(out);
        self.log_from.put(out);
        put_varint(out, u64_of(self.tables.len()));
        for (id, table) in &self.tables {
            id.put(out);
            table.put(out);
        }
        self.log_dir.iter().for_each(|dir| dir.put(out));
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not such.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            database_id: decoder.u64()?,
            next_file: Stored::take(decoder)?,
            next_table: Stored::take(decoder)?,
            seqnum_floor: Stored::take(decoder)?,
            log_from: Stored::take(decoder)?,
            tables: Vec::take(decoder)?.into_iter().collect(),
            log_dir: if decoder.is_empty() { None } else { Some(codec::path(Stored::take(decoder)?)?) },
        })
    }

    /// Applies one edit.
    ///
    /// # Errors
    /// [`Malformed`] when the edit does not fit the catalog: an unknown table, a file that is not there or is there
    /// already. The catalog is of no use then: the first edits of several may be in it.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), Malformed> {
        match edit {
            Edit::CreateTable { id, name, options, replay_from, tree } => {
                let mut table = TableRecord::new(name.clone(), options.clone(), *replay_from);
                table.tree = tree.map(|id| (id, TreeMeta::default()));
                self.next_table = TableId(self.next_table.0.max(id.0.saturating_add(1)));
                tree.iter().for_each(|file| self.saw_file(*file));
                match self.tables.insert(*id, table) {
                    None => Ok(()),
                    Some(_) => Err(Malformed),
                }
            }
            Edit::DropTable { id, log_from } => {
                self.log_from = self.log_from.max(*log_from);
                self.tables.remove(id).map(drop).ok_or(Malformed)
            }
            Edit::Flush { table, replay_from, log_from, run, tree, range_tombstones } => {
                self.log_from = self.log_from.max(*log_from);
                run.iter().for_each(|run| self.saw_run(run));
                let record = self.table_mut(*table)?;
                record.replay_from = *replay_from;
                record.erase(range_tombstones);
                if let Some(run) = run {
                    record.l0.insert(0, run.clone());
                }
                if let Some(meta) = tree {
                    record.tree.as_mut().ok_or(Malformed)?.1 = *meta;
                }
                Ok(())
            }
            Edit::Compact { table, removed, added } => {
                added.iter().for_each(|(_, run)| self.saw_run(run));
                compact(self.table_mut(*table)?, removed, added)
            }
            Edit::Load { table, replay_from, runs } => {
                runs.iter().for_each(|(_, run)| self.saw_run(run));
                let record = self.table_mut(*table)?;
                record.replay_from = *replay_from;
                add(record, Some(0), runs)
            }
            Edit::BTreeMerge { table, replay_from, log_from, removed, tree, range_tombstones } => {
                self.log_from = self.log_from.max(*log_from);
                let record = self.table_mut(*table)?;
                record.replay_from = *replay_from;
                record.tree.as_mut().ok_or(Malformed)?.1 = *tree;
                record.erase(range_tombstones);
                compact(record, removed, &[])
            }
            Edit::RangeDelete { table, range_tombstones } => {
                self.table_mut(*table)?.range_tombstones = Arc::clone(range_tombstones);
                Ok(())
            }
            Edit::Expire { table, seqnum_to_time, range_tombstones } => {
                self.table_mut(*table)?.expire(seqnum_to_time, range_tombstones)
            }
            Edit::Opened { seqnum_floor, log_from } => {
                self.log_from = self.log_from.max(*log_from);
                self.seqnum_floor = self.seqnum_floor.max(*seqnum_floor);
                Ok(())
            }
            Edit::MoveLog { log_dir } => {
                log_dir.clone().map(codec::path).transpose()?;
                self.log_dir.clone_from(log_dir);
                Ok(())
            }
            Edit::Many(edits) => edits.iter().try_for_each(|edit| self.apply(edit)),
        }
    }

    /// The directory of the redo log of the database in `dir`.
    #[must_use]
    pub fn log_dir(&self, dir: &Path) -> PathBuf {
        self.log_dir.as_ref().map_or_else(|| dir.join(files::LOG_DIR), PathBuf::from)
    }

    /// Everything in the log before this position was durable: a flush syncs the log that it makes superfluous. (A
    /// table in whose trees is nothing may have been born at a position that was not.)
    #[must_use]
    pub fn log_durable(&self) -> Lsn {
        self.tables.values().filter(|table| table.has_data()).map(|table| table.replay_from).max().unwrap_or_default()
    }

    fn table_mut(&mut self, id: TableId) -> Result<&mut TableRecord, Malformed> {
        self.tables.get_mut(&id).ok_or(Malformed)
    }

    fn saw_run(&mut self, run: &RunRecord) {
        self.saw_file(run.id);
        run.meta.references.iter().for_each(|reference| self.saw_file(reference.file));
    }

    fn saw_file(&mut self, id: FileId) {
        self.next_file = FileId(self.next_file.0.max(id.0.saturating_add(1)));
    }
}

fn compact(record: &mut TableRecord, removed: &[FileId], added: &[(LevelId, RunRecord)]) -> Result<(), Malformed> {
    let before = record.runs().count();
    let in_l0 = record.l0.iter().position(|run| removed.contains(&run.id));
    record.l0.retain(|run| !removed.contains(&run.id));
    for level in &mut record.levels {
        level.retain(|run| !removed.contains(&run.id));
    }
    if record.runs().count() + removed.len() != before {
        return Err(Malformed);
    }
    add(record, in_l0, added)
}

/// Adds runs, those of L0 from `in_l0` on.
fn add(record: &mut TableRecord, mut in_l0: Option<usize>, added: &[(LevelId, RunRecord)]) -> Result<(), Malformed> {
    for (place, run) in added {
        match place {
            LevelId::L0 => {
                let at = in_l0.ok_or(Malformed)?;
                record.l0.insert(at, run.clone());
                in_l0 = Some(at + 1);
            }
            LevelId::Level(level) => {
                let level = record.levels.get_mut(*level).ok_or(Malformed)?;
                let at = level.partition_point(|other| other.meta.smallest < run.meta.smallest);
                level.insert(at, run.clone());
                let with_neighbours = at.saturating_sub(1)..level.len().min(at + 2);
                check_disjoint(&level[with_neighbours])?;
            }
        }
    }
    Ok(())
}
