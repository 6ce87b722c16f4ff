//! A copy of the workspace that holds all mutants at once, and its test programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::mutant::{Mutant, SWITCH, by_file, switch};
use super::packages::{ENGINE, Package};
use super::suites::SCHEDULES;

/// What of the repository's root is not copied.
const SKIPPED: [&str; 4] = ["target", ".git", "peers", "docs"];

/// The folder of builds without `--cfg shuttle`; those with it are in one with the name of their program.
const BUILD: &str = "build";

/// A message of the compiler is taken for a mutant's when it is at most this many bytes from its text, where none holds
/// it.
const NEAR: usize = 4000;

/// The copy.
pub(super) struct Workspace {
    /// The repository.
    root: PathBuf,
    /// Where copies, builds and results are.
    home: PathBuf,
}

/// What became of a build.
pub(super) enum Built {
    /// The test programs, by name: `lib`, or that of the file in `tests/`, behind the name of the crate where it is not
    /// the engine: `server/lib`.
    Programs(BTreeMap<String, PathBuf>),
    /// These mutants do not compile.
    Refused(BTreeMap<u32, String>),
}

impl Workspace {
    pub(super) fn new(root: PathBuf) -> Self {
        let home = root.join("target/mutants");
        Self { root, home }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The copy, where test programs find the files of their packages.
    pub(super) fn tree(&self) -> PathBuf {
        self.home.join("tree")
    }

    /// Builds all test programs of these crates with these mutants, or says which of them do not compile.
    ///
    /// # Errors
    /// When files cannot be written, or the tree without mutants does not compile.
    pub(super) fn build(&self, packages: &[&Package], mutants: &BTreeMap<u32, Mutant>) -> Result<Built, String> {
        let tree = self.tree();
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let mut places = BTreeMap::new();
        for (file, edits) in by_file(mutants) {
            let switched = switch(&read(&self.root.join(file))?, &edits);
            places.insert(file.to_owned(), switched.places);
            texts.insert(file.to_owned(), switched.text);
        }
        for package in packages {
            let home = match texts.remove(package.switch_home) {
                Some(text) => text,
                None => read(&self.root.join(package.switch_home))?,
            };
            texts.insert(package.switch_home.to_owned(), home + SWITCH);
        }
        mirror(&self.root, &tree, Path::new(""), &texts)?;
        let mut programs = BTreeMap::new();
        let list: String = packages.iter().map(|package| format!(" --package {}", package.cargo)).collect();
        for arguments in [format!("check{list} --lib"), format!("test{list} --lib --tests --no-run")] {
            eprintln!("cargo {arguments}");
            let messages = self.cargo(&tree, BUILD, &arguments)?;
            let refused = refused(&messages, &places);
            if !refused.is_empty() {
                return Ok(Built::Refused(refused));
            }
            if let Some(error) = messages.iter().find(|message| is_error(message)) {
                let text = error["message"]["rendered"].as_str().unwrap_or("");
                return Err(format!("the copy does not compile, and no mutant is to blame:\n{text}"));
            }
            programs.extend(messages.iter().filter_map(program));
        }
        if packages.iter().any(|package| package.name == ENGINE) {
            programs.insert(SCHEDULES.to_owned(), self.schedules(&tree)?);
        }
        Ok(Built::Programs(programs))
    }

    /// Builds the unit tests once more, for those that decide themselves how threads take turns.
    fn schedules(&self, tree: &Path) -> Result<PathBuf, String> {
        eprintln!("cargo test --lib, under schedules");
        let messages = self.cargo(tree, SCHEDULES, "test --package spinney --lib --no-run")?;
        let built = messages.iter().find_map(program).map(|(_, path)| path);
        built.ok_or_else(|| "the copy does not compile under schedules".to_owned())
    }

    /// Runs cargo in the copy, into a folder of builds, and gives its messages.
    fn cargo(&self, tree: &Path, build: &str, arguments: &str) -> Result<Vec<Value>, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        if build != BUILD {
            command.env("RUSTFLAGS", "--cfg shuttle");
        }
        let output = command
            .args(arguments.split_whitespace())
            .arg("--message-format=json")
            .arg("--target-dir")
            .arg(self.home.join(build))
            .current_dir(tree)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo could not be started: {error}"))?;
        let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        if !output.status.success() && !messages.iter().any(is_error) {
            return Err(format!("cargo {arguments} failed ({})", output.status));
        }
        Ok(messages)
    }
}

