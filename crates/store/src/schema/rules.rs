//! Functions with the rules that hold where a sender has reported none: the numbers of `throughline_sample::row_rules`, which no
//! other file of the schema repeats.

use throughline_sample::row_rules::{DEFAULT, MINUTELY};
use throughline_sample::wire::RowRules;

/// Rules of a sender that has not reported its own.
pub(crate) fn row_rules_default() -> String {
    let RowRules { heartbeat_seconds, largest_gap_seconds, quiet_bytes } = DEFAULT;
    format!(
        "CREATE OR REPLACE FUNCTION internal.row_rules_default()
RETURNS TABLE (heartbeat_seconds double precision, largest_gap_seconds double precision, quiet_bytes bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT {heartbeat_seconds}::double precision, {largest_gap_seconds}::double precision, {quiet_bytes}::bigint;
END;
COMMENT ON FUNCTION internal.row_rules_default IS
    'By which rules rows are left out by a sender that has reported none: a heartbeat each {heartbeat_seconds} s, at most \
     {largest_gap_seconds} s between two rows, and {quiet_bytes} bytes that count as no change.';
"
    )
}

/// From which age on what a daemon reports is silent, where no sender has a rule of its own for it: figures, open calls, totals of MPI.
pub(crate) fn default_gap() -> String {
    gap(
        "default_gap",
        DEFAULT,
        "Daemons report each of their figures, and what goes on in MPI, at least once a minute: what is older than this is silence.",
    )
}

/// From which age on what is reported each minute is silent.
pub(crate) fn minutely_gap() -> String {
    gap(
        "minutely_gap",
        MINUTELY,
        "Agents report once a minute that a job runs, and what the kernel counted of its ranks: a newest report older than this \
         is silence.",
    )
}

fn gap(name: &str, rules: RowRules, comment: &str) -> String {
    let seconds = rules.largest_gap_seconds;
    format!(
        "CREATE OR REPLACE FUNCTION internal.{name}()
RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN INTERVAL '{seconds} seconds';
COMMENT ON FUNCTION internal.{name} IS
    '{comment}';
"
    )
}
