//! Text.

use crate::base::num::{trunc_to_i64, usize_of};
use crate::base::{Error, Result};
use crate::bson::decimal::Rounding;
use crate::bson::number::Number;
use crate::bson::{Text, Value};
use crate::expr::allowance::{self, ArrayMaker};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Env, Expression, function};
use crate::expr::value::{TEXT_BYTES_MAX, Val, as_text, count, error, exact_i32, int, too_large};

/// The text that a value is; nothing for null and missing.
pub(in crate::expr) fn text_or_null<'v>(
    value: &'v Val<'_>,
    wrong: impl FnOnce(&str) -> Error,
) -> Result<Option<Text<'v>>> {
    match as_text(value) {
        Some(text) => Ok(Some(text)),
        None if value.is_nullish() => Ok(None),
        None => Err(wrong(value.type_name())),
    }
}

function!(concat(call, env) {
    let mut all = Vec::new();
    for argument in &call.arguments {
        let value = argument.evaluate(env)?;
        let wrong = |kind: &str| error(16702, format!("$concat only supports strings, not {kind}"));
        match text_or_null(&value, wrong)? {
            Some(text) => extend(&mut all, text.as_bytes())?,
            None => return Ok(Val::NULL),
        }
    }
    sized(all)
});

/// Appends to a text that is put together: it is never longer than a text may be.
fn extend(text: &mut Vec<u8>, more: &[u8]) -> Result<()> {
    let bytes = text.len() + more.len();
    if bytes >= TEXT_BYTES_MAX {
        return Err(too_large(bytes));
    }
    if bytes > text.capacity() {
        allowance::charge(bytes.max(2 * text.capacity()) - text.capacity())?;
    }
    text.extend_from_slice(more);
    Ok(())
}

/// A text that was put together, which has a limit.
fn sized<'a>(text: Vec<u8>) -> Result<Val<'a>> {
    if text.len() >= TEXT_BYTES_MAX {
        return Err(too_large(text.len()));
    }
    Ok(Val::text(text))
}

/// The text that `$toLower`, `$substr` and others take: numbers and dates as they print, null as no text.
pub(in crate::expr) fn coerced(value: &Val<'_>) -> Result<Vec<u8>> {
    Ok(match value.value() {
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => text.as_bytes().to_vec(),
        Value::Null | Value::Undefined => Vec::new(),
        Value::Int32(number) => number.to_string().into_bytes(),
        Value::Int64(number) => number.to_string().into_bytes(),
        Value::Double(number) => super::convert::short_double_text(number).into_bytes(),
        Value::Decimal128(number) => number.to_string().into_bytes(),
        Value::DateTime(millis) => super::convert::date_text(millis).into_bytes(),
        Value::Timestamp(timestamp) => super::convert::timestamp_text(timestamp).into_bytes(),
        other => return Err(error(16007, format!("can't convert from BSON type {} to String", other.kind().name()))),
    })
}

function!(to_lower(call, env) {
    let mut text = coerced(&call.argument(0, env)?)?;
    text.make_ascii_lowercase();
    Ok(Val::text(text))
});

function!(to_upper(call, env) {
    let mut text = coerced(&call.argument(0, env)?)?;
    text.make_ascii_uppercase();
    Ok(Val::text(text))
});

function!(compare_without_case(call, env) {
    let upper = |at: usize| -> Result<Vec<u8>> {
        let mut text = coerced(&call.argument(at, env)?)?;
        text.make_ascii_uppercase();
        Ok(text)
    };
    Ok(Val::View(Value::Int32(upper(0)?.cmp(&upper(1)?) as i32)))
});

function!(len_bytes(call, env) {
    let value = call.argument(0, env)?;
    let text = as_text(&value).ok_or_else(|| error(34473, format!("$strLenBytes requires a string argument, found: {}", value.type_name())))?;
    Ok(count(text.len()))
});

function!(len_chars(call, env) {
    let value = call.argument(0, env)?;
    let text = as_text(&value).ok_or_else(|| error(34471, format!("$strLenCP requires a string argument, found: {}", value.type_name())))?;
    Ok(count(chars(text.as_bytes()).count()))
});

/// The bytes of each code point.
fn chars(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let len = match first {
            0xF0.. => 4,
            0xE0.. => 3,
            0xC0.. => 2,
            _ => 1,
        };
        let (char, after) = rest.split_at(len.min(rest.len()));
        rest = after;
        Some(char)
    })
}

const fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

