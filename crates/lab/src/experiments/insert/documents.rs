//! Rows as documents, as in iibench for `MongoDB` (Callaghan, T.): a collection with an ascending `_id`, and indexes
//! on random values that the database keeps.
//!
//! # Format
//!
//! | field | value |
//! |---|---|
//! | `_id` | the primary key |
//! | `dateandtime` | a date |
//! | `cashregisterid`, `customerid`, `productid` | integers |
//! | `price` | a double |
//! | `data` | random bytes |

use super::operations::{RANGE_ENTRIES, Rows};
use super::rows::RowMaker;
use crate::driver::{Client, Condition, Field, Find, IndexSpec, Order, Value};
use anyhow::Result;
use std::ops::Range;

pub(in crate::experiments) const COLLECTION: &str = "purchases_index";

const CUSTOMER: (&str, Order) = ("customerid", Order::Ascending);
const DATE: (&str, Order) = ("dateandtime", Order::Ascending);
const PRICE: (&str, Order) = ("price", Order::Ascending);
const REGISTER: (&str, Order) = ("cashregisterid", Order::Ascending);

/// The indexes, in the order in which `--indexes` takes them.
pub(in crate::experiments) const INDEXES: [IndexSpec; 3] = [
    IndexSpec { name: "price_customer", fields: &[PRICE, CUSTOMER], unique: false },
    IndexSpec { name: "register_price_customer", fields: &[REGISTER, PRICE, CUSTOMER], unique: false },
    IndexSpec { name: "price_date_customer", fields: &[PRICE, DATE, CUSTOMER], unique: false },
];

/// The fields of each index.
const FIELDS: [&[&str]; 3] =
    [&["price", "customerid"], &["cashregisterid", "price", "customerid"], &["price", "dateandtime", "customerid"]];

/// Bytes of a document as BSON without those of `data`.
const DOCUMENT_BYTES: usize = 139 - 10;

/// Bytes of an index entry, about: a number takes ten.
const ENTRY_BYTES: [usize; 3] = [30, 40, 40];

/// Makes the collection, without indexes.
pub(super) fn create(client: &mut dyn Client) -> Result<()> {
    client.documents()?.create(COLLECTION)
}

/// Bytes of a document, and of its entries in the first so many indexes.
pub(super) fn logical_bytes(filler_bytes: usize, indexes: usize) -> u64 {
    let entries: usize = ENTRY_BYTES[..indexes].iter().sum();
    (DOCUMENT_BYTES + filler_bytes + entries) as u64
}

/// One client's documents.
pub(super) struct DocumentForm {
    row: RowMaker,
    fillers: Vec<Vec<u8>>,
}

impl DocumentForm {
    pub(super) fn new(row: RowMaker) -> Self {
        Self { row, fillers: Vec::new() }
    }
}

/// The fields of a document but for `data`.
fn fields(row: &RowMaker) -> [Field<'static>; 6] {
    let columns = row.columns();
    let number = |number: u32| Value::Int(number.into());
    [
        ("_id", id(columns.key)),
        ("dateandtime", Value::Date(i64::try_from(columns.when_us / 1000).unwrap_or(i64::MAX))),
        ("cashregisterid", number(columns.register)),
        ("customerid", number(columns.customer)),
        ("productid", number(columns.product)),
        ("price", Value::Double(f64::from(columns.price) / 100.0)),
    ]
}

fn id(key: u64) -> Value<'static> {
    Value::Int(i64::try_from(key).unwrap_or(i64::MAX))
}

impl Rows for DocumentForm {
    /// The database keeps the indexes that there are.
    fn insert(&mut self, client: &mut dyn Client, keys: Range<u64>, _indexes: usize) -> Result<u64> {
        let mut made = Vec::new();
        for (at, key) in keys.enumerate() {
            self.row.make(key);
            if self.fillers.len() <= at {
                self.fillers.push(Vec::new());
            }
            self.fillers[at].clear();
            self.fillers[at].extend_from_slice(self.row.filler());
            made.push(fields(&self.row));
        }
        let with_data = |(fields, filler): (&[Field<'static>; 6], _)| -> [Field<'_>; 7] {
            let [id, when, register, customer, product, price] = *fields;
            let data: &Vec<u8> = filler;
            [id, when, register, customer, product, price, ("data", Value::Bytes(data))]
        };
        let documents: Vec<[Field<'_>; 7]> = made.iter().zip(&self.fillers).map(with_data).collect();
        let documents: Vec<&[Field<'_>]> = documents.iter().map(<[Field<'_>; 7]>::as_slice).collect();
        client.documents()?.insert(COLLECTION, &documents)?;
        let bytes = self.fillers.iter().take(documents.len()).map(|filler| DOCUMENT_BYTES + filler.len());
        Ok(bytes.sum::<usize>() as u64)
    }

    fn delete(&mut self, client: &mut dyn Client, keys: Range<u64>, _indexes: usize) -> Result<(u64, u64)> {
        let from = [("_id", id(keys.start))];
        let which = Condition { from: &from, until: Some(("_id", id(keys.end))), ..Condition::default() };
        Ok((client.documents()?.delete(COLLECTION, &which, true)?, 0))
    }

    fn range(&mut self, client: &mut dyn Client, index: usize, key: u64) -> Result<u64> {
        self.row.make(key);
        let all = fields(&self.row);
        let value = |name: &&'static str| all.iter().find(|(field, _)| field == name).copied();
        let from: Vec<Field<'_>> = FIELDS[index].iter().filter_map(value).collect();
        let which = Condition { from: &from, ..Condition::default() };
        let find = Find {
            sorted_by: FIELDS[index],
            shown: FIELDS[index],
            limit: RANGE_ENTRIES,
            ..Find::new(COLLECTION, which)
        };
        let mut read = 0;
        client.documents()?.find(&find, &mut |found| read += found.bytes() as u64)?;
        Ok(read)
    }

    fn point(&mut self, client: &mut dyn Client, key: u64) -> Result<Option<u64>> {
        let (mut read, which) = (0, [("_id", id(key))]);
        let find = Find::new(COLLECTION, Condition::equal(&which));
        let found = client.documents()?.find(&find, &mut |found| read = found.bytes() as u64)?;
        Ok((found > 0).then_some(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_have_the_fields_that_queries_ask_for() {
        for (index, fields) in INDEXES.iter().zip(FIELDS) {
            let names: Vec<&str> = index.fields.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, fields);
        }
    }
}
