//! What a failed command says, and how it ends.

use anyhow::Error;
use spinney_lab::Interrupted;
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};

/// Not all could be done; what could be is done, and was printed.
#[derive(Debug)]
pub(crate) struct Incomplete(pub(crate) String);

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Incomplete {}

/// The exit code that tells what kind of failure it is.
pub(crate) fn exit_code(error: &Error) -> u8 {
    if error.is::<Incomplete>() {
        3
    } else if interrupted(error) {
        130
    } else {
        1
    }
}

/// The error and its causes in one line; a cause that the words before it quote already is left out.
pub(crate) fn message(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if !text.contains(&words) {
            let separator = if text.is_empty() { "" } else { ": " };
            text += &format!("{separator}{words}");
        }
    }
    text.replace(char::is_control, " ")
}

/// Whether the error is that whoever read our output has stopped (as `head` does), which is no failure.
pub(crate) fn reader_left(error: &Error) -> bool {
    let pipe = |cause: &(dyn StdError + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().any(pipe)
}

/// Whether the work ended because it was asked to.
fn interrupted(error: &Error) -> bool {
    error.chain().any(|cause| cause.is::<Interrupted>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};

    #[test]
    fn a_message_is_one_line_and_says_each_thing_once() {
        let cause = anyhow!("disk\nfull");
        let error = cause.context("cannot write x: disk\nfull").context("2 rows were loaded");
        assert_eq!(message(&error), "2 rows were loaded: cannot write x: disk full");
    }

    #[test]
    fn a_closed_pipe_is_found_behind_words() {
        let error = Err::<(), _>(io::Error::from(ErrorKind::BrokenPipe)).context("printing").unwrap_err();
        assert!(reader_left(&error));
        assert!(!reader_left(&anyhow!("other")));
    }
}
