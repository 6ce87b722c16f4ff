//! Lists of free space that are damaged, or do not fit their root.

use super::*;

/// A tree with some free space, and its leaves.
fn fixture() -> (Fixture, Vec<BlockPointer>) {
    let mut fixture = Fixture::plain(512);
    for round in 0..2 {
        (0..400).for_each(|i| fixture.model.put(key(i), [round; 30]));
        fixture.merge(false);
    }
    let mut leaves = Vec::new();
    visit(&fixture.tree.root(), &mut |height, _, pointer| leaves.extend((height == 0).then_some(pointer)));
    (fixture, leaves)
}

/// The open read it only to know where merges may write, and refused the tree.
#[test]
fn a_tree_whose_list_of_free_space_is_damaged_is_read_and_not_merged_into() {
    let (mut fixture, _) = fixture();
    let meta = fixture.meta();
    fixture.sim.corrupt(PATH, meta.free_list.unwrap().offset + 40, 1).unwrap();
    fixture.tree = fixture.reopen(&fixture.sim, meta).unwrap();
    fixture.check();
    fixture.model.put(key(7), "new");
    for _ in 0..2 {
        let error = fixture.prepare(false).unwrap_err();
        assert!(error.kind() == ErrorKind::Corruption && error.is_of_read(), "{error:?}");
        assert!(error.to_string().contains(PATH), "{error}");
    }
    let root = fixture.tree.root();
    assert_eq!(fixture.tree.verify(&root).unwrap_err().kind(), ErrorKind::Corruption);
    check(&root, &fixture.model, fixture.model.seqnum - 1);
}

#[test]
fn a_list_of_free_space_fits_only_the_root_that_it_came_with() {
    let (fixture, _) = fixture();
    let meta = fixture.meta();
    let free = fixture.tree.root().free().unwrap().to_vec();
    assert!(fits(&free, &meta) && meta.free_bytes > 0);
    let units = |extents: &[Extent]| extents.iter().map(|extent| extent.units).sum::<u64>() * UNIT_BYTES;
    let with = |pointer: BlockPointer| {
        let mut free = free.clone();
        free.push(extent(pointer));
        free.sort_unstable();
        free
    };
    let of_root = with(meta.root.unwrap());
    assert!(!fits(&of_root, &TreeMeta { free_bytes: units(&of_root), ..meta }), "the topmost block is free");
    let of_list = with(meta.free_list.unwrap());
    assert!(!fits(&of_list, &TreeMeta { free_bytes: units(&of_list), ..meta }), "the list itself is free");
    assert!(!fits(&free, &TreeMeta { free_bytes: meta.free_bytes + UNIT_BYTES, ..meta }));
    for leaves in [meta.file_units(), u64::MAX] {
        assert!(!fits(&free, &TreeMeta { leaves, ..meta }), "{leaves} leaves have no reservation beside what is free");
    }
}

/// It was an assertion, which ended the process.
#[test]
fn a_merge_that_frees_what_is_free_already_is_told_and_leaves_the_tree_as_it_was() {
    let (mut fixture, leaves) = fixture();
    // So far from the others that the merge writes elsewhere.
    fixture.tree.space_map().lock().release(extent(leaves[leaves.len() / 2]));
    let before = fixture.meta();
    (0..400).for_each(|i| fixture.model.put(key(i), "new"));
    let error = fixture.prepare(false).unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains(PATH), "{error:?}");
    assert_eq!(fixture.meta(), before);
    check(&fixture.tree.root(), &fixture.model, fixture.model.seqnum - 400);
}

/// The list of a root names a leaf that the root reaches: the next merge would write over it. Leaves of several units
/// leave the sums of the root in order.
#[test]
fn a_root_whose_list_of_free_space_names_one_of_its_leaves_is_not_sound() {
    let mut fixture = Fixture::plain(8 << 10);
    for round in 0..2 {
        (0..400).for_each(|i| fixture.model.put(key(i), [round; 300]));
        fixture.merge(false);
    }
    let mut leaves = Vec::new();
    visit(&fixture.tree.root(), &mut |height, _, pointer| leaves.extend((height == 0).then(|| extent(pointer))));
    let leaf = leaves[leaves.len() / 2];
    assert!(leaf.units > 1, "{leaf:?}");
    fixture.tree.space_map().lock().release(leaf);
    fixture.model.put(key(0), "new");
    let pending = fixture.prepare(false).unwrap();
    fixture.tree.install(pending).unwrap();
    let root = fixture.tree.root();
    let is_free = |free: &Extent| free.start <= leaf.start && leaf.end() <= free.end();
    assert!(root.free().unwrap().iter().any(is_free), "the merge took the space of the leaf");
    check(&root, &fixture.model, fixture.model.seqnum);
    let error = fixture.tree.verify(&root).unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("taken twice"), "{error}");
}

#[test]
fn a_root_that_is_held_keeps_its_own_blocks_and_none_of_the_roots_after_it() {
    let mut fixture = Fixture::plain(512);
    let mut round = 0_u8;
    let mut change = |fixture: &mut Fixture, keys: u64| {
        round += 1;
        (0..keys).for_each(|i| fixture.model.put(key(i), [round; 30]));
        fixture.merge(false);
    };
    let pending = |fixture: &Fixture| fixture.tree.space_map().lock().pending().collect::<Vec<_>>();
    change(&mut fixture, 400);
    let first = fixture.tree.root();
    let of_first = rows(&first, u64::MAX);
    // Some blocks are those of the first root for a while.
    [50, 400, 400].into_iter().for_each(|keys| change(&mut fixture, keys));
    let second = fixture.tree.root();
    let of_second = rows(&second, u64::MAX);
    for keys in [400, 20, 400, 400, 30, 400] {
        change(&mut fixture, keys);
        assert_eq!(rows(&first, u64::MAX), of_first);
        assert_eq!(rows(&second, u64::MAX), of_second);
    }
    let (first_at, second_at, last) = (first.meta().generation, second.meta().generation, fixture.meta().generation);
    assert_eq!(pending(&fixture), [first_at + 1, first_at + 2, second_at + 1, last]);
    drop(first);
    change(&mut fixture, 400);
    assert_eq!(pending(&fixture), [second_at + 1, last + 1]);
    assert_eq!(rows(&second, u64::MAX), of_second);
    drop(second);
    change(&mut fixture, 400);
    assert_eq!(pending(&fixture), [last + 2]);
}

/// Each merge read it again, for as long as a reader held the root.
#[test]
fn the_list_of_free_space_of_a_root_that_is_held_is_read_once() {
    let (mut fixture, _) = fixture();
    let held = fixture.tree.root();
    let change = |fixture: &mut Fixture, round: u8| {
        (0..400).for_each(|i| fixture.model.put(key(i), [round; 30]));
        fixture.merge(false);
        fixture.tree.space_map().lock().pending().collect::<Vec<_>>()
    };
    let generation = held.meta().generation;
    for round in 2..5 {
        change(&mut fixture, round);
    }
    fixture.sim.corrupt(PATH, held.meta().free_list.unwrap().offset + 40, 1).unwrap();
    for round in 5..8 {
        assert_eq!(change(&mut fixture, round), [generation + 1, fixture.meta().generation]);
    }
}
