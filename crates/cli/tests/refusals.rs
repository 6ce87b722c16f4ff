//! What would mislead or harm is refused, with words that say what to do.

use crate::support::{Place, sample_entries};
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

#[test]
fn a_delete_of_all_has_a_flag_of_its_own_and_a_range_is_told() {
    let place = Place::loaded("lsm");
    let count = place.count("packages");
    for flag in ["--prefix", "--from", "--to"] {
        let message = place.refused(&["delete", "db", "packages", flag, ""]);
        assert!(message.contains(flag) && message.contains("--all"), "{message}");
    }
    place.refused(&["delete", "db", "packages", "--from", "a", "--to", ""]);
    place.refused(&["delete", "db", "packages", "key", "--all"]);
    assert_eq!(place.count("packages"), count);
    let said = place.ok(&["delete", "db", "packages", "--prefix", "lib"]);
    assert_eq!(said, "deleted all keys of `packages` that start with `lib`\n");
    let said = place.ok(&["delete", "db", "packages", "--from", "x", "--to", "y"]);
    assert_eq!(said, "deleted all keys of `packages` from `x` to before `y`\n");
    let message = place.refused(&["delete", "db", "packages", "--from", "z", "--to", "a"]);
    assert!(message.contains("--from `z` comes after --to `a`"), "{message}");
    assert_eq!(place.ok(&["delete", "db", "packages", "--all"]), "deleted all keys of `packages` that there were\n");
    assert_eq!(place.count("packages"), 0);
}

#[test]
fn stress_keeps_out_of_databases_that_it_did_not_begin() {
    let place = Place::loaded("lsm");
    let message = place.fails(&["stress", "db", "--commits", "1"]);
    assert!(message.contains("`packages`") && message.contains("was not begun by stress"), "{message}");
    assert_eq!(place.ok(&["tables", "db"]).lines().count(), 2, "it made no table");
    let message = place.fails(&["stress", "db", "--check"]);
    assert!(message.contains("nothing to check"), "{message}");
    assert_eq!(place.count("packages"), sample_entries().len());
    // A name of its tables is no sign of its own either.
    place.ok(&["create", "other", "stress-lsm"]);
    assert!(place.fails(&["stress", "other", "--commits", "1"]).contains("`stress-lsm`"));
    assert!(place.fails(&["stress", "--check", "missing"]).contains("no database"));
    place.ok(&["stress", "own", "--commits", "3"]);
    place.ok(&["stress", "own", "--commits", "3"]);
    assert_eq!(place.ok(&["stress", "--check", "own"]).lines().count(), 4);
}

#[test]
fn a_copy_within_the_database_that_is_copied_is_refused() {
    let place = Place::loaded("btree");
    for inside in ["db/copy", "./db/log/copy"] {
        for copy in ["checkpoint", "salvage"] {
            let message = place.refused(&[copy, "db", inside]);
            assert!(message.contains("lies in the database db: give a place outside"), "{message}");
            assert!(!place.path(inside).exists());
        }
    }
    place.ok(&["checkpoint", "db", "db-copy"]);
}

#[test]
fn a_file_is_not_written_into_the_database_whatever_way_leads_there() {
    let place = Place::loaded("lsm");
    let docs = place.file("docs.jsonl", "{\"_id\": 1}\n");
    place.ok(&["doc", "import", "db", "a.b", &docs]);
    std::os::unix::fs::symlink(place.path("db"), place.path("link")).unwrap();
    std::fs::create_dir(place.path("beside")).unwrap();
    let rows = place.file("rows", "{\"id\": 1}\n");
    for inside in ["db/x", "db/log/0000000000000009.log", "./db/../db/x", "link/x", "beside/../link/x"] {
        for args in [
            &["dump", "db", "-o", inside][..],
            &["dump", "link", "-o", inside],
            &["doc", "export", "db", "a.b", inside],
            &["load", "db", "t", "--jsonl", &rows, "--key", "id", "--bad-rows", inside, "--skip-bad"],
        ] {
            let message = place.refused(args);
            assert!(message.contains("lies in the database"), "{args:?}: {message}");
        }
    }
    assert!(!place.path("db/x").exists() && !place.path("db/x.partial").exists());
    place.ok(&["dump", "db", "-o", "db-x"]);
    place.verify();
}

