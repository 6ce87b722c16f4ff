//! The encodings of typed keys and values.
//!
//! # Format
//! The bytes of a key sort as the keys do. The fields of a tuple follow each other; the string and bytes encodings end
//! in themselves, so that `("a", 2)` sorts before `("ab", 1)`. The encoding of strings is that of CockroachDB's keys.
//!
//! | type | bytes |
//! |---|---|
//! | `u8` to `u128` | big-endian |
//! | `i8` to `i128` | big-endian, with the sign bit flipped |
//! | `bool` | 0 or 1 |
//! | `[u8; N]` | as they are |
//! | `String`, `Vec<u8>` | each 0 followed by 255, then 0 and 1 |
//!
//! Values need no order: integers are little-endian (as the merge operator [`Add`](crate::Add) takes them), strings and
//! bytes are as they are.

/// A type of keys: its encoding sorts as its values do.
pub trait KeyCodec: Sized + KeyFor<Self> {
    /// Takes a key off the front of `bytes`; `None` when they are not the encoding of one.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
}

/// A value that stands for a key of type `K`: a `&str` for a `String`, a tuple of such for a tuple.
pub trait KeyFor<K> {
    /// Appends the encoding of the key.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A type of values.
pub trait ValueCodec: Sized + ValueFor<Self> {
    /// The value that was encoded; `None` when the bytes are not the encoding of one.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// A value that stands for a stored value of type `V`: a `&str` for a `String`.
pub trait ValueFor<V> {
    /// Appends the encoding of the value.
    fn encode(&self, out: &mut Vec<u8>);
}

impl<K, T: KeyFor<K> + ?Sized> KeyFor<K> for &T {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl<V, T: ValueFor<V> + ?Sized> ValueFor<V> for &T {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

macro_rules! integers {
    ($($type:ty, $flipped:expr;)*) => { $(
        impl KeyFor<$type> for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(*self ^ $flipped).to_be_bytes());
            }
        }

        impl KeyCodec for $type {
            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self::from_be_bytes(take(bytes)?) ^ $flipped)
            }
        }

        impl ValueFor<$type> for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }

        impl ValueCodec for $type {
            fn decode(bytes: &[u8]) -> Option<Self> {
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )* };
}

integers! {
    u8, 0; u16, 0; u32, 0; u64, 0; u128, 0;
    i8, i8::MIN; i16, i16::MIN; i32, i32::MIN; i64, i64::MIN; i128, i128::MIN;
}

impl KeyFor<bool> for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl KeyCodec for bool {
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        match take(bytes)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl<const N: usize> KeyFor<[u8; N]> for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> KeyCodec for [u8; N] {
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes)
    }
}

/// What follows a zero byte of a string.
const ESCAPED: u8 = 255;
/// What follows the zero byte behind the last byte of a string; whatever follows then, it sorts before [`ESCAPED`].
const END: u8 = 1;

fn encode_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(ESCAPED);
        }
    }
    out.extend_from_slice(&[0, END]);
}

fn decode_escaped(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    loop {
        let [byte] = take(bytes)?;
        if byte == 0 {
            match take(bytes)? {
                [ESCAPED] => {}
                [END] => return Some(decoded),
                _ => return None,
            }
        }
        decoded.push(byte);
    }
}

macro_rules! strings {
    ($($type:ty: $stored:ty, $bytes:ident;)*) => { $(
        impl KeyFor<$stored> for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                encode_escaped(self.$bytes(), out);
            }
        }

        impl ValueFor<$stored> for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.$bytes());
            }
        }
    )* };
}

strings! {
    String: String, as_bytes;
    str: String, as_bytes;
    Vec<u8>: Vec<u8>, as_slice;
    [u8]: Vec<u8>, as_ref;
}

impl KeyCodec for String {
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(decode_escaped(bytes)?).ok()
    }
}

impl KeyCodec for Vec<u8> {
    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        decode_escaped(bytes)
    }
}

impl ValueCodec for String {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_utf8(bytes.to_vec()).ok()
    }
}

impl ValueCodec for Vec<u8> {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

/// No value: the key says all, as in an index.
impl ValueFor<()> for () {
    fn encode(&self, _out: &mut Vec<u8>) {}
}

impl ValueCodec for () {
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

macro_rules! tuples {
    ($($($key:ident $given:ident $at:tt),+;)*) => { $(
        impl<$($key,)+ $($given: KeyFor<$key>),+> KeyFor<($($key,)+)> for ($($given,)+) {
            fn encode(&self, out: &mut Vec<u8>) {
                $( self.$at.encode(out); )+
            }
        }

        impl<$($key: KeyCodec),+> KeyCodec for ($($key,)+) {
            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($key::decode(bytes)?,)+))
            }
        }
    )* };
}

tuples! {
    A X 0, B Y 1;
    A X 0, B Y 1, C Z 2;
    A X 0, B Y 1, C Z 2, D W 3;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded<K: KeyCodec>(key: &K) -> Vec<u8> {
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        bytes
    }

    /// Strings of few different bytes, so that one is often the beginning of another, and zeros are many.
    fn mostly_zero() -> impl Strategy<Value = (String, i32, Vec<u8>)> {
        let bytes = || prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 0..4);
        let integer = prop_oneof![Just(-1), Just(0), Just(i32::MAX), Just(i32::MIN), any::<i32>()];
        ("[\\x00\\x01a]{0,3}", integer, bytes())
    }

    proptest! {
        #[test]
        fn keys_sort_as_their_bytes_and_come_back(
            one in mostly_zero(), other in mostly_zero(), low: [u8; 2], high: [u8; 2],
        ) {
            prop_assert_eq!(encoded(&one).cmp(&encoded(&other)), one.cmp(&other));
            prop_assert_eq!(encoded(&low).cmp(&encoded(&high)), low.cmp(&high));
            let (bytes, beside) = (encoded(&one), (one.0.as_str(), one.1, one.2.as_slice()));
            let mut borrowed = Vec::new();
            KeyFor::<(String, i32, Vec<u8>)>::encode(&beside, &mut borrowed);
            prop_assert_eq!(&borrowed, &bytes);
            prop_assert_eq!(<(String, i32, Vec<u8>)>::decode(&mut &*bytes), Some(one));
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
            let _ = <(String, i64, bool)>::decode(&mut &*bytes);
            let _ = <(Vec<u8>, u16)>::decode(&mut &*bytes);
            let _ = <u64 as ValueCodec>::decode(&bytes);
        }

        #[test]
        fn integers_sort_as_their_bytes(one: i64, other: i64, first: u128, second: u128) {
            prop_assert_eq!(encoded(&one).cmp(&encoded(&other)), one.cmp(&other));
            prop_assert_eq!(encoded(&first).cmp(&encoded(&second)), first.cmp(&second));
        }
    }
}
