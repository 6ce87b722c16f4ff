//! The stages by their names.

use super::stage::Read;
use super::{
    bucket, bucket_auto, densify, graph, group, lookup, output, report, reshape, sort, union, unwind, window_parse,
};

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
    "$group" => group::read::read;
    "$sortByCount" => group::read::read_sort_by_count;
    "$bucket" => bucket::read;
    "$bucketAuto" => bucket_auto::read;
    "$setWindowFields" => window_parse::read;
    "$fill" => window_parse::read_fill;
    "$densify" => densify::read;
    "$lookup" => lookup::read;
    "$graphLookup" => graph::read;
    "$unionWith" => union::read;
    "$out" => output::read_out;
    "$merge" => output::read_merge;
    "$changeStream" => reshape::refuse;
    "$changeStreamSplitLargeEvent" => reshape::refuse;
    "$geoNear" => reshape::refuse;
    "$search" => reshape::refuse;
    "$searchMeta" => reshape::refuse;
    "$vectorSearch" => reshape::refuse;
    "$rankFusion" => reshape::refuse;
    "$collStats" => report::read;
    "$indexStats" => report::read;
    "$planCacheStats" => report::read;
    "$currentOp" => report::read;
    "$listSessions" => report::read;
    "$listLocalSessions" => report::read;
    "$listClusterCatalog" => report::read;
}
