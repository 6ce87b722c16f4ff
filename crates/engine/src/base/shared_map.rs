//! A sorted map of which copies are made in constant time: a B+-tree whose nodes copies share until one of them changes
//! them.
//!
//! # Invariants
//! 1. Keys ascend. A child of a branch holds keys from its `low` on, and before that of the next child; the first one
//!    also takes keys before its own.
//! 2. No node but the root is empty.
//! 3. `counting` of a child is how many of its values count.

use super::steps::step;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Items, or children, of a node at most.
const NODE_MAX: usize = 64;

/// A value that counts or does not: a walk can leap over those that do not.
pub trait Counts {
    /// Whether it does.
    fn counts(&self) -> bool;
}

/// A key with its value.
pub type Item<V> = (Vec<u8>, V);

/// The map.
pub struct SharedMap<V> {
    root: Arc<Node<V>>,
}

enum Node<V> {
    Leaf(Vec<Arc<Item<V>>>),
    Branch(Vec<Child<V>>),
}

struct Child<V> {
    low: Arc<[u8]>,
    counting: usize,
    node: Arc<Node<V>>,
}

impl<V> Clone for SharedMap<V> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root) }
    }
}

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())) }
    }
}

impl<V> Clone for Child<V> {
    fn clone(&self) -> Self {
        Self { low: Arc::clone(&self.low), counting: self.counting, node: Arc::clone(&self.node) }
    }
}

impl<V> Clone for Node<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(items) => Self::Leaf(items.clone()),
            Self::Branch(children) => Self::Branch(children.clone()),
        }
    }
}

impl<V> fmt::Debug for SharedMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMap").finish_non_exhaustive()
    }
}

impl<V> Node<V> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(items) => items.is_empty(),
            Self::Branch(children) => children.is_empty(),
        }
    }
}

/// The child that `key` lies in.
fn child_of<V>(children: &[Child<V>], key: &[u8]) -> usize {
    children.partition_point(|child| *child.low <= *key).saturating_sub(1)
}

impl<V: Counts + Clone> SharedMap<V> {
    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Branch(children) => node = &children[child_of(children, key)].node,
                Node::Leaf(items) => {
                    let at = items.binary_search_by(|item| (*item.0).cmp(key)).ok()?;
                    return Some(&items[at].1);
                }
            }
        }
    }

    /// Changes the value of a key, or adds what is made for it.
    pub fn upsert(&mut self, key: &[u8], change: impl FnOnce(&mut V), make: impl FnOnce() -> V) {
        let Some(right) = upsert(&mut self.root, key, change, make).1 else { return };
        let left = std::mem::replace(&mut self.root, Arc::new(Node::Branch(Vec::new())));
        let counting = counting(&left);
        let children = vec![Child { low: Arc::from(&b""[..]), counting, node: left }, right];
        self.root = Arc::new(Node::Branch(children));
    }

    /// Removes the keys from `low` on and before `high`, if there is one, and shows each.
    pub fn remove_range(&mut self, low: &[u8], high: Option<&[u8]>, mut removed: impl FnMut(&Item<V>)) {
        remove(&mut self.root, low, high, &mut removed);
        if self.root.is_empty() {
            *self = Self::default();
        }
    }

    /// Shows all, ascending.
    pub fn for_each(&self, mut show: impl FnMut(&Item<V>)) {
        show_all(&self.root, &mut show);
    }

    /// The items from a bound on, ascending, or from it down.
    #[must_use]
    pub fn walk(&self, from: Bound<&[u8]>, backward: bool) -> Walk<V> {
        let mut walk = Walk { root: Arc::clone(&self.root), leaf: None, backward };
        walk.seek(from, false);
        walk
    }
}

/// How many values of a node count.
fn counting<V: Counts>(node: &Node<V>) -> usize {
    match node {
        Node::Leaf(items) => items.iter().filter(|item| item.1.counts()).count(),
        Node::Branch(children) => children.iter().map(|child| child.counting).sum(),
    }
}

