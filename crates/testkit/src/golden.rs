//! Golden tests: text compared with a file under `testdata/`, which `cargo xtask golden` rewrites.

use std::fs;
use std::path::Path;

/// Compares `actual` with `testdata/<case>` (for example `block/leaf`), or writes it there when
/// `SPINNEY_GOLDEN=rewrite` is set.
///
/// # Panics
/// When they differ, or the file cannot be read or written.
#[track_caller]
pub fn check(case: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(case);
    if std::env::var("SPINNEY_GOLDEN").is_ok_and(|mode| mode == "rewrite") {
        let folder = path.parent().expect("a case lies in a folder");
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, actual)).expect("testdata/ is ours to write");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if let Some(line) = first_difference(&expected, actual) {
        panic!(
            "testdata/{case} differs in line {line}. Expected:\n{expected}\nActual:\n{actual}\nIf that is right: cargo xtask golden"
        );
    }
}

/// The first line, from 1, in which two texts differ.
fn first_difference(expected: &str, actual: &str) -> Option<usize> {
    if expected == actual {
        return None;
    }
    let same = expected.lines().zip(actual.lines()).take_while(|(a, b)| a == b).count();
    Some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_different_line_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
    }
}
