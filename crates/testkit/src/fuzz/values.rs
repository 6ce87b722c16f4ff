//! Value files: any pointer into any file is refused, or names a value.

use super::seal::both;
use super::{seal, small, sparse};
use spinney::base::FileId;
use spinney::base::codec::{Decoder, put_len_prefixed};
use spinney::block::{BlockPointer, Compression, frame, raw_image};
use spinney::cache::{Cache, Fill};
use spinney::env::sim::SimEnv;
use spinney::store::StoreStats;
use spinney::tree::values::{ValueFile, ValueFiles, ValuePointer};
use std::path::Path;
use std::sync::Arc;

const IDENTITY: u64 = 1;
const FILE: FileId = FileId(7);

#[derive(Clone)]
struct Input {
    pointers: Vec<Vec<u8>>,
    file: Vec<u8>,
}

pub(super) fn run(input: &[u8]) -> bool {
    let mut decoder = Decoder::new(input);
    let Some(pointers) = small::part(&mut decoder) else { return false };
    let pointers = pointers.chunks(ValuePointer::BYTES).map(<[u8]>::to_vec).collect();
    let Some(file) = sparse::file(&mut decoder) else { return false };
    both(Input { pointers, file }, seal, read)
}

fn seal(Input { pointers, file }: &mut Input) {
    let mut left = seal::BLOCKS_MAX;
    for bytes in pointers {
        if let Ok(pointer) = ValuePointer::decode(bytes) {
            let block = seal::block(file, IDENTITY, pointer.block, &mut left);
            *bytes = ValuePointer { block, ..pointer }.encode().to_vec();
        }
    }
}

fn read(Input { pointers, file }: &Input) -> bool {
    let (sim, path) = (SimEnv::new(1), Path::new("/values"));
    sim.write_file(path, file).expect("an empty machine");
    let (cache, stats) = (Arc::new(Cache::new(1 << 20)), Arc::new(StoreStats::default()));
    let open = ValueFile::open(&sim.env(), path, FILE, IDENTITY, false, cache, stats).expect("it is there");
    let files = ValueFiles::new(vec![open]);
    let value = |pointer: &Vec<u8>| files.read(pointer, Fill::Keep).map(|value| value.len());
    let values: Vec<_> = pointers.iter().map(value).collect();
    let all = files.read_many(pointers.iter().map(Vec::as_slice));
    assert_eq!(all.is_ok(), values.iter().all(Result::is_ok), "values are read one by one or together");
    for (pointer, value) in pointers.iter().zip(&values) {
        let again = files.read(pointer, Fill::Bypass).map(|value| value.len());
        assert_eq!(again.ok(), value.as_ref().ok().copied(), "a value is the same from the cache and from the file");
    }
    all.is_ok_and(|values| !values.is_empty())
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (mut pointers, mut file) = (Vec::new(), Vec::new());
    let mut add = |image: &[u8], compression| {
        let offset = u64::try_from(file.len()).expect("a small file");
        let block: BlockPointer = frame::encode(image, compression, IDENTITY, offset, &mut file);
        pointers.extend(ValuePointer { file: FILE, block }.encode());
    };
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        for len in [0, 1, 100, 400] {
            add(&[&raw_image(0)[..], &[b'v'; 400][..len]].concat(), compression);
        }
    }
    let mut out = Vec::new();
    put_len_prefixed(&mut out, &pointers);
    sparse::put_file(&mut out, &file);
    vec![out]
}
