//! The stages by their names.

use super::stage::Read;
use super::{bucket, densify, group, lookup, output, reshape, sort, unwind, window_parse};

macro_rules! table {
    ($($name:literal => $read:expr;)*) => {
        /// The stage of a name.
        pub(super) fn stage(name: &str) -> Option<(&'static str, Read)> {
            Some(match name {
                $($name => ($name, $read),)*
                _ => return None,
            })
        }
    };
}

table! {
    "$match" => reshape::read_match;
    "$project" => reshape::read_project;
    "$addFields" => reshape::read_add;
    "$set" => reshape::read_add;
    "$unset" => reshape::read_unset;
    "$limit" => reshape::read_limit;
    "$skip" => reshape::read_skip;
    "$count" => reshape::read_count;
    "$replaceRoot" => reshape::read_replace_root;
    "$replaceWith" => reshape::read_replace_with;
    "$redact" => reshape::read_redact;
    "$documents" => reshape::read_documents;
    "$sample" => reshape::read_sample;
    "$facet" => reshape::read_facet;
    "$sort" => sort::read;
    "$unwind" => unwind::read;
    "$group" => group::read;
    "$sortByCount" => group::read_sort_by_count;
    "$bucket" => bucket::read;
    "$bucketAuto" => bucket::read_auto;
    "$setWindowFields" => window_parse::read;
    "$fill" => window_parse::read_fill;
    "$densify" => densify::read;
    "$lookup" => lookup::read;
    "$graphLookup" => lookup::read_graph;
    "$unionWith" => lookup::read_union;
    "$out" => output::read_out;
    "$merge" => output::read_merge;
    "$changeStream" => reshape::refuse;
    "$geoNear" => reshape::refuse;
    "$search" => reshape::refuse;
    "$searchMeta" => reshape::refuse;
    "$vectorSearch" => reshape::refuse;
    "$rankFusion" => reshape::refuse;
    "$collStats" => reshape::refuse;
    "$indexStats" => reshape::refuse;
    "$planCacheStats" => reshape::refuse;
    "$currentOp" => reshape::refuse;
    "$listSessions" => reshape::refuse;
    "$listLocalSessions" => reshape::refuse;
}
