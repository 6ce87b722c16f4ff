//! The mutants of a run: drawn by a seed or planted, built, and kept in the run's folder with the test programs.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mutant::Mutant;
use super::packages::{self, Package};
use super::planted::{self, Width};
use super::sites;
use super::workspace::{Built, Workspace};

/// A mutant as it is kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Drawn {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) function: String,
    pub(super) what: String,
    pub(super) original: String,
    pub(super) mutated: String,
    /// Which of the places of its function that read like the original it is.
    pub(super) nth: usize,
}

/// The mutants of a run.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Draw {
    /// Where it is kept.
    pub(super) folder: PathBuf,
    /// The crates whose tests are run, as `--crate` names them.
    #[serde(default = "engine")]
    pub(super) packages: Vec<String>,
    pub(super) mutants: Vec<Drawn>,
    /// How many there are to draw from.
    pub(super) of: usize,
    /// Mutants that do not compile, and why; others were drawn in their place.
    pub(super) refused: Vec<(Drawn, String)>,
    /// The test programs.
    pub(super) programs: BTreeMap<String, PathBuf>,
}

fn engine() -> Vec<String> {
    vec![packages::ENGINE.to_owned()]
}

/// All mutants of the files of these crates.
///
/// # Errors
/// When a file cannot be read, or no file is asked for.
pub(super) fn scope(root: &Path, packages: &[&Package], only: &[String]) -> Result<Vec<Mutant>, String> {
    let mut found = Vec::new();
    for package in packages {
        let mut files = Vec::new();
        collect(root, &Path::new("crates").join(package.name).join("src"), &mut files)?;
        if let Some(gone) = package.scope.iter().find(|prefix| !files.iter().any(|file| file.starts_with(*prefix))) {
            return Err(format!("{gone}: no sources there: name in `PACKAGES` what the folder is called now"));
        }
        let is_in = |file: &&String| {
            package.scope.iter().any(|prefix| file.starts_with(prefix))
                && !package.not.iter().any(|part| file.contains(part))
                && (only.is_empty() || only.iter().any(|prefix| file.starts_with(prefix.as_str())))
        };
        for file in files.iter().filter(is_in) {
            let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
            found.extend(sites::mutants(file, &text)?);
        }
    }
    if found.is_empty() {
        let scope = packages.first().and_then(|package| package.scope.last()).unwrap_or(&"");
        return Err(format!("no place for a mutant under {only:?}: give paths such as {scope}"));
    }
    Ok(found)
}

