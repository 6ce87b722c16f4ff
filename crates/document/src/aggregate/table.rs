//! The stages by their names: how each is read, and where it may stand.

use super::stage::Is::{
    OfCollection, OfServer, OutsideFacets, OutsideTransactions, OverDatabases, ReadsLocally, Unstable,
};
use super::stage::Known;
use super::{
    bucket, bucket_auto, densify, graph, group, lookup, output, report, reshape, sort, union, unwind, window_parse,
};

macro_rules! table {
    ($($name:literal => $read:expr $(, $is:expr)*;)*) => {
        /// The names of all stages.
        pub const NAMES: &[&str] = &[$($name),*];

        /// The stage of a name.
        pub(super) fn stage(name: &str) -> Option<Known> {
            Some(match name {
                $($name => Known { name: $name, read: $read, is: &[$($is),*] },)*
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
    "$documents" => reshape::read_documents, OverDatabases, OutsideFacets;
    "$sample" => reshape::read_sample;
    "$facet" => reshape::read_facet, OutsideFacets;
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
    "$out" => output::read_out, OutsideFacets, OutsideTransactions;
    "$merge" => output::read_merge, OutsideFacets, OutsideTransactions;
    "$changeStream" => reshape::refuse, OverDatabases, OutsideFacets;
    "$changeStreamSplitLargeEvent" => reshape::refuse;
    "$geoNear" => reshape::refuse, OutsideFacets;
    "$search" => reshape::refuse, OutsideFacets, Unstable;
    "$searchMeta" => reshape::refuse, OutsideFacets, Unstable;
    "$vectorSearch" => reshape::refuse, OutsideFacets, Unstable;
    "$rankFusion" => reshape::refuse;
    "$collStats" => report::read, OfCollection, OutsideFacets, OutsideTransactions;
    "$indexStats" => report::read, OfCollection, OutsideFacets, OutsideTransactions, Unstable;
    "$planCacheStats" => report::read, OfCollection, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$currentOp" => report::read,
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$listSessions" => report::read, OfServer, OutsideTransactions, Unstable;
    "$listLocalSessions" => report::read,
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$listClusterCatalog" => report::read,
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$querySettings" => report::read,
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
}
