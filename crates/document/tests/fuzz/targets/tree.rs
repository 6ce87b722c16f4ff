//! Mutations of documents as trees: values and names come from other places and other seeds, so that operators meet
//! operands of all shapes while the bytes stay BSON.

use spinney_document::bson::{
    Decimal128, Document, DocumentBuf, DocumentBuilder, ObjectId, Timestamp, Value, ValueBuf,
};
use spinney_testkit::Rng;

/// An input is cut off here.
const BYTES_MAX: usize = 32 << 10;

/// How deep a value is put into others at once.
const LEVELS: [usize; 5] = [1, 2, 10, 60, 150];

/// A value that can be changed.
#[derive(Clone)]
enum Tree {
    Document(Vec<(Vec<u8>, Self)>),
    Array(Vec<Self>),
    Leaf(ValueBuf),
}

/// Changes one place of an input, which is documents one behind the other; what follows them is dropped.
pub(super) fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let mut documents: Vec<Tree> = super::split(input).0.into_iter().map(of_document).collect();
    if documents.is_empty() || rng.chance(2) {
        spinney_testkit::fuzz::bytes(input, seeds, rng);
        return;
    }
    // What comes first is the program, what follows is its data.
    let at = if rng.chance(70) { 0 } else { rng.in_range(0..documents.len()) };
    match rng.in_range(0..20) {
        0 => drop(documents.remove(at)),
        1 => documents.push(documents[at].clone()),
        2 => {
            let other = other(seeds, rng);
            documents[at] = if matches!(other, Tree::Document(_)) { other } else { Tree::Document(Vec::new()) };
        }
        _ => {
            let count = documents[at].count();
            documents[at].change(&mut rng.in_range(0..count), seeds, rng);
        }
    }
    input.clear();
    for document in &documents {
        let Tree::Document(fields) = document else { continue };
        let bytes = to_document(fields);
        if input.len() + bytes.as_bytes().len() <= BYTES_MAX {
            input.extend_from_slice(bytes.as_bytes());
        }
    }
}

fn of_document(document: Document<'_>) -> Tree {
    let field = |name: &[u8], value| (name.to_vec(), of_value(value));
    Tree::Document(document.elements().map(|element| field(element.name.as_bytes(), element.value)).collect())
}

fn of_value(value: Value<'_>) -> Tree {
    match value {
        Value::Document(document) => of_document(document),
        Value::Array(array) => Tree::Array(array.values().map(of_value).collect()),
        value => Tree::Leaf(ValueBuf::from(value)),
    }
}

fn to_document(fields: &[(Vec<u8>, Tree)]) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    for (name, value) in fields {
        builder.append(name, to_value(value).view());
    }
    builder.finish()
}

fn to_value(tree: &Tree) -> ValueBuf {
    match tree {
        Tree::Document(fields) => to_document(fields).into(),
        Tree::Array(values) => {
            let values: Vec<ValueBuf> = values.iter().map(to_value).collect();
            ValueBuf::array(values.iter().map(ValueBuf::view))
        }
        Tree::Leaf(value) => value.clone(),
    }
}

/// A value of a seed.
fn other(seeds: &[Vec<u8>], rng: &mut Rng) -> Tree {
    let seed = rng.pick(seeds);
    let documents = super::split(seed).0;
    let Some(document) = (!documents.is_empty()).then(|| *rng.pick(&documents)) else { return leaf(rng) };
    let tree = of_document(document);
    let at = rng.in_range(0..tree.count());
    tree.at(&mut { at }).clone()
}

/// A name of a seed.
fn name(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    for _ in 0..4 {
        if let Tree::Document(fields) = other(seeds, rng)
            && !fields.is_empty()
        {
            return rng.pick(&fields).0.clone();
        }
    }
    rng.pick(&["a", "b", "a.b", "a.0", "a.$", "a.$[]", "", "_id", "$a", ".", "a."]).as_bytes().to_vec()
}

