//! Fields that are found by their names, of which a client may give any number.

use std::collections::HashMap;

/// Up to this number of names are compared one by one.
const FEW: usize = 16;

/// Fields in the order in which they came, each name once. A few are searched one by one, and more by a table.
#[derive(Clone, Debug)]
pub(crate) struct FieldList<N, V> {
    fields: Vec<(N, V)>,
    /// The places of all names, when there are more than [`FEW`]. Boxed, because there are as many short lists as
    /// values in a document that is taken apart.
    #[expect(clippy::box_collection, reason = "a table is six words long, and few lists have one")]
    places: Option<Box<HashMap<Box<[u8]>, usize>>>,
}

impl<N, V> Default for FieldList<N, V> {
    fn default() -> Self {
        Self { fields: Vec::new(), places: None }
    }
}

impl<N: AsRef<[u8]>, V> FieldList<N, V> {
    /// The place of a name.
    pub(crate) fn place(&self, name: &[u8]) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(name).copied(),
            None => self.fields.iter().position(|(known, _)| known.as_ref() == name),
        }
    }

    /// Adds a field. Of a name that is there already the first one is found.
    pub(crate) fn push(&mut self, name: N, value: V) {
        self.fields.push((name, value));
        let first = match self.fields.len() {
            few if few <= FEW => return,
            len if len == FEW + 1 => 0,
            len => len - 1,
        };
        let places = self.places.get_or_insert_default();
        for (place, (name, _)) in self.fields.iter().enumerate().skip(first) {
            places.entry(Box::from(name.as_ref())).or_insert(place);
        }
    }

    /// Gives the field of a name a value, in its place or behind the others.
    pub(crate) fn set(&mut self, name: N, value: V) {
        match self.place(name.as_ref()) {
            Some(place) => self.fields[place].1 = value,
            None => self.push(name, value),
        }
    }

    /// The fields.
    pub(crate) fn as_slice(&self) -> &[(N, V)] {
        &self.fields
    }

    /// The value at a place.
    pub(crate) fn value_mut(&mut self, place: usize) -> &mut V {
        &mut self.fields[place].1
    }

    /// The fields.
    pub(crate) fn into_fields(self) -> Vec<(N, V)> {
        self.fields
    }
}

impl<N: AsRef<[u8]>, V> FromIterator<(N, V)> for FieldList<N, V> {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let mut list = Self::default();
        fields.into_iter().for_each(|(name, value)| list.push(name, value));
        list
    }
}

/// The first of some names that was there before.
pub(crate) fn first_repeated<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Option<&'n [u8]> {
    let mut seen = FieldList::default();
    names.into_iter().find(|name| {
        let is_new = seen.place(name).is_none();
        if is_new {
            seen.push(*name, ());
        }
        !is_new
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_has_each_name_once_in_its_place() {
        let mut list = FieldList::default();
        for round in 0..3 {
            for number in 0..100_u32 {
                list.set(number.to_be_bytes(), round);
            }
        }
        assert_eq!(list.as_slice().len(), 100);
        assert!(list.as_slice().iter().all(|(_, round)| *round == 2));
        assert_eq!(list.place(&99_u32.to_be_bytes()), Some(99));
        assert_eq!(list.place(&100_u32.to_be_bytes()), None);
        assert_eq!(first_repeated([&b"a"[..], b"b", b"a", b"b"]), Some(&b"a"[..]));
        assert_eq!(first_repeated([&b"a"[..], b"b"]), None);
    }
}
