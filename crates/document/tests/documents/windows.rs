//! `$setWindowFields`: windows that move give what is computed anew from the documents in each, and cost as much as
//! their documents, however large they are.

use spinney_document::aggregate::{Memory, Run, parse};
use spinney_document::bson::{Array, DocumentBuf, DocumentBuilder, Kind, Value, ValueBuf};
use spinney_document::expr::Context;
use spinney_document::{Error, doc};
use spinney_testkit::{Rng, assert_growth};

use super::collections::json;

/// The functions that take a window. The input is `$x`; they depend on `$_id` where the order counts.
const FUNCTIONS: &[&str] = &[
    "{'$sum':'$x'}",
    "{'$avg':'$x'}",
    "{'$count':{}}",
    "{'$stdDevPop':'$x'}",
    "{'$stdDevSamp':'$x'}",
    "{'$covariancePop':['$x','$y']}",
    "{'$covarianceSamp':['$x','$y']}",
    "{'$min':'$x'}",
    "{'$max':'$x'}",
    "{'$first':'$x'}",
    "{'$last':'$x'}",
    "{'$push':'$x'}",
    "{'$addToSet':'$x'}",
    "{'$concatArrays':['$y','$y']}",
    "{'$setUnion':['$y']}",
    "{'$firstN':{'n':2,'input':'$x'}}",
    "{'$lastN':{'n':2,'input':'$x'}}",
    "{'$minN':{'n':3,'input':'$x'}}",
    "{'$maxN':{'n':3,'input':'$x'}}",
    "{'$top':{'sortBy':{'y':-1,'_id':1},'output':'$x'}}",
    "{'$bottom':{'sortBy':{'y':1,'_id':1},'output':'$x'}}",
    "{'$topN':{'n':2,'sortBy':{'y':1,'_id':-1},'output':'$x'}}",
    "{'$bottomN':{'n':2,'sortBy':{'y':-1,'_id':1},'output':'$x'}}",
    "{'$median':{'input':'$y','method':'approximate'}}",
    "{'$percentile':{'input':'$y','p':[0.1,0.9],'method':'approximate'}}",
    "{'$integral':{'input':'$y'}}",
    "{'$derivative':{'input':'$y'}}",
];

/// Ends of windows, by documents or by the value of `_id`.
const WINDOWS: &[(&str, Option<f64>, Option<f64>)] = &[
    ("['unbounded','current']", None, Some(0.0)),
    ("['unbounded','unbounded']", None, None),
    ("['current','unbounded']", Some(0.0), None),
    ("['current','current']", Some(0.0), Some(0.0)),
    ("[-3,2]", Some(-3.0), Some(2.0)),
    ("[-4,-2]", Some(-4.0), Some(-2.0)),
    ("[1,3]", Some(1.0), Some(3.0)),
    ("['unbounded',-2]", None, Some(-2.0)),
    ("[2,'unbounded']", Some(2.0), None),
];

fn stages(text: &str) -> DocumentBuf {
    json(&format!("{{\"v\":{}}}", text.replace('\'', "\"")))
}

fn array(document: &DocumentBuf) -> Array<'_> {
    document.view().get("v").and_then(|stages| stages.as_array()).unwrap()
}

fn run_with(text: &str, rows: &[DocumentBuf], memory: Memory) -> Result<Vec<DocumentBuf>, Error> {
    let stages = stages(text);
    let pipeline = parse(array(&stages), &Context::default())?;
    let run = Run { memory: memory.into(), ..Run::new(Context::default()) };
    let rows = rows.to_vec();
    pipeline.run(Box::new(rows.into_iter().map(Ok)), &run)?.collect()
}

fn run(text: &str, rows: &[DocumentBuf]) -> Vec<DocumentBuf> {
    run_with(text, rows, Memory::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn windowed(function: &str, window: &str) -> String {
    let function = &function[1..function.len() - 1];
    format!("[{{'$setWindowFields':{{'sortBy':{{'_id':1}},'output':{{'r':{{{function},'window':{window}}}}}}}}}]")
}

fn result(row: &DocumentBuf) -> ValueBuf {
    row.view().get("r").unwrap().into()
}

/// Whether two results are the same but for the types of numbers, what rounding makes of them, and the order of a set.
fn is_close(a: &Value<'_>, b: &Value<'_>, is_set: bool) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if is_set => {
            let other = |value: &Value<'_>| b.values().any(|other| is_close(value, &other, false));
            a.count() == b.count() && a.values().all(|value| other(&value))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.count() == b.count() && a.values().zip(b.values()).all(|(a, b)| is_close(&a, &b, false))
        }
        _ => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) if a.is_nan() || b.is_nan() => a.is_nan() && b.is_nan(),
            (Some(a), Some(b)) => a == b || (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0),
            _ => a == b,
        },
    }
}

