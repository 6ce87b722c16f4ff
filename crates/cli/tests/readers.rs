//! Commands that look, beside a process that has the database open and commits, and that is killed at last.

use crate::support::Place;
use std::process::Stdio;

/// A writer that commits for ever is given so many tries to write its counters; each is a command.
const TRIES: usize = 2000;

#[test]
fn commands_that_look_run_beside_a_writer() {
    let place = Place::new();
    let stress = ["stress", "db", "--threads", "2", "--seed", "7", "--durability", "buffered"];
    // Into a file: a pipe that is not read would stop it.
    let acks = std::fs::File::create(place.path("acks")).unwrap();
    let mut writer = place.command(&stress).stdout(acks).stderr(Stdio::null()).spawn().unwrap();
    while std::fs::read(place.path("acks")).unwrap().len() < 1000 {
        assert!(writer.try_wait().unwrap().is_none(), "the writer ended");
        std::thread::yield_now();
    }
    let process = format!("process {} (spinney)", writer.id());

    let tables: serde_json::Value = serde_json::from_str(&place.ok(&["tables", "db", "--json"])).unwrap();
    let tables: Vec<_> = tables.as_array().unwrap().iter().map(|table| table["table"].as_str().unwrap()).collect();
    assert!(!tables.is_empty());
    for table in &tables {
        for _ in 0..3 {
            place.ok(&["count", "db", table]);
            place.bytes(&["scan", "db", table, "--limit", "3"]);
            place.ok(&["shape", "db", table]);
        }
    }
    place.ok(&["verify", "db"]);
    place.ok(&["dump", "db", "-o", "db.dump"]);
    place.ok(&["log", "db", "--limit", "3"]);
    let refused = place.fails(&["put", "db", tables[0], "key", "value"]);
    if cfg!(target_os = "linux") {
        assert!(refused.contains(&process), "{refused}");
        let told = (0..TRIES).map(|_| place.ok(&["stat", "db"])).find(|told| told.contains("counters of"));
        let told = told.unwrap();
        assert!(told.starts_with(&format!("counters of {process}, which has the database open\n")), "{told}");
        let stats: serde_json::Value = serde_json::from_str(&place.ok(&["stat", "db", "--json"])).unwrap();
        assert!(stats["commits"].as_u64().unwrap() > 0 && stats["process"] == process.as_str(), "{stats}");
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(!place.ok(&["stat", "db"]).contains("counters of"));
    let before: Vec<_> = tables.iter().map(|table| place.ok(&["count", "db", table])).collect();
    // What the reader sees of a log with a torn end is what the next open for writing finds.
    place.ok(&["flush", "db"]);
    let after: Vec<_> = tables.iter().map(|table| place.ok(&["count", "db", table])).collect();
    assert_eq!(before, after);
}

/// A database in which nothing can be written, and nothing is: the directories have no such right. (Root has it anyway,
/// and changes nothing all the same.)
#[cfg(unix)]
#[test]
fn commands_that_look_need_no_right_to_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::loaded("lsm");
    let dirs = [place.path("db"), place.path("db/log")];
    let files = || {
        let entries = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).unwrap());
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let allow = |mode| {
        let set = |path: &std::path::PathBuf, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        before.iter().for_each(|(path, _)| set(path, mode & 0o666));
        dirs.iter().for_each(|dir| set(dir, mode));
    };
    allow(0o555);
    let commands: [&[&str]; 8] = [
        &["count", "db", "packages"],
        &["get", "db", "packages", "mutt"],
        &["scan", "db", "packages", "--limit", "1"],
        &["shape", "db", "packages"],
        &["stat", "db"],
        &["tables", "db"],
        &["verify", "db"],
        &["log", "db"],
    ];
    commands.into_iter().for_each(|command| drop(place.ok(command)));
    allow(0o755);
    assert!(before == files());
}
