//! Runs: any file is refused, or all of it can be read, or reading it tells of damage.

use super::seal::both;
use super::{seal, small, sparse};
use spinney::base::checksum::{checksum, hash_key};
use spinney::base::codec::{Decoder, put_len_prefixed};
use spinney::base::num::u64_of;
use spinney::base::{FileId, SeqNum};
use spinney::block::BlockPointer;
use spinney::cache::{Cache, Fill};
use spinney::env::sim::SimEnv;
use spinney::store::StoreStats;
use spinney::tree::Cursor;
use spinney::tree::run::verify::verify;
use spinney::tree::run::{Run, RunCursor, RunMeta};
use spinney::tree::values::{ValueFile, ValueFiles};
use spinney::{Compression, Error};
use std::path::Path;
use std::sync::Arc;

const IDENTITY: u64 = 1;
const FOOTER: usize = 128;

#[derive(Clone)]
struct Input {
    meta: RunMeta,
    file: Vec<u8>,
}

pub(super) fn run(input: &[u8]) -> bool {
    let mut decoder = Decoder::new(input);
    let Some(meta) = small::part(&mut decoder).and_then(|meta| RunMeta::decode(&mut Decoder::new(meta)).ok()) else {
        return false;
    };
    let Some(file) = sparse::file(&mut decoder) else { return false };
    both(Input { meta, file }, seal, |input| read(input).is_ok())
}

/// Makes the checksums right, and the manifest say what the footer says.
fn seal(Input { meta, file }: &mut Input) {
    meta.bytes = u64_of(file.len());
    let Some(footer) = file.len().checked_sub(FOOTER) else { return };
    let number = |file: &[u8], at: usize| Decoder::new(&file[footer + at..]).u64().expect("within the footer");
    (meta.entries, meta.tombstones, meta.raw_bytes) = (number(file, 72), number(file, 80), number(file, 88));
    meta.seqnum_max = SeqNum(number(file, 96));
    let mut left = seal::BLOCKS_MAX;
    for (at, seal) in
        [(16, seal::block as fn(&mut [u8], u64, BlockPointer, &mut usize) -> BlockPointer), (32, seal::table)]
    {
        let at = footer + at..footer + at + BlockPointer::BYTES;
        let Ok(pointer) = BlockPointer::decode(&mut Decoder::new(&file[at.clone()])) else { return };
        let pointer = seal(file, IDENTITY, pointer, &mut left);
        file[at].copy_from_slice(&pointer.encode());
    }
    let sum = checksum(IDENTITY, u64_of(footer), &file[footer..footer + FOOTER - 8]);
    file[footer + FOOTER - 8..].copy_from_slice(&sum.to_le_bytes());
}

fn read(Input { meta, file }: &Input) -> Result<(), Error> {
    let (sim, path) = (SimEnv::new(1), Path::new("/run"));
    for path in [path, Path::new("/values")] {
        sim.write_file(path, file).expect("an empty machine");
    }
    let (env, cache) = (sim.env(), Arc::new(Cache::new(1 << 20)));
    let run =
        Run::open(&env, path, IDENTITY, false, meta.clone(), Arc::clone(&cache), Arc::new(StoreStats::default()))?;
    let open = |id: FileId| {
        let (cache, stats) = (Arc::clone(&cache), Arc::new(StoreStats::default()));
        ValueFile::open(&env, Path::new("/values"), id, IDENTITY, false, cache, stats)
    };
    let files = meta.references.iter().map(|reference| open(reference.file)).collect::<Result<Vec<_>, _>>()?;
    run.refer_to(&ValueFiles::new(files))?;
    let verified = verify(&run).map(drop);
    let mut keys: Vec<Vec<u8>> = vec![Vec::new(), b"key007".to_vec(), vec![0xff; 20]];
    let mut cursor = RunCursor::over(&run, Fill::Keep);
    let mut walked = cursor.first();
    // A pointer to a leaf may stand in many entries of the index.
    for _ in 0..10_000 {
        let Some(entry) = cursor.entry() else { break };
        keys.push(entry.key.to_vec());
        drop(cursor.value());
        walked = cursor.next();
    }
    keys.truncate(100);
    let mut back = RunCursor::over(&run, Fill::Bypass);
    drop(back.last().and_then(|()| back.prev()));
    for key in &keys {
        let mut cursor = RunCursor::over(&run, Fill::Merge);
        drop(cursor.seek_ge(key).and_then(|()| cursor.next()));
        drop(cursor.seek_lt(key).and_then(|()| cursor.prev()));
        let found = run.get(key, hash_key(key), SeqNum::MAX);
        assert!(verified.is_err() || found.is_ok(), "a run that is verified can be read");
    }
    assert!(verified.is_err() || walked.is_ok(), "a run that is verified can be walked");
    verified
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for compression in [Compression::None, Compression::Lz4] {
        let (sim, catalog) = small::database(compression);
        for record in catalog.tables.values().flat_map(|table| table.runs()) {
            let mut meta = Vec::new();
            record.meta.encode(&mut meta);
            let mut out = Vec::new();
            put_len_prefixed(&mut out, &meta);
            let path = format!("{}/{:06}.run", small::DIR, record.id.0);
            sparse::put_file(&mut out, &sim.read_file(path).expect("it is there"));
            seeds.push(out);
        }
    }
    seeds
}
