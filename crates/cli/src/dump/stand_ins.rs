//! What stands in for merge operators and compaction filters that this command does not have, so that tables can be
//! made that name them. They do what the engine does where none is registered: operands and values stay as they are.

use spinney::{CompactionFilter, DatabaseBuilder, Decision, Error, ErrorKind, MergeOperator, Result, TableOptions};

/// The merge operator that is built in.
const BUILT_IN: &str = "add";

/// Registers what these options name.
pub(super) fn register<'a>(
    builder: DatabaseBuilder,
    options: impl Iterator<Item = &'a TableOptions>,
) -> DatabaseBuilder {
    options.fold(builder, |builder, options| {
        let builder = match options.merge.as_deref().filter(|name| *name != BUILT_IN) {
            Some(name) => builder.merge_operator(name, NoOperator(name.to_owned())),
            None => builder,
        };
        match &options.compaction_filter {
            Some(name) => builder.compaction_filter(name, NoFilter),
            None => builder,
        }
    })
}

#[derive(Debug)]
struct NoOperator(String);

impl MergeOperator for NoOperator {
    fn full(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>> {
        let message = format!("the merge operator '{}' is not part of this command", self.0);
        Err(Error::new(ErrorKind::Invalid, message))
    }
}

#[derive(Debug)]
struct NoFilter;

impl CompactionFilter for NoFilter {
    fn filter(&self, _key: &[u8], _value: &[u8]) -> Decision {
        Decision::Keep
    }
}
