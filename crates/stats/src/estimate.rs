//! Mean, standard deviation and median of a slice. What is printed of a study is [`crate::Estimate`].

/// Arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation, divisor n - 1; `None` below 2 values.
pub fn sd(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    (values.len() >= 2).then(|| {
        let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
        (squares / (values.len() as f64 - 1.0)).sqrt()
    })
}

/// Median, the mean of the two middle values when n is even; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    median_sorted(&sorted(values))
}

/// [`median`] of values already in ascending order.
pub fn median_sorted(values: &[f64]) -> Option<f64> {
    let n = values.len();
    (n > 0).then(|| 0.5 * (values[(n - 1) / 2] + values[n / 2]))
}

/// A copy in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut copy = values.to_vec();
    copy.sort_by(f64::total_cmp);
    copy
}