/// A value that arithmetic, dates and arrays do not expect.
fn leaf(rng: &mut Rng) -> Tree {
    let value = match rng.in_range(0..10) {
        0 => Value::Int32(*rng.pick(&[0, 1, -1, 2, 100, i32::MAX, i32::MIN])),
        1 => Value::Int64(*rng.pick(&[0, 1, -1, i64::MAX, i64::MIN, 1 << 53, -(1 << 31) - 1])),
        2 => Value::Double(*rng.pick(&[0.0, -0.0, 0.5, -1.5, f64::NAN, f64::INFINITY, 1e300, 5e-324, 9e18])),
        3 => {
            let texts = ["0", "-0", "NaN", "Infinity", "9.99E+6144", "1E-6176", "0.1", "9223372036854775808"];
            Value::Decimal128(rng.pick(&texts).parse::<Decimal128>().expect("a number"))
        }
        4 => {
            let texts =
                ["", "a", "$a", "$$ROOT", "$$a.b", "\u{e9}", "\u{1f600}x", "(a+)+$", "%Y-%m-%d", "$a..b", "UTC"];
            Value::from(*rng.pick(&texts))
        }
        5 => *rng.pick(&[Value::Null, Value::Undefined, Value::MinKey, Value::MaxKey]),
        6 => Value::Bool(rng.chance(50)),
        7 => Value::DateTime(*rng.pick(&[0, -1, i64::MAX, i64::MIN, 1_600_000_000_000, -62_135_596_800_001])),
        8 => Value::ObjectId(ObjectId::from_bytes([7; 12])),
        _ => Value::Timestamp(Timestamp { time: u32::MAX, increment: 1 }),
    };
    Tree::Leaf(ValueBuf::from(value))
}

impl Tree {
    /// How many values there are, itself one of them.
    fn count(&self) -> usize {
        match self {
            Self::Document(fields) => 1 + fields.iter().map(|(_, value)| value.count()).sum::<usize>(),
            Self::Array(values) => 1 + values.iter().map(Self::count).sum::<usize>(),
            Self::Leaf(_) => 1,
        }
    }

    fn children(&self) -> Vec<&Self> {
        match self {
            Self::Document(fields) => fields.iter().map(|(_, value)| value).collect(),
            Self::Array(values) => values.iter().collect(),
            Self::Leaf(_) => Vec::new(),
        }
    }

    /// The value of a number below [`Self::count`].
    fn at(&self, number: &mut usize) -> &Self {
        if *number == 0 {
            return self;
        }
        *number -= 1;
        for child in self.children() {
            let count = child.count();
            if *number < count {
                return child.at(number);
            }
            *number -= count;
        }
        self
    }

    /// Changes the value of a number; whether it was here.
    fn change(&mut self, number: &mut usize, seeds: &[Vec<u8>], rng: &mut Rng) -> bool {
        if *number == 0 {
            self.change_here(seeds, rng);
            return true;
        }
        *number -= 1;
        match self {
            Self::Document(fields) => fields.iter_mut().any(|(_, value)| value.visit(number, seeds, rng)),
            Self::Array(values) => values.iter_mut().any(|value| value.visit(number, seeds, rng)),
            Self::Leaf(_) => false,
        }
    }

    fn visit(&mut self, number: &mut usize, seeds: &[Vec<u8>], rng: &mut Rng) -> bool {
        let count = self.count();
        if *number < count {
            return self.change(number, seeds, rng);
        }
        *number -= count;
        false
    }

    fn change_here(&mut self, seeds: &[Vec<u8>], rng: &mut Rng) {
        match (rng.in_range(0..10), &mut *self) {
            (0 | 1, here) => *here = other(seeds, rng),
            (2, here) => *here = leaf(rng),
            (3, here) => {
                let levels = *rng.pick(&LEVELS);
                for _ in 0..if rng.chance(80) { 1 } else { levels } {
                    let inner = here.clone();
                    *here = if rng.chance(60) {
                        Self::Document(vec![(name(seeds, rng), inner)])
                    } else {
                        Self::Array(vec![inner])
                    };
                }
            }
            (4 | 5, Self::Document(fields)) if !fields.is_empty() => {
                let at = rng.in_range(0..fields.len());
                fields[at].0 = name(seeds, rng);
            }
            (6, Self::Document(fields)) if !fields.is_empty() => drop(fields.remove(rng.in_range(0..fields.len()))),
            (6, Self::Array(values)) if !values.is_empty() => drop(values.remove(rng.in_range(0..values.len()))),
            (7, Self::Document(fields)) if fields.len() > 1 => fields.rotate_left(1),
            (7 | 8, Self::Array(values)) if !values.is_empty() => {
                let value = rng.pick(&*values).clone();
                values.push(value);
            }
            (_, Self::Document(fields)) => {
                let value = if rng.chance(50) { other(seeds, rng) } else { leaf(rng) };
                fields.push((name(seeds, rng), value));
            }
            (_, Self::Array(values)) => values.push(other(seeds, rng)),
            (_, here) => *here = if rng.chance(50) { other(seeds, rng) } else { leaf(rng) },
        }
    }
}
