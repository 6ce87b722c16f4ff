//! Rows as in iibench (Callaghan and Tokutek): one with a sequential primary key, and an entry for each of three
//! indexes.
//!
//! # Format
//! All numbers big-endian, so that bytes order as numbers do.
//!
//! | what | bytes |
//! |---|---|
//! | row key | primary key 8 |
//! | row value | date and time 8, register 4, customer 4, product 4, price 4, random filler |
//! | market entry | product 4, customer 4, price 4, primary key 8 |
//! | register entry | register 4, customer 4, price 4, primary key 8 |
//! | price entry | price 4, date and time 8, customer 4, primary key 8 |

use crate::random::Random;
use anyhow::{Result, ensure};

/// The secondary indexes, in the order in which `Config::indexes` takes them.
pub const INDEXES: [&str; 3] = ["market", "register", "price"];

const REGISTERS: u32 = 1_000;
const PRODUCTS: u32 = 10_000;
const CUSTOMERS: u32 = 100_000;
/// As in iibench a price is a random part plus the customer's number, here in cents.
const PRICE_MAX: u32 = 500;
/// Microseconds between the times of two rows.
const ROW_PERIOD_US: u64 = 10;

const COLUMN_BYTES: usize = 24;

/// Bytes of an entry in each of [`INDEXES`].
pub(super) const ENTRY_BYTES: [usize; 3] = [20, 20, 24];

/// Bytes of the longest entry, which is the last.
pub(super) const ENTRY_BYTES_MAX: usize = ENTRY_BYTES[2];

/// Makes rows; the same seed and primary key give the same row, in any order and on any thread.
#[derive(Debug)]
pub struct RowMaker {
    seed: u64,
    key: [u8; 8],
    value: Vec<u8>,
    market: [u8; 20],
    register: [u8; 20],
    price: [u8; 24],
}

/// The columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The primary key.
    pub key: u64,
    /// Date and time, in microseconds.
    pub when_us: u64,
    /// The number of a register.
    pub register: u32,
    /// The number of a customer.
    pub customer: u32,
    /// The number of a product.
    pub product: u32,
    /// In cents.
    pub price: u32,
}

impl RowMaker {
    /// A maker of rows with `filler_bytes` of random bytes each.
    #[must_use]
    pub fn new(seed: u64, filler_bytes: usize) -> Self {
        Self {
            seed,
            key: [0; 8],
            value: vec![0; COLUMN_BYTES + filler_bytes],
            market: [0; 20],
            register: [0; 20],
            price: [0; 24],
        }
    }

    /// Makes the row with primary key `pk`.
    pub fn make(&mut self, pk: u64) {
        let mut random = Random::of(self.seed, pk);
        let when = (pk * ROW_PERIOD_US).to_be_bytes();
        let register = random.below32(REGISTERS).to_be_bytes();
        let customer = random.below32(CUSTOMERS);
        let product = random.below32(PRODUCTS).to_be_bytes();
        let price = (random.below32(PRICE_MAX) + customer).to_be_bytes();
        let customer = customer.to_be_bytes();
        self.key = pk.to_be_bytes();
        lay(&mut self.value, &[&when, &register, &customer, &product, &price]);
        random.fill(&mut self.value[COLUMN_BYTES..]);
        lay(&mut self.market, &[&product, &customer, &price, &self.key]);
        lay(&mut self.register, &[&register, &customer, &price, &self.key]);
        lay(&mut self.price, &[&price, &when, &customer, &self.key]);
    }

    /// Takes a row as it is stored, so that its index entries are known.
    ///
    /// # Errors
    /// When `key` and `value` are no row.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        ensure!(
            key.len() == self.key.len() && value.len() >= COLUMN_BYTES,
            "a row of {} and {} bytes",
            key.len(),
            value.len()
        );
        self.key.copy_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        let (when, register, customer) = (&value[..8], &value[8..12], &value[12..16]);
        let (product, price) = (&value[16..20], &value[20..24]);
        lay(&mut self.market, &[product, customer, price, key]);
        lay(&mut self.register, &[register, customer, price, key]);
        lay(&mut self.price, &[price, when, customer, key]);
        Ok(())
    }

    /// The row's key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The row's value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The random bytes beside the columns.
    #[must_use]
    pub fn filler(&self) -> &[u8] {
        &self.value[COLUMN_BYTES..]
    }

    /// The row's columns.
    #[must_use]
    pub fn columns(&self) -> Columns {
        let byte = |at: usize| self.value[at];
        let number = |at: usize| u32::from_be_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
        Columns {
            key: u64::from_be_bytes(self.key),
            when_us: u64::from(number(0)) << 32 | u64::from(number(4)),
            register: number(8),
            customer: number(12),
            product: number(16),
            price: number(20),
        }
    }

    /// The row's entry in each of [`INDEXES`].
    #[must_use]
    pub fn entries(&self) -> [&[u8]; 3] {
        [&self.market, &self.register, &self.price]
    }
}

