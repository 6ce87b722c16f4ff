//! Keys: their order is the order of values, they are read back as they were, and they are those of an independent
//! implementation.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

use spinney_document::bson::{Document, DocumentBuf, Value, ValueBuf, compare, hash};
use spinney_document::keys::{Direction, TypeBits, TypeReader, append, decode_field, field_len};
use spinney_testkit::Rng;

use crate::values;

fn encode(value: &Value<'_>, direction: Direction) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut types) = (Vec::new(), TypeBits::new());
    append(&mut key, &mut types, value, direction);
    (key, types.as_bytes().to_vec())
}

/// Checks vectors as lines of a key in hexadecimal and a value as extended JSON.
fn check_vectors(vectors: &str) -> usize {
    let mut count = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let (hex, json) = line.split_once(' ').unwrap();
        let document = DocumentBuf::from_json(&format!(r#"{{"v":{json}}}"#)).unwrap();
        let (key, _) = encode(&document.view().get("v").unwrap(), Direction::Ascending);
        let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, hex, "{json}");
        count += 1;
    }
    count
}

#[test]
fn keys_are_those_of_another_implementation() {
    assert_eq!(check_vectors(include_str!("keys.vectors")), 2000);
    if let Some(path) = std::env::var_os("SPINNEY_KEY_VECTORS") {
        eprintln!("{} more vectors", check_vectors(&std::fs::read_to_string(path).unwrap()));
    }
}

#[test]
fn the_order_of_keys_is_the_order_of_values() {
    // 300 values give 45,150 pairs; 2121 give 2.25 million.
    let count = std::env::var("SPINNEY_KEY_VALUES").map_or(300, |text| text.parse().unwrap());
    let mut rng = Rng::new(5);
    let values: Vec<ValueBuf> = (0..count).map(|_| values::value(&mut rng, 0)).collect();
    let keys: Vec<_> = values.iter().map(|value| encode(&value.view(), Direction::Ascending).0).collect();
    let downward: Vec<_> = values.iter().map(|value| encode(&value.view(), Direction::Descending).0).collect();
    // Whatever follows: the first tags and the last, also complemented.
    let followers = [0x08, 0xF7, 0x0F, 0xF0];
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i) {
            let order = compare(&a.view(), &b.view());
            assert_eq!(keys[i].cmp(&keys[j]), order, "{a:?} {b:?}");
            assert_eq!(compare(&b.view(), &a.view()), order.reverse(), "{a:?} {b:?}");
            if order == Ordering::Equal {
                continue;
            }
            for (x, y) in followers.into_iter().flat_map(|x| followers.map(|y| (x, y))) {
                let with = |key: &[u8], byte| [key, &[byte]].concat();
                assert_eq!(with(&keys[i], x).cmp(&with(&keys[j], y)), order, "{a:?} {b:?}");
                assert_eq!(with(&downward[i], x).cmp(&with(&downward[j], y)), order.reverse(), "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn keys_and_type_bits_give_the_values_back() {
    for seed in 0..4000 {
        let mut rng = Rng::new(seed);
        let value = values::value(&mut rng, 0);
        for direction in [Direction::Ascending, Direction::Descending] {
            let (key, types) = encode(&value.view(), direction);
            let len = key.len();
            // Numbers are read by loads of eight bytes where there are as many.
            for behind in [&[][..], &[0xF0, 1, 2], &[0xF0; 12]] {
                let key = [&key, behind].concat();
                assert_eq!(field_len(&key, direction), Some(len), "{value:?}");
                let (read, rest) = decode_field(&key, direction, &mut TypeReader::new(&types)).unwrap();
                assert_eq!(rest, behind, "{value:?}");
                let same_bits = (read.kind(), read.payload()) == (value.kind(), value.payload());
                let nan = value.view().as_number().is_some_and(|number| number.is_nan());
                assert!(same_bits || nan && read.view().as_number().unwrap().is_nan(), "{value:?} {read:?}");
            }
            // A shorter key may be one of a shorter value; it is never longer than what there is.
            for cut in 0..len {
                assert!(field_len(&key[..cut], direction).is_none_or(|len| len <= cut), "{value:?}");
                let mut types = TypeReader::new(&types);
                assert!(decode_field(&key[..cut], direction, &mut types).is_none_or(|(_, rest)| rest.len() < cut));
            }
        }
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let value = values::value(&mut rng, 0);
        let (mut key, types) = encode(&value.view(), Direction::Ascending);
        let at = rng.in_range(0..key.len());
        key[at] = rng.number().to_le_bytes()[0];
        if let Some((read, _)) = decode_field(&key, Direction::Ascending, &mut TypeReader::new(&types)) {
            assert!(!read.view().to_json().is_empty());
            assert!(field_len(&key, Direction::Ascending).is_some());
        }
    }
}

#[test]
fn equal_values_have_equal_hashes() {
    let hash_of = |value: &Value<'_>| {
        let mut hasher = DefaultHasher::new();
        hash(value, &mut hasher);
        hasher.finish()
    };
    let mut rng = Rng::new(9);
    let mut values: Vec<ValueBuf> = (0..4000).map(|_| values::value(&mut rng, 1)).collect();
    values.sort_by(|a, b| compare(&a.view(), &b.view()));
    let mut equal = 0;
    for pair in values.windows(2) {
        if compare(&pair[0].view(), &pair[1].view()) == Ordering::Equal {
            assert_eq!(hash_of(&pair[0].view()), hash_of(&pair[1].view()), "{pair:?}");
            equal += 1;
        }
    }
    assert!(equal > 1000, "{equal}");
}

#[test]
fn documents_survive_json_and_the_builder() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let document = values::document(&mut rng, 0);
        let view = Document::parse(document.as_bytes()).unwrap();
        let canonical = view.to_canonical_json();
        let read = DocumentBuf::from_json(&canonical).unwrap();
        assert_eq!(read.as_bytes(), document.as_bytes(), "{canonical}");
        assert_eq!(DocumentBuf::from_json(&view.to_json()).unwrap().view(), view);
    }
}
