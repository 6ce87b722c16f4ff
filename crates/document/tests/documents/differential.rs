//! An index never changes an answer: random documents, filters, sorts and projections give the same by a scan of the
//! collection, by the plan that is chosen, and by each index that can be used, whatever the collations of the
//! collection, of its indexes and of the query.

use std::sync::Arc;

use spinney::env::sim::SimEnv;
use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value};
use spinney_document::collation::{Collated, Collation};
use spinney_document::collection::WriteOptions;
use spinney_document::exec::Execution;
use spinney_document::expr::Context;
use spinney_document::path::Sort;
use spinney_document::plan::{Hint, Plan, Query};
use spinney_document::projection::{Projection, Use};
use spinney_document::query::Filter;
use spinney_document::{Collection, Database};
use spinney_testkit::rng::Rng;

use super::collections::{json, open};

/// Queries of one collection.
const QUERIES: usize = 100;

/// Collections, unless the variable `SPINNEY_DIFFERENTIAL` says how many.
const COLLECTIONS: u64 = 200;

const SCALARS: [&str; 34] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1.0",
    "2.5",
    r#"{"$numberLong":"2"}"#,
    r#"{"$numberDecimal":"2.50"}"#,
    r#"{"$numberDouble":"NaN"}"#,
    r#"{"$numberDouble":"Infinity"}"#,
    "null",
    "true",
    "false",
    r#""""#,
    r#""a""#,
    r#""ab""#,
    r#""b""#,
    r#"{"$oid":"0102030405060708090a0b0c"}"#,
    r#"{"$date":{"$numberLong":"5"}}"#,
    r#"{"$minKey":1}"#,
    r#"{"$maxKey":1}"#,
    r#"{"$regularExpression":{"pattern":"a","options":""}}"#,
    r#"{"$binary":{"base64":"AQ==","subType":"00"}}"#,
    r#"{"$timestamp":{"t":1,"i":2}}"#,
    r#"{"$undefined":true}"#,
    "4",
    "5",
    r#""A""#,
    r#""aB""#,
    r#""á""#,
    r#""b 10""#,
    r#""B 9""#,
    r#"{"$symbol":"a"}"#,
];

/// Collations of collections, indexes and queries.
const COLLATIONS: [&str; 7] = [
    r#"{"locale":"simple"}"#,
    r#"{"locale":"en","strength":1}"#,
    r#"{"locale":"en","strength":2}"#,
    r#"{"locale":"en"}"#,
    r#"{"locale":"en","numericOrdering":true,"caseFirst":"upper"}"#,
    r#"{"locale":"fr","backwards":true,"alternate":"shifted"}"#,
    r#"{"locale":"da"}"#,
];

const PATHS: [&str; 10] = ["a", "b", "c", "a.b", "a.c", "a.b.c", "b.c", "_id", "a.0", "c.b"];

fn scalar(rng: &mut Rng) -> String {
    // Small numbers are met most often.
    if rng.chance(60) { (*rng.pick(&SCALARS[..6])).to_owned() } else { (*rng.pick(&SCALARS)).to_owned() }
}

fn value(rng: &mut Rng, depth: usize) -> String {
    if depth == 0 {
        return scalar(rng);
    }
    match rng.weighted(&[60, 20, 20]) {
        0 => scalar(rng),
        1 => {
            let values: Vec<_> = (0..rng.in_range(0..4)).map(|_| value(rng, depth - 1)).collect();
            format!("[{}]", values.join(","))
        }
        _ => format!("{{{}}}", fields(rng, &["b", "c"], depth - 1)),
    }
}

