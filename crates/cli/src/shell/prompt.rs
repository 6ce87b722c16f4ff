//! Lines from a terminal: edited, completed and kept in a history.

use super::args::ShellArgs;
use super::line::{flags, names};
use super::words::quoted;
use anyhow::{Context as _, Result};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Editor, Helper};
use spinney::Database;
use std::fs;
use std::path::PathBuf;

/// Lines that the history keeps.
const HISTORY_LINES: usize = 2000;

/// What was typed.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Cleared,
    /// Ctrl-D.
    End,
}

/// The editor of a shell's lines.
pub(super) struct Prompt<'a> {
    editor: Editor<Names<'a>, FileHistory>,
    history: Option<PathBuf>,
}

impl<'a> Prompt<'a> {
    pub(super) fn new(args: &ShellArgs, db: &'a Database) -> Result<Self> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_LINES)?
            .history_ignore_space(true)
            .auto_add_history(true)
            .build();
        let mut editor = Editor::with_config(config).context("cannot edit lines on this terminal")?;
        editor.set_helper(Some(Names { db }));
        let history = if args.no_history { None } else { args.history.clone().or_else(default_history) };
        if let Some(history) = &history {
            // The first shell has none.
            editor.load_history(history).ok();
        }
        Ok(Self { editor, history })
    }

    /// Reads a line.
    pub(super) fn read(&mut self, prompt: &str) -> Result<Typed> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Cleared),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(error).context("cannot read the terminal"),
        }
    }

    /// Keeps the lines for the next shell.
    pub(super) fn save(mut self) -> Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        if let Some(above) = history.parent() {
            fs::create_dir_all(above).with_context(|| format!("cannot make {}", above.display()))?;
        }
        self.editor.save_history(history).with_context(|| format!("cannot write {}", history.display()))
    }
}

/// Where the history is unless it is said.
fn default_history() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("spinney/history"))
}

/// The names that are completed: commands, then tables, and flags.
struct Names<'a> {
    db: &'a Database,
}

impl Helper for Names<'_> {}
impl Highlighter for Names<'_> {}
impl Validator for Names<'_> {}

impl Hinter for Names<'_> {
    type Hint = String;
}

impl Completer for Names<'_> {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let tables = self.db.tables().unwrap_or_default();
        Ok(candidates(&line[..position], || tables.iter().map(|table| table.name().to_owned()).collect()))
    }
}

/// Where the word at the end of `line` begins, and what it may become.
fn candidates(line: &str, tables: impl FnOnce() -> Vec<String>) -> (usize, Vec<Pair>) {
    let (before, begun) = line.rsplit_once(' ').map_or(("", line), |(before, begun)| (before, begun));
    let from = line.len() - begun.len();
    let command = before.split_whitespace().next();
    let all: Vec<String> = match command {
        None => names().collect(),
        Some(command) if begun.starts_with('-') => flags(command),
        Some(".help") => names().collect(),
        Some(_) if before.split_whitespace().count() == 1 => tables(),
        Some(_) => Vec::new(),
    };
    let bare = begun.trim_start_matches('\'');
    let mut fitting: Vec<String> = all.into_iter().filter(|name| name.starts_with(bare)).collect();
    fitting.sort_unstable();
    let pair = |name: String| Pair { replacement: format!("{} ", quoted(&name)), display: name };
    (from, fitting.into_iter().map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> (usize, Vec<String>) {
        let tables = || ["orders", "order lines", "guests"].map(str::to_owned).to_vec();
        let (from, pairs) = candidates(line, tables);
        (from, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn commands_tables_and_flags_are_completed() {
        let expected = |from, names: &[&str]| (from, names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(completed("sc"), expected(0, &["scan "]));
        assert_eq!(completed(".s"), expected(0, &[".stats "]));
        assert_eq!(completed("get or"), expected(4, &["'order lines' ", "orders "]));
        assert_eq!(completed("get 'or"), expected(4, &["'order lines' ", "orders "]));
        assert_eq!(completed("scan orders --re"), expected(12, &["--reverse "]));
        assert_eq!(completed("scan orders --mem"), expected(12, &[]));
        assert_eq!(completed(".help com"), expected(6, &["commit ", "compact "]));
        assert_eq!(completed("get orders o"), expected(11, &[]));
        assert!(completed("").1.len() > 20);
    }
}
