//! Processes killed at moments drawn from a seed, while they commit, while they recover, and again in the recovery from
//! that: nothing acknowledged is lost, in neither durability, and the database goes on.
//!
//! `SPINNEY_KILLS` is the number of kills in all (default 60). A failure names the seed of its database; the moments
//! are not exactly the same in the next run, as they are those of a real machine.

use crate::support::{Place, skip};
use spinney_lab::Random;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Cycles of a database before the next one is begun.
const CYCLES: u64 = 10;
const ACKS: &str = "acks";

/// How often what happened.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    /// Kills before the process acknowledged anything: in creation, recovery, or right after.
    opening: u64,
    /// Kills while the end of the log was mapped.
    mapped: u64,
    flushes: u64,
    compactions: u64,
    recycled: u64,
}

/// A database that is stressed and killed.
struct Victim {
    place: Place,
    random: Random,
    seed: String,
    durability: &'static str,
    acks: String,
}

impl Victim {
    fn new(seed: u64, durability: &'static str) -> Self {
        let (random, seed) = (Random::new(seed), seed.to_string());
        Self { place: Place::new(), random, seed, durability, acks: String::new() }
    }

    /// The command that commits for ever.
    fn stress(&mut self) -> Command {
        let compression = ["off", "lz4"][self.random.below32(2) as usize];
        let args = ["stress", "db", "--threads", "3", "--seed", &self.seed, "--durability", self.durability];
        let log = ["--log-compression", compression];
        self.place.command(&[&args[..], &log].concat())
    }

    /// Starts a process and kills it when it has acknowledged so many commits and then some time has passed.
    fn kill(&mut self, mut command: Command, acks: usize, patience: u64, tally: &mut Tally) {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let before = self.acks.len();
        lines.by_ref().take(acks).for_each(|line| self.acks += &(line + "\n"));
        for _ in 0..patience {
            std::thread::yield_now();
        }
        tally.mapped += u64::from(maps_its_log(&child));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "seed {}: it ended by itself", self.seed);
        // What it acknowledged before it died counts too.
        lines.filter(|line| line.starts_with("ACK ")).for_each(|line| self.acks += &(line + "\n"));
        tally.kills += 1;
        tally.opening += u64::from(self.acks.len() == before);
    }

    /// A time in steps of the scheduler: short ones as likely as long ones.
    fn patience(&mut self, doublings: u64) -> u64 {
        1 << self.random.below(doublings)
    }

    /// Kills the creation of the database a few times, then lets it happen.
    fn create(&mut self, tally: &mut Tally) {
        for _ in 0..2 {
            let (command, patience) = (self.stress(), self.patience(14));
            self.kill(command, 0, patience, tally);
        }
        self.finish(5, tally);
    }

    /// Kills it while it commits, mostly, and every other time once more while it recovers from that; then checks.
    fn cycle(&mut self, tally: &mut Tally) {
        let (command, patience) = (self.stress(), self.patience(13));
        let acks = if self.random.below(6) == 0 { 0 } else { 1 << self.random.below32(12) };
        self.kill(command, acks, patience, tally);
        for _ in 0..self.random.below(3) {
            let check = self.place.command(&["stress", "--check", "db"]);
            let (command, patience) =
                (if self.random.below(2) == 0 { check } else { self.stress() }, self.patience(16));
            self.kill_if_it_lasts(command, patience, tally);
        }
        self.check();
    }

    /// As [`Self::kill`] before anything is acknowledged, of a process that may have ended by then.
    fn kill_if_it_lasts(&mut self, mut command: Command, patience: u64, tally: &mut Tally) {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        for _ in 0..patience {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        let killed = child.wait().unwrap().code().is_none();
        let acks: Vec<String> = lines.filter(|line| line.starts_with("ACK ")).collect();
        tally.kills += u64::from(killed);
        tally.opening += u64::from(killed && acks.is_empty());
        acks.into_iter().for_each(|line| self.acks += &(line + "\n"));
    }

    fn check(&self) {
        self.place.file(ACKS, &self.acks);
        let output = self.place.run(&["stress", "--check", "db", "--acks", ACKS]);
        assert!(output.status.success(), "seed {}, {}: {output:#?}", self.seed, self.durability);
    }

    /// Lets each thread make some commits in peace.
    fn finish(&mut self, commits: u64, tally: &mut Tally) {
        let output = self.stress().args(["--json", "--commits", &commits.to_string()]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "seed {}: {}", self.seed, String::from_utf8_lossy(&output.stderr));
        let (acks, summary) = text.trim_end().rsplit_once('\n').unwrap();
        self.acks += &format!("{acks}\n");
        let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
        let number = |name: &str| summary[name].as_u64().unwrap();
        tally.flushes += number("flushes");
        tally.compactions += number("compactions");
        tally.recycled += number("log_segments_recycled");
        self.check();
    }
}

