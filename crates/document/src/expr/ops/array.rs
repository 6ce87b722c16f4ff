//! Arrays.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, DocumentBuilder, FieldList, Value};
use crate::expr::allowance::{self, ArrayMaker};
use crate::expr::parser::{Parser, check_variable};
use crate::expr::tree::{Call, Env, Expression, Function, Local, function};
use crate::expr::value::{Val, as_array, count, error, exact_i32, int, position};

/// The array that a value is; nothing for null and missing, an error for others.
pub(in crate::expr) fn array_or_null<'v>(
    value: &'v Val<'_>,
    wrong: impl FnOnce(&str) -> Error,
) -> Result<Option<Array<'v>>> {
    match as_array(value) {
        Some(array) => Ok(Some(array)),
        None if value.is_nullish() => Ok(None),
        None => Err(wrong(value.type_name())),
    }
}

function!(is_array(call, env) { Ok(as_array(&call.argument(0, env)?).is_some().into()) });

function!(size(call, env) {
    let value = call.argument(0, env)?;
    let wrong = || error(17124, format!("The argument to $size must be an array, but was of type: {}", value.type_name()));
    Ok(count(as_array(&value).ok_or_else(wrong)?.count()))
});

function!(element_at(call, env) {
    let (array, index) = (call.argument(0, env)?, call.argument(1, env)?);
    if array.is_nullish() || index.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(values) = as_array(&array) else {
        return Err(error(28689, format!("$arrayElemAt's first argument must be an array, but is {}", array.type_name())));
    };
    if index.value().as_number().is_none() {
        let what = format!("$arrayElemAt's second argument must be a numeric value, but is {}", index.type_name());
        return Err(error(28690, what));
    }
    let what = "$arrayElemAt's second argument must be representable as a 32-bit integer";
    at(values, i64::from(exact_i32(&index.value(), 28691, what)?))
});

