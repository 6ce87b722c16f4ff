//! Files that are cut short or have a bit flipped: each is told of, or makes no difference; none makes the data
//! another.

use crate::support::{LAYOUTS, Place, entries};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// All files below a directory, with their lengths.
fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path(), metadata.len()));
        }
    }
    found.sort();
    found
}

/// Copies a directory, leaving holes where the source has zeros at its end.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Damages each file of the database in turn and compares what can then be read with what was there.
fn damage_each(place: &Place, damage: impl Fn(&mut Vec<u8>) -> bool) {
    let sound = place.ok(&["scan", "db", "packages"]);
    copy(&place.path("db"), &place.path("sound"));
    for (path, _) in files(&place.path("sound")) {
        let name = path.strip_prefix(place.path("sound")).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        if !damage(&mut bytes) {
            continue;
        }
        fs::remove_dir_all(place.path("db")).unwrap();
        copy(&place.path("sound"), &place.path("db"));
        fs::write(place.path("db").join(name), &bytes).unwrap();
        let verify = place.run(&["verify", "db"]);
        let scan = place.run(&["scan", "db", "packages"]);
        let told = |output: &std::process::Output| {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            output.status.code() == Some(1) && stderr.starts_with("spinney: ") && stderr.lines().count() == 1
        };
        let same = scan.status.code() == Some(0) && scan.stdout == sound.as_bytes();
        assert!(told(&scan) || same, "{}: {scan:?}", name.display());
        assert!(told(&verify) || (verify.status.code() == Some(0) && same), "{}: {verify:?}", name.display());
    }
}

/// A database with rows in its trees and rows in its log only.
fn mixed(layout: &str) -> Place {
    let place = Place::loaded(layout);
    place.ok(&["compact", "db"]);
    place.ok(&["put", "db", "packages", "zzz", "in the log only"]);
    place
}

#[test]
fn a_flipped_bit_in_any_file_is_told_of_or_harmless() {
    for layout in LAYOUTS {
        for part in [0, 1, 2, 3] {
            damage_each(&mixed(layout), |bytes| {
                let at = bytes.len() * part / 4;
                let Some(byte) = bytes.get_mut(at) else { return false };
                *byte ^= 0x10;
                true
            });
        }
    }
}

#[test]
fn a_file_cut_short_is_told_of_or_harmless() {
    for layout in LAYOUTS {
        for keep in [0, 1, 2, 3] {
            damage_each(&mixed(layout), |bytes| {
                let len = bytes.len();
                bytes.truncate(len * keep / 4);
                len > 0
            });
        }
    }
}

#[test]
fn a_damaged_log_is_refused_until_it_is_salvaged() {
    let place = Place::new();
    place.ok(&["create", "db", "t"]);
    for key in ["a", "b", "c"] {
        place.ok(&["put", "db", "t", key, "value"]);
    }
    assert!(place.fails(&["salvage", "db"]).contains("nothing to salvage"));
    assert!(place.fails(&["salvage", "nowhere"]).contains("no database"));
    let log = place.ok(&["log", "db", "--json"]);
    let lsn = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["lsn"].as_u64().unwrap();
    let lsns: Vec<u64> = log.lines().map(lsn).collect();
    assert_eq!(place.ok(&["log", "db", "--json", "--from", &(lsns[1] + 1).to_string()]).lines().count(), 2);
    let segments =
        files(&place.path("db/log")).into_iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "log"));
    let (damaged, mut bytes) = segments
        .map(|(path, _)| (path.clone(), fs::read(path).unwrap()))
        .find(|(_, bytes)| bytes.windows(6).any(|window| window == b"\x01b\x05val"))
        .unwrap();
    let at = bytes.windows(6).position(|window| window == b"\x01b\x05val").unwrap();
    bytes[at + 1] = b'x';
    fs::write(&damaged, &bytes).unwrap();
    assert!(place.fails(&["get", "db", "t", "a"]).contains("run spinney salvage"));
    let lossy = |args: &[&str]| {
        let run = place.run(args);
        assert_eq!(run.status.code(), Some(3), "{run:?}");
        String::from_utf8(run.stdout).unwrap()
    };
    let told = lossy(&["salvage", "db", "--dry-run"]);
    assert!(told.contains("next: spinney salvage db gives up"), "{told}");
    assert!(told.contains("would be given up: 1 commit") && told.contains("table t: 1 change"), "{told}");
    assert!(place.fails(&["get", "db", "t", "a"]).contains("run spinney salvage"));
    let report: serde_json::Value = serde_json::from_str(&lossy(&["salvage", "db", "--json"])).unwrap();
    assert_eq!((report["kept_commits"].as_u64(), report["lost_commits"].as_u64()), (Some(1), Some(1)), "{report}");
    assert!(Path::new(report["kept_files"][0].as_str().unwrap()).exists());
    assert_eq!(place.ok(&["scan", "db", "t"]), "a\tvalue\n");
    place.verify();
}

