//! `dump` and `restore`: what comes back is equal, byte by byte, and what is wrong is refused and leaves nothing.

use crate::disk::{rows, run_with_room};
use crate::support::{LAYOUTS, Place, failure, sample};
use spinney::{
    Batch, CompactionFilter, Compression, Database, Decision, Layout, MergeOperator, Prefix, Result, Table,
    TableOptions,
};
use std::time::Duration;

#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn full(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

#[derive(Debug)]
struct KeepAll;

impl CompactionFilter for KeepAll {
    fn filter(&self, _key: &[u8], _value: &[u8]) -> Decision {
        Decision::Keep
    }
}

/// Tables of all options.
fn all_options() -> Vec<(&'static str, TableOptions)> {
    let options = TableOptions::default;
    vec![
        ("append", options().merge("append")),
        ("btree", options().layout(Layout::BTree).compression(Compression::Zstd).block_bytes(512)),
        ("counters", options().layout(Layout::BTree).merge("add")),
        ("empty", options()),
        ("filtered", options().compaction_filter("keep all")),
        ("large", options().large_value_bytes(64).compression(Compression::None)),
        ("lsm", options().fanout(2).run_bytes_max(4 << 10).filter_bits_per_key(3)),
        ("name with\tspaces = \u{e9}", options().prefix_filter(Prefix::UpTo(b' '))),
        ("prefixes", options().prefix_filter(Prefix::Bytes(3)).layout(Layout::LsmTiered)),
        ("ttl", options().time_to_live(Duration::from_hours(100))),
        ("unlogged", options().logged(false)),
    ]
}

/// Puts, overwrites and deletes of all kinds, some of them in the trees and some in memory.
fn fill(db: &Database, table: &Table, round: u32) {
    let key = |number: u32| format!("{:05}", number * 7 % 2000).into_bytes();
    let mut batch = Batch::new();
    for number in round * 300..(round + 1) * 400 {
        batch.put(table, key(number), value(table, number));
    }
    for number in (round * 300..(round + 1) * 400).step_by(5) {
        batch.delete(table, key(number + 1));
    }
    batch.delete_range(table, key(round * 50)..key(round * 50 + 10));
    batch.put(table, b"once", value(table, 0));
    batch.single_delete(table, b"once");
    batch.put(table, [0, 0xff, round.to_le_bytes()[0]], value(table, 1));
    batch.put(table, b"a\tb\nc\\d\r", value(table, 2));
    batch.put(table, "\u{e9}t\u{e9} \u{2028}\u{85}", value(table, 3));
    batch.put(table, vec![b'k'; 64 << 10], value(table, 4));
    db.write(&batch).unwrap();
    if table.options().merge.is_some() {
        let mut batch = Batch::new();
        (0..300).for_each(|number| batch.merge(table, key(number), value(table, number)));
        batch.merge(table, b"merged only", value(table, 5));
        db.write(&batch).unwrap();
    }
}

/// A value that the table takes.
fn value(table: &Table, number: u32) -> Vec<u8> {
    match (table.options().merge.as_deref(), number) {
        (Some("add"), _) => u64::from(number).to_le_bytes().to_vec(),
        (_, 0) => Vec::new(),
        (_, 3) => (0..=255).cycle().take(300_000).collect(),
        _ => format!("{number}\t").repeat(20).into_bytes(),
    }
}

/// A database of tables with all options that holds every kind of entry.
fn of_every_kind() -> Place {
    let place = Place::new();
    let db =
        Database::builder(place.path("db")).merge_operator("append", Append).compaction_filter("keep all", KeepAll);
    let db = db.open().unwrap();
    for (name, options) in all_options() {
        let table = db.create_table(name, options).unwrap();
        if name == "empty" {
            continue;
        }
        fill(&db, &table, 0);
        table.flush().unwrap();
        fill(&db, &table, 1);
        if name == "append" {
            // Without the program nobody can read operands.
            table.compact().unwrap();
        }
    }
    db.close().unwrap();
    place
}

