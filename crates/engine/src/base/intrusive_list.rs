//! Doubly linked lists whose links lie in the elements of one vector, so that moving an element allocates nothing.
//!
//! # Invariants
//! 1. Walking `next` from `front` and `prev` from `back` meets the same elements, in opposite orders.

use super::num::usize_of32;

/// The position of an element in the vector; [`NONE`] is no element.
pub type Index = u32;

/// Stands for "no element".
pub const NONE: Index = Index::MAX;

/// The neighbours of an element in one list.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    prev: Index,
    next: Index,
}

impl Links {
    /// In no list.
    pub const UNLINKED: Self = Self { prev: NONE, next: NONE };
}

/// Elements that carry the links of list family `F`: an element is in at most one list of each family.
pub trait Linked<const F: usize> {
    /// The element's links in that family.
    fn links(&self) -> Links;
    /// The same, to change.
    fn links_mut(&mut self) -> &mut Links;
}

/// A list of family `F`, from front to back.
#[derive(Clone, Copy, Debug)]
pub struct List<const F: usize> {
    front: Index,
    back: Index,
}

impl<const F: usize> List<F> {
    /// The list without elements.
    pub const EMPTY: Self = Self { front: NONE, back: NONE };

    /// The first element, or [`NONE`].
    #[must_use]
    pub const fn front(&self) -> Index {
        self.front
    }

    /// The last element, or [`NONE`].
    #[must_use]
    pub const fn back(&self) -> Index {
        self.back
    }

    /// Puts an element that is in no list of this family at the front.
    pub fn push_front<T: Linked<F>>(&mut self, elements: &mut [T], index: Index) {
        *at(elements, index).links_mut() = Links { prev: NONE, next: self.front };
        match self.front {
            NONE => self.back = index,
            front => at(elements, front).links_mut().prev = index,
        }
        self.front = index;
    }

    /// Takes an element of this list out of it.
    pub fn unlink<T: Linked<F>>(&mut self, elements: &mut [T], index: Index) {
        let Links { prev, next } = at(elements, index).links();
        *at(elements, index).links_mut() = Links::UNLINKED;
        match prev {
            NONE => self.front = next,
            prev => at(elements, prev).links_mut().next = next,
        }
        match next {
            NONE => self.back = prev,
            next => at(elements, next).links_mut().prev = prev,
        }
    }

    /// The elements from front to back, seen to be linked both ways.
    ///
    /// # Panics
    /// When they are not.
    #[cfg(test)]
    pub fn iter<'a, T: Linked<F>>(&self, elements: &'a [T]) -> impl Iterator<Item = &'a T> {
        let mut links = Links { prev: NONE, next: self.front };
        let mut here = NONE;
        let back = self.back;
        std::iter::from_fn(move || {
            let before = std::mem::replace(&mut here, links.next);
            let element = elements.get(usize_of32(here));
            links = element.map_or(Links::UNLINKED, Linked::links);
            assert!(if element.is_some() { links.prev == before } else { back == before }, "links disagree");
            element
        })
    }
}

/// The element at `index`.
///
/// # Panics
/// When there is none.
pub fn at<T>(elements: &mut [T], index: Index) -> &mut T {
    &mut elements[usize_of32(index)]
}
