//! Times as SQL.

/// A time as SQL. A constant, not a parameter: chunks outside of a range are then no part of the plan.
pub fn moment(milliseconds: i64) -> String {
    format!("(TIMESTAMPTZ 'epoch' + INTERVAL '{milliseconds} milliseconds')")
}