/// Splits what is behind the first half off a node that is too large.
fn split<V: Counts>(node: &mut Node<V>) -> Option<Child<V>> {
    let (low, node) = match node {
        Node::Leaf(items) if items.len() > NODE_MAX => {
            let right = items.split_off(items.len() / 2);
            (Arc::from(&*right[0].0), Node::Leaf(right))
        }
        Node::Branch(children) if children.len() > NODE_MAX => {
            let right = children.split_off(children.len() / 2);
            (Arc::clone(&right[0].low), Node::Branch(right))
        }
        _ => return None,
    };
    Some(Child { low, counting: counting(&node), node: Arc::new(node) })
}

/// [`SharedMap::upsert`] below a node: by how much more values count there now, and the node that was split off.
fn upsert<V: Counts + Clone>(
    node: &mut Arc<Node<V>>,
    key: &[u8],
    change: impl FnOnce(&mut V),
    make: impl FnOnce() -> V,
) -> (isize, Option<Child<V>>) {
    let node = Arc::make_mut(node);
    let more = match node {
        Node::Leaf(items) => match items.binary_search_by(|item| (*item.0).cmp(key)) {
            Ok(at) => {
                let (_, value) = Arc::make_mut(&mut items[at]);
                let before = value.counts();
                change(value);
                isize::from(value.counts()) - isize::from(before)
            }
            Err(at) => {
                let value = make();
                let more = isize::from(value.counts());
                items.insert(at, Arc::new((key.to_vec(), value)));
                more
            }
        },
        Node::Branch(children) => {
            let at = child_of(children, key);
            if *children[at].low > *key {
                // What is split off it may begin there.
                children[at].low = Arc::from(key);
            }
            let (more, right) = upsert(&mut children[at].node, key, change, make);
            let counting = children[at].counting.wrapping_add_signed(more);
            children[at].counting = counting - right.as_ref().map_or(0, |right| right.counting);
            children.splice(at + 1..at + 1, right);
            more
        }
    };
    (more, split(node))
}

/// [`SharedMap::remove_range`] below a node, which may be empty then.
fn remove<V: Counts + Clone>(
    node: &mut Arc<Node<V>>,
    low: &[u8],
    high: Option<&[u8]>,
    removed: &mut impl FnMut(&Item<V>),
) {
    let is_before = |key: &[u8]| high.is_none_or(|high| key < high);
    match Arc::make_mut(node) {
        Node::Leaf(items) => {
            let from = items.partition_point(|item| *item.0 < *low);
            let to = items.partition_point(|item| is_before(&item.0)).max(from);
            items.drain(from..to).for_each(|item| removed(&item));
        }
        Node::Branch(children) => {
            let from = child_of(children, low);
            let to = children.partition_point(|child| is_before(&child.low)).max(from + 1);
            for child in &mut children[from..to] {
                remove(&mut child.node, low, high, removed);
                child.counting = counting(&child.node);
            }
            children.retain(|child| !child.node.is_empty());
        }
    }
}

fn show_all<V>(node: &Node<V>, show: &mut impl FnMut(&Item<V>)) {
    match node {
        Node::Leaf(items) => items.iter().for_each(|item| show(item)),
        Node::Branch(children) => children.iter().for_each(|child| show_all(&child.node, show)),
    }
}

/// A walk over the items of a map as it was when the walk began.
pub struct Walk<V> {
    root: Arc<Node<V>>,
    /// The leaf and the position in it; none at the end of the walk.
    leaf: Option<(Arc<Node<V>>, usize)>,
    backward: bool,
}

impl<V> fmt::Debug for Walk<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("backward", &self.backward).finish_non_exhaustive()
    }
}

impl<V: Counts + Clone> Walk<V> {
    /// The current item; none at the end of the walk.
    #[inline]
    pub fn item(&self) -> Option<&Arc<Item<V>>> {
        match self.leaf.as_ref().map(|(node, at)| (&**node, *at)) {
            Some((Node::Leaf(items), at)) => items.get(at),
            _ => None,
        }
    }

