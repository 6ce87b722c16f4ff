//! Inputs that are read: programs of each language that use as much of it as possible, and documents.

use spinney_document::bson::{DocumentBuf, Value};
use spinney_document::keys::{Direction, TypeBits, append};

/// Documents with values of all types and shapes.
const DOCUMENTS: [&str; 8] = [
    r#"{"_id":1,"a":[1,{"b":2},{"b":[3,4]},[5]],"b":{"c":null,"d":true},"s":"caf\u00e9 $x","n":-1.5}"#,
    r#"{"_id":{"$oid":"0102030405060708090a0b0c"},"a":{"b":[1,2,3]},"d":{"$date":{"$numberLong":"1600000000123"}}}"#,
    r#"{"a":{"$numberDecimal":"1.50"},"b":{"$numberLong":"9223372036854775807"},"c":{"$numberDouble":"NaN"}}"#,
    r#"{"a":{"$binary":{"base64":"AQID","subType":"00"}},"b":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}},"c":{"$timestamp":{"t":5,"i":6}}}"#,
    r#"{"a":{"$regularExpression":{"pattern":"^a.*b","options":"i"}},"b":{"$minKey":1},"c":{"$maxKey":1},"d":{"$undefined":true}}"#,
    r#"{"a":{"$code":"f()"},"b":{"$code":"g()","$scope":{"x":1}},"c":{"$symbol":"s"},"d":{"$dbPointer":{"$ref":"c","$id":{"$oid":"0102030405060708090a0b0c"}}}}"#,
    r#"{"_id":"x","a":[],"b":[[],[[1]],{}],"":{"":""},"items":[{"k":"p","v":1},{"k":"q","v":2}]}"#,
    r#"{"_id":2,"a":7,"b":"text of words","t":{"$date":{"$numberLong":"-5"}},"g":"x","v":3,"k":{"$numberInt":"0"}}"#,
];

/// What filters, updates and the rest are applied to.
const DATA: [&str; 3] = [DOCUMENTS[0], DOCUMENTS[6], DOCUMENTS[7]];

fn json(text: &str) -> Vec<u8> {
    DocumentBuf::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}")).into_bytes()
}

fn programs(texts: &[&str]) -> Vec<Vec<u8>> {
    let data: Vec<u8> = DATA.iter().flat_map(|text| json(text)).collect();
    texts.iter().map(|text| [json(text), data.clone()].concat()).collect()
}

pub(super) fn documents() -> Vec<Vec<u8>> {
    DOCUMENTS.iter().map(|text| json(text)).collect()
}

pub(super) fn texts() -> Vec<Vec<u8>> {
    let canonical =
        DOCUMENTS.iter().map(|text| DocumentBuf::from_json(text).expect("above").view().to_canonical_json());
    let relaxed = [
        r#"{"d":{"$date":"2020-09-13T12:26:40.123Z"},"u":{"$uuid":"00010203-0405-0607-0809-0a0b0c0d0e0f"},"n":1e3}"#,
        " { \"a\" : [ 1 , -2.5E-3, true, false, null, \"\\u00e9\\ud83d\\ude00\\n\" ] , \"b\":{\"$numberInt\":\"7\"}} ",
    ];
    canonical.chain(relaxed.map(str::to_owned)).map(String::into_bytes).collect()
}

pub(super) fn keys() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for text in DOCUMENTS {
        let document = DocumentBuf::from_json(text).expect("above");
        for direction in [Direction::Ascending, Direction::Descending] {
            let (mut key, mut types) = (Vec::new(), TypeBits::new());
            append(&mut key, &mut types, &Value::Document(document.view()), direction);
            let count = u8::try_from(types.as_bytes().len()).expect("a small document");
            seeds.push([&[count][..], types.as_bytes(), &key].concat());
        }
    }
    seeds
}

pub(super) fn indexes() -> Vec<Vec<u8>> {
    programs(&[
        r#"{"a":1}"#,
        r#"{"a.b":-1,"_id":1}"#,
        r#"{"b.c":1,"a":-1,"s":1}"#,
        r#"{"$**":1}"#,
        r#"{"a.$**":1}"#,
        r#"{"g":"hashed","v":-1}"#,
        r#"{"a.0":1,"a.1.b":1}"#,
    ])
}

