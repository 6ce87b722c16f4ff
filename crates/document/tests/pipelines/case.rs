//! A case: documents, indexes, views and a pipeline; how it is run, compared and made smaller.

use std::collections::BTreeMap;
use std::sync::Arc;

use spinney::env::sim::SimEnv;
use spinney_document::Database;
use spinney_document::bson::{Array, Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use spinney_document::command::Service;
use spinney_document::pipeline::aggregation::AggregateOptions;
use spinney_document::pipeline::{Rewrite, Rewrites};
use spinney_document::plan::Hint;
use spinney_testkit::rng::Rng;

use super::draw::{self, State};
use super::plain::Plain;

/// A document of JSON with single quotes.
pub(crate) fn json(text: &str) -> DocumentBuf {
    DocumentBuf::from_json(&text.replace('\'', "\"")).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// An array of stages, in a document under the name `v`.
pub(crate) fn stages_of(text: &str) -> DocumentBuf {
    json(&format!("{{'v':{text}}}"))
}

pub(crate) fn array(document: &DocumentBuf) -> Array<'_> {
    document.view().get("v").and_then(|value| value.as_array()).unwrap()
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    documents: Vec<String>,
    others: Vec<String>,
    indexes: Vec<(&'static str, String)>,
    /// Whether the collections of the database with indexes are made as clustered ones.
    clustered: bool,
    /// Name, what it is on, and stages, in the order in which they are made.
    views: Vec<(&'static str, &'static str, Vec<String>)>,
    /// What is known of the documents of each view.
    states: BTreeMap<&'static str, State>,
    source: &'static str,
    stages: Vec<String>,
    state: State,
    /// How the pipeline runs besides the usual way.
    way: Way,
}

/// One way to run.
#[derive(Clone, Debug)]
struct Way {
    /// The short cuts that are not taken.
    off: Vec<Rewrite>,
    /// Whether the collection is read by no index.
    natural: bool,
    /// Whether the limit of memory is that small that stages spill.
    spills: bool,
}

impl Way {
    const fn usual() -> Self {
        Self { off: Vec::new(), natural: false, spills: false }
    }

    fn draw(rng: &mut Rng) -> Self {
        let off = match rng.in_range(0..10) {
            0..5 => vec![*rng.pick(&Rewrite::ALL)],
            5..7 => Rewrite::ALL.into_iter().filter(|_| rng.chance(40)).collect(),
            7 => Rewrite::ALL.to_vec(),
            _ => Vec::new(),
        };
        Self { off, natural: rng.chance(10), spills: rng.chance(10) }
    }

    fn options(&self) -> AggregateOptions {
        AggregateOptions {
            rewrites: self.off.iter().fold(Rewrites::default(), |rewrites, off| rewrites.without(*off)),
            hint: self.natural.then_some(Hint::Natural { reverse: false }),
            memory_bytes_max: if self.spills { 300 } else { 100 << 20 },
            ..AggregateOptions::default()
        }
    }
}

pub(crate) enum Outcome {
    Same,
    /// The stages one by one are refused.
    Refused,
    /// The answer depends on an order that there is not.
    Unordered,
    Differs(String),
}

/// The same documents as plain ones, in a database without indexes, and in one with indexes.
pub(crate) struct World {
    pub(crate) plain: Arc<Plain>,
    pub(crate) natural: Service,
    pub(crate) indexed: Service,
}

/// Stages as an array.
pub(crate) fn joined(stages: &[String]) -> String {
    format!("[{}]", stages.join(","))
}

impl Case {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let values = *rng.pick(&draw::Values::ALL);
        let documents = (0..rng.in_range(1..12)).map(|id| draw::document(rng, id, values)).collect();
        let others = (0..rng.in_range(0..6)).map(|id| draw::document(rng, id, values)).collect();
        let indexes = (0..rng.in_range(0..5)).map(|number| (*rng.pick(&["c", "c", "o"]), draw::index(rng, number)));
        let indexes = indexes.collect();
        let mut case = Self {
            documents,
            others,
            indexes,
            clustered: rng.chance(25),
            views: Vec::new(),
            states: BTreeMap::from([("c", State::of_collection()), ("o", State::of_collection())]),
            source: "c",
            stages: Vec::new(),
            state: State::of_collection(),
            way: Way::usual(),
        };
        for (name, on) in [("v1", "c"), ("v2", "v1"), ("v3", "c"), ("w", "o")] {
            let mut state = case.states[on].clone();
            let stages = draw::view(rng, &mut state);
            case.views.push((name, on, stages));
            case.states.insert(name, state);
        }
        case
    }

    pub(crate) fn draw_pipeline(&mut self, rng: &mut Rng) {
        self.source = *rng.pick(&["c", "c", "c", "v1", "v2", "v3"]);
        self.state = self.states[self.source].clone();
        self.stages = draw::pipeline(rng, &mut self.state);
        self.way = Way::draw(rng);
    }

    pub(crate) fn open(&self) -> World {
        let documents = |texts: &[String]| texts.iter().map(|text| json(text)).collect::<Vec<_>>();
        let collections = [("c".to_owned(), documents(&self.documents)), ("o".to_owned(), documents(&self.others))];
        let views =
            self.views.iter().map(|(name, on, stages)| ((*name).to_owned(), ((*on).to_owned(), joined(stages))));
        let plain = Arc::new(Plain { collections: collections.into(), views: views.collect() });
        World { natural: self.database(&plain, false), indexed: self.database(&plain, true), plain }
    }

    fn database(&self, plain: &Plain, indexed: bool) -> Service {
        let engine = spinney::Database::builder("/db").env(SimEnv::new(1).env()).open().unwrap();
        let db = Database::with_engine(engine).unwrap();
        for (name, documents) in &plain.collections {
            if indexed && self.clustered {
                let options = json("{'clusteredIndex':{'key':{'_id':1},'unique':true}}");
                db.create_collection(&format!("d.{name}"), options.view()).unwrap();
            }
            let collection = db.collection_or_create(&format!("d.{name}")).unwrap();
            for document in documents {
                collection.insert_one(document.view()).unwrap();
            }
        }
        for (on, spec) in self.indexes.iter().filter(|_| indexed) {
            // Parallel arrays cannot be indexed, and of two equal indexes there is one.
            let _refused = db.create_indexes(&format!("d.{on}"), &[json(spec)]).is_err();
        }
        for (name, on, stages) in &self.views {
            let options = json(&format!("{{'viewOn':'{on}','pipeline':{}}}", joined(stages)));
            db.create_collection(&format!("d.{name}"), options.view()).unwrap();
        }
        Service::new(db)
    }

    pub(crate) fn run(&self, world: &World) -> Outcome {
        let stages = stages_of(&joined(&self.stages));
        let Ok(expected) = world.plain.run(self.source, array(&stages)) else { return Outcome::Refused };
        let way = self.way.options();
        let usual = AggregateOptions::default();
        // Without an index documents come in one order, so that each answer is known to its last byte.
        let is_fixed = self.state.is_fixed && !self.way.spills;
        if is_fixed || self.state.is_safe {
            let shown: Shown<'_> = if is_fixed { &exact } else { &in_any_order };
            for (how, options) in [("usual", &usual), ("way", &way)] {
                if let Some(what) = differ(world.natural.database(), self, options, &expected, shown) {
                    return Outcome::Differs(format!("without indexes, {how}: {what}"));
                }
            }
        }
        if !self.state.is_safe {
            return if self.state.is_fixed { Outcome::Same } else { Outcome::Unordered };
        }
        let shown: Shown<'_> = if self.state.ordered { &in_this_order } else { &in_any_order };
        for (how, options) in [("usual", &usual), ("way", &way)] {
            if let Some(what) = differ(world.indexed.database(), self, options, &expected, shown) {
                return Outcome::Differs(format!("with indexes, {how}: {what}"));
            }
        }
        Outcome::Same
    }

    /// The smallest case that still differs, as text.
    pub(crate) fn smallest(&self) -> String {
        let mut case = self.clone();
        let differs = |case: &Self| match case.run(&case.open()) {
            Outcome::Differs(what) => Some(what),
            _ => None,
        };
        let mut what = differs(&case).unwrap_or_default();
        loop {
            // What is left of a pipeline that needs an order may have none, which is no matter without indexes.
            let ordered = case.stages.iter().any(|stage| draw::ORDERED.iter().any(|name| stage.contains(name)));
            let smaller = case.smaller().into_iter().find_map(|smaller| {
                let found = differs(&smaller)?;
                let same_stages = smaller.stages.len() == case.stages.len();
                (!ordered || same_stages || found.starts_with("without")).then_some((smaller, found))
            });
            let Some(next) = smaller else { break };
            (case, what) = next;
        }
        format!(
            "documents {:#?}\nothers {:?}\nindexes {:?}\nclustered {}\nviews {:?}\nover {}: {}\n{:?}\n{what}",
            case.documents,
            case.others,
            case.indexes,
            case.clustered,
            case.views,
            case.source,
            joined(&case.stages),
            case.way
        )
    }

    /// Cases with one thing less.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut push = |change: &dyn Fn(&mut Self)| {
            let mut case = self.clone();
            change(&mut case);
            all.push(case);
        };
        for at in 0..self.stages.len() {
            push(&|case| drop(case.stages.remove(at)));
        }
        for view in 0..self.views.len() {
            for at in 0..self.views[view].2.len() {
                push(&|case| drop(case.views[view].2.remove(at)));
            }
        }
        for at in 0..self.documents.len() {
            push(&|case| drop(case.documents.remove(at)));
        }
        for at in 0..self.others.len() {
            push(&|case| drop(case.others.remove(at)));
        }
        for at in 0..self.indexes.len() {
            push(&|case| drop(case.indexes.remove(at)));
        }
        all
    }
}

