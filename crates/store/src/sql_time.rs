//! Times as SQL.

/// A time as SQL. A constant, not a parameter: chunks outside of a range are then no part of the plan. The planner makes one of a function
/// that always returns the same, but not of a sum of a time and an interval; of that TimescaleDB does, unless it is added to again.
pub fn moment(milliseconds: i64) -> String {
    format!("to_timestamp({milliseconds} / 1000.0)")
}
