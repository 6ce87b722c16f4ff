//! Reads the text of a dump and compares its checksums.

use super::format::{DONE, END, ENTRIES, HEADER, MAGIC, TABLE, done_line, end_line, from_word, parse_table};
use crate::escape::{one_line, unescape};
use anyhow::{Context as _, Result, bail};
use spinney::TableOptions;
use spinney::base::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::io::{BufRead as _, BufReader, Read};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// The longest line: an entry of which each byte is escaped.
const LINE_BYTES_MAX: usize = 4 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + 2;

/// The first line is not searched for its end for longer.
const HEADER_BYTES_MAX: usize = 64;

/// A dump that is being read. After an error it is not read on.
pub(super) struct DumpReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The number of the line that was read last, from 1.
    number: u64,
    tables: Vec<(String, TableOptions)>,
    /// The tables whose entries have been begun.
    begun: usize,
    entries: u64,
    table_entries: u64,
    all: Xxh3,
    part: Xxh3,
    key: Vec<u8>,
    value: Vec<u8>,
    last_key: Vec<u8>,
}

impl<R: Read> DumpReader<R> {
    /// Reads which tables there are.
    pub(super) fn new(reader: R) -> Result<Self> {
        let mut dump = Self {
            reader: BufReader::with_capacity(READ_BYTES, reader),
            line: Vec::new(),
            number: 0,
            tables: Vec::new(),
            begun: 0,
            entries: 0,
            table_entries: 0,
            all: Xxh3::new(),
            part: Xxh3::new(),
            key: Vec::new(),
            value: Vec::new(),
            last_key: Vec::new(),
        };
        dump.read_header()?;
        // Each kind of line begins with another letter.
        while dump.reader.fill_buf()?.first() == TABLE.as_bytes().first() {
            dump.read_table().with_context(|| format!("line {}", dump.number))?;
        }
        Ok(dump)
    }

    /// The tables, in the order of their entries.
    pub(super) fn tables(&self) -> &[(String, TableOptions)] {
        &self.tables
    }

    /// The next table, behind the end of the one before; none at the end of the dump, which is then known to be
    /// complete.
    pub(super) fn next_table(&mut self) -> Result<Option<(String, TableOptions)>> {
        let Some(table) = self.tables.get(self.begun).cloned() else {
            self.read_done()?;
            return Ok(None);
        };
        self.read_line()?;
        self.all.update(&self.line);
        let name = self.text_behind(ENTRIES).map(from_word);
        if !name.is_some_and(|name| name.is_ok_and(|name| name == table.0)) {
            bail!("line {}: the entries of table `{}` are missing", self.number, one_line(&table.0));
        }
        self.begun += 1;
        self.table_entries = 0;
        self.part.reset();
        self.last_key.clear();
        Ok(Some(table))
    }

    /// The next entry of the table; none at the end of its entries, of which then none is missing or changed.
    pub(super) fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.read_line()?;
        self.all.update(&self.line);
        let Some(tab) = self.text().iter().position(|byte| *byte == b'\t') else {
            return self.read_end().map(|()| None);
        };
        self.part.update(&self.line);
        self.read_entry(tab).with_context(|| format!("line {}", self.number))?;
        self.table_entries += 1;
        Ok(Some((&self.key, &self.value)))
    }

    /// The number of the line that was read last.
    pub(super) fn line_number(&self) -> u64 {
        self.number
    }

    fn read_header(&mut self) -> Result<()> {
        self.read_line_within(HEADER_BYTES_MAX)?;
        let text = String::from_utf8_lossy(self.text()).into_owned();
        if text != HEADER {
            let is_dump = text.starts_with(MAGIC);
            let version = format!("it is a dump of another version, `{}`: use a newer spinney", one_line(&text));
            bail!(if is_dump { version } else { format!("it is not a dump: the first line is not `{HEADER}`") });
        }
        self.all.update(&self.line);
        Ok(())
    }

    fn read_table(&mut self) -> Result<()> {
        self.read_line()?;
        self.all.update(&self.line);
        let (name, options) = parse_table(std::str::from_utf8(self.text()).context("not UTF-8 text")?)?;
        if self.tables.last().is_some_and(|(last, _)| *last >= name) {
            bail!("table `{}` is there twice, or out of order", one_line(&name));
        }
        self.tables.push((name, options));
        Ok(())
    }

    fn read_entry(&mut self, tab: usize) -> Result<()> {
        let (key, value) = (&self.line[..tab], &self.line[tab + 1..self.line.len() - 1]);
        self.key.clear();
        self.value.clear();
        if !unescape(key, &mut self.key) || !unescape(value, &mut self.value) {
            bail!("a backslash begins no escape");
        }
        if self.key <= self.last_key {
            bail!("the key is not above the one before");
        }
        self.last_key.clone_from(&self.key);
        Ok(())
    }

    fn read_end(&mut self) -> Result<()> {
        let expected = end_line(self.table_entries, self.part.digest());
        self.check_end(END, &expected)?;
        self.entries += self.table_entries;
        Ok(())
    }

    fn read_done(&mut self) -> Result<()> {
        self.read_line()?;
        let expected = done_line(self.tables.len() as u64, self.entries, self.all.digest());
        self.check_end(DONE, &expected)?;
        if self.reader.fill_buf()?.is_empty() {
            return Ok(());
        }
        bail!("line {}: there is more behind the end of the dump", self.number + 1);
    }

    /// Compares a line that tells counts and checksums.
    fn check_end(&self, begin: &str, expected: &str) -> Result<()> {
        let Some(said) = self.text_behind(begin) else {
            bail!("line {}: it is neither an entry nor an end of entries", self.number);
        };
        let found = &expected[begin.len()..];
        if said != found {
            bail!("line {}: the dump is damaged: it says {}, and has {found}", self.number, one_line(said));
        }
        Ok(())
    }

    /// What is behind this in the line, if the line begins with it.
    fn text_behind(&self, begin: &str) -> Option<&str> {
        std::str::from_utf8(self.text()).ok()?.strip_prefix(begin)
    }

    /// The line without its end.
    fn text(&self) -> &[u8] {
        &self.line[..self.line.len().saturating_sub(1)]
    }

    /// Reads the next line with its end.
    fn read_line(&mut self) -> Result<()> {
        self.read_line_within(LINE_BYTES_MAX)
    }

    fn read_line_within(&mut self, bytes_max: usize) -> Result<()> {
        self.number += 1;
        self.line.clear();
        let mut limited = self.reader.by_ref().take(bytes_max as u64);
        limited.read_until(b'\n', &mut self.line).with_context(|| format!("line {}", self.number))?;
        match self.line.last() {
            Some(b'\n') => Ok(()),
            _ if self.line.len() >= bytes_max && bytes_max == HEADER_BYTES_MAX => Ok(()),
            _ if self.line.len() >= bytes_max => bail!("line {}: it is longer than any entry", self.number),
            _ => bail!("line {}: the dump is cut off", self.number),
        }
    }
}