fn rows(rng: &mut Rng, count: i32) -> Vec<DocumentBuf> {
    let mut id = 0;
    (0..count)
        .map(|_| {
            id += i32::try_from(rng.in_range(0..3)).unwrap();
            let x = match rng.in_range(0..12) {
                0 => ValueBuf::from(Value::Null),
                1 => Value::from("text").into(),
                2 => Value::Double(0.1).into(),
                3 => Value::Int64(70_000).into(),
                4 => Value::Double(-2.5e5).into(),
                number => Value::Int32(i32::try_from(number).unwrap()).into(),
            };
            let y = Value::Double(f64::from(i32::try_from(rng.in_range(0..9)).unwrap()) / 4.0);
            doc! {"_id": id, "x": x.view(), "y": y}
        })
        .collect()
}

/// A window was computed anew for each document, from all documents in it.
#[test]
fn a_window_that_moves_gives_what_its_documents_give() {
    let mut rng = Rng::new(11);
    for count in [1, 2, 7, 40] {
        let rows = rows(&mut rng, count);
        let ids: Vec<f64> = rows.iter().map(|row| row.view().get("_id").unwrap().as_f64().unwrap()).collect();
        for function in FUNCTIONS {
            // The arrays that these take are not there: see below.
            if function.contains("$concatArrays") || function.contains("$setUnion") {
                continue;
            }
            for (ends, low, high) in WINDOWS {
                for by in ["documents", "range"] {
                    let found = run(&windowed(function, &format!("{{'{by}':{ends}}}")), &rows);
                    for (at, row) in found.iter().enumerate() {
                        let place = |other: usize| {
                            if by == "range" { ids[other] } else { f64::from(u32::try_from(other).unwrap()) }
                        };
                        let is_in = |other: &usize| {
                            let apart = place(*other) - place(at);
                            low.is_none_or(|low| apart >= low) && high.is_none_or(|high| apart <= high)
                        };
                        let within: Vec<DocumentBuf> =
                            (0..rows.len()).filter(is_in).map(|other| rows[other].clone()).collect();
                        let Some(expected) = alone(function, &within) else { continue };
                        let what = || format!("{function} {by} {ends} at {at} of {count}: {row:?}, not {expected:?}");
                        let (found, is_set) = (result(row), function.contains("Set"));
                        // A deviation that has a number that is not there any more is that of the others.
                        assert!(is_close(&found.view(), &expected.view(), is_set), "{}", what());
                    }
                }
            }
        }
    }
}

/// What a function gives of some documents; nothing of none.
fn alone(function: &str, rows: &[DocumentBuf]) -> Option<ValueBuf> {
    let found = run(&windowed(function, "{'documents':['unbounded','unbounded']}"), rows);
    found.first().map(result)
}

#[test]
fn arrays_leave_a_window_with_their_values() {
    let rows: Vec<_> = ["[1,2]", "[2,3]", "[]", "[1]"]
        .iter()
        .enumerate()
        .map(|(id, x)| json(&format!("{{\"_id\":{id},\"x\":{x}}}")))
        .collect();
    let of = |function: &str| -> Vec<String> {
        let found = run(&windowed(function, "{'documents':[-1,0]}"), &rows);
        found.iter().map(|row| result(row).view().to_json()).collect()
    };
    assert_eq!(of("{'$concatArrays':'$x'}"), ["[1,2]", "[1,2,2,3]", "[2,3]", "[1]"]);
    assert_eq!(of("{'$setUnion':'$x'}"), ["[1,2]", "[1,2,3]", "[2,3]", "[1]"]);
    let refused = run_with(&windowed("{'$mergeObjects':'$x'}", "{'documents':[-1,0]}"), &rows, Memory::default());
    assert_eq!(refused.unwrap_err().code().number(), 5_461_500);
}

