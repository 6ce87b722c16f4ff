//! Random documents, indexes, views and pipelines: a generator for each stage of the table of stages.

use spinney_document::aggregate;
use spinney_document::expr::Context;
use spinney_testkit::rng::Rng;

use super::case::{array, joined, stages_of};

/// What is known of the documents that a pipeline gives so far.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Each has another `_id`, that sorts before or after all others: an array sorts as its least or greatest value.
    pub(crate) unique: bool,
    /// Their order is the same by whatever index they are found.
    pub(crate) ordered: bool,
    /// The documents are the same by whatever index they are found.
    pub(crate) is_safe: bool,
    /// The documents and their order are the same each time that no index is there.
    pub(crate) is_fixed: bool,
    /// An array of the documents has its values in the order of an index, or in none.
    has_loose_array: bool,
    /// Pipelines around this one.
    depth: usize,
}

impl State {
    pub(crate) const fn of_collection() -> Self {
        Self { unique: true, ordered: false, is_safe: true, is_fixed: true, has_loose_array: false, depth: 0 }
    }

    /// The next stage depends on the order.
    fn needs_order(&mut self) {
        self.is_safe &= self.ordered;
    }
}

/// How a stage is drawn.
pub(crate) enum Draw {
    By(fn(&mut Rng, &mut State) -> String),
    /// Why it is not.
    Not(&'static str),
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// How often it is drawn.
    weight: usize,
    pub(crate) draw: Draw,
}

/// Parts of stages that depend on an order.
pub(crate) const ORDERED: &[&str] = &["$limit", "$skip", "$push", "$first", "$last", "$setWindowFields"];

const fn by(name: &'static str, weight: usize, draw: fn(&mut Rng, &mut State) -> String) -> Row {
    Row { name, weight, draw: Draw::By(draw) }
}

const fn not(name: &'static str, why: &'static str) -> Row {
    Row { name, weight: 0, draw: Draw::Not(why) }
}

const WRITES: &str = "it writes: what it writes are the documents of the stages before it";
const REPORTS: &str = "it reports on the server or a collection, and reads no documents";
const REFUSED: &str = "it is refused";

/// The stages.
pub(crate) const STAGES: &[Row] = &[
    by("$match", 20, |rng, state| {
        let filter = filter(rng, 1);
        // Each of several ranges of `_id` may be read on its own.
        state.is_fixed &= !(filter.contains("$or") && filter.contains("_id"));
        format!("{{'$match':{filter}}}")
    }),
    by("$project", 20, project),
    by("$addFields", 3, |rng, state| added(rng, state, "$addFields")),
    by("$set", 8, |rng, state| added(rng, state, "$set")),
    by("$unset", 6, |rng, _| format!("{{'$unset':'{}'}}", rng.pick(&["a", "b", "a.b", "c", "n"]))),
    by("$limit", 7, |rng, state| {
        state.needs_order();
        format!("{{'$limit':{}}}", rng.in_range(1..8))
    }),
    by("$skip", 5, |rng, state| {
        state.needs_order();
        format!("{{'$skip':{}}}", rng.in_range(0..4))
    }),
    by("$count", 3, |_, state| {
        (state.unique, state.ordered) = (false, true);
        "{'$count':'n'}".to_owned()
    }),
    by("$replaceRoot", 2, |rng, state| replaced(rng, state, "{'$replaceRoot':{'newRoot':", "}}")),
    by("$replaceWith", 3, |rng, state| replaced(rng, state, "{'$replaceWith':", "}")),
    by("$redact", 2, |rng, _| {
        let kept = rng.pick(&["$$DESCEND", "$$KEEP"]);
        format!("{{'$redact':{{'$cond':[{{'$eq':['${}',1]}},'$$PRUNE','{kept}']}}}}", rng.pick(&["b", "a", "n"]))
    }),
    not("$documents", "it is part of what $unionWith draws: it stands over no collection"),
    by("$sample", 1, |_, state| {
        (state.ordered, state.is_fixed) = (false, false);
        "{'$sample':{'size':1000}}".to_owned()
    }),
    by("$facet", 2, facet),
    by("$sort", 14, sort),
    by("$unwind", 8, unwind),
    by("$group", 18, group),
    by("$sortByCount", 5, |rng, state| {
        (state.unique, state.ordered) = (false, false);
        format!(
            "{{'$sortByCount':{}}}",
            if rng.chance(60) { format!("'${}'", rng.pick(&PATHS)) } else { computed(rng) }
        )
    }),
    by("$bucket", 4, |rng, state| {
        (state.unique, state.ordered) = (true, true);
        format!("{{'$bucket':{{'groupBy':'${}','boundaries':[0,2,4],'default':'other'}}}}", rng.pick(&["a", "b", "n"]))
    }),
    by("$bucketAuto", 2, |rng, state| {
        (state.unique, state.ordered) = (true, true);
        format!("{{'$bucketAuto':{{'groupBy':'${}','buckets':{}}}}}", rng.pick(&["n", "_id"]), rng.in_range(1..4))
    }),
    by("$setWindowFields", 3, |rng, state| {
        state.is_safe &= state.unique;
        state.ordered &= state.unique;
        format!(
            "{{'$setWindowFields':{{'partitionBy':'${}','sortBy':{{'_id':1}},'output':{{'w':{{'$sum':'$n','window':{{'documents':['unbounded','current']}}}}}}}}}}",
            rng.pick(&["a", "b", "n"])
        )
    }),
    by("$fill", 2, |rng, _| format!("{{'$fill':{{'output':{{'{}':{{'value':7}}}}}}}}", rng.pick(&["a", "b", "z"]))),
    by("$densify", 1, |_, state| {
        (state.unique, state.ordered) = (false, false);
        "{'$densify':{'field':'n','range':{'step':1,'bounds':'full'}}}".to_owned()
    }),
    by("$lookup", 7, lookup),
    by("$graphLookup", 2, |rng, state| {
        let from = *rng.pick(&["o", "o", "w", "v1"]);
        // Of a view's documents with one `_id` the first is taken.
        state.is_safe &= from == "o";
        format!(
            "{{'$graphLookup':{{'from':'{from}','startWith':'${}','connectFromField':'{}','connectToField':'{}','as':'j'}}}}",
            rng.pick(&["a", "n"]),
            rng.pick(&["a", "n"]),
            rng.pick(&["n", "_id", "b"])
        )
    }),
    by("$unionWith", 5, union_with),
    not("$out", WRITES),
    not("$merge", WRITES),
    not("$changeStream", REFUSED),
    not("$changeStreamSplitLargeEvent", REFUSED),
    not("$geoNear", REFUSED),
    not("$search", REFUSED),
    not("$searchMeta", REFUSED),
    not("$vectorSearch", REFUSED),
    not("$listSearchIndexes", REFUSED),
    not("$rankFusion", REFUSED),
    not("$scoreFusion", REFUSED),
    not("$collStats", REPORTS),
    not("$indexStats", REPORTS),
    not("$planCacheStats", REPORTS),
    not("$currentOp", REPORTS),
    not("$listSessions", REPORTS),
    not("$listLocalSessions", REPORTS),
    not("$listClusterCatalog", REPORTS),
    not("$querySettings", REPORTS),
];

const PATHS: [&str; 7] = ["a", "b", "c", "n", "a.b", "c.b", "_id"];

fn scalar(rng: &mut Rng) -> &'static str {
    const SCALARS: [&str; 11] = ["0", "1", "2", "3", "1", "2", "2.5", "null", "'x'", "'y'", "true"];
    SCALARS[rng.in_range(0..SCALARS.len())]
}

