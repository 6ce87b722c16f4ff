//! The stages by their names: how each is read, what it needs of its client, and where it may stand.

use super::stage::Is::{
    OfCollection, OfServer, OutsideFacets, OutsideTransactions, OverDatabases, ReadsLocally, Unstable,
};
use super::stage::{Known, Needs};
use super::{
    bucket, bucket_auto, densify, graph, group, lookup, needs, output, report, reshape, sort, union, unwind, window,
};

macro_rules! table {
    ($($name:literal => $read:expr, $needs:expr $(, $is:expr)*;)*) => {
        /// The stage of a name.
        pub(super) fn stage(name: &str) -> Option<Known> {
            Some(match name {
                $($name => Known { name: $name, read: $read, needs: $needs, is: &[$($is),*] },)*
                _ => return None,
            })
        }

        /// The names of all stages.
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}

table! {
    "$match" => reshape::read_match, Needs::Nothing;
    "$project" => reshape::read_project, Needs::Nothing;
    "$addFields" => reshape::read_add, Needs::Nothing;
    "$set" => reshape::read_add, Needs::Nothing;
    "$unset" => reshape::read_unset, Needs::Nothing;
    "$limit" => reshape::read_limit, Needs::Nothing;
    "$skip" => reshape::read_skip, Needs::Nothing;
    "$count" => reshape::read_count, Needs::Nothing;
    "$replaceRoot" => reshape::read_replace_root, Needs::Nothing;
    "$replaceWith" => reshape::read_replace_with, Needs::Nothing;
    "$redact" => reshape::read_redact, Needs::Nothing;
    "$documents" => reshape::read_documents, Needs::Nothing, OverDatabases, OutsideFacets;
    "$sample" => reshape::read_sample, Needs::Nothing;
    "$facet" => reshape::read_facet, Needs::Inner, OutsideFacets;
    "$sort" => sort::read, Needs::Nothing;
    "$unwind" => unwind::read, Needs::Nothing;
    "$group" => group::read::read, Needs::Nothing;
    "$sortByCount" => group::read::read_sort_by_count, Needs::Nothing;
    "$bucket" => bucket::read, Needs::Nothing;
    "$bucketAuto" => bucket_auto::read, Needs::Nothing;
    "$setWindowFields" => window::parse::read, Needs::Nothing;
    "$fill" => window::parse::read_fill, Needs::Nothing;
    "$densify" => densify::read, Needs::Nothing;
    "$lookup" => lookup::read, Needs::Inner;
    "$graphLookup" => graph::read, Needs::Inner;
    "$unionWith" => union::read, Needs::Inner;
    "$out" => output::read_out, Needs::Writes, OutsideFacets, OutsideTransactions;
    "$merge" => output::read_merge, Needs::Writes, OutsideFacets, OutsideTransactions;
    "$changeStream" => reshape::refuse, Needs::Watched(&["find", "changeStream"]), OverDatabases, OutsideFacets;
    "$changeStreamSplitLargeEvent" => reshape::refuse, Needs::Nothing;
    "$geoNear" => reshape::refuse, Needs::Refused, OutsideFacets;
    "$search" => reshape::refuse, Needs::Refused, OutsideFacets, Unstable;
    "$searchMeta" => reshape::refuse, Needs::Refused, OutsideFacets, Unstable;
    "$vectorSearch" => reshape::refuse, Needs::Refused, OutsideFacets, Unstable;
    "$listSearchIndexes" => reshape::refuse, Needs::Refused, OutsideFacets, Unstable;
    "$rankFusion" => reshape::refuse, Needs::Refused;
    "$scoreFusion" => reshape::refuse, Needs::Refused;
    "$collStats" => report::read, Needs::OnCollection("collStats"), OfCollection, OutsideFacets, OutsideTransactions;
    "$indexStats" => report::read, Needs::OnCollection("indexStats"),
        OfCollection, OutsideFacets, OutsideTransactions, Unstable;
    "$planCacheStats" => report::read, Needs::OnCollection("planCacheRead"),
        OfCollection, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$currentOp" => report::read, Needs::By(needs::operations),
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$listSessions" => report::read, Needs::By(needs::sessions), OfServer, OutsideTransactions, Unstable;
    "$listLocalSessions" => report::read, Needs::By(needs::sessions),
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$listClusterCatalog" => report::read, Needs::By(needs::catalog),
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
    "$querySettings" => report::read, Needs::By(needs::settings),
        OfServer, OverDatabases, OutsideFacets, OutsideTransactions, Unstable, ReadsLocally;
}
