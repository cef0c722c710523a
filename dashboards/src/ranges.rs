//! Rates over the time range, from readings or, where the range is long, from rollups by the minute: these are few, and stored when
//! readings are gone. Which of the two is known before any row is read, so that the other is never read.
//!
//! Each is a subquery with the same columns either way; `condition` is put into both halves, where it can be used early.

/// Ranges above this are read by the minute. A chart has some 600 points: each is about a minute then.
const LONG: &str = "INTERVAL '6 hours'";

/// Whether the range is long, as a condition that reads no row. A query of its own: where a condition is false when the database plans,
/// TimescaleDB drops all others, and has every chunk in the plan of what is then not read.
fn long() -> String {
    format!("(SELECT $__timeTo()::timestamptz - $__timeFrom()::timestamptz > {LONG})")
}

fn short() -> String {
    format!("(SELECT $__timeTo()::timestamptz - $__timeFrom()::timestamptz <= {LONG})")
}

/// Whether minutes answer: the range is long, or begins where readings are packed only, which takes long to unpack where there are many
/// things. Known before any row is read.
fn from_minutes(readings: &str) -> String {
    format!(
        "($__timeTo()::timestamptz - $__timeFrom()::timestamptz > {LONG} OR EXISTS (
      SELECT FROM internal.packed_state WHERE readings = '{readings}' AND packed_from < packed_until AND packed_until > $__timeFrom()))"
    )
}

/// Whether readings answer.
fn from_readings(readings: &str) -> String {
    format!("NOT {}", from_minutes(readings))
}

/// Fabric ports: the columns of `ib_port_rates` but packets and ticks, and the highest utilisation within a row.
pub fn port_rates(condition: &str) -> String {
    let table = "ib_port_counters";
    port_rates_between(condition, &from_readings(table), &from_minutes(table))
}

/// The same of one port or two, in full resolution where the range is short.
pub fn few_port_rates(condition: &str) -> String {
    port_rates_between(condition, &short(), &long())
}

fn port_rates_between(condition: &str, readings: &str, minutes: &str) -> String {
    let names = "time, port_id, guid, port, description, node_type, link_name";
    let rates =
        "transmit_bytes_per_second, receive_bytes_per_second, transmit_utilisation, receive_utilisation";
    format!(
        "(
    SELECT {names}, interval_seconds, {rates}, transmit_utilisation AS peak_utilisation, transmit_wait_ratio,
           rate_bytes_per_second
    FROM public.ib_port_rates($__timeFrom(), $__timeTo())
    WHERE {readings} AND {condition}
    UNION ALL
    SELECT {names}, seconds::float8, {rates}, transmit_peak_utilisation, transmit_wait_ratio, rate_bytes_per_second
    FROM internal.ib_port_minutes_named
    WHERE {minutes} AND $__timeFilter(time) AND {condition}
  )"
    )
}

/// Ports of hosts' adapters.
pub fn host_rates(condition: &str) -> String {
    let columns =
        "transmit_bytes_per_second, receive_bytes_per_second, transmit_utilisation, receive_utilisation,
           rate_bytes_per_second";
    format!(
        "(
    SELECT time, host_port_id, node_name, device, port, interval_seconds, {columns}
    FROM public.host_port_rates($__timeFrom(), $__timeTo())
    WHERE {} AND {condition}
    UNION ALL
    SELECT time, host_port_id, node_name, device, port, seconds::float8, {columns}
    FROM internal.host_port_minutes_named
    WHERE {} AND $__timeFilter(time) AND {condition}
  )",
        from_readings("host_port_counters"),
        from_minutes("host_port_counters"),
    )
}

/// Who has bytes on links, with names. `seconds` is of the windows that a row is of.
pub fn contributors(condition: &str) -> String {
    let columns = "contributor, label, known, job_key, operation";
    let minutes = "public.link_contributor_minutes($__timeFrom(), $__timeTo())";
    windows(["public.link_contributors", minutes], columns, condition)
}

/// The same of one job, without names.
pub fn link_shares(job: &str) -> String {
    // Named to the function, which reads no hour without it.
    let minutes = format!("public.link_minute_shares($__timeFrom(), $__timeTo(), {job})");
    windows(["internal.link_shares", &minutes], "kind, is_bound", &format!("job_id = {job}"))
}

