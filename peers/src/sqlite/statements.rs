//! The statements of a table, as text that finds the prepared ones.

use spinney_lab::driver::{Direction, Scan};

/// The statements of a table.
pub(super) struct Statements {
    pub(super) put: String,
    pub(super) delete: String,
    pub(super) get: String,
    /// By [`Statements::scan`]'s number.
    scans: [String; 8],
}

impl Statements {
    pub(super) fn new(table: &str) -> Self {
        Self {
            put: format!("REPLACE INTO {table} (k, v) VALUES (?1, ?2)"),
            delete: format!("DELETE FROM {table} WHERE k = ?1"),
            get: format!("SELECT v FROM {table} WHERE k = ?1"),
            scans: std::array::from_fn(|number| scan(table, number)),
        }
    }

    /// The statement of a scan: `?1` is where it begins, `?2` where it ends, `?3` its limit.
    pub(super) fn scan(&self, scan: &Scan<'_>) -> &str {
        let number = usize::from(scan.from.is_some())
            + 2 * usize::from(scan.until.is_some())
            + 4 * usize::from(scan.direction == Direction::Backward);
        &self.scans[number]
    }
}

fn scan(table: &str, number: usize) -> String {
    let (begin, end, order) =
        if number & 4 == 0 { ("k >= ?1", "k < ?2", "ASC") } else { ("k <= ?1", "k > ?2", "DESC") };
    let bounds = match number & 3 {
        0 => String::new(),
        1 => format!("WHERE {begin}"),
        2 => format!("WHERE {end}"),
        _ => format!("WHERE {begin} AND {end}"),
    };
    format!("SELECT k, v FROM {table} {bounds} ORDER BY k {order} LIMIT ?3")
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_lab::driver::TableId;

    #[test]
    fn a_scan_finds_the_statement_with_its_bounds() {
        let statements = Statements::new("t");
        let all = Scan::all(TableId(0));
        assert_eq!(statements.scan(&all), "SELECT k, v FROM t  ORDER BY k ASC LIMIT ?3");
        let back = Scan { from: Some(b"b"), until: Some(b"a"), direction: Direction::Backward, ..all };
        assert_eq!(statements.scan(&back), "SELECT k, v FROM t WHERE k <= ?1 AND k > ?2 ORDER BY k DESC LIMIT ?3");
        let tail = Scan { until: Some(b"a"), ..all };
        assert_eq!(statements.scan(&tail), "SELECT k, v FROM t WHERE k < ?2 ORDER BY k ASC LIMIT ?3");
    }
}
