//! `shape`: the trees of a table as a picture in text.

use crate::args::ShapeArgs;
use crate::escape::one_line;
use crate::output::Output;
use crate::store::{look, tables};
use anyhow::Result;
use spinney::{Database, Shape, ValuesShape};
use spinney_lab::text::{bytes, count, counted};
use std::io::Write as _;

/// Columns of the longest bar.
const BAR_COLUMNS: u64 = 28;
/// Runs of L0 that get a line each.
const RUN_LINES: usize = 12;

/// Prints the shapes.
pub(crate) fn run(args: &ShapeArgs, out: &mut Output) -> Result<()> {
    look(&args.db, |db| run_on(db, args, out))
}

/// As [`run`] on a database that is open.
pub(crate) fn run_on(db: &Database, args: &ShapeArgs, out: &mut Output) -> Result<()> {
    let tables = tables(db, args.table.as_deref())?;
    let shapes = tables.iter().map(|table| table.shape()).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        return if args.table.is_some() { out.json(&shapes[0]) } else { out.json(&shapes) };
    }
    for (at, shape) in shapes.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write!(out, "{}", picture(shape))?;
    }
    Ok(())
}

/// A line of the picture.
struct Line {
    label: String,
    bytes: u64,
    entries: Option<u64>,
    note: String,
}

impl Line {
    fn new(label: impl Into<String>, bytes: u64, entries: impl Into<Option<u64>>, note: impl Into<String>) -> Self {
        Self { label: label.into(), bytes, entries: entries.into(), note: note.into() }
    }
}

