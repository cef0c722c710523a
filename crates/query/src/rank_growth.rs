//! What ranks counted from one row to the next, each with the time in which they did: a folded row has up to some minutes of a rank, a
//! bin of detail on demand 0.1 s, and the first bin behind a time without detail all since the row before. SQL only.

use crate::time::MINUTE_MS;
use throughline_store::sql_time::moment;

/// Longest time before a row of a rank in which it did what the row has more than that before: `[mpi] rank_later_seconds` of agent.toml
/// unless it was changed. Where the rank was idle, the row before is older.
const FOLDED_MS: i64 = 300_000;

/// The same of hours whose rows are thinned: of each half hour the last one is left.
const THINNED_MS: i64 = 1_800_000;

/// Which rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankGrowth<'a> {
    /// SQL of the job's number.
    pub job: &'a str,
    /// SQL of the only rank that is wanted; NULL for all.
    pub rank: &'a str,
    /// SQL of the only operation that is wanted; NULL for all.
    pub operation: &'a str,
    /// From when, milliseconds since 1970.
    pub from: i64,
    /// Until when. Rows behind it that have something of the time before are read as well.
    pub to: i64,
}

impl RankGrowth<'_> {
    /// Common table expressions. The last one, `grown`, has of each row and cell what it has more than that before, between `since` and
    /// `time`; no row of it ends before the time that is wanted, and none begins behind it.
    pub fn expressions(&self) -> String {
        const CELL: &str = "rank, operation, size_class_bytes, region, algorithm, epoch";
        const COUNTED: &str = "algorithm_source, calls, bytes, elapsed_seconds AS elapsed, wait_seconds AS wait, received_bytes AS received";
        let Self { job, rank, operation, from, to } = *self;
        let (begin, end) = (moment(from), moment(to));
        let is_wanted = format!(
            "({rank}::integer IS NULL OR rank = {rank}) AND ({operation}::text IS NULL OR operation = {operation})"
        );
        let detail = moment(from - FOLDED_MS - MINUTE_MS);
        let grown = |column: &str| {
            format!("greatest({column} - coalesce(max({column}) OVER before, 0), 0) AS {column}")
        };
        format!(
            "known AS (
             SELECT {CELL}, {COUNTED}, time, is_folded, bin_length, covered_since, covered_until FROM internal.mpi_op_rows
             WHERE job_id = {job} AND time > {begin} AND time <= {end} + {longest_behind}
               AND stored_time > {begin} AND stored_time <= {end} + {longest_behind} + interval '1 minute' AND {is_wanted}
             UNION ALL
             SELECT {CELL}, {COUNTED}, last_time, true, NULL, NULL, NULL FROM internal.mpi_op_cells({job}, {begin}, {rank}) WHERE {is_wanted}
             UNION ALL
             SELECT {CELL}, {COUNTED}, time, false, bin_length, covered_since, covered_until FROM internal.mpi_op_rows
             WHERE job_id = {job} AND time > {detail} AND time <= {begin} AND NOT is_folded
               AND stored_time > {detail} AND stored_time <= {begin} + interval '1 minute' AND {is_wanted}
         ), compared AS (
             SELECT {CELL}, algorithm_source, time, is_folded, bin_length, covered_since, covered_until, {calls}, {bytes}, {elapsed}, {wait}, {received},
                    -- Of a rank all cells are in each folded row: what is new in one was not there at the time of that before.
                    greatest(lag(time) OVER cell, max(time) FILTER (WHERE is_folded) OVER earlier, epoch) AS last
             FROM known
             WINDOW cell AS (PARTITION BY {CELL} ORDER BY time, is_folded, covered_since),
                    before AS (cell ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                    earlier AS (PARTITION BY rank, epoch ORDER BY time GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
         ), grown AS (
             SELECT * FROM (
                 SELECT {CELL}, algorithm_source, time, is_folded, bin_length, covered_until, calls, bytes, elapsed, wait, received,
                        least(time, CASE WHEN is_folded THEN greatest(last, time - {longest})
                                         WHEN last >= covered_since THEN greatest(last, date_bin(bin_length, time - interval '1 microsecond', timestamptz 'epoch')) ELSE last END) AS since
                 FROM compared WHERE time > {begin}) rows
             WHERE since < {end}
         )",
            longest_behind = folded_at_most(&end),
            longest = folded_at_most("time"),
            calls = grown("calls"),
            bytes = grown("bytes"),
            elapsed = grown("elapsed"),
            wait = optional("wait"),
            received = optional("received"),
        )
    }
}

/// As of counters; NULL where it is not known.
fn optional(column: &str) -> String {
    format!("{column} - coalesce(max({column}) OVER before, 0) AS {column}")
}

/// SQL for the longest time that a row of a time has.
fn folded_at_most(time: &str) -> String {
    format!(
        "CASE WHEN {time} < (SELECT max(range_end) FROM internal.thinned_chunk WHERE hypertable = 'mpi_rank_rows')
         THEN interval '{THINNED_MS} milliseconds' ELSE interval '{FOLDED_MS} milliseconds' END"
    )
}
