//! Every damage to every file of a database: bytes flipped, sectors zeroed, exchanged or as they were earlier, files
//! cut short.

use crate::database::Database;
use crate::meaning::Meaning;
use spinney::env::DirEntry;
use spinney::env::sim::SimEnv;
use spinney_testkit::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(crate) const SECTOR: usize = 512;

/// What becomes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    /// The bits of a byte.
    Flipped { at: usize, bits: u8 },
    /// A sector that is zeros.
    Zeroed { at: usize },
    /// Two sectors that have changed places.
    Exchanged { at: usize, with: usize },
    /// A sector with what it held earlier: a write that was lost.
    Older { at: usize, version: usize },
    /// A whole part that means something with what was there earlier, perhaps as sound as it: a write that was lost
    /// whole.
    OlderPart { at: usize, len: usize, version: usize },
    /// The length that is left.
    Cut { len: usize },
}

impl Damage {
    /// The name of its kind.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Flipped { .. } => "flipped",
            Self::Zeroed { .. } => "zeroed",
            Self::Exchanged { .. } => "exchanged",
            Self::Older { .. } => "older",
            Self::OlderPart { .. } => "older part",
            Self::Cut { .. } => "cut",
        }
    }

    /// The file that it leaves.
    pub(crate) fn of(self, file: &File) -> Vec<u8> {
        let mut bytes = file.bytes.clone();
        match self {
            Self::Flipped { at, bits } => bytes[at] ^= bits,
            Self::Zeroed { at } => bytes[file.sector(at)].fill(0),
            Self::Exchanged { at, with } => {
                let (low, high) = bytes.split_at_mut(at.max(with));
                low[at.min(with)..][..SECTOR].swap_with_slice(&mut high[..SECTOR]);
            }
            Self::Older { at, version } => file.put_older(&mut bytes, version, file.sector(at)),
            Self::OlderPart { at, len, version } => file.put_older(&mut bytes, version, at..at + len),
            Self::Cut { len } => bytes.truncate(len),
        }
        bytes
    }
}

/// A file of a database.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    /// What it held earlier, each once.
    pub(crate) earlier: Vec<Vec<u8>>,
    pub(crate) meaning: Meaning,
}

impl File {
    /// All of a database.
    pub(crate) fn all(database: &Database) -> Vec<Self> {
        let mut meanings = Meaning::of_files(database);
        let file = |path: PathBuf| {
            let bytes = database.sim.read_file(&path).expect("it was listed");
            let earlier: BTreeSet<_> = database.earlier.iter().filter_map(|sim| sim.read_file(&path).ok()).collect();
            let meaning = meanings.remove(&path).unwrap_or_default();
            Self { path, bytes, earlier: earlier.into_iter().collect(), meaning }
        };
        files_below(&database.sim, &database.path).into_iter().map(file).collect()
    }

    /// What kind of file it is: the end of its name.
    pub(crate) fn kind(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.rsplit('.').next().unwrap_or_default()
    }

    /// What it held earlier at a place, as far as it reached.
    fn older(&self, version: usize, place: Range<usize>) -> &[u8] {
        let old = &self.earlier[version];
        &old[place.start.min(old.len())..place.end.min(old.len())]
    }

    fn put_older(&self, bytes: &mut [u8], version: usize, place: Range<usize>) {
        let old = self.older(version, place.clone());
        bytes[place.clone()].fill(0);
        bytes[place.start..][..old.len()].copy_from_slice(old);
    }

    /// The earlier versions that were different at a place, each once.
    fn versions(&self, place: &Range<usize>) -> impl Iterator<Item = usize> {
        let mut seen = BTreeSet::new();
        (0..self.earlier.len()).filter(move |version| seen.insert(self.older(*version, place.clone())))
    }

    fn sector(&self, at: usize) -> Range<usize> {
        at..self.bytes.len().min(at + SECTOR)
    }

    /// All damage to it that changes anything, by its kind and by whether it changes a byte that means something.
    pub(crate) fn damages(&self, rng: &mut Rng) -> BTreeMap<(&'static str, bool), Vec<Damage>> {
        let len = self.bytes.len();
        let mut all: Vec<_> = (0..len).map(|at| Damage::Flipped { at, bits: 1 << rng.in_range(0..8) }).collect();
        let sectors: Vec<_> = (0..len).step_by(SECTOR).collect();
        let whole = len / SECTOR;
        for at in &sectors {
            all.push(Damage::Zeroed { at: *at });
            if *at < whole * SECTOR && whole > 1 {
                let with = (at / SECTOR + rng.in_range(1..whole)) % whole * SECTOR;
                all.push(Damage::Exchanged { at: *at, with });
            }
            all.extend(self.versions(&self.sector(*at)).map(|version| Damage::Older { at: *at, version }));
        }
        for part in self.meaning.parts() {
            let older = |version| Damage::OlderPart { at: part.start, len: part.len(), version };
            all.extend(self.versions(part).map(older));
        }
        let cuts: BTreeSet<_> = self.meaning.borders().chain(sectors).filter(|cut| *cut < len).collect();
        all.extend(cuts.into_iter().map(|len| Damage::Cut { len }));
        let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for damage in all {
            let changed = self.changed(damage);
            if !changed.is_empty() {
                let matters = self.meaning.meets(&changed);
                kinds.entry((damage.kind(), matters)).or_default().push(damage);
            }
        }
        kinds
    }

    /// Where the file is another one after it.
    pub(crate) fn changed(&self, damage: Damage) -> Vec<usize> {
        let after = damage.of(self);
        let differs = |at: &usize| after.get(*at) != Some(&self.bytes[*at]);
        let places = match damage {
            Damage::Flipped { at, .. } => return vec![at],
            Damage::Zeroed { at } | Damage::Older { at, .. } => [self.sector(at), 0..0],
            Damage::OlderPart { at, len, .. } => [at..at + len, 0..0],
            Damage::Exchanged { at, with } => [self.sector(at), self.sector(with)],
            Damage::Cut { len } => return (len..self.bytes.len()).collect(),
        };
        places.into_iter().flatten().filter(differs).collect()
    }
}

/// All files in a directory and in those below it.
pub(crate) fn files_below(sim: &SimEnv, dir: &Path) -> Vec<PathBuf> {
    let entries = sim.env().fs.list(dir).unwrap_or_default().into_iter();
    let below = |entry: DirEntry| {
        let path = dir.join(&entry.name);
        if entry.is_dir { files_below(sim, &path) } else { vec![path] }
    };
    entries.flat_map(below).collect()
}