fn value(rng: &mut Rng, depth: usize) -> String {
    match rng.weighted(&[70, 15, 15]) {
        1 if depth > 0 => {
            let values: Vec<_> = (0..rng.in_range(0..3)).map(|_| value(rng, depth - 1)).collect();
            format!("[{}]", values.join(","))
        }
        2 if depth > 0 => format!("{{'b':{}}}", value(rng, depth - 1)),
        _ => scalar(rng).to_owned(),
    }
}

/// What the values of documents are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// No arrays nor documents: an index on a field that has an array covers nothing.
    Flat,
    /// Many arrays, of several values: an index has some of them within bounds, and others beyond.
    Arrays,
    Nested,
}

impl Values {
    pub(crate) const ALL: [Self; 3] = [Self::Flat, Self::Arrays, Self::Nested];

    fn draw(self, rng: &mut Rng) -> String {
        match self {
            Self::Arrays if rng.chance(50) => {
                let values: Vec<_> = (0..rng.in_range(0..4)).map(|_| scalar(rng)).collect();
                format!("[{}]", values.join(","))
            }
            Self::Flat | Self::Arrays => scalar(rng).to_owned(),
            Self::Nested => value(rng, 2),
        }
    }
}

pub(crate) fn document(rng: &mut Rng, id: usize, values: Values) -> String {
    let mut fields = vec![format!("'_id':{id}")];
    for name in ["a", "b", "c"] {
        if rng.chance(75) {
            fields.push(format!("'{name}':{}", values.draw(rng)));
        }
    }
    fields.push(format!("'n':{}", rng.in_range(0..5)));
    format!("{{{}}}", fields.join(","))
}