/// Makes `to` the same as `from`, with other texts for some files. What is the same already is not touched, so that
/// little is built again.
fn mirror(from: &Path, to: &Path, within: &Path, texts: &BTreeMap<String, String>) -> Result<(), String> {
    fs::create_dir_all(to.join(within)).map_err(told(to))?;
    let folder = from.join(within);
    let mut kept = BTreeSet::new();
    for entry in fs::read_dir(&folder).map_err(told(&folder))? {
        let entry = entry.map_err(told(&folder))?;
        let (name, path) = (entry.file_name(), within.join(entry.file_name()));
        if name == "target" || within == Path::new("") && SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        kept.insert(name);
        if entry.file_type().map_err(told(&folder))?.is_dir() {
            mirror(from, to, &path, texts)?;
            continue;
        }
        let text = match path.to_str().and_then(|path| texts.get(path)) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(entry.path()).map_err(told(&entry.path()))?,
        };
        let target = to.join(&path);
        if fs::read(&target).ok().as_ref() != Some(&text) {
            fs::write(&target, text).map_err(told(&target))?;
        }
    }
    let folder = to.join(within);
    for entry in fs::read_dir(&folder).map_err(told(&folder))? {
        let entry = entry.map_err(told(&folder))?;
        let is_dir = entry.file_type().map_err(told(&folder))?.is_dir();
        if !kept.contains(&entry.file_name()) {
            let removed = if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            removed.map_err(told(&folder))?;
        }
    }
    Ok(())
}

/// Tells what could not be read or written.
fn told(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn is_error(message: &Value) -> bool {
    message["reason"] == "compiler-message" && message["message"]["level"] == "error"
}

/// The test program that a message of cargo tells of.
fn program(message: &Value) -> Option<(String, PathBuf)> {
    let path = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let target = &message["target"];
    let is_lib = target["kind"].as_array()?.iter().any(|kind| kind == "lib");
    let name = if is_lib { "lib" } else { target["name"].as_str()? };
    let (_, within) = target["src_path"].as_str()?.rsplit_once("/crates/")?;
    let package = within.split('/').next()?;
    let name = if package == ENGINE { name.to_owned() } else { format!("{package}/{name}") };
    Some((name, PathBuf::from(path)))
}

type Places = Vec<(std::ops::Range<usize>, Vec<u32>)>;

/// The mutants that the compiler's errors are about.
fn refused(messages: &[Value], places: &BTreeMap<String, Places>) -> BTreeMap<u32, String> {
    let mut refused = BTreeMap::new();
    for message in messages.iter().filter(|message| is_error(message)) {
        let message = &message["message"];
        let mut spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
        spans.sort_by_key(|span| span["is_primary"] != true);
        let told = message["message"].as_str().unwrap_or("").to_owned();
        let blamed = spans.iter().find_map(|span| holding(span, places)).or_else(|| {
            let nearest = spans.iter().filter_map(|span| nearest(span, places)).min_by_key(|(distance, _)| *distance);
            nearest.map(|(_, mutants)| mutants)
        });
        for number in blamed.into_iter().flatten() {
            refused.entry(*number).or_insert_with(|| told.clone());
        }
    }
    refused
}

fn of_span<'a>(span: &Value, places: &'a BTreeMap<String, Places>) -> Option<(&'a Places, usize, usize)> {
    let file = places.get(span["file_name"].as_str()?)?;
    let number = |name: &str| span[name].as_u64().and_then(|number| usize::try_from(number).ok());
    Some((file, number("byte_start")?, number("byte_end")?))
}

/// The mutants whose text, or else whose region, holds a place that the compiler names.
fn holding<'a>(span: &Value, places: &'a BTreeMap<String, Places>) -> Option<&'a Vec<u32>> {
    let (file, from, to) = of_span(span, places)?;
    file.iter().find(|(range, _)| range.start <= from && to <= range.end).map(|(_, mutants)| mutants)
}

/// The mutants whose region is nearest to a place that the compiler names, and how many bytes away it is.
fn nearest<'a>(span: &Value, places: &'a BTreeMap<String, Places>) -> Option<(usize, &'a Vec<u32>)> {
    let (file, from, to) = of_span(span, places)?;
    let distance = |range: &std::ops::Range<usize>| range.start.saturating_sub(to).max(from.saturating_sub(range.end));
    let near = file.iter().map(|(range, mutants)| (distance(range), mutants)).min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= NEAR)
}
