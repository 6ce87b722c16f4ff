//! The list of a B-tree file's free space: any bytes are refused, or make a map of the space that gives all of it out.

use spinney::base::codec::{Decoder, put_varint};
use spinney::store::space::{Extent, SpaceMap, decode_extents, encode_extents};

pub(super) fn run(input: &[u8]) -> bool {
    let mut decoder = Decoder::new(input);
    let Ok(units) = decoder.varint() else { return false };
    let Ok(extents) = decode_extents(decoder.rest(), units) else { return false };
    let mut map = SpaceMap::new(units, &extents);
    assert_eq!(map.free_units(), extents.iter().map(|extent| extent.units).sum());
    let mut again = Vec::new();
    encode_extents(&extents, &mut again);
    assert_eq!(decode_extents(&again, units), Ok(extents));
    for _ in 0..100 {
        let Some(Extent { start, units: taken }) = map.allocate(1, true) else { break };
        assert!(start > 0 && taken > 0 && start + taken <= units, "what is given out lies in the file");
    }
    true
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let of = |units: u64, extents: &[(u64, u64)]| {
        let extents: Vec<_> = extents.iter().map(|(start, units)| Extent { start: *start, units: *units }).collect();
        let mut out = Vec::new();
        put_varint(&mut out, units);
        encode_extents(&extents, &mut out);
        out.extend([0; 9]);
        out
    };
    vec![of(1, &[]), of(100, &[(1, 1), (7, 3), (50, 50)]), of(1 << 40, &[(1000, 1 << 30), (1 << 39, 1)])]
}