pub(crate) fn index(rng: &mut Rng, number: usize) -> String {
    let mut keys: Vec<String> = Vec::new();
    for _ in 0..rng.in_range(1..4) {
        let path = rng.pick(&PATHS[..6]);
        if !keys.iter().any(|key| key.starts_with(&format!("'{path}'"))) {
            keys.push(format!("'{path}':{}", rng.pick(&["1", "-1"])));
        }
    }
    let sparse = if rng.chance(10) { ",'sparse':true" } else { "" };
    format!("{{'key':{{{}}},'name':'i{number}'{sparse}}}", keys.join(","))
}

/// A filter that the bounds of an index give.
pub(crate) fn range(rng: &mut Rng, path: &str) -> String {
    let (operator, value) = (rng.pick(&["$gt", "$gte", "$lt", "$lte"]), rng.in_range(0..4));
    format!("{{'{path}':{{'{operator}':{value}}}}}")
}

pub(crate) fn filter(rng: &mut Rng, depth: usize) -> String {
    let path = *rng.pick(&PATHS);
    let test = match rng.in_range(0..9) {
        0 => format!("{{'$gt':{}}}", rng.in_range(0..3)),
        1 => format!("{{'$lte':{}}}", rng.in_range(0..3)),
        2 => format!("{{'$in':[{},{}]}}", scalar(rng), scalar(rng)),
        3 => format!("{{'$ne':{}}}", scalar(rng)),
        4 => format!("{{'$exists':{}}}", rng.chance(60)),
        5 if depth > 0 => return format!("{{'$or':[{},{}]}}", filter(rng, depth - 1), filter(rng, depth - 1)),
        6 => return format!("{{'$expr':{{'$eq':[{},{}]}}}}", expression(rng, 1), expression(rng, 0)),
        7 if rng.chance(20) => return "{}".to_owned(),
        7 => format!("{{'$mod':[2,{}]}}", rng.in_range(0..2)),
        _ => scalar(rng).to_owned(),
    };
    format!("{{'{path}':{test}}}")
}

/// An expression that fails for no value.
fn expression(rng: &mut Rng, depth: usize) -> String {
    let path = *rng.pick(&PATHS);
    if depth == 0 {
        return match rng.in_range(0..5) {
            0 => scalar(rng).to_owned(),
            1 => format!("'$$ROOT.{path}'"),
            _ => format!("'${path}'"),
        };
    }
    let (one, other) = (expression(rng, depth - 1), expression(rng, depth - 1));
    match rng.in_range(0..13) {
        0 => format!("{{'$ifNull':[{one},{other}]}}"),
        1 => format!("{{'$cond':[{{'$gt':['$n',1]}},{one},{other}]}}"),
        2 => format!("{{'$eq':[{one},{other}]}}"),
        3 => format!("{{'x':{one},'y':{other}}}"),
        4 => format!("[{one},{other}]"),
        5 => format!("{{'$getField':'{}'}}", rng.pick(&["a", "n", "a.b"])),
        6 => format!("{{'$let':{{'vars':{{'v':{one}}},'in':['$$v','$n']}}}}"),
        7 => format!("{{'$type':[{one}]}}"),
        8 => "{'$size':{'$objectToArray':'$$ROOT'}}".to_owned(),
        _ => one,
    }
}

fn project(rng: &mut Rng, state: &mut State) -> String {
    let mut fields: Vec<String> = Vec::new();
    let tops = ["a", "b", "c", "n"];
    let excludes = rng.chance(20);
    for _ in 0..rng.in_range(1..4) {
        let top = *rng.pick(&tops);
        if fields.iter().any(|field| field.starts_with(&format!("'{top}"))) {
            continue;
        }
        let path = if rng.chance(25) { format!("{top}.b") } else { top.to_owned() };
        fields.push(match excludes {
            true => format!("'{path}':0"),
            false if rng.chance(20) => format!("'{path}':{}", computed(rng)),
            false => format!("'{path}':1"),
        });
    }
    if rng.chance(20) {
        fields.push("'_id':0".to_owned());
        state.unique = false;
    }
    format!("{{'$project':{{{}}}}}", fields.join(","))
}

/// An expression that a projection does not take for a flag.
fn computed(rng: &mut Rng) -> String {
    format!("{{'$ifNull':[{},null]}}", expression(rng, 1))
}