    /// Goes to the next item in the direction of the walk.
    pub fn next(&mut self) {
        step();
        let Some((node, at)) = &mut self.leaf else { return };
        let Node::Leaf(items) = &**node else { return };
        let next = if self.backward { at.checked_sub(1) } else { Some(*at + 1).filter(|at| *at < items.len()) };
        if let Some(next) = next {
            *at = next;
            return;
        }
        let last = Arc::clone(&items[*at]);
        self.seek(Bound::Excluded(&last.0), false);
    }

    /// Goes on to the first of what counts and what lies at `key` or behind.
    pub fn leap(&mut self, key: Option<&[u8]>) {
        let Some(here) = self.item().map(Arc::clone) else { return };
        let is_reached = |item: &Item<V>| match key {
            Some(key) if self.backward => *item.0 <= *key,
            Some(key) => *item.0 >= *key,
            None => false,
        };
        if is_reached(&here) || here.1.counts() {
            return;
        }
        self.seek(Bound::Excluded(&here.0), true);
        let overshot = key.filter(|key| match self.item() {
            Some(item) if self.backward => *item.0 < **key,
            Some(item) => *item.0 > **key,
            None => true,
        });
        if let Some(key) = overshot {
            self.seek(Bound::Included(key), false);
        }
    }

    fn seek(&mut self, from: Bound<&[u8]>, counting: bool) {
        self.leaf = if self.backward { last(&self.root, from, counting) } else { first(&self.root, from, counting) };
    }
}

type Place<V> = Option<(Arc<Node<V>>, usize)>;

/// The first item from a bound on; only one that counts, if so said.
fn first<V: Counts>(node: &Arc<Node<V>>, from: Bound<&[u8]>, only_counting: bool) -> Place<V> {
    step();
    match &**node {
        Node::Leaf(items) => {
            let start = match from {
                Bound::Unbounded => 0,
                Bound::Included(key) => items.partition_point(|item| *item.0 < *key),
                Bound::Excluded(key) => items.partition_point(|item| *item.0 <= *key),
            };
            let at = (start..items.len()).find(|at| !only_counting || items[*at].1.counts())?;
            Some((Arc::clone(node), at))
        }
        Node::Branch(children) => {
            let start = match from {
                Bound::Unbounded => 0,
                Bound::Included(key) | Bound::Excluded(key) => child_of(children, key),
            };
            let mut children = children[start..].iter().filter(|child| !only_counting || child.counting > 0);
            children.find_map(|child| first(&child.node, from, only_counting))
        }
    }
}

