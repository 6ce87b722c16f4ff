#!/bin/bash
# Renames of files and identifiers outside of log/ and db/, and what follows from them in db/ and in the other crates.
# Run at any state of the tree; running it again changes nothing. `renames.sh late` also renames what log/ uses.
set -eu
cd "$(dirname "$0")" # the root of the repository
E=crates/engine/src

mv_() { if [ -e "$1" ] && [ ! -e "$2" ]; then mkdir -p "$(dirname "$2")"; git mv "$1" "$2"; fi; }
rs() { find "$@" -name '*.rs' -not -path "$E/log/*" -not -path "$E/env/*" -not -path '*/target/*' 2>/dev/null || true; }
# sub SCOPE...: applies the sed script on stdin to the Rust files below the scope (files or folders that exist).
sub() {
    local files script
    script=$(mktemp); cat >"$script"
    files=$(rs "$@")
    [ -z "$files" ] || sed -i -E -f "$script" $files
    rm -f "$script"
}
# code SCOPE... : the same, in lines that are no comments.
code() {
    local script; script=$(mktemp); sed -E 's@^(s/)@/^[[:space:]]*\\/\\//!\1@' >"$script"
    sub "$@" <"$script"; rm -f "$script"
}
# prose SCOPE... : the same, in lines that are comments.
prose() {
    local script; script=$(mktemp); sed -E 's@^(s/)@/^[[:space:]]*\\/\\//\1@' >"$script"
    sub "$@" <"$script"; rm -f "$script"
}
ALL="$E crates/engine/tests crates/engine/examples crates/engine/benches crates/lab crates/cli crates/testkit peers/src xtask fuzz"

# ---------------------------------------------------------------------------------------------------------------------
# Files.
T=$E/tree
mv_ $T/place.rs $T/leaf_cursor.rs
mv_ $T/part.rs $T/bounded_cursor.rs
mv_ $T/lookup.rs $T/multi_get.rs
mv_ $T/erasure/hiding.rs $T/erasure/masks.rs
mv_ $T/erasure $T/range_tombstone
mv_ $T/retain/waiting.rs $T/retain/pending_single_delete.rs
mv_ $T/retain/chain.rs $T/retain/operand_chain.rs
mv_ $T/retain/below.rs $T/retain/other_trees.rs
mv_ $T/retain $T/gc
mv_ $T/run/ahead.rs $T/run/readahead.rs
mv_ $T/btree/ahead.rs $T/btree/readahead.rs
mv_ $T/run/together.rs $T/run/multi_get.rs
mv_ $T/run/refusals.rs $T/run/filter_stats.rs
mv_ $T/run/warm.rs $T/run/cache_populate.rs
mv_ $T/run/fuse.rs $T/run/sticky_error.rs
mv_ $T/run/stamped.rs $T/run/assigned_seqnum.rs
mv_ $T/run/view/seats.rs $T/run/view/run_cursors.rs
mv_ $E/table/mem.rs $E/table/memtable_handle.rs
mv_ $E/table/marks.rs $E/table/seqnum_to_time.rs
mv_ $E/table/policy/parked.rs $E/table/policy/delta_runs.rs
mv_ $E/table/policy/paid.rs $E/table/policy/read_triggered.rs
mv_ $E/txn/visibility.rs $E/txn/snapshot_iter.rs
mv_ $E/txn/skips.rs $E/txn/tombstone_stats.rs
mv_ $E/base/list.rs $E/base/intrusive_list.rs
mv_ $E/base/shards.rs $E/base/thread_counters.rs
mv_ $E/block/slim.rs $E/block/strip.rs
mv_ $E/store/behind.rs $E/store/write_behind.rs
mv_ crates/engine/tests/erasures.rs crates/engine/tests/range_deletes.rs
mv_ crates/engine/tests/parked.rs crates/engine/tests/delta_runs.rs

