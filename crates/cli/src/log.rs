//! `log`: the changes in the redo log, oldest first, and those to come.

use crate::args::LogArgs;
use crate::escape::{escape, one_line};
use crate::output::{Output, json_of};
use anyhow::{Error, Result, bail};
use serde_json::json;
use spinney::{ErrorKind, Kind, LogEntry, LogFollower, Lsn};
use spinney_lab::{Clock, signals};
use std::io::Write as _;
use std::time::Duration;

/// Characters of a key and of a value that a line shows.
const KEY_CHARS: usize = 32;
const VALUE_CHARS: usize = 40;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Prints the log, and what comes to it if that is asked for.
pub(crate) fn run(args: &LogArgs, out: &mut Output) -> Result<()> {
    let stop = if args.follow { Some(signals::stop()?) } else { None };
    let mut follower = LogFollower::new(&args.db, Lsn(args.from.unwrap_or(0)));
    let tables = follower.tables()?;
    if let Some(table) = args.table.as_ref().filter(|table| !tables.contains(table)) {
        bail!("{} has no table `{}`", args.db.display(), one_line(table));
    }
    let columns = Columns::for_tables(&tables, out);
    let mut titles = !args.json;
    let mut left = args.limit.unwrap_or(u64::MAX);
    loop {
        let mut printing = Ok(());
        let read = follower.read(&mut |entry| {
            let wanted = args.table.as_deref().is_none_or(|table| entry.table_name == Some(table));
            if wanted && left > 0 && printing.is_ok() {
                left -= 1;
                printing = columns.print_titles(&mut titles, out).and_then(|()| columns.print(&entry, args.json, out));
            }
            if left == 0 || printing.is_err() {
                // The only way to end the reading early; what the error says is never told.
                return Err(spinney::Error::new(ErrorKind::Closed, "enough"));
            }
            Ok(())
        });
        printing?;
        if left > 0 {
            read.map_err(Error::from)?;
        }
        columns.print_titles(&mut titles, out)?;
        let Some(stop) = stop.as_ref().filter(|_| left > 0) else { return Ok(()) };
        out.flush()?;
        Clock::real().sleep(LOOK);
        if stop.asked() {
            return Ok(());
        }
    }
}

/// How wide the columns are.
struct Columns {
    table: usize,
    /// Of a line in all.
    line: Option<usize>,
}

impl Columns {
    /// As wide as the names of the tables, and no wider than the terminal.
    fn for_tables(tables: &[String], out: &Output) -> Self {
        let names = tables.iter().map(|table| one_line(table).chars().count());
        Self { table: names.chain(["table".len()]).max().unwrap_or(0), line: out.columns() }
    }

    /// Prints the titles once, and not before it is known that there is a log.
    fn print_titles(&self, wanted: &mut bool, out: &mut Output) -> Result<()> {
        if std::mem::take(wanted) {
            self.print_line(["lsn", "seqnum", "table", "change"], "key  value", out)?;
        }
        Ok(())
    }

    fn print(&self, entry: &LogEntry<'_>, json: bool, out: &mut Output) -> Result<()> {
        let change = entry.kind.name();
        if json {
            return out.json_line(&json!({
                "lsn": entry.lsn,
                "seqnum": entry.seqnum,
                "table": entry.table_name,
                "table_id": entry.table,
                "change": change,
                "key": json_of(entry.key),
                "value": (entry.kind != Kind::Delete).then(|| json_of(entry.value)),
            }));
        }
        let table = entry.table_name.map_or_else(|| format!("(dropped {})", entry.table), one_line);
        let key = abbreviated(entry.key, KEY_CHARS);
        let value = abbreviated(entry.value, VALUE_CHARS);
        let (lsn, seqnum) = (entry.lsn.0.to_string(), entry.seqnum.0.to_string());
        self.print_line([&lsn, &seqnum, &table, change], &format!("{key}  {value}"), out)
    }

    fn print_line(&self, [lsn, seqnum, table, change]: [&str; 4], rest: &str, out: &mut Output) -> Result<()> {
        let line = format!("{lsn:>12}  {seqnum:>9}  {table:<0$}  {change:<13}  {rest}", self.table);
        let line: String = line.trim_end().chars().take(self.line.unwrap_or(usize::MAX)).collect();
        Ok(writeln!(out, "{line}")?)
    }
}

/// The first bytes as text, and how many there are if that is not all.
fn abbreviated(bytes: &[u8], chars_max: usize) -> String {
    let text = escape(&bytes[..bytes.len().min(chars_max)]);
    if bytes.len() <= chars_max { text } else { format!("{text}... ({} bytes)", bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_long_is_cut() {
        assert_eq!(abbreviated(b"four", 4), "four");
        assert_eq!(abbreviated(b"five\n", 4), "five... (5 bytes)");
    }
}
