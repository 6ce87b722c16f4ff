//! How many files a server may have open, and how many connections that makes.

/// The descriptors that are for the database and not for connections: the engine keeps 512 for the files of its tables
/// at most, besides those of the log, and others come and go.
const OF_THE_DATABASE: u64 = 600;

/// Raises the number of files that the process may have open as far as the system allows; how many those are, if there
/// is a limit.
#[cfg(unix)]
pub(super) fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, the limit stays as it is.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if raised.is_ok() { limit.maximum } else { limit.current }
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(super) fn raise() -> Option<u64> {
    None
}

/// How many connections there may be when the process may have so many files open; one at least.
pub(super) fn connections_of(files: u64) -> usize {
    let connections = files.saturating_sub(OF_THE_DATABASE).max(files / 4).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_keeps_descriptors_for_itself() {
        assert_eq!(connections_of(20_600), 20_000);
        assert_eq!(connections_of(1024), 424);
        assert_eq!(connections_of(256), 64);
        assert_eq!(connections_of(0), 1);
    }
}
