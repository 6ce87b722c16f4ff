//! `shell`: batches of commands on stdin, transactions in them, and a terminal.

use crate::support::{LAYOUTS, Place, skip};
use std::io::{Read, Write as _};
use std::process::{Command, Output, Stdio};

/// Runs a batch.
fn run(place: &Place, more: &[&str], batch: &str) -> Output {
    place.run_with(&[&["shell", "db"], more].concat(), batch.as_bytes())
}

/// What a batch prints that succeeds.
fn ok(place: &Place, batch: &str) -> String {
    let output = run(place, &[], batch);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{batch}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a batch says that ends with an exit code.
fn fails(place: &Place, code: i32, batch: &str) -> String {
    let output = run(place, &[], batch);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{batch}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr.strip_prefix("spinney: ").unwrap().trim_end().to_owned()
}

#[test]
fn a_batch_of_commands_prints_what_the_commands_print() {
    for layout in LAYOUTS {
        let place = Place::new();
        place.ok(&["create", "db", "t", "--layout", layout]);
        let batch = "# a comment\n\nput t a 1\nput t 'two words' \"it's \\\"quoted\\\"\"\nget t a\nget t a 'two words'\n\
                     scan t --reverse --json\ncount t\ndelete t a\ncount t\ncreate c --merge add\nmerge c n 5\n\
                     merge c n -7\nget c n\nflush\ncompact t\nscan t -e\nput -e t '\\x00' 'a\\nb'\nget -e t '\\x00'\n\
                     delete t --prefix two\n.quit\nget t nothing\n";
        let expected = "1\na\t1\ntwo words\tit's \"quoted\"\n{\"key\":\"two words\",\"value\":\"it's \\\"quoted\\\"\"}\n\
                        {\"key\":\"a\",\"value\":\"1\"}\n2\n1\n-2\ntwo words\tit's \"quoted\"\na\\nb\n\
                        deleted all keys of `t` that start with `two`\n";
        assert_eq!(ok(&place, batch), expected);
        assert_eq!(place.count("t"), 1);
        let looks = ok(&place, ".tables\n.stats\nshape t\nverify\nstat --json\n.help\n.help begin\nget --help\n");
        for words in
            ["options", "log, how often", "memtable", "redo log checked", "{", ".quit", "--serializable", "--hex"]
        {
            assert!(looks.contains(words), "{words}: {looks}");
        }
        assert_eq!(ok(&place, "checkpoint copy\n"), "");
        assert_eq!(place.ok(&["count", "copy", "t"]), "1\n");
        place.verify();
    }
}

#[test]
fn a_transaction_is_one_change_and_sees_itself() {
    for layout in LAYOUTS {
        let place = Place::new();
        place.ok(&["create", "db", "t", "--layout", layout]);
        place.ok(&["create", "db", "c", "--merge", "add"]);
        let batch = "put t old 0\nbegin\nput t a 1\nmerge c n 3\nget t a\nsavepoint s\nput t b 2\ndelete t --prefix o\n\
                     count t\nrollback s\ncount t\nsavepoint s2\nput t c 3\nrelease s\nscan t\ncommit\nget c n\n\
                     begin --serializable\ncount t\nput t d 4\nrollback\ncount t\n";
        assert_eq!(
            ok(&place, batch),
            "1\ndeleted all keys of `t` that start with `o`\n2\n2\na\t1\nc\t3\nold\t0\n3\n3\n3\n"
        );
        assert_eq!(place.entries("t").len(), 3);
        for (batch, words) in [
            ("begin\nbegin\n", "line 2: a transaction is open already"),
            ("commit\n", "line 1: no transaction is open"),
            ("rollback\n", "line 1: no transaction is open"),
            ("savepoint s\n", "line 1: no transaction is open"),
            ("begin\nrollback s\n", "line 2: there is no savepoint `s`"),
            ("begin\nsavepoint s\ncommit\nbegin\nrelease s\n", "line 5: there is no savepoint `s`"),
            ("begin\nput t x 1\ncreate u\n", "line 3: tables are made and dropped outside of transactions"),
            ("begin\nput t x 1\n", "the input ended within a transaction, which was rolled back"),
            ("begin\nput t x 1\n.quit\n", "the input ended within a transaction"),
            ("begin\nput t x 1\nput nothing x 1\ncommit\n", "line 3: "),
        ] {
            let said = fails(&place, 1, batch);
            assert!(said.starts_with(words), "{said}");
            assert_eq!(place.entries("t").len(), 3, "{batch}");
        }
        place.verify();
    }
}

#[test]
fn the_first_command_that_fails_ends_the_batch_with_its_line() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    for (code, bad, words) in [
        (4, "get t nothing", "table `t` has no key `nothing`"),
        (1, "put t", "the following required arguments were not provided: <KEY>"),
        (1, "put t k", "the value is missing"),
        (1, "put t k v more", "unexpected argument 'more' found"),
        (1, "frobnicate", "there is no command `frobnicate`: .help lists them"),
        (1, "load t --jsonl x --key k", "there is no command `load`"),
        (1, "help", "there is no command `help`"),
        (1, ".help frobnicate", "there is no command `frobnicate`"),
        (1, "get u k", "has no table `u`"),
        (1, "get t 'k", "a quote ' is not closed"),
        (2, "get -e t '\\q'", "`\\q` has a backslash"),
        (1, "count t --memory 1GiB", "--memory, --log-dir and --log-compression say how a database is opened"),
        (1, "put t k v --log-compression lz4", "--memory, --log-dir and --log-compression"),
        (1, "merge t k 1", "was created without --merge"),
        (1, "create t", "table `t` exists already"),
        (1, "put t '' v", "key"),
    ] {
        let batch = format!("put t before {code}\n{bad}\nput t behind 1\n");
        let said = fails(&place, code, &batch);
        assert!(said.starts_with("line 2: ") && said.contains(words), "{bad}: {said}");
        assert_eq!(place.ok(&["scan", "db", "t"]), format!("before\t{code}\n"), "{bad}");
    }
    let output = run(&place, &["--keep-going"], "get t nothing\nput t k v\nfrobnicate\nget t k\n");
    let (said, printed) = (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap());
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((output.status.code(), lines.len(), &*printed), (Some(1), 3, "v\n"), "{said}");
    assert!(lines[0].starts_with("spinney: line 1: ") && lines[1].starts_with("spinney: line 3: "), "{said}");
    assert_eq!(lines[2], "spinney: 2 commands failed");
    let output = place.run_with(&["shell", "missing"], b"count t\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(!place.path("missing").exists());
    let output = place.run_with(&["shell", "db"], b"count t\n\xff\n");
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b"2\n"[..]), "{output:?}");
}

