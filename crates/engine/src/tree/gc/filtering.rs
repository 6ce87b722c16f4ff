//! The compaction filter: what it makes of the value of a key that every snapshot sees.

use crate::base::key::check_value;
use crate::base::{Kind, Result};
use crate::cache::Fill;
use crate::tree::compaction_filter::Decision;

use super::context::GcContext;

/// What the compaction filter makes of a value.
pub(super) enum Filtered {
    /// The entry stays as it is.
    Unchanged,
    /// It becomes a put of this value.
    Changed(Vec<u8>),
    /// It becomes a tombstone.
    Tombstone,
    /// It is dropped, since no older version lies below.
    Dropped,
}

impl GcContext {
    /// Asks the filter about the value of `key`. `stored` is the value, or the pointer to it.
    pub(super) fn filtered(&self, key: &[u8], kind: Kind, stored: &[u8]) -> Result<Filtered> {
        let read;
        let value = match kind {
            Kind::PutPointer => {
                read = self.values.read(stored, Fill::Bypass)?;
                &*read
            }
            _ => stored,
        };
        Ok(match self.filter.decide(key, value) {
            Decision::Remove if self.bottom => Filtered::Dropped,
            Decision::Remove => Filtered::Tombstone,
            Decision::Change(new) if check_value(&new).is_ok() && self.operator.check_value(&new).is_ok() => {
                Filtered::Changed(new)
            }
            Decision::Keep | Decision::Change(_) => Filtered::Unchanged,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use crate::base::{Kind, SeqNum};
    use crate::tree::compaction_filter::{CompactionFilter, CompactionFilters, Decision, TableFilter};
    use crate::tree::gc::GcRule;
    use crate::tree::gc::tests::{apply, course, cut, read, run};
    use crate::tree::operator::TableOperator;
    use crate::tree::vec_cursor::{OwnedEntry, trees};

    /// Removes a third of the values, and makes another third one that it keeps.
    #[derive(Debug)]
    struct ByThree;

    impl CompactionFilter for ByThree {
        fn filter(&self, _key: &[u8], value: &[u8]) -> Decision {
            match value[0] {
                200.. => Decision::Keep,
                value if value % 3 == 0 => Decision::Remove,
                value if value % 3 == 1 => Decision::Change(vec![200]),
                _ => Decision::Keep,
            }
        }
    }

    fn by_three() -> TableFilter {
        let filter: Arc<dyn CompactionFilter> = Arc::new(ByThree);
        TableFilter::find(Some("by-three"), &CompactionFilters::from([("by-three".to_owned(), filter)]))
    }

    /// What is left of a value when it was asked about.
    fn after(value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let value = value?;
        match ByThree.filter(b"k", &value) {
            Decision::Keep => Some(value),
            Decision::Remove => None,
            Decision::Change(value) => Some(value),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_snapshot_sees_what_it_saw_or_what_the_filter_made_of_it((mut history, singly) in (trees(), any::<bool>()), (cuts, merges) in course()) {
            history.retain(|entry| entry.kind != Kind::Merge && entry.seqnum.0 > 0);
            if singly {
                // Of puts in a row the older ones go, and what is left keeps the promise of single-deletes.
                history.dedup_by(|older, newer| older.key == newer.key && older.kind == Kind::Put && newer.kind == Kind::Put);
                history.iter_mut().filter(|entry| entry.kind == Kind::Delete).for_each(|entry| entry.kind = Kind::SingleDelete);
            }
            let mut trees = cut(&history, &cuts);
            run(&mut trees, &merges, (&TableOperator::default(), &by_three()), |trees, moment| {
                let oldest = moment.snapshots().into_iter().min().unwrap();
                for OwnedEntry { key, .. } in &history {
                    for snapshot in moment.snapshots() {
                        let before = read(&[&history], key, snapshot).flatten();
                        let now = read(trees, key, snapshot).flatten();
                        let seen = history.iter().find(|entry| entry.key == *key && entry.seqnum.0 <= snapshot);
                        let seen_by_all = seen.is_some_and(|entry| entry.seqnum.0 <= oldest);
                        prop_assert!(now == before || (seen_by_all && now == after(before.clone())), "at {}: {:?} was {:?}", snapshot, now, before);
                    }
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn only_the_newest_version_of_a_key_is_asked_about() {
        let put = |seqnum, value| OwnedEntry { key: b"k".to_vec(), seqnum: SeqNum(seqnum), kind: Kind::Put, value };
        let history = [put(9, vec![2]), put(3, vec![3])];
        let below = put(0, vec![3]);
        // A snapshot that does not see the newer one; and a newer one that is not published.
        for (live, published) in [(vec![SeqNum(5)], 20), (Vec::new(), 5)] {
            let rule = GcRule::new(live, SeqNum(published), true).with_filter(by_three());
            let kept = apply(rule, &TableOperator::default(), &history);
            assert_eq!(kept, [history[0].clone(), below.clone()]);
        }
        let rule = GcRule::new(Vec::new(), SeqNum(5), true).with_filter(by_three());
        assert_eq!(apply(rule, &TableOperator::default(), &history[1..]), []);
    }
}
