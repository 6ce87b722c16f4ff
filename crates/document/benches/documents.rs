//! What documents of 1 KB with three indexes cost one thread when everything is in memory.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use spinney::{Durability, Options};
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, ObjectId};
use spinney_document::collection::WriteOptions;
use spinney_document::expr::Context;
use spinney_document::keys::{KeyPattern, KeySet, extract};
use spinney_document::path::Sort;
use spinney_document::plan::Query;
use spinney_document::projection::{Projection, Use};
use spinney_document::query::Filter;
use spinney_document::{Collection, Database, doc};

const BULK: u64 = 1000;

/// A document of about 1 KB with ten fields.
fn document(buffer: Vec<u8>, number: u64) -> DocumentBuf {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut builder = DocumentBuilder::with_buffer(buffer);
    builder.append("_id", id(number)).append("a", scattered.cast_signed() >> 20);
    builder.append("name", format!("customer {scattered:016x}").as_str()).append("b", (number % 1000).cast_signed());
    builder.append("price", scattered as f64 / 7.0);
    for (index, field) in ["text", "more", "note", "last"].into_iter().enumerate() {
        builder.append(field, "lorem ipsum dolor sit amet ".repeat(8 + index % 2).as_str());
    }
    builder.finish()
}

fn id(number: u64) -> ObjectId {
    let mut bytes = [7; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

fn open(dir: &tempfile::TempDir) -> Collection {
    let options = Options::default().memory_bytes(2 << 30).durability(Durability::Buffered);
    let db = Database::open(dir.path().join("db"), options).expect("a new directory");
    let specs = [
        doc! {"key": &doc! {"a": 1}, "name": "a_1"},
        doc! {"key": &doc! {"b": 1, "price": -1}, "name": "b_1_price_-1"},
        doc! {"key": &doc! {"name": 1}, "name": "name_1"},
    ];
    db.create_indexes("bench.items", &specs).expect("well-formed specifications");
    db.collection("bench.items").expect("a name").expect("it was created")
}

fn collections(c: &mut Criterion) {
    let mut group = c.benchmark_group("collection");
    let dir = tempfile::tempdir().expect("a directory");
    let (collection, mut next) = (open(&dir), 0);
    group.bench_function("insert", |b| {
        let mut buffer = Vec::new();
        b.iter(|| {
            next += 1;
            let document = document(std::mem::take(&mut buffer), next);
            collection.insert_one(document.view()).expect("a new document");
            buffer = document.into_bytes();
        });
    });
    group.throughput(Throughput::Elements(BULK));
    group.bench_function("insert 1000", |b| {
        b.iter(|| {
            let documents: Vec<_> = (1..=BULK).map(|at| document(Vec::new(), next + at)).collect();
            next += BULK;
            let views = documents.iter().map(DocumentBuf::view);
            collection.insert_many(views, true, WriteOptions::default()).expect("new documents");
        });
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("find by _id", |b| {
        let mut at = 0;
        b.iter(|| {
            at = (at + 7919) % next;
            black_box(collection.find_by_id(id(at + 1)).expect("a read"))
        });
    });
    group.bench_function("replace, one entry moved", |b| {
        let mut at = 0;
        b.iter(|| {
            at = (at + 7919) % next;
            let mut builder = DocumentBuilder::new();
            let old = document(Vec::new(), at + 1);
            for element in old.view() {
                match element.name.as_bytes() {
                    b"b" => builder.append("b", at.cast_signed()),
                    _ => builder.append_element(&element),
                };
            }
            black_box(collection.replace_by_id(id(at + 1), builder.finish().view()).expect("a write"))
        });
    });
    while next < 20_000 {
        next += 1;
        collection.insert_one(document(Vec::new(), next).view()).expect("a new document");
    }
    queries(&mut group, &collection, next);
    group.finish();
}

/// Queries over the documents up to a number, parsed, planned and run each time as a client's are.
fn queries(group: &mut BenchmarkGroup<'_, WallTime>, collection: &Collection, next: u64) {
    let context = Context::default();
    let run = |filter: DocumentBuf, sort: Option<DocumentBuf>, shown: Option<DocumentBuf>, limit: Option<u64>| {
        let mut query = Query::new(Filter::parse(filter.view(), &context).expect("a filter"));
        query.sort = sort.map(|sort| Sort::parse(sort.view(), None).expect("a sort"));
        query.projection = shown.map(|shown| Projection::parse(shown.view(), Use::Find, &context).expect("fields"));
        query.limit = limit;
        let mut found = collection.find(query).expect("a plan");
        let mut count = 0;
        while let Some(document) = found.advance().expect("a read") {
            black_box(document);
            count += 1;
        }
        count
    };
    let mut at = 0;
    let mut step = move || {
        at = (at + 7919) % next;
        at
    };
    group.bench_function("find {_id}", |b| {
        b.iter(|| run(doc! {"_id": id(step() + 1)}, None, None, None));
    });
    let from = |at: u64| (doc! {"b": (at % 1000).cast_signed(), "price": &doc! {"$gte": 0.0}}, doc! {"price": -1});
    group.bench_function("find 10, covered", |b| {
        b.iter(|| {
            let (filter, sort) = from(step());
            run(filter, Some(sort), Some(doc! {"b": 1, "price": 1, "_id": 0}), Some(10))
        });
    });
    group.bench_function("find 10, fetched", |b| {
        b.iter(|| {
            let (filter, sort) = from(step());
            run(filter, Some(sort), None, Some(10))
        });
    });
    group.sample_size(10);
    group.throughput(Throughput::Elements(next));
    group.bench_function("scan", |b| b.iter(|| run(doc! {"x": &doc! {"$gt": 1}}, None, None, None)));
}

fn bytes(c: &mut Criterion) {
    let mut group = c.benchmark_group("document");
    let document = document(Vec::new(), 12345);
    let view = document.view();
    group.throughput(Throughput::Bytes(document.as_bytes().len() as u64));
    group.bench_function("parse", |b| b.iter(|| Document::parse(black_box(document.as_bytes()))));
    group.bench_function("get the last field", |b| b.iter(|| black_box(view).get("last")));
    let pattern = KeyPattern::parse(doc! {"b": 1, "price": -1}.view()).expect("a pattern");
    let mut keys = KeySet::new();
    group.bench_function("keys of two fields", |b| {
        b.iter(|| extract(&pattern, false, None, black_box(view), &mut keys));
    });
    group.finish();
}

criterion_group!(benches, bytes, collections);
criterion_main!(benches);