type Shown<'s> = &'s dyn Fn(&[DocumentBuf]) -> Vec<String>;

/// What differs, if anything.
fn differ(
    db: &Database,
    case: &Case,
    options: &AggregateOptions,
    expected: &[DocumentBuf],
    shown: Shown<'_>,
) -> Option<String> {
    let stages = stages_of(&joined(&case.stages));
    let rows = db.aggregate_on(&format!("d.{}", case.source), array(&stages), options.clone());
    match rows.and_then(Iterator::collect::<Result<Vec<DocumentBuf>, _>>) {
        // A stage that cannot spill is refused past the limit of memory.
        Err(error) if case.way.spills && [292, 146].contains(&error.code().number()) => None,
        Err(error) => Some(format!("refused: {error}")),
        Ok(found) => {
            let (found, expected) = (shown(&found), shown(expected));
            (found != expected).then(|| format!("\nfound    {found:?}\nexpected {expected:?}"))
        }
    }
}

/// Documents in their order, to the last byte.
fn exact(documents: &[DocumentBuf]) -> Vec<String> {
    documents.iter().map(|document| document.view().to_json()).collect()
}

/// Documents in any order, with fields and arrays in any order: an index gives both in its own.
pub(crate) fn in_any_order(documents: &[DocumentBuf]) -> Vec<String> {
    let mut all: Vec<String> = documents.iter().map(|document| sorted(document.view()).view().to_json()).collect();
    all.sort();
    all
}

/// Documents in their order, with fields and arrays in any.
pub(crate) fn in_this_order(documents: &[DocumentBuf]) -> Vec<String> {
    documents.iter().map(|document| sorted(document.view()).view().to_json()).collect()
}

fn sorted(document: Document<'_>) -> DocumentBuf {
    let mut elements: Vec<_> = document.elements().map(|element| (element.name.to_string(), element.value)).collect();
    elements.sort_by(|a, b| a.0.cmp(&b.0));
    let mut builder = DocumentBuilder::new();
    for (name, value) in elements {
        builder.append(&name, sorted_value(value).view());
    }
    builder.finish()
}

fn sorted_value(value: Value<'_>) -> ValueBuf {
    match value {
        Value::Document(inner) => sorted(inner).into(),
        Value::Array(values) => {
            let mut values: Vec<ValueBuf> = values.values().map(sorted_value).collect();
            values.sort_by_key(|value| value.view().to_json());
            ValueBuf::array(values.iter().map(ValueBuf::view))
        }
        value => match value.as_f64() {
            // Of equal numbers a group keeps the first.
            Some(number) => Value::Double(if number == 0.0 { 0.0 } else { number }).into(),
            None => value.into(),
        },
    }
}