/// The value at a position, counted from the end when negative.
fn at(values: Array<'_>, index: i64) -> Result<Val<'static>> {
    let index = if index < 0 { i64::try_from(values.count()).unwrap_or(i64::MAX) + index } else { index };
    let found = position(index).and_then(|index| values.get(index));
    Ok(found.map_or(Val::Missing, |value| Val::Own(value.into())))
}

function!(first(call, env) { end(call, env, 0) });
function!(last(call, env) { end(call, env, -1) });

fn end<'a>(call: &'a Call, env: &Env<'a>, index: i64) -> Result<Val<'a>> {
    let value = call.argument(0, env)?;
    let name = call.name;
    let wrong = |kind: &str| error(28689, format!("{name}'s argument must be an array, but is {kind}"));
    array_or_null(&value, wrong)?.map_or(Ok(Val::NULL), |values| at(values, index))
}

function!(concat_arrays(call, env) {
    let values = call.all(env)?;
    let mut arrays = Vec::new();
    for value in &values {
        let wrong = |kind: &str| error(28664, format!("$concatArrays only supports arrays, not {kind}"));
        match array_or_null(value, wrong)? {
            Some(array) => arrays.push(array),
            None => return Ok(Val::NULL),
        }
    }
    Ok(Val::Own(allowance::array(arrays.into_iter().flat_map(Array::values))?))
});

function!(reverse_array(call, env) {
    let value = call.argument(0, env)?;
    let wrong = |kind: &str| error(34435, format!("The argument to $reverseArray must be an array, but was of type: {kind}"));
    Ok(match array_or_null(&value, wrong)? {
        None => Val::NULL,
        Some(array) => {
            let mut values = allowance::collected(array.values())?;
            values.reverse();
            Val::Own(allowance::array(values)?)
        }
    })
});

function!(is_in(call, env) {
    let (value, array) = (call.argument(0, env)?, call.argument(1, env)?);
    let Some(values) = as_array(&array) else {
        return Err(error(40081, format!("$in requires an array as a second argument, found: {}", array.type_name())));
    };
    let found = value.view().is_some_and(|value| values.values().any(|other| env.equal(&value, &other)));
    Ok(found.into())
});

function!(index_of_array(call, env) {
    let array = call.argument(0, env)?;
    let wrong = |kind: &str| error(40090, format!("$indexOfArray requires an array as a first argument, found: {kind}"));
    let Some(values) = array_or_null(&array, wrong)? else { return Ok(Val::NULL) };
    let sought = call.argument(1, env)?;
    let bound = |at: usize, default: i64| -> Result<i64> {
        if !call.has(at) {
            return Ok(default);
        }
        let value = call.argument(at, env)?;
        let exact = value.value().as_exact_i64().and_then(|number| i32::try_from(number).ok());
        let Some(exact) = exact else {
            let name = if at == 2 { "starting" } else { "ending" };
            return Err(error(9_711_600, format!("$indexOfArray requires an integral {name} index, found a value of type: {}", value.type_name())));
        };
        if exact < 0 {
            return Err(error(9_711_601, format!("$indexOfArray requires a nonnegative index, found: {exact}")));
        }
        Ok(i64::from(exact))
    };
    let (from, to) = (bound(2, 0)?, bound(3, i64::MAX)?);
    let found = (0_i64..).zip(values.values()).find(|(at, value)| {
        (from..to).contains(at) && sought.view().is_some_and(|sought| env.equal(&sought, value))
    });
    Ok(Val::View(int(found.map_or(-1, |(at, _)| at))))
});

function!(slice(call, env) {
    let array = call.argument(0, env)?;
    let rest = (1..call.arguments.len()).map(|at| call.argument(at, env)).collect::<Result<Vec<_>>>()?;
    if array.is_nullish() || rest.iter().any(Val::is_nullish) {
        return Ok(Val::NULL);
    }
    let Some(values) = as_array(&array) else {
        return Err(error(28724, format!("First argument to $slice must be an array, but is of type: {}", array.type_name())));
    };
    let whole = |value: &Val<'_>| -> Result<i64> {
        if value.value().as_number().is_none() {
            return Err(error(28725, format!("Argument to $slice must be numeric, but is of type: {}", value.type_name())));
        }
        exact_i32(&value.value(), 28726, "Argument to $slice can't be represented as a 32-bit integer").map(i64::from)
    };
    let total = i64::try_from(values.count()).unwrap_or(i64::MAX);
    let (start, length) = match &rest[..] {
        [only] => {
            let n = whole(only)?;
            if n >= 0 { (0, n) } else { ((total + n).max(0), -n) }
        }
        [start, length, ..] => {
            let start = whole(start)?;
            let start = if start < 0 { (total + start).max(0) } else { start };
            let length = whole(length)?;
            if length <= 0 {
                return Err(error(28729, format!("Third argument to $slice must be positive: {length}")));
            }
            (start, length)
        }
        [] => (0, total),
    };
    let (skip, take) = (position(start).unwrap_or_default(), position(length).unwrap_or_default());
    Ok(Val::Own(allowance::array(values.values().skip(skip).take(take))?))
});

function!(range(call, env) {
    let whole = |at: usize, kind_code: i32, code: i32, what: &str| -> Result<i64> {
        let value = call.argument(at, env)?;
        if value.value().as_number().is_none() {
            return Err(error(kind_code, format!("$range requires a numeric {what} value, found value of type: {}", value.type_name())));
        }
        exact_i32(&value.value(), code, &format!("$range requires a {what} value that can be represented as a 32-bit integer")).map(i64::from)
    };
    let (start, end) = (whole(0, 34443, 34444, "starting")?, whole(1, 34445, 34446, "ending")?);
    let step = if call.has(2) { whole(2, 34447, 34448, "step")? } else { 1 };
    if step == 0 {
        return Err(error(34449, "$range requires a non-zero step value"));
    }
    let steps = if (end > start) == (step > 0) { (end - start).unsigned_abs().div_ceil(step.unsigned_abs()) } else { 0 };
    // Each value takes at least six bytes in an array.
    if steps > 16 << 20 {
        return Err(Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, "$range would use too much memory and cannot spill"));
    }
    let steps = i64::try_from(steps).unwrap_or_default();
    Ok(Val::Own(allowance::array((0..steps).map(|at| int(start + at * step)))?))
});

