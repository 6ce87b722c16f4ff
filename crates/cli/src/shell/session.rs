//! A database that is open for a shell, and the transaction that was begun.

use super::args::ShellCommand;
use super::line::{Line, parse};
use crate::access::{Changes, Reader};
use crate::args::{CommitArgs, ForceArgs, PutArgs, TableArgs};
use crate::command::Command;
use crate::escape::one_line;
use crate::output::{Output, argument};
use crate::store::{refuse_documents, refuse_member, table};
use crate::{entries, maintenance, scan, shape, stat, tables};
use anyhow::{Context as _, Result, bail};
use spinney::{Batch, Database, Isolation, Savepoint, Table, Transaction};
use spinney_lab::Stop;
use std::io::Write as _;
use std::path::Path;

/// Whether the shell goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    End,
}

/// A database, and the transaction that was begun.
pub(super) struct Session<'a> {
    db: &'a Database,
    /// Where it is, as it was given.
    path: &'a Path,
    stop: &'a Stop,
    txn: Option<Transaction>,
    savepoints: Vec<(String, Savepoint)>,
}

impl<'a> Session<'a> {
    pub(super) fn new(db: &'a Database, path: &'a Path, stop: &'a Stop) -> Self {
        Self { db, path, stop, txn: None, savepoints: Vec::new() }
    }

    /// Runs a line.
    pub(super) fn run(&mut self, line: &str, out: &mut Output) -> Result<Then> {
        match parse(line, self.path)? {
            Line::Nothing => Ok(Then::GoOn),
            Line::Own(ShellCommand::Quit) => Ok(Then::End),
            Line::Own(command) => self.own(command, out).map(|()| Then::GoOn),
            Line::Shared(command) => self.shared(&command, out).map(|()| Then::GoOn),
            Line::Help(text) => {
                out.write_all(text.as_bytes())?;
                Ok(Then::GoOn)
            }
        }
    }

    /// Whether a transaction is open.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.txn.is_some()
    }

    fn own(&mut self, command: ShellCommand, out: &mut Output) -> Result<()> {
        match command {
            ShellCommand::Begin { .. } if self.txn.is_some() => bail!("a transaction is open already"),
            ShellCommand::Begin { serializable } => {
                let isolation = if serializable { Isolation::Serializable } else { Isolation::Snapshot };
                self.txn = Some(self.db.begin_with(isolation));
                Ok(())
            }
            ShellCommand::Commit { durability } => {
                let txn = self.txn.take().context("no transaction is open")?;
                self.savepoints.clear();
                txn.commit_with(durability.into()).context("the transaction was rolled back")
            }
            ShellCommand::Rollback { savepoint: None } => {
                self.txn.take().context("no transaction is open")?.rollback();
                self.savepoints.clear();
                Ok(())
            }
            ShellCommand::Rollback { savepoint: Some(name) } => {
                let at = self.savepoint(&name)?;
                let txn = self.txn.as_mut().context("no transaction is open")?;
                txn.rollback_to(&self.savepoints[at].1)?;
                self.savepoints.truncate(at + 1);
                Ok(())
            }
            ShellCommand::Savepoint { name } => {
                let savepoint = self.txn.as_mut().context("no transaction is open")?.savepoint();
                self.savepoints.push((name, savepoint));
                Ok(())
            }
            ShellCommand::Release { name } => {
                let at = self.savepoint(&name)?;
                let txn = self.txn.as_mut().context("no transaction is open")?;
                let (_, savepoint) = self.savepoints.swap_remove(at);
                self.savepoints.truncate(at);
                Ok(txn.release(savepoint)?)
            }
            ShellCommand::Tables => tables::list_of(self.db, false, out),
            ShellCommand::Stats => stat::print(&self.db.stats(), false, false, out),
            ShellCommand::Help { .. } | ShellCommand::Quit => Ok(()),
        }
    }

    /// Where the newest savepoint of this name is.
    fn savepoint(&self, name: &str) -> Result<usize> {
        let at = self.savepoints.iter().rposition(|(other, _)| other == name);
        at.with_context(|| format!("there is no savepoint `{}`", one_line(name)))
    }

    fn shared(&mut self, command: &Command, out: &mut Output) -> Result<()> {
        let (db, stop) = (self.db, self.stop);
        match command {
            Command::Get(args) => {
                let table = self.table(&args.table)?;
                self.read(|reader| entries::get_from(reader, &table, args, out))
            }
            Command::Scan(args) => {
                let table = self.table(&args.table)?;
                self.read(|reader| scan::scan_from(reader, &table, args, stop, out))
            }
            Command::Count(args) => {
                let table = self.table(&args.table)?;
                self.read(|reader| scan::count_from(reader, &table, args, stop, out))
            }
            Command::Put(args) => self.put(args),
            Command::Merge(args) => {
                let table = self.table_to_change(&args.table, &args.force)?;
                self.change(&args.commit, |to| entries::merge_to(to, &table, args))
            }
            Command::Delete(args) => {
                let (table, what) = (self.table_to_change(&args.table, &args.force)?, entries::deleted(args)?);
                self.change(&args.commit, |to| entries::delete_from(to, &table, args, &what))?;
                entries::print_deleted(args, out)
            }
            Command::Create(_) | Command::Drop(_) if self.txn.is_some() => {
                bail!("tables are made and dropped outside of transactions: commit or roll back first")
            }
            Command::Create(args) => tables::create_in(db, args),
            Command::Drop(args) => tables::drop_in(db, &self.table(&args.table)?, args),
            Command::Tables(args) => tables::list_of(db, args.json, out),
            Command::Shape(args) => shape::run_on(db, args, out),
            Command::Stat(args) => stat::print(&db.stats(), args.json, args.prometheus, out),
            Command::Verify(args) => maintenance::verify_in(db, args, out),
            Command::Flush(args) => maintenance::flush_in(db, args),
            Command::Compact(args) => maintenance::compact_in(db, args),
            Command::Checkpoint(args) => maintenance::checkpoint_of(db, args, out),
            _ => bail!("this command is not for a shell"),
        }
    }

    fn put(&mut self, args: &PutArgs) -> Result<()> {
        let table = self.table_to_change(&args.table, &args.force)?;
        let Some(value) = &args.value else { bail!("the value is missing; one that is empty is ''") };
        let value = argument(value, args.escape)?;
        self.change(&args.commit, |to| entries::put_to(to, &table, args, &value))
    }

    fn table(&self, args: &TableArgs) -> Result<Table> {
        table(self.db, &args.table)
    }

    fn table_to_change(&self, args: &TableArgs, force: &ForceArgs) -> Result<Table> {
        refuse_documents(self.db, &args.table, force.force)?;
        self.table(args)
    }

    /// Reads in the transaction, or what is committed now.
    fn read(&self, read: impl FnOnce(&dyn Reader) -> Result<()>) -> Result<()> {
        match &self.txn {
            Some(txn) => read(txn),
            None => read(&self.db.snapshot()),
        }
    }

    /// Changes in the transaction, or in one commit.
    fn change(&mut self, how: &CommitArgs, change: impl FnOnce(&mut dyn Changes) -> Result<()>) -> Result<()> {
        refuse_member(self.db)?;
        if let Some(txn) = &mut self.txn {
            return change(txn);
        }
        let mut batch = Batch::new();
        change(&mut batch)?;
        Ok(self.db.write_with(&batch, how.durability.into())?)
    }
}
