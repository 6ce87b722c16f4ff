//! Acknowledgements: lines `ACK thread commit`, each handed to the system by itself, so that a killed process leaves
//! only true ones.

use super::plan::Work;
use anyhow::{Context as _, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

/// Writes acknowledgements to stdout, past all buffers. Threads share it.
#[derive(Debug)]
pub(super) struct Acks(File);

impl Acks {
    /// Those of this process.
    pub(super) fn stdout() -> Result<Self> {
        Ok(Self(File::from(io::stdout().as_fd().try_clone_to_owned().context("cannot use stdout")?)))
    }

    /// A commit is durable. One call to the system, so lines of several threads do not mix.
    pub(super) fn tell(&self, work: &Work) -> Result<()> {
        let line = format!("ACK {} {}\n", work.thread, work.number);
        // Not the pipe's own error, which would pass for success.
        (&self.0).write_all(line.as_bytes()).map_err(|error| anyhow!("cannot acknowledge: {error}"))
    }
}

/// The last commit that was acknowledged of each thread, in a file of such lines and others.
pub(super) fn read(path: &Path) -> Result<BTreeMap<u16, u64>> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} holds no acknowledgements", path.display()))
}

fn parse(text: &[u8]) -> Result<BTreeMap<u16, u64>> {
    let mut last = BTreeMap::new();
    // What follows the last line's end is a line that was not written whole.
    let lines = text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    for line in lines {
        let Some(ack) = line.strip_prefix(b"ACK ") else { continue };
        let words = str::from_utf8(ack).ok().and_then(|ack| ack.split_once(' '));
        let numbers = words.and_then(|(thread, commit)| Some((thread.parse().ok()?, commit.parse::<u64>().ok()?)));
        let Some((thread, commit)) = numbers else { bail!("wrong line `{}`", line.escape_ascii()) };
        let known = last.entry(thread).or_default();
        *known = commit.max(*known);
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_acknowledgement_of_each_thread_counts() {
        let text = b"ACK 0 1\nACK 1 1\nACK 0 2\n3 commits\nACK 1 2\nACK 0 1\nACK 0 9";
        assert_eq!(parse(text).unwrap(), BTreeMap::from([(0, 2), (1, 2)]));
    }

    #[test]
    fn a_line_that_is_wrong_is_an_error() {
        assert!(parse(b"ACK 0 x\n").is_err() && parse(b"ACK 5\n").is_err());
    }
}