/// The sources below a folder, without modules that are there for tests only, in the order of their names.
fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let of_tests = sites::test_modules(&fs::read_to_string(root.join(folder).join("mod.rs")).unwrap_or_default());
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(folder)).map_err(told)? {
        names.push(entry.map_err(told)?.file_name());
    }
    names.sort();
    for name in names {
        let path = folder.join(&name);
        if of_tests.iter().any(|module| path.file_stem().is_some_and(|stem| stem == module.as_str())) {
            continue;
        }
        if root.join(&path).is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Puts a list into an order that the seed decides (SplitMix64 and Fisher-Yates).
fn shuffle<T>(list: &mut [T], seed: u64) {
    let mut state = seed;
    for end in (1..list.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let random = mixed ^ (mixed >> 31);
        let bound = u64::try_from(end + 1).expect("a list in memory");
        list.swap(end, usize::try_from(random % bound).expect("below the length"));
    }
}

impl Draw {
    /// Draws so many mutants that compile, and builds them.
    ///
    /// # Errors
    /// When sources cannot be read or built.
    pub(super) fn generated(
        workspace: &Workspace,
        packages: &[&'static Package],
        (seed, count): (u64, usize),
        only: &[String],
    ) -> Result<Self, String> {
        let mut all = scope(workspace.root(), packages, only)?;
        let of = all.len();
        let mut hasher = DefaultHasher::new();
        for mutant in &all {
            (&mutant.file, mutant.line, &mutant.original, mutant.mutated()).hash(&mut hasher);
        }
        let names: Vec<_> = packages.iter().map(|package| package.name).collect();
        (count, only, names).hash(&mut hasher);
        let folder = workspace.home().join(format!("seed-{seed}-{:08x}", hasher.finish() >> 32));
        if folder.join("draw.json").exists() {
            return Self::load(&folder);
        }
        shuffle(&mut all, seed);
        let mut waiting = (0..).zip(all);
        let mut refused = Vec::new();
        // More than are asked for at first, so that those that do not compile need no others in their place.
        let mut chosen: BTreeMap<u32, Mutant> = waiting.by_ref().take(count + count / 8).collect();
        loop {
            chosen.extend(waiting.by_ref().take(count.saturating_sub(chosen.len())));
            match workspace.build(packages, &chosen)? {
                Built::Programs(programs) => {
                    let draw = Self::new(folder, packages, of, refused);
                    return draw.keep(&chosen.into_iter().take(count).collect(), &programs);
                }
                Built::Refused(numbers) => {
                    eprintln!("{} of {} mutants do not compile", numbers.len(), chosen.len());
                    for (number, why) in numbers {
                        refused.extend(chosen.remove(&number).map(|mutant| (Drawn::of(number, &mutant), why)));
                    }
                }
            }
        }
    }

    /// Takes the planted bugs of a file, and builds them.
    ///
    /// # Errors
    /// When the file is not as it must be, or sources cannot be read or built.
    pub(super) fn planted(workspace: &Workspace, packages: &[&'static Package], file: &Path) -> Result<Self, String> {
        let list = planted::read(file)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut chosen = BTreeMap::new();
        for (number, planted) in (1..).zip(&list) {
            let position = usize::try_from(number).expect("a short list");
            chosen.insert(number, planted::mutant(workspace.root(), position, planted, Width::Least)?);
        }
        let (of, mut widened, mut refused) = (chosen.len(), Vec::new(), Vec::new());
        loop {
            match workspace.build(packages, &chosen)? {
                Built::Programs(programs) => {
                    let mut hasher = DefaultHasher::new();
                    for mutant in chosen.values() {
                        (&mutant.file, &mutant.original, mutant.mutated()).hash(&mut hasher);
                    }
                    for path in programs.values() {
                        fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?.hash(&mut hasher);
                    }
                    let folder = workspace.home().join(format!("planted-{name}-{:08x}", hasher.finish() >> 32));
                    return Self::new(folder, packages, of, refused).keep(&chosen, &programs);
                }
                Built::Refused(numbers) => {
                    for (number, why) in numbers {
                        let mutant = chosen.remove(&number).expect("only what was built is refused");
                        let position = usize::try_from(number).expect("a short list");
                        let wide = planted::mutant(workspace.root(), position, &list[position - 1], Width::Body);
                        match wide {
                            Ok(wide) if !widened.contains(&number) => {
                                widened.push(number);
                                chosen.insert(number, wide);
                            }
                            _ => {
                                eprintln!("{}: does not compile: {why}", mutant.name);
                                refused.push((Drawn::of(number, &mutant), why));
                            }
                        }
                    }
                }
            }
        }
    }

    /// A run that was begun before.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(super) fn load(folder: &Path) -> Result<Self, String> {
        let path = folder.join("draw.json");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A draw without mutants yet.
    fn new(folder: PathBuf, packages: &[&Package], of: usize, refused: Vec<(Drawn, String)>) -> Self {
        let packages = packages.iter().map(|package| package.name.to_owned()).collect();
        Self { folder, packages, mutants: Vec::new(), of, refused, programs: BTreeMap::new() }
    }

    /// Takes the mutants, and puts copies of the programs into the run's folder: the next build writes over them.
    fn keep(mut self, chosen: &BTreeMap<u32, Mutant>, programs: &BTreeMap<String, PathBuf>) -> Result<Self, String> {
        if self.folder.join("draw.json").exists() {
            return Self::load(&self.folder);
        }
        let told = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        fs::create_dir_all(self.folder.join("programs")).map_err(told)?;
        for (name, path) in programs {
            let copy = self.folder.join("programs").join(name.replace('/', "-"));
            fs::copy(path, &copy).map_err(told)?;
            self.programs.insert(name.clone(), copy);
        }
        self.mutants = chosen.iter().map(|(number, mutant)| Drawn::of(*number, mutant)).collect();
        let text = serde_json::to_string_pretty(&self).expect("plain data");
        fs::write(self.folder.join("draw.json"), text).map_err(|error| error.to_string())?;
        Ok(self)
    }
}

impl Drawn {
    fn of(number: u32, mutant: &Mutant) -> Self {
        Self {
            number,
            name: mutant.name.clone(),
            file: mutant.file.clone(),
            line: mutant.line,
            function: mutant.function.clone(),
            what: mutant.what.clone(),
            original: mutant.original.clone(),
            mutated: mutant.mutated(),
            nth: mutant.nth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_of_the_scope_has_places_for_mutants() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        for package in &packages::PACKAGES {
            let found = scope(root, &[package], &[]).unwrap();
            for prefix in package.scope {
                assert!(found.iter().any(|mutant| mutant.file.starts_with(prefix)), "{prefix}");
            }
        }
    }
}