function!(array_to_object(call, env) {
    let value = call.argument(0, env)?;
    let wrong = |kind: &str| error(40386, format!("$arrayToObject requires an array input, found: {kind}"));
    let Some(array) = array_or_null(&value, wrong)? else { return Ok(Val::NULL) };
    let mut fields: FieldList<String, Value<'_>> = FieldList::default();
    let mut pairs = None;
    for item in array {
        allowance::charge(allowance::payload_bytes(&item) + size_of::<(String, Value<'_>)>())?;
        let (name, value) = match item {
            Value::Array(pair) if pairs != Some(false) => {
                pairs = Some(true);
                pair_of(pair)?
            }
            Value::Document(_) if pairs == Some(true) => {
                return Err(error(40391, "$arrayToObject requires a consistent input format. Expected an array, found: object"));
            }
            Value::Document(document) => {
                pairs = Some(false);
                key_and_value_of(document)?
            }
            Value::Array(_) => {
                return Err(error(40396, "$arrayToObject requires a consistent input format. Expected an object, found: array"));
            }
            other if pairs.is_none() => {
                return Err(error(40398, format!("Unrecognised input type format for $arrayToObject: {}", other.kind().name())));
            }
            other if pairs == Some(true) => {
                return Err(error(40391, format!("$arrayToObject requires a consistent input format. Expected an array, found: {}", other.kind().name())));
            }
            other => {
                return Err(error(40396, format!("$arrayToObject requires a consistent input format. Expected an object, found: {}", other.kind().name())));
            }
        };
        fields.set(name, value);
    }
    let mut builder = DocumentBuilder::new();
    for (name, value) in fields.into_fields() {
        builder.append(name, value);
    }
    Ok(Val::document(builder.finish()))
});

fn pair_of(pair: Array<'_>) -> Result<(String, Value<'_>)> {
    let values: Vec<_> = pair.values().collect();
    let [name, value] = values[..] else {
        return Err(error(
            40397,
            format!("$arrayToObject requires an array of size 2 arrays,found array of size: {}", values.len()),
        ));
    };
    let Value::String(name) = name else {
        return Err(error(
            40395,
            format!(
                "$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found key type: {}",
                name.kind().name()
            ),
        ));
    };
    let name = name.to_str_lossy().into_owned();
    if name.contains('\0') {
        return Err(error(4_940_400, "Key field cannot contain an embedded null byte"));
    }
    Ok((name, value))
}

fn key_and_value_of(document: crate::bson::Document<'_>) -> Result<(String, Value<'_>)> {
    let fields = document.elements().count();
    if fields != 2 {
        return Err(error(
            40392,
            format!("$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{fields}"),
        ));
    }
    let (Some(name), Some(value)) = (document.get("k"), document.get("v")) else {
        return Err(error(
            40393,
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys",
        ));
    };
    let Value::String(name) = name else {
        return Err(error(
            40394,
            format!(
                "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string. Found type: {}",
                name.kind().name()
            ),
        ));
    };
    let name = name.to_str_lossy().into_owned();
    if name.contains('\0') {
        return Err(error(4_940_401, "Key field cannot contain an embedded null byte"));
    }
    Ok((name, value))
}

function!(zip(call, env) {
    // The arguments: whether the longest counts, the defaults, the inputs.
    let longest = call.arguments.first().and_then(Expression::as_constant).is_some_and(|value| matches!(value, Value::Bool(true)));
    let defaults = if call.has(1) { Some(call.argument(1, env)?) } else { None };
    let defaults = match &defaults {
        Some(defaults) => {
            let wrong = |kind: &str| error(34462, format!("defaults must be an array of expressions, found {kind}"));
            array_or_null(defaults, wrong)?
        }
        None => None,
    };
    let inputs = (2..call.arguments.len()).map(|at| call.argument(at, env)).collect::<Result<Vec<_>>>()?;
    let mut arrays = Vec::with_capacity(inputs.len());
    for input in &inputs {
        let wrong = |kind: &str| error(34468, format!("$zip found a non-array expression in input: {kind}"));
        match array_or_null(input, wrong)? {
            Some(array) => arrays.push(allowance::collected(array.values())?),
            None => return Ok(Val::NULL),
        }
    }
    let lengths = arrays.iter().map(Vec::len);
    let length = if longest { lengths.max() } else { lengths.min() }.unwrap_or_default();
    let default = |at: usize| defaults.and_then(|defaults| defaults.get(at)).unwrap_or(Value::Null);
    let mut rows = ArrayMaker::new();
    for row in 0..length {
        let before = allowance::held() - rows.charged();
        let columns = arrays.iter().enumerate();
        let values = columns.map(|(at, array)| array.get(row).copied().unwrap_or_else(|| default(at)));
        rows.push(allowance::array(values)?.view())?;
        allowance::release_to(before + rows.charged());
    }
    Ok(Val::Own(rows.finish()))
});

/// `$zip`.
pub(in crate::expr) fn parse_zip(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(
            34460,
            format!("$zip only supports an object as an argument, found {}", value.kind().name()),
        ));
    };
    let (mut longest, mut defaults, mut inputs) = (Value::Bool(false), None, None);
    for element in document {
        match element.name.as_bytes() {
            b"inputs" => {
                let Value::Array(array) = element.value else {
                    return Err(error(
                        34461,
                        format!("inputs must be an array of expressions, found {}", element.value.kind().name()),
                    ));
                };
                inputs = Some(parser.items(array)?);
            }
            b"defaults" => {
                let Value::Array(array) = element.value else {
                    return Err(error(
                        34462,
                        format!("defaults must be an array of expressions, found {}", element.value.kind().name()),
                    ));
                };
                defaults = Some(parser.items(array)?);
            }
            b"useLongestLength" => {
                let Value::Bool(_) = element.value else {
                    return Err(error(
                        34463,
                        format!("useLongestLength must be a bool, found {}", element.value.kind().name()),
                    ));
                };
                longest = element.value;
            }
            _ => return Err(error(34464, format!("$zip found an unknown argument: {}", element.name))),
        }
    }
    let inputs = inputs.unwrap_or_default();
    if inputs.is_empty() {
        return Err(error(34465, "$zip requires at least one input array"));
    }
    if let Some(defaults) = &defaults {
        if matches!(longest, Value::Bool(false)) && !defaults.is_empty() {
            return Err(error(34466, "cannot specify defaults unless useLongestLength is true"));
        }
        if !defaults.is_empty() && defaults.len() != inputs.len() {
            return Err(error(34467, "defaults and inputs must have the same length"));
        }
    }
    let mut arguments = vec![Expression::constant(longest), defaults.map_or(Expression::Absent, Expression::Array)];
    arguments.extend(inputs);
    Ok(Expression::Call(Call { name, function: zip, arguments }))
}

