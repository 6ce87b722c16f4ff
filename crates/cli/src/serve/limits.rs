//! How many connections the system allows: each takes a file descriptor, and a thread with its mappings of memory.

/// The descriptors that are for the database and not for connections: the engine keeps 512 for the files of its tables
/// at most, besides those of the log, and others come and go.
const FILES_OF_THE_DATABASE: u64 = 600;

/// The mappings of a thread: its stack, that of the handler of overflows, and a guard before each.
const MAPPINGS_OF_A_THREAD: u64 = 4;

/// Raises the number of files that the process may have open as far as the system allows, and says how many connections
/// that and the number of mappings allow, and which of the two is the limit.
pub(super) fn connections() -> (usize, String) {
    let (files, mappings) = (raise_files().unwrap_or(u64::MAX), mappings().unwrap_or(u64::MAX));
    let (by_files, by_mappings) = (of_files(files), of_mappings(mappings));
    let reason = if by_files <= by_mappings {
        format!("{files} open files (ulimit -n)")
    } else {
        format!("{mappings} mappings of memory (vm.max_map_count)")
    };
    (usize::try_from(by_files.min(by_mappings)).unwrap_or(usize::MAX), reason)
}

const fn of_files(files: u64) -> u64 {
    let connections = files.saturating_sub(FILES_OF_THE_DATABASE);
    // With few files each has its part.
    if connections > files / 4 { connections } else { files / 4 + 1 }
}

/// An eighth of the mappings is for the database.
const fn of_mappings(mappings: u64) -> u64 {
    (mappings - mappings / 8) / MAPPINGS_OF_A_THREAD + 1
}

/// How many files the process may have open, if there is a limit.
#[cfg(unix)]
fn raise_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, the limit stays as it is.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if raised.is_ok() { limit.maximum } else { limit.current }
}

/// Other systems have no such limit.
#[cfg(not(unix))]
fn raise_files() -> Option<u64> {
    None
}

/// How many mappings of memory a process may have, where the system tells.
fn mappings() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_keeps_files_and_mappings_for_itself() {
        assert_eq!((of_files(20_600), of_files(1024), of_files(60), of_files(0)), (20_000, 424, 16, 1));
        // The default of Linux.
        assert_eq!(of_mappings(65_530), 14_335);
        assert!(of_files(u64::MAX) > 1 << 40 && of_mappings(u64::MAX) > 1 << 40);
    }
}
