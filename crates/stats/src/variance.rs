//! Where the noise comes from: variance components of boots, processes and repetitions.
//!
//! Nested analysis of variance by the method of moments, balanced or not (Searle, Casella & McCulloch 1992, ch. 5).
//! Reported, so that a study spends its time at the level that varies; never used to pretend that repetitions are
//! units.

use crate::estimate::mean;

/// Variances at the three levels; the variance of one measurement is their sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Between boots; `None` with fewer than 2 boots.
    pub boot: Option<f64>,
    /// Between processes of one boot; `None` if no boot has 2.
    pub process: Option<f64>,
    /// Between repetitions in one process; `None` if no process has 2.
    pub repetition: Option<f64>,
}

/// Components of `values[boot][process][repetition]`. Estimates below 0, which moments can give, are reported as 0; a
/// level that was not replicated is `None` and its variance is contained in the level above.
/// `None` if there are fewer than 2 values.
pub fn components(values: &[Vec<Vec<f64>>]) -> Option<Components> {
    let tree = Tree::new(values);
    if tree.total < 2.0 {
        return None;
    }
    let repetition = per_degree(tree.within_processes, tree.total - tree.processes);
    let noise = repetition.unwrap_or(0.0);
    let freedom = tree.processes - tree.boots;
    let process = per_degree(tree.within_boots, freedom).map(|square| {
        let size = (tree.total - tree.sum_squares_per_boot) / freedom;
        ((square - noise) / size).max(0.0)
    });
    let boot = per_degree(tree.between_boots, tree.boots - 1.0).map(|square| {
        let below = (tree.sum_squares_per_boot - tree.sum_squares / tree.total) / (tree.boots - 1.0);
        let size = (tree.total - tree.boot_squares / tree.total) / (tree.boots - 1.0);
        ((square - noise - below * process.unwrap_or(0.0)) / size).max(0.0)
    });
    Some(Components { boot, process, repetition })
}

fn per_degree(sum_of_squares: f64, freedom: f64) -> Option<f64> {
    (freedom > 0.0).then(|| sum_of_squares / freedom)
}

/// Counts and sums of squares of a nested layout.
#[derive(Default)]
struct Tree {
    boots: f64,
    processes: f64,
    total: f64,
    /// Σ over processes of n(process)²
    sum_squares: f64,
    /// Σ over boots of (Σ n(process)²) / n(boot)
    sum_squares_per_boot: f64,
    /// Σ over boots of n(boot)²
    boot_squares: f64,
    within_processes: f64,
    within_boots: f64,
    between_boots: f64,
}

impl Tree {
    fn new(values: &[Vec<Vec<f64>>]) -> Self {
        let mut tree = Self::default();
        let grand = mean(&values.iter().flatten().flatten().copied().collect::<Vec<_>>()).unwrap_or(0.0);
        for boot in values {
            tree.add_boot(boot, grand);
        }
        tree
    }

    fn add_boot(&mut self, boot: &[Vec<f64>], grand: f64) {
        let Some(centre) = mean(&boot.iter().flatten().copied().collect::<Vec<_>>()) else { return };
        let (mut size, mut squares) = (0.0, 0.0);
        for process in boot {
            let Some(own) = mean(process) else { continue };
            let n = process.len() as f64;
            size += n;
            squares += n * n;
            self.processes += 1.0;
            self.within_processes += process.iter().map(|v| (v - own).powi(2)).sum::<f64>();
            self.within_boots += n * (own - centre).powi(2);
        }
        self.boots += 1.0;
        self.total += size;
        self.sum_squares += squares;
        self.sum_squares_per_boot += squares / size;
        self.boot_squares += size * size;
        self.between_boots += size * (centre - grand).powi(2);
    }
}
