//! Options of a table, fixed when it is created and kept in the catalog.

use std::time::Duration;

use crate::base::options::{self, NamedOption, OptionKind, choice, names, optional, plain, seconds, seconds_text};
use crate::base::{Error, Result};
use crate::block::Compression;
use crate::tree::Prefix;

/// How a table's data is laid out on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Layout {
    /// One copy-on-write B-tree, into which a flush merges its changes by rewriting every leaf that they reach. Changes
    /// that are few for it go to delta runs over it, and are merged into it when they are a quarter of it. Reads search
    /// one tree on disk, and delta runs while there are any. Best when reads matter most.
    BTree,
    /// Sorted runs in levels, each several times the one above (leveled compaction). Writes cost the same however large
    /// the data is; reads search L0 and one run per level.
    #[default]
    Lsm,
    /// Sorted runs of similar size merged together (tiered compaction). Fewest bytes written; more runs to search and
    /// more space.
    LsmTiered,
}

impl Layout {
    /// The stored byte. Stored; never reuse a number.
    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Self::BTree => 1,
            Self::Lsm => 2,
            Self::LsmTiered => 3,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::BTree),
            2 => Some(Self::Lsm),
            3 => Some(Self::LsmTiered),
            _ => None,
        }
    }
}

names! { Layout, "layout", { BTree => "btree", Lsm => "lsm", LsmTiered => "lsm-tiered", } }

/// The longest time for which entries may live.
const LIFE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Methods that set one field each, as in `Options::default().memory_bytes(64 << 20)`.
macro_rules! setters {
    ($owner:ident { $($field:ident: $type:ty,)* }) => {
        impl $owner {
            $(
                #[doc = concat!("The same options with another [`", stringify!($field), "`](#structfield.",
                    stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}
pub(crate) use setters;

/// Options of one table.
///
/// ```
/// use spinney::{Layout, TableOptions};
/// let options = TableOptions::default().layout(Layout::BTree);
/// assert_eq!(options.block_bytes, 8192);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableOptions {
    /// How the data is laid out. Default: [`Layout::Lsm`].
    pub layout: Layout,
    /// Bytes of a leaf block before compression. Larger compresses better and needs a smaller index; smaller reads less
    /// per point lookup. Default 8 KiB; 512 B to 1 MiB.
    pub block_bytes: u32,
    /// How blocks are compressed. Default: LZ4.
    pub compression: Compression,
    /// Bits of filter per key in runs, on average over all runs: small ones get more and the largest fewer. More bits
    /// spare more useless reads and cost memory. Default 10 (1% false positives); 0 (no filters) to 32.
    pub filter_bits_per_key: u32,
    /// The rule of prefixes that the filters of runs hold in addition to the keys. A range with both ends within one
    /// prefix (from `ann:` to `ann:x`, or to `ann;`, the first key behind it) then passes by every run without that
    /// prefix, and reads no block where no run has it. It costs the filter's bits once more for each prefix of a run.
    /// Refused for B-trees, which have no filters. Default none.
    pub prefix_filter: Option<Prefix>,
    /// Bytes of one file of a run. Larger means fewer files; smaller lets a compaction touch less. Default 32 MiB; 4
    /// KiB to 4 GiB.
    pub run_bytes_max: u64,
    /// How many times larger a level is than the one above (leveled), or how many runs there may be (tiered). Larger
    /// means fewer levels to read and more bytes written. Default 8; 2 to 32.
    pub fanout: u32,
    /// Whether changes go to the redo log. Those of an unlogged table (false) cost no log and are durable only when the
    /// table is flushed: by `Table::flush`, in the background, by a checkpoint, at `close`. A crash takes the table
    /// back to its last flush, a state after some commit; what a commit changed in logged tables then stays. Default
    /// true.
    pub logged: bool,
    /// The name of the operator that folds merged operands into values: `add`, or one that
    /// [`DatabaseBuilder::merge_operator`](crate::DatabaseBuilder::merge_operator) registers, at every open. Default
    /// none: merges are refused. 1 to 255 bytes.
    pub merge: Option<String>,
    /// The name of the filter that decides what becomes of values when a flush or compaction writes them, which
    /// [`DatabaseBuilder::compaction_filter`](crate::DatabaseBuilder::compaction_filter) registers, at every open. It
    /// costs a call per value written. Default none: values stay until they are overwritten or deleted. 1 to 255 bytes.
    pub compaction_filter: Option<String>,
    /// Bytes from which on a value is stored in a value file instead of next to its key: compactions then move a
    /// pointer of 24 bytes instead of the value, so large values are written once or twice and not once in every level.
    /// A get reads one block more, a scan one for each large value (none in
    /// [`Range::advance_key`](crate::Range::advance_key)), and values that were overwritten take up to as much space
    /// again as those in use. Lower keeps more apart. Operands of merges stay with their keys. Only for the layouts
    /// [`Lsm`](Layout::Lsm) and [`LsmTiered`](Layout::LsmTiered): a [`BTree`](Layout::BTree) refuses it. Default 0:
    /// never; else 64 B to 512 MiB.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let table = db.create_table("pictures", TableOptions::default().large_value_bytes(4096))?;
    /// let mut txn = db.begin();
    /// txn.put(&table, b"front", &[7; 100_000])?;
    /// txn.put(&table, b"size", b"small")?;
    /// txn.commit()?;
    /// table.flush()?;
    /// assert_eq!(table.shape()?.values.files, 1);
    /// // Keys are walked over without a look at the value.
    /// assert_eq!(db.snapshot().range(&table, ..).advance_key()?, Some(b"front".as_slice()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub large_value_bytes: u32,
    /// How long entries live after they were last put: then no snapshot sees them any more, and their space comes back
    /// when the run that they are in is compacted or has nothing younger in it. They go never earlier and, while the
    /// database is open and its disk not full, a sixteenth and two seconds later at most; a snapshot keeps what it saw.
    /// Time is the machine's clock: while it is set ahead, entries count as older. What was written before a crash in
    /// the last 1/32 of the time counts as written at the next open. Entries take some bytes more, since each keeps its
    /// seqnum. Refused for the layout [`BTree`](Layout::BTree) and together with `merge`. Default none: for ever; else
    /// 1 s to 100 years.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # use std::time::Duration;
    /// # use spinney::env::sim::SimEnv;
    /// // A machine whose clock can be moved.
    /// let machine = SimEnv::new(1);
    /// let db = Database::builder("/db").env(machine.env()).open()?;
    /// let hour = Duration::from_secs(3600);
    /// let table = db.create_table("sessions", TableOptions::default().time_to_live(Some(hour)))?;
    /// let mut txn = db.begin();
    /// txn.put(&table, b"ann", b"logged in")?;
    /// txn.commit()?;
    /// let pass = |parts: u32| (0..parts).for_each(|_| machine.advance(hour / 32));
    /// pass(30);
    /// assert!(db.snapshot().contains(&table, b"ann")?);
    /// pass(5);
    /// assert!(!db.snapshot().contains(&table, b"ann")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub time_to_live: Option<Duration>,
}

setters! {
    TableOptions {
        layout: Layout,
        block_bytes: u32,
        compression: Compression,
        filter_bits_per_key: u32,
        prefix_filter: impl Into<Option<Prefix>>,
        run_bytes_max: u64,
        fanout: u32,
        logged: bool,
        large_value_bytes: u32,
        time_to_live: impl Into<Option<Duration>>,
    }
}

impl TableOptions {
    /// The same options with another [`merge`](#structfield.merge) operator.
    #[must_use]
    pub fn merge<'a>(mut self, operator: impl Into<Option<&'a str>>) -> Self {
        self.merge = operator.into().map(ToOwned::to_owned);
        self
    }

    /// The same options with another [`compaction_filter`](#structfield.compaction_filter).
    #[must_use]
    pub fn compaction_filter<'a>(mut self, filter: impl Into<Option<&'a str>>) -> Self {
        self.compaction_filter = filter.into().map(ToOwned::to_owned);
        self
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            block_bytes: 8 << 10,
            compression: Compression::Lz4,
            filter_bits_per_key: 10,
            prefix_filter: None,
            run_bytes_max: 32 << 20,
            fanout: 8,
            logged: true,
            merge: None,
            compaction_filter: None,
            large_value_bytes: 0,
            time_to_live: None,
        }
    }
}