/// What the newest file of an extension is.
fn newest(place: &Place, dir: &str, extension: &str) -> PathBuf {
    let found = files(&place.path(dir)).into_iter().map(|(path, _)| path);
    found.filter(|path| path.extension().is_some_and(|it| it == extension)).max().unwrap()
}

/// A verification found the database sound without its newest segment, and an open went on without the commits there.
#[test]
fn the_newest_segment_of_a_process_that_was_killed_is_missed() {
    use std::io::BufRead as _;
    let has_spare = |place: &Place| {
        files(&place.path("db/log")).iter().any(|(path, _)| path.extension().is_some_and(|it| it == "spare"))
    };
    // The spare tells which segment is the newest. One that was killed in the moment between two spares has none.
    let killed = || {
        let place = Place::new();
        let mut child = place.command(&["stress", "db", "--threads", "1"]).spawn().unwrap();
        let mut acks = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        while acks.by_ref().take(200).count() == 200 && !has_spare(&place) {}
        // Some of them are in the newest segment.
        acks.by_ref().take(20).for_each(drop);
        child.kill().unwrap();
        child.wait().unwrap();
        place
    };
    let place = std::iter::repeat_with(killed).find(has_spare).unwrap();
    fs::create_dir(place.path("kept")).unwrap();
    place.verify();
    // A power failure may take the last record of the copy of a manifest, which is no damage.
    let manifest = newest(&place, "db", "manifest-copy");
    let bytes = fs::read(&manifest).unwrap();
    fs::write(&manifest, &bytes[..bytes.len() - 1]).unwrap();
    place.verify();
    let segment = newest(&place, "db/log", "log");
    fs::rename(&segment, place.path("kept/segment")).unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap();
    for args in [&["verify", "db"][..], &["tables", "db"], &["flush", "db"]] {
        let message = place.fails(args);
        assert!(message.contains(name) && message.contains("it is missing"), "{message}");
        assert!(message.contains("run spinney salvage"), "{message}");
    }
    // There again it is as it was.
    fs::copy(place.path("kept/segment"), &segment).unwrap();
    place.verify();
    fs::remove_file(&segment).unwrap();
    let told = place.ends(3, &["salvage", "db"]);
    assert!(told.contains("something was lost"), "{told}");
    place.verify();
    place.ok(&["flush", "db"]);
    place.verify();
}

