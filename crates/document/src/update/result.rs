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

    /// Whether a value at a path, before it or behind it, may have changed.
    #[must_use]
    pub fn touches(&self, path: &crate::path::Path) -> bool {
        self.changed.as_ref().is_none_or(|paths| {
            // Positions of arrays do not count: indexes pass over them.
            let parts = |path: &crate::path::Path| -> Vec<Vec<u8>> {
                path.parts().iter().filter(|part| !part.is_digits()).map(|part| part.name().to_vec()).collect()
            };
            let asked = parts(path);
            paths.iter().any(|changed| parts(&crate::path::Path::new(changed)).iter().zip(&asked).all(|(a, b)| a == b))
        })
    }
}
