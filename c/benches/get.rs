//! What the interface for C adds to a get: `cargo bench -p spinney-c`. Both ways are measured in turn, in one process;
//! the line tells the medians of the rounds, in nanoseconds, and their ratio.
//!
//! With `SPINNEY_PART=rust`, `c` or `none` it makes the gets of one way, or none, and measures nothing: for callgrind,
//! whose counts other programs on the machine do not disturb. `cargo xtask c-count` does all three.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::env;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use spinney_c::{Bytes, Table, Value, spinney_get, spinney_value_free};

const KEYS: u64 = 100_000;
const ROUNDS: usize = 31;

/// Nanoseconds of a get, of all keys in an order that no cache foresees.
fn round(mut get: impl FnMut(&[u8])) -> f64 {
    let begin = Instant::now();
    for number in 0..KEYS {
        get(&(number * 61_657 % KEYS).to_be_bytes());
    }
    begin.elapsed().as_nanos() as f64 / KEYS as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let db = spinney::Database::open(folder.path().join("db"), spinney::Options::default()).unwrap();
    let table = db.create_table("t", spinney::TableOptions::default()).unwrap();
    let mut load = table.bulk_load().unwrap();
    for number in 0..KEYS {
        load.push(&number.to_be_bytes(), &[7; 100]).unwrap();
    }
    load.finish().unwrap();
    // As a program calls it, through an address.
    let (get, free): (extern "C" fn(Option<&Table>, Bytes, Option<&mut MaybeUninit<Value>>) -> _, _) =
        (black_box(spinney_get), black_box(spinney_value_free as extern "C" fn(Option<&mut Value>)));
    let handle = Table::from(table.clone());
    let from_rust = || round(|key| drop(black_box(table.get(key).unwrap())));
    let from_c = || {
        round(|key| {
            let mut value = MaybeUninit::uninit();
            let key = Bytes { data: key.as_ptr(), size: key.len() };
            black_box(get(Some(&handle), key, Some(&mut value)));
            // SAFETY: a get that did not fail wrote it.
            free(Some(unsafe { value.assume_init_mut() }));
        })
    };
    // What the first gets of a block do is no part of any.
    from_rust();
    match env::var("SPINNEY_PART").as_deref() {
        Ok("rust") => println!("{KEYS} gets from Rust in {:.0} ns each", from_rust()),
        Ok("c") => println!("{KEYS} gets from C in {:.0} ns each", from_c()),
        Ok("none") => println!("0 gets"),
        _ => {
            let (mut rust, mut c) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                rust.push(from_rust());
                c.push(from_c());
            }
            let (rust, c) = (median(rust), median(c));
            println!("a get: {rust:.0} ns from Rust, {c:.0} ns from C, ratio {:.3}", c / rust);
        }
    }
}