#[test]
fn a_damaged_copy_of_the_manifest_is_told_of_and_made_anew() {
    for damage in [0, 40, 60] {
        let place = mixed("lsm");
        let path = newest(&place, "db", "manifest-copy");
        let sound = fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        bytes[damage] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let run = place.run(&["verify", "db"]);
        let (stdout, stderr) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
        assert_eq!(run.status.code(), Some(1), "{stdout}{stderr}");
        assert!(stdout.contains("manifest-copy") && stdout.contains("nothing is lost"), "{stdout}");
        assert_eq!(stderr, "spinney: db has 1 problem, and nothing is lost: spinney flush db mends it\n");
        let rows = place.ok(&["scan", "db", "packages"]);
        place.ok(&["flush", "db"]);
        place.verify();
        assert_eq!(place.ok(&["scan", "db", "packages"]), rows);
    }
    // The first record of a copy is durable before anything names it, and that of a closed database is the only one.
    let place = mixed("lsm");
    let path = newest(&place, "db", "manifest-copy");
    let sound = fs::read(&path).unwrap();
    fs::write(&path, &sound[..sound.len() - 1]).unwrap();
    assert_eq!(place.run(&["verify", "db"]).status.code(), Some(1));
    fs::remove_file(&path).unwrap();
    place.verify();
}

#[test]
fn the_advice_for_a_missing_manifest_is_the_command_that_works() {
    let place = mixed("lsm");
    let rows = place.ok(&["scan", "db", "packages"]);
    fs::remove_file(newest(&place, "db", "manifest")).unwrap();
    assert!(place.fails(&["verify", "db"]).ends_with("db OUT"));
    place.ends(3, &["salvage", "db", "out"]);
    assert_eq!(place.ok(&["scan", "out", "packages"]), rows);
    // What other files tell is mended in place.
    let place = mixed("lsm");
    fs::remove_file(place.path("db/CURRENT")).unwrap();
    assert!(place.fails(&["verify", "db"]).ends_with("/db"));
    place.ok(&["salvage", "db"]);
    assert_eq!(place.ok(&["scan", "db", "packages"]), rows);
}

#[test]
fn a_salvage_names_the_files_that_it_keeps_only_when_it_is_asked() {
    for verbose in [false, true] {
        let place = Place::new();
        place.ok(&["create", "db", "t"]);
        place.ok(&["put", "db", "t", "a", "value"]);
        place.ok(&["put", "db", "t", "b", "value"]);
        let segments: Vec<_> = files(&place.path("db/log")).into_iter().map(|(path, _)| path).collect();
        let segments = segments.iter().filter(|path| path.extension().is_some_and(|it| it == "log"));
        let damaged =
            segments.filter(|path| fs::read(path).unwrap().windows(8).any(|bytes| bytes == b"\x01a\x05value"));
        let damaged = damaged.max().unwrap();
        let mut bytes = fs::read(damaged).unwrap();
        let at = bytes.windows(8).position(|bytes| bytes == b"\x01a\x05value").unwrap();
        bytes[at + 1] = b'x';
        fs::write(damaged, &bytes).unwrap();
        let run = place.run(if verbose { &["salvage", "db", "--verbose"] } else { &["salvage", "db"] });
        assert_eq!(run.status.code(), Some(3), "{run:?}");
        let told = String::from_utf8(run.stdout).unwrap();
        assert!(told.contains("kept beside: ") && told.contains("lost-"), "{told}");
        assert_eq!(told.contains(".log\n"), verbose, "{told}");
    }
}