pub(super) fn filters() -> Vec<Vec<u8>> {
    programs(&[
        r#"{"a":7,"b":"text of words","a.b":{"$exists":false}}"#,
        r#"{"a":{"$gt":1,"$lte":{"$numberDecimal":"7.5"},"$ne":5},"b":{"$in":[1,null,{"$regularExpression":{"pattern":"^te","options":"i"}}]}}"#,
        r#"{"$or":[{"a":{"$elemMatch":{"b":{"$gte":2}}}},{"a":{"$elemMatch":{"$gt":0,"$lt":3}}}],"$nor":[{"a.0":9},{"b":{"$nin":[4]}}]}"#,
        r#"{"a":{"$all":[{"$elemMatch":{"b":2}},{"$elemMatch":{"b":{"$in":[4,9]}}}]},"s":{"$all":["x",5]},"b":{"$not":{"$type":["int","string"]}},"items":{"$size":2}}"#,
        r#"{"s":{"$regex":"caf.|x$","$options":"ix"},"n":{"$mod":[2,-1]},"k":{"$bitsAllClear":[0,5]},"v":{"$bitsAnySet":6}}"#,
        r#"{"$expr":{"$and":[{"$gt":["$v",1]},{"$in":["$g",["x","y"]]}]},"$comment":"c"}"#,
        r#"{"$jsonSchema":{"bsonType":"object","required":["a"],"properties":{"a":{"anyOf":[{"bsonType":"array","minItems":1,"uniqueItems":true},{"type":"number","minimum":1}]},"s":{"bsonType":"string","pattern":"^c","maxLength":30}},"additionalProperties":true,"patternProperties":{"^x":{"not":{}}},"dependencies":{"a":["_id"]}}}"#,
        r#"{"_id":{"$in":[1,2,"x"]},"b":{"$eq":{"c":null,"d":true}},"a":{"$lt":{"$maxKey":1}}}"#,
        r#"{"a":{"$not":{"$elemMatch":{"$in":[5,[5]]}}},"b.0":{"$type":4},"b":{"$bitsAllSet":{"$binary":{"base64":"AQ==","subType":"00"}}}}"#,
    ])
}

pub(super) fn updates() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"u":{"$set":{"a.0":5,"b.c.x":1,"z":[1]},"$unset":{"s":""},"$inc":{"n":{"$numberDecimal":"1.5"}},"$mul":{"v":3}}}"#,
        r#"{"u":{"$push":{"a":{"$each":[3,{"b":1}],"$position":1,"$slice":-3,"$sort":{"b":-1}}},"$addToSet":{"items":{"$each":[1,1,{"k":"p"}]}}}}"#,
        r#"{"u":{"$pull":{"a":{"b":{"$gte":1}}},"$pullAll":{"items":[1]},"$pop":{"q":1},"$min":{"n":-2},"$max":{"v":9}}}"#,
        r#"{"u":{"$rename":{"s":"t.u","b":"c"},"$currentDate":{"d":true,"e":{"$type":"timestamp"}},"$setOnInsert":{"i":1},"$bit":{"k":{"or":5,"xor":1}}}}"#,
        r#"{"u":{"$set":{"a.$[].b":1,"items.$[x].v":9,"a.$":3}},"f":[{"x.v":{"$gt":1}}]}"#,
        r#"{"u":{"$inc":{"items.$[x].v":1},"$set":{"b.$[y]":0}},"f":[{"x.k":"p"},{"y":{"$type":"array"}}]}"#,
        r#"{"u":{"x":1,"a":[{"b":{"c":1}}]}}"#,
        r#"{"u":[{"$set":{"n":{"$add":["$v",1]},"a":"$$REMOVE"}},{"$unset":["s","b.c"]},{"$replaceWith":{"$mergeObjects":["$$ROOT",{"m":1}]}}]}"#,
    ];
    let filter = json(r#"{"a":{"$gt":1},"$and":[{"w":4},{"x.y":{"$eq":[1]}}]}"#);
    let data: Vec<u8> = DATA.iter().flat_map(|text| json(text)).collect();
    texts.iter().map(|text| [json(text), filter.clone(), data.clone()].concat()).collect()
}