function!(substr_bytes(call, env) {
    let (value, start, length) = (call.argument(0, env)?, call.argument(1, env)?, call.argument(2, env)?);
    let name = call.name;
    let text = coerced(&value)?;
    let number = |value: &Val<'_>, code: i32, what: &str| {
        let number = value.value().as_number();
        let number = number.ok_or_else(|| error(code, format!("{name}: {what} must be a numeric type (is BSON type {})", value.type_name())))?;
        // A decimal is rounded, and one that is no 64-bit integer is the least of them.
        if let Number::Double(double) = number
            && trunc_to_i64(double).is_none()
        {
            return Err(error(31109, format!("{name}: {what} is out of range of a 64-bit integer: {double}")));
        }
        Ok::<i64, Error>(match number {
            Number::Decimal(decimal) => Number::Decimal(decimal.to_integral(Rounding::HalfEven)).to_exact_i64().unwrap_or(i64::MIN),
            number => number.trunc_to_i64().unwrap_or_default(),
        })
    };
    let (start, length) = (number(&start, 16034, "starting index")?, number(&length, 16035, "length")?);
    if start < 0 {
        return Err(error(50752, format!("{name}: starting index must be non-negative (got: {start})")));
    }
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let end = usize::try_from(length).map_or(text.len(), |length| start.saturating_add(length).min(text.len()));
    if start < text.len() && continues(text[start]) {
        return Err(error(28656, format!("{name}: Invalid range, starting index is a UTF-8 continuation byte.")));
    }
    if end < text.len() && continues(text[end]) {
        return Err(error(28657, format!("{name}: Invalid range, ending index is in the middle of a UTF-8 character.")));
    }
    Ok(Val::text(text.get(start..end).unwrap_or_default()))
});

function!(substr_chars(call, env) {
    let (value, start, length) = (call.argument(0, env)?, call.argument(1, env)?, call.argument(2, env)?);
    let text = coerced(&value)?;
    let number = |value: &Val<'_>, kind_code: i32, code: i32, what: &str| {
        if value.value().as_number().is_none() {
            return Err(error(kind_code, format!("$substrCP: {what} must be a numeric type (is BSON type {})", value.type_name())));
        }
        exact_i32(&value.value(), code, &format!("$substrCP: {what} cannot be represented as a 32-bit integral value"))
    };
    let start = number(&start, 34450, 34451, "starting index")?;
    let length = number(&length, 34452, 34453, "length")?;
    let length = usize::try_from(length).map_err(|_| error(34454, "$substrCP: length must be a nonnegative integer."))?;
    let start = usize::try_from(start).map_err(|_| error(34455, "$substrCP: the starting index must be nonnegative integer."))?;
    let skipped: usize = chars(&text).take(start).map(<[u8]>::len).sum();
    let kept: usize = chars(&text[skipped..]).take(length).map(<[u8]>::len).sum();
    Ok(Val::text(&text[skipped..skipped + kept]))
});

/// `$indexOfBytes` and `$indexOfCP`.
fn index_of<'a>(call: &'a Call, env: &Env<'a>, by_chars: bool) -> Result<Val<'a>> {
    let name = call.name;
    let (first_code, second_code) = if by_chars { (40093, 40094) } else { (40091, 40092) };
    let value = call.argument(0, env)?;
    let wrong =
        |kind: &str| error(first_code, format!("{name} requires a string as the first argument, found: {kind}"));
    let Some(text) = text_or_null(&value, wrong)? else { return Ok(Val::NULL) };
    let sought = call.argument(1, env)?;
    let Some(sought) = as_text(&sought) else {
        return Err(error(
            second_code,
            format!("{name} requires a string as the second argument, found: {}", sought.type_name()),
        ));
    };
    let bound = |at: usize| -> Result<Option<usize>> {
        if !call.has(at) {
            return Ok(None);
        }
        let value = call.argument(at, env)?;
        let which = if at == 2 { "starting" } else { "ending" };
        let exact = exact_i32(&value.value(), 40096, &format!("{name} requires an integral {which} index"))?;
        usize::try_from(exact)
            .map(Some)
            .map_err(|_| error(40097, format!("{name} requires a nonnegative {which} index, found: {exact}")))
    };
    let (from, to) = (bound(2)?, bound(3)?);
    let starts: Vec<usize> = if by_chars {
        let mut at = 0;
        let ends = chars(text.as_bytes()).map(|char| {
            at += char.len();
            at
        });
        let mut starts = Vec::with_capacity(text.len() + 1);
        starts.extend(std::iter::once(0).chain(ends));
        starts
    } else {
        (0..=text.len()).collect()
    };
    let last = starts.len() - 1;
    let (from, to) = (from.unwrap_or(0), to.unwrap_or(last).min(last));
    if from > to {
        return Ok(Val::View(Value::Int32(-1)));
    }
    let (bytes, sought) = (text.as_bytes(), sought.as_bytes());
    let found = if by_chars {
        // A match begins before the end, wherever it ends; no character begins at the end.
        let nothing = bytes.is_empty() && sought.is_empty() && from == 0;
        let mut begins = from..to;
        if nothing { Some(0) } else { begins.find(|at| bytes[starts[*at]..].starts_with(sought)) }
    } else {
        (from..=to).find(|at| bytes[starts[*at]..starts[to]].starts_with(sought))
    };
    Ok(Val::View(found.map_or(Value::Int32(-1), |at| int(i64::try_from(at).unwrap_or(i64::MAX)))))
}

