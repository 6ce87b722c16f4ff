//! The last lines of a log, as `getLog` gives them.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// How many lines are kept; with the one of the beginning, MongoDB's 1024.
const KEPT: usize = 1023;

/// The last lines of a log, each a document in extended JSON.
#[derive(Debug, Default)]
pub struct Lines(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    total: u64,
}

impl Lines {
    /// Adds a line.
    pub fn add(&self, line: String) {
        let mut kept = self.0.lock();
        if kept.lines.len() == KEPT {
            kept.lines.pop_front();
        }
        kept.lines.push_back(line);
        kept.total += 1;
    }

    /// The lines that are kept, the oldest first, and how many there were.
    #[must_use]
    pub fn list(&self) -> (Vec<String>, u64) {
        let kept = self.0.lock();
        (kept.lines.iter().cloned().collect(), kept.total)
    }
}