pub(super) fn projections() -> Vec<Vec<u8>> {
    programs(&[
        r#"{"a.b":1,"b":1,"_id":0}"#,
        r#"{"a.b":0,"s":0}"#,
        r#"{"a":{"$slice":[1,2]},"items":{"$elemMatch":{"v":{"$gt":1}}}}"#,
        r#"{"a.$":1,"b":1}"#,
        r#"{"x":{"$add":["$v",1]},"y":{"z":{"$concat":["$g","$g"]}},"b":{"c":1},"l":{"$literal":1}}"#,
        r#"{"a":{"b":{"c":"$v"}},"n":"$$ROOT","m":["$a",{"$size":"$items"}]}"#,
        r#"{"_id":1}"#,
        r#"{}"#,
    ])
}

pub(super) fn expressions() -> Vec<Vec<u8>> {
    programs(&[
        r#"{"e":[{"$add":["$v",1,{"$multiply":["$n",2]}]},{"$subtract":["$t",5]},{"$divide":["$v",2]},{"$mod":["$v",2]},{"$pow":[2,"$v"]},{"$abs":"$n"},{"$ceil":"$n"},{"$floor":"$n"},{"$round":["$n",1]},{"$trunc":["$n",-1]},{"$sqrt":"$v"},{"$exp":1},{"$ln":"$v"},{"$log":["$v",2]},{"$log10":10},{"$sigmoid":1}]}"#,
        r#"{"e":[{"$bitAnd":["$k",7]},{"$bitOr":[1,2]},{"$bitXor":[1]},{"$bitNot":5},{"$sin":1},{"$cos":1},{"$tan":1},{"$asin":1},{"$acos":1},{"$atan":1},{"$atan2":[1,2]},{"$sinh":1},{"$cosh":1},{"$tanh":1},{"$asinh":1},{"$acosh":1},{"$atanh":0.5},{"$degreesToRadians":180},{"$radiansToDegrees":3}]}"#,
        r#"{"e":{"$cond":{"if":{"$and":[{"$gt":["$v",1]},{"$or":[{"$lte":["$n",0]},{"$not":["$a"]}]}]},"then":{"$ifNull":["$x","$y",1]},"else":{"$switch":{"branches":[{"case":{"$eq":["$g","x"]},"then":1}],"default":{"$cmp":[1,2]}}}}}}"#,
        r#"{"e":{"$let":{"vars":{"x":"$a","y":{"$literal":"$z"}},"in":{"$map":{"input":{"$cond":[{"$isArray":"$$x"},"$$x",[]]},"as":"i","in":{"$concatArrays":[["$$i"],["$$y"]]}}}}}}"#,
        r#"{"e":[{"$filter":{"input":"$items","as":"i","cond":{"$gt":["$$i.v",1]},"limit":2}},{"$reduce":{"input":[1,2],"initialValue":0,"in":{"$add":["$$value","$$this"]}}},{"$zip":{"inputs":[[1,2],[3]],"useLongestLength":true,"defaults":[0,9]}},{"$sortArray":{"input":[3,1],"sortBy":-1}},{"$slice":[[1,2,3],-2]},{"$slice":[[1,2,3],1,1]},{"$range":[0,10,3]},{"$arrayElemAt":[[1,2],-1]},{"$indexOfArray":[[1,2],2,0,2]},{"$reverseArray":[[1,2]]},{"$in":[1,[1]]}]}"#,
        r#"{"e":[{"$firstN":{"n":2,"input":[1,2,3]}},{"$lastN":{"n":1,"input":[1]}},{"$maxN":{"n":2,"input":[1,5]}},{"$minN":{"n":2,"input":[1]}},{"$setUnion":[[1],[2]]},{"$setIntersection":[[1],[1]]},{"$setDifference":[[1],[2]]},{"$setEquals":[[1],[1]]},{"$setIsSubset":[[1],[1,2]]},{"$allElementsTrue":[[1]]},{"$anyElementTrue":[[0]]},{"$arrayToObject":"$items"},{"$objectToArray":"$$ROOT"},{"$mergeObjects":["$b",{"q":1}]},{"$first":"$items"},{"$last":"$items"},{"$size":"$items"}]}"#,
        r#"{"e":[{"$getField":{"field":"a.b","input":"$$ROOT"}},{"$setField":{"field":{"$literal":"$x"},"input":{},"value":1}},{"$unsetField":{"field":"a","input":"$$ROOT"}},{"$bsonSize":"$$ROOT"},{"$binarySize":"abc"},{"$type":"$a"},{"$isNumber":"$v"},{"$rand":{}}]}"#,
        r#"{"e":[{"$concat":["a","$g"]},{"$substrBytes":["$b",0,3]},{"$substrCP":["abc",1,1]},{"$strLenBytes":"$g"},{"$strLenCP":"\u00e9"},{"$strcasecmp":["a","B"]},{"$toLower":"$g"},{"$toUpper":"$g"},{"$split":["a b"," "]},{"$trim":{"input":" a ","chars":" "}},{"$ltrim":{"input":" a"}},{"$rtrim":{"input":"a "}},{"$indexOfBytes":["abc","c",1,3]},{"$indexOfCP":["abc","b"]},{"$replaceOne":{"input":"aa","find":"a","replacement":"b"}},{"$replaceAll":{"input":"aa","find":"a","replacement":""}},{"$regexMatch":{"input":"abc","regex":"b(c)?","options":"i"}},{"$regexFind":{"input":"abc","regex":{"$regularExpression":{"pattern":"(x)|c","options":""}}}},{"$regexFindAll":{"input":"\u00e9a\u00e9","regex":"\u00e9*"}}]}"#,
        r#"{"e":[{"$convert":{"input":"12","to":"int","onError":0,"onNull":1}},{"$convert":{"input":"ff","to":{"type":"binData","subtype":0},"format":"hex"}},{"$toInt":"5"},{"$toLong":5.5},{"$toDouble":"1e3"},{"$toDecimal":"$v"},{"$toBool":"$g"},{"$toString":"$t"},{"$toDate":"$t"},{"$toObjectId":"0102030405060708090a0b0c"},{"$toUUID":"00010203-0405-0607-0809-0a0b0c0d0e0f"},{"$tsSecond":{"$timestamp":{"t":1,"i":2}}},{"$tsIncrement":{"$timestamp":{"t":1,"i":2}}}]}"#,
        r#"{"e":[{"$dateToString":{"date":"$t","format":"%Y-%m-%dT%H:%M:%S.%L%z %j %u %V %G %b","timezone":"America/New_York","onNull":"n"}},{"$dateFromString":{"dateString":"2020-01-02T03:04:05.006+01:00"}},{"$dateFromString":{"dateString":"02/01/2020","format":"%d/%m/%Y","timezone":"+03:30","onError":1}},{"$dateFromParts":{"year":2020,"month":14,"day":-3,"hour":30,"timezone":"UTC"}},{"$dateFromParts":{"isoWeekYear":2020,"isoWeek":53,"isoDayOfWeek":8}},{"$dateToParts":{"date":"$t","iso8601":true}},{"$year":{"date":"$t","timezone":"Europe/Berlin"}},{"$month":"$t"},{"$week":"$t"},{"$isoWeek":"$t"},{"$isoWeekYear":"$t"},{"$dayOfYear":"$t"},{"$dayOfWeek":"$t"},{"$isoDayOfWeek":"$t"},{"$hour":"$t"},{"$millisecond":"$t"}]}"#,
        r#"{"e":[{"$dateAdd":{"startDate":"$t","unit":"month","amount":13,"timezone":"Asia/Tokyo"}},{"$dateSubtract":{"startDate":"$t","unit":"week","amount":1}},{"$dateDiff":{"startDate":"$t","endDate":"$$NOW","unit":"quarter","startOfWeek":"monday","timezone":"-05"}},{"$dateTrunc":{"date":"$t","unit":"week","binSize":3,"startOfWeek":"friday"}}]}"#,
        r#"{"e":[{"$sum":["$v",1]},{"$avg":"$a"},{"$min":[1,"$v"]},{"$max":"$a"},{"$stdDevPop":[1,2]},{"$stdDevSamp":[1,2]},{"$percentile":{"input":[1,2,3],"p":[0.5,1],"method":"approximate"}},{"$median":{"input":[1,2],"method":"approximate"}},"$$ROOT.a.b","$$CURRENT","$$REMOVE",{"x":"$a","y":{"z":["$b"]}}]}"#,
    ])
}

