//! Comparison, boolean operators, conditions, variables, literals.

use std::cmp::Ordering;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::Value;
use crate::expr::allowance;
use crate::expr::parser::{Parser, check_variable};
use crate::expr::tree::{Call, Env, Expression, Local, function};
use crate::expr::value::{Val, error, truth};

/// The order of two values, where a missing one is below all others.
#[must_use]
pub(in crate::expr) fn order(a: &Val<'_>, b: &Val<'_>, env: &Env<'_>) -> Ordering {
    match (a.view(), b.view()) {
        (Some(a), Some(b)) => env.compare(&a, &b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn compared<'a>(call: &'a Call, env: &Env<'a>) -> Result<Ordering> {
    let (a, b) = (call.argument(0, env)?, call.argument(1, env)?);
    Ok(order(&a, &b, env))
}

function!(eq(call, env) { compared(call, env).map(|order| order.is_eq().into()) });
function!(ne(call, env) { compared(call, env).map(|order| order.is_ne().into()) });
function!(gt(call, env) { compared(call, env).map(|order| order.is_gt().into()) });
function!(gte(call, env) { compared(call, env).map(|order| order.is_ge().into()) });
function!(lt(call, env) { compared(call, env).map(|order| order.is_lt().into()) });
function!(lte(call, env) { compared(call, env).map(|order| order.is_le().into()) });
function!(cmp(call, env) {
    compared(call, env).map(|order| Val::View(Value::Int32(order as i32)))
});

function!(and(call, env) {
    for argument in &call.arguments {
        if !argument.evaluate(env)?.truth() {
            return Ok(false.into());
        }
    }
    Ok(true.into())
});

function!(or(call, env) {
    for argument in &call.arguments {
        if argument.evaluate(env)?.truth() {
            return Ok(true.into());
        }
    }
    Ok(false.into())
});

function!(not(call, env) { Ok((!call.argument(0, env)?.truth()).into()) });

function!(if_null(call, env) {
    let (last, rest) = call.arguments.split_last().unwrap_or((&Expression::Missing, &[]));
    for argument in rest {
        let value = argument.evaluate(env)?;
        if !value.is_nullish() {
            return Ok(value);
        }
    }
    last.evaluate(env)
});

/// `$ifNull`, with at least two arguments.
pub(in crate::expr) fn parse_if_null(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let arguments = parser.operands(value)?;
    if arguments.len() < 2 {
        return Err(error(1_257_300, format!("$ifNull needs at least two arguments, had: {}", arguments.len())));
    }
    Ok(Expression::Call(Call { name, function: if_null, arguments }))
}

function!(cond(call, env) {
    if call.argument(0, env)?.truth() { call.argument(1, env) } else { call.argument(2, env) }
});

/// `$cond`, with an array or with names.
pub(in crate::expr) fn parse_cond(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        let arguments = parser.arguments(name, value, 3, 3)?;
        return Ok(Expression::Call(Call { name, function: cond, arguments }));
    };
    for element in document {
        if !["if", "then", "else"].iter().any(|known| element.name == *known) {
            return Err(error(17083, format!("Unrecognized parameter to $cond: {}", element.name)));
        }
    }
    let mut arguments = Vec::with_capacity(3);
    for (field, code) in [("if", 17080), ("then", 17081), ("else", 17082)] {
        let value = document.get(field).ok_or_else(|| error(code, format!("Missing '{field}' parameter to $cond")))?;
        arguments.push(parser.parse(value)?);
    }
    Ok(Expression::Call(Call { name, function: cond, arguments }))
}

function!(switch(call, env) {
    let (default, branches) = call.arguments.split_last().unwrap_or((&Expression::Absent, &[]));
    for branch in branches.chunks_exact(2) {
        if branch[0].evaluate(env)?.truth() {
            return branch[1].evaluate(env);
        }
    }
    if matches!(default, Expression::Absent) {
        return Err(error(40066, "$switch could not find a matching branch for an input, and no default was specified."));
    }
    default.evaluate(env)
});

/// `$switch`: conditions and results, and a default.
pub(in crate::expr) fn parse_switch(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(40060, format!("$switch requires an object as an argument, found: {}", value.kind().name())));
    };
    let (mut arguments, mut default, mut decided, mut count) = (Vec::new(), None, false, 0);
    for element in document {
        match element.name.as_bytes() {
            b"branches" => {
                let Value::Array(branches) = element.value else {
                    let what =
                        format!("$switch expected an array for 'branches', found: {}", element.value.kind().name());
                    return Err(error(40061, what));
                };
                for branch in branches {
                    count += 1;
                    let [case, then] = parse_branch(parser, branch, decided)?;
                    match known_truth(&case) {
                        _ if decided => {}
                        // No document comes to it.
                        Some(false) => {}
                        truth => {
                            decided = truth == Some(true);
                            arguments.extend([case, then]);
                        }
                    }
                }
            }
            b"default" => default = Some(element.value),
            _ => return Err(error(40067, format!("$switch found an unknown argument: {}", element.name))),
        }
    }
    if count == 0 {
        return Err(error(40068, "$switch requires at least one branch."));
    }
    // Its constants are computed even where no document comes to it, as in MongoDB.
    let default = parser.optional(default)?;
    if arguments.is_empty() && matches!(default, Expression::Absent) && parser.folds() {
        let what = "One cannot execute a switch statement where all the cases evaluate to false without a default";
        return Err(error(40069, what));
    }
    if decided && arguments.len() == 2 {
        arguments.truncate(2);
        return Ok(arguments.remove(1));
    }
    arguments.push(default);
    Ok(Expression::Call(Call { name, function: switch, arguments }))
}

