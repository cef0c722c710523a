//! SQL for counters of ports as people see them: the largest value of one that stands at its end, and the sum of errors.

use throughline_sample::catalogue::{Metric, Table, Width};

/// Whether rows name this counter in `saturated` while it stands at its end.
#[must_use]
pub fn has_saturation(metric: &Metric) -> bool {
    metric.table == Table::IbPortCounters && matches!(metric.width, Width::Saturates(_))
}

/// SQL for the values of a metric's column as pages show them: of a counter at its end the largest value.
#[must_use]
pub fn shown(metric: &Metric) -> String {
    match metric.end().filter(|_| has_saturation(metric)) {
        Some(end) => format!(
            "coalesce({name}, CASE WHEN '{name}' = ANY (saturated) THEN {end} END)",
            name = metric.name
        ),
        None => metric.name.to_owned(),
    }
}

/// Error counters of a fabric port that are summed as its errors.
pub const ERRORS: [&str; 7] = [
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "receive_errors",
    "transmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
];

/// The sum of what is there of the error counters, NULL where nothing is.
pub fn errors_of(row: &str) -> String {
    let all: Vec<String> = ERRORS.iter().map(|name| format!("{row}.{name}")).collect();
    let sum: Vec<String> = all.iter().map(|name| format!("coalesce({name}, 0)")).collect();
    format!("CASE WHEN num_nonnulls({}) > 0 THEN {} END", all.join(", "), sum.join(" + "))
}