#[test]
fn what_a_dump_restores_dumps_the_same() {
    let places = LAYOUTS.map(Place::loaded).into_iter().chain([of_every_kind()]);
    for place in places {
        let dump = place.bytes(&["dump", "db"]);
        assert_eq!(place.bytes(&["dump", "db"]), dump);
        place.ok(&["dump", "db", "-o", "plain"]);
        place.ok(&["dump", "db", "-o", "packed.gz"]);
        place.ok(&["dump", "db", "-o", "packed.zst"]);
        assert_eq!(std::fs::read(place.path("plain")).unwrap(), dump);
        for (at, file) in ["plain", "packed.gz", "packed.zst"].into_iter().enumerate() {
            let db = format!("restored {at}");
            let said = place.ok(&["restore", &db, "-i", file]);
            assert!(said.starts_with("restored "), "{said}");
            assert_eq!(place.bytes(&["dump", &db]), dump, "{file}");
            place.ok(&["verify", &db]);
        }
        assert!(std::fs::metadata(place.path("packed.gz")).unwrap().len() < dump.len() as u64 / 2);
        assert!(std::fs::metadata(place.path("packed.zst")).unwrap().len() < dump.len() as u64 / 2);
        let output = place.run_with(&["restore", "piped"], &dump);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(place.bytes(&["dump", "piped"]), dump);
    }
}

#[test]
fn every_option_comes_back() {
    let place = of_every_kind();
    place.ok(&["dump", "db", "-o", "dump"]);
    place.ok(&["restore", "copy", "-i", "dump"]);
    let copy = Database::open(place.path("copy"), spinney::Options::default()).unwrap();
    for (name, options) in all_options() {
        assert_eq!(*copy.table(name).unwrap().unwrap().options(), options);
    }
    // Counters count on.
    let counters = copy.table("counters").unwrap().unwrap();
    let before = counters.get("merged only").unwrap().unwrap();
    let mut batch = Batch::new();
    batch.merge(&counters, b"merged only", 1u64.to_le_bytes());
    copy.write(&batch).unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    assert_eq!(number(&counters.get("merged only").unwrap().unwrap()), number(&before) + 1);
}

fn small() -> Place {
    let place = Place::new();
    place.ok(&["create", "db", "counters", "--merge", "add", "--layout", "btree"]);
    place.ok(&["create", "db", "two words", "--large-values", "4KiB", "--time-to-live", "90s"]);
    place.ok(&["merge", "db", "counters", "a", "5"]);
    place.ok(&["put", "db", "two words", "--escape", "\\x00\\xff", "a\\tb"]);
    place.ok(&["put", "db", "two words", "key", ""]);
    place
}

const SMALL: &str = "\
spinney dump 1
table counters layout=btree block_bytes=8192 compression=lz4 filter_bits_per_key=10 run_bytes_max=33554432 fanout=8 logged=true merge=add
table two\\x20words layout=lsm block_bytes=8192 compression=lz4 filter_bits_per_key=10 run_bytes_max=33554432 fanout=8 logged=true large_value_bytes=4096 time_to_live_ms=90000
entries counters
a\t\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00
end entries=1 checksum=SUM
entries two\\x20words
\\x00\\xff\ta\\tb
key\t
end entries=2 checksum=SUM
done tables=2 entries=3 checksum=SUM
";

/// The text with checksums in place of `SUM`.
fn summed(text: &str) -> String {
    use xxhash_rust::xxh3::xxh3_64;
    let (mut dump, mut entries) = (String::new(), String::new());
    for line in text.lines() {
        if line.contains('\t') {
            entries += &format!("{line}\n");
        }
        let of = if line.starts_with("done") { &dump } else { &entries };
        let sum = format!("{:016x}", xxh3_64(of.as_bytes()));
        let line = line.replace("SUM", &sum);
        if line.starts_with("end") {
            entries.clear();
        }
        dump += &format!("{line}\n");
    }
    dump
}

#[test]
fn the_text_is_as_documented() {
    let place = small();
    let dump = place.ok(&["dump", "db"]);
    assert_eq!(dump, summed(SMALL));
    // The tables in their own order, whatever the arguments' one is.
    assert_eq!(place.ok(&["dump", "db", "two words", "counters"]), dump);
    let one = place.ok(&["dump", "db", "counters"]);
    assert!(one.contains("\nentries counters\n") && !one.contains("words") && one.contains("tables=1"), "{one}");
    place.ok(&["create", "none", "t"]);
    place.ok(&["drop", "none", "t"]);
    assert_eq!(place.ok(&["dump", "none"]), summed("spinney dump 1\ndone tables=0 entries=0 checksum=SUM\n"));
    let page = std::fs::read_to_string(sample("../docs/dump.md")).unwrap();
    let (_, block) = page.split_once("```text\n").unwrap();
    assert_eq!(block.split_once("```").unwrap().0, dump.replace('\t', "\u{21e5}"), "docs/dump.md has this dump");
}

