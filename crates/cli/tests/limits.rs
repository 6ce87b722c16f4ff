//! Processes that run out of disk, of file descriptors and of memory while they commit: what they acknowledged stays,
//! what they say is one line, and with room again the database goes on.

use crate::support::{Place, failure, skip};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Output, Stdio};

const ACKS: &str = "acks";
const DISK_MIB: u64 = 64;

/// A small file system of its own, which is gone when the process ends that holds it.
struct SmallDisk {
    place: Place,
    holder: Child,
}

impl SmallDisk {
    /// An ext4 in a file, where the user may mount it, else a tmpfs in a user's name space; or why neither can be.
    fn new() -> Result<Self, String> {
        let ext4 = format!("truncate -s {DISK_MIB}M image && mkfs.ext4 -q -F -m 0 image && mount -o loop image disk");
        let tmpfs = format!("mount -t tmpfs -o size={DISK_MIB}m tmpfs disk");
        let first = Self::mounted("-m", &ext4);
        first.or_else(|why| Self::mounted("-rm", &tmpfs).map_err(|too| format!("{why}; {too}")))
    }

    fn mounted(space: &str, mount: &str) -> Result<Self, String> {
        let place = Place::new();
        std::fs::create_dir(place.path("disk")).unwrap();
        let script = format!("exec 2>&1; {mount} && echo mounted && exec cat");
        let mut command = Command::new("unshare");
        command.args([space, "sh", "-c", &script]).current_dir(place.path(""));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = Vec::new();
        for line in lines {
            if line == "mounted" {
                let disk = Self { place, holder };
                return match std::fs::metadata(disk.path("")) {
                    Ok(_) => Ok(disk),
                    Err(error) => Err(format!("its mounts cannot be reached: {error}")),
                };
            }
            said.push(line);
        }
        holder.wait().unwrap();
        Err(format!("`unshare {space}` with `{mount}`: {}", said.join(", ")))
    }

    /// A path in it, by way of the process that has it mounted.
    fn path(&self, name: &str) -> String {
        let dir = self.place.path("disk").canonicalize().unwrap();
        format!("/proc/{}/root{}/{name}", self.holder.id(), dir.display())
    }

    /// Fills it but for so many bytes.
    fn fill(&self, room: u64) {
        let mut file = std::fs::File::create(self.path("ballast")).unwrap();
        let mut bytes = 0;
        for step in [1 << 20, 4096] {
            let zeros = vec![0; step];
            while let Ok(written @ 1..) = file.write(&zeros) {
                bytes += written as u64;
            }
        }
        file.set_len(bytes.saturating_sub(room)).unwrap();
    }

    fn empty(&self) {
        std::fs::remove_file(self.path("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        self.holder.wait().unwrap();
    }
}

/// Commits of a database, and what was acknowledged of them.
struct Stressed<'a> {
    place: &'a Place,
    db: String,
    acks: String,
}

impl<'a> Stressed<'a> {
    fn new(place: &'a Place, db: String) -> Self {
        Self { place, db, acks: String::new() }
    }

    fn args(&self, commits: u64, durability: &'static str) -> Vec<String> {
        let args = ["stress", &self.db, "--threads", "3", "--durability", durability, "--commits"];
        args.map(str::to_owned).into_iter().chain([commits.to_string()]).collect()
    }

    /// Commits; with a limit, as `ulimit` takes it.
    fn stress(&mut self, commits: u64, durability: &'static str, limit: &str) -> Output {
        let mut command = Command::new("sh");
        let script = if limit.is_empty() { String::new() } else { format!("ulimit {limit}; ") } + "exec \"$0\" \"$@\"";
        command.args(["-c", &script, env!("CARGO_BIN_EXE_spinney")]).args(self.args(commits, durability));
        // The standard library waits for ever for a lock of its own when it lacks the memory to print a backtrace.
        command.env("RUST_BACKTRACE", "0").current_dir(self.place.path(""));
        let output = command.stdin(Stdio::null()).output().unwrap();
        self.acks += str::from_utf8(&output.stdout).unwrap();
        output
    }

    fn check_and_go_on(&mut self, what: &str) {
        self.place.file(ACKS, &self.acks);
        let output = self.place.run(&["stress", "--check", &self.db, "--acks", ACKS]);
        assert!(output.status.success(), "{what}: {output:#?}");
        let output = self.stress(20, "sync", "");
        assert!(output.status.success(), "{what}: {output:#?}");
    }
}

/// Whether a message says that the disk is full, or would be with what is in memory.
fn tells_full_disk(said: &str) -> bool {
    said.contains("No space left on device") || said.contains("has no room for more")
}

#[test]
fn a_full_disk_refuses_commits_and_loses_none() {
    let disk = match SmallDisk::new() {
        Ok(disk) => disk,
        Err(why) => return skip("a small file system that is full", &why),
    };
    let mut refused = 0;
    for (durability, commits) in [("sync", 400), ("buffered", 2000)] {
        let mut stressed = Stressed::new(&disk.place, disk.path(durability));
        assert!(stressed.stress(300, durability, "").status.success());
        for room in [0, 64, 300, 1000, 3000] {
            let what = format!("{durability}, {room} KiB left");
            disk.fill(room << 10);
            let output = stressed.stress(commits, durability, "");
            if !output.status.success() {
                let said = failure(&output, &[&what]);
                assert!(tells_full_disk(&said), "{what}: {said}");
                refused += 1;
            }
            // A read on the same full disk is served, or refused with what is wrong.
            let tight = disk.place.run(&["count", &stressed.db, "stress-lsm"]);
            if !tight.status.success() {
                assert!(tells_full_disk(&failure(&tight, &[&what])), "{what}: {tight:#?}");
            }
            disk.empty();
            stressed.check_and_go_on(&what);
        }
    }
    assert!(refused > 4, "{refused} runs met the full disk");
}

#[test]
fn a_process_without_file_descriptors_loses_no_commit() {
    let place = Place::new();
    let mut stressed = Stressed::new(&place, "db".to_owned());
    assert!(stressed.stress(500, "buffered", "").status.success());
    let mut refused = 0;
    for descriptors in [5, 20, 36, 50, 60] {
        let what = format!("{descriptors} descriptors");
        let output = stressed.stress(1500, "buffered", &format!("-n {descriptors}"));
        if !output.status.success() {
            let said = failure(&output, &[&what]);
            assert!(said.contains("Too many open files"), "{what}: {said}");
            refused += 1;
        }
        stressed.check_and_go_on(&what);
    }
    assert!(refused > 2, "{refused} runs lacked descriptors");
}

/// Rust ends a process that gets no memory, as a kill would.
#[test]
fn a_process_without_memory_loses_no_commit() {
    let place = Place::new();
    let mut stressed = Stressed::new(&place, "db".to_owned());
    assert!(stressed.stress(300, "buffered", "").status.success());
    let mut refused = 0;
    for mebibytes in [16, 32, 48, 96] {
        let output = stressed.stress(500, "buffered", &format!("-v {}", mebibytes << 10));
        refused += u64::from(!output.status.success());
        stressed.check_and_go_on(&format!("{mebibytes} MiB"));
    }
    assert!(refused > 1, "{refused} runs lacked memory");
}
