//! A path as text with dots, split into its components.

use std::fmt;

use crate::bson::Text;

/// A path, split at its dots. The path without components stands for the value itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    parts: Vec<Part>,
}

/// A component of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    name: Box<[u8]>,
    index: Option<usize>,
}

impl Path {
    /// The path that dotted text is. Components may be empty.
    #[must_use]
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        Self { parts: text.as_ref().split(|byte| *byte == b'.').map(Part::new).collect() }
    }

    /// The path of the value itself.
    #[must_use]
    pub const fn itself() -> Self {
        Self { parts: Vec::new() }
    }

    /// The components.
    #[inline]
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The first component as bytes; empty for the value itself.
    #[must_use]
    pub fn top(&self) -> &[u8] {
        self.parts.first().map_or(&[], |part| part.name())
    }

    /// Whether it is the path `_id`.
    #[must_use]
    pub fn is_id(&self) -> bool {
        matches!(&self.parts[..], [only] if only.name() == b"_id")
    }

    /// What is left of this path behind `above`, when it begins with that.
    #[must_use]
    pub fn below(&self, above: &Self) -> Option<Self> {
        self.parts.strip_prefix(&above.parts[..]).map(|rest| Self { parts: rest.to_vec() })
    }

    /// Whether one of the two paths begins with the other, or they are equal.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.parts.iter().zip(&other.parts).all(|(a, b)| a == b)
    }
}

impl Part {
    /// The component with a name.
    #[must_use]
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref();
        Self { index: index_of(name), name: name.into() }
    }

    /// The name as bytes.
    #[inline]
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The position in an array, if the name is one: digits without leading zeros.
    #[inline]
    #[must_use]
    pub const fn index(&self) -> Option<usize> {
        self.index
    }

    /// Whether the name is all digits, leading zeros included.
    #[must_use]
    pub fn is_digits(&self) -> bool {
        !self.name.is_empty() && self.name.iter().all(u8::is_ascii_digit)
    }
}

/// The position that a name is, if it is digits without leading zeros.
fn index_of(name: &[u8]) -> Option<usize> {
    if name.is_empty() || (name.len() > 1 && name[0] == b'0') || !name.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            fmt::Display::fmt(&Text::from_bytes(&part.name), f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_at_dots_and_know_positions() {
        let path = Path::new("a.10.01.");
        assert_eq!(path.to_string(), "a.10.01.");
        let indexes: Vec<_> = path.parts().iter().map(Part::index).collect();
        assert_eq!(indexes, [None, Some(10), None, None]);
        assert!(Path::new("a.b").overlaps(&Path::new("a")));
        assert!(!Path::new("a.b").overlaps(&Path::new("a.c")));
    }
}