pub(super) fn pipelines() -> Vec<Vec<u8>> {
    programs(&[
        r#"{"p":[{"$match":{"_id":{"$exists":true}}},{"$project":{"a":1,"n":{"$add":["$v",1]}}},{"$addFields":{"z":"$a"}},{"$sort":{"_id":-1,"a.b":1}},{"$skip":0},{"$limit":5},{"$unset":"q"}]}"#,
        r#"{"p":[{"$unwind":{"path":"$a","includeArrayIndex":"i","preserveNullAndEmptyArrays":true}},{"$group":{"_id":{"g":"$g"},"n":{"$sum":1},"s":{"$push":"$a"},"t":{"$addToSet":"$i"},"f":{"$first":"$a"},"l":{"$last":"$a"},"m":{"$mergeObjects":"$b"},"x":{"$max":"$v"},"y":{"$avg":"$v"},"d":{"$stdDevSamp":"$v"},"c":{"$count":{}}}}]}"#,
        r#"{"p":[{"$group":{"_id":null,"a":{"$top":{"sortBy":{"v":1},"output":"$v"}},"b":{"$bottomN":{"n":2,"sortBy":{"v":-1},"output":["$v","$g"]}},"c":{"$firstN":{"n":2,"input":"$_id"}},"d":{"$maxN":{"n":1,"input":"$v"}},"e":{"$percentile":{"input":"$v","p":[0.1,0.9],"method":"approximate"}},"f":{"$median":{"input":"$v","method":"approximate"}},"g":{"$concatArrays":"$items"},"h":{"$setUnion":"$items"}}}]}"#,
        r#"{"p":[{"$bucket":{"groupBy":"$v","boundaries":[0,5,10],"default":"o","output":{"n":{"$sum":1}}}}]}"#,
        r#"{"p":[{"$bucketAuto":{"groupBy":"$v","buckets":3,"granularity":"R5","output":{"n":{"$sum":1}}}},{"$sortByCount":"$n"}]}"#,
        r#"{"p":[{"$documents":[{"x":1,"t":{"$date":{"$numberLong":"0"}}},{"x":9,"t":{"$date":{"$numberLong":"90000000"}}}]},{"$densify":{"field":"x","partitionByFields":["q"],"range":{"step":2,"bounds":[0,10]}}},{"$fill":{"sortBy":{"x":1},"output":{"t":{"method":"locf"},"y":{"value":1}}}}]}"#,
        r#"{"p":[{"$setWindowFields":{"partitionBy":"$g","sortBy":{"_id":1},"output":{"s":{"$sum":"$v","window":{"documents":["unbounded","current"]}},"r":{"$rank":{}},"d":{"$denseRank":{}},"n":{"$documentNumber":{}},"e":{"$expMovingAvg":{"input":"$v","N":2}},"h":{"$shift":{"output":"$v","by":-1,"default":0}},"f":{"$linearFill":"$v"},"l":{"$locf":"$v"},"c":{"$covariancePop":["$v","$n"],"window":{"documents":[-1,1]}}}}}]}"#,
        r#"{"p":[{"$setWindowFields":{"sortBy":{"v":1},"output":{"s":{"$avg":"$v","window":{"range":[-1,2]}},"d":{"$derivative":{"input":"$v"},"window":{"documents":["unbounded","unbounded"]}},"i":{"$integral":{"input":"$v"},"window":{"range":["unbounded","current"]}}}}}]}"#,
        r#"{"p":[{"$facet":{"one":[{"$count":"n"}],"two":[{"$replaceRoot":{"newRoot":{"$ifNull":["$b",{}]}}},{"$sample":{"size":2}}]}},{"$replaceWith":{"a":"$one"}},{"$redact":{"$cond":[{"$eq":["$a",1]},"$$PRUNE","$$DESCEND"]}}]}"#,
        r#"{"p":[{"$lookup":{"from":"c","localField":"a","foreignField":"b","as":"j","let":{"x":"$a"},"pipeline":[{"$match":{"$expr":{"$eq":["$$x","$a"]}}}]}},{"$graphLookup":{"from":"c","startWith":"$a","connectFromField":"a","connectToField":"b","as":"g","maxDepth":2,"depthField":"d","restrictSearchWithMatch":{"x":1}}},{"$unionWith":{"coll":"c","pipeline":[{"$limit":1}]}}]}"#,
    ])
}

