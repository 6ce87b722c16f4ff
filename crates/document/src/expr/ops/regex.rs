//! `$regexMatch`, `$regexFind`, `$regexFindAll`.

use super::string::{chars_before, next_char, text_or_null};
use crate::base::Result;
use crate::bson::{DocumentBuf, DocumentBuilder, Value};
use crate::expr::allowance;
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Env, Expression, function};
use crate::expr::value::{Val, error};
use crate::pattern::{Captures, Pattern};

/// The most bytes of the matches of `$regexFindAll`.
const RESULT_BYTES_MAX: usize = 64 << 20;

/// The text and the pattern; nothing when one of them is null.
fn arguments<'a>(call: &'a Call, env: &Env<'a>) -> Result<Option<(String, Pattern)>> {
    let (input, regex, options) = (call.argument(0, env)?, call.argument(1, env)?, call.argument(2, env)?);
    let name = call.name;
    let wrong = |kind: &str| error(51104, format!("{name} needs 'input' to be of type string, found {kind}"));
    let input = text_or_null(&input, wrong).map(|text| text.map(|text| text.to_str_lossy().into_owned()));
    let wrong = |kind: &str| error(51106, format!("{name} needs 'options' to be of type string, found {kind}"));
    let options = text_or_null(&options, wrong)?.map(|text| text.to_str_lossy().into_owned());
    let (source, own) = match regex.value() {
        Value::Regex(regex) => {
            let (source, own) = regex.parts();
            (Some(source.to_str_lossy().into_owned()), own.to_str_lossy().into_owned())
        }
        Value::String(source) => (Some(source.to_str_lossy().into_owned()), String::new()),
        value if value.is_nullish() => (None, String::new()),
        other => {
            return Err(error(
                51105,
                format!("{name} needs 'regex' to be of type string or regex, found {}", other.kind().name()),
            ));
        }
    };
    if source.as_ref().is_some_and(|source| source.contains('\0')) {
        return Err(error(51109, format!("{name}: regular expression cannot contain an embedded null byte")));
    }
    if options.as_ref().is_some_and(|options| options.contains('\0')) {
        return Err(error(51110, format!("{name}: regular expression options cannot contain an embedded null byte")));
    }
    if !own.is_empty() && options.is_some() {
        return Err(error(
            51107,
            format!("{name}: found regex option(s) specified in both 'regex' and 'option' fields"),
        ));
    }
    // What is wrong with the pattern is told before what is wrong with the text.
    let input = input?;
    let options = options.unwrap_or(own);
    let Some(source) = source else {
        return Ok(None);
    };
    let pattern = Pattern::new(&source, &options).map_err(|wrong| match wrong.code().number() {
        51091 => error(51111, format!("Invalid Regex in {name}: {}", wrong.message())),
        _ => wrong,
    })?;
    Ok(input.map(|input| (input, pattern)))
}

/// The document of a match; `before` is the count of characters before it.
fn found_document(text: &str, found: &Captures, before: usize) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("match", &text[found.whole.0..found.whole.1]);
    let at = i32::try_from(before).unwrap_or(i32::MAX);
    builder.append("idx", at).open_array("captures");
    for group in &found.groups {
        match group {
            Some((from, to)) => builder.push(&text[*from..*to]),
            None => builder.push(Value::Null),
        };
    }
    builder.close();
    builder.finish()
}

function!(is_match(call, env) {
    Ok(match arguments(call, env)? {
        Some((text, pattern)) => pattern.is_match(&text)?.into(),
        None => false.into(),
    })
});

function!(find(call, env) {
    let Some((text, pattern)) = arguments(call, env)? else { return Ok(Val::NULL) };
    Ok(pattern.captures(&text, 0)?.map_or(Val::NULL, |found| {
        Val::document(found_document(&text, &found, chars_before(&text, found.whole.0)))
    }))
});

function!(find_all(call, env) {
    let Some((text, pattern)) = arguments(call, env)? else { return Ok(Val::Own(allowance::array([])?)) };
    let (mut all, mut from, mut counted, mut bytes) = (Vec::new(), 0, (0, 0), 0);
    while let Some(found) = pattern.captures(&text, from)? {
        let (start, end) = found.whole;
        // Characters are counted on from the match before.
        counted = (start, counted.1 + text[counted.0..start].chars().count());
        let document = found_document(&text, &found, counted.1);
        bytes += document.as_bytes().len();
        allowance::charge(document.as_bytes().len().max(64) + size_of_val(&document))?;
        if bytes > RESULT_BYTES_MAX {
            return Err(error(51151, format!("{}: the size of the matches exceeds {RESULT_BYTES_MAX} bytes", call.name)));
        }
        all.push(document);
        from = if end == start { next_char(&text, end) } else { end };
        // No empty match at the end of a text that has bytes.
        if from >= text.len() {
            break;
        }
    }
    Ok(Val::Own(allowance::array(all.iter().map(|found| Value::Document(found.view())))?))
});

/// Reads `{input: .., regex: .., options: ..}`.
pub(in crate::expr) fn parse(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(
            51103,
            format!("{name} expects an object of named arguments but found: {}", value.kind().name()),
        ));
    };
    for element in document {
        if !["input", "regex", "options"].iter().any(|known| element.name == *known) {
            return Err(error(31024, format!("{name} found an unknown argument: {}", element.name)));
        }
    }
    let input = document.get("input").ok_or_else(|| error(31022, format!("{name} requires 'input' parameter")))?;
    let regex = document.get("regex").ok_or_else(|| error(31023, format!("{name} requires 'regex' parameter")))?;
    let arguments = vec![parser.parse(input)?, parser.parse(regex)?, parser.optional(document.get("options"))?];
    let function = match name {
        "$regexMatch" => is_match,
        "$regexFind" => find,
        _ => find_all as crate::expr::tree::Function,
    };
    Ok(Expression::Call(Call { name, function, arguments }))
}
