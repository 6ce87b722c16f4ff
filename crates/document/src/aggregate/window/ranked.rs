//! The numbers of a window by their rank.

use crate::expr::percentile_at;

/// Which of the numbers of a partition are in the window, in a tree of sums (P. M. Fenwick 1994) over their ranks. To
/// add or remove one, and to find the one of a rank, takes the logarithm of how many there are in the partition.
#[derive(Debug)]
pub(super) struct RankedNumbers {
    /// The numbers of the partition in their order.
    sorted: Vec<f64>,
    /// The place of each row's number there; nothing for a row without a number.
    places: Vec<Option<u32>>,
    /// Of node `n`, from 1 on, how many of the places from `n - (n & -n)` to `n - 1` are in the window.
    tree: Vec<u32>,
    count: usize,
}

impl RankedNumbers {
    /// The numbers of the rows of a partition, none of them in the window.
    pub(super) fn new(numbers: &[Option<f64>]) -> Self {
        let mut order: Vec<(f64, usize)> =
            numbers.iter().enumerate().filter_map(|(row, n)| Some(((*n)?, row))).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places = vec![None; numbers.len()];
        for (place, (_, row)) in (0..).zip(&order) {
            places[*row] = Some(place);
        }
        let tree = vec![0; order.len() + 1];
        Self { sorted: order.into_iter().map(|(number, _)| number).collect(), places, tree, count: 0 }
    }

    /// The bytes that the numbers of a row take, also while this is made.
    pub(super) const ROW_BYTES: usize =
        size_of::<Option<f64>>() + size_of::<(f64, usize)>() + size_of::<Option<u32>>() + size_of::<u32>();

    /// The number of a row is in the window.
    pub(super) fn add(&mut self, row: usize) {
        self.change(row, 1);
    }

    /// The number of a row is no longer in the window.
    pub(super) fn remove(&mut self, row: usize) {
        self.change(row, u32::MAX);
    }

    /// Adds to the sums, modulo 2^32.
    fn change(&mut self, row: usize, by: u32) {
        let Some(place) = self.places[row] else { return };
        self.count = if by == 1 { self.count + 1 } else { self.count - 1 };
        let mut node = crate::base::num::usize_of32(place) + 1;
        while let Some(sum) = self.tree.get_mut(node) {
            *sum = sum.wrapping_add(by);
            node += node & node.wrapping_neg();
        }
    }

    /// The number of the window below which a share of it lies.
    pub(super) fn percentile(&self, share: f64) -> Option<f64> {
        let mut left = percentile_at(self.count, share)?;
        let (mut node, mut step) = (0, self.tree.len().next_power_of_two());
        while step > 0 {
            match self.tree.get(node + step).map(|sum| crate::base::num::usize_of32(*sum)) {
                Some(sum) if sum <= left => {
                    left -= sum;
                    node += step;
                }
                _ => {}
            }
            step /= 2;
        }
        self.sorted.get(node).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::percentile;

    #[test]
    fn percentiles_of_moving_windows_are_those_of_their_numbers() {
        let mut rng = spinney_testkit::Rng::new(7);
        for rows in [1_usize, 2, 3, 8, 33] {
            let draw = |rng: &mut spinney_testkit::Rng| match rng.in_range(0..9) {
                0 => None,
                1 => Some(f64::INFINITY),
                n => Some(f64::from(u32::try_from(n).unwrap() % 5)),
            };
            let numbers: Vec<Option<f64>> = (0..rows).map(|_| draw(&mut rng)).collect();
            let mut ranked = RankedNumbers::new(&numbers);
            for (from, to) in (0..rows).flat_map(|from| (from..=rows).map(move |to| (from, to))) {
                (from..to).for_each(|row| ranked.add(row));
                let mut window: Vec<f64> = numbers[from..to].iter().copied().flatten().collect();
                window.sort_by(f64::total_cmp);
                for share in [0.0, 0.1, 0.5, 0.99, 1.0] {
                    assert_eq!(ranked.percentile(share), percentile(&window, share), "{numbers:?} {from}..{to}");
                }
                (from..to).for_each(|row| ranked.remove(row));
            }
        }
    }
}