function!(index_of_bytes(call, env) { index_of(call, env, false) });
function!(index_of_chars(call, env) { index_of(call, env, true) });

function!(split(call, env) {
    let (value, separator) = (call.argument(0, env)?, call.argument(1, env)?);
    if value.is_nullish() || separator.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(text) = as_text(&value) else {
        return Err(error(40085, format!("$split requires an expression that evaluates to a string as a first argument, found: {}", value.type_name())));
    };
    match separator.value() {
        Value::String(separator) => {
            if separator.is_empty() {
                return Err(error(40087, "$split requires a non-empty separator"));
            }
            pieces_between(text.as_bytes(), separator.as_bytes())
        }
        Value::Regex(regex) => {
            let (source, options) = regex.parts();
            let pattern = crate::pattern::Pattern::new(&source.to_str_lossy(), &options.to_str_lossy())?;
            split_by_pattern(&text.to_str_lossy(), &pattern)
        }
        other => {
            Err(error(10_503_900, format!("$split requires an expression that evaluates to a string or regex as a second argument, found: {}", other.kind().name())))
        }
    }
});

fn split_by_pattern(text: &str, pattern: &crate::pattern::Pattern) -> Result<Val<'static>> {
    let (mut pieces, mut start, mut from) = (ArrayMaker::new(), 0, 0);
    while let Some(found) = pattern.captures(text, from)? {
        let (at, end) = found.whole;
        if end == at {
            from = next_char(text, at);
            if from > text.len() {
                break;
            }
            continue;
        }
        pieces.push(Value::from(&text[start..at]))?;
        for (from, to) in found.groups.into_iter().flatten() {
            pieces.push(Value::from(&text[from..to]))?;
        }
        (start, from) = (end, end);
    }
    pieces.push(Value::from(&text[start..]))?;
    Ok(Val::Own(pieces.finish()))
}

/// The start of the character after the one at `at`.
pub(in crate::expr) fn next_char(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

fn pieces_between(text: &[u8], separator: &[u8]) -> Result<Val<'static>> {
    let (mut pieces, mut start) = (ArrayMaker::new(), 0);
    while let Some(at) = find(&text[start..], separator) {
        pieces.push(Value::String(Text::from_bytes(&text[start..start + at])))?;
        start += at + separator.len();
    }
    pieces.push(Value::String(Text::from_bytes(&text[start..])))?;
    Ok(Val::Own(pieces.finish()))
}

fn find(text: &[u8], sought: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, sought)
}

/// `$replaceOne` and `$replaceAll`; the arguments are input, find, replacement.
fn replace<'a>(call: &'a Call, env: &Env<'a>, all: bool) -> Result<Val<'a>> {
    let name = call.name;
    let values = call.all(env)?;
    let wrong = |code: i32, field: &'static str| {
        move |kind: &str| error(code, format!("{name} requires that '{field}' be a string, found: {kind}"))
    };
    let input = text_or_null(&values[0], wrong(10_503_904, "input"))?;
    let pattern = match values[1].value() {
        Value::Regex(regex) => {
            let (source, options) = regex.parts();
            Some(crate::pattern::Pattern::new(&source.to_str_lossy(), &options.to_str_lossy())?)
        }
        _ => None,
    };
    let find_text = if pattern.is_some() { None } else { text_or_null(&values[1], wrong(10_503_901, "find"))? };
    let replacement = text_or_null(&values[2], wrong(10_503_902, "replacement"))?;
    let (Some(input), Some(replacement)) = (input, replacement) else { return Ok(Val::NULL) };
    let mut out = Vec::new();
    if let Some(pattern) = pattern {
        let text = input.to_str_lossy();
        let (mut start, mut from) = (0, 0);
        while let Some(found) = pattern.captures(&text, from)? {
            extend(&mut out, &text.as_bytes()[start..found.whole.0])?;
            extend(&mut out, replacement.as_bytes())?;
            start = found.whole.1;
            from = if found.whole.1 == found.whole.0 { next_char(&text, start) } else { start };
            if !all || from > text.len() {
                break;
            }
        }
        extend(&mut out, text.as_bytes().get(start..).unwrap_or_default())?;
        return sized(out);
    }
    let Some(sought) = find_text else { return Ok(Val::NULL) };
    let (text, mut start) = (input.as_bytes(), 0);
    if sought.is_empty() {
        // Nothing is found before every character and at the end.
        for char in chars(text) {
            if all || start == 0 {
                extend(&mut out, replacement.as_bytes())?;
            }
            extend(&mut out, char)?;
            start += char.len();
        }
        if all || text.is_empty() {
            extend(&mut out, replacement.as_bytes())?;
        }
        return sized(out);
    }
    while let Some(at) = find(&text[start..], sought.as_bytes()) {
        extend(&mut out, &text[start..start + at])?;
        extend(&mut out, replacement.as_bytes())?;
        start += at + sought.len();
        if !all {
            break;
        }
    }
    extend(&mut out, &text[start..])?;
    sized(out)
}

