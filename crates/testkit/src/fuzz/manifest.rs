//! `CURRENT` and the manifest: any are refused, or give a catalog that is written and read again as it is.

use super::seal::both;
use super::{seal, small, sparse};
use spinney::Compression;
use spinney::base::codec::{Decoder, put_len_prefixed};
use spinney::env::sim::SimEnv;
use spinney::table::catalog::Catalog;
use spinney::table::manifest::Manifest;
use std::path::Path;

const ID: u64 = 1;

#[derive(Clone)]
struct Input {
    current: Vec<u8>,
    manifest: Vec<u8>,
}

pub(super) fn run(input: &[u8]) -> bool {
    let mut decoder = Decoder::new(input);
    let Some(current) = small::part(&mut decoder).map(<[u8]>::to_vec) else { return false };
    let Some(manifest) = sparse::file(&mut decoder) else { return false };
    let seal = |input: &mut Input| {
        seal::current(&mut input.current);
        seal::manifest(&mut input.manifest, ID);
    };
    both(Input { current, manifest }, seal, read)
}

fn read(Input { current, manifest }: &Input) -> bool {
    let sim = SimEnv::new(1);
    sim.write_file("/CURRENT", current).expect("an empty machine");
    sim.write_file(format!("/{ID:06}.manifest"), manifest).expect("an empty machine");
    let Ok(Some((catalog, _))) = Manifest::load(&sim.env(), Path::new("/")) else { return false };
    let mut bytes = Vec::new();
    catalog.encode(&mut bytes);
    let mut decoder = Decoder::new(&bytes);
    assert!(Catalog::decode(&mut decoder).is_ok_and(|again| again == catalog), "a catalog comes back");
    true
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (sim, _) = small::database(Compression::None);
    let mut names: Vec<_> = sim.env().fs.list(Path::new(small::DIR)).expect("it is there").into_iter().collect();
    names.retain(|entry| entry.name.ends_with(".manifest"));
    let seed = |name: &str| {
        let mut out = Vec::new();
        let mut current = format!("spinney 2\n{ID:06}.manifest\n").into_bytes();
        seal::current(&mut current);
        put_len_prefixed(&mut out, &current);
        sparse::put_file(&mut out, &sim.read_file(Path::new(small::DIR).join(name)).expect("it is there"));
        out
    };
    names.iter().map(|entry| seed(&entry.name)).collect()
}
