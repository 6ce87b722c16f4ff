//! What a failed command says, and how it ends.

use crate::escape::escape;
use anyhow::Error;
use spinney_lab::{Interrupted, signals};
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};

/// Not all could be done; what could be is done, and was printed.
#[derive(Debug)]
pub(crate) struct Incomplete(pub(crate) String);

/// The command line asks for what cannot be; nothing was done.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

/// A key that was asked for is not there.
#[derive(Debug)]
pub(crate) struct Absent(pub(crate) String);

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Incomplete {}
impl StdError for Usage {}
impl StdError for Absent {}

/// The exit code that tells what kind of failure it is: those that `spinney --help` lists.
pub(crate) fn exit_code(error: &Error) -> u8 {
    if error.is::<Usage>() {
        2
    } else if error.is::<Incomplete>() {
        3
    } else if error.is::<Absent>() {
        4
    } else if interrupted(error) {
        signals::exit_code()
    } else {
        1
    }
}

/// What the library calls by the names of its options and methods, and what this command calls them. The longer ones
/// first.
const IN_FLAGS: [(&str, &str); 7] = [
    ("is larger than memory_bytes allows", "is larger than --memory allows"),
    ("give the new place as log_dir", "give the new place with --log-dir"),
    ("without log_dir", "without --log-dir"),
    ("the path of log_dir", "the path of --log-dir"),
    ("log_dir lies inside", "--log-dir lies inside"),
    (": name one in TableOptions::merge when it is created", ": it was created without --merge"),
    (
        "is not registered: open the database with DatabaseBuilder::merge_operator",
        "is not part of this command: use the program that made the table",
    ),
];

/// The words of the library as the user of this command knows things.
fn in_flags(text: &str) -> String {
    IN_FLAGS.iter().fold(text.to_owned(), |text, (library, command)| text.replace(library, command))
}

/// The error and its causes in one line; a cause that the words before it quote already is left out.
pub(crate) fn message(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let words = in_flags(&cause.to_string());
        if !text.contains(&words) {
            let separator = if text.is_empty() { "" } else { ": " };
            text += &format!("{separator}{words}");
        }
    }
    let in_a_line = |char: char| if char == '\n' { " ".to_owned() } else { escape(char.to_string().as_bytes()) };
    text.chars().map(|char| if char.is_control() { in_a_line(char) } else { char.to_string() }).collect()
}

/// Whether the error is that the program that reads our output has stopped (as `head` does), which is no failure.
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
    fn a_control_character_does_not_reach_the_terminal() {
        assert_eq!(message(&anyhow!("table `a\tb\u{1b}[2J`")), "table `a\\tb\\x1b[2J`");
    }

    #[test]
    fn messages_of_the_library_name_flags() {
        for (library, command) in IN_FLAGS {
            let said = message(&anyhow!("x: {library}"));
            assert!(said.ends_with(command) && !said.contains("::") && !said.contains('_'), "{said}");
        }
    }

    #[test]
    fn each_kind_of_failure_has_its_exit_code() {
        let text = String::new;
        let errors = [
            (anyhow!("failed"), 1),
            (Usage(text()).into(), 2),
            (Incomplete(text()).into(), 3),
            (Absent(text()).into(), 4),
            (Error::from(Interrupted).context("after 2 rows"), 130),
        ];
        assert!(errors.iter().all(|(error, code)| exit_code(error) == *code));
    }

    #[test]
    fn a_closed_pipe_is_found_behind_words() {
        let error = Err::<(), _>(io::Error::from(ErrorKind::BrokenPipe)).context("printing").unwrap_err();
        assert!(reader_left(&error));
        assert!(!reader_left(&anyhow!("other")));
    }
}
