//! Writes the text of a dump and forms its checksums.

use super::format::{ENTRIES, HEADER, done_line, end_line, table_line, word};
use crate::escape::write_escaped;
use anyhow::Result;
use spinney::TableOptions;
use std::io::{self, Write};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;

/// A dump that is being written.
pub(super) struct DumpWriter<W: Write> {
    out: Summed<W>,
    tables: u64,
    entries: u64,
    table_entries: u64,
}

impl<W: Write> DumpWriter<W> {
    /// Begins a dump of these tables.
    pub(super) fn begin<'a>(out: W, tables: impl Iterator<Item = (&'a str, &'a TableOptions)>) -> Result<Self> {
        let mut out = Summed { out, buffer: Vec::with_capacity(WRITE_BYTES), all: Xxh3::new(), part: Xxh3::new() };
        writeln!(out, "{HEADER}")?;
        for (name, options) in tables {
            writeln!(out, "{}", table_line(name, options)?)?;
        }
        Ok(Self { out, tables: 0, entries: 0, table_entries: 0 })
    }

    /// Begins the entries of the next table.
    pub(super) fn begin_table(&mut self, name: &str) -> io::Result<()> {
        writeln!(self.out, "{ENTRIES}{}", word(name))?;
        self.table_entries = 0;
        self.out.begin_part()
    }

    /// Writes the next entry of the table.
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        write_escaped(key, &mut self.out)?;
        self.out.write_all(b"\t")?;
        write_escaped(value, &mut self.out)?;
        self.out.write_all(b"\n")?;
        self.table_entries += 1;
        Ok(())
    }

    /// Ends the entries of the table.
    pub(super) fn end_table(&mut self) -> io::Result<()> {
        let (part, _) = self.out.sums()?;
        writeln!(self.out, "{}", end_line(self.table_entries, part))?;
        self.tables += 1;
        self.entries += self.table_entries;
        Ok(())
    }

    /// Ends the dump; gives back what it was written to.
    pub(super) fn done(mut self) -> io::Result<W> {
        let (_, all) = self.out.sums()?;
        writeln!(self.out, "{}", done_line(self.tables, self.entries, all))?;
        self.out.spill()?;
        Ok(self.out.out)
    }
}

/// Forms the checksums of what is written through it.
struct Summed<W> {
    out: W,
    buffer: Vec<u8>,
    /// Of all.
    all: Xxh3,
    /// Of the part that was begun last.
    part: Xxh3,
}

impl<W: Write> Summed<W> {
    fn begin_part(&mut self) -> io::Result<()> {
        self.spill()?;
        self.part.reset();
        Ok(())
    }

    /// The checksums of the part and of all.
    fn sums(&mut self) -> io::Result<(u64, u64)> {
        self.spill()?;
        Ok((self.part.digest(), self.all.digest()))
    }

    fn spill(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let passed = self.pass(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        passed
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.all.update(bytes);
        self.part.update(bytes);
        self.out.write_all(bytes)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.spill()?;
        }
        if bytes.len() >= WRITE_BYTES {
            self.pass(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.spill()?;
        self.out.flush()
    }
}
