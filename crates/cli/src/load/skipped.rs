//! The rows that a load leaves out because they are wrong.

use crate::escape::one_line;
use crate::failure;
use crate::out_file::OutFile;
use crate::output::{Output, json_of};
use anyhow::{Error, Result};
use serde_json::{Value as Json, json};
use spinney_lab::text::counted;
use std::io::{self, Write as _};
use std::path::Path;

/// So many are told one by one.
const TOLD: usize = 10;
/// Characters of what is wrong that are told.
const TOLD_CHARS: usize = 200;

/// What was left out.
#[derive(Default)]
pub(super) struct Skipped {
    count: u64,
    /// The first ones: their lines, and what is wrong.
    first: Vec<(u64, String)>,
    /// Takes all of them.
    file: Option<OutFile>,
}

impl Skipped {
    /// Nothing yet; all go to a file, if one is named.
    pub(super) fn new(file: Option<&Path>) -> Result<Self> {
        let file = file.map(OutFile::create).transpose()?;
        Ok(Self { file, ..Self::default() })
    }

    /// Adds a row.
    pub(super) fn add(&mut self, line: u64, text: &[u8], why: &Error) -> Result<()> {
        let why = failure::message(why);
        if let Some(file) = &mut self.file {
            let row = json!({ "line": line, "error": why, "row": json_of(text) });
            serde_json::to_writer(&mut *file, &row).map_err(io::Error::from)?;
            file.write_all(b"\n")?;
        }
        if self.first.len() < TOLD {
            self.first.push((line, why.chars().take(TOLD_CHARS).collect()));
        }
        self.count += 1;
        Ok(())
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The first one, and what is wrong with it.
    pub(super) fn first(&self) -> Option<String> {
        self.first.first().map(|(line, why)| format!("line {line}: {why}"))
    }

    /// Completes the file.
    pub(super) fn complete(&mut self) -> Result<()> {
        self.file.take().map_or(Ok(()), OutFile::complete)
    }

    /// Prints how many they are, and the first.
    pub(super) fn print(&self, out: &mut Output) -> Result<()> {
        if self.count > 0 {
            writeln!(out, "left out {}:", counted(self.count, "row", "rows"))?;
        }
        for (line, why) in &self.first {
            writeln!(out, "  line {line}: {}", one_line(why))?;
        }
        match self.count.saturating_sub(self.first.len() as u64) {
            0 => Ok(()),
            more => Ok(writeln!(out, "  and {more} more")?),
        }
    }

    /// The first ones as JSON.
    pub(super) fn json(&self) -> Json {
        self.first.iter().map(|(line, why)| json!({ "line": line, "error": why })).collect()
    }
}
