//! What an update has made of a document.

use crate::bson::DocumentBuf;

/// What an update has made of a document.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The new document.
    pub document: DocumentBuf,
    /// The paths whose values changed; nothing when it is not known, as after a replacement. Without paths nothing
    /// changed.
    pub changed: Option<Vec<String>>,
}

impl Updated {
    /// Whether something changed.
    #[must_use]
    pub fn is_modified(&self) -> bool {
        self.changed.as_ref().is_none_or(|paths| !paths.is_empty())
    }

    /// Whether a value at a path, before it or behind it, may have changed. Positions of arrays do not count: indexes
    /// pass over them.
    #[must_use]
    pub fn touches(&self, path: &str) -> bool {
        self.changed.as_ref().is_none_or(|paths| {
            paths.iter().any(|changed| parts(changed).zip(parts(path)).all(|(changed, asked)| changed == asked))
        })
    }
}

/// The components of a path that are names.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_touches_what_is_before_and_behind_it() {
        let of = |changed: Option<&[&str]>| Updated {
            document: DocumentBuf::new(),
            changed: changed.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect()),
        };
        let updated = of(Some(&["a.0.b", "c"]));
        for (path, touched) in
            [("a", true), ("a.b", true), ("a.b.x", true), ("a.c", false), ("c.d", true), ("d", false)]
        {
            assert_eq!(updated.touches(path), touched, "{path}");
        }
        assert!(of(None).touches("x"));
        assert!(!of(Some(&[])).touches("x"));
    }
}