/// Whether a condition is true or false for every document, if that is known.
fn known_truth(case: &Expression) -> Option<bool> {
    match case {
        Expression::Constant(value) => Some(truth(&value.view())),
        Expression::Missing => Some(false),
        _ => None,
    }
}

/// A condition and its result. Constants are not computed within a result to which no document comes, nor within a
/// branch behind one that is always taken.
fn parse_branch(parser: &mut Parser<'_>, branch: Value<'_>, decided: bool) -> Result<[Expression; 2]> {
    let Value::Document(branch) = branch else {
        return Err(error(
            40062,
            format!("$switch expected each branch to be an object, found: {}", branch.kind().name()),
        ));
    };
    for element in branch {
        if element.name != "case" && element.name != "then" {
            return Err(error(40063, format!("$switch found an unknown argument to a branch: {}", element.name)));
        }
    }
    let case =
        branch.get("case").ok_or_else(|| error(40064, "$switch requires each branch have a 'case' expression"))?;
    let case = if decided { parser.parse_unfolded(case)? } else { parser.parse(case)? };
    let then =
        branch.get("then").ok_or_else(|| error(40065, "$switch requires each branch have a 'then' expression."))?;
    let is_dead = decided || known_truth(&case) == Some(false);
    let then = if is_dead { parser.parse_unfolded(then)? } else { parser.parse(then)? };
    Ok([case, then])
}

/// `$literal`: the value as it stands.
#[expect(clippy::unnecessary_wraps, reason = "one signature for all operators")]
pub(in crate::expr) fn parse_literal(_: &mut Parser<'_>, _: &'static str, value: Value<'_>) -> Result<Expression> {
    Ok(Expression::constant(value))
}

function!(bind(call, env) {
    let Some((body, variables)) = call.arguments.split_last() else { return Ok(Val::Missing) };
    let values = variables.iter().map(|variable| variable.evaluate(env)).collect::<Result<Vec<_>>>()?;
    bind_all(body, values.into_iter(), env)
});

/// The value of `body` with further variables.
fn bind_all<'b>(body: &'b Expression, mut values: std::vec::IntoIter<Val<'b>>, env: &Env<'b>) -> Result<Val<'static>> {
    let Some(value) = values.next() else { return body.evaluate(env).and_then(allowance::owned) };
    let local = Local::new(value, env);
    bind_all(body, values, &env.with(&local))
}

/// `$let`.
pub(in crate::expr) fn parse_let(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(16874, "$let only supports an object as its argument"));
    };
    for element in document {
        if element.name != "vars" && element.name != "in" {
            return Err(error(16875, format!("Unrecognized parameter to $let: {}", element.name)));
        }
    }
    let variables = document.get("vars").ok_or_else(|| error(16876, "Missing 'vars' parameter to $let"))?;
    let body = document.get("in").ok_or_else(|| error(16877, "Missing 'in' parameter to $let"))?;
    let Value::Document(variables) = variables else {
        return Err(error(10065, "invalid parameter: expected an object (vars)"));
    };
    let (mut names, mut arguments) = (Vec::new(), Vec::new());
    for element in variables {
        let variable = element.name.to_str_lossy().into_owned();
        check_variable(&variable)?;
        arguments.push(parser.parse(element.value)?);
        names.push(variable);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    arguments.push(parser.parse_with(&names, body)?);
    Ok(Expression::Call(Call { name, function: bind, arguments }))
}

/// `$function`, which needs JavaScript.
pub(in crate::expr) fn refuse_function(_: &mut Parser<'_>, _: &'static str, _: Value<'_>) -> Result<Expression> {
    Err(no_javascript())
}

/// The error of operators that need JavaScript, as of a server of MongoDB on which it is disabled.
#[must_use]
pub fn no_javascript() -> Error {
    Error::new(ErrorCode::new(31264), "Cannot run server-side javascript without the javascript engine enabled")
}
