//! Sets: arrays whose order and repetitions do not count.

use super::array::array_or_null;
use crate::base::Result;
use crate::bson::{Array, Value};
use crate::collation::{Collation, compare};
use crate::expr::allowance;
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Env, Expression, function};
use crate::expr::value::{Val, as_array, error, truth};

/// Values in order, each once.
struct Set<'v> {
    values: Vec<Value<'v>>,
    collation: Option<&'v Collation>,
}

impl<'v> Set<'v> {
    fn new(array: Array<'v>, env: &Env<'v>) -> Result<Self> {
        Ok(Self { values: each_once(allowance::collected(array.values())?, env), collation: env.collation })
    }

    fn contains(&self, value: &Value<'_>) -> bool {
        self.values.binary_search_by(|other| compare(self.collation, other, value)).is_ok()
    }

    fn is(&self, other: &Self) -> bool {
        let equal = |(a, b): (&Value<'_>, &Value<'_>)| compare(self.collation, a, b).is_eq();
        self.values.len() == other.values.len() && self.values.iter().zip(&other.values).all(equal)
    }
}

/// Values in order, each once.
fn each_once<'v>(mut values: Vec<Value<'v>>, env: &Env<'_>) -> Vec<Value<'v>> {
    // A stable sort keeps the first of equal values.
    values.sort_by(|a, b| env.compare(a, b));
    values.dedup_by(|a, b| env.equal(a, b));
    values
}

function!(union(call, env) {
    let values = call.all(env)?;
    if values.iter().any(Val::is_nullish) {
        return Ok(Val::NULL);
    }
    let mut all = Vec::new();
    for value in &values {
        let wrong = |kind: &str| error(17043, format!("All operands of $setUnion must be arrays. One argument is of type: {kind}"));
        match array_or_null(value, wrong)? {
            Some(array) => all.push(array),
            None => return Ok(Val::NULL),
        }
    }
    Ok(Val::Own(allowance::array(each_once(allowance::collected(all.into_iter().flat_map(Array::values))?, env))?))
});

function!(intersection(call, env) {
    let values = call.all(env)?;
    let mut common: Option<Vec<Value<'_>>> = None;
    for value in &values {
        let wrong = |kind: &str| error(17047, format!("All operands of $setIntersection must be arrays. One argument is of type: {kind}"));
        let Some(array) = array_or_null(value, wrong)? else { return Ok(Val::NULL) };
        let set = Set::new(array, env)?;
        common = Some(match common {
            None => set.values,
            Some(common) => common.into_iter().filter(|value| set.contains(value)).collect(),
        });
    }
    Ok(Val::Own(allowance::array(common.unwrap_or_default())?))
});

function!(difference(call, env) {
    let (left, right) = (call.argument(0, env)?, call.argument(1, env)?);
    if left.is_nullish() || right.is_nullish() {
        return Ok(Val::NULL);
    }
    let wrong = |code, place: &'static str| {
        move |kind: &str| error(code, format!("both operands of $setDifference must be arrays. {place} argument is of type: {kind}"))
    };
    let (a, b) = (array_or_null(&left, wrong(17048, "First"))?, array_or_null(&right, wrong(17049, "Second"))?);
    let (Some(a), Some(b)) = (a, b) else { return Ok(Val::NULL) };
    let (mut kept, without) = (Vec::<Value<'_>>::new(), Set::new(b, env)?);
    // Which of equal values come again: their places in order.
    let all = allowance::collected(a.values())?;
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|x, y| env.compare(&all[*x], &all[*y]));
    let mut again = vec![false; all.len()];
    order.windows(2).filter(|pair| env.equal(&all[pair[0]], &all[pair[1]])).for_each(|pair| again[pair[1]] = true);
    for (value, again) in all.into_iter().zip(again) {
        if !again && !without.contains(&value) {
            kept.push(value);
        }
    }
    Ok(Val::Own(allowance::array(kept)?))
});

function!(equals(call, env) {
    let values = call.all(env)?;
    let mut first: Option<Set<'_>> = None;
    let mut equal = true;
    for value in &values {
        let Some(array) = as_array(value) else {
            return Err(error(17044, format!("All operands of $setEquals must be arrays. One argument is of type: {}", value.type_name())));
        };
        let set = Set::new(array, env)?;
        match &first {
            None => first = Some(set),
            Some(first) => equal &= first.is(&set),
        }
    }
    Ok(equal.into())
});

/// `$setEquals`, with at least two arguments.
pub(in crate::expr) fn parse_equals(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let arguments = parser.operands(value)?;
    if arguments.len() < 2 {
        return Err(error(17045, format!("$setEquals needs at least two arguments had: {}", arguments.len())));
    }
    for argument in &arguments {
        if argument.as_constant().is_some_and(|value| value.as_array().is_none()) {
            return Err(error(5_887_502, "All operands of $setEquals must be arrays."));
        }
    }
    Ok(Expression::Call(Call { name, function: equals, arguments }))
}

function!(is_subset(call, env) {
    let (left, right) = (call.argument(0, env)?, call.argument(1, env)?);
    let Some(a) = as_array(&left) else {
        return Err(error(17046, format!("both operands of $setIsSubset must be arrays. First argument is of type: {}", left.type_name())));
    };
    let Some(b) = as_array(&right) else {
        return Err(error(17042, format!("both operands of $setIsSubset must be arrays. Second argument is of type: {}", right.type_name())));
    };
    let b = Set::new(b, env)?;
    Ok(a.values().all(|value| b.contains(&value)).into())
});

fn elements<'a>(call: &'a Call, env: &Env<'a>, code: i32, test: fn(Array<'_>) -> bool) -> Result<Val<'a>> {
    let value = call.argument(0, env)?;
    let Some(array) = as_array(&value) else {
        let (name, kind) = (call.name, value.type_name());
        return Err(error(code, format!("{name}'s argument must be an array, but is {kind}")));
    };
    Ok(test(array).into())
}

function!(all_true(call, env) { elements(call, env, 17040, |array| array.values().all(|value| truth(&value))) });
function!(any_true(call, env) { elements(call, env, 17041, |array| array.values().any(|value| truth(&value))) });