/// Windows of shares of links, or minutes of them, with these columns beside the bytes: minutes where the range is long, or begins where
/// minutes are in hours and their windows go.
fn windows([windows, minutes]: [&str; 2], columns: &str, condition: &str) -> String {
    let by_minutes = format!(
        "({} OR EXISTS (SELECT FROM internal.link_share_state WHERE hours_until > $__timeFrom()))",
        long()
    );
    let columns = format!("time, port_id, {columns}, bytes, low_bytes, high_bytes, counted_bytes");
    format!(
        "(
    SELECT {columns}, 10.0 AS seconds
    FROM {windows}
    WHERE NOT {by_minutes} AND $__timeFilter(time) AND {condition}
    UNION ALL
    SELECT {columns}, windows * 10.0
    FROM {minutes}
    WHERE {by_minutes} AND $__timeFilter(time) AND {condition}
  )"
    )
}

/// NVLinks, each by one source.
pub fn nvlink_rates(condition: &str) -> String {
    let columns =
        "transmit_bytes_per_second, receive_bytes_per_second, transmit_utilisation, receive_utilisation,
           speed_bytes_per_second, is_above_speed";
    format!(
        "(
    SELECT time, gpu_id, gpu, node_name, gpu_index, link, link_name, interval_seconds, {columns}
    FROM public.nvlink_rates($__timeFrom(), $__timeTo())
    WHERE {} AND {condition}
    UNION ALL
    SELECT m.time, m.gpu_id, m.gpu, n.name, g.index, m.link,
           n.name || ' GPU ' || coalesce(g.index::text, m.gpu) || ' link ' || m.link, m.seconds::float8,
           {columns}
    FROM (
      SELECT *, internal.gpu_source_rank(source) AS rank, min(internal.gpu_source_rank(source)) OVER (PARTITION BY gpu_id, link) AS best
      FROM internal.nvlink_link_minutes
      WHERE {} AND $__timeFilter(time) AND {condition}
    ) m
    JOIN internal.gpu_key k ON k.id = m.gpu_id
    JOIN internal.node_key n ON n.id = k.node_id
    LEFT JOIN internal.gpu g ON g.gpu_id = m.gpu_id AND (g.valid_to IS NULL OR g.valid_to > m.time)
        AND (g.valid_from <= m.time OR NOT EXISTS (
            SELECT FROM internal.gpu e WHERE e.gpu_id = g.gpu_id AND e.valid_from < g.valid_from))
    WHERE m.rank = m.best
  )",
        from_readings("nvlink_counters"),
        from_minutes("nvlink_counters"),
    )
}

/// What makes a fabric port hot.
#[derive(Clone, Copy, Debug)]
pub enum HotPortMeasure {
    /// Bytes sent, as a share of its speed.
    Utilisation,
    /// Time in which it had data and could not send.
    Waiting,
}

/// Which fabric ports rank highest, as a common table expression `hottest (port_id)`. Made of the first and the last reading
/// of each port in the time range, or of its minutes, so that rates need be made for these only; `condition` is on
/// `ib_port_named n`.
pub fn hottest(by: HotPortMeasure, condition: &str, count: u32) -> String {
    let (by_readings, by_minutes) = match by {
        HotPortMeasure::Utilisation => (
            "public.counter_increase(public.first(transmit_data_bytes, time) FILTER (WHERE transmit_data_bytes IS NOT NULL),
                            public.last(transmit_data_bytes, time) FILTER (WHERE transmit_data_bytes IS NOT NULL))",
            "transmit_bytes_per_second",
        ),
        HotPortMeasure::Waiting => (
            "greatest(max(transmit_wait) - min(transmit_wait), 0) * coalesce(max(transmit_wait_tick_bytes), 8)",
            "transmit_wait_bytes_per_second",
        ),
    };
    format!(
        "hottest AS (
  SELECT c.port_id
  FROM (
    SELECT port_id, {by_readings}::float8 AS bytes, max(rate_bytes_per_second) AS speed
    FROM public.ib_port_readings($__timeFrom(), $__timeTo())
    WHERE {}
    GROUP BY port_id, epoch
    UNION ALL
    SELECT port_id, sum({by_minutes} * seconds), max(rate_bytes_per_second)
    FROM internal.ib_port_minutes
    WHERE {} AND $__timeFilter(time)
    GROUP BY port_id
  ) c
  JOIN public.ib_port_named n ON n.port_id = c.port_id
  WHERE {condition}
  GROUP BY c.port_id
  ORDER BY sum(c.bytes / nullif(c.speed, 0)) DESC NULLS LAST, c.port_id
  LIMIT {count}
)",
        from_readings("ib_port_counters"),
        from_minutes("ib_port_counters"),
    )
}
