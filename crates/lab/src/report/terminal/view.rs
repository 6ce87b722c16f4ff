//! How wide the tables may be, and whether they are explained.

use crate::text::terminal_width;

/// How the tables are shown.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Characters of a line that a table may take before it goes on below.
    pub width: usize,
    /// Say how many calls of each step took how long.
    pub histograms: bool,
    /// Say what flushes and compactions did for each level.
    pub levels: bool,
    /// Say what each column means that was shown.
    pub explain: bool,
}

impl View {
    /// Characters that a line of words may have: longer ones are hard to read.
    pub(in crate::report) fn text_width(self) -> usize {
        self.width.min(100)
    }
}

impl Default for View {
    /// As wide as the terminal, without explanations.
    fn default() -> Self {
        Self { width: terminal_width(), histograms: false, levels: false, explain: false }
    }
}