/// Bytes of keys and values that a row with its index entries brings.
pub(in crate::experiments) fn logical_bytes(filler_bytes: usize, indexes: usize) -> u64 {
    let entries: usize = ENTRY_BYTES[..indexes].iter().sum();
    (8 + COLUMN_BYTES + filler_bytes + entries) as u64
}

/// Lays `parts` one after the other into `bytes`.
fn lay(bytes: &mut [u8], parts: &[&[u8]]) {
    let mut at = 0;
    for part in parts {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn field(bytes: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn a_row_depends_on_seed_and_key_only() {
        let (mut a, mut b) = (RowMaker::new(1, 10), RowMaker::new(1, 10));
        a.make(7);
        b.make(6);
        b.make(7);
        assert_eq!((a.key(), a.value(), a.entries()), (b.key(), b.value(), b.entries()));
        let mut other = RowMaker::new(2, 10);
        other.make(7);
        assert_ne!(a.value(), other.value());
    }

    #[test]
    fn columns_stay_in_their_ranges_and_spread_over_them() {
        let mut rows = RowMaker::new(1, 0);
        let (mut registers, mut customers, mut products) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for pk in 0..20_000 {
            rows.make(pk);
            let value = rows.value();
            let (register, customer, product, price) =
                (field(value, 8), field(value, 12), field(value, 16), field(value, 20));
            assert!(register < REGISTERS && customer < CUSTOMERS && product < PRODUCTS);
            assert!((customer..customer + PRICE_MAX).contains(&price));
            registers.insert(register);
            customers.insert(customer);
            products.insert(product);
        }
        // With 20,000 draws every register comes, 86% of the products and 18% of the customers.
        assert_eq!(registers.len(), 1_000);
        assert!((8_400..8_900).contains(&products.len()), "{}", products.len());
        assert!((17_700..18_600).contains(&customers.len()), "{}", customers.len());
    }

    #[test]
    fn entries_hold_their_columns_and_end_in_the_primary_key() {
        let mut rows = RowMaker::new(1, 10);
        rows.make(0x0102_0304);
        let (value, [market, register, price]) = (rows.value(), rows.entries());
        assert_eq!(value.len(), 34);
        assert_eq!(
            (field(market, 0), field(market, 4), field(market, 8)),
            (field(value, 16), field(value, 12), field(value, 20))
        );
        assert_eq!((field(register, 0), field(register, 4)), (field(value, 8), field(value, 12)));
        assert_eq!(
            (field(price, 0), &price[4..12], field(price, 12)),
            (field(value, 20), &value[..8], field(value, 12))
        );
        assert!([market, register, price].iter().all(|entry| entry.ends_with(rows.key())));
        let entries: usize = rows.entries().iter().map(|entry| entry.len()).sum();
        assert_eq!(logical_bytes(10, 3), (rows.key().len() + value.len() + entries) as u64);
    }

    #[test]
    fn columns_are_those_of_the_value() {
        let mut rows = RowMaker::new(1, 3);
        rows.make(77);
        let columns = rows.columns();
        let value = rows.value();
        assert_eq!((columns.key, columns.when_us, rows.filler().len()), (77, 770, 3));
        let numbers = [columns.register, columns.customer, columns.product, columns.price];
        assert_eq!(numbers, [8, 12, 16, 20].map(|at| field(value, at)));
    }

    #[test]
    fn a_stored_row_has_the_entries_that_it_was_made_with() {
        let (mut made, mut stored) = (RowMaker::new(1, 10), RowMaker::new(0, 0));
        made.make(12_345);
        stored.load(made.key(), made.value()).unwrap();
        assert_eq!((made.value(), made.entries()), (stored.value(), stored.entries()));
        assert!(stored.load(b"short", made.value()).is_err());
        assert!(stored.load(made.key(), b"short").is_err());
    }
}