#[test]
fn what_can_be_read_is_copied_and_the_exit_code_tells_whether_that_was_all() {
    for layout in LAYOUTS {
        let place = mixed(layout);
        let expected = place.entries("packages");
        let told = place.ok(&["salvage", "db", "whole"]);
        assert!(told.contains("packages") && told.contains(&expected.len().to_string()), "{told}");
        assert_eq!(entries(&place.ok(&["scan", "whole", "packages"])), expected);
        assert!(place.fails(&["salvage", "db", "whole"]).contains("not empty"));
        let before = files(&place.path("db"));
        let trees = before.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "run" || it == "tree"));
        let (tree, bytes) = trees.max_by_key(|(_, bytes)| *bytes).unwrap();
        let mut damaged = fs::read(tree).unwrap();
        damaged[usize::try_from(bytes / 3).unwrap()] ^= 4;
        fs::write(tree, &damaged).unwrap();
        let run = place.run(&["salvage", "db", "part", "--json"]);
        assert_eq!(run.status.code(), Some(3), "{run:?}");
        assert!(String::from_utf8_lossy(&run.stderr).contains("something was lost"), "{run:?}");
        let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let lost = &report["tables"][0]["lost"];
        assert_eq!((report["complete"].as_bool(), lost.as_array().map(Vec::len)), (Some(false), Some(1)), "{report}");
        assert_eq!(Path::new(lost[0]["file"].as_str().unwrap()).file_name(), tree.file_name());
        let (from, to) = (lost[0]["from"].as_str().unwrap(), lost[0]["to"].as_str().unwrap());
        let left: Vec<_> = expected.into_iter().filter(|(key, _)| key.as_str() < from || to < key.as_str()).collect();
        let found = entries(&place.ok(&["scan", "part", "packages"]));
        assert!(left.len() > 100 && left.iter().all(|entry| found.contains(entry)), "{report}");
        place.ok(&["verify", "part"]);
        let after = files(&place.path("db"));
        assert_eq!(after, before, "nothing of the source is changed");
        assert_eq!(fs::read(tree).unwrap(), damaged);
        fs::remove_file(place.path("db/CURRENT")).unwrap();
        assert_eq!(place.run(&["salvage", "db", "third"]).status.code(), Some(3));
        for (name, copy) in [("manifest", "fourth"), ("manifest-copy", "fifth")] {
            for (manifest, _) in after.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == name)) {
                fs::remove_file(manifest).unwrap();
            }
            let run = place.run(&["salvage", "db", copy]);
            if name == "manifest" {
                assert_eq!(run.status.code(), Some(3), "{run:?}");
                assert_eq!(entries(&place.ok(&["scan", copy, "packages"])), found);
            } else {
                assert!(String::from_utf8_lossy(&run.stderr).contains("no database"), "{run:?}");
            }
        }
    }
}

#[test]
fn a_damaged_manifest_is_mended_from_its_copy_or_copied_with_all_rows() {
    for layout in LAYOUTS {
        let place = mixed(layout);
        let expected = place.entries("packages");
        let all = files(&place.path("db"));
        let manifest =
            all.iter().map(|(path, _)| path).find(|path| path.extension().is_some_and(|it| it == "manifest"));
        let mut bytes = fs::read(manifest.unwrap()).unwrap();
        // Behind its records the manifest has room for more.
        let records = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        bytes[records / 2] ^= 4;
        fs::write(manifest.unwrap(), &bytes).unwrap();
        assert!(place.fails(&["count", "db", "packages"]).contains("run spinney salvage"));
        let told = place.ok(&["salvage", "db", "out"]);
        assert!(told.contains("other files tell the same") && told.contains("next: spinney verify out"), "{told}");
        assert_eq!(entries(&place.ok(&["scan", "out", "packages"])), expected);
        let told = place.ok(&["salvage", "db", "--dry-run"]);
        assert!(
            told.contains("would be given up: nothing") && told.contains("next: spinney salvage db mends"),
            "{told}"
        );
        assert!(place.ok(&["salvage", "db"]).contains("next: spinney verify db"));
        assert_eq!(place.entries("packages"), expected);
        let message = place.fails(&["salvage", "db"]);
        assert!(
            message.contains("spinney salvage db OUT") || message.contains(" OUT copies what can be read"),
            "{message}"
        );
        place.verify();
    }
}

