//! Rows and index entries as SQL has them, and as bytes.
//!
//! # Format
//! The bytes are those of the insert experiment: keys and values are their columns in order, numbers big-endian. A
//! row's key is its primary key, its value the other columns and the filler; an index entry's key is the index's
//! columns and the primary key, and it has no value.

use anyhow::{Result, ensure};
use mysql::Value;
use spinney_lab::driver::{Direction, Lacks, TableSpec};
use std::fmt::Write as _;

/// A number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) bytes: usize,
}

const PK: Column = Column { name: "pk", bytes: 8 };
const HAPPENED: Column = Column { name: "happened", bytes: 8 };
const REGISTER: Column = Column { name: "register", bytes: 4 };
const CUSTOMER: Column = Column { name: "customer", bytes: 4 };
const PRODUCT: Column = Column { name: "product", bytes: 4 };
const PRICE: Column = Column { name: "price", bytes: 4 };

/// The numbers of a row in the order of its key and value; the filler follows.
pub(super) const ROW: [Column; 6] = [PK, HAPPENED, REGISTER, CUSTOMER, PRODUCT, PRICE];
/// The bytes of the longest filler.
const FILLER_BYTES: usize = 8_000;

/// A table of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The index's name, or `PRIMARY` for the rows.
    pub(super) index: &'static str,
    /// The columns of its key.
    pub(super) key: &'static [Column],
}

/// The rows themselves.
pub(super) const ROWS: Table = Table { index: "PRIMARY", key: &[PK] };

const INDEXES: [Table; 3] = [
    Table { index: "market", key: &[PRODUCT, CUSTOMER, PRICE, PK] },
    Table { index: "register", key: &[REGISTER, CUSTOMER, PRICE, PK] },
    Table { index: "price", key: &[PRICE, HAPPENED, CUSTOMER, PK] },
];

/// What the workload's tables are in SQL.
///
/// # Errors
/// [`Lacks`] for tables that are not rows of the insert experiment or their indexes.
pub(super) fn tables(specs: &[TableSpec]) -> Result<Vec<Table>> {
    let table = |spec: &TableSpec| {
        let known = match spec.index_of {
            None if spec.name == "rows" => Some(ROWS),
            None => None,
            Some(_) => INDEXES.into_iter().find(|index| index.index == spec.name),
        };
        known.ok_or_else(|| Lacks::new(format!("no table `{}`: only rows of the insert experiment", spec.name)).into())
    };
    specs.iter().map(table).collect()
}

impl Table {
    /// Whether it is the rows.
    pub(super) fn is_rows(self) -> bool {
        self == ROWS
    }

    /// The columns that an index is made of; storage engines add the primary key themselves.
    pub(super) fn own_columns(self) -> String {
        list(self.key.iter().filter(|&&column| column != PK), "")
    }
}

/// The statement that makes the table.
pub(super) fn create(engine: &str) -> String {
    let mut columns = String::new();
    for column in ROW {
        let kind = if column.bytes == 8 { "BIGINT" } else { "INT" };
        let _ = write!(columns, "{} {kind} UNSIGNED NOT NULL, ", column.name);
    }
    format!(
        "CREATE TABLE IF NOT EXISTS `rows` ({columns}filler VARBINARY({FILLER_BYTES}) NOT NULL, PRIMARY KEY (pk)) \
         ENGINE={engine} CHARACTER SET binary"
    )
}

/// `INSERT` or `REPLACE` of so many rows.
pub(super) fn insert(verb: &str, rows: usize) -> String {
    let row = "(?,?,?,?,?,?,?)";
    format!("{verb} INTO `rows` ({},filler) VALUES {}", list(ROW.iter(), ""), vec![row; rows].join(","))
}

/// `DELETE` of so many rows.
pub(super) fn delete(rows: usize) -> String {
    format!("DELETE FROM `rows` WHERE pk IN ({})", vec!["?"; rows].join(","))
}

/// The row with a primary key.
pub(super) fn get() -> String {
    format!("SELECT {},filler FROM `rows` WHERE pk=?", list(ROW.iter(), ""))
}