/// All options by name, in the order of the fields.
const NAMED: [NamedOption<TableOptions>; 12] = [
    choice!(layout, Layout),
    plain!(block_bytes, OptionKind::Number(512, 1 << 20)),
    choice!(compression, Compression),
    plain!(filter_bits_per_key, OptionKind::Number(0, 32)),
    optional!(prefix_filter, OptionKind::Prefix),
    plain!(run_bytes_max, OptionKind::Number(4 << 10, 4 << 30)),
    plain!(fanout, OptionKind::Number(2, 32)),
    plain!(logged, OptionKind::Flag),
    optional!(merge, OptionKind::Name),
    optional!(compaction_filter, OptionKind::Name),
    plain!(large_value_bytes, OptionKind::NumberOrZero(64, 512 << 20)),
    NamedOption {
        name: "time_to_live",
        kind: OptionKind::Seconds(Duration::from_secs(1), LIFE_MAX),
        set: |options, text| seconds(text).map(|time| options.time_to_live = Some(time)),
        text: |options| options.time_to_live.map(seconds_text),
    },
];

impl TableOptions {
    /// All options by name, in the order of the fields.
    #[must_use]
    pub const fn named() -> &'static [NamedOption<Self>] {
        &NAMED
    }

    /// Sets the option of a name, which is that of its field, from text: a number, `true` or `false`, a name, or
    /// seconds for a time. [`Self::named`] tells the names, kinds and ranges.
    ///
    /// # Errors
    /// `Invalid` for a name that there is not, and for a text that is not of the option's kind or range.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        options::set(&NAMED, self, "table", name, text)
    }

    /// Checks every field's range, and what goes together.
    ///
    /// # Errors
    /// `Invalid`, naming the field and its range.
    pub fn check(&self) -> Result<()> {
        options::check(&NAMED, self)?;
        if self.large_value_bytes > 0 && self.layout == Layout::BTree {
            return Err(Error::invalid(
                "option large_value_bytes is for the LSM layouts: a btree keeps values with their keys",
            ));
        }
        if let Some(prefix) = self.prefix_filter {
            prefix.check()?;
            if self.layout == Layout::BTree || self.filter_bits_per_key == 0 {
                let why =
                    if self.layout == Layout::BTree { "a B-tree has no filters" } else { "filter_bits_per_key is 0" };
                return Err(Error::invalid(format!("option prefix_filter needs filters: {why}")));
            }
        }
        if self.time_to_live.is_some() && (self.layout == Layout::BTree || self.merge.is_some()) {
            let why = if self.merge.is_some() {
                "what merge operands are folded into has no one age"
            } else {
                "a btree would have to be rewritten as a whole again and again"
            };
            return Err(Error::invalid(format!("option time_to_live is for LSM layouts without merges: {why}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range() {
        assert!(TableOptions::default().check().is_ok());
    }

    #[test]
    fn every_field_has_a_name() {
        let text = format!("{:?}", TableOptions::default());
        assert!(NAMED.iter().all(|option| text.contains(&format!("{}: ", option.name()))), "{text}");
        assert_eq!(text.matches(": ").count(), NAMED.len(), "a new option needs its line in NAMED: {text}");
    }

    #[test]
    fn options_come_back_from_their_text() {
        let options = TableOptions::default()
            .layout(Layout::LsmTiered)
            .block_bytes(512)
            .compression(Compression::Zstd)
            .filter_bits_per_key(32)
            .prefix_filter(Prefix::UpTo(b' '))
            .run_bytes_max(4 << 10)
            .fanout(2)
            .logged(false)
            .merge("add")
            .compaction_filter("drop old ones")
            .large_value_bytes(64)
            .time_to_live(Duration::from_millis(1500));
        let mut read = TableOptions::default();
        for option in TableOptions::named() {
            read.set(option.name(), &option.text(&options).expect("each has a value")).unwrap();
        }
        assert_eq!(read, options);
    }

    #[test]
    fn a_text_that_is_no_value_is_refused_with_what_would_be_one() {
        let refused = |name, text| TableOptions::default().set(name, text).unwrap_err().to_string();
        for (name, text, why) in [
            ("fanout", "1", "option fanout is 1: it must be 2 to 32"),
            ("fanout", "many", "option fanout is 'many': it must be 2 to 32"),
            ("large_value_bytes", "63", "option large_value_bytes is 63: it must be 0, or 64 to 536870912"),
            ("logged", "yes", "option logged is 'yes': it must be true or false"),
            ("compression", "gzip", "option compression is 'gzip': it must be one of none, lz4, zstd"),
            ("merge", "", "option merge is '': it must be a name of 1 to 255 bytes"),
            ("time_to_live", "0.5", "option time_to_live is 0.5: it must be 1 to 3162240000 seconds"),
        ] {
            assert_eq!(refused(name, text), why);
        }
        for text in ["bytes:0", "bytes:256", "upto:", "upto:ab", "upto:0x100", "4"] {
            assert!(refused("prefix_filter", text).contains("bytes:N"), "{text}");
        }
        let unknown = refused("speed", "9");
        assert!(unknown.starts_with("a table has no option 'speed': there are layout, block_bytes, "), "{unknown}");
    }

    #[test]
    fn a_btree_keeps_no_values_apart_and_says_so() {
        let options = |layout, large_value_bytes| TableOptions { layout, large_value_bytes, ..TableOptions::default() };
        assert!(options(Layout::Lsm, 4096).check().is_ok() && options(Layout::BTree, 0).check().is_ok());
        let refused = options(Layout::BTree, 4096).check().unwrap_err().to_string();
        assert!(refused.contains("large_value_bytes") && refused.contains("btree"), "{refused}");
        assert!(options(Layout::Lsm, 63).check().is_err());
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        let options = TableOptions { fanout: 1, ..TableOptions::default() };
        assert!(options.check().unwrap_err().to_string().contains("fanout"));
    }

    #[test]
    fn prefixes_need_filters() {
        let options = TableOptions { prefix_filter: Some(Prefix::Bytes(4)), ..TableOptions::default() };
        assert!(options.check().is_ok());
        let why = |options: TableOptions| options.check().unwrap_err().to_string();
        assert!(why(TableOptions { layout: Layout::BTree, ..options.clone() }).contains("B-tree"));
        assert!(why(TableOptions { filter_bits_per_key: 0, ..options.clone() }).contains("filter_bits_per_key"));
        assert!(why(TableOptions { prefix_filter: Some(Prefix::Bytes(0)), ..options }).contains("0 bytes"));
    }
}
