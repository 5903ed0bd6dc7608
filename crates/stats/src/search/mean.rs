//! A mean that rises with the level, such as a utilization, and the level at which it reaches its ceiling.
//!
//! Below saturation a utilization is proportional to the throughput (the utilization law, Denning & Buzen 1978), so that a
//! straight line is the right curve; its ends are judged by windows like those of shares.

use super::{Basis, Capacity};
use crate::estimate::{mean, sd};
use crate::interval::Interval;
use crate::special::{student_sf, student_two_sided};

/// A mean of one window at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The level.
    pub level: f64,
    /// The mean in the window.
    pub value: f64,
}

/// Where the least-squares line of the values over the levels reaches `ceiling`, with a jackknife interval over windows.
/// `None` below 6 windows, or when the values do not rise with the level.
pub fn capacity_of_mean(windows: &[Level], ceiling: f64, confidence: f64) -> Option<Capacity> {
    if windows.len() < 6 {
        return None;
    }
    let level = crossing(windows, ceiling)?;
    let n = windows.len() as f64;
    let without = |i: usize| -> Vec<Level> {
        windows.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, window)| *window).collect()
    };
    let left_out: Option<Vec<f64>> = (0..windows.len()).map(|i| crossing(&without(i), ceiling)).collect();
    let interval = left_out.and_then(|levels| {
        let centre = mean(&levels)?;
        let squares: f64 = levels.iter().map(|v| (v - centre).powi(2)).sum();
        let half = student_two_sided(confidence, n - 1.0) * ((n - 1.0) / n * squares).sqrt();
        Some(Interval { centre: level, lo: level - half, hi: level + half, confidence, units: windows.len() })
    });
    Some(Capacity { level, interval, basis: Basis::WithinRun })
}

fn crossing(windows: &[Level], ceiling: f64) -> Option<f64> {
    let levels: Vec<f64> = windows.iter().map(|window| window.level).collect();
    let values: Vec<f64> = windows.iter().map(|window| window.value).collect();
    let (x, y) = (mean(&levels)?, mean(&values)?);
    let squares: f64 = levels.iter().map(|level| (level - x).powi(2)).sum();
    let products: f64 = windows.iter().map(|window| (window.level - x) * (window.value - y)).sum();
    let slope = products / squares;
    (squares > 0.0 && slope > 0.0).then(|| x + (ceiling - y) / slope)
}

/// One-sided p values of "the mean is at most the ceiling" and "at least", by t over windows (Student 1908). `None` below 3.
pub(super) fn tails_of_mean(values: &[f64], ceiling: f64) -> Option<(f64, f64)> {
    if values.len() < 3 {
        return None;
    }
    let (centre, spread) = (mean(values)?, sd(values)?);
    let n = values.len() as f64;
    let error = spread / n.sqrt();
    if error <= 0.0 {
        return Some(if centre > ceiling { (0.0, 1.0) } else { (1.0, 0.0) });
    }
    let t = (centre - ceiling) / error;
    Some((student_sf(t, n - 1.0), student_sf(-t, n - 1.0)))
}