# ---------------------------------------------------------------------------------------------------------------------
# Module paths.
sub $ALL <<'S'
s/\b(tree|super|spinney::tree)::place\b/\1::leaf_cursor/g
s/\btree::part\b/tree::bounded_cursor/g
s/\b(tree|super)::lookup::\{?(Answers|Ask|Lookups)/&@@/
s/\b(tree|super)::lookup::(\{?(Answers|Ask|Lookups))@@/\1::multi_get::\2/
s/\btree::lookup\b/tree::multi_get/g
s/\btree::erasure\b/tree::range_tombstone/g
s/\bsuper::erasure\b/super::range_tombstone/g
s/\btree::retain\b/tree::gc/g
s/\brun::together\b/run::multi_get/g
s/\btable::mem\b/table::memtable_handle/g
s/\btable::marks\b/table::seqnum_to_time/g
s/\btxn::visibility\b/txn::snapshot_iter/g
s/\btxn::skips\b/txn::tombstone_stats/g
s/\bbase::list\b/base::intrusive_list/g
s/\bbase::shards\b/base::thread_counters/g
S
sub $E/tree/mod.rs <<'S'
s/mod place;/mod leaf_cursor;/
s/mod part;/mod bounded_cursor;/
s/mod lookup;/mod multi_get;/
s/mod erasure;/mod range_tombstone;/
s/mod retain;/mod gc;/
S
sub $T/range_tombstone <<'S'
s/\bmod hiding;/mod masks;/
s/\bhiding::/masks::/g
S
sub $T/gc <<'S'
s/\bmod waiting;/mod pending_single_delete;/
s/\bwaiting::/pending_single_delete::/g
s/\bmod chain;/mod operand_chain;/
s/\bchain::/operand_chain::/g
s/\bmod below;/mod other_trees;/
s/\bbelow::/other_trees::/g
S
sub $T/run $T/btree <<'S'
s/\bmod ahead;/mod readahead;/
s/\bsuper::ahead::/super::readahead::/g
s/\bsuper::together\b/super::multi_get/g
s/\brun::ahead::/run::readahead::/g
s/\bmod together;/mod multi_get;/
s/\bmod refusals;/mod filter_stats;/
s/\brefusals::/filter_stats::/g
s/\bmod warm;/mod cache_populate;/
s/\bwarm::/cache_populate::/g
s/\bmod fuse;/mod sticky_error;/
s/\bfuse::/sticky_error::/g
s/\bmod stamped;/mod assigned_seqnum;/
s/\bstamped::/assigned_seqnum::/g
s/\bmod seats;/mod run_cursors;/
s/\bseats::/run_cursors::/g
S
sub $E/table <<'S'
s/\bmod mem;/mod memtable_handle;/
s/\b(super|crate::table)::mem::/\1::memtable_handle::/g
s/\bmod marks;/mod seqnum_to_time;/
s/\bmarks::(\{?Marks?\b)/seqnum_to_time::\1/g
s/\bmod paid;/mod read_triggered;/
s/\bpaid::/read_triggered::/g
s/\bmod parked;/mod delta_runs;/
s/\bparked::/delta_runs::/g
S
sub $E/txn <<'S'
s/\bmod visibility;/mod snapshot_iter;/
s/\bmod skips;/mod tombstone_stats;/
s/\bskips::/tombstone_stats::/g
S
sub $E/base/mod.rs <<'S'
s/\bmod list;/mod intrusive_list;/
s/\bmod shards;/mod thread_counters;/
S
sub $E/block <<'S'
s/\bmod slim;/mod strip;/
s/\bslim::/strip::/g
S
sub $E/store <<'S'
s/\bmod behind;/mod write_behind;/
s/\bbehind::WriteBehind/write_behind::WriteBehind/g
S

# ---------------------------------------------------------------------------------------------------------------------
# The cursor traits.
sub $E/tree $E/table $E/txn $E/db crates/engine/benches crates/testkit <<'S'
s/\bapproach_ge\b/prefetch_seek_ge/g
s/\bnear_ge\b/lazy_seek_ge/g
s/\bnext_key_here\b/next_key_in_leaf/g
s/\bbegins_key\b/is_first_version/g
s/\bleave_leaf\b/skip_leaf/g
s/\bleaf_begun\b/leaf_if_first/g
s/\bleap_ge\b/seek_ge_nearby/g
s/\bleap_lt\b/seek_lt_nearby/g
s/\bAges\b/SeqnumBounds/g
s/\bcompares_ages\b/compares_seqnums/g
s/\bages\(/seqnum_bounds(/g
s/::ages\]/::seqnum_bounds]/g
S
code $E/tree $E/table $E/db <<'S'
s/\bages\b/seqnum_bounds/g
s/\bseqnum_bounds(\(\))?\.least\b/seqnum_bounds\1.smallest/g
s/\bseqnum_bounds(\(\))?\.most\b/seqnum_bounds\1.largest/g
s/\b(SeqnumBounds|Self) \{ least: ([^,]*), most: /\1 { smallest: \2, largest: /g
s/\b(SeqnumBounds|Self) \{ least, most: least\b/\1 { smallest, largest: smallest/g
S
sub $T/cursor.rs $T/merge.rs $T/leaf_cursor.rs $T/vec_cursor.rs $T/run $T/btree/cursor.rs $T/btree/tests $T/range_tombstone <<'S'
s/\bNear\b/KeyBound/g
s/\bnear_player\b/lazy_player/g
s/\bany_near\b/any_lazy/g
s/\bstart_near\b/start_lazily/g
s/\barrive_all\b/resolve_all/g
s/::near\b/::lazy_key/g
s/::arrive\b/::resolve/g
s/\bfn near\(&self\)/fn lazy_key(\&self)/g
s/\.near\(\)/.lazy_key()/g
s/\bfn arrive\(/fn resolve(/g
s/\.arrive\(\)/.resolve()/g
s/\b(way|descent)\.arrive\(/\1.resolve(/g
s/\bis_near\b/is_lazy/g
s/\bcome_near\b/set_lazily/g
s/\bfn exchange\(/fn swap_leaf_cursor(/g
s/\.exchange\((&mut self\.here|place|&mut place)\)/.swap_leaf_cursor(\1)/g
s/::exchange\b/::swap_leaf_cursor/g
s/\bexchange_leaf\b/swap_leaf/g
S
sub $T/cursor.rs $T/merge.rs $T/leaf_cursor.rs $T/run $T/btree/cursor.rs <<'S'
s/\bPlace\b/LeafCursor/g
S
sub $T/run/view <<'S'
s/\bStand::Near\b/Stand::Lazy/g
s/^    Near\(Spot\),/    Lazy(Spot),/
s/\bfn near\(self/fn key_bound(self/
s/\.near\(([a-z.]+)\)/.key_bound(\1)/g
S
sub $T/bounded_cursor.rs $E/db <<'S'
s/\bPart::new\b/BoundedCursor::new/g
s/\bbounded_cursor::Part\b/bounded_cursor::BoundedCursor/g
S
sub $T/bounded_cursor.rs <<'S'
s/\bPart\b/BoundedCursor/g
S

sub $T/cursor.rs <<'S'
s/^    pub least: SeqNum/    pub smallest: SeqNum/
s/^    pub most: SeqNum/    pub largest: SeqNum/
S
code $T/run/reader.rs <<'S'
s/\bleast\b/smallest/g
S

# Steps of a seek.
sub $E/tree $E/table $E/cache $E/db <<'S'
s/\.approach\(/.prefetch_step(/g
s/\bfn approach\(/fn prefetch_step(/g
S
sub $T/run/cursor.rs $T/btree/cursor.rs $T/run/view/cursor.rs <<'S'
s/\bApproach\b/SeekProgress/g
s/\bapproach_(index|slot|leaf|from)\b/seek_step_\1/g
s/\bmay_approach\b/may_prefetch_seek/g
S
code $T/run/cursor.rs $T/btree/cursor.rs $T/run/view/cursor.rs <<'S'
s/\bapproach\b/progress/g
S
sub $T/run/level.rs <<'S'
s/\bself\.approaches\b/self.is_seeking/g
s/\bapproaches: /is_seeking: /g
S

# ---------------------------------------------------------------------------------------------------------------------
# Snapshots' iterators.
sub $E/txn $E/db <<'S'
s/\bShown::Visible\b/Shown::@@/g
s/\bVisible(<|::new|::fetch|::next|::prev|\};)/SnapshotIter\1/g
s/\bShown::@@/Shown::Visible/g
s/\bsnapshot_iter::\{Known, /snapshot_iter::{ReadContext, /g
s/\bKnown( \{|::default)/ReadContext\1/g
s/: Known\b/: ReadContext/g
s/-> Known\b/-> ReadContext/g
s/\bSkips\b/TombstoneStats/g
s/\binto_skips\b/into_tombstone_stats/g
S
sub $E/txn/snapshot_iter.rs $E/txn/snapshot_iter <<'S'
s/"Visible"/"SnapshotIter"/
s/\bstruct Visible\b/struct SnapshotIter/
s/\bstruct Known\b/struct ReadContext/
s/\bTravel\b/Direction/g
s/\bApart\b/PointerState/g
S
code $E/txn/snapshot_iter.rs $E/txn/snapshot_iter <<'S'
s/\btravel\b/direction/g
s/\bknown\b/context/g
s/\bskips\b/tombstones/g
s/\bapart\b/pointer/g
s/\bleave_apart\b/leave_pointer/g
s/\bfetch_apart\b/fetch_pointer/g
s/PointerState::Away\b/PointerState::Unread/g
s/^    Away,/    Unread,/
s/PointerState::No\b/PointerState::Inline/g
s/^    No,/    Inline,/
S

# ---------------------------------------------------------------------------------------------------------------------
# Lookups of several keys.
sub $E/tree $E/table $E/db <<'S'
s/\bLookups(::run|<|,|;|\}| \{)/MultiGet\1/g
s/\bmulti_get::Lookups\b/multi_get::MultiGet/g
s/\bLookups<'k>/MultiGet<'k>/g
S
sub $E/tree $E/table <<'S'
s/\bAsk\b/GetRequest/g
s/\bAnswers\b/GetResults/g
S
code $T/multi_get.rs $T/run/multi_get.rs $T/btree/lookup.rs $T/memtable $T/run/view/reader.rs $E/table/version.rs $E/table/version $E/table/operands.rs <<'S'
s/\basks\b/requests/g
s/\bask\b/request/g
s/\banswers\b/results/g
s/\blookups\b/multi_get/g
S
sub $T/run/multi_get.rs <<'S'
s/\bWay\b/Descent/g
s/\bTry\b/Probe/g
s/\bFiltered\b/FilterProbe/g
s/\bUnasked\b/NotProbed/g
s/\bask_filters\b/probe_filters/g
s/\bfn account\(/fn count(/
s/\.account\(/.count(/g
S
sub $T/run $E/table <<'S'
s/\bOption<Start>/Option<IndexPos>/g
s/\bSome\(Start \{/Some(IndexPos {/g
s/\bstruct Start\b/struct IndexPos/
s/\breader::\{Run, Start\}/reader::{IndexPos, Run}/
s/\bRun, Start,/IndexPos, Run,/
s/\bApproached\b/LookupStarts/g
S
sub $T/memtable crates/engine/benches <<'S'
s/\btree::TOGETHER\b/tree::INSERT_GROUP/g
s/\bTOGETHER\b/INSERT_GROUP/g
s/\binsert_together\b/insert_group/g
S

# ---------------------------------------------------------------------------------------------------------------------
# Memtables.
sub $T/memtable <<'S'
s/\bPlace\b/SortKey/g
s/\bWay\b/SeekProgress/g
s/\bSpot\b/EntryOffset/g
S
code $T/memtable <<'S'
s/\bway\b/progress/g
S
sub $E/txn $E/db crates/engine/benches <<'S'
s/\bSpot\b/EntryOffset/g
s/\.spots\(\)/.entry_offsets()/g
s/\bfn spots\(/fn entry_offsets(/g
S
sub $E/table $E/db <<'S'
s/\bMem\b/MemtableHandle/g
S
sub $E/table $E/db <<'S'
s/\bMoment\b/CommitPoint/g
S

# ---------------------------------------------------------------------------------------------------------------------
# Levels.
sub $E/table $E/db <<'S'
s/\bPlace::(L0|Level)\b/LevelId::\1/g
s/\bversion::Place\b/version::LevelId/g
s/\btable::\{Place, /table::{LevelId, /g
s/\bplace: Place\b/place: LevelId/g
s/\btarget: Place\b/target: LevelId/g
S
sub $E/table <<'S'
s/\bPlace\b/LevelId/g
S

# ---------------------------------------------------------------------------------------------------------------------
# Range tombstones.
prose $ALL <<'S'
s/\b([Aa])n erasure\b/\1 range tombstone/g
s/(^|[^`A-Za-z:[])Erasures\b([^]`:;,{]|$)/\1Range tombstones\2/g
s/(^|[^`A-Za-z:[])Erasure\b([^]`:;,{]|$)/\1Range tombstone\2/g
s/\b(table|table's|all|newer|other|these|those|of) erasures\b/\1 range tombstones/g
s/(^|[^`.])\berasures\b([^`:(]|$)/\1range tombstones\2/g
s/(^|[^`.])\berasures\b([^`:(]|$)/\1range tombstones\2/g
s/(^|[^`.])\berasure\b([^`:(]|$)/\1range tombstone\2/g
S
sub $ALL <<'S'
s/\bErasures\b/RangeTombstones/g
s/\bErasure\b/RangeTombstone/g
s/\bUnerased\b/RangeDelCursor/g
s/\bput_erasures\b/put_range_tombstones/g
s/\bput_erasure\b/put_range_tombstone/g
s/\bwith_erasures\b/with_range_tombstones/g
s/\berasures_to_join\b/range_tombstones_to_join/g
s/\bERASURES_MANY\b/RANGE_TOMBSTONES_MANY/g
s/\bERASURE_OVERHEAD_BYTES\b/RANGE_TOMBSTONE_OVERHEAD_BYTES/g
s/\bKind::Erase\b/Kind::RangeDelete/g
s/\bEdit::Erase\b/Edit::RangeDelete/g
s/\bEdit::Absorb\b/Edit::BTreeMerge/g
s/\bReached::ErasureRetired\b/Reached::RangeTombstoneRetired/g
s/\bReached::Absorbed\b/Reached::BTreeMerged/g
s/\bReached::PaidMerge\b/Reached::ReadTriggeredMerge/g
s/\bpick_erased\b/pick_range_deleted/g
s/\berased_runs\b/range_deleted_runs/g
s/\berased_percent\b/range_deleted_percent/g
s/\.erases\(\)/.has_range_deletes()/g
S
code crates/engine/tests <<'S'
s/(unwrap\(\)|shape)\.erasures\b/\1.range_tombstones/g
S
code $E/tree $E/table $E/db crates/cli <<'S'
s/\berasures\b/range_tombstones/g
s/\berasure\b/range_tombstone/g
S
sub $E/base/reached.rs <<'S'
s/\bErasureRetired\b/RangeTombstoneRetired/g
s/\bAbsorbed\b/BTreeMerged/g
s/\bPaidMerge\b/ReadTriggeredMerge/g
S
sub $E/base/key.rs $E/table/edit.rs <<'S'
s/\bSelf::Erase\b/Self::RangeDelete/g
s/^    Erase\b/    RangeDelete/
s/\bSelf::Absorb\b/Self::BTreeMerge/g
s/^    Absorb\b/    BTreeMerge/
S
sub $E/txn/batch.rs <<'S'
s/\bfn erases\(/fn has_range_deletes(/
S
sub $E/db <<'S'
s/\brange_tombstone::\{Ends, /range_tombstone::{RangeEnds, /
s/\bEnds<'/RangeEnds<'/g
S
sub $E/tree $E/table <<'S'
s/\bHiding\b/Masks/g
s/\bStretch\b/MaskFragment/g
s/\bHeld\b/TreeExtent/g
s/\bEnds<'/RangeEnds<'/g
s/\brange::\{Ends, RangeTombstone\}/range::{RangeEnds, RangeTombstone}/
s/\btype Ends\b/type RangeEnds/
s/\bunerased\(/without_range_deleted(/g
s/\bto_join\b/pair_to_join/g
S
sub $T/range_tombstone $E/txn/batch.rs <<'S'
s/\bEnds(,|;|\})/RangeEnds\1/g
s/::Ends\b/::RangeEnds/g
S
sub $E/tree $E/table $E/db <<'S'
s/\bLayers\b/TombstoneLayers/g
s/\btrees\.held\(\)/trees.extents()/g
s/\bpub fn held\(&self\) -> Vec</pub fn extents(\&self) -> Vec</
S
sub $T/range_tombstone/cursor.rs <<'S'
s/\bWay\b/Direction/g
S
code $T/range_tombstone/cursor.rs <<'S'
s/\bhiding\b/masks/g
s/\bstretch\b/fragment/g
s/\bway\b/direction/g
S

# ---------------------------------------------------------------------------------------------------------------------
# What flushes and compactions may drop.
sub $ALL <<'S'
s/\bRetain\b/GcRule/g
S
sub $T/gc $T/btree $E/table $E/db crates/engine/benches crates/testkit <<'S'
s/\bBelow(::new|::default|,|;|\}| \{|\)|>)/OtherTrees\1/g
s/: Below\b/: OtherTrees/g
s/-> Below\b/-> OtherTrees/g
s/\bother_trees::Below\b/other_trees::OtherTrees/g
s/\bgc::Below\b/gc::OtherTrees/g
s/\bgc::\{Below, /gc::{OtherTrees, /g
s/\bsuper::super::Below\b/super::super::OtherTrees/g
s/\bstruct Below\b/struct OtherTrees/g
s/\bimpl Below\b/impl OtherTrees/g
s/\.erasing\(/.with_range_tombstones(/g
s/\bfn erasing\(/fn with_range_tombstones(/
s/\.folding\(/.with_operator(/g
s/\bfn folding\(/fn with_operator(/
s/\.filtering\(/.with_filter(/g
s/\bfn filtering\(/fn with_filter(/
s/\.reading\(/.with_values(/g
s/\bfn reading\(/fn with_values(/
s/\.dated\(/.keeping_seqnums(/g
s/\bfn dated\(/fn keeping_seqnums(/
s/\b(retain|rule|gc)\.over\(/\1.with_other_trees(/g
s/\.over\(below\)/.with_other_trees(below)/g
s/\.over\(super::super/.with_other_trees(super::super/g
s/\bpub fn over\(/pub fn with_other_trees(/
s/\bbeside_inputs\b/other_trees/g
S
sub $T/gc <<'S'
s/\bWaiting\b/PendingSingleDelete/g
s/\bChain\b/OperandChain/g
s/\bgive_(waiting|filtered|chain|operands|tombstone)\b/emit_\1/g
s/\bemit_waiting\b/emit_pending/g
s/\bend_waiting\b/end_pending/g
s/\berased_in\b/covered_segment/g
s/\berased_at\b/covering/g
S
code $T/gc <<'S'
s/\bwaiting\b/pending/g
s/\bself\.given\b/self.emitted/g
s/\b(pub\(super\) )?given: /\1emitted: /g
s/\bself\.taken\b/self.consumed/g
s/^( *)taken: 0/\1consumed: 0/
s/^    taken: u64/    consumed: u64/
s/\bself\.dated\b/self.keeps_seqnums/g
s/^    dated: bool/    keeps_seqnums: bool/
s/\bdated: false/keeps_seqnums: false/
s/self\.hold\(/self.defer(/g
s/fn hold\(/fn defer(/
S
code $T/btree crates/engine/benches $E/db <<'S'
s/\bself\.retain\b([^(])/self.gc\1/g
s/(^|[^.A-Za-z0-9_])retain\b([^(A-Za-z0-9_]|$)/\1gc\2/g
s/(^|[^.A-Za-z0-9_])retain\b([^(A-Za-z0-9_]|$)/\1gc\2/g
S

# ---------------------------------------------------------------------------------------------------------------------
# Sorted views.
sub $T/run/view $E/table <<'S'
s/\bSpot\b/SlotPos/g
S
sub $T/run/view <<'S'
s/\bLIES_AT\b/LOCATORS_AT/g
s/\bLIE_BITS\b/LOCATOR_BITS/g
s/\bLie\b/EntryLocator/g
s/\bprefetch_lies\b/prefetch_locators/g
s/\bSeats\b/RunCursors/g
s/\bSeat\b/RunCursorState/g
s/\bStand\b/State/g
s/"stand"/"state"/
S
code $T/run/view <<'S'
s/\blies\b/locators/g
s/\blie\b/locator/g
s/\bseats\b/run_cursors/g
s/\bseat\b/run_cursor/g
s/\bself\.stand\b/self.state/g
s/\bsticky_error, stand,/sticky_error, state,/
s/\(sticky_error, stand\b/(sticky_error, state/
s/\bstand\b([^(]|$)/state\1/g
s/\bstand: State\b/state: State/g
s/\bspot\b/slot/g
s/\baheads\b/readaheads/g
S
sub $E/table $E/db <<'S'
s/\bViewed\b/TableView/g
s/\bViewable\b/ViewCandidate/g
s/\bover_the_last\b/view_candidate/g
s/\bversion\.viewing\(/version.with_view(/g
s/\bfn viewing\(/fn with_view(/
s/\bis_viewed_by\b/reads_view/g
S
sub $E/table <<'S'
s/\bself\.beside\(/self.outside_view(/g
s/\bfn beside\(/fn outside_view(/
S

# ---------------------------------------------------------------------------------------------------------------------
# Runs.
sub $T/run <<'S'
s/\bRefusals\b/FilterStats/g
s/\bare_worth_asking\b/should_probe/g
s/\bare_usual\b/rejects_often/g
s/\.learn\(/.record(/g
s/\bfn learn\(/fn record(/
s/\bFuse\b/StickyError/g
s/\bStamped\b/AssignedSeqnum/g
s/\bWarm\b/CachePopulate/g
S
code $T/run <<'S'
s/\brefusals\b/filter_stats/g
s/\bfuse\b/sticky_error/g
s/\bstamped\b/is_assigned/g
s/\bwarm\b/populate/g
s/\bself\.ahead\b/self.readahead/g
s/\bcursor\.ahead\b/cursor.readahead/g
s/\brun, ahead, /run, readahead, /
s/\bahead\.leaf\(/readahead.leaf(/g
s/^(    | *)ahead: ReadAhead/\1readahead: ReadAhead/
S
code $T/run/verify.rs <<'S'
s/\bahead\b/readahead/g
S
code $T/btree/cursor.rs <<'S'
s/\bself\.ahead\b/self.readahead/g
s/^( *)ahead: ReadAhead/\1readahead: ReadAhead/
S
sub $T/btree/readahead.rs $T/btree/cursor.rs $T/btree/merge.rs <<'S'
s/\bWay\b/Walk/g
S
code $T/btree/readahead.rs $T/btree/cursor.rs <<'S'
s/\bway\b/walk/g
S

# ---------------------------------------------------------------------------------------------------------------------
# B-trees, their branches, the cache and the store.
sub $T/btree $E/db crates/engine/benches <<'S'
s/\bbtree::\{(.*)\bTurn\b/btree::{\1MergePermit/
s/\bbtree::Turn\b/btree::MergePermit/g
s/\b(btree|tree)\.turn\(\)/\1.merge_permit()/g
s/([:<&( ])Turn([;,>) ]|$)/\1MergePermit\2/g
S
sub $T/btree <<'S'
s/\bTurn\b/MergePermit/g
s/\bfn turn\(/fn merge_permit(/
s/\bfn give_back\(/fn punch_free(/
s/\btree\.give_back\(/tree.punch_free(/g
s/::give_back\b/::punch_free/g
s/\bclaim\b/allocation/g
s/\bClaim\b/Allocation/g
S
sub $E/db <<'S'
s/\bbtree\.give_back\(/btree.punch_free(/g
S
code $T/btree crates/engine/benches/btree.rs <<'S'
s/\bturn\b/permit/g
S
sub $E/store <<'S'
s/\bClaim\b/Allocation/g
s/\bclaim\b/allocation/g
s/self\.turn\(/self.next_extent(/g
s/fn turn\(/fn next_extent(/
S
code $E/store/extent.rs $E/store/writer.rs <<'S'
s/\bbehind\b/write_behind/g
S
sub $E/store $T/btree <<'S'
s/\.defer\(/.free_after(/g
s/\bfn defer\(/fn free_after(/
S
sub $E/tree <<'S'
s/\bRoom\b/CacheReservation/g
s/\bStep::Kept\b/Step::Pinned/g
s/\bSelf::Kept\b/Self::Pinned/g
s/^    Kept\(/    Pinned(/
s/\bkept_part\b/pinned_part/g
S
code $T/branch.rs $T/btree $T/run <<'S'
s/\broom\b/reservation/g
s/\.kept\(/.pinned(/g
s/\bfn kept\(/fn pinned(/
s/\babove\.keep\(/above.pin(/g
s/\breservation\.keep\(/reservation.pin(/g
s/\bself\.top\.keep\(/self.top.pin(/g
s/\breservation\.take\(/reservation.reserve(/g
s/\bself\.reservation\.take\(/self.reservation.reserve(/g
S
sub $T/branch.rs <<'S'
s/\bpub fn keep\b/pub fn pin/
s/\bpub fn take\(&self, bytes/pub fn reserve(\&self, bytes/
s/\benum Below\b/enum Children/
s/\bBelow::/Children::/g
s/\bbelow: Below\b/children: Children/
s/\bblock, below \}/block, children }/
s/\blet below = match/let children = match/
s/\bself\.below\b/self.children/g
S
sub $E/cache $E/tree $E/db <<'S'
s/\btake_room\b/reserve/g
s/\bgive_room\b/release/g
s/\bcache\.room\(\)/cache.reservable_bytes()/g
S
sub $E/cache <<'S'
s/\bpub fn room\(&self\)/pub fn reservable_bytes(\&self)/
s/\bGuide\b/TableAddr/g
s/\bKept\b/WeakSwip/g
s/\bswip\.kept\(\)/swip.downgrade()/g
s/\bpub\(super\) fn kept\(self\)/pub(super) fn downgrade(self)/
s/\bKEPT_PART\b/RESERVED_PART/g
S
code $E/cache <<'S'
s/\bguide\b/table_addr/g
s/\bself\.kept\b/self.reserved/g
s/^    kept: AtomicU64/    reserved: AtomicU64/
s/\bkept: AtomicU64::new/reserved: AtomicU64::new/
S
sub $E/block <<'S'
s/\bslimmed\b/stripped/g
s/\bSlimmed\b/Stripped/g
s/\bslim\b/strip/g
s/\brestore\b/rebuild/g
s/\{rebuild, strip\}/{rebuild, strip}/
S
sub $ALL <<'S'
s/\bSharded(<|::)/ThreadCounters\1/g
s/\bthread_counters::Sharded\b/thread_counters::ThreadCounters/g
S

# ---------------------------------------------------------------------------------------------------------------------
# Policies.
sub $E/table $E/db <<'S'
s/\bpick_paid\b/pick_read_triggered/g
s/\bPaid\b/ReadTriggered/g
s/\bPrice\b/JobCost/g
s/\bAccount\b/ReadCredit/g
s/\bPayer\b/CreditSource/g
s/\bInMemory\b/MemtableLoad/g
s/\bnear_key\b/credit_key/g
s/\bJob::Absorb\b/Job::BTreeMerge/g
s/\bis_absorption_due\b/is_btree_merge_due/g
s/\bbytes_of_absorption\b/btree_merge_bytes/g
s/\babsorption_needs\b/btree_merge_needs/g
s/\bparked_bytes\b/delta_bytes/g
s/\bparked_puts_bytes\b/delta_puts_bytes/g
s/\bPARKED_PERCENT\b/DELTA_PERCENT/g
s/\.earn\(/.add(/g
s/\.earn_near\(/.add_near(/g
s/\.earn_in\(/.add_dead_range(/g
s/\b(paid|merge|job|picked)\.price\b/\1.cost/g
s/\bprice: JobCost/cost: JobCost/g
s/CreditSource::All\)\.price\b/CreditSource::All).cost/g
s/\bReadTriggered \{ job, price \}/ReadTriggered { job, cost: price }/g
S
code xtask <<'S'
s/"erasures"/"range_deletes"/
s/"parked"/"delta_runs"/
S
sub $E/table/policy <<'S'
s/\bfn earn\(/fn add(/
s/\bfn earn_near\(/fn add_near(/
s/\bfn earn_in\(/fn add_dead_range(/
s/^    Absorb \{/    BTreeMerge {/
S
sub $E/table/policy/read_triggered.rs $E/table/policy/read_triggered <<'S'
s/\bNear\b/KeyCredit/g
s/\bSpan\b/DeadRange/g
s/\bNEAR_MAX\b/KEYS_MAX/g
s/\bNEAR_KEY_BYTES\b/KEY_BYTES_KEPT/g
s/\bSPANS_MAX\b/DEAD_RANGES_MAX/g
s/\bpick_span\b/pick_dead_range/g
s/\bspan_in_btree\b/dead_range_in_btree/g
s/\bspan_to_the_bottom\b/dead_range_to_the_bottom/g
S

# ---------------------------------------------------------------------------------------------------------------------
# Times to live.
sub $E/table $E/db <<'S'
s/\bMarks\b/SeqnumToTime/g
s/\bMark( \{|\]|>|\{)/TimeSample\1/g
s/\bstruct Mark\b/struct TimeSample/
s/\bimpl Mark\b/impl TimeSample/
s/\bseqnum_to_time::\{Mark, /seqnum_to_time::{TimeSample, /
s/\bput_marks\b/put_seqnum_to_time/g
s/\bmarks\.look\(/marks.observe_clock(/g
s/\bversion\.hiding\(/version.with_expired(/g
s/\bversion\.settled\(/version.with_expiry_applied(/g
s/\bHidden( \{|;|\]|>|,)/Expired\1/g
s/\bversion::Hidden\b/version::Expired/g
s/\bhidden_from\b/expired_before/g
s/\bfn hiding\(&self, newest/fn with_expired(\&self, newest/
s/\bfn settled\(/fn with_expiry_applied(/
s/\b(load\(\)|version)\.hidden\b/\1.expired/g
s/\.load\(\)\.hidden\b/.load().expired/g
S
code $E/table/version.rs $E/table/version <<'S'
s/\bhidden\b/expired/g
S
code $E/table $E/db <<'S'
s/\bmarks\b/seqnum_to_time/g
S
sub $E/table/seqnum_to_time.rs <<'S'
s/\bMark\b/TimeSample/g
s/\bfn look\(/fn observe_clock(/
s/::look\]/::observe_clock]/g
s/\.look\(/.observe_clock(/g
S

# ---------------------------------------------------------------------------------------------------------------------
# Values in value files.
sub $ALL <<'S'
s/\bKind::PutApart\b/Kind::PutPointer/g
S
sub $E/base/key.rs <<'S'
s/\bPutApart\b/PutPointer/g
S

# ---------------------------------------------------------------------------------------------------------------------
# What the split of files and traits forces in db/ and tests.
sub $E/db <<'S'
s/\bVec<Box<dyn Cursor>>/Vec<Box<dyn MergeSource>>/g
s/&mut dyn Cursor\b/\&mut dyn MergeSource/g
s/\btable::version::(LEVELS|Level|LevelId|RunHandle|TableView|ViewCandidate|Trees|Expired|Version|\{)/table::\1/g
S

# ---------------------------------------------------------------------------------------------------------------------
if [ "${1:-}" = late ]; then
    find $ALL -name '*.rs' -not -path '*/target/*' | xargs sed -i -E 's/\bReached\b/CoveragePoint/g'
    mv_ $E/base/reached.rs $E/base/coverage.rs
    sed -i -E 's/\bmod reached;/mod coverage;/; s/\breached::/coverage::/' $E/base/mod.rs
fi
