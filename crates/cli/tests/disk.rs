//! A disk that is full: the command says so in one line, what was acknowledged stays, and with space the work goes on.

use crate::support::{LAYOUTS, Place, failure};
use std::process::{Command, Output, Stdio};

/// Bytes of a block of `ulimit -f`.
const ULIMIT_BYTES: usize = 512;
/// Length of the first log segment, the largest file that opening a database writes.
const OPEN_BYTES: usize = 1 << 20;

/// Rows that do not compress, so that trees need the room that their rows have.
pub(crate) fn rows(count: usize) -> String {
    let mut state = 1u64;
    let mut word = move || {
        // Knuth's multiplier and increment.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let mut text = move || (0..56).map(|_| format!("{:016x}", word())).collect::<String>();
    (0..count).map(|id| format!("{{\"id\": {id}, \"text\": \"{}\"}}\n", text())).collect()
}

/// Runs the command where no file may grow beyond `bytes`. The signal of a file too large is ignored, so that the write
/// fails as it does on a full disk.
pub(crate) fn run_with_room(place: &Place, bytes: usize, args: &[&str]) -> Output {
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", bytes / ULIMIT_BYTES);
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_spinney")]).args(args);
    command.current_dir(place.path("")).stdin(Stdio::null()).output().unwrap()
}

/// Loads with little room, then checks what is left, and loads again with all of it.
fn load_with_room(layout: &str, room: usize) {
    const ROWS: usize = 12_000;
    let place = Place::new();
    place.ok(&["create", "db", "t", "--layout", layout]);
    place.ok(&["put", "db", "t", "old", "value"]);
    let file = place.file("rows", rows(ROWS));
    let args = ["load", "db", "t", "--jsonl", &file, "--key", "id", "--batch", "100", "--memory", "2MiB"];
    let output = run_with_room(&place, room, &args);
    // The runs of flushes are small enough. Compactions into larger ones, and merges into a B-tree, are left undone,
    // and nothing but them needs such files.
    let fits = room >= OPEN_BYTES;
    assert_eq!(output.status.success(), fits, "{layout}, {room}: {output:?}");
    if fits {
        assert_eq!(place.count("t"), ROWS + 1);
        return place.verify();
    }
    let message = failure(&output, &args);
    assert!(message.contains("too large"), "{layout}, {room}: {message}");
    // None when there was not even room to open the database.
    let loaded = message.strip_suffix(" rows were loaded").and_then(|text| text.rsplit(' ').next());
    let acknowledged: usize = loaded.map_or(0, |rows| rows.parse().unwrap());
    assert!(loaded.is_some() || room < OPEN_BYTES, "{message}");
    // A reader in the same need either reads what is there or says what is wrong.
    let tight = run_with_room(&place, room, &["count", "db", "t"]);
    if tight.status.code() != Some(0) {
        failure(&tight, &["count"]);
    }
    assert_eq!(place.ok(&["get", "db", "t", "old"]), "value");
    let count = place.count("t") - 1;
    assert!(count >= acknowledged && count.is_multiple_of(100), "{layout}, {room}: {count} rows, {message}");
    place.verify();
    place.ok(&args);
    assert_eq!(place.count("t"), ROWS + 1);
    place.verify();
}

#[test]
fn no_room_for_the_log_or_the_trees_loses_nothing() {
    for layout in LAYOUTS {
        for room in [OPEN_BYTES / 2, OPEN_BYTES, 3 * OPEN_BYTES] {
            load_with_room(layout, room);
        }
    }
}

#[test]
fn stdout_that_takes_nothing_is_a_failure_that_says_so() {
    let place = Place::loaded("lsm");
    for args in [&["scan", "db", "packages"][..], &["stat", "db", "--json"], &["completions", "zsh"]] {
        let output = place.command(args).stdout(full_device()).output().unwrap();
        assert!(failure(&output, args).starts_with("cannot write to stdout: No space left"), "{args:?}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a device that is always full")]
fn full_device() -> std::fs::File {
    std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap()
}