/// A scan of a table that begins and ends where it is told to, if it is. Its parameters are those of the two bounds and
/// the limit.
pub(super) fn select(table: Table, direction: Direction, from: bool, until: bool) -> String {
    let columns = if table.is_rows() { format!("{},filler", list(ROW.iter(), "")) } else { list(table.key.iter(), "") };
    let (after, before, order) = match direction {
        Direction::Forward => (">", "<", ""),
        Direction::Backward => ("<", ">", " DESC"),
    };
    let mut bounds = Vec::new();
    if from {
        bounds.push(bound(table.key, after, true));
    }
    if until {
        bounds.push(bound(table.key, before, false));
    }
    let condition = if bounds.is_empty() { String::new() } else { format!(" WHERE {}", bounds.join(" AND ")) };
    format!(
        "SELECT {columns} FROM `rows` FORCE INDEX ({}){condition} ORDER BY {} LIMIT ?",
        table.index,
        list(table.key.iter(), order)
    )
}

/// `(a,b) > (?,?)` without row constructors, for which MariaDB reads the index from its beginning.
fn bound(columns: &[Column], operator: &str, inclusive: bool) -> String {
    let last = columns.len() - 1;
    let case = |at: usize| {
        let mut terms: Vec<String> = columns[..at].iter().map(|column| format!("{}=?", column.name)).collect();
        let equal = if inclusive && at == last { "=" } else { "" };
        terms.push(format!("{}{operator}{equal}?", columns[at].name));
        terms.join(" AND ")
    };
    let cases: Vec<String> = (0..columns.len()).map(|at| format!("({})", case(at))).collect();
    format!("({})", cases.join(" OR "))
}

/// Adds the parameters of [`bound`] for a key.
///
/// # Errors
/// The key has not the bytes of the columns.
pub(super) fn bound_values(columns: &[Column], key: &[u8], values: &mut Vec<Value>) -> Result<()> {
    let numbers = numbers(columns, key)?;
    for at in 0..numbers.len() {
        values.extend(numbers[..=at].iter().copied().map(Value::from));
    }
    Ok(())
}

/// Adds the parameters of a row of [`insert`].
///
/// # Errors
/// It is no row.
pub(super) fn row_values(key: &[u8], value: &[u8], values: &mut Vec<Value>) -> Result<()> {
    ensure!(key.len() == PK.bytes && value.len() >= 24, "a row has a key of 8 bytes and a value of at least 24");
    values.extend(numbers(&ROW[..1], key)?.into_iter().map(Value::from));
    values.extend(numbers(&ROW[1..], &value[..24])?.into_iter().map(Value::from));
    values.push(Value::Bytes(value[24..].to_vec()));
    Ok(())
}

/// The numbers that `bytes` are.
fn numbers(columns: &[Column], bytes: &[u8]) -> Result<Vec<u64>> {
    let wanted: usize = columns.iter().map(|column| column.bytes).sum();
    ensure!(bytes.len() == wanted, "a key of {} bytes where {wanted} were expected", bytes.len());
    let mut rest = bytes;
    let number = |column: &Column| {
        let (number, after) = rest.split_at(column.bytes);
        rest = after;
        number.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    };
    Ok(columns.iter().map(number).collect())
}

/// Adds the bytes of numbers that came from the server, whose order is that of `columns`.
///
/// # Errors
/// One is no number.
pub(super) fn lay(columns: &[Column], values: &[Value], bytes: &mut Vec<u8>) -> Result<()> {
    for (column, value) in columns.iter().zip(values) {
        let number: u64 = mysql::from_value_opt(value.clone())?;
        bytes.extend_from_slice(&number.to_be_bytes()[8 - column.bytes..]);
    }
    Ok(())
}

fn list<'c>(columns: impl Iterator<Item = &'c Column>, suffix: &str) -> String {
    columns.map(|column| format!("{}{suffix}", column.name)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_spelled_out_column_by_column() {
        assert_eq!(bound(&[PRICE, PK], ">", true), "((price>?) OR (price=? AND pk>=?))");
        assert_eq!(bound(&[PK], "<", false), "((pk<?))");
        let mut values = Vec::new();
        bound_values(&[PRICE, PK], &[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 1, 0], &mut values).unwrap();
        assert_eq!(values, [Value::UInt(9), Value::UInt(9), Value::UInt(256)]);
    }

    #[test]
    fn bytes_become_columns_and_come_back() {
        let (key, value) = ([0, 0, 0, 0, 0, 0, 1, 2], [7_u8; 30]);
        let mut values = Vec::new();
        row_values(&key, &value, &mut values).unwrap();
        let mut bytes = Vec::new();
        lay(&ROW, &values, &mut bytes).unwrap();
        assert_eq!(bytes[..8], key);
        assert_eq!(bytes[8..], value[..24]);
        assert_eq!(values[6], Value::Bytes(vec![7; 6]));
    }
}
