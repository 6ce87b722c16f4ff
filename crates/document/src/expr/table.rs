//! The operators by their names.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::ops::date::{arithmetic as dates, format, parse, parts};
use super::ops::{accumulate, arithmetic, array, convert, logic, object, percentile, regex, set, string, trigonometry};
use super::parser::{Build, Parser};
use super::tree::Expression;
use super::value::error;
use crate::base::Result;
use crate::bson::Value;

const MANY: usize = usize::MAX;

macro_rules! table {
    ($($name:literal => $build:expr;)*) => {
        /// The operator of a name.
        #[must_use]
        pub(super) fn operator(name: &str) -> Option<(&'static str, Build)> {
            Some(match name {
                $($name => ($name, $build),)*
                _ => return None,
            })
        }

        /// The names of all operators.
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}

use Build::{Arguments as Args, Special};

table! {
    "$abs" => Args(1, 1, arithmetic::abs);
    "$add" => Args(0, MANY, arithmetic::add);
    "$subtract" => Args(2, 2, arithmetic::subtract);
    "$multiply" => Args(0, MANY, arithmetic::multiply);
    "$divide" => Args(2, 2, arithmetic::divide);
    "$mod" => Args(2, 2, arithmetic::modulo);
    "$ceil" => Args(1, 1, arithmetic::ceil);
    "$floor" => Args(1, 1, arithmetic::floor);
    "$round" => Args(1, 2, arithmetic::round);
    "$trunc" => Args(1, 2, arithmetic::trunc);
    "$sqrt" => Args(1, 1, arithmetic::sqrt);
    "$pow" => Args(2, 2, arithmetic::pow);
    "$exp" => Args(1, 1, arithmetic::exp);
    "$ln" => Args(1, 1, arithmetic::ln);
    "$log" => Args(2, 2, arithmetic::log);
    "$log10" => Args(1, 1, arithmetic::log10);
    "$sigmoid" => Special(arithmetic::parse_sigmoid);
    "$bitAnd" => Args(0, MANY, arithmetic::bit_and);
    "$bitOr" => Args(0, MANY, arithmetic::bit_or);
    "$bitXor" => Args(0, MANY, arithmetic::bit_xor);
    "$bitNot" => Args(1, 1, arithmetic::bit_not);
    "$sin" => Args(1, 1, trigonometry::sin);
    "$cos" => Args(1, 1, trigonometry::cos);
    "$tan" => Args(1, 1, trigonometry::tan);
    "$asin" => Args(1, 1, trigonometry::asin);
    "$acos" => Args(1, 1, trigonometry::acos);
    "$atan" => Args(1, 1, trigonometry::atan);
    "$atan2" => Args(2, 2, trigonometry::atan2);
    "$sinh" => Args(1, 1, trigonometry::sinh);
    "$cosh" => Args(1, 1, trigonometry::cosh);
    "$tanh" => Args(1, 1, trigonometry::tanh);
    "$asinh" => Args(1, 1, trigonometry::asinh);
    "$acosh" => Args(1, 1, trigonometry::acosh);
    "$atanh" => Args(1, 1, trigonometry::atanh);
    "$degreesToRadians" => Args(1, 1, trigonometry::degrees_to_radians);
    "$radiansToDegrees" => Args(1, 1, trigonometry::radians_to_degrees);
    "$eq" => Args(2, 2, logic::eq);
    "$ne" => Args(2, 2, logic::ne);
    "$gt" => Args(2, 2, logic::gt);
    "$gte" => Args(2, 2, logic::gte);
    "$lt" => Args(2, 2, logic::lt);
    "$lte" => Args(2, 2, logic::lte);
    "$cmp" => Args(2, 2, logic::cmp);
    "$and" => Args(0, MANY, logic::and);
    "$or" => Args(0, MANY, logic::or);
    "$not" => Args(1, 1, logic::not);
    "$ifNull" => Special(logic::parse_if_null);
    "$cond" => Special(logic::parse_cond);
    "$switch" => Special(logic::parse_switch);
    "$literal" => Special(logic::parse_literal);
    "$const" => Special(logic::parse_literal);
    "$let" => Special(logic::parse_let);
    "$function" => Special(logic::refuse_function);
    "$isArray" => Args(1, 1, array::is_array);
    "$size" => Args(1, 1, array::size);
    "$arrayElemAt" => Args(2, 2, array::element_at);
    "$first" => Args(1, 1, array::first);
    "$last" => Args(1, 1, array::last);
    "$concatArrays" => Args(0, MANY, array::concat_arrays);
    "$reverseArray" => Args(1, 1, array::reverse_array);
    "$in" => Args(2, 2, array::is_in);
    "$indexOfArray" => Args(2, 4, array::index_of_array);
    "$slice" => Args(2, 3, array::slice);
    "$range" => Args(2, 3, array::range);
    "$arrayToObject" => Args(1, 1, array::array_to_object);
    "$zip" => Special(array::parse_zip);
    "$map" => Special(array::parse_map);
    "$filter" => Special(array::parse_filter);
    "$reduce" => Special(array::parse_reduce);
    "$sortArray" => Special(array::parse_sort_array);
    "$firstN" => Special(array::parse_n);
    "$lastN" => Special(array::parse_n);
    "$minN" => Special(array::parse_n);
    "$maxN" => Special(array::parse_n);
    "$setUnion" => Args(0, MANY, set::union);
    "$setIntersection" => Args(0, MANY, set::intersection);
    "$setDifference" => Args(2, 2, set::difference);
    "$setEquals" => Special(set::parse_equals);
    "$setIsSubset" => Args(2, 2, set::is_subset);
    "$allElementsTrue" => Args(1, 1, set::all_true);
    "$anyElementTrue" => Args(1, 1, set::any_true);
    "$objectToArray" => Args(1, 1, object::object_to_array);
    "$mergeObjects" => Args(0, MANY, object::merge_objects);
    "$getField" => Special(object::parse_get_field);
    "$setField" => Special(object::parse_set_field);
    "$unsetField" => Special(object::parse_set_field);
    "$bsonSize" => Args(1, 1, object::bson_size);
    "$binarySize" => Args(1, 1, object::binary_size);
    "$toHashedIndexKey" => Args(1, 1, object::to_hashed_index_key);
    "$meta" => Special(object::parse_meta);
    "$concat" => Args(0, MANY, string::concat);
    "$toLower" => Args(1, 1, string::to_lower);
    "$toUpper" => Args(1, 1, string::to_upper);
    "$strcasecmp" => Args(2, 2, string::compare_without_case);
    "$strLenBytes" => Args(1, 1, string::len_bytes);
    "$strLenCP" => Args(1, 1, string::len_chars);
    "$substr" => Args(3, 3, string::substr_bytes);
    "$substrBytes" => Args(3, 3, string::substr_bytes);
    "$substrCP" => Args(3, 3, string::substr_chars);
    "$indexOfBytes" => Args(2, 4, string::index_of_bytes);
    "$indexOfCP" => Args(2, 4, string::index_of_chars);
    "$split" => Args(2, 2, string::split);
    "$replaceOne" => Special(string::parse_replace);
    "$replaceAll" => Special(string::parse_replace);
    "$trim" => Special(string::parse_trim);
    "$ltrim" => Special(string::parse_trim);
    "$rtrim" => Special(string::parse_trim);
    "$regexMatch" => Special(regex::parse);
    "$regexFind" => Special(regex::parse);
    "$regexFindAll" => Special(regex::parse);
    "$type" => Args(1, 1, convert::type_of);
    "$isNumber" => Args(1, 1, convert::is_number);
    "$toInt" => Args(1, 1, convert::to_int);
    "$toLong" => Args(1, 1, convert::to_long);
    "$toDouble" => Args(1, 1, convert::to_double_value);
    "$toDecimal" => Args(1, 1, convert::to_decimal_value);
    "$toBool" => Args(1, 1, convert::to_bool);
    "$toString" => Args(1, 1, convert::to_string);
    "$toObjectId" => Args(1, 1, convert::to_object_id_value);
    "$toDate" => Args(1, 1, convert::to_date_value);
    "$toUUID" => Args(1, 1, convert::to_uuid);
    "$convert" => Special(convert::parse_convert);
    "$year" => Special(parts::parse_part);
    "$month" => Special(parts::parse_part);
    "$dayOfMonth" => Special(parts::parse_part);
    "$hour" => Special(parts::parse_part);
    "$minute" => Special(parts::parse_part);
    "$second" => Special(parts::parse_part);
    "$millisecond" => Special(parts::parse_part);
    "$dayOfYear" => Special(parts::parse_part);
    "$dayOfWeek" => Special(parts::parse_part);
    "$isoDayOfWeek" => Special(parts::parse_part);
    "$week" => Special(parts::parse_part);
    "$isoWeek" => Special(parts::parse_part);
    "$isoWeekYear" => Special(parts::parse_part);
    "$dateToParts" => Special(parts::parse_to_parts);
    "$dateFromParts" => Special(parts::parse_from_parts);
    "$dateFromString" => Special(parse::parse_from_string);
    "$dateToString" => Special(format::parse_to_string);
    "$dateAdd" => Special(dates::parse_add);
    "$dateSubtract" => Special(dates::parse_add);
    "$dateDiff" => Special(dates::parse_difference);
    "$dateTrunc" => Special(dates::parse_truncate);
    "$tsSecond" => Args(1, 1, parts::ts_second);
    "$tsIncrement" => Args(1, 1, parts::ts_increment);
    "$sum" => Args(0, MANY, accumulate::sum);
    "$avg" => Args(0, MANY, accumulate::average);
    "$min" => Args(0, MANY, accumulate::min);
    "$max" => Args(0, MANY, accumulate::max);
    "$stdDevPop" => Args(0, MANY, accumulate::deviation_of_all);
    "$stdDevSamp" => Args(0, MANY, accumulate::deviation_of_sample);
    "$median" => Special(percentile::parse);
    "$percentile" => Special(percentile::parse);
    "$rand" => Special(parse_random);
}

/// `$rand`, which takes no arguments.
fn parse_random(parser: &mut Parser<'_>, _: &'static str, value: Value<'_>) -> Result<Expression> {
    let empty = match value {
        Value::Document(document) => document.is_empty(),
        Value::Array(array) => array.is_empty(),
        _ => return Err(error(10065, "invalid parameter: expected an object ($rand)")),
    };
    if !empty {
        return Err(error(3_040_501, "$rand does not currently accept arguments"));
    }
    Ok(Expression::Random(Arc::new(AtomicU64::new(parser.context.seed))))
}