/// As [`first`], from a bound down.
fn last<V: Counts>(node: &Arc<Node<V>>, from: Bound<&[u8]>, only_counting: bool) -> Place<V> {
    step();
    match &**node {
        Node::Leaf(items) => {
            let end = match from {
                Bound::Unbounded => items.len(),
                Bound::Included(key) => items.partition_point(|item| *item.0 <= *key),
                Bound::Excluded(key) => items.partition_point(|item| *item.0 < *key),
            };
            let at = (0..end).rev().find(|at| !only_counting || items[*at].1.counts())?;
            Some((Arc::clone(node), at))
        }
        Node::Branch(children) => {
            let end = match from {
                Bound::Unbounded => children.len(),
                Bound::Included(key) | Bound::Excluded(key) => child_of(children, key) + 1,
            };
            let mut children = children[..end].iter().rev().filter(|child| !only_counting || child.counting > 0);
            children.find_map(|child| last(&child.node, from, only_counting))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Counts for u32 {
        fn counts(&self) -> bool {
            !self.is_multiple_of(3)
        }
    }

    fn check(map: &SharedMap<u32>, model: &BTreeMap<Vec<u8>, u32>) {
        let mut all = Vec::new();
        map.for_each(|item| all.push(item.clone()));
        assert!(all.iter().map(|(key, value)| (key, value)).eq(model));
        check_node(&map.root, true);
    }

    fn check_node(node: &Node<u32>, is_root: bool) {
        assert!(is_root || !node.is_empty());
        if let Node::Branch(children) = node {
            assert!(children.len() <= NODE_MAX && children.is_sorted_by(|a, b| a.low < b.low));
            for child in children {
                assert_eq!(child.counting, counting(&child.node));
                check_node(&child.node, false);
            }
        }
    }

    fn key(number: u16) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    /// What a walk shows that leaps over what does not count where the model says that it may.
    fn walked(map: &SharedMap<u32>, from: Bound<&[u8]>, backward: bool, leaps: Option<&[u8]>) -> Vec<Item<u32>> {
        let mut walk = map.walk(from, backward);
        let mut shown = Vec::new();
        loop {
            if leaps.is_some() {
                walk.leap(leaps);
            }
            let Some(item) = walk.item() else { return shown };
            shown.push((**item).clone());
            walk.next();
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u16, u32),
        Row(u16, u16, u32),
        Remove(u16, Option<u16>),
        Keep,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..3000u16, any::<u32>()).prop_map(|(at, value)| Step::Put(at, value)),
            3 => (0..3000u16, 0..400u16, any::<u32>()).prop_map(|(at, count, value)| Step::Row(at, count, value)),
            2 => (0..3000u16, prop::option::of(0..3000u16)).prop_map(|(low, high)| Step::Remove(low, high)),
            1 => Just(Step::Keep),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn a_map_is_as_a_b_tree_map_and_copies_stay_as_they_are(steps in steps(), from in 0..3000u16, to in 0..3000u16) {
            let (mut map, mut model) = (SharedMap::<u32>::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for step in steps {
                match step {
                    Step::Put(at, value) => {
                        map.upsert(&key(at), |old| *old = old.wrapping_add(value), || value);
                        model.entry(key(at)).and_modify(|old: &mut u32| *old = old.wrapping_add(value)).or_insert(value);
                    }
                    Step::Row(at, count, value) => for at in at..at + count {
                        map.upsert(&key(at), |old| *old = value, || value);
                        model.insert(key(at), value);
                    },
                    Step::Remove(low, high) => {
                        let mut removed = Vec::new();
                        map.remove_range(&key(low), high.map(key).as_deref(), |item| removed.push(item.clone()));
                        let is_in = |at: &Vec<u8>| *at >= key(low) && high.is_none_or(|high| *at < key(high));
                        prop_assert!(removed.into_iter().eq(model.extract_if(.., |at, _| is_in(at))));
                    }
                    Step::Keep => kept.push((map.clone(), model.clone())),
                }
            }
            kept.push((map, model));
            for (map, model) in &kept {
                check(map, model);
                prop_assert_eq!(map.get(&key(from)), model.get(&key(from)));
                for bound in [Bound::Unbounded, Bound::Included(key(from)), Bound::Excluded(key(from))] {
                    let above = model.range((bound.clone(), Bound::Unbounded)).map(|(key, value)| (key.clone(), *value));
                    let below = model.range((Bound::Unbounded, bound.clone())).rev().map(|(key, value)| (key.clone(), *value));
                    let bound = bound.as_ref().map(|key| &**key);
                    prop_assert!(walked(map, bound, false, None).into_iter().eq(above.clone()));
                    prop_assert!(walked(map, bound, true, None).into_iter().eq(below.clone()));
                    let to = key(to);
                    let leapt = walked(map, bound, false, Some(&to));
                    prop_assert!(leapt.into_iter().eq(above.filter(|(key, value)| *key >= to || value.counts())));
                    let leapt = walked(map, bound, true, Some(&to));
                    prop_assert!(leapt.into_iter().eq(below.filter(|(key, value)| *key <= to || value.counts())));
                }
            }
        }
    }
}
