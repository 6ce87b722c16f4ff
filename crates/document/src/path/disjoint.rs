//! Paths of which none may begin with another one.

use std::collections::HashSet;

/// Dotted paths, none of which is another one or within another one. To add one takes as many steps as it has
/// components, however many paths there are.
#[derive(Debug, Default)]
pub struct DisjointPaths {
    paths: HashSet<String>,
    /// All that the paths are within.
    above: HashSet<String>,
}

impl DisjointPaths {
    /// Adds a path.
    ///
    /// # Errors
    /// The shorter of two paths, when one of them is this one and it is the other one or within it, or has it within.
    pub fn add(&mut self, path: &str) -> Result<(), String> {
        let above = || path.match_indices('.').map(|(dot, _)| &path[..dot]);
        if let Some(known) = above().chain([path]).find(|known| self.paths.contains(*known)) {
            return Err(known.to_owned());
        }
        if self.above.contains(path) {
            return Err(path.to_owned());
        }
        self.above.extend(above().map(str::to_owned));
        self.paths.insert(path.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_overlap_by_components() {
        let mut paths = DisjointPaths::default();
        for path in ["a.b", "a.bc", "ab", "a.c.d", "$[x].0"] {
            assert_eq!(paths.add(path), Ok(()));
        }
        for (path, shorter) in [("a", "a"), ("a.b", "a.b"), ("a.b.x.y", "a.b"), ("a.c", "a.c"), ("$[x]", "$[x]")] {
            assert_eq!(paths.add(path), Err(shorter.to_owned()));
        }
        assert_eq!(paths.add("a.c.e"), Ok(()));
    }
}
