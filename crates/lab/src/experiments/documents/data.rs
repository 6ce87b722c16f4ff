//! The documents: about 1 KB each, with ten fields.
//!
//! # Format
//!
//! | field | value |
//! |---|---|
//! | `_id` | the document's number |
//! | `a` | a random integer; has an index |
//! | `name` | `customer` and a random number in hexadecimal; has an index |
//! | `b` | the document's number modulo 1,000; has an index with `price`, descending |
//! | `price` | a random double |
//! | `n` | 0 |
//! | `text`, `more`, `note`, `last` | 219 bytes each of English words in random order, frequent words more often |

use crate::driver::{Field, IndexSpec, Order, Value};
use crate::random::{Random, mix};
use spinney::base::num::usize_of;
use std::fmt::Write as _;

/// What a document takes as BSON, a little more or less.
pub(super) const DOCUMENT_BYTES: u64 = 1_022;

pub(super) const COLLECTION: &str = "items";

/// Values of `b`.
pub(super) const GROUPS: u64 = 1_000;

/// The indexes.
pub(super) const INDEXES: [IndexSpec; 3] = [
    IndexSpec { name: "a", fields: &[("a", Order::Ascending)], unique: false },
    IndexSpec { name: "b_price", fields: &[("b", Order::Ascending), ("price", Order::Descending)], unique: false },
    IndexSpec { name: "name", fields: &[("name", Order::Ascending)], unique: false },
];

/// The index that is built over the documents.
pub(super) const BUILT: IndexSpec = IndexSpec { name: "price", fields: &[("price", Order::Ascending)], unique: false };

/// Bytes of each of the fields with text.
const TEXT_BYTES: usize = 219;

/// Bytes of the text that fields are cut from.
const ALL_BYTES: usize = 1 << 20;

/// Frequent words of English first.
const WORDS: &str = "the of and to in a is that for it was on are as with his they be at one have this from or had by \
    hot but some what there we can out other were all your when up use word how said an each she which do their time \
    if will way about many then them would write like so these her long make thing see him two has look more day could \
    go come did my sound no most number who over know water than call first people may down side been now find any new \
    work part take get place made live where after back little only round man year came show every good me give our \
    under name very through just form much great think say help low line before turn cause same mean differ move right \
    boy old too does tell sentence set three want air well also play small end put home read hand port large spell add \
    even land here must big high such follow act why ask men change went light kind off need house picture try us again \
    animal point mother world near build self earth father head stand own page should country found answer school grow \
    study still learn plant cover food sun four thought let keep eye never last door between city tree cross since hard \
    start might story saw far sea draw left late run while press close night real life few stop open seem together next \
    white children begin got walk example ease paper often always music those both mark book letter until mile river car \
    feet care second group carry took rain eat room friend began idea fish mountain north once base hear horse cut sure \
    watch color face wood main enough plain girl usual young ready above ever red list though feel talk bird soon body \
    dog family direct pose leave song measure state product black short numeral class wind question happen complete ship \
    area half rock order fire south problem piece told knew pass farm top whole king size heard best hour better true \
    during hundred remember step early hold west ground interest reach fast five sing listen six table travel less \
    morning ten simple several vowel toward war lay against pattern slow center love person money serve appear road map \
    science rule govern pull cold notice voice fall power town fine certain fly unit lead cry dark machine note wait \
    plan figure star box noun field rest correct able pound done beauty drive stood contain front teach week final gave";

/// Text to cut fields from.
#[derive(Debug)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn new(seed: u64) -> Self {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let mut random = Random::new(seed);
        let mut text = String::with_capacity(ALL_BYTES + TEXT_BYTES + 16);
        while text.len() < ALL_BYTES + TEXT_BYTES {
            // The smaller of two is more likely to be small.
            let count = words.len() as u64;
            let at = random.below(count).min(random.below(count));
            text.push_str(words[usize_of(at)]);
            text.push(' ');
        }
        Self(text)
    }

    fn piece(&self, random: &mut Random) -> &str {
        let from = usize_of(random.below(ALL_BYTES as u64));
        &self.0[from..from + TEXT_BYTES]
    }
}

/// The value of `price` of the document with a number.
pub(super) fn price(seed: u64, number: u64) -> f64 {
    Random::of(seed, number).unit() * 1e6
}

/// The value of `b`.
pub(super) fn group(number: u64) -> i64 {
    i64::try_from(number % GROUPS).expect("below a thousand")
}

/// A value of `a`.
pub(super) fn scattered(seed: u64, number: u64) -> i64 {
    i64::try_from(mix(seed ^ number.rotate_left(32)) >> 20).expect("it has 44 bits")
}

/// The `_id` of the document with a number.
pub(super) fn id(number: u64) -> Value<'static> {
    Value::Int(i64::try_from(number).expect("there are not as many"))
}

/// Makes documents; the same seed and number give the same document.
#[derive(Debug)]
pub(super) struct Maker<'t> {
    seed: u64,
    text: &'t Text,
    names: Vec<String>,
}

impl<'t> Maker<'t> {
    pub(super) fn new(seed: u64, text: &'t Text) -> Self {
        Self { seed, text, names: Vec::new() }
    }

    /// The documents with the numbers from `first` on.
    pub(super) fn make(&mut self, first: u64, count: u64) -> Vec<[Field<'_>; 10]> {
        self.names.resize_with(self.names.len().max(usize_of(count)), String::new);
        for (number, name) in (first..first + count).zip(&mut self.names) {
            name.clear();
            write!(name, "customer {:016x}", mix(self.seed ^ number)).expect("a string takes all");
        }
        let (seed, text) = (self.seed, self.text);
        (first..first + count).zip(&self.names).map(|(number, name)| fields(seed, text, number, name)).collect()
    }
}

fn fields<'d>(seed: u64, text: &'d Text, number: u64, name: &'d str) -> [Field<'d>; 10] {
    let mut random = Random::of(seed ^ 1, number);
    [
        ("_id", id(number)),
        ("a", Value::Int(scattered(seed, number))),
        ("name", Value::Text(name)),
        ("b", Value::Int(group(number))),
        ("price", Value::Double(price(seed, number))),
        ("n", Value::Int(0)),
        ("text", Value::Text(text.piece(&mut random))),
        ("more", Value::Text(text.piece(&mut random))),
        ("note", Value::Text(text.piece(&mut random))),
        ("last", Value::Text(text.piece(&mut random))),
    ]
}
