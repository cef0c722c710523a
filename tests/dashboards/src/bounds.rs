//! Whether each query has a bound of time: on a site's database, a hypertable without a bound is read for minutes.

use throughline_store::hypertable;

/// Views of hypertables that have every row.
const UNBOUNDED: [&str; 8] = [
    "self_stats",
    "ib_port_minutes_named",
    "host_port_minutes_named",
    "nvlink_link_minutes",
    "link_contributors",
    "ib_port_lane_values",
    "nvlink_link_counters",
    "pvar_table",
];
/// Functions of rates and of minutes: their first argument is where they begin.
const BOUNDED: [&str; 4] =
    ["_rates(", "_metrics_between(", "link_contributor_minutes(", "link_minute_shares("];
/// Views of totals, which read one job where a job is named, and else all.
const TOTALS: &str = "_totals";

/// What of a query has no bound.
#[must_use]
pub fn problems(sql: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, name) in BOUNDED.iter().flat_map(|name| sql.match_indices(name)) {
        let begins = sql[at + name.len()..].trim_start();
        if !["$__timeFrom()", "$__timeTo()"].iter().any(|bound| begins.starts_with(bound)) {
            problems.push(format!("'{}' does not begin at a time of the time range", word_at(sql, at)));
        }
    }
    for keyword in ["FROM ", "JOIN "] {
        for (at, _) in sql.match_indices(keyword) {
            let schema =
                ["internal.", "public."].into_iter().find(|name| sql[at + keyword.len()..].starts_with(name));
            let table = word_at(sql, at + keyword.len() + schema.map_or(0, str::len));
            let rest = within(&sql[at..]);
            let is_bounded = rest.contains("$__timeFilter(") || rest.contains("time >= ");
            if (hypertable(table).is_some() || UNBOUNDED.contains(&table)) && !is_bounded {
                problems.push(format!("'{table}' is read without a bound of time"));
            }
            if table.ends_with(TOTALS) && !rest.contains("job_id = ") {
                problems.push(format!("'{table}' is read for all jobs"));
            }
        }
    }
    problems
}

/// The name that a place of the text is in or before.
fn word_at(sql: &str, at: usize) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let from = sql[..at].rfind(|c| !is_name(c)).map_or(0, |before| before + 1);
    let until = sql[at..].find(|c| !is_name(c)).map_or(sql.len(), |after| at + after);
    &sql[from..until]
}

/// The text up to the parenthesis that closes around its beginning: the rest of a subquery.
fn within(sql: &str) -> &str {
    let mut depth = 0;
    for (at, c) in sql.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return &sql[..at];
        }
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_subquery() {
        for bounded in [
            "SELECT 1 FROM internal.events e WHERE $__timeFilter(e.time)",
            "SELECT 1 FROM a JOIN internal.mpi_rank_rows m ON m.time >= a.began",
            "SELECT 1 FROM public.ib_port_rates($__timeFrom(), $__timeTo())",
            "SELECT 1 FROM public.nvlink_rates($__timeTo()::timestamptz - INTERVAL '1 minute', $__timeTo())",
            "SELECT 1 FROM public.mpi_op_totals WHERE job_id = 7",
            "SELECT 1 FROM internal.source_coverage",
        ] {
            assert_eq!(problems(bounded), Vec::<String>::new(), "{bounded}");
        }
        for unbounded in [
            "SELECT 1 FROM internal.events e WHERE e.kind = 'x'",
            "SELECT (SELECT count(*) FROM internal.mpi_rank_rows) FROM internal.events WHERE $__timeFilter(time)",
            "SELECT 1 FROM public.ib_port_rates('-infinity', $__timeTo())",
            "SELECT sum(bytes) FROM public.mpi_op_totals",
        ] {
            assert_eq!(problems(unbounded).len(), 1, "{unbounded}");
        }
    }
}
