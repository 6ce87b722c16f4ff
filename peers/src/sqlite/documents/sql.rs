//! The statements of operations on documents, and their parameters.
//!
//! `_id` is the table's integer key and a column of its own; all other fields are paths of the column `doc`.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use spinney_lab::driver::{Condition, Field, Find, IndexSpec, Order, Update, Value};
use std::fmt::Write as _;

/// A value as a parameter.
pub(super) struct Parameter<'a>(pub(super) Value<'a>);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Int(number) | Value::Date(number) => ValueRef::Integer(number),
            Value::Double(number) => ValueRef::Real(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// What a field is in a statement.
fn expression(field: &str) -> String {
    if field == "_id" { field.to_owned() } else { format!("doc->>'$.{field}'") }
}

fn list(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<_>>().join(", ")
}

pub(super) fn create(collection: &str) -> String {
    format!("CREATE TABLE IF NOT EXISTS {collection} (_id INTEGER PRIMARY KEY, doc BLOB NOT NULL)")
}

pub(super) fn create_index(collection: &str, spec: &IndexSpec) -> String {
    let fields = list(spec.fields.iter().map(|(field, order)| format!("{}{}", expression(field), suffix(*order))));
    let unique = if spec.unique { "UNIQUE " } else { "" };
    format!("CREATE {unique}INDEX {collection}_{} ON {collection} ({fields})", spec.name)
}

fn suffix(order: Order) -> &'static str {
    match order {
        Order::Ascending => "",
        Order::Descending => " DESC",
    }
}

/// The condition, with parameters in the order of [`parameters`].
fn condition(which: &Condition<'_>, order: Order) -> String {
    let (from_here, before) = match order {
        Order::Ascending => (">=", "<"),
        Order::Descending => ("<=", ">"),
    };
    let mut parts: Vec<String> = which.equal.iter().map(|(field, _)| format!("{} = ?", expression(field))).collect();
    match which.from {
        [] => {}
        [(field, _)] => parts.push(format!("{} {from_here} ?", expression(field))),
        several => {
            let fields = list(several.iter().map(|(field, _)| expression(field)));
            let values = list(several.iter().map(|_| "?".to_owned()));
            parts.push(format!("({fields}) {from_here} ({values})"));
        }
    }
    if let Some((field, _)) = which.until {
        parts.push(format!("{} {before} ?", expression(field)));
    }
    if let Some((field, values)) = which.any_of {
        parts.push(format!("{} IN ({})", expression(field), list(values.iter().map(|_| "?".to_owned()))));
    }
    if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
}

/// The parameters of a condition.
pub(super) fn parameters<'a>(which: &Condition<'a>) -> impl Iterator<Item = Parameter<'a>> + use<'a> {
    let any_of = which.any_of.map_or(&[][..], |(_, values)| values);
    let fields = which.equal.iter().chain(which.from).copied().chain(which.until);
    fields.map(|(_, value)| Parameter(value)).chain(any_of.iter().map(|&value| Parameter(value)))
}

/// The query; its last two parameters are the limit and how many are skipped.
pub(super) fn find(find: &Find<'_>) -> String {
    let shown = match find.shown {
        [] => "_id, doc".to_owned(),
        shown => list(shown.iter().map(|field| expression(field))),
    };
    let mut text = format!("SELECT {shown} FROM {}{}", find.collection, condition(&find.which, find.order));
    if !find.sorted_by.is_empty() {
        let fields = find.sorted_by.iter().map(|field| format!("{}{}", expression(field), suffix(find.order)));
        write!(text, " ORDER BY {}", list(fields)).expect("a string takes all");
    }
    text + " LIMIT ? OFFSET ?"
}

/// The update; the parameters of what is set and added come before those of the condition.
pub(super) fn update(update: &Update<'_>) -> String {
    let set = update.set.iter().map(|(field, _)| format!(", '$.{field}', ?"));
    let add = update.add.iter().map(|(field, _)| format!(", '$.{field}', {} + ?", expression(field)));
    let changes: String = set.chain(add).collect();
    format!(
        "UPDATE {} SET doc = jsonb_set(doc{changes}){}",
        update.collection,
        condition(&update.which, Order::Ascending)
    )
}

pub(super) fn delete(collection: &str, which: &Condition<'_>) -> String {
    format!("DELETE FROM {collection}{}", condition(which, Order::Ascending))
}

pub(super) fn count(collection: &str, which: &Condition<'_>) -> String {
    format!("SELECT count(*) FROM {collection}{}", condition(which, Order::Ascending))
}

pub(super) fn group(collection: &str, by: &str, sum: &str) -> String {
    let (by, sum) = (expression(by), expression(sum));
    format!("SELECT {by}, count(*), sum({sum}) FROM {collection} GROUP BY {by}")
}

/// A document's fields but for `_id` as JSON, put into `text`; no value is bytes.
pub(super) fn json(text: &mut String, fields: &[Field<'_>]) {
    text.clear();
    let mut before = '{';
    for (name, value) in fields.iter().filter(|(name, _)| *name != "_id") {
        text.push(before);
        before = ',';
        write!(text, "\"{name}\":").expect("a string takes all");
        match value {
            Value::Int(number) | Value::Date(number) => write!(text, "{number}").expect("a string takes all"),
            Value::Double(number) => write!(text, "{number:?}").expect("a string takes all"),
            Value::Text(value) => quote(text, value),
            Value::Bytes(_) => unreachable!("refused before"),
        }
    }
    text.push_str(if before == '{' { "{}" } else { "}" });
}

fn quote(text: &mut String, value: &str) {
    text.push('"');
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if value.bytes().all(plain) {
        text.push_str(value);
    } else {
        for letter in value.chars() {
            match letter {
                '"' | '\\' => text.extend(['\\', letter]),
                '\0'..='\x1f' => write!(text, "\\u{:04x}", u32::from(letter)).expect("a string takes all"),
                _ => text.push(letter),
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_json() {
        let mut text = String::new();
        let fields = [("_id", Value::Int(1)), ("a", Value::Double(1.0)), ("b", Value::Text("x\"\\\n"))];
        json(&mut text, &fields);
        assert_eq!(text, r#"{"a":1.0,"b":"x\"\\\u000a"}"#);
        json(&mut text, &fields[..1]);
        assert_eq!(text, "{}");
    }

    #[test]
    fn conditions_are_sql() {
        let which = Condition {
            from: &[("p", Value::Int(2))],
            until: Some(("_id", Value::Int(3))),
            ..Condition::equal(&[("b", Value::Int(1))])
        };
        let find = Find { sorted_by: &["p"], order: Order::Descending, shown: &["p"], ..Find::new("c", which) };
        let wanted = "SELECT doc->>'$.p' FROM c WHERE doc->>'$.b' = ? AND doc->>'$.p' <= ? AND _id > ? \
                      ORDER BY doc->>'$.p' DESC LIMIT ? OFFSET ?";
        assert_eq!(super::find(&find), wanted);
        assert_eq!(parameters(&which).count(), 3);
    }
}