/// Commands, those of an input one after the other.
const COMMANDS: [&[&str]; 9] = [
    &[
        r#"{"create":"c","validator":{"v":{"$gte":0}},"changeStreamPreAndPostImages":{"enabled":true}}"#,
        r#"{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a"},{"key":{"u":1},"name":"u","unique":true,"sparse":true},{"key":{"$**":1},"name":"w"},{"key":{"g":"hashed"},"name":"h"},{"key":{"v":-1,"a":1},"name":"p","partialFilterExpression":{"v":{"$gt":1}}}]}"#,
        r#"{"insert":"c","documents":[{"_id":1,"a":[1,2],"v":1,"u":1},{"_id":2,"v":2,"u":1},{"_id":3,"g":"x","v":3}],"ordered":false}"#,
        r#"{"find":"c","filter":{"a":{"$gte":1}},"sort":{"v":-1},"projection":{"a":1},"limit":2,"skip":0,"batchSize":1}"#,
        r#"{"listIndexes":"c"}"#,
        r#"{"validate":"c","full":true}"#,
    ],
    &[
        r#"{"insert":"c","documents":[{"_id":1,"v":1,"items":[{"k":1}]},{"_id":2,"v":2},{"_id":3}]}"#,
        r#"{"update":"c","updates":[{"q":{"v":{"$gte":1}},"u":{"$inc":{"v":1}},"multi":true},{"q":{"_id":9},"u":{"$set":{"x":1}},"upsert":true},{"q":{"_id":1},"u":[{"$set":{"w":"$v"}}]},{"q":{"_id":1},"u":{"$set":{"items.$[i].k":2}},"arrayFilters":[{"i.k":1}]}]}"#,
        r#"{"findAndModify":"c","query":{"_id":2},"update":{"$unset":{"v":1}},"new":true,"fields":{"v":1},"upsert":true}"#,
        r#"{"findAndModify":"c","query":{},"sort":{"_id":-1},"remove":true}"#,
        r#"{"delete":"c","deletes":[{"q":{"_id":3},"limit":1},{"q":{},"limit":0}]}"#,
    ],
    &[
        r#"{"insert":"c","documents":[{"_id":1,"v":1},{"_id":2,"v":1},{"_id":3,"v":2}]}"#,
        r#"{"aggregate":"c","pipeline":[{"$group":{"_id":"$v","n":{"$sum":1}}},{"$sort":{"_id":1}}],"cursor":{"batchSize":1}}"#,
        r#"{"aggregate":"c","pipeline":[{"$lookup":{"from":"c","localField":"v","foreignField":"v","as":"j"}},{"$out":"d"}],"cursor":{}}"#,
        r#"{"aggregate":"d","pipeline":[{"$merge":{"into":"c","on":"_id","whenMatched":"merge","whenNotMatched":"insert"}}],"cursor":{}}"#,
        r#"{"count":"c","query":{"v":1},"limit":5,"skip":1}"#,
        r#"{"distinct":"c","key":"v","query":{"_id":{"$gt":0}}}"#,
        r#"{"explain":{"find":"c","filter":{"v":1}},"verbosity":"executionStats"}"#,
    ],
    &[
        r#"{"create":"v","viewOn":"c","pipeline":[{"$match":{"x":1}}]}"#,
        r#"{"insert":"c","documents":[{"_id":1,"x":1}]}"#,
        r#"{"find":"v","filter":{}}"#,
        r#"{"listCollections":1,"filter":{"type":"view"},"nameOnly":false}"#,
        r#"{"renameCollection":"app.c","to":"app.d","dropTarget":true,"$db":"admin"}"#,
        r#"{"collMod":"d","validator":{"x":{"$type":"int"}},"validationLevel":"moderate","validationAction":"error"}"#,
        r#"{"drop":"v"}"#,
        r#"{"dropDatabase":1}"#,
    ],
    &[
        r#"{"createIndexes":"c","indexes":[{"key":{"t":1},"name":"ttl","expireAfterSeconds":1}]}"#,
        r#"{"collMod":"c","index":{"name":"ttl","expireAfterSeconds":5,"hidden":true}}"#,
        r#"{"dropIndexes":"c","index":["ttl"]}"#,
        r#"{"collStats":"c"}"#,
        r#"{"dbStats":1}"#,
        r#"{"listDatabases":1,"$db":"admin"}"#,
        r#"{"serverStatus":1}"#,
    ],
    &[
        r#"{"insert":"c","documents":[{"_id":1}],"lsid":{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}},"txnNumber":{"$numberLong":"1"},"startTransaction":true,"autocommit":false}"#,
        r#"{"find":"c","filter":{},"lsid":{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}},"txnNumber":{"$numberLong":"1"},"autocommit":false}"#,
        r#"{"commitTransaction":1,"lsid":{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}},"txnNumber":{"$numberLong":"1"},"autocommit":false,"$db":"admin"}"#,
    ],
    &[
        r#"{"insert":"c","documents":[{"_id":1,"n":0}],"lsid":{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}},"txnNumber":{"$numberLong":"2"},"stmtIds":[0],"writeConcern":{"w":"majority","j":true}}"#,
        r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}],"lsid":{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}},"txnNumber":{"$numberLong":"3"}}"#,
        r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}],"lsid":{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}},"txnNumber":{"$numberLong":"3"}}"#,
        r#"{"endSessions":[{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}}],"$db":"admin"}"#,
    ],
    &[
        r#"{"bulkWrite":1,"ops":[{"insert":0,"document":{"_id":1}},{"update":0,"filter":{"_id":1},"updateMods":{"$set":{"a":1}},"multi":false,"upsert":true},{"delete":0,"filter":{"_id":1},"multi":false}],"nsInfo":[{"ns":"app.c"}],"ordered":true,"errorsOnly":false,"$db":"admin"}"#,
        r#"{"insert":"c","documents":[{"_id":{"$numberLong":"5"},"a":[{"b":1}]}],"bypassDocumentValidation":true,"comment":"x"}"#,
        r#"{"find":"c","filter":{"a.b":1},"hint":{"_id":1},"collation":{"locale":"simple"},"let":{"x":1},"maxTimeMS":1000,"returnKey":true,"min":{"_id":0},"max":{"_id":9}}"#,
        r#"{"killCursors":"c","cursors":[{"$numberLong":"7"}]}"#,
    ],
    &[
        r#"{"create":"k","clusteredIndex":{"key":{"_id":1},"unique":true},"storageEngine":{"spinney":{"layout":"lsm"}}}"#,
        r#"{"insert":"k","documents":[{"_id":"a"},{"_id":null},{"_id":{"x":1}}]}"#,
        r#"{"find":"k","filter":{"_id":{"$gte":"a"}},"showRecordId":true,"singleBatch":true,"readConcern":{"level":"snapshot"}}"#,
        r#"{"getParameter":"*","$db":"admin"}"#,
        r#"{"ping":1}"#,
        r#"{"hello":1}"#,
    ],
];

pub(super) fn commands() -> Vec<Vec<u8>> {
    COMMANDS.iter().map(|commands| commands.iter().flat_map(|text| json(text)).collect()).collect()
}