fn added(rng: &mut Rng, _: &mut State, name: &str) -> String {
    let path = rng.pick(&["a", "b", "z", "a.b", "c.z", "n"]);
    format!("{{'{name}':{{'{path}':{}}}}}", expression(rng, 2))
}

fn replaced(rng: &mut Rng, state: &mut State, before: &str, after: &str) -> String {
    state.unique = false;
    let new = match rng.in_range(0..3) {
        0 => format!("{{'a':{},'n':'$n'}}", expression(rng, 1)),
        1 => "{'$mergeObjects':['$$ROOT',{'z':1}]}".to_owned(),
        _ => format!("{{'_id':'$a','b':{}}}", expression(rng, 1)),
    };
    format!("{before}{new}{after}")
}

fn sort(rng: &mut Rng, state: &mut State) -> String {
    let (path, way) = (rng.pick(&["a", "b", "n", "a.b", "c"]), rng.pick(&["1", "-1"]));
    state.ordered = state.unique;
    match rng.in_range(0..3) {
        0 => format!("{{'$sort':{{'_id':{way}}}}}"),
        1 => format!("{{'$sort':{{'{path}':{way},'_id':1}}}}"),
        _ => {
            state.ordered = false;
            format!("{{'$sort':{{'{path}':{way}}}}}")
        }
    }
}

fn unwind(rng: &mut Rng, state: &mut State) -> String {
    state.unique = false;
    let path = rng.pick(&["a", "b", "c", "a.b"]);
    match rng.in_range(0..3) {
        0 => format!("{{'$unwind':'${path}'}}"),
        1 => format!("{{'$unwind':{{'path':'${path}','preserveNullAndEmptyArrays':true}}}}"),
        _ => format!("{{'$unwind':{{'path':'${path}','includeArrayIndex':'i'}}}}"),
    }
}

fn group(rng: &mut Rng, state: &mut State) -> String {
    let id = match rng.in_range(0..6) {
        0 => "null".to_owned(),
        1 => format!("{{'p':'${}','q':'${}'}}", rng.pick(&PATHS), rng.pick(&PATHS)),
        2 => expression(rng, 1),
        _ => format!("'${}'", rng.pick(&["a", "b", "c", "n", "a.b", "z"])),
    };
    let is_no_array = id == "null" || id.starts_with("{'p'");
    let mut fields = String::new();
    for name in ["n", "a"] {
        let argument = if rng.chance(50) { format!("'${}'", rng.pick(&PATHS)) } else { computed(rng) };
        match rng.in_range(0..9) {
            0 => fields += &format!(",'{name}':{{'$sum':1}}"),
            1 => fields += &format!(",'{name}':{{'$sum':'${}'}}", rng.pick(&["n", "a"])),
            2 => fields += &format!(",'{name}':{{'$min':{argument}}}"),
            3 => fields += &format!(",'{name}':{{'$max':{argument}}}"),
            4 => {
                state.has_loose_array |= !state.ordered;
                fields += &format!(",'{name}':{{'$addToSet':{argument}}}");
            }
            5 => fields += &format!(",'{name}':{{'$avg':'$n'}}"),
            6 => fields += ",'all':{'$push':'$$ROOT'}",
            7 => {
                state.needs_order();
                fields += &format!(",'{name}':{{'{}':{argument}}}", rng.pick(&["$first", "$last", "$push"]));
            }
            _ => {}
        }
        if fields.contains("'all'") {
            break;
        }
    }
    (state.unique, state.ordered) = (is_no_array, false);
    format!("{{'$group':{{'_id':{id}{fields}}}}}")
}

/// The stages of a pipeline within another, over a collection or a view.
fn inner(rng: &mut Rng, state: &mut State, most: usize, from: &str) -> String {
    // A view may show no `_id`.
    let mut within = State { depth: state.depth + 1, unique: from == "o", ..State::of_collection() };
    let stages = stages(rng, &mut within, most);
    state.is_safe &= within.is_safe;
    state.is_fixed &= within.is_fixed;
    state.has_loose_array |= within.has_loose_array;
    format!("[{}]", stages.join(","))
}