/// The value of `body` with one more variable.
pub(in crate::expr) fn with_one<'b>(body: &'b Expression, value: Val<'b>, env: &Env<'b>) -> Result<Val<'static>> {
    let local = Local::new(value, env);
    body.evaluate(&env.with(&local)).and_then(allowance::owned)
}

/// Appends the value of `body` with one more variable to an array.
fn push_one<'b>(body: &'b Expression, value: Value<'b>, env: &Env<'b>, to: &mut ArrayMaker) -> Result<()> {
    let before = allowance::held() - to.charged();
    let local = Local::new(Val::View(value), env);
    to.push(body.evaluate(&env.with(&local))?.value())?;
    allowance::release_to(before + to.charged());
    Ok(())
}

/// Whether the value of `body` with one more variable counts as true.
fn test_one<'b>(body: &'b Expression, value: Value<'b>, env: &Env<'b>) -> Result<bool> {
    let before = allowance::held();
    let local = Local::new(Val::View(value), env);
    let is = body.evaluate(&env.with(&local))?.truth();
    allowance::release_to(before);
    Ok(is)
}

function!(map(call, env) {
    let input = call.argument(0, env)?;
    let wrong = |kind: &str| error(16883, format!("input to $map must be an array not {kind}"));
    let Some(array) = array_or_null(&input, wrong)? else { return Ok(Val::NULL) };
    let body = call.arguments.get(1).unwrap_or(&Expression::Missing);
    let mut values = ArrayMaker::new();
    for value in array.values() {
        push_one(body, value, env, &mut values)?;
    }
    Ok(Val::Own(values.finish()))
});