/// NaN and infinities must not stay in a sum that they have left, nor what rounding has taken, nor an overflow.
#[test]
fn sums_are_exact_behind_what_has_left_them() {
    let of = |values: &[Value<'_>], function: &str| -> Vec<ValueBuf> {
        let rows: Vec<_> = (0..).zip(values).map(|(id, x)| doc! {"_id": id, "x": *x}).collect();
        run(&windowed(function, "{'documents':[-1,0]}"), &rows).iter().map(result).collect()
    };
    let doubles = |values: &[f64], function| -> Vec<f64> {
        let values: Vec<_> = values.iter().copied().map(Value::Double).collect();
        of(&values, function).iter().map(|value| value.view().as_f64().unwrap()).collect()
    };
    let sums = doubles(&[f64::NAN, 1.0, f64::INFINITY, f64::NEG_INFINITY, 2.0, 3.0], "{'$sum':'$x'}");
    assert!(sums[0].is_nan() && sums[1].is_nan() && sums[3].is_nan(), "{sums:?}");
    assert_eq!((sums[2], sums[4], sums[5]), (f64::INFINITY, f64::NEG_INFINITY, 5.0));
    assert_eq!(doubles(&[1e300, 1.0, 2.0, 0.1, 0.2], "{'$sum':'$x'}"), [1e300, 1e300, 3.0, 2.1, 0.1 + 0.2]);
    assert_eq!(doubles(&[f64::MAX, f64::MAX, 1.0, 2.0], "{'$sum':'$x'}"), [f64::MAX, f64::INFINITY, f64::MAX, 3.0]);
    assert_eq!(doubles(&[4.0, 2.0, 1.0], "{'$avg':'$x'}"), [4.0, 3.0, 1.5]);
    // The type is that of the numbers that are left.
    let decimal = json(r#"{"v":{"$numberDecimal":"1.50"}}"#);
    let decimal = decimal.view().get("v").unwrap();
    let mixed =
        of(&[decimal, Value::Double(0.5), Value::Int64(1 << 40), Value::Int32(1), Value::Int32(2)], "{'$sum':'$x'}");
    let kinds: Vec<_> = mixed.iter().map(ValueBuf::kind).collect();
    assert_eq!(kinds, [Kind::Decimal128, Kind::Decimal128, Kind::Double, Kind::Int64, Kind::Int32]);
    assert_eq!(mixed[4].view(), Value::Int32(3));
    let large = of(&[Value::Int64(i64::MAX), Value::Int64(i64::MAX), Value::Int64(i64::MIN)], "{'$sum':'$x'}");
    assert_eq!(large[1].kind(), Kind::Double);
    assert_eq!(large[2].view(), Value::Int32(-1));
}

/// A running total of 40,000 documents took 37 seconds: each window was computed from its first document on.
#[test]
fn windows_cost_as_much_as_their_documents() {
    let make = |count: usize| -> Vec<DocumentBuf> {
        (0..i32::try_from(count).unwrap()).map(|id| doc! {"_id": id, "x": (id * 7919) % 1000, "y": id % 13}).collect()
    };
    for function in FUNCTIONS {
        let of_arrays = ["$push", "$addToSet", "$concatArrays", "$setUnion"];
        if of_arrays.iter().any(|name| function.contains(name)) {
            // What comes out has the size of the window.
            continue;
        }
        for (size, window) in
            [(3000, "{'documents':['unbounded','current']}"), (3000, "{'documents':['current','unbounded']}")]
        {
            let text = windowed(function, window);
            assert_growth(&text, size, 9.0, make, |rows| drop(run(&text, &rows)));
        }
        // A window of half of all documents.
        for by in ["documents", "range"] {
            let text = |rows: &[DocumentBuf]| windowed(function, &format!("{{'{by}':[-{0},{0}]}}", rows.len() / 4));
            assert_growth(function, 3000, 9.0, make, |rows| drop(run(&text(&rows), &rows)));
        }
    }
    // The first and last many of a group are found in as many steps as there are documents, times their logarithm.
    for name in ["$firstN", "$lastN", "$minN", "$maxN"] {
        let text = format!("[{{'$group':{{'_id':1,'r':{{'{name}':{{'n':1000000,'input':'$x'}}}}}}}}]");
        assert_growth(&text, 10_000, 9.0, make, |rows| drop(run(&text, &rows)));
    }
}

/// What a partition and its windows take is counted, and given back as the windows move on.
#[test]
fn the_memory_of_windows_is_counted_and_given_back() {
    let rows: Vec<_> = (0..2000).map(|id| doc! {"_id": id, "x": "0123456789".repeat(10).as_str()}).collect();
    let bytes: usize = rows.iter().map(|row| row.as_bytes().len()).sum();
    let of = |function: &str, window: &str| {
        let done = run_with(&windowed(function, window), &rows, Memory::new(bytes + 75 * rows.len()));
        done.map(|rows| rows.len()).map_err(|error| error.code().number())
    };
    assert_eq!(of("{'$push':'$x'}", "{'documents':[-500,500]}"), Err(292));
    assert_eq!(of("{'$addToSet':'$_id'}", "{'documents':[-500,500]}"), Err(292));
    // The windows fit, one after the other.
    for function in ["{'$max':'$x'}", "{'$push':'$x'}", "{'$addToSet':'$x'}", "{'$sum':'$_id'}"] {
        assert_eq!(of(function, "{'documents':[-5,5]}"), Ok(rows.len()), "{function}");
    }
}

#[test]
fn unordered_rows_need_no_sort_field() {
    let rows = [doc! {"x": 1}, doc! {"x": 2}];
    let text = "[{'$setWindowFields':{'output':{'r':{'$sum':'$x'},'n':{'$push':'$x'}}}}]";
    let found = run(text, &rows);
    let expected: DocumentBuf = {
        let mut builder = DocumentBuilder::new();
        builder.append("x", 1).append("r", 3).open_array("n").push(1).push(2).close();
        builder.finish()
    };
    assert_eq!(found[0], expected);
}