fn facet(rng: &mut Rng, state: &mut State) -> String {
    if state.depth > 0 {
        return "{'$match':{'n':1}}".to_owned();
    }
    let mut within = State { depth: 2, ..state.clone() };
    let one = stages(rng, &mut within, 3);
    let mut other_state = State { depth: 2, ..state.clone() };
    let other = stages(rng, &mut other_state, 2);
    state.is_safe &= within.is_safe && other_state.is_safe;
    state.is_fixed &= within.is_fixed && other_state.is_fixed;
    state.has_loose_array |= !within.ordered || !other_state.ordered;
    (state.unique, state.ordered) = (false, true);
    format!("{{'$facet':{{'a':[{}],'b':[{}]}}}}", one.join(","), other.join(","))
}

fn lookup(rng: &mut Rng, state: &mut State) -> String {
    let from = *rng.pick(&["o", "w", "v1", "v2", "nothing"]);
    let equal = format!("'localField':'{}','foreignField':'{}'", rng.pick(&PATHS), rng.pick(&PATHS));
    match rng.in_range(0..3) {
        0 => format!("{{'$lookup':{{'from':'{from}',{equal},'as':'j'}}}}"),
        1 => format!("{{'$lookup':{{'from':'{from}',{equal},'pipeline':{},'as':'j'}}}}", inner(rng, state, 2, from)),
        _ => format!("{{'$lookup':{{'from':'{from}','pipeline':{},'as':'j'}}}}", inner(rng, state, 3, from)),
    }
}

fn union_with(rng: &mut Rng, state: &mut State) -> String {
    (state.unique, state.ordered) = (false, false);
    match rng.in_range(0..4) {
        0 => "{'$unionWith':{'pipeline':[{'$documents':[{'_id':50,'a':1},{'a':[1,2],'n':2}]}]}}".to_owned(),
        1 => format!("{{'$unionWith':'{}'}}", rng.pick(&["o", "w", "v1", "v2"])),
        _ => {
            let coll = *rng.pick(&["o", "w", "v1", "v3"]);
            format!("{{'$unionWith':{{'coll':'{coll}','pipeline':{}}}}}", inner(rng, state, 3, coll))
        }
    }
}

fn stages(rng: &mut Rng, state: &mut State, most: usize) -> Vec<String> {
    let weights: Vec<usize> = STAGES.iter().map(|row| row.weight).collect();
    let count = rng.in_range(0..most + 1);
    let mut stages = Vec::new();
    while stages.len() < count {
        if let Draw::By(draw) = &STAGES[rng.weighted(&weights)].draw {
            // A stage may take apart or compare what is in the array.
            state.is_safe &= !state.has_loose_array;
            stages.push(draw(rng, state));
        }
    }
    stages
}

pub(crate) fn pipeline(rng: &mut Rng, state: &mut State) -> Vec<String> {
    let mut first = Vec::new();
    let path = *rng.pick(&["a", "b", "n", "n", "a.b", "c"]);
    match rng.in_range(0..20) {
        0 | 1 => {
            // An index may give both the range and the order.
            let way = rng.pick(&["1", "-1"]);
            first.push(format!("{{'$match':{}}}", range(rng, path)));
            first.push(format!("{{'$sort':{{'{path}':{way},'_id':{}}}}}", rng.pick(&["1", "-1"])));
            state.ordered = state.unique;
        }
        2 => {
            // Keys of an index may be lent.
            let filter = if rng.chance(50) { range(rng, path) } else { format!("{{'{path}':{{'$mod':[2,1]}}}}") };
            first.push(format!("{{'$match':{filter}}}"));
            first.push(format!("{{'$group':{{'_id':'${path}','n':{{'$sum':1}}}}}}"));
            (state.unique, state.ordered) = (false, false);
        }
        3 => {
            // A field that is not read may have a place.
            first.push(added(rng, state, "$set"));
            first.push(project(rng, state));
        }
        _ => {}
    }
    first.extend(stages(rng, state, 6));
    first
}

/// The pipeline of a view, which gives the same each time by whatever index.
pub(crate) fn view(rng: &mut Rng, state: &mut State) -> Vec<String> {
    loop {
        let mut within = State { depth: 1, ..state.clone() };
        let mut stages = if rng.chance(60) { vec![project(rng, &mut within)] } else { stages(rng, &mut within, 3) };
        // A view is on no view that is made later, nor on itself.
        stages.retain(|stage| !["'v1'", "'v2'", "'v3'", "'w'"].iter().any(|view| stage.contains(view)));
        if within.is_safe && within.is_fixed && is_read(&stages) {
            *state = State { depth: 0, ..within };
            return stages;
        }
    }
}

/// Whether stages are not refused before they run.
fn is_read(stages: &[String]) -> bool {
    let stages = stages_of(&joined(stages));
    aggregate::parse(array(&stages), &Context::default()).is_ok()
}