/// The name of the variable that `as` gives, `this` without it.
fn variable_of(value: Option<Value<'_>>) -> Result<String> {
    match value {
        None => Ok("this".to_owned()),
        Some(Value::String(name)) => {
            let name = name.to_str_lossy().into_owned();
            check_variable(&name)?;
            Ok(name)
        }
        Some(other) => Err(Error::new(
            ErrorCode::FAILED_TO_PARSE,
            format!("'as' must be a string, found: {}", other.kind().name()),
        )),
    }
}

/// `$map`.
pub(in crate::expr) fn parse_map(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(16878, "$map only supports an object as its argument"));
    };
    for element in document {
        if !["input", "as", "in"].iter().any(|known| element.name == *known) {
            return Err(error(16879, format!("Unrecognized parameter to $map: {}", element.name)));
        }
    }
    let input = document.get("input").ok_or_else(|| error(16880, "Missing 'input' parameter to $map"))?;
    let body = document.get("in").ok_or_else(|| error(16882, "Missing 'in' parameter to $map"))?;
    let input = parser.parse(input)?;
    let variable = variable_of(document.get("as"))?;
    let arguments = vec![input, parser.parse_with(&[&variable], body)?];
    Ok(Expression::Call(Call { name, function: map, arguments }))
}

function!(filter(call, env) {
    let input = call.argument(0, env)?;
    let wrong = |kind: &str| error(28651, format!("input to $filter must be an array not {kind}"));
    let Some(array) = array_or_null(&input, wrong)? else { return Ok(Val::NULL) };
    let limit = call.argument(2, env)?;
    let limit = if limit.is_nullish() {
        usize::MAX
    } else {
        let what = "$filter: limit must be represented as a 32-bit integral value";
        let limit = exact_i32(&limit.value(), 327_391, what)?;
        usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(|| {
            error(327_392, format!("$filter: limit must be greater than 0: {limit}"))
        })?
    };
    let body = call.arguments.get(1).unwrap_or(&Expression::Missing);
    let (mut kept, mut count) = (ArrayMaker::new(), 0);
    for value in array {
        if test_one(body, value, env)? {
            kept.push(value)?;
            count += 1;
            if count == limit {
                break;
            }
        }
    }
    Ok(Val::Own(kept.finish()))
});