/// The table's trees, newest first, as bars that are as long as the trees are large.
fn picture(shape: &Shape) -> String {
    let lines = lines(shape);
    let entries: u64 = lines.iter().filter_map(|line| line.entries).sum();
    let total: u64 = lines.iter().map(|line| line.bytes).sum();
    let mut text = format!(
        "{} ({}): {} in {}\na scan searches at most {}, a get {}{}\n",
        one_line(&shape.table),
        shape.layout,
        bytes(total),
        counted(entries, "entry", "entries"),
        counted(shape.trees, "tree", "trees"),
        count(shape.trees_of_get),
        if shape.held { "; compactions are held" } else { "" },
    );
    if shape.viewed > 0 {
        text += &format!("a sorted view joins {}\n", counted(shape.viewed, "tree", "trees"));
    }
    if shape.range_tombstones > 0 {
        text += &format!("{} still looked at\n", counted(shape.range_tombstones, "deleted range", "deleted ranges"));
    }
    let longest = lines.iter().map(|line| line.bytes).max().unwrap_or(0);
    for Line { label, bytes: size, entries, note } in &lines {
        let entries = entries.map_or_else(String::new, count);
        let width = usize::try_from(BAR_COLUMNS).unwrap_or(0);
        let line = format!("{label:<8} {:<width$}  {:>9}  {entries:>13}  {note}", bar(*size, longest), bytes(*size));
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn lines(shape: &Shape) -> Vec<Line> {
    let mut lines = vec![Line::new("memory", shape.memtable_bytes, shape.memtable_entries, "memtable")];
    if shape.immutable_memtables > 0 {
        let note = format!("{} full", shape.immutable_memtables);
        lines.push(Line::new("", shape.immutable_bytes, None, note));
    }
    for (at, run) in shape.l0.iter().take(RUN_LINES).enumerate() {
        lines.push(Line::new(if at == 0 { "L0" } else { "" }, run.bytes, run.entries, "run"));
    }
    if let Some(others) = shape.l0.get(RUN_LINES..).filter(|others| !others.is_empty()) {
        let (bytes, entries) = others.iter().fold((0, 0), |(b, e), run| (b + run.bytes, e + run.entries));
        lines.push(Line::new("", bytes, entries, format!("{} more runs", others.len())));
    }
    for level in &shape.levels {
        let mut note = counted(level.runs, "run", "runs");
        if let Some(full) = (level.bytes * 100).checked_div(level.target_bytes) {
            note += &format!(", {full}%");
        }
        lines.push(Line::new(format!("L{}", level.level), level.bytes, level.entries, note));
    }
    if let Some(btree) = &shape.btree {
        let used = btree.file_bytes.saturating_sub(btree.free_bytes);
        lines.push(Line::new("B-tree", used, btree.entries, format!("height {}", btree.height)));
        lines.push(Line::new("", btree.free_bytes, None, "free space"));
    }
    if shape.values.files > 0 {
        let ValuesShape { files, bytes, live_bytes, .. } = shape.values;
        let note = format!("{}, apart", counted(files, "file", "files"));
        lines.push(Line::new("values", live_bytes, None, note));
        lines.push(Line::new("", bytes.saturating_sub(live_bytes), None, "dead values"));
    }
    lines
}

/// A bar of `BAR_COLUMNS` columns for `longest` bytes and in proportion for fewer, exact to an eighth of a column; what
/// is not empty always shows.
fn bar(size: u64, longest: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if size == 0 {
        return String::new();
    }
    let scaled = u128::from(size) * u128::from(BAR_COLUMNS) * 8 / u128::from(longest.max(size));
    let eighths = usize::try_from(scaled).unwrap_or(0).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney::{BTreeShape, LevelShape, RunShape};

    /// A part of a shape with these fields.
    macro_rules! made {
        ($part:ident { $($field:ident: $value:expr),* $(,)? }) => {{
            let mut part = $part::default();
            $( part.$field = $value; )*
            part
        }};
    }

    fn shape() -> Shape {
        made!(Shape {
            table: "orders".into(),
            layout: "lsm".into(),
            memtable_entries: 1234,
            memtable_bytes: 1 << 20,
            immutable_memtables: 0,
            immutable_bytes: 0,
            l0: Vec::new(),
            levels: Vec::new(),
            btree: None,
            values: ValuesShape::default(),
            range_tombstones: 0,
            trees: 1,
            trees_of_get: 1,
            viewed: 0,
            held: false,
        })
    }

    #[test]
    fn bars_are_in_proportion_and_never_vanish() {
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(1, 1 << 60), "▏");
        assert_eq!(bar(100, 100).chars().count() as u64, BAR_COLUMNS);
        assert_eq!(bar(50, 100).chars().count() as u64, BAR_COLUMNS / 2);
        assert_eq!(bar(u64::MAX, u64::MAX).chars().count() as u64, BAR_COLUMNS);
    }

    #[test]
    fn a_picture_of_an_lsm_tree_fits_eighty_columns() {
        let mut shape = shape();
        shape.l0 = vec![made!(RunShape { bytes: 30 << 20, entries: 123_456 }); 14];
        shape.levels = vec![
            made!(LevelShape { level: 1, runs: 9, bytes: 200 << 20, entries: 1_000_000, target_bytes: 256 << 20 }),
            made!(LevelShape {
                level: 2,
                runs: 1000,
                bytes: 200 << 30,
                entries: 1_000_000_000,
                target_bytes: 300 << 30
            }),
        ];
        (shape.trees, shape.trees_of_get, shape.viewed, shape.held) = (17, 5, 16, true);
        let text = picture(&shape);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains(
                "a scan searches at most 17 trees, a get 5; compactions are held\na sorted view joins 16 trees\n"
            ),
            "{text}"
        );
        assert!(text.contains("2 more runs") && text.contains("9 runs, 78%"), "{text}");
    }

    #[test]
    fn values_kept_apart_are_in_the_picture_and_in_its_sum() {
        let mut shape = shape();
        shape.values = made!(ValuesShape { files: 12, bytes: 30 << 20, live_bytes: 20 << 20 });
        let text = picture(&shape);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("31.0 MiB") && text.contains("12 files, apart") && text.contains("dead values"),
            "{text}"
        );
        assert!(text.contains("20.0 MiB") && text.contains("10.0 MiB"), "{text}");
    }

    #[test]
    fn a_picture_of_a_btree_shows_its_free_space() {
        let mut shape = shape();
        shape.layout = "btree".into();
        shape.btree = Some(made!(BTreeShape {
            height: 3,
            leaves: 1000,
            branches: 9,
            entries: 50_000,
            file_bytes: 10 << 20,
            free_bytes: 1 << 20,
        }));
        let text = picture(&shape);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("9.00 MiB") && text.contains("height 3") && text.contains("free space"), "{text}");
    }
}
