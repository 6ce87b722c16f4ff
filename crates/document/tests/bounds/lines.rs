//! What is run of each stage, operator and accumulator. A name in the library's table without a line here does not
//! compile.
//!
//! `$n` in a line is the size. A stage or an accumulator works on the documents of `items`, an operator of
//! [`Of::Items`] on each of them, and one of [`Of::Large`] on the one document of `large`, whose fields have `n`
//! members or letters each.

use spinney_document::aggregate::stage_names;
use spinney_document::expr::operator_names;

/// What an operator works on.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// The documents of `items`: `{_id, a, b, s, d, v, o}`.
    Items,
    /// The one document of `large`: `{_id, v, w, s, o, p}`: arrays of numbers and of texts, a text, an object, pairs.
    Large,
    /// Nothing: it is refused, or does the same whatever the size, and why.
    Nothing(&'static str),
}

use Of::{Items, Large, Nothing};

/// A name and the text of what is run.
pub(crate) struct Line(pub(crate) &'static str, pub(crate) Of, pub(crate) &'static str);

const REFUSED: Of = Nothing("it is refused");

/// The stages.
pub(crate) const STAGES: &[Line] = &[
    Line("$match", Items, r#"{"$match":{"a":{"$gte":0},"v":{"$elemMatch":{"$gte":0}}}}"#),
    Line("$project", Items, r#"{"$project":{"a":1,"x":{"$add":["$a",1]}}}"#),
    Line("$addFields", Items, r#"{"$addFields":{"x":{"$add":["$a",1]}}}"#),
    Line("$set", Items, r#"{"$set":{"x":{"$add":["$a",1]}}}"#),
    Line("$unset", Items, r#"{"$unset":["a","o.x"]}"#),
    Line("$limit", Items, r#"{"$limit":$n}"#),
    Line("$skip", Items, r#"{"$skip":$n}"#),
    Line("$count", Items, r#"{"$count":"n"}"#),
    Line("$replaceRoot", Items, r#"{"$replaceRoot":{"newRoot":"$o"}}"#),
    Line("$replaceWith", Items, r#"{"$replaceWith":"$o"}"#),
    Line("$redact", Items, r#"{"$redact":{"$cond":[{"$gte":["$a",0]},"$$DESCEND","$$PRUNE"]}}"#),
    Line("$documents", Nothing("the client sends the documents"), ""),
    Line("$sample", Items, r#"{"$sample":{"size":$n}}"#),
    Line("$facet", Items, r#"{"$facet":{"one":[{"$limit":100}],"two":[{"$group":{"_id":"$b"}}]}}"#),
    Line("$sort", Items, r#"{"$sort":{"s":-1,"a":1}}"#),
    Line("$unwind", Items, r#"{"$unwind":"$v"}"#),
    Line("$group", Items, r#"{"$group":{"_id":"$a","n":{"$sum":1}}}"#),
    Line("$sortByCount", Items, r#"{"$sortByCount":"$a"}"#),
    Line("$bucket", Items, r#"{"$bucket":{"groupBy":"$b","boundaries":[0,2,4,6,8,10],"default":"other"}}"#),
    Line("$bucketAuto", Items, r#"{"$bucketAuto":{"groupBy":"$a","buckets":100}}"#),
    Line(
        "$setWindowFields",
        Items,
        r#"{"$setWindowFields":{"sortBy":{"a":1},"output":{"x":{"$sum":"$a","window":{"documents":["unbounded","current"]}}}}}"#,
    ),
    Line("$fill", Items, r#"{"$fill":{"sortBy":{"a":1},"output":{"missing":{"method":"locf"}}}}"#),
    Line("$densify", Items, r#"{"$densify":{"field":"a","range":{"step":0.5,"bounds":"full"}}}"#),
    Line("$lookup", Items, r#"{"$lookup":{"from":"items","localField":"a","foreignField":"_id","as":"x"}}"#),
    Line(
        "$graphLookup",
        Items,
        r#"{"$graphLookup":{"from":"items","startWith":"$a","connectFromField":"missing","connectToField":"_id","as":"x"}}"#,
    ),
    Line("$unionWith", Items, r#"{"$unionWith":{"coll":"items","pipeline":[{"$match":{"a":{"$gte":0}}}]}}"#),
    Line("$out", Items, r#"{"$out":"made"}"#),
    Line("$merge", Items, r#"{"$merge":{"into":"made"}}"#),
    Line("$changeStream", Nothing("it is a cursor of its own, and waits"), ""),
    Line("$changeStreamSplitLargeEvent", Nothing("it is part of a change stream"), ""),
    Line("$geoNear", REFUSED, ""),
    Line("$search", REFUSED, ""),
    Line("$searchMeta", REFUSED, ""),
    Line("$vectorSearch", REFUSED, ""),
    Line("$rankFusion", REFUSED, ""),
    Line("$scoreFusion", REFUSED, ""),
    Line("$listSearchIndexes", REFUSED, ""),
    Line("$collStats", Nothing("it reads figures"), ""),
    Line("$indexStats", Nothing("it reads figures"), ""),
    Line("$planCacheStats", Nothing("it reads figures"), ""),
    Line("$currentOp", Nothing("it reads figures"), ""),
    Line("$listSessions", Nothing("it reads figures"), ""),
    Line("$listLocalSessions", Nothing("it reads figures"), ""),
    Line("$listClusterCatalog", Nothing("it reads figures"), ""),
    Line("$querySettings", Nothing("it reads settings"), ""),
];

const _: () = assert!(is_complete(stage_names(), STAGES), "each stage of aggregate/table.rs has its line here");
const _: () = assert!(is_complete(operator_names(), OPERATORS), "each operator of expr/table.rs has its line here");

/// Whether each name has its line; lines that have no name any more are in the way.
const fn is_complete(names: &[&str], lines: &[Line]) -> bool {
    let mut at = 0;
    while at < names.len() {
        let mut line = 0;
        while line < lines.len() && !is_same(names[at], lines[line].0) {
            line += 1;
        }
        if line == lines.len() {
            return false;
        }
        at += 1;
    }
    names.len() == lines.len()
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The operators of expressions.
pub(crate) const OPERATORS: &[Line] = &[
    Line("$abs", Items, r#"{"$abs":"$a"}"#),
    Line("$add", Items, r#"{"$add":["$a",3]}"#),
    Line("$subtract", Items, r#"{"$subtract":["$a",3]}"#),
    Line("$multiply", Items, r#"{"$multiply":["$a",3]}"#),
    Line("$divide", Items, r#"{"$divide":["$a",3]}"#),
    Line("$mod", Items, r#"{"$mod":["$a",3]}"#),
    Line("$ceil", Items, r#"{"$ceil":"$a"}"#),
    Line("$floor", Items, r#"{"$floor":"$a"}"#),
    Line("$round", Items, r#"{"$round":"$a"}"#),
    Line("$trunc", Items, r#"{"$trunc":"$a"}"#),
    Line("$sqrt", Items, r#"{"$sqrt":"$a"}"#),
    Line("$pow", Items, r#"{"$pow":["$b",3]}"#),
    Line("$exp", Items, r#"{"$exp":"$a"}"#),
    Line("$ln", Items, r#"{"$ln":{"$add":["$a",1]}}"#),
    Line("$log", Items, r#"{"$log":[{"$add":["$a",2]},3]}"#),
    Line("$log10", Items, r#"{"$log10":{"$add":["$a",1]}}"#),
    Line("$sigmoid", Items, r#"{"$sigmoid":"$b"}"#),
    Line("$bitAnd", Items, r#"{"$bitAnd":["$b",3]}"#),
    Line("$bitOr", Items, r#"{"$bitOr":["$b",3]}"#),
    Line("$bitXor", Items, r#"{"$bitXor":["$b",3]}"#),
    Line("$bitNot", Items, r#"{"$bitNot":"$b"}"#),
    Line("$sin", Items, r#"{"$sin":"$a"}"#),
    Line("$cos", Items, r#"{"$cos":"$a"}"#),
    Line("$tan", Items, r#"{"$tan":"$a"}"#),
    Line("$asin", Items, r#"{"$asin":{"$divide":["$b",20]}}"#),
    Line("$acos", Items, r#"{"$acos":{"$divide":["$b",20]}}"#),
    Line("$atan", Items, r#"{"$atan":"$a"}"#),
    Line("$atan2", Items, r#"{"$atan2":["$a",3]}"#),
    Line("$sinh", Items, r#"{"$sinh":"$a"}"#),
    Line("$cosh", Items, r#"{"$cosh":"$a"}"#),
    Line("$tanh", Items, r#"{"$tanh":"$a"}"#),
    Line("$asinh", Items, r#"{"$asinh":"$a"}"#),
    Line("$acosh", Items, r#"{"$acosh":{"$add":["$a",2]}}"#),
    Line("$atanh", Items, r#"{"$atanh":{"$divide":["$b",20]}}"#),
    Line("$degreesToRadians", Items, r#"{"$degreesToRadians":"$a"}"#),
    Line("$radiansToDegrees", Items, r#"{"$radiansToDegrees":"$a"}"#),
    Line("$eq", Items, r#"{"$eq":["$a",3]}"#),
    Line("$ne", Items, r#"{"$ne":["$a",3]}"#),
    Line("$gt", Items, r#"{"$gt":["$a",3]}"#),
    Line("$gte", Items, r#"{"$gte":["$a",3]}"#),
    Line("$lt", Items, r#"{"$lt":["$a",3]}"#),
    Line("$lte", Items, r#"{"$lte":["$a",3]}"#),
    Line("$cmp", Items, r#"{"$cmp":["$a",3]}"#),
    Line("$and", Items, r#"{"$and":["$a",3]}"#),
    Line("$or", Items, r#"{"$or":["$a",3]}"#),
    Line("$not", Items, r#"{"$not":"$a"}"#),
    Line("$ifNull", Items, r#"{"$ifNull":["$missing","$a"]}"#),
    Line("$cond", Items, r#"{"$cond":["$a",1,2]}"#),
    Line("$switch", Items, r#"{"$switch":{"branches":[{"case":{"$eq":["$b",5]},"then":1}],"default":2}}"#),
    Line("$literal", Items, r#"{"$literal":1}"#),
    Line("$const", Items, r#"{"$const":1}"#),
    Line("$let", Items, r#"{"$let":{"vars":{"x":"$a"},"in":"$$x"}}"#),
    Line("$function", REFUSED, ""),
    Line("$isArray", Large, r#"{"$isArray":["$v"]}"#),
    Line("$size", Large, r#"{"$size":"$v"}"#),
    Line("$arrayElemAt", Large, r#"{"$arrayElemAt":["$v",-1]}"#),
    Line("$first", Large, r#"{"$first":"$v"}"#),
    Line("$last", Large, r#"{"$last":"$v"}"#),
    Line("$concatArrays", Large, r#"{"$concatArrays":["$v","$w"]}"#),
    Line("$reverseArray", Large, r#"{"$reverseArray":"$v"}"#),
    Line("$in", Large, r#"{"$in":[-1,"$v"]}"#),
    Line("$indexOfArray", Large, r#"{"$indexOfArray":["$v",-1]}"#),
    Line("$slice", Large, r#"{"$slice":["$v",1,$n]}"#),
    Line("$range", Large, r#"{"$range":[0,$n]}"#),
    Line("$arrayToObject", Large, r#"{"$arrayToObject":"$p"}"#),
    Line("$zip", Large, r#"{"$zip":{"inputs":["$v","$w"]}}"#),
    Line("$map", Large, r#"{"$map":{"input":"$v","in":{"$add":["$$this",1]}}}"#),
    Line("$filter", Large, r#"{"$filter":{"input":"$v","cond":{"$gte":["$$this",0]}}}"#),
    Line("$reduce", Large, r#"{"$reduce":{"input":"$v","initialValue":0,"in":{"$add":["$$value","$$this"]}}}"#),
    Line("$sortArray", Large, r#"{"$sortArray":{"input":"$w","sortBy":1}}"#),
    Line("$firstN", Large, r#"{"$firstN":{"n":$n,"input":"$v"}}"#),
    Line("$lastN", Large, r#"{"$lastN":{"n":$n,"input":"$v"}}"#),
    Line("$minN", Large, r#"{"$minN":{"n":$n,"input":"$v"}}"#),
    Line("$maxN", Large, r#"{"$maxN":{"n":$n,"input":"$v"}}"#),
    Line("$setUnion", Large, r#"{"$setUnion":["$v","$w"]}"#),
    Line("$setIntersection", Large, r#"{"$setIntersection":["$v","$w"]}"#),
    Line("$setDifference", Large, r#"{"$setDifference":["$v","$w"]}"#),
    Line("$setEquals", Large, r#"{"$setEquals":["$v","$v"]}"#),
    Line("$setIsSubset", Large, r#"{"$setIsSubset":["$v","$v"]}"#),
    Line("$allElementsTrue", Large, r#"{"$allElementsTrue":"$v"}"#),
    Line("$anyElementTrue", Large, r#"{"$anyElementTrue":"$v"}"#),
    Line("$objectToArray", Large, r#"{"$objectToArray":"$o"}"#),
    Line("$mergeObjects", Large, r#"{"$mergeObjects":["$o",{"more":1},"$o"]}"#),
    Line("$getField", Large, r#"{"$getField":{"field":"none","input":"$o"}}"#),
    Line("$setField", Large, r#"{"$setField":{"field":"more","input":"$o","value":1}}"#),
    Line("$unsetField", Large, r#"{"$unsetField":{"field":"f1","input":"$o"}}"#),
    Line("$bsonSize", Large, r#"{"$bsonSize":"$o"}"#),
    Line("$binarySize", Large, r#"{"$binarySize":"$s"}"#),
    Line("$toHashedIndexKey", Items, r#"{"$toHashedIndexKey":"$a"}"#),
    Line("$meta", REFUSED, ""),
    Line("$concat", Large, r#"{"$concat":["$s","$s"]}"#),
    Line("$toLower", Large, r#"{"$toLower":"$s"}"#),
    Line("$toUpper", Large, r#"{"$toUpper":"$s"}"#),
    Line("$strcasecmp", Large, r#"{"$strcasecmp":["$s","$s"]}"#),
    Line("$strLenBytes", Large, r#"{"$strLenBytes":"$s"}"#),
    Line("$strLenCP", Large, r#"{"$strLenCP":"$s"}"#),
    Line("$substr", Large, r#"{"$substr":["$s",1,$n]}"#),
    Line("$substrBytes", Large, r#"{"$substrBytes":["$s",1,$n]}"#),
    Line("$substrCP", Large, r#"{"$substrCP":["$s",1,$n]}"#),
    Line("$indexOfBytes", Large, r#"{"$indexOfBytes":["$s","none"]}"#),
    Line("$indexOfCP", Large, r#"{"$indexOfCP":["$s","none"]}"#),
    Line("$split", Large, r#"{"$size":{"$split":["$s"," "]}}"#),
    Line("$replaceOne", Large, r#"{"$replaceOne":{"input":"$s","find":" ","replacement":"-"}}"#),
    Line("$replaceAll", Large, r#"{"$replaceAll":{"input":"$s","find":" ","replacement":"-"}}"#),
    Line("$trim", Large, r#"{"$trim":{"input":"$s","chars":"ab "}}"#),
    Line("$ltrim", Large, r#"{"$ltrim":{"input":"$s","chars":"ab "}}"#),
    Line("$rtrim", Large, r#"{"$rtrim":{"input":"$s","chars":"ab "}}"#),
    Line("$regexMatch", Large, r#"{"$regexMatch":{"input":"$s","regex":"a+b"}}"#),
    Line("$regexFind", Large, r#"{"$regexFind":{"input":"$s","regex":"a+b"}}"#),
    Line("$regexFindAll", Large, r#"{"$regexFindAll":{"input":"$s","regex":"a+b"}}"#),
    Line("$type", Items, r#"{"$type":"$a"}"#),
    Line("$isNumber", Items, r#"{"$isNumber":"$a"}"#),
    Line("$toInt", Items, r#"{"$toInt":"$a"}"#),
    Line("$toLong", Items, r#"{"$toLong":"$a"}"#),
    Line("$toDouble", Items, r#"{"$toDouble":"$a"}"#),
    Line("$toDecimal", Items, r#"{"$toDecimal":"$a"}"#),
    Line("$toBool", Items, r#"{"$toBool":"$a"}"#),
    Line("$toString", Items, r#"{"$toString":"$a"}"#),
    Line("$toObjectId", Items, r#"{"$toObjectId":"5ab9cbfa31c2ab715d42129e"}"#),
    Line("$toDate", Items, r#"{"$toDate":"$d"}"#),
    Line("$toUUID", Items, r#"{"$toUUID":"0e3b9063-8abd-4eb3-9f9f-f4c59fd30a60"}"#),
    Line("$convert", Items, r#"{"$convert":{"input":"$a","to":"string"}}"#),
    Line("$year", Items, r#"{"$year":"$d"}"#),
    Line("$month", Items, r#"{"$month":"$d"}"#),
    Line("$dayOfMonth", Items, r#"{"$dayOfMonth":"$d"}"#),
    Line("$hour", Items, r#"{"$hour":"$d"}"#),
    Line("$minute", Items, r#"{"$minute":"$d"}"#),
    Line("$second", Items, r#"{"$second":"$d"}"#),
    Line("$millisecond", Items, r#"{"$millisecond":"$d"}"#),
    Line("$dayOfYear", Items, r#"{"$dayOfYear":"$d"}"#),
    Line("$dayOfWeek", Items, r#"{"$dayOfWeek":"$d"}"#),
    Line("$isoDayOfWeek", Items, r#"{"$isoDayOfWeek":"$d"}"#),
    Line("$week", Items, r#"{"$week":"$d"}"#),
    Line("$isoWeek", Items, r#"{"$isoWeek":"$d"}"#),
    Line("$isoWeekYear", Items, r#"{"$isoWeekYear":"$d"}"#),
    Line("$dateToParts", Items, r#"{"$dateToParts":{"date":"$d"}}"#),
    Line("$dateFromParts", Items, r#"{"$dateFromParts":{"year":2020,"day":"$b"}}"#),
    Line("$dateFromString", Items, r#"{"$dateFromString":{"dateString":"2020-02-03T04:05:06Z"}}"#),
    Line("$dateToString", Items, r#"{"$dateToString":{"date":"$d"}}"#),
    Line("$dateAdd", Items, r#"{"$dateAdd":{"startDate":"$d","unit":"month","amount":"$b"}}"#),
    Line("$dateSubtract", Items, r#"{"$dateSubtract":{"startDate":"$d","unit":"month","amount":"$b"}}"#),
    Line("$dateDiff", Items, r#"{"$dateDiff":{"startDate":"$d","endDate":"$$NOW","unit":"month"}}"#),
    Line("$dateTrunc", Items, r#"{"$dateTrunc":{"date":"$d","unit":"week"}}"#),
    Line("$tsSecond", Items, r#"{"$tsSecond":"$t"}"#),
    Line("$tsIncrement", Items, r#"{"$tsIncrement":"$t"}"#),
    Line("$sum", Large, r#"{"$sum":"$v"}"#),
    Line("$avg", Large, r#"{"$avg":"$v"}"#),
    Line("$min", Large, r#"{"$min":"$v"}"#),
    Line("$max", Large, r#"{"$max":"$v"}"#),
    Line("$stdDevPop", Large, r#"{"$stdDevPop":"$v"}"#),
    Line("$stdDevSamp", Large, r#"{"$stdDevSamp":"$v"}"#),
    Line("$median", Large, r#"{"$median":{"input":"$v","method":"approximate"}}"#),
    Line("$percentile", Large, r#"{"$percentile":{"input":"$v","p":[0.5,0.9],"method":"approximate"}}"#),
    Line("$rand", Items, r#"{"$rand":{}}"#),
];

/// The accumulators of `$group`, which are those of windows as well but for the last lines.
pub(crate) const ACCUMULATORS: &[Line] = &[
    Line("$sum", Items, r#"{"$sum":"$a"}"#),
    Line("$avg", Items, r#"{"$avg":"$a"}"#),
    Line("$min", Items, r#"{"$min":"$a"}"#),
    Line("$max", Items, r#"{"$max":"$a"}"#),
    Line("$first", Items, r#"{"$first":"$a"}"#),
    Line("$last", Items, r#"{"$last":"$a"}"#),
    Line("$push", Items, r#"{"$push":"$a"}"#),
    Line("$addToSet", Items, r#"{"$addToSet":"$a"}"#),
    Line("$stdDevPop", Items, r#"{"$stdDevPop":"$a"}"#),
    Line("$stdDevSamp", Items, r#"{"$stdDevSamp":"$a"}"#),
    Line("$concatArrays", Items, r#"{"$concatArrays":"$v"}"#),
    Line("$setUnion", Items, r#"{"$setUnion":"$v"}"#),
    Line("$mergeObjects", Items, r#"{"$mergeObjects":"$o"}"#),
    Line("$count", Items, r#"{"$count":{}}"#),
    Line("$firstN", Items, r#"{"$firstN":{"input":"$a","n":50}}"#),
    Line("$lastN", Items, r#"{"$lastN":{"input":"$a","n":50}}"#),
    Line("$minN", Items, r#"{"$minN":{"input":"$a","n":50}}"#),
    Line("$maxN", Items, r#"{"$maxN":{"input":"$a","n":50}}"#),
    Line("$top", Items, r#"{"$top":{"output":"$a","sortBy":{"s":1}}}"#),
    Line("$bottom", Items, r#"{"$bottom":{"output":"$a","sortBy":{"s":1}}}"#),
    Line("$topN", Items, r#"{"$topN":{"output":"$a","sortBy":{"s":1},"n":50}}"#),
    Line("$bottomN", Items, r#"{"$bottomN":{"output":"$a","sortBy":{"s":1},"n":50}}"#),
    Line("$median", Items, r#"{"$median":{"input":"$a","method":"approximate"}}"#),
    Line("$percentile", Items, r#"{"$percentile":{"input":"$a","p":[0.5],"method":"approximate"}}"#),
];

/// What windows have beside.
pub(crate) const WINDOWS: &[Line] = &[
    Line("$covariancePop", Items, r#"{"$covariancePop":["$a","$b"]}"#),
    Line("$covarianceSamp", Items, r#"{"$covarianceSamp":["$a","$b"]}"#),
];

/// Functions of windows that take no window.
pub(crate) const RANKS: &[Line] = &[
    Line("$rank", Items, r#"{"$rank":{}}"#),
    Line("$denseRank", Items, r#"{"$denseRank":{}}"#),
    Line("$documentNumber", Items, r#"{"$documentNumber":{}}"#),
    Line("$shift", Items, r#"{"$shift":{"output":"$a","by":-1}}"#),
    Line("$expMovingAvg", Items, r#"{"$expMovingAvg":{"input":"$a","N":10}}"#),
    Line("$linearFill", Items, r#"{"$linearFill":"$a"}"#),
    Line("$locf", Items, r#"{"$locf":"$a"}"#),
];

/// Conditions of filters.
pub(crate) const CONDITIONS: &[Line] = &[
    Line("$in", Items, r#"{"a":{"$in":[$list]}}"#),
    Line("$in of _id", Items, r#"{"_id":{"$in":[$list]}}"#),
    Line("$in of an index", Items, r#"{"k":{"$in":[$list]}}"#),
    Line("$in of an index of arrays", Items, r#"{"v":{"$in":[$list]}}"#),
    Line("$nin of an index", Items, r#"{"k":{"$nin":[$list]}}"#),
    Line("$or", Items, r#"{"$or":[$branches]}"#),
    Line("$elemMatch", Large, r#"{"v":{"$elemMatch":{"$lt":0}}}"#),
    Line("$all", Large, r#"{"v":{"$all":[0,1,2]}}"#),
    Line("$size", Large, r#"{"v":{"$size":1}}"#),
    Line("$regex", Large, r#"{"s":{"$regex":"a+c"}}"#),
    Line("$regex of an array", Large, r#"{"w":{"$regex":"x$"}}"#),
    Line("$mod", Items, r#"{"a":{"$mod":[7,1]}}"#),
    Line("$type", Items, r#"{"a":{"$type":"number"}}"#),
    Line("$exists", Items, r#"{"missing":{"$exists":false}}"#),
    Line("$bitsAllSet", Items, r#"{"a":{"$bitsAllSet":[1]}}"#),
    Line("$expr", Items, r#"{"$expr":{"$gte":["$a","$b"]}}"#),
    Line("$jsonSchema", Items, r#"{"$jsonSchema":{"properties":{"a":{"minimum":0}}}}"#),
];

/// Changes of the one large document, and of all of the others.
pub(crate) const UPDATES: &[Line] = &[
    Line("$set", Items, r#"{"$set":{"x":1}}"#),
    Line("$inc", Items, r#"{"$inc":{"b":1}}"#),
    Line("$unset", Items, r#"{"$unset":{"b":1}}"#),
    Line("$rename", Items, r#"{"$rename":{"b":"c"}}"#),
    Line("$currentDate", Items, r#"{"$currentDate":{"x":true}}"#),
    Line("a pipeline", Items, r#"[{"$set":{"x":{"$add":["$a",1]}}}]"#),
    Line("$set of many fields", Large, r#"{"$set":{$fields}}"#),
    Line("$push", Large, r#"{"$push":{"v":{"$each":[$list]}}}"#),
    Line("$push sorted", Large, r#"{"$push":{"v":{"$each":[$list],"$sort":-1}}}"#),
    Line("$addToSet", Large, r#"{"$addToSet":{"v":{"$each":[$list]}}}"#),
    Line("$pull", Large, r#"{"$pull":{"v":{"$in":[$list]}}}"#),
    Line("$pullAll", Large, r#"{"$pullAll":{"v":[$list]}}"#),
    Line("$[]", Large, r#"{"$inc":{"v.$[]":1}}"#),
];