/// Reads until `end` has come; false when there is no more before that.
fn read_until(from: &mut impl Read, end: &[u8], all: &mut Vec<u8>) -> bool {
    let begin = all.len();
    let mut byte = [0];
    while !all[begin..].ends_with(end) {
        match from.read(&mut byte) {
            Ok(1) => all.push(byte[0]),
            _ => return false,
        }
    }
    true
}

#[test]
fn a_terminal_has_a_prompt_completion_and_a_history() {
    let place = Place::new();
    place.ok(&["create", "db", "orders"]);
    // Its own terminal, from util-linux.
    let shell = format!("{} shell db --history state/history", env!("CARGO_BIN_EXE_spinney"));
    let mut script = Command::new("timeout");
    script.args(["60", "script", "-qec", &shell, "/dev/null"]).current_dir(place.path("")).env("TERM", "xterm");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen, mut said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap(), Vec::new());
    let typed = ["put or\tk v", "begin", "delete orders k", "get orders k", "rollback", "get orders k", ".quit"];
    for (at, line) in typed.into_iter().enumerate() {
        // What the terminal is told when a line begins. What is typed before that is lost.
        if !read_until(&mut screen, b"\x1b[?2004h", &mut said) {
            let said = String::from_utf8_lossy(&said);
            assert!(at == 0 && said.is_empty(), "{said}");
            child.wait().unwrap();
            return skip("a terminal", "there is no `script` or no `timeout`");
        }
        keys.write_all(format!("{line}\r").as_bytes()).unwrap();
    }
    screen.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(said.contains("db> ") && said.contains("db* ") && said.contains("has no key `k`"), "{said}");
    assert_eq!(place.ok(&["get", "db", "orders", "k"]), "v", "{said}");
    let history = std::fs::read_to_string(place.path("state/history")).unwrap();
    assert!(history.contains("put orders k v\nbegin\n"), "{history}");
}