/// `$filter`.
pub(in crate::expr) fn parse_filter(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(28646, "$filter only supports an object as its argument"));
    };
    for element in document {
        if !["input", "as", "cond", "limit"].iter().any(|known| element.name == *known) {
            return Err(error(28647, format!("Unrecognized parameter to $filter: {}", element.name)));
        }
    }
    let input = document.get("input").ok_or_else(|| error(28648, "Missing 'input' parameter to $filter"))?;
    let body = document.get("cond").ok_or_else(|| error(28650, "Missing 'cond' parameter to $filter"))?;
    let input = parser.parse(input)?;
    let variable = variable_of(document.get("as"))?;
    let body = parser.parse_with(&[&variable], body)?;
    let arguments = vec![input, body, parser.optional(document.get("limit"))?];
    Ok(Expression::Call(Call { name, function: filter, arguments }))
}

function!(reduce(call, env) {
    let input = call.argument(0, env)?;
    let wrong = |kind: &str| error(40080, format!("$reduce requires that 'input' be an array, found: {kind}"));
    let Some(array) = array_or_null(&input, wrong)? else { return Ok(Val::NULL) };
    let body = call.arguments.get(2).unwrap_or(&Expression::Missing);
    let before = allowance::held();
    let mut total = allowance::owned(call.argument(1, env)?)?;
    for value in array {
        total = with_two(body, value, &total, env)?;
        // The values of the steps before are gone.
        allowance::release_to(before + allowance::bytes_of(&total));
    }
    Ok(total)
});

fn with_two<'b>(body: &'b Expression, this: Value<'b>, value: &'b Val<'b>, env: &Env<'b>) -> Result<Val<'static>> {
    let this = Local::new(Val::View(this), env);
    with_one(body, value.view().map_or(Val::Missing, Val::View), &env.with(&this))
}

/// `$reduce`.
pub(in crate::expr) fn parse_reduce(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(40075, format!("$reduce requires an object as an argument, found: {}", value.kind().name())));
    };
    for element in document {
        if !["input", "initialValue", "in"].iter().any(|known| element.name == *known) {
            return Err(error(40076, format!("$reduce found an unknown argument: {}", element.name)));
        }
    }
    let input = document.get("input").ok_or_else(|| error(40077, "$reduce requires 'input' to be specified"))?;
    let initial =
        document.get("initialValue").ok_or_else(|| error(40078, "$reduce requires 'initialValue' to be specified"))?;
    let body = document.get("in").ok_or_else(|| error(40079, "$reduce requires 'in' to be specified"))?;
    let arguments = vec![parser.parse(input)?, parser.parse(initial)?, parser.parse_with(&["this", "value"], body)?];
    Ok(Expression::Call(Call { name, function: reduce, arguments }))
}

function!(sort_array(call, env) {
    let input = call.argument(0, env)?;
    let wrong = |kind: &str| error(2_942_504, format!("The input argument to $sortArray must be an array, but was of type: {kind}"));
    let Some(array) = array_or_null(&input, wrong)? else { return Ok(Val::NULL) };
    let mut values = allowance::collected(array.values())?;
    match call.arguments.get(1).and_then(Expression::as_constant) {
        Some(Value::Document(pattern)) => {
            let pattern = crate::path::sort::Sort::parse(pattern, None)?;
            values.sort_by(|a, b| pattern.compare_values(env.collation, a, b));
        }
        Some(direction) => {
            values.sort_by(|a, b| env.compare(a, b));
            if direction.as_exact_i64() == Some(-1) {
                values.sort_by(|a, b| env.compare(b, a));
            }
        }
        None => {}
    }
    Ok(Val::Own(allowance::array(values)?))
});