fn fields(rng: &mut Rng, names: &[&str], depth: usize) -> String {
    let fields: Vec<_> = names.iter().map(|name| (name, rng.chance(75), value(rng, depth))).collect();
    let fields: Vec<_> = fields
        .into_iter()
        .filter(|(_, there, _)| *there)
        .map(|(name, _, value)| format!(r#""{name}":{value}"#))
        .collect();
    fields.join(",")
}

fn document(rng: &mut Rng, id: usize, depth: usize) -> String {
    let id = match rng.in_range(0..4) {
        0 => format!("{id}.0"),
        1 => format!(r#"{{"$numberLong":"{id}"}}"#),
        2 => format!(r#""{}{id}""#, rng.pick(&["", "a", "A", "á "])),
        _ => id.to_string(),
    };
    let rest = fields(rng, &["a", "b", "c"], depth);
    format!(r#"{{"_id":{id}{}{rest}}}"#, if rest.is_empty() { "" } else { "," })
}

fn test(rng: &mut Rng, depth: usize) -> String {
    match rng.in_range(0..16) {
        0..5 => format!(r#"{{"${}":{}}}"#, rng.pick(&["eq", "gt", "gte", "lt", "lte"]), operand(rng)),
        5..7 => {
            let (low, high) = (scalar(rng), scalar(rng));
            format!(r#"{{"$gte":{low},"$lt":{high}}}"#)
        }
        7..9 => {
            let values: Vec<_> = (0..rng.in_range(0..4)).map(|_| operand(rng)).collect();
            format!(r#"{{"${}":[{}]}}"#, rng.pick(&["in", "in", "nin"]), values.join(","))
        }
        9 => format!(r#"{{"$ne":{}}}"#, operand(rng)),
        10 => format!(r#"{{"$exists":{}}}"#, rng.pick(&["true", "false"])),
        11 => format!(r#"{{"$type":{}}}"#, rng.pick(&["\"number\"", "\"array\"", "\"string\"", "\"object\"", "10"])),
        12 if depth > 0 => format!(r#"{{"$not":{}}}"#, test(rng, depth - 1)),
        13 if depth > 0 => format!(r#"{{"$elemMatch":{}}}"#, test(rng, depth - 1)),
        14 if depth > 0 => format!(r#"{{"$elemMatch":{}}}"#, filter(rng, &["b", "c", "b.c"], depth - 1)),
        15 => format!(
            "{{{}}}",
            rng.pick(&[
                r#""$mod":[2,1]"#,
                r#""$size":2"#,
                r#""$regex":"^a""#,
                r#""$regex":"b""#,
                r#""$bitsAllSet":1"#,
                r#""$all":[1,2]"#
            ])
        ),
        _ => operand(rng),
    }
}

fn operand(rng: &mut Rng) -> String {
    let depth = usize::from(rng.chance(20));
    let operand = value(rng, depth);
    // Comparisons with these are refused.
    if operand.contains("undefined") || operand.contains("regular") { "1".to_owned() } else { operand }
}

fn filter(rng: &mut Rng, paths: &[&str], depth: usize) -> String {
    let mut conditions = Vec::new();
    for _ in 0..rng.in_range(1..4) {
        let path = *rng.pick(paths);
        if !conditions.iter().any(|other: &String| other.starts_with(&format!(r#""{path}":"#))) {
            conditions.push(format!(r#""{path}":{}"#, test(rng, depth)));
        }
    }
    if depth > 0 && rng.chance(25) {
        // Of more than fifty branches, those over one index become one scan.
        let count = if rng.chance(4) { rng.in_range(51..60) } else { rng.in_range(1..4) };
        let parts: Vec<_> = (0..count).map(|_| filter(rng, paths, depth - 1)).collect();
        let list = format!(r#""${}":[{}]"#, rng.pick(&["or", "or", "and", "nor"]), parts.join(","));
        if rng.chance(60) {
            conditions.clear();
        }
        conditions.push(list);
    }
    format!("{{{}}}", conditions.join(","))
}

fn pattern(rng: &mut Rng, paths: &[&str]) -> String {
    let mut fields: Vec<String> = Vec::new();
    for _ in 0..rng.in_range(1..4) {
        let path = *rng.pick(paths);
        if !fields.iter().any(|other| other.starts_with(&format!(r#""{path}":"#))) {
            fields.push(format!(r#""{path}":{}"#, rng.pick(&["1", "-1"])));
        }
    }
    format!("{{{}}}", fields.join(","))
}

fn index(rng: &mut Rng, number: usize) -> String {
    let options = match rng.in_range(0..10) {
        0 => r#","sparse":true"#.to_owned(),
        1 => format!(
            r#","partialFilterExpression":{}"#,
            rng.pick(&[
                r#"{"a":{"$gt":1}}"#,
                r#"{"b":{"$exists":true}}"#,
                r#"{"a":{"$lte":2},"c":1}"#,
                r#"{"$or":[{"a":1},{"b":{"$type":"number"}}]}"#,
                r#"{"a":{"$gte":"A"}}"#
            ])
        ),
        _ => String::new(),
    };
    let key = match rng.in_range(0..14) {
        0 => r#"{"$**":1}"#.to_owned(),
        1 => r#"{"a.$**":1}"#.to_owned(),
        2 => r#"{"a":"hashed"}"#.to_owned(),
        3 => r#"{"b":1,"c":"hashed","a":-1}"#.to_owned(),
        4 => return format!(r#"{{"key":{{"c":-1,"$**":1}},"name":"index {number}","wildcardProjection":{{"c":0}}}}"#),
        5 => return format!(r#"{{"key":{{"a.$**":-1,"b":1}},"name":"index {number}"}}"#),
        _ => pattern(rng, &PATHS[..8]),
    };
    let options = if key.contains("**") || key.contains("hashed") { String::new() } else { options };
    let collation = match rng.chance(40) {
        true => format!(r#","collation":{}"#, rng.pick(&COLLATIONS)),
        false => String::new(),
    };
    format!(r#"{{"key":{key},"name":"index {number}"{options}{collation}}}"#)
}

fn name_of(spec: &str) -> String {
    json(spec).view().get("name").and_then(|name| name.as_str()).unwrap().to_owned()
}

struct Case {
    filter: String,
    sort: Option<String>,
    projection: Option<String>,
    limits: Option<(u64, u64)>,
    /// The collation of the query, if it is another than that of the collection.
    collation: Option<&'static str>,
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let filter = if rng.chance(5) { "{}".to_owned() } else { filter(rng, &PATHS, 2) };
        let sort = rng.chance(50).then(|| pattern(rng, &PATHS[..8]));
        let shown =
            [r#"{"a":1,"_id":0}"#, r#"{"a":1,"b":1}"#, r#"{"a.b":1,"c":1,"a.c":1}"#, r#"{"_id":1}"#, r#"{"a":0}"#];
        let projection = rng.chance(60).then(|| String::from(shown[rng.in_range(0..shown.len())]));
        let limits = rng.chance(30).then(|| (rng.in_range(0..3) as u64, rng.in_range(1..6) as u64));
        let collation = rng.chance(30).then(|| *rng.pick(&COLLATIONS));
        Self { filter, sort, projection, limits, collation }
    }

    /// A query for what an index has.
    fn of_index(rng: &mut Rng, specs: &[String]) -> Self {
        let mut case = Self::random(rng);
        if specs.is_empty() {
            return case;
        }
        let spec = json(&specs[rng.in_range(0..specs.len())]);
        let key = spec.view().get("key").and_then(|key| key.as_document()).unwrap();
        let paths: Vec<String> = key.elements().map(|element| element.name.to_string()).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).filter(|path| !path.contains('$')).collect();
        if !paths.is_empty() {
            case.filter = filter(rng, &paths, 1);
            case.sort = rng.chance(40).then(|| pattern(rng, &paths));
            let shown: Vec<_> = paths.iter().map(|path| format!(r#""{path}":1"#)).collect();
            case.projection = Some(format!("{{{}}}", shown.join(",")));
        }
        case
    }

    /// How the query compares strings.
    fn collated(&self, collection: &Collection) -> Collated {
        match self.collation {
            None => collection.schema().options.collation.clone(),
            Some(text) => Collation::parse(&Value::Document(json(text).view())).unwrap(),
        }
    }

    fn query(&self, collection: &Collection, hint: Option<Hint>) -> Result<Query, spinney_document::Error> {
        let context = Context::default().collated(self.collated(collection));
        let mut query = Query::new(Filter::parse(json(&self.filter).view(), &context)?);
        query.sort =
            self.sort.as_deref().map(|sort| Sort::parse(json(sort).view(), context.collation.as_ref())).transpose()?;
        let projection =
            self.projection.as_ref().map(|shown| Projection::parse(json(shown).view(), Use::Find, &context));
        query.projection = projection.transpose()?;
        if let Some((skip, limit)) = self.limits {
            (query.skip, query.limit) = (skip, Some(limit));
        }
        query.hint = hint;
        query.collation = context.collation;
        Ok(query)
    }
}

/// Documents as text; in any order without a sort.
fn run(collection: &Collection, case: &Case, hint: Option<Hint>) -> Result<(Vec<String>, String), String> {
    let query = case.query(collection, hint).map_err(|error| format!("unusable {error}"))?;
    let execution = collection.find(query).map_err(|error| format!("refused {}", error.code().number()))?;
    answer(execution, case)
}

fn answer(mut execution: Execution<'_>, case: &Case) -> Result<(Vec<String>, String), String> {
    let plan = format!("{:?}", execution.plan());
    let (mut shown, mut failed) = (Vec::new(), None);
    loop {
        match execution.advance() {
            Ok(Some(document)) => shown.push(with_fields_in_order(&document)),
            Ok(None) => break,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if let Some(error) = failed {
        return Err(format!("failed {}", error.code().number()));
    }
    if case.sort.is_none() && case.limits.is_none() {
        shown.sort();
    }
    Ok((shown, plan))
}

/// A document as text, its fields in the order of their names: those that are made of keys are in the order of the
/// index.
fn with_fields_in_order(document: &DocumentBuf) -> String {
    let mut elements: Vec<_> = document.view().elements().collect();
    elements.sort_by_key(|element| element.name.to_string());
    let mut builder = DocumentBuilder::new();
    for element in elements {
        match element.value {
            Value::Document(inner) => {
                let mut inner: Vec<_> = inner.elements().collect();
                inner.sort_by_key(|element| element.name.to_string());
                builder.open_document(element.name.as_bytes());
                inner.iter().for_each(|element| {
                    builder.append_element(element);
                });
                builder.close();
            }
            _ => {
                builder.append_element(&element);
            }
        }
    }
    builder.finish().view().to_json()
}

/// The sort keys of the documents of a query, and the documents in any order.
fn check(collection: &Collection, case: &Case, hint: Option<Hint>, whole: &[DocumentBuf], what: &str) {
    let plain = run(collection, case, Some(Hint::Natural { reverse: false }));
    let planned = run(collection, case, hint);
    let tell = || {
        format!(
            "{what}\nfilter {} sort {:?} projection {:?} limits {:?} collation {:?}",
            case.filter, case.sort, case.projection, case.limits, case.collation
        )
    };
    match (plain, planned) {
        (_, Err(error)) if error == "refused 291" => {}
        (Err(a), Err(b)) => assert_eq!(a, b, "{}", tell()),
        (Ok((plain, _)), Ok((planned, plan))) => {
            if case.limits.is_none() && case.sort.is_none() {
                assert_eq!(plain, planned, "{}\n{plan}", tell());
                return;
            }
            assert_eq!(plain.len(), planned.len(), "{}\n{plan}", tell());
            if case.projection.is_some() {
                return;
            }
            let Some(sort) = &case.sort else {
                return planned
                    .iter()
                    .for_each(|one| assert!(whole.iter().any(|all| with_fields_in_order(all) == *one), "{}", tell()));
            };
            let sort = Sort::parse(json(sort).view(), case.collated(collection).as_ref()).unwrap();
            let keys = |shown: &[String]| -> Vec<_> {
                shown.iter().map(|shown| sort.key(json(shown).view()).unwrap()).collect()
            };
            let same = keys(&plain).iter().zip(&keys(&planned)).all(|(a, b)| sort.compare(a, b).is_eq());
            assert!(same, "{}\n{plan}\nplain   {plain:?}\nplanned {planned:?}", tell());
            if case.limits.is_none() {
                let sorted = |mut shown: Vec<String>| {
                    shown.sort();
                    shown
                };
                assert_eq!(sorted(plain), sorted(planned), "{}\n{plan}", tell());
            }
        }
        (Err(error), Ok((_, plan))) | (Ok((_, plan)), Err(error)) => {
            // A sort of parallel arrays is refused only where documents are sorted.
            assert!(error == "failed 2" && case.sort.is_some(), "{}\n{plan}\n{error}", tell());
        }
    }
}

#[test]
fn an_index_never_changes_an_answer() {
    let collections = std::env::var("SPINNEY_DIFFERENTIAL").ok().and_then(|count| count.parse().ok());
    let first: u64 = std::env::var("SPINNEY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (mut covered, mut cases) = (0, 0);
    for seed in first..first + collections.unwrap_or(COLLECTIONS) {
        let mut rng = Rng::new(seed);
        let db = open(&SimEnv::new(seed));
        let default = rng.chance(40).then(|| format!(r#"{{"collation":{}}}"#, rng.pick(&COLLATIONS)));
        db.create_collection("d.c", json(default.as_deref().unwrap_or("{}")).view()).unwrap();
        let collection = db.collection("d.c").unwrap().unwrap();
        let mut specs: Vec<String> = Vec::new();
        for number in 0..rng.in_range(1..5) {
            let spec = index(&mut rng, number);
            if matches!(db.create_indexes("d.c", &[json(&spec)]), Ok(1)) && !spec.contains(r#"{"_id":1}"#) {
                specs.push(spec);
            }
        }
        // Few arrays in some collections, so that not all indexes are multikey.
        let depth = rng.in_range(0..4);
        let documents: Vec<_> = (0..rng.in_range(1..50)).map(|id| json(&document(&mut rng, id, depth))).collect();
        // Some have parallel arrays and cannot be indexed.
        collection.insert_many(documents.iter().map(DocumentBuf::view), false, WriteOptions::default()).unwrap();
        let whole: Vec<_> = collection.documents().map(Result::unwrap).collect();
        for _ in 0..QUERIES {
            let case = if rng.chance(30) { Case::of_index(&mut rng, &specs) } else { Case::random(&mut rng) };
            let what = format!("seed {seed} options {default:?} indexes {specs:?}");
            cases += 1;
            check(&collection, &case, None, &whole, &what);
            for spec in &specs {
                // An index that lacks documents may be forced, and tells less then.
                if !spec.contains("sparse") && !spec.contains("partialFilterExpression") {
                    check(&collection, &case, Some(Hint::Name(name_of(spec))), &whole, &what);
                }
            }
            if let Ok(query) = case.query(&collection, None)
                && matches!(collection.find(query).unwrap().plan(), Plan::Covered(_))
            {
                covered += 1;
            }
        }
        let in_transaction = Case::random(&mut rng);
        transaction_sees_its_writes(&db, &collection, &in_transaction, &mut rng, depth);
    }
    assert!(covered * 100 > cases, "hardly any query was covered: {covered} of {cases}");
}

#[test]
fn an_index_covers_dotted_fields_and_those_beside_arrays() {
    let db = open(&SimEnv::new(1));
    let collection = db.collection_or_create("d.c").unwrap();
    db.create_indexes("d.c", &[json(r#"{"key":{"a.b":1,"c":1},"name":"ab_c"}"#)]).unwrap();
    let insert = |text: &str| collection.insert_one(json(text).view()).unwrap();
    let is_covered = |filter: &str, projection: &str| {
        let (filter, projection) = (filter.to_owned(), Some(projection.to_owned()));
        let case = Case { filter, sort: None, projection, limits: None, collation: None };
        let whole: Vec<_> = collection.documents().map(Result::unwrap).collect();
        check(&collection, &case, None, &whole, "arrays beside");
        matches!(collection.find(case.query(&collection, None).unwrap()).unwrap().plan(), Plan::Covered(_))
    };
    for text in [
        r#"{"_id":1,"a":{"b":1},"c":1}"#,
        r#"{"_id":2,"a":{"b":2,"x":1},"c":2}"#,
        r#"{"_id":3,"a":{},"c":3}"#,
        r#"{"_id":4,"a":5,"c":4}"#,
        r#"{"_id":5,"c":5}"#,
    ] {
        insert(text);
    }
    let (filter, shown) = (r#"{"a.b":{"$gte":0}}"#, r#"{"a.b":1,"_id":0}"#);
    assert!(is_covered(filter, shown) && is_covered(filter, r#"{"a":{"b":1},"c":1,"_id":0}"#));
    assert!(is_covered(r#"{"a.b":null}"#, shown), "the documents are fetched");
    insert(r#"{"_id":6,"a":{"b":3},"c":[1,2,2,7]}"#);
    assert!(is_covered(filter, shown) && is_covered(filter, r#"{"a.b":1}"#));
    assert!(!is_covered(filter, r#"{"a.b":1,"c":1,"_id":0}"#) && !is_covered(r#"{"a.b":3,"c":7}"#, shown));
    let group = json(r#"{"v":[{"$group":{"_id":"$a.b","n":{"$sum":1}}},{"$match":{"_id":3}}]}"#);
    let group = group.view().get("v").unwrap().as_array().unwrap();
    let groups: Vec<_> = collection.aggregate(group).unwrap().map(|group| group.unwrap().view().to_json()).collect();
    assert_eq!(groups, [r#"{"_id":3,"n":1}"#], "a document is counted once");
    insert(r#"{"_id":7,"a":[{"b":1},{"b":8}],"c":1}"#);
    assert!(!is_covered(filter, shown));
}

/// The same within a transaction that has written.
fn transaction_sees_its_writes(db: &Database, collection: &Collection, case: &Case, rng: &mut Rng, depth: usize) {
    let mut txn = db.begin();
    for id in 100..110 {
        let document = document(rng, id, depth);
        // What cannot be indexed stays out.
        let _refused = txn.insert(collection.state(), json(&document).view()).is_err();
    }
    let mut answers = Vec::new();
    for hint in [Some(Hint::Natural { reverse: false }), None] {
        let Ok(query) = case.query(collection, hint) else { return };
        let execution = Execution::open(Box::new(txn.engine()), collection.state(), Arc::new(query)).unwrap();
        answers.push(answer(execution, case));
    }
    if case.limits.is_none() && case.sort.is_none() {
        assert_eq!(answers[0].as_ref().map(|(shown, _)| shown), answers[1].as_ref().map(|(shown, _)| shown));
    }
}
