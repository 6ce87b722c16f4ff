//! B-tree files: any file and root are refused, or all of it can be read, or reading it tells of damage.

use super::seal::both;
use super::{seal, small, sparse};
use spinney::base::SeqNum;
use spinney::base::checksum::checksum;
use spinney::base::codec::{Decoder, put_len_prefixed};
use spinney::cache::{Cache, Fill};
use spinney::env::sim::SimEnv;
use spinney::store::StoreStats;
use spinney::tree::Cursor;
use spinney::tree::btree::{BTree, BTreeCursor, TreeMeta, TreeOptions};
use spinney::{Compression, Error};
use std::path::Path;
use std::sync::Arc;

const IDENTITY: u64 = 1;

#[derive(Clone)]
struct Input {
    meta: TreeMeta,
    file: Vec<u8>,
}

pub(super) fn run(input: &[u8]) -> bool {
    let mut decoder = Decoder::new(input);
    let Some(meta) = small::part(&mut decoder).and_then(|meta| TreeMeta::decode(&mut Decoder::new(meta)).ok()) else {
        return false;
    };
    let Some(file) = sparse::file(&mut decoder) else { return false };
    both(Input { meta, file }, seal, |input| read(input).is_ok())
}

fn seal(Input { meta, file }: &mut Input) {
    if let Some(header) = file.get_mut(..32) {
        header[16..24].copy_from_slice(&IDENTITY.to_le_bytes());
        let sum = checksum(IDENTITY, 0, &header[..24]);
        header[24..].copy_from_slice(&sum.to_le_bytes());
    }
    let mut left = seal::BLOCKS_MAX;
    meta.root = meta.root.map(|pointer| seal::block(file, IDENTITY, pointer, &mut left));
    meta.free_list = meta.free_list.map(|pointer| seal::block(file, IDENTITY, pointer, &mut left));
}

fn read(Input { meta, file }: &Input) -> Result<(), Error> {
    let (sim, path) = (SimEnv::new(1), Path::new("/tree"));
    sim.write_file(path, file).expect("an empty machine");
    let options = TreeOptions { block_bytes: 512, compression: Compression::None, direct: false };
    let (cache, stats) = (Arc::new(Cache::new(1 << 20)), Arc::new(StoreStats::default()));
    let tree = BTree::open(&sim.env(), path, IDENTITY, options, *meta, cache, stats)?;
    let root = tree.root();
    let verified = tree.verify(&root).map(drop);
    let mut keys: Vec<Vec<u8>> = vec![Vec::new(), b"key007".to_vec(), vec![0xff; 20]];
    let mut cursor = BTreeCursor::over(&root, Fill::Keep);
    let mut walked = cursor.first();
    for _ in 0..10_000 {
        let Some(entry) = cursor.entry() else { break };
        keys.push(entry.key.to_vec());
        walked = cursor.next();
    }
    keys.truncate(100);
    let mut back = BTreeCursor::over(&root, Fill::Bypass);
    drop(back.last().and_then(|()| back.prev()));
    for key in &keys {
        let mut cursor = BTreeCursor::over(&root, Fill::Bypass);
        drop(cursor.seek_ge(key).and_then(|()| cursor.next()));
        drop(cursor.seek_lt(key).and_then(|()| cursor.prev()));
        let found = root.get(key, SeqNum::MAX);
        assert!(verified.is_err() || found.is_ok(), "a tree that is verified can be read");
    }
    assert!(verified.is_err() || walked.is_ok(), "a tree that is verified can be walked");
    verified
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for compression in [Compression::None, Compression::Lz4] {
        let (sim, catalog) = small::database(compression);
        for (id, root) in catalog.tables.values().filter_map(|table| table.tree.as_ref()) {
            let mut meta = Vec::new();
            root.encode(&mut meta);
            let mut out = Vec::new();
            put_len_prefixed(&mut out, &meta);
            let path = format!("{}/{:06}.tree", small::DIR, id.0);
            sparse::put_file(&mut out, &sim.read_file(path).expect("it is there"));
            seeds.push(out);
        }
    }
    seeds
}
