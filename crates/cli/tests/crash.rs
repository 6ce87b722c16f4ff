//! Killing the process in the middle of a load, and again in the middle of the recovery from that.

use crate::support::{LAYOUTS, Place, entries};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const BATCH: usize = 40;
const ROWS: usize = 20_000;

/// Row `id`, whose key sorts by `id` and whose value is large enough that the load flushes and compacts.
fn row(id: usize) -> (String, String) {
    let key = format!("{:05}", id);
    let value = format!("{{\"id\": \"{key}\", \"text\": \"{:0>400}\"}}", id * 7919);
    (key, value)
}

fn load(place: &Place, layout: &str) -> std::process::Command {
    let batch = BATCH.to_string();
    let args = ["load", "db", "t", "--jsonl", "rows", "--key", "id", "--ack", "--memory", "8MiB"];
    place.command(&[&args[..], &["--batch", &batch, "--layout", layout]].concat())
}

/// Starts a load and kills it when `acks` batches are acknowledged; returns how many rows were acknowledged in the end.
fn kill_after(place: &Place, layout: &str, acks: usize) -> usize {
    let mut child = load(place, layout).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut last = lines.by_ref().take(acks).last().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // What was acknowledged between the last line read and the death counts too.
    if let Some(later) = lines.filter(|line| line.starts_with("ack")).last() {
        last = later;
    }
    last.strip_prefix("acknowledged ").unwrap().parse().unwrap()
}

/// Starts to open the database and kills that, a little later each time.
fn kill_recoveries(place: &Place) {
    for patience in 0..12_u32 {
        let mut child = place.command(&["count", "db", "t"]).spawn().unwrap();
        for _ in 0..1_u32 << patience {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_killed_load_keeps_every_acknowledged_batch_and_no_part_of_another() {
    let text: String = (0..ROWS).map(|id| row(id).1 + "\n").collect();
    for (layout, acks) in LAYOUTS.into_iter().zip([1, 170, 420]) {
        let place = Place::new();
        place.file("rows", &text);
        let acknowledged = kill_after(&place, layout, acks);
        kill_recoveries(&place);
        let found = entries(&place.ok(&["scan", "db", "t"]));
        assert!(found.len() >= acknowledged, "{layout}: {} rows of {acknowledged}", found.len());
        assert_eq!(found.len() % BATCH, 0, "{layout}");
        assert!(found.iter().cloned().eq((0..found.len()).map(row)), "{layout}");
        place.verify();
        // The load can simply be run again.
        assert!(load(&place, layout).output().unwrap().status.success());
        assert!(place.entries("t").into_iter().eq((0..ROWS).map(row)), "{layout}");
        place.verify();
    }
}