/// `$sortArray`.
pub(in crate::expr) fn parse_sort_array(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(
            2_942_500,
            format!("$sortArray requires an object as an argument, found: {}", value.kind().name()),
        ));
    };
    for element in document {
        if element.name != "input" && element.name != "sortBy" {
            return Err(error(2_942_501, format!("$sortArray found an unknown argument: {}", element.name)));
        }
    }
    let input = document.get("input").ok_or_else(|| error(2_942_502, "$sortArray requires 'input' to be specified"))?;
    let by = document.get("sortBy").ok_or_else(|| error(2_942_503, "$sortArray requires 'sortBy' to be specified"))?;
    match by {
        Value::Document(pattern) => {
            crate::path::sort::Sort::parse(pattern, None)?;
        }
        by if by.kind().is_number() => {
            if !matches!(by.as_exact_i64(), Some(1 | -1)) {
                return Err(error(2_942_506, "The $sortArray sort value must be 1 or -1"));
            }
        }
        _ => return Err(error(2_942_507, "$sortArray requires 'sortBy' to be an object or 1 or -1")),
    }
    let arguments = vec![parser.parse(input)?, Expression::constant(by)];
    Ok(Expression::Call(Call { name, function: sort_array, arguments }))
}

/// `$firstN`, `$lastN`, `$minN`, `$maxN` of an array: the arguments are n and the input.
fn some_of<'a>(call: &'a Call, env: &Env<'a>) -> Result<(usize, Val<'a>)> {
    let n = call.argument(0, env)?;
    let n = count_of(&n)?;
    let input = call.argument(1, env)?;
    if as_array(&input).is_none() {
        return Err(error(5_788_200, "Input must be an array"));
    }
    Ok((n, input))
}

/// The `n` of an accumulator: a whole number above zero.
pub(crate) fn count_of(n: &Val<'_>) -> Result<usize> {
    let value = n.value();
    if value.as_number().is_none() {
        return Err(error(5_787_902, format!("Value for 'n' must be of integral type, but found {}", value.to_json())));
    }
    let whole = value.as_exact_i64();
    let whole = whole.ok_or_else(|| {
        error(5_787_903, format!("Value for 'n' must be of integral type, but found {}", value.to_json()))
    })?;
    usize::try_from(whole)
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| error(5_787_908, format!("'n' must be greater than 0, found {whole}")))
}

function!(first_n(call, env) {
    let (n, input) = some_of(call, env)?;
    let Some(array) = as_array(&input) else { return Ok(Val::NULL) };
    Ok(Val::Own(allowance::array(array.values().take(n))?))
});

function!(last_n(call, env) {
    let (n, input) = some_of(call, env)?;
    let Some(array) = as_array(&input) else { return Ok(Val::NULL) };
    let skipped = array.count().saturating_sub(n);
    Ok(Val::Own(allowance::array(array.values().skip(skipped))?))
});

fn extreme<'a>(call: &'a Call, env: &Env<'a>, most: bool) -> Result<Val<'a>> {
    let (n, input) = some_of(call, env)?;
    let Some(array) = as_array(&input) else { return Ok(Val::NULL) };
    let mut values = allowance::collected(array.values().filter(|value| !value.is_nullish()))?;
    values.sort_by(|a, b| if most { env.compare(b, a) } else { env.compare(a, b) });
    values.truncate(n);
    Ok(Val::Own(allowance::array(values)?))
}

function!(min_n(call, env) { extreme(call, env, false) });
function!(max_n(call, env) { extreme(call, env, true) });

/// Reads `{n: .., input: ..}` for one of the functions above.
pub(in crate::expr) fn parse_n(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(5_787_900, format!("specification must be an object; found {}", value.to_json())));
    };
    for element in document {
        if element.name != "n" && element.name != "input" {
            return Err(error(5_787_901, format!("Unknown argument for '{name}' operator: {}", element.name)));
        }
    }
    let n = document.get("n").ok_or_else(|| error(5_787_906, format!("Missing value for 'n' in '{name}'")))?;
    let input =
        document.get("input").ok_or_else(|| error(5_787_907, format!("Missing value for 'input' in '{name}'")))?;
    let function: Function = match name {
        "$firstN" => first_n,
        "$lastN" => last_n,
        "$minN" => min_n,
        _ => max_n,
    };
    let arguments = vec![parser.parse(n)?, parser.parse(input)?];
    Ok(Expression::Call(Call { name, function, arguments }))
}
