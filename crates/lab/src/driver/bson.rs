//! The lab's operations on documents as BSON, as our own database and MongoDB's wire take them.

use super::documents::{Condition, Field, Find, Found, IndexSpec, Order, Update, Value};
use anyhow::{Context as _, Result, ensure};
use spinney_document::bson::{self, DocumentBuf, DocumentBuilder};
use spinney_document::doc;

/// A value that BSON has as it is; bytes as a binary value.
fn value<'a>(value: &Value<'a>) -> bson::Value<'a> {
    match *value {
        Value::Int(number) => number.into(),
        Value::Double(number) => number.into(),
        Value::Text(text) => text.into(),
        Value::Bytes(bytes) => bson::Value::Binary(0, bytes),
        Value::Date(ms) => bson::Value::DateTime(ms),
    }
}

/// The `_id` of a condition.
pub(super) fn id<'a>(id: &Value<'a>) -> bson::Value<'a> {
    value(id)
}

/// A document of fields, in a buffer that is used again.
pub(super) fn document(buffer: Vec<u8>, fields: &[Field<'_>]) -> DocumentBuf {
    let mut builder = DocumentBuilder::with_buffer(buffer);
    append(&mut builder, fields);
    builder.finish()
}

fn append(builder: &mut DocumentBuilder, fields: &[Field<'_>]) {
    for (name, field) in fields {
        builder.append(name, value(field));
    }
}

/// A condition as a filter.
pub(super) fn filter(which: &Condition<'_>, order: Order) -> DocumentBuf {
    let (above, from_here, below) = match order {
        Order::Ascending => ("$gt", "$gte", "$lt"),
        Order::Descending => ("$lt", "$lte", "$gt"),
    };
    let mut builder = DocumentBuilder::new();
    append(&mut builder, which.equal);
    let mut until = which.until;
    match which.from {
        [] => {}
        [(name, first)] => {
            builder.open_document(name).append(from_here, value(first));
            if let Some((_, last)) = until.take_if(|(field, _)| field == name) {
                builder.append(below, value(&last));
            }
            builder.close();
        }
        several => {
            builder.open_array("$or");
            for (at, (name, last)) in several.iter().enumerate().rev() {
                builder.push_document();
                append(&mut builder, &several[..at]);
                let bound = if at + 1 == several.len() { from_here } else { above };
                builder.open_document(name).append(bound, value(last)).close().close();
            }
            builder.close();
        }
    }
    if let Some((name, last)) = until {
        builder.open_document(name).append(below, value(&last)).close();
    }
    if let Some((name, values)) = which.any_of {
        builder.open_document(name).open_array("$in");
        values.iter().for_each(|one| {
            builder.push(value(one));
        });
        builder.close().close();
    }
    builder.finish()
}

/// The order of a query's result, if it has one.
pub(super) fn sort(find: &Find<'_>) -> Option<DocumentBuf> {
    (!find.sorted_by.is_empty()).then(|| {
        let mut builder = DocumentBuilder::new();
        find.sorted_by.iter().for_each(|name| {
            builder.append(name, direction(find.order));
        });
        builder.finish()
    })
}

/// The fields that a query asks for, if not whole documents.
pub(super) fn projection(find: &Find<'_>) -> Option<DocumentBuf> {
    (!find.shown.is_empty()).then(|| {
        let mut builder = DocumentBuilder::new();
        find.shown.iter().for_each(|name| {
            builder.append(name, 1);
        });
        if !find.shown.contains(&"_id") {
            builder.append("_id", 0);
        }
        builder.finish()
    })
}

/// What an update does.
pub(super) fn change(update: &Update<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    let mut operator = |name: &str, fields: &[Field<'_>]| {
        if !fields.is_empty() {
            builder.open_document(name);
            append(&mut builder, fields);
            builder.close();
        }
    };
    operator("$set", update.set);
    operator("$setOnInsert", update.or_insert.unwrap_or_default());
    if !update.add.is_empty() {
        builder.open_document("$inc");
        for &(name, number) in update.add {
            builder.append(name, number);
        }
        builder.close();
    }
    builder.finish()
}

/// An index as `createIndexes` takes it.
pub(super) fn index(spec: &IndexSpec) -> DocumentBuf {
    let mut key = DocumentBuilder::new();
    for &(name, order) in spec.fields {
        key.append(name, direction(order));
    }
    doc! {"key": &key.finish(), "name": spec.name, "unique": spec.unique}
}

fn direction(order: Order) -> i32 {
    match order {
        Order::Ascending => 1,
        Order::Descending => -1,
    }
}

/// The one stage that groups by a field, counts, and adds up another field.
pub(super) fn group(by: &str, sum: &str) -> DocumentBuf {
    let path = |name: &str| format!("${name}");
    let count = doc! {"$sum": 1};
    let total = doc! {"$sum": &path(sum)};
    doc! {"$group": &doc! {"_id": &path(by), "count": &count, "total": &total}}
}

/// Checks what a grouped document says of itself; the fields are those of [`group`].
pub(super) fn check_group(group: bson::Document<'_>) -> Result<()> {
    let count = group.get("count").and_then(|count| count.as_exact_i64()).context("a group without a count")?;
    ensure!(count > 0, "a group of {count} documents");
    Ok(())
}

impl Found for bson::Document<'_> {
    fn bytes(&self) -> usize {
        self.as_bytes().len()
    }

    fn int(&self, field: &str) -> Option<i64> {
        match self.get(field)? {
            bson::Value::DateTime(ms) => Some(ms),
            number => number.as_exact_i64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_an_order_is_a_choice_of_ranges() {
        let from = [("a", Value::Int(1)), ("b", Value::Int(2))];
        let which = Condition { from: &from, ..Condition::equal(&[("x", Value::Text("y"))]) };
        let json = |order| filter(&which, order).view().to_json();
        assert_eq!(json(Order::Ascending), r#"{"x":"y","$or":[{"a":1,"b":{"$gte":2}},{"a":{"$gt":1}}]}"#);
        assert_eq!(json(Order::Descending), r#"{"x":"y","$or":[{"a":1,"b":{"$lte":2}},{"a":{"$lt":1}}]}"#);
    }

    #[test]
    fn both_ends_of_a_range_are_conditions_of_one_field() {
        let which =
            Condition { from: &[("_id", Value::Int(5))], until: Some(("_id", Value::Int(9))), ..Condition::default() };
        assert_eq!(filter(&which, Order::Ascending).view().to_json(), r#"{"_id":{"$gte":5,"$lt":9}}"#);
        let only_end = Condition { until: Some(("t", Value::Int(0))), ..Condition::default() };
        assert_eq!(filter(&only_end, Order::Descending).view().to_json(), r#"{"t":{"$gt":0}}"#);
    }

    #[test]
    fn changes_and_projections_are_mongodbs() {
        let update = Update {
            collection: "c",
            which: Condition::default(),
            set: &[("a", Value::Int(1))],
            add: &[("n", 2)],
            or_insert: Some(&[("t", Value::Date(3))]),
        };
        let json = change(&update).view().to_json();
        assert!(
            json.starts_with(r#"{"$set":{"a":1},"$setOnInsert":{"t":{"$date":"#)
                && json.ends_with(r#""$inc":{"n":2}}"#)
        );
        let find = Find { shown: &["a"], sorted_by: &["a"], order: Order::Descending, ..Find::new("c", update.which) };
        assert_eq!(projection(&find).unwrap().view().to_json(), r#"{"a":1,"_id":0}"#);
        assert_eq!(sort(&find).unwrap().view().to_json(), r#"{"a":-1}"#);
    }
}
