//! Groups differential: `$group` over rows that are lent, documents and keys of indexes, gives what it gives over
//! documents of its own, in the same order, whatever the index, the filter, the types and the memory.

use spinney::env::sim::SimEnv;
use spinney_document::aggregate::{self, Run};
use spinney_document::bson::{Array, DocumentBuf, Value};
use spinney_document::collation::Collation;
use spinney_document::expr::Context;
use spinney_document::path::Sort;
use spinney_document::pipeline::aggregation::AggregateOptions;
use spinney_document::plan::{Hint, Query};
use spinney_document::projection::{Projection, Use};
use spinney_document::query::Filter;
use spinney_document::{Collection, Database};
use spinney_testkit::rng::Rng;

use super::collections::{json, open};

/// Collections, and pipelines over each.
const COLLECTIONS: u64 = 60;
const PIPELINES: usize = 60;

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "1.0",
    "2",
    "2.5",
    "-1",
    "-7.25",
    "300",
    "1e300",
    r#"{"$numberLong":"1"}"#,
    r#"{"$numberLong":"9000000000000000000"}"#,
    r#"{"$numberDecimal":"1.0"}"#,
    r#"{"$numberDouble":"NaN"}"#,
    r#"{"$numberDouble":"-0.0"}"#,
];

const OTHERS: [&str; 9] = [
    "null",
    "true",
    r#""a""#,
    r#""A""#,
    r#""b""#,
    r#"{"x":1}"#,
    r#"{"$undefined":true}"#,
    r#"{"$date":{"$numberLong":"5"}}"#,
    r#"{"$symbol":"a"}"#,
];

const IDS: [&str; 9] = [
    "null",
    r#""$a""#,
    r#""$b""#,
    r#""$$ROOT.a""#,
    r#"{"x":"$a"}"#,
    r#"{"y":"$b","x":"$a"}"#,
    r#"{"b":"$b"}"#,
    r#"{"$ifNull":["$a",0]}"#,
    r#""$_id""#,
];

const ACCUMULATORS: [&str; 16] = [
    r#"{"$sum":1}"#,
    r#"{"$sum":{"$numberLong":"3"}}"#,
    r#"{"$sum":0.1}"#,
    r#"{"$sum":"$b"}"#,
    r#"{"$sum":"$a"}"#,
    r#"{"$avg":"$b"}"#,
    r#"{"$min":"$b"}"#,
    r#"{"$max":"$a"}"#,
    r#"{"$first":"$b"}"#,
    r#"{"$last":"$a"}"#,
    r#"{"$push":"$b"}"#,
    r#"{"$addToSet":"$a"}"#,
    r#"{"$stdDevPop":"$b"}"#,
    r#"{"$maxN":{"input":"$b","n":2}}"#,
    r#"{"$top":{"sortBy":{"b":1},"output":"$a"}}"#,
    r#"{"$sum":{"$cond":["$a",1,2]}}"#,
];

const INDEXES: [&str; 7] = [
    r#""a":1"#,
    r#""b":-1"#,
    r#""a":1,"b":-1"#,
    r#""a":-1,"b":1"#,
    r#""b":1,"a":1"#,
    r#""c":1,"a":1,"b":1"#,
    r#""d":1"#,
];

fn value(rng: &mut Rng, others: usize) -> String {
    match rng.weighted(&[100 - others, others]) {
        0 => (*rng.pick(&NUMBERS)).to_owned(),
        _ => (*rng.pick(&OTHERS)).to_owned(),
    }
}