#[test]
fn a_number_that_is_too_large_is_refused_with_what_its_option_takes() {
    let place = Place::loaded("btree");
    let large = "99999999999999999999";
    for (args, range) in [
        (&["scan", "db", "packages", "--limit", large][..], "0 to 18446744073709551615"),
        (&["log", "db", "--limit", large], "0 to 18446744073709551615"),
        (&["doc", "find", "db", "a.b", "--limit", large], "0 to 18446744073709551615"),
        (&["create", "db", "t", "--fanout", large], "2 to 32"),
        (&["stress", "other", "--threads", large], "1 to 64"),
    ] {
        let message = place.refused(args);
        assert!(message.contains(&format!("it must be a whole number from {range}")), "{message}");
    }
    assert_eq!(
        place.ok(&["scan", "db", "packages", "--limit", "18446744073709551615"]),
        place.ok(&["scan", "db", "packages"])
    );
}

#[test]
fn a_number_below_zero_is_refused_as_a_value_of_its_option() {
    let place = Place::loaded("btree");
    for args in [&["scan", "db", "packages", "--limit", "-1"][..], &["doc", "find", "db", "a.b", "--skip", "-5"]] {
        let message = place.refused(args);
        assert!(message.contains("invalid value '-") && !message.contains("unexpected"), "{message}");
    }
    place.ok(&["scan", "db", "packages", "--from", "-5"]);
}

#[test]
fn a_log_of_what_is_not_there_is_an_error() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    place.ok(&["put", "db", "t", "a", "1"]);
    let message = place.fails(&["log", "db", "--table", "nosuch"]);
    assert_eq!(message, "db has no table `nosuch`");
    let message = place.fails(&["log", "db", "--from", "99999999999999"]);
    assert!(message.contains("99999999999999 is behind the end of the redo log"), "{message}");
    let entry: serde_json::Value = serde_json::from_str(&place.ok(&["log", "db", "--json"])).unwrap();
    let lsn = entry["lsn"].to_string();
    assert_eq!(place.ok(&["log", "db", "--from", &lsn]).lines().count(), 2, "the commit ends after its position");
    place.ok(&["create", "db", "empty"]);
    assert_eq!(place.ok(&["log", "db", "--table", "empty"]).lines().count(), 1, "no change is no error");
}

#[test]
fn an_argument_that_is_not_utf8_is_refused_with_a_hint() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    for args in [&["get", "db", "t"][..], &["put", "db", "t"], &["load", "db", "t", "--jsonl", "rows", "--key"]] {
        let output = place.command(args).arg(OsStr::from_bytes(b"caf\xe9")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--escape") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn names_with_control_characters_are_printed_escaped() {
    let place = Place::new();
    let name = "a\tb\n\u{1b}[2J";
    let shown = "a\\tb\\n\\x1b[2J";
    place.ok(&["create", "db", name]);
    place.ok(&["put", "db", name, "key", "1"]);
    let file = place.file("rows", "{\"id\": 1}\n");
    for said in [
        place.ok(&["tables", "db"]),
        place.ok(&["shape", "db"]),
        place.ok(&["stat", "db"]),
        place.ok(&["log", "db"]),
        place.ok(&["load", "db", name, "--jsonl", &file, "--key", "id"]),
        place.ok(&["delete", "db", name, "--prefix", "k"]),
        place.ends(4, &["get", "db", name, "none"]),
        place.fails(&["create", "db", name]),
    ] {
        assert!(said.contains(shown) && !said.contains('\u{1b}') && !said.contains('\t'), "{said}");
    }
    let tables: serde_json::Value = serde_json::from_str(&place.ok(&["tables", "db", "--json"])).unwrap();
    assert_eq!(tables[0]["table"], name);
}

#[test]
fn the_exit_codes_are_listed_and_a_signal_has_its_own() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    for code in ["0  ", "1  ", "2  ", "3  ", "4  ", "130  ", "143  "] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(code)), "{code}: {help}");
    }
    use nix::sys::signal::Signal;
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let args = ["load", "db", "t", "--jsonl", "-", "--key", "id", "--batch", "1", "--ack"];
        let mut child = place.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"{\"id\": 1}\n").unwrap();
        let mut ack = [0; 14];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ack).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        while stdin.write_all(b"{\"id\": 1}\n").is_ok() {}
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn a_load_of_nothing_says_so() {
    let place = Place::new();
    let file = place.file("rows", "\n\n");
    let said = place.ok(&["load", "db", "t", "--jsonl", &file, "--key", "id"]);
    assert_eq!(said, "loaded 0 rows into `t` (lsm): the input has none\n");
}

