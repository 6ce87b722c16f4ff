//! Reading the kernel's figures about processes.

use anyhow::{Context as _, Result};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Read calls that measuring itself made, so that they can be taken off what the process made. Publishes nothing.
static OWN_READS: AtomicU64 = AtomicU64::new(0);

/// An open file below `/proc` or `/sys`.
#[derive(Debug)]
pub(super) struct ProcFile {
    path: String,
    file: File,
}

impl ProcFile {
    /// Opens the file.
    #[expect(clippy::disallowed_methods, reason = "/proc is no part of a database")]
    pub(super) fn open(path: String) -> Result<Self> {
        let file = File::open(&path).with_context(|| format!("cannot open {path}, which measuring needs"))?;
        Ok(Self { path, file })
    }

    /// The number after each of `labels` (`label: number`, as in `status` and `io`).
    pub(super) fn numbers<const N: usize>(&self, labels: [&str; N]) -> Result<[u64; N]> {
        let text = self.text()?;
        let mut numbers = [0; N];
        for (number, label) in numbers.iter_mut().zip(labels) {
            *number = number_of(&text, label).with_context(|| format!("{} has no number {label}", self.path))?;
        }
        Ok(numbers)
    }

    /// What the file says now: its first 4 KiB, in one read that is counted as measuring's own.
    pub(super) fn text(&self) -> Result<String> {
        let mut buffer = [0; 4096];
        OWN_READS.fetch_add(1, Ordering::Relaxed);
        let len = self.file.read_at(&mut buffer, 0).with_context(|| format!("cannot read {}", self.path))?;
        Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
    }
}

/// Read calls that measuring itself made so far.
pub(super) fn own_reads() -> u64 {
    OWN_READS.load(Ordering::Relaxed)
}

/// The number in the line that starts with `label` and a colon.
fn number_of(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_whole() {
        let text = "VmHWMark:\t1 kB\nVmHWM:\t    4096 kB\nrchar: 17\n";
        assert_eq!(number_of(text, "VmHWM"), Some(4096));
        assert_eq!(number_of(text, "rchar"), Some(17));
        assert_eq!(number_of(text, "wchar"), None);
    }
}