fn names(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path("")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dump_that_is_cut_or_changed_is_refused_and_leaves_nothing() {
    let place = small();
    let dump = place.bytes(&["dump", "db"]);
    std::fs::remove_dir_all(place.path("db")).unwrap();
    let refused = |dump: &[u8], what: &str| {
        place.file("dump", dump);
        let args = ["restore", "db", "-i", "dump"];
        let message = place.fails(&args);
        assert!(message.starts_with("dump: ") && message.ends_with("; nothing was restored"), "{what}: {message}");
        assert_eq!(names(&place), ["dump"], "{what}");
    };
    for at in (0..dump.len()).step_by(23).chain([dump.len() - 1]) {
        refused(&dump[..at], &format!("cut at {at}"));
    }
    for at in (0..dump.len()).step_by(19) {
        let mut changed = dump.clone();
        changed[at] ^= 1;
        refused(&changed, &format!("changed at {at}"));
    }
    refused(&[&dump[..], b"more"].concat(), "more");
    refused(&[&dump[..], &dump].concat(), "twice");
    let packed = zstd::encode_all(&dump[..], 1).unwrap();
    place.file("dump", &packed[..packed.len() - 3]);
    assert!(place.fails(&["restore", "db", "-i", "dump"]).contains("the compressed data is cut off"));
    assert_eq!(names(&place), ["dump"]);
    place.file("dump", &dump);
    place.ok(&["restore", "db", "-i", "dump"]);
    assert_eq!(place.bytes(&["dump", "db"]), dump);
}

#[test]
fn what_is_wrong_with_a_dump_is_said_with_its_line() {
    let place = Place::new();
    for (from, to, words) in [
        ("spinney dump 1", "spinney dump 2", "another version, `spinney dump 2`: use a newer spinney"),
        ("spinney dump 1", "{\"id\": 1}", "it is not a dump"),
        ("table two", "table aaa", "line 3: table `aaa words` is there twice, or out of order"),
        ("fanout=8 logged=true merge", "fanout=99 logged=true merge", "line 2: option fanout is 99"),
        ("merge=add", "speed=9", "line 2: there is no option speed: the dump is of a newer spinney"),
        ("entries counters", "entries count", "line 4: the entries of table `counters` are missing"),
        ("\\x05\\x00", "\\x05\\q", "line 5: a backslash begins no escape"),
        ("\nkey\t", "\n\\x00\t", "line 9: the key is not above the one before"),
        ("\nkey\t", "\nkey ", "line 9: it is neither an entry nor an end of entries"),
        ("\nkey\t\n", "\n", "line 9: the dump is damaged: it says entries=2 checksum="),
        ("\\x05\\x00", "\\x05", "line 5: table 'counters': the merge operator 'add' needs values of 8 bytes, not 7"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let text = SMALL.replacen(from, to, 1);
        // Of all that is wrong one thing is told; where the text has it, the sums are right.
        let keep = text.contains("entries=2") && to == "\n";
        place.file("dump", if keep { summed(SMALL).replacen(from, to, 1) } else { summed(&text) });
        let message = place.fails(&["restore", "db", "-i", "dump"]);
        assert!(message.contains(words), "{message}\n{text}");
        assert_eq!(names(&place), ["dump"]);
    }
    for missing in ["nothing", "."] {
        assert!(place.fails(&["restore", "db", "-i", missing]).starts_with("cannot read "));
    }
    place.file("dump", [0; 100_000]);
    assert!(place.fails(&["restore", "db", "-i", "dump"]).contains("it is not a dump"));
}

#[test]
fn tables_that_are_there_are_kept_or_replaced() {
    let place = small();
    place.ok(&["dump", "db", "-o", "dump"]);
    place.ok(&["create", "other", "two words", "--large-values", "4KiB", "--time-to-live", "90s"]);
    // An empty one with the same options takes the entries.
    place.ok(&["restore", "other", "-i", "dump", "two words"]);
    assert_eq!(place.bytes(&["dump", "other"]), place.bytes(&["dump", "db", "two words"]));
    place.ok(&["put", "other", "two words", "mine", "value"]);
    let restore = ["restore", "other", "-i", "dump"];
    let message = place.fails(&restore);
    assert!(message.contains("`two words` is there and not empty") && message.contains("--replace"), "{message}");
    assert_eq!(place.ok(&["tables", "other"]).lines().count(), 2);
    assert_eq!(place.ok(&["get", "other", "two words", "mine"]), "value");
    // A dump that is damaged behind the entries of a table replaces none of the tables behind.
    let cut = std::fs::read(place.path("dump")).unwrap();
    place.file("cut", &cut[..cut.len() - 90]);
    let message = place.fails(&["restore", "other", "-i", "cut", "--replace"]);
    assert!(message.ends_with("nothing was restored"), "{message}");
    assert_eq!(place.ok(&["get", "other", "two words", "mine"]), "value");
    place.file("cut", &cut[..cut.len() - 5]);
    let message = place.fails(&["restore", "other", "-i", "cut", "--replace"]);
    assert!(message.ends_with("only table `two words` was restored"), "{message}");
    place.ok(&[&restore[..], &["--replace"]].concat());
    assert_eq!(place.bytes(&["dump", "other"]), place.bytes(&["dump", "db"]));
    place.ok(&["create", "third", "counters"]);
    let message = place.fails(&["restore", "third", "-i", "dump", "--replace"]);
    assert!(message.contains("`counters` is there with other options"), "{message}");
    let message = place.fails(&["restore", "fourth", "-i", "dump", "nothing"]);
    assert!(message.contains("the dump has no table `nothing`"), "{message}");
    assert!(!place.path("fourth").exists());
    place.ok(&["verify", "other"]);
}

#[test]
fn a_restore_or_a_dump_without_room_leaves_nothing() {
    let place = Place::new();
    let file = place.file("rows", rows(3000));
    place.ok(&["load", "db", "t", "--jsonl", &file, "--key", "id"]);
    let args = ["dump", "db", "-o", "dump"];
    place.file("dump", "old");
    let message = failure(&run_with_room(&place, 1 << 20, &args), &args);
    assert!(message.contains("cannot write dump"), "{message}");
    assert_eq!(std::fs::read(place.path("dump")).unwrap(), b"old");
    assert_eq!(names(&place), ["db", "dump", "rows"]);
    place.ok(&args);
    let text = std::fs::read_to_string(place.path("dump")).unwrap();
    let args = ["restore", "copy", "-i", "dump"];
    // Less than a segment of the log takes, and less than the table.
    for room in [4096, 1 << 20] {
        assert!(text.len() > room);
        failure(&run_with_room(&place, room, &args), &args);
        assert_eq!(names(&place), ["db", "dump", "rows"], "{room}");
    }
    place.ok(&args);
    assert_eq!(place.ok(&["dump", "copy"]), text);
    for args in [&["dump", "db", "nothing"][..], &["dump", "db", "-o", "."], &["dump", "missing"]] {
        place.fails(args);
    }
    assert!(place.refused(&["dump", "db", "-o", "db"]).contains("lies in the database"));
    assert!(place.refused(&["dump", "db", "--hex"]).contains("--format"));
}

#[test]
fn rows_are_written_for_other_programs() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    place.ok(&["put", "db", "t", "plain", "text"]);
    place.ok(&["put", "db", "t", "quo\"ted", "a,b"]);
    place.ok(&["create", "db", "c", "--merge", "add"]);
    place.ok(&["merge", "db", "c", "n", "-3"]);
    assert_eq!(
        place.ok(&["dump", "db", "t", "--format", "csv"]),
        "key,value\r\nplain,text\r\n\"quo\"\"ted\",\"a,b\"\r\n"
    );
    let all = "table,key,value\r\nc,n,-3\r\nt,plain,text\r\nt,\"quo\"\"ted\",\"a,b\"\r\n";
    assert_eq!(place.ok(&["dump", "db", "--format", "csv"]), all);
    let hex = place.ok(&["dump", "db", "c", "--format", "csv", "--hex"]);
    assert_eq!(hex, "key,value\r\n6e,fdffffffffffffff\r\n");
    assert_eq!(
        place.ok(&["dump", "db", "--format", "jsonl"]),
        "{\"table\":\"c\",\"key\":\"n\",\"value\":-3}\n{\"table\":\"t\",\"key\":\"plain\",\"value\":\"text\"}\n\
         {\"table\":\"t\",\"key\":\"quo\\\"ted\",\"value\":\"a,b\"}\n"
    );
    place.ok(&["put", "db", "t", "--escape", "\\xff", "v"]);
    let message = place.fails(&["dump", "db", "t", "--format", "csv", "-o", "rows"]);
    assert!(message.contains("table `t`: the key `\\xff` is not UTF-8: use --hex"), "{message}");
    assert!(!place.path("rows").exists() && !place.path("rows.partial").exists());
    let line = place.ok(&["dump", "db", "t", "--format", "jsonl"]);
    assert!(line.ends_with("{\"key\":{\"hex\":\"ff\"},\"value\":\"v\"}\n"), "{line}");
}