#[test]
fn the_database_of_a_member_of_a_replica_set_is_read_and_not_changed() {
    let place = Place::new();
    let (entries, documents) = (place.file("a.tsv", "k\tv\n"), place.file("a.jsonl", "{\"_id\":1}\n"));
    place.ok(&["doc", "import", "db", "shop.things", &documents]);
    place.ok(&["create", "db", "other"]);
    place.ok(&["dump", "db", "-o", "dump"]);
    // The table that a member has.
    place.ok(&["create", "db", "replica", "--force"]);
    for changes in [
        &["doc", "import", "db", "shop.things", &documents][..],
        &["load", "db", "other", "--tsv", &entries, "--columns", "k,v", "--key", "k", "--value", "v"],
        &["put", "db", "other", "k", "v"],
        &["delete", "db", "other", "k"],
        &["restore", "db", "-i", "dump"],
    ] {
        let message = place.refused(changes);
        assert!(message.contains("member of a replica set"), "{message}");
    }
    assert_eq!(place.ok(&["doc", "find", "db", "shop.things"]).trim(), "{\"_id\":1}");
    assert_eq!(place.count("other"), 0);
    place.ok(&["drop", "db", "replica", "--force"]);
    place.ok(&["put", "db", "other", "k", "v"]);
}

/// `put`, `delete` and `drop` took the tables of a document database for tables like others: one command ended all
/// documents, and verify found nothing.
#[test]
fn tables_of_documents_are_changed_only_by_force() {
    let place = Place::loaded("lsm");
    place.file("docs.jsonl", "{\"_id\": 1}\n{\"_id\": 2}\n");
    place.ok(&["doc", "import", "docs", "app.c", "docs.jsonl"]);
    let count = || place.ok(&["doc", "find", "docs", "app.c", "{}"]).lines().count();
    let tables = place.ok(&["tables", "docs"]);
    let tables: Vec<&str> = tables.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(tables.contains(&"catalog") && tables.len() > 1, "{tables:?}");
    for table in &tables {
        for command in [
            vec!["put", "docs", table, "key", "value"],
            vec!["delete", "docs", table, "--all"],
            vec!["drop", "docs", table],
            vec!["load", "docs", table, "--jsonl", "docs.jsonl", "--key", "_id"],
        ] {
            let message = place.refused(&command);
            assert!(message.contains("part of a document database") && message.contains("--force"), "{message}");
        }
    }
    assert_eq!(count(), 2);
    // A table of the program's own is none of them.
    place.ok(&["create", "docs", "own"]);
    place.ok(&["put", "docs", "own", "key", "value"]);
    let table = tables.iter().find(|table| table.starts_with("c-")).unwrap();
    place.ok(&["delete", "docs", table, "--all", "--force"]);
    assert_eq!(count(), 0);
}
