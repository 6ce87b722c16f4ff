//! Random damage to the files of a database.

use std::fs;
use std::path::{Path, PathBuf};

use spinney_testkit::rng::Rng;

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The files that can be damaged, in the order of their names.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !["LOCK", "CURRENT"].contains(&name.as_str()) && !name.ends_with(".spare") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Damages some files, and says what was done.
pub(crate) fn damage(dir: &Path, rng: &mut Rng) -> Vec<String> {
    let files = files(dir);
    let kinds: &[&str] = match rng.in_range(0..10) {
        0..=3 => &["run"],
        4..=5 => &["tree"],
        6..=7 => &["log"],
        8 => &["manifest", "manifest-copy"],
        _ => &["run", "tree", "log", "manifest", "manifest-copy"],
    };
    let is_of_kind = |path: &&PathBuf| path.extension().is_some_and(|kind| kinds.iter().any(|wanted| kind == *wanted));
    let mut of_kind: Vec<&PathBuf> = files.iter().filter(is_of_kind).collect();
    if of_kind.is_empty() {
        of_kind = files.iter().collect();
    }
    (0..rng.in_range(1..4))
        .map(|_| {
            let path = of_kind[rng.in_range(0..of_kind.len())];
            damage_one(path, rng)
        })
        .collect()
}

fn damage_one(path: &Path, rng: &mut Rng) -> String {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let Ok(mut bytes) = fs::read(path) else { return format!("{name} is gone") };
    // What a file of the log was made to hold and does not yet is zeros.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if used == 0 {
        return format!("{name} is empty");
    }
    let at = rng.in_range(0..used);
    let what = match rng.in_range(0..10) {
        0..=4 => {
            bytes[at] ^= 1 << rng.in_range(0..8);
            format!("{name}: a bit at {at}")
        }
        5..=7 => {
            let (from, len) = (at / 512 * 512, 512 * rng.in_range(1..9));
            let to = bytes.len().min(from + len);
            bytes[from..to].fill(0);
            format!("{name}: zeros from {from} to {to}")
        }
        8 => {
            bytes.truncate(at);
            format!("{name}: cut at {at}")
        }
        _ => {
            fs::remove_file(path).unwrap();
            return format!("{name}: removed");
        }
    };
    fs::write(path, bytes).unwrap();
    what
}

/// Whether a damaged copy lacks the newest segment of the log, and no spare file has the header of the one behind it,
/// which the log's worker writes soon after a segment begins: then nothing proves that there was one.
pub(crate) fn lacks_newest_without_proof(sound: &Path, damaged: &Path) -> bool {
    let log = |dir: &Path, kind: &str| -> Vec<PathBuf> {
        let is_of_kind = |path: &PathBuf| path.extension().is_some_and(|extension| extension == kind);
        fs::read_dir(dir.join("log")).unwrap().map(|entry| entry.unwrap().path()).filter(is_of_kind).collect()
    };
    let number = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let newest = log(sound, "log").iter().map(number).max().unwrap_or(0);
    let is_there = log(damaged, "log").iter().any(|path| number(path) == newest);
    // The number of the segment in its header: see the format of the log.
    let header = |path: &PathBuf| fs::read(path).ok()?.get(24..32)?.try_into().ok().map(u64::from_le_bytes);
    !is_there && !log(sound, "spare").iter().any(|spare| header(spare) == Some(newest + 1))
}