/// A collection with an index, and the pattern of the index.
fn collection(db: &Database, rng: &mut Rng, number: u64) -> (Collection, String) {
    let namespace = format!("t.c{number}");
    let collection = db.collection_or_create(&namespace).unwrap();
    let others = *rng.pick(&[0, 0, 10, 50]);
    for id in 0..rng.in_range(1..60) {
        let mut fields = String::new();
        for name in ["a", "b", "c"] {
            if rng.chance(93) {
                fields += &format!(r#","{name}":{}"#, value(rng, others));
            }
        }
        let id = if rng.chance(50) { format!("{id}.0") } else { format!(r#""{id}""#) };
        collection.insert_one(json(&format!(r#"{{"_id":{id}{}}}"#, fields)).view()).unwrap();
    }
    let key = (*rng.pick(&INDEXES)).to_owned();
    let unique = rng.chance(15);
    let spec = json(&format!(r#"{{"key":{{{key}}},"name":"i","unique":{unique}}}"#));
    if db.create_indexes(&namespace, &[spec]).is_err() {
        db.create_indexes(&namespace, &[json(&format!(r#"{{"key":{{{key}}},"name":"i"}}"#))]).unwrap();
    }
    assert!(collection.validate().unwrap().is_valid());
    (collection, key)
}

/// The stages before a group, and the group.
struct Case {
    filter: &'static str,
    sort: Option<String>,
    cuts: Option<(u64, u64)>,
    group: String,
    collation: Option<&'static str>,
}

impl Case {
    fn random(rng: &mut Rng, key: &str) -> Self {
        let filters =
            ["{}", "{}", r#"{"a":{"$gte":1}}"#, r#"{"a":{"$in":[1,2]}}"#, r#"{"a":1,"b":{"$lt":3}}"#, r#"{"c":1}"#];
        let count = rng.in_range(0..4);
        let fields: Vec<String> = (0..count).map(|at| format!(r#","f{at}":{}"#, *rng.pick(&ACCUMULATORS))).collect();
        Self {
            filter: *rng.pick(&filters),
            sort: rng.chance(25).then(|| format!("{{{key}}}")),
            cuts: rng.chance(15).then(|| (rng.in_range(0..3) as u64, rng.in_range(1..30) as u64)),
            group: format!(r#"{{"$group":{{"_id":{}{}}}}}"#, *rng.pick(&IDS), fields.concat()),
            collation: rng.chance(15).then_some(r#"{"locale":"en","strength":2}"#),
        }
    }

    fn context(&self) -> Context {
        let collation = self.collation.map(json);
        Context::default()
            .collated(collation.and_then(|collation| Collation::parse(&Value::Document(collation.view())).unwrap()))
    }

    fn query(&self, hint: Hint) -> Query {
        let context = self.context();
        let mut query = Query::new(Filter::parse(json(self.filter).view(), &context).unwrap());
        query.sort = self.sort.as_ref().map(|sort| Sort::parse(json(sort).view(), context.collation.as_ref()).unwrap());
        if let Some((skip, limit)) = self.cuts {
            (query.skip, query.limit) = (skip, Some(limit));
        }
        (query.hint, query.collation) = (Some(hint), context.collation);
        query
    }

    /// What a pipeline of the group alone gives over copies of the documents that the query finds.
    fn slow(&self, collection: &Collection, hint: Hint) -> Result<Vec<String>, i32> {
        let found = collection.find(self.query(hint)).map_err(|error| error.code().number())?;
        let stages = json(&format!(r#"{{"v":[{}]}}"#, self.group));
        let pipeline = aggregate::parse(array(&stages), &self.context()).unwrap();
        let documents: Vec<DocumentBuf> =
            found.map(|row| row.map_err(|error| error.code().number())).collect::<Result<_, _>>()?;
        let rows = pipeline.run(Box::new(documents.into_iter().map(Ok)), &Run::new(self.context()));
        shown(rows.map_err(|error| error.code().number())?)
    }

    fn fast(&self, collection: &Collection, hint: Hint, memory: usize) -> Result<Vec<String>, i32> {
        let mut stages = vec![format!(r#"{{"$match":{}}}"#, self.filter)];
        stages.extend(self.sort.iter().map(|sort| format!(r#"{{"$sort":{sort}}}"#)));
        if let Some((skip, limit)) = self.cuts {
            stages.extend([format!(r#"{{"$skip":{skip}}}"#), format!(r#"{{"$limit":{limit}}}"#)]);
        }
        stages.push(self.group.clone());
        let stages = json(&format!(r#"{{"v":[{}]}}"#, stages.join(",")));
        let options = AggregateOptions {
            hint: Some(hint),
            collation: self.collation.map(json),
            memory_bytes_max: memory,
            ..AggregateOptions::default()
        };
        shown(collection.aggregate_with(array(&stages), options).map_err(|error| error.code().number())?)
    }

    /// Whether the keys of an index are enough for the group's fields.
    fn is_keyed(&self, collection: &Collection, hint: Hint) -> bool {
        let names: Vec<String> = ["a", "b", "_id"]
            .iter()
            .map(|name| format!(r#""{name}":{}"#, self.group.contains(&format!("${name}"))))
            .collect();
        let shown = json(&format!("{{{}}}", names.join(",").replace("false", "0").replace("true", "1")));
        let projection = Projection::parse(shown.view(), Use::Pipeline, &self.context());
        let query = Query { needed: projection.ok(), ..self.query(hint) };
        query.needed.is_some() && collection.find(query).is_ok_and(|found| found.key_fields().is_some())
    }
}

fn array(document: &DocumentBuf) -> Array<'_> {
    document.view().get("v").and_then(|value| value.as_array()).unwrap()
}

fn shown(rows: aggregate::Rows) -> Result<Vec<String>, i32> {
    rows.map(|row| Ok(row.map_err(|error| error.code().number())?.view().to_json())).collect()
}

#[test]
fn differential_groups_of_lent_rows_are_those_of_documents() {
    let mut keyed = 0;
    for seed in 0..COLLECTIONS {
        let mut rng = Rng::new(seed);
        let db = open(&SimEnv::new(seed));
        let (collection, key) = collection(&db, &mut rng, seed);
        for _ in 0..PIPELINES {
            let case = Case::random(&mut rng, &key);
            let hint = if rng.chance(20) { Hint::Natural { reverse: false } } else { Hint::Name("i".to_owned()) };
            let mut slow = case.slow(&collection, hint.clone());
            let what = format!(
                "{seed}: {} {:?} {:?} {} {key} {:?}",
                case.filter, case.sort, case.cuts, case.group, case.collation
            );
            assert_eq!(case.fast(&collection, hint.clone(), 100 << 20), slow, "{what}");
            keyed += usize::from(case.is_keyed(&collection, hint.clone()));
            // Groups for which there is no room come in another order, and numbers are not added up in another one.
            let mut little = case.fast(&collection, hint, 600);
            if matches!(little, Err(292)) {
                continue;
            }
            slow.iter_mut().for_each(|rows| rows.sort());
            little.iter_mut().for_each(|rows| rows.sort());
            assert_eq!(little, slow, "{what} in little memory");
        }
    }
    assert!(keyed > 500, "{keyed} cases by keys");
}
