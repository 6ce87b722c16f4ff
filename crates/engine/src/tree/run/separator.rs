//! The shortest key that tells two neighbours apart.

use crate::base::key::shared_bytes;

/// A key that is not below `last`, and below `next` unless the two are equal; as short as it can be by cutting one of
/// them.
///
/// # Panics
/// When `last` is above `next`.
#[must_use]
pub(super) fn separator<'a>(last: &'a [u8], next: &'a [u8]) -> &'a [u8] {
    assert!(last <= next, "keys must ascend");
    let shared = shared_bytes(last, next);
    // One byte more than they share of the upper key is above the lower key, and below the upper one if that goes on.
    if shared + 1 < last.len().min(next.len()) { &next[..=shared] } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_is_short_and_lies_between() {
        let cases: [(&[u8], &[u8], &[u8]); 7] = [
            (b"abcdef", b"abxyz", b"abx"),
            (b"abcdef", b"abd", b"abcdef"),
            (b"ab", b"abxyz", b"ab"),
            (b"a", b"bcd", b"a"),
            (b"same", b"same", b"same"),
            (b"", b"x", b""),
            (b"a\xff\xff", b"b\0", b"b"),
        ];
        for (last, next, expected) in cases {
            let separator = separator(last, next);
            assert_eq!(separator, expected);
            assert!(last <= separator && (separator < next || last == next));
        }
    }
}
