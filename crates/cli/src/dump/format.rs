//! The text of a dump: what its lines are, and how the options of a table are written. docs/dump.md describes it for
//! other programs.
//!
//! # Format
//! Lines end with `\n`. Words of a line are separated by one space; names and the options' values are escaped as
//! [`write_escaped`](crate::escape::write_escaped) does, and spaces in them as `\x20`.
//!
//! | line | how many |
//! |---|---|
//! | `spinney dump 1` | the first |
//! | `table NAME OPTION=VALUE …` | one for each table, ordered by name |
//! | `entries NAME` | for each table in the same order, followed by |
//! | `KEY` tab `VALUE`, escaped | its entries, ordered by key, bytewise, and |
//! | `end entries=COUNT checksum=SUM` | one: the entries, and the XXH3-64 of their lines |
//! | `done tables=COUNT entries=COUNT checksum=SUM` | the last: the XXH3-64 of all lines before |

use crate::escape::{unescape, write_escaped};
use anyhow::{Context as _, Result, anyhow, bail};
use spinney::TableOptions;
use std::time::Duration;

/// The first line.
pub(super) const HEADER: &str = "spinney dump 1";
/// What the first line of any version begins with.
pub(super) const MAGIC: &str = "spinney dump ";

/// What begins each kind of line but the first, and but an entry.
pub(super) const TABLE: &str = "table ";
pub(super) const ENTRIES: &str = "entries ";
pub(super) const END: &str = "end ";
pub(super) const DONE: &str = "done ";

/// The name of the time to live in dumps, which have it in milliseconds.
const TIME_TO_LIVE: &str = "time_to_live_ms";

/// A name or a value as one word of a line.
pub(super) fn word(text: &str) -> String {
    let mut escaped = Vec::with_capacity(text.len());
    write_escaped(text.as_bytes(), &mut escaped).expect("memory takes all");
    String::from_utf8_lossy(&escaped).replace(' ', "\\x20")
}

/// The text that is written as this word.
pub(super) fn from_word(word: &str) -> Result<String> {
    let mut bytes = Vec::new();
    if !unescape(word.as_bytes(), &mut bytes) {
        bail!("`{word}` has a backslash that begins no escape");
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("`{word}` is not UTF-8 text"))
}

/// The line of a table, without its end.
pub(super) fn table_line(name: &str, options: &TableOptions) -> Result<String> {
    let mut line = format!("{TABLE}{}", word(name));
    let mut write = |name: &str, value: &str| line += &format!(" {name}={}", word(value));
    for option in TableOptions::named() {
        match (option.name(), option.text(options)) {
            ("time_to_live", _) => {}
            ("large_value_bytes", Some(zero)) if zero == "0" => {}
            (name, Some(text)) => write(name, &text),
            (_, None) => {}
        }
    }
    if let Some(time) = options.time_to_live {
        write(TIME_TO_LIVE, &time.as_millis().to_string());
    }
    // What this command does not know is not left out.
    let (_, read) = parse_table(&line)?;
    if read != *options {
        bail!("the options of table `{}` cannot be written: use a newer spinney", crate::escape::one_line(name));
    }
    Ok(line)
}

/// The name and the options of a table's line.
pub(super) fn parse_table(line: &str) -> Result<(String, TableOptions)> {
    let mut words = line.strip_prefix(TABLE).context("no line of a table")?.split(' ');
    let name = from_word(words.next().unwrap_or_default())?;
    let mut options = TableOptions::default();
    let mut seen = Vec::new();
    for word in words {
        let Some((option, value)) = word.split_once('=') else { bail!("`{word}` is not OPTION=VALUE") };
        if seen.contains(&option) {
            bail!("option {option} is there twice");
        }
        seen.push(option);
        let value = from_word(value)?;
        set(&mut options, option, &value)?;
    }
    options.check()?;
    Ok((name, options))
}

/// Sets the option of this name.
fn set(options: &mut TableOptions, option: &str, value: &str) -> Result<()> {
    if option == TIME_TO_LIVE {
        let milliseconds = value.parse().with_context(|| format!("option {option} is `{value}`"))?;
        options.time_to_live = Some(Duration::from_millis(milliseconds));
    } else if !TableOptions::named().iter().any(|known| known.name() == option) {
        bail!("there is no option {option}: the dump is of a newer spinney");
    } else {
        options.set(option, value)?;
    }
    Ok(())
}

/// The line behind the entries of a table, without its end.
pub(super) fn end_line(entries: u64, checksum: u64) -> String {
    format!("{END}entries={entries} checksum={checksum:016x}")
}

/// The last line, without its end.
pub(super) fn done_line(tables: u64, entries: u64, checksum: u64) -> String {
    format!("{DONE}tables={tables} entries={entries} checksum={checksum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney::{Compression, Layout, Prefix};

    #[test]
    fn any_name_is_one_word() {
        for name in ["plain", "orders by guest", "\t\n\\ \u{7f}é", "a=b"] {
            let word = word(name);
            assert!(!word.contains(|char: char| char.is_control() || char == ' '), "{word}");
            assert_eq!(from_word(&word).unwrap(), name);
        }
    }

    #[test]
    fn every_option_comes_back_from_its_line() {
        let lsm = TableOptions::default()
            .block_bytes(512)
            .compression(Compression::Zstd)
            .filter_bits_per_key(32)
            .prefix_filter(Prefix::UpTo(b' '))
            .run_bytes_max(4 << 10)
            .fanout(2)
            .logged(false)
            .compaction_filter("drop old ones")
            .large_value_bytes(64)
            .time_to_live(Duration::from_millis(1500));
        let btree = TableOptions::default().layout(Layout::BTree).compression(Compression::None).merge("con=cat");
        let tiered = TableOptions::default().layout(Layout::LsmTiered).prefix_filter(Prefix::Bytes(255));
        for options in [TableOptions::default(), lsm, btree, tiered] {
            let line = table_line("a b", &options).unwrap();
            assert_eq!(parse_table(&line).unwrap(), ("a b".to_owned(), options), "{line}");
        }
        assert_eq!(
            table_line("t", &TableOptions::default()).unwrap(),
            "table t layout=lsm block_bytes=8192 compression=lz4 filter_bits_per_key=10 run_bytes_max=33554432 \
             fanout=8 logged=true"
        );
    }

    #[test]
    fn a_wrong_line_of_a_table_says_why() {
        for (line, why) in [
            ("table t layout", "is not OPTION=VALUE"),
            ("table t layout=heap", "option layout is 'heap': it must be one of btree"),
            ("table t fanout=8 fanout=8", "twice"),
            ("table t fanout=x", "option fanout is 'x': it must be 2 to 32"),
            ("table t fanout=1", "must be 2 to 32"),
            ("table t speed=9", "newer spinney"),
            ("table t\\q", "backslash"),
        ] {
            let error = format!("{:#}", parse_table(line).unwrap_err());
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