#[test]
fn all_damage_to_a_table_is_told_with_its_keys_and_what_to_do() {
    for layout in LAYOUTS {
        let place = Place::loaded(layout);
        place.ok(&["compact", "db"]);
        let sound: serde_json::Value = serde_json::from_str(&place.ok(&["verify", "db", "--json"])).unwrap();
        let all = files(&place.path("db"));
        let trees = all.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "run" || it == "tree"));
        let (tree, bytes) = trees.max_by_key(|(_, bytes)| *bytes).unwrap();
        let whole = fs::read(tree).unwrap();
        let report_of = |damaged: &[u8]| -> serde_json::Value {
            fs::write(tree, damaged).unwrap();
            // Some damage lets nothing be opened.
            serde_json::from_slice(&place.run(&["verify", "db", "--json"]).stdout).unwrap_or_default()
        };
        let places: Vec<u64> = match tree.extension().and_then(|it| it.to_str()) {
            Some("run") => [1, 3, 5, 7].map(|part| bytes * part / 10).to_vec(),
            _ => {
                // Leaves of a B-tree begin at units, in any order, with others that are free in between.
                let mut leaves = BTreeMap::new();
                for at in (1..bytes / 4096).map(|unit| unit * 4096 + 30) {
                    let mut damaged = whole.clone();
                    damaged[usize::try_from(at).unwrap()] ^= 1;
                    let problem = &report_of(&damaged)["problems"][0];
                    if problem["to"].is_string() && problem["from"] != "" {
                        leaves.insert(problem["from"].as_str().unwrap().to_owned(), at);
                    }
                }
                // Two that follow each other would be told as one.
                leaves.into_values().step_by(2).take(4).collect()
            }
        };
        let mut damaged = whole.clone();
        for at in &places {
            damaged[usize::try_from(*at).unwrap()] ^= 1;
        }
        fs::write(tree, &damaged).unwrap();
        let run = place.run(&["verify", "db", "--json"]);
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(stderr.contains("spinney salvage db OUT"), "{stderr}");
        let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let problems = report["problems"].as_array().unwrap();
        let of_keys = problems.iter().filter(|problem| problem["from"].is_string()).count();
        assert!((3..=5).contains(&problems.len()) && of_keys >= 3, "{layout}: {report}");
        for problem in problems {
            assert_eq!(problem["table"], "packages", "{report}");
            assert_eq!(Path::new(problem["file"].as_str().unwrap()).file_name(), tree.file_name());
            assert!(problem["offset"].as_u64().unwrap() < *bytes);
        }
        let (all, left) = (sound["entries"].as_u64().unwrap(), report["entries"].as_u64().unwrap());
        assert!(left < all && left > all / 2, "{left} of {all}: the sound rest is counted");
    }
}

#[test]
fn what_is_in_memory_and_in_the_log_is_verified_and_counted() {
    let place = Place::loaded("lsm");
    let rows = place.entries("packages").len().to_string();
    let told = place.ok(&["verify", "db"]);
    assert!(told.replace(',', "").contains(&format!("{rows} entries in memory (redo log checked")), "{told}");
}

#[test]
fn a_file_that_is_gone_is_told_with_what_to_do() {
    for layout in LAYOUTS {
        let place = mixed(layout);
        let gone =
            |name: &str| name == "CURRENT" || [".manifest", ".run", ".tree"].iter().any(|end| name.ends_with(end));
        copy(&place.path("db"), &place.path("sound"));
        let mut count = 0;
        for (path, _) in files(&place.path("sound")) {
            let name = path.strip_prefix(place.path("sound")).unwrap().to_str().unwrap().to_owned();
            if !gone(&name) {
                continue;
            }
            count += 1;
            fs::remove_file(place.path("db").join(&name)).unwrap();
            for args in [&["verify", "db"][..], &["put", "db", "packages", "k", "v"]] {
                let message = place.fails(args);
                let advice = if name == "CURRENT" { "/db" } else { "/db OUT" };
                assert!(message.contains("run spinney salvage ") && message.ends_with(advice), "{name}: {message}");
            }
            fs::copy(&path, place.path("db").join(&name)).unwrap();
        }
        assert!(count >= 3, "{layout}");
        place.verify();
    }
}