function!(replace_one(call, env) { replace(call, env, false) });
function!(replace_all(call, env) { replace(call, env, true) });

/// `$replaceOne` and `$replaceAll`.
pub(in crate::expr) fn parse_replace(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(51751, format!("{name} requires an object as an argument, found: {}", value.kind().name())));
    };
    for element in document {
        if !["input", "find", "replacement"].iter().any(|known| element.name == *known) {
            return Err(error(51750, format!("{name} found an unknown argument: {}", element.name)));
        }
    }
    let mut arguments = Vec::with_capacity(3);
    for (field, code) in [("input", 51749), ("find", 51748), ("replacement", 51747)] {
        let value =
            document.get(field).ok_or_else(|| error(code, format!("{name} requires '{field}' to be specified")))?;
        arguments.push(parser.parse(value)?);
    }
    let function = if name == "$replaceOne" { replace_one } else { replace_all };
    Ok(Expression::Call(Call { name, function, arguments }))
}

/// What `$trim` removes when nothing is said: white space and the zero byte.
const SPACES: [&str; 20] = [
    "\0", " ", "\t", "\n", "\u{b}", "\u{c}", "\r", "\u{a0}", "\u{1680}", "\u{2000}", "\u{2001}", "\u{2002}",
    "\u{2003}", "\u{2004}", "\u{2005}", "\u{2006}", "\u{2007}", "\u{2008}", "\u{2009}", "\u{200a}",
];

function!(trim(call, env) {
    let (input, set) = (call.argument(0, env)?, call.argument(1, env)?);
    let name = call.name;
    let wrong = |kind: &str| error(50699, format!("{name} requires its input to be a string, got {kind}"));
    let Some(text) = text_or_null(&input, wrong)? else { return Ok(Val::NULL) };
    let set: Vec<&[u8]> = if call.has(1) {
        let wrong = |kind: &str| error(50700, format!("{name} requires 'chars' to be a string, got {kind}"));
        match text_or_null(&set, wrong)? {
            Some(set) => chars(set.as_bytes()).collect(),
            None => return Ok(Val::NULL),
        }
    } else {
        SPACES.iter().map(|space| space.as_bytes()).collect()
    };
    let all: Vec<&[u8]> = chars(text.as_bytes()).collect();
    let mut kept = &all[..];
    if name != "$rtrim" {
        while let Some((first, rest)) = kept.split_first().filter(|(first, _)| set.contains(first)) {
            kept = rest;
            let _ = first;
        }
    }
    if name != "$ltrim" {
        while let Some((_, rest)) = kept.split_last().filter(|(last, _)| set.contains(last)) {
            kept = rest;
        }
    }
    Ok(Val::text(kept.concat()))
});

/// `$trim`, `$ltrim`, `$rtrim`.
pub(in crate::expr) fn parse_trim(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(
            50696,
            format!("{name} only supports an object as an argument, found {}", value.kind().name()),
        ));
    };
    for element in document {
        if element.name != "input" && element.name != "chars" {
            return Err(error(50694, format!("{name} found an unknown argument: {}", element.name)));
        }
    }
    let input = document.get("input").ok_or_else(|| error(50695, format!("{name} requires an 'input' field")))?;
    let arguments = vec![parser.parse(input)?, parser.optional(document.get("chars"))?];
    Ok(Expression::Call(Call { name, function: trim, arguments }))
}

/// The count of characters of text before a byte.
pub(in crate::expr) fn chars_before(text: &str, byte: usize) -> usize {
    text.get(..byte).map_or(usize_of(0), |before| before.chars().count())
}