/// Whether a process has a file of the redo log mapped.
fn maps_its_log(child: &Child) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap_or_default();
    maps.lines().any(|line| line.ends_with(".log"))
}

/// Kills processes until it is enough.
fn kill_many(durability: &'static str, first_seed: u64) -> Tally {
    let kills = std::env::var("SPINNEY_KILLS").map_or(60, |text| text.parse::<u64>().unwrap()) / 2;
    let mut tally = Tally::default();
    for seed in first_seed.. {
        if tally.kills >= kills {
            break;
        }
        let mut victim = Victim::new(seed, durability);
        victim.create(&mut tally);
        for _ in 0..CYCLES {
            victim.cycle(&mut tally);
        }
        victim.finish(2000, &mut tally);
    }
    eprintln!("{durability}: {tally:?}");
    let reached = [tally.opening, tally.kills - tally.opening, tally.flushes, tally.compactions, tally.recycled];
    assert!(reached.iter().all(|count| *count > 0), "{tally:?}");
    tally
}

#[test]
fn a_killed_process_loses_no_synced_commit() {
    kill_many("sync", 1000);
}

/// A buffered commit is a copy into a mapped page where the file system allows that: the page cache has it when the
/// process dies.
#[test]
fn a_killed_process_loses_no_buffered_commit() {
    let tally = kill_many("buffered", 2_000_000);
    if !maps_files() {
        return skip(
            "kills in the middle of mapped commits",
            "the directory for temporary files is neither on ext4 nor on XFS",
        );
    }
    assert!(tally.mapped > 0, "{tally:?}");
}

/// Whether temporary files are on a file system on which the log is mapped.
fn maps_files() -> bool {
    let place = Place::new();
    let output = Command::new("stat").args(["-f", "-c", "%T"]).arg(place.path("")).output().unwrap();
    ["ext2/ext3", "xfs"].contains(&String::from_utf8_lossy(&output.stdout).trim())
}

#[test]
fn a_check_tells_what_is_wrong() {
    let place = Place::new();
    let run = place.ok(&["stress", "db", "--seed", "5", "--threads", "2", "--commits", "300"]);
    place.file(ACKS, &run);
    let check = ["stress", "--check", "db", "--acks", ACKS];
    assert!(place.ok(&check).starts_with("thread 0: 300 commits, 300 acknowledged\n"));
    // A commit that never was.
    place.file("more", run.clone() + "ACK 1 301\n");
    let output = place.run(&["stress", "--check", "db", "--acks", "more"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("thread 1: commit 301 was acknowledged, and the last one there is 300"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    // An entry that is lost, and one that nobody committed.
    let key = r"\x00\x01\x00\x00\x00\x00\x00\x00\x01\x2b";
    place.ok(&["delete", "db", "stress-tiered", "--escape", key]);
    place.ok(&["put", "db", "stress-lsm", "--escape", r"\x00\x09", "foreign"]);
    let output = place.run(&check);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("stress-tiered: thread 1, place 299 is missing (commit 299)"), "{said}");
    assert!(said.contains("stress-lsm: key \\x00\\t should not be there"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(place.fails(&["stress", "db", "--seed", "6"]).contains("was begun with --seed 5 --threads 2"));
    assert!(place.refused(&["stress", "db", "--durability", "interval"]).contains("use sync or buffered"));
}
