//! Random values and documents of all types, with many equal and nearly equal ones.

use spinney_document::bson::{Decimal128, DocumentBuf, DocumentBuilder, ObjectId, Text, Timestamp, Value, ValueBuf};
use spinney_testkit::Rng;

/// A random number of one of the four types.
pub(crate) fn number(rng: &mut Rng) -> ValueBuf {
    let small = |rng: &mut Rng, span: usize| i64::try_from(rng.in_range(0..span)).unwrap() - (span / 2) as i64;
    let power = |rng: &mut Rng, of: f64, span: usize| of.powi(i32::try_from(small(rng, span)).unwrap());
    let value: Value<'_> = match rng.in_range(0..12) {
        0 => i32::try_from(small(rng, 600)).unwrap().into(),
        1 => small(rng, 600).into(),
        2 => ((1_i64 << rng.in_range(0..63)) + small(rng, 6)).into(),
        3 => (-(1_i64 << rng.in_range(0..63)) + small(rng, 6)).into(),
        4 => (power(rng, 2.0, 2140) * rng.pick(&[1.0, 1.5, -1.0, 1.0 + f64::EPSILON])).into(),
        5 => {
            let special = [0.1, 0.5, 0.0, -0.0, 1e300, -1e-300, 12.34, f64::NAN, 5e-324, f64::MAX, f64::INFINITY];
            (rng.pick(&special) * rng.pick(&[1.0, -1.0])).into()
        }
        6 => (small(rng, 200) as f64 / *rng.pick(&[1.0, 2.0, 10.0, 64.0])).into(),
        7 => ((1_u64 << rng.in_range(0..64)) as f64 * rng.pick(&[1.0, -1.0])).into(),
        8 | 9 => {
            let coefficient = 10_u128.pow(u32::try_from(rng.in_range(0..34)).unwrap()) + u128::from(rng.number() % 20);
            let exponent = *rng.pick(&[-6176, -340, -324, -40, -20, -2, -1, 0, 1, 3, 15, 290, 6111]);
            Decimal128::finite(rng.chance(50), coefficient.min(10_u128.pow(34) - 1), exponent).into()
        }
        10 => {
            let special = [
                "0",
                "-0",
                "0E+10",
                "1.0",
                "1.00",
                "0.1",
                "0.10",
                "NaN",
                "Infinity",
                "-Infinity",
                "1E-6176",
                "-1E-6176",
                "9223372036854775808",
                "-9223372036854775808",
                "9223372036854775807.5",
                "4611686018427387904.5",
                "0.5",
                "4.9E-324",
                "1.7976931348623157E+308",
                "1.8E+308",
                "9.999999999999999999999999999999999E+6144",
                "-5",
            ];
            rng.pick(&special).parse::<Decimal128>().unwrap().into()
        }
        _ => Decimal128::from_f64(small(rng, 200) as f64 / 8.0).into(),
    };
    ValueBuf::from(value)
}

/// A random value of any type.
pub(crate) fn value(rng: &mut Rng, depth: usize) -> ValueBuf {
    let kinds = if depth < 3 { 20 } else { 16 };
    match rng.in_range(0..kinds) {
        0..=5 => number(rng),
        6 => ValueBuf::from(Value::from(&text(rng))),
        7 => {
            let text = text(rng);
            ValueBuf::from(Value::Symbol(Text::from(&text)))
        }
        8 => ValueBuf::from(*rng.pick(&[
            Value::MinKey,
            Value::MaxKey,
            Value::Null,
            Value::Undefined,
            Value::Bool(true),
            Value::Bool(false),
        ])),
        9 => ValueBuf::from(Value::ObjectId(ObjectId::from_bytes([0; 12].map(|_: u8| u8::from(rng.chance(20)))))),
        10 => {
            let len = *rng.pick(&[0, 1, 2, 4, 250, 254, 255, 300]);
            let bytes: Vec<u8> = (0..len).map(|_| u8::from(rng.chance(10))).collect();
            ValueBuf::from(Value::Binary(*rng.pick(&[0, 2, 4, 128]), &bytes))
        }
        11 => ValueBuf::from(Value::DateTime(*rng.pick(&[i64::MIN, -1, 0, 1, 1_600_000_000_000, i64::MAX]))),
        12 => {
            let (time, increment) = (*rng.pick(&[0, 1, u32::MAX]), *rng.pick(&[0, 1, u32::MAX]));
            ValueBuf::from(Value::Timestamp(Timestamp { time, increment }))
        }
        13 => {
            let (pattern, options) = (*rng.pick(&["", "a", "ab", "\u{e9}"]), *rng.pick(&["", "i", "im"]));
            ValueBuf::regex(pattern, options)
        }
        14 => {
            let json = format!(
                r#"{{"v":{{"$dbPointer":{{"$ref":"{}","$id":{{"$oid":"00000000000000000000000{}"}}}}}}}}"#,
                rng.pick(&["", "a", "ab", "b"]),
                rng.in_range(0..3)
            );
            ValueBuf::from(DocumentBuf::from_json(&json).unwrap().view().get("v").unwrap())
        }
        15 => {
            let scope = rng.pick(&["", r#","$scope":{}"#, r#","$scope":{"x":1}"#]);
            let json = format!(r#"{{"v":{{"$code":"{}"{scope}}}}}"#, rng.pick(&["", "a", "b\\u0000"]));
            ValueBuf::from(DocumentBuf::from_json(&json).unwrap().view().get("v").unwrap())
        }
        16 | 17 => document(rng, depth + 1).into(),
        _ => {
            let values: Vec<_> = (0..rng.in_range(0..4)).map(|_| value(rng, depth + 1)).collect();
            ValueBuf::array(values.iter().map(ValueBuf::view))
        }
    }
}

fn text(rng: &mut Rng) -> String {
    (0..rng.in_range(0..4)).map(|_| *rng.pick(&['a', 'b', '\0', '\u{e9}', 'z'])).collect()
}

/// A random document of few fields with few names.
pub(crate) fn document(rng: &mut Rng, depth: usize) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    let mut names = vec!["a", "b", "c", "aa", "0"];
    for _ in 0..rng.in_range(0..4) {
        let name = names.remove(rng.in_range(0..names.len()));
        builder.append(name, &value(rng, depth));
    }
    builder.finish()
}
