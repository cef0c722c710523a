//! Middle values.

/// The middle one of some values, of an even number the lower of the two; `None` of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// A number of things as a figure.
#[allow(clippy::cast_precision_loss)] // below 2^53
pub fn number(count: usize) -> f64 {
    count as f64
}
