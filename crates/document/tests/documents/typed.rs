//! The typed API: values of Rust types in, the same out.

use serde::{Deserialize, Serialize};
use spinney::env::sim::SimEnv;
use spinney_document::bson::convert::{from_document, to_document};
use spinney_document::bson::{DateTime, Decimal128, DocumentBuf, ObjectId};
use spinney_document::doc;
use spinney_document::typed::{any, field, update};

use super::collections::{json, open};

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
enum Shape {
    Point,
    Circle(f64),
    Box { width: u16, height: u16 },
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
struct Thing {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    count: u64,
    price: Decimal128,
    at: DateTime,
    shapes: Vec<Shape>,
    note: Option<String>,
    extra: DocumentBuf,
}

fn thing(number: u8) -> Thing {
    Thing {
        id: ObjectId::from_bytes([number; 12]),
        name: format!("thing {number}"),
        count: u64::from(number) * 10,
        price: "12.50".parse().unwrap(),
        at: DateTime::from_millis(1_000_000 + i64::from(number)),
        shapes: vec![Shape::Point, Shape::Circle(1.5), Shape::Box { width: 2, height: 3 }],
        note: (number > 1).then(|| "x".to_owned()),
        extra: json(r#"{"a":[1,{"b":null}]}"#),
    }
}

#[test]
fn values_are_documents_and_come_back() {
    let one = thing(1);
    let document = to_document(&one).unwrap();
    assert_eq!(
        document.view().to_json(),
        r#"{"_id":{"$oid":"010101010101010101010101"},"name":"thing 1","count":10,"price":{"$numberDecimal":"12.50"},"at":{"$date":"1970-01-01T00:16:40.001Z"},"shapes":["Point",{"Circle":1.5},{"Box":{"width":2,"height":3}}],"note":null,"extra":{"a":[1,{"b":null}]}}"#
    );
    assert_eq!(from_document::<Thing>(document.view()).unwrap(), one);
}

#[test]
fn what_does_not_fit_is_refused_with_its_path() {
    #[derive(Serialize, Deserialize, Debug)]
    struct Inner {
        small: u8,
    }
    #[derive(Serialize, Deserialize, Debug)]
    struct Outer {
        inner: Vec<Inner>,
    }
    let fits = from_document::<Outer>(json(r#"{"inner":[{"small":2.0}]}"#).view()).unwrap();
    assert_eq!(fits.inner[0].small, 2);
    for (text, what) in [
        (r#"{"inner":[{"small":1},{"small":300}]}"#, "inner.1.small"),
        (r#"{"inner":[{"small":1.5}]}"#, "inner.0.small"),
        (r#"{"inner":[{}]}"#, "small"),
        (r#"{"inner":1}"#, "inner"),
    ] {
        let error = from_document::<Outer>(json(text).view()).unwrap_err();
        assert_eq!(error.code().number(), 2);
        assert!(error.message().contains(what), "{text}: {error}");
    }
    assert!(to_document(&u64::MAX).is_err());
    assert!(to_document(&5).unwrap_err().message().contains("struct or map"));
}

#[test]
fn a_typed_collection_finds_changes_and_deletes() {
    let db = open(&SimEnv::new(1));
    let things = db.typed::<Thing>("app.things").unwrap();
    let all: Vec<_> = (1..=5).map(thing).collect();
    assert_eq!(things.insert_many(&all).unwrap().inserted, 5);
    assert_eq!(things.insert_one(&all[0]).unwrap_err().code().number(), 11000);
    things.create_index(&doc! {"count": -1}, &doc! {}).unwrap();
    assert_eq!(things.find_by_id(all[2].id).unwrap().as_ref(), Some(&all[2]));
    let found = things.find(field("count").gt(20)).sort(doc! {"count": -1}).skip(1).limit(1).run().unwrap();
    assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), [all[3].clone()]);
    assert_eq!(things.count(any([field("count").eq(10), field("name").matches("5$")])).unwrap(), 2);
    let changed = things.update_many(field("count").lte(20), update().inc("count", 100).unset("note")).unwrap();
    assert_eq!((changed.matched, changed.modified), (2, 2));
    assert_eq!(things.distinct::<u64>("count", doc! {}).unwrap(), [30, 40, 50, 110, 120]);
    #[derive(Deserialize, PartialEq, Debug)]
    struct Count {
        count: u64,
    }
    let counts = things.find(doc! {}).sort(doc! {"count": 1}).project::<Count>(doc! {"count": 1, "_id": 0});
    assert_eq!(counts.first().unwrap(), Some(Count { count: 30 }));
    assert_eq!(things.delete_many(field("count").is_in([30, 40])).unwrap(), 2);
    assert_eq!(things.count(doc! {}).unwrap(), 3);
    assert!(things.documents().validate().unwrap().is_valid());
}

#[test]
fn transactions_span_collections_of_types() {
    let db = open(&SimEnv::new(1));
    let (left, right) = (db.typed::<Thing>("app.left").unwrap(), db.typed::<Thing>("app.right").unwrap());
    left.insert_one(&thing(1)).unwrap();
    db.transact(|txn| {
        let moved = left.within(txn).find(field("count").eq(10))?;
        for thing in &moved {
            right.within(txn).insert_one(thing)?;
        }
        left.within(txn).delete_many(field("count").eq(10)).map(drop)
    })
    .unwrap();
    assert_eq!((left.count(doc! {}).unwrap(), right.count(doc! {}).unwrap()), (0, 1));
    let refused = db.transact(|txn| {
        right.within(txn).update_one(doc! {}, update().set("name", "y"))?;
        right.within(txn).insert_one(&thing(1))
    });
    assert_eq!(refused.unwrap_err().code().number(), 11000);
    assert_eq!(right.find_one(doc! {}).unwrap().unwrap().name, "thing 1");
}
