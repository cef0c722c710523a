//! The statements that make rollups. Text only; `rollups.rs` runs them.
//!
//! Parameters of each are arrays: things, for each the beginning of its first minute and the end of its last, and, where
//! minutes are made, the largest gap in seconds between two of its readings that are one time. The statement has the whole
//! time as constants, so that other chunks are no part of its plan.

use super::Kind;
use crate::counter_sql::errors_of;
use crate::sql_time::moment;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The share of a link's speed above which it is busy.
const BUSY: f64 = 0.9;

fn literal(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    moment(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Removes the rows of these minutes. Things are named twice: of a chunk of the columnstore only the batches of things and times that
/// are constants become rows.
pub(super) fn removal(kind: Kind, since: SystemTime, until: SystemTime) -> String {
    format!(
        "DELETE FROM internal.{table} m USING unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) AS a (id, since, until)
         WHERE m.{id} = a.id AND m.{id} = ANY ($1) AND m.time >= a.since AND m.time < a.until AND m.time >= {since} AND m.time < {until}",
        table = kind.table(),
        id = kind.id(),
        since = literal(since),
        until = literal(until),
    )
}

/// Makes these minutes; `None` for a kind without any. `gap` is the largest of all gaps. `packed_until` is until when readings are packed
/// only, if any are.
pub(super) fn making(
    kind: Kind,
    since: SystemTime,
    until: SystemTime,
    gap: Duration,
    packed_until: Option<SystemTime>,
) -> Option<String> {
    let readings = if packed_until.is_some_and(|packed| since - gap < packed) {
        format!("public.{}({}, {})", kind.readings_between(), literal(since - gap), literal(until + gap))
    } else {
        format!("internal.{}", kind.readings())
    };
    let time = format!(
        "c.time > {} AND c.time <= {} AND c.time > a.since - make_interval(secs => a.gap)
         AND c.time <= a.until + make_interval(secs => a.gap)",
        literal(since - gap),
        literal(until + gap),
    );
    let sql = match kind {
        Kind::GpuPcie => return None,
        Kind::IbPorts => ports(
            kind,
            &readings,
            &time,
            &Columns {
                transmit: "transmit_data_bytes",
                receive: "receive_data_bytes",
                slow: &format!("c.transmit_wait AS wait, c.transmit_wait_tick_bytes AS tick, {} AS errors", errors_of("c")),
                slow_names: "transmit_wait_bytes_per_second, errors,",
                slow_values: "sum(wait_rate * part) / nullif(sum(part) FILTER (WHERE wait_rate IS NOT NULL), 0) AS waiting,
                              sum(errors) FILTER (WHERE is_within) AS errors,",
                slow_out: "m.waiting, m.errors,",
                // The port's speed in the inventory, where a row has none.
                speed: "(SELECT p.rate_bytes_per_second FROM internal.ib_port p WHERE p.port_id = a.id AND p.valid_from < a.until
                         ORDER BY p.valid_from DESC LIMIT 1)",
            },
        ),
        Kind::HostPorts => ports(
            kind,
            &readings,
            &time,
            &Columns {
                transmit: "port_data_transmitted_bytes",
                receive: "port_data_received_bytes",
                slow: "NULL::bigint AS wait, NULL::bigint AS tick, NULL::bigint AS errors",
                slow_names: "",
                slow_values: "",
                slow_out: "",
                speed: "NULL::bigint",
            },
        ),
        Kind::Nvlinks => nvlinks(&readings, &time),
    };
    Some(sql)
}

/// What differs between fabric ports and hosts' own.
struct Columns<'a> {
    transmit: &'a str,
    receive: &'a str,
    slow: &'a str,
    slow_names: &'a str,
    slow_values: &'a str,
    slow_out: &'a str,
    speed: &'a str,
}

/// A time between two readings, cut into minutes, with what each minute has of it. `since` is NULL for a first reading,
/// which gives the counters and no rate.
fn pieces(time: &str, since: &str) -> String {
    format!(
        "CROSS JOIN LATERAL generate_series(
             date_trunc('minute', coalesce({since}, {time} - INTERVAL '1 us')), {time} - INTERVAL '1 us',
             INTERVAL '1 minute') AS g (minute)
         CROSS JOIN LATERAL (
             SELECT CASE WHEN {since} IS NOT NULL THEN extract(epoch FROM
                        least({time}, g.minute + INTERVAL '1 minute') - greatest({since}, g.minute))::float8 END AS part,
                    {time} <= g.minute + INTERVAL '1 minute' AS is_within) cut"
    )
}

/// Mean, peak and share of busy time of one direction, from pieces with a rate, a part and a speed.
fn summary(rate: &str) -> [String; 3] {
    [
        format!("sum({rate} * part) / nullif(sum(part) FILTER (WHERE {rate} IS NOT NULL), 0)"),
        format!("max({rate})"),
        format!(
            "coalesce(sum(part) FILTER (WHERE {rate} > {BUSY} * speed), 0)
             / nullif(sum(part) FILTER (WHERE {rate} IS NOT NULL AND speed > 0), 0)"
        ),
    ]
}

/// Whether the time since another reading is one in which the thing was read.
fn is_known(before: &str) -> String {
    format!("extract(epoch FROM time - {before}) <= a.gap")
}

fn rates() -> String {
    let rate = |column: &str| {
        format!(
            "public.counter_increase({column}_0, {column}) / nullif(extract(epoch FROM time - time_0)::float8, 0)"
        )
    };
    format!(
        "CASE WHEN {known} THEN time_0 END AS known_since, CASE WHEN {known} THEN {} END AS out,
         CASE WHEN {known} THEN {} END AS received",
        rate("transmit"),
        rate("receive"),
        known = is_known("time_0"),
    )
}

/// Counters of ports: a row is a reading. What is read more rarely than bytes (waiting, errors) is NULL in the rows
/// between, and goes from the last one that has it: within an epoch it is the largest.
fn ports(kind: Kind, readings: &str, time: &str, columns: &Columns<'_>) -> String {
    let Columns { transmit, receive, slow, slow_names, slow_values, slow_out, speed } = columns;
    let [mean_out, peak_out, busy_out] = summary("out");
    let [mean_in, peak_in, busy_in] = summary("received");
    format!(
        "INSERT INTO internal.{into} (time, {id}, epoch, seconds, transmit_bytes_per_second, receive_bytes_per_second,
             transmit_peak_bytes_per_second, receive_peak_bytes_per_second, transmit_busy_ratio, receive_busy_ratio,
             {slow_names} rate_bytes_per_second, last_time, {transmit}, {receive})
         SELECT m.minute, a.id, m.epoch, m.seconds, m.mean_out, m.mean_in, m.peak_out, m.peak_in, m.busy_out, m.busy_in,
                {slow_out} m.speed, m.last_time, m.transmit, m.receive
         FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::float8[]) AS a (id, since, until, gap)
         CROSS JOIN LATERAL (SELECT {speed} AS speed) s
         CROSS JOIN LATERAL (
             SELECT minute, epoch, coalesce(sum(part) FILTER (WHERE is_bytes), 0) AS seconds,
                    {mean_out} AS mean_out, {mean_in} AS mean_in, {peak_out} AS peak_out, {peak_in} AS peak_in,
                    {busy_out} AS busy_out, {busy_in} AS busy_in, {slow_values} max(speed) AS speed,
                    max(time) FILTER (WHERE is_bytes AND is_within) AS last_time,
                    public.last(transmit, time) FILTER (WHERE is_bytes AND is_within) AS transmit,
                    public.last(receive, time) FILTER (WHERE is_bytes AND is_within) AS receive
             FROM (
                 SELECT r.time, r.epoch, r.transmit, r.receive, p.is_bytes, p.out, p.received, p.wait_rate, p.errors,
                        g.minute, cut.part, cut.is_within, coalesce(r.speed, s.speed) AS speed
                 FROM (
                     SELECT w.*, {rates},
                            CASE WHEN {waits_known} THEN wait_time_0 END AS waited_since,
                            CASE WHEN {waits_known} AND wait >= wait_0
                                 THEN (wait - wait_0) * tick / nullif(extract(epoch FROM time - wait_time_0)::float8, 0) END
                                 AS wait_rate,
                            CASE WHEN errors >= errors_0 THEN errors - errors_0 WHEN errors < errors_0 THEN 0 END AS new_errors
                     FROM (
                         SELECT q.*, lag(time) OVER near AS time_0, lag(transmit) OVER near AS transmit_0,
                                lag(receive) OVER near AS receive_0,
                                max(wait) OVER before AS wait_0, max(errors) OVER before AS errors_0,
                                max(time) FILTER (WHERE wait IS NOT NULL) OVER before AS wait_time_0
                         FROM (SELECT c.time, c.epoch, c.{transmit} AS transmit, c.{receive} AS receive,
                                      c.rate_bytes_per_second AS speed, {slow},
                                      c.{transmit} IS NULL AND c.{receive} IS NULL AS is_other
                               FROM {readings} c WHERE c.{id} = a.id AND {time}) q
                         WINDOW near AS (PARTITION BY epoch, is_other ORDER BY time),
                                before AS (PARTITION BY epoch ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                     ) w
                     OFFSET 0 -- Computed once, not in each place that it is used in.
                 ) r
                 CROSS JOIN (VALUES (true), (false)) AS k (is_bytes)
                 CROSS JOIN LATERAL (
                     SELECT k.is_bytes, CASE WHEN k.is_bytes THEN r.known_since ELSE r.waited_since END AS since,
                            CASE WHEN k.is_bytes THEN r.out END AS out, CASE WHEN k.is_bytes THEN r.received END AS received,
                            CASE WHEN NOT k.is_bytes THEN r.wait_rate END AS wait_rate,
                            CASE WHEN NOT k.is_bytes THEN r.new_errors END AS errors) p
                 {pieces}
                 WHERE r.time > a.since AND coalesce(p.since, a.since) < a.until AND CASE WHEN p.is_bytes THEN NOT r.is_other ELSE r.wait IS NOT NULL OR r.errors IS NOT NULL END
                   AND g.minute >= a.since AND g.minute < a.until
             ) piece
             GROUP BY minute, epoch
         ) m
         WHERE m.seconds > 0 OR m.last_time IS NOT NULL",
        into = kind.table(),
        id = kind.id(),
        rates = rates(),
        waits_known = is_known("wait_time_0"),
        pieces = pieces("r.time", "p.since"),
    )
}

/// Counters of a GPU's links: a row has arrays. Links are separated first, then put back into arrays, in which a link
/// without anything is NULL.
fn nvlinks(readings: &str, time: &str) -> String {
    let [mean_out, peak_out, busy_out] = summary("out");
    let [mean_in, peak_in, busy_in] = summary("received");
    let array = |column: &str| format!("array_agg(s.{column} ORDER BY l.link)");
    format!(
        "INSERT INTO internal.nvlink_minutes (time, gpu_id, source, epoch, seconds, transmit_bytes_per_second,
             receive_bytes_per_second, transmit_peak_bytes_per_second, receive_peak_bytes_per_second, transmit_busy_ratio,
             receive_busy_ratio, speed_bytes_per_second, last_time, transmit_bytes, receive_bytes)
         SELECT m.minute, a.id, m.source, m.epoch, m.seconds, m.mean_out, m.mean_in, m.peak_out, m.peak_in, m.busy_out,
                m.busy_in, m.speed, m.last_time, m.transmit, m.receive
         FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::float8[]) AS a (id, since, until, gap)
         CROSS JOIN LATERAL (
             WITH stats AS MATERIALIZED (
                 SELECT minute, source, epoch, link, coalesce(sum(part), 0) AS seconds,
                        {mean_out} AS mean_out, {mean_in} AS mean_in, {peak_out} AS peak_out, {peak_in} AS peak_in,
                        {busy_out} AS busy_out, {busy_in} AS busy_in, max(speed) AS speed,
                        max(time) FILTER (WHERE is_within) AS last_time,
                        public.last(transmit, time) FILTER (WHERE is_within) AS transmit,
                        public.last(receive, time) FILTER (WHERE is_within) AS receive
                 FROM (
                     SELECT r.*, g.minute, cut.part, cut.is_within
                     FROM (
                         SELECT w.*, {rates}
                         FROM (
                             SELECT c.time, c.epoch, c.source, u.link, u.transmit, u.receive,
                                    coalesce(u.speed, k.speed_bytes_per_second) AS speed, lag(c.time) OVER near AS time_0,
                                    lag(u.transmit) OVER near AS transmit_0, lag(u.receive) OVER near AS receive_0
                             FROM {readings} c
                             CROSS JOIN LATERAL unnest(c.transmit_bytes, c.receive_bytes, c.speed_bytes_per_second)
                                 WITH ORDINALITY AS u (transmit, receive, speed, link)
                             LEFT JOIN LATERAL (SELECT l.speed_bytes_per_second FROM internal.gpu_link l
                                 WHERE u.speed IS NULL AND l.gpu_id = a.id AND l.link = u.link - 1
                                   AND l.valid_from < a.until
                                 ORDER BY l.valid_from DESC LIMIT 1) k ON true
                             WHERE c.gpu_id = a.id AND {time} AND (u.transmit IS NOT NULL OR u.receive IS NOT NULL)
                             WINDOW near AS (PARTITION BY c.source, c.epoch, u.link ORDER BY c.time)
                         ) w
                         OFFSET 0
                     ) r
                     {pieces}
                     WHERE r.time > a.since AND coalesce(r.known_since, a.since) < a.until AND g.minute >= a.since AND g.minute < a.until
                 ) piece
                 GROUP BY minute, source, epoch, link
             )
             SELECT l.minute, l.source, l.epoch, array_agg(coalesce(s.seconds, 0) ORDER BY l.link) AS seconds,
                    {a1} AS mean_out, {a2} AS mean_in, {a3} AS peak_out, {a4} AS peak_in, {a5} AS busy_out,
                    {a6} AS busy_in, {a7} AS speed, max(s.last_time) AS last_time, {a8} AS transmit, {a9} AS receive
             FROM (SELECT minute, source, epoch, generate_series(1, max(link)) AS link
                   FROM stats GROUP BY minute, source, epoch) l
             LEFT JOIN stats s USING (minute, source, epoch, link)
             GROUP BY l.minute, l.source, l.epoch
         ) m",
        rates = rates(),
        pieces = pieces("r.time", "r.known_since"),
        a1 = array("mean_out"),
        a2 = array("mean_in"),
        a3 = array("peak_out"),
        a4 = array("peak_in"),
        a5 = array("busy_out"),
        a6 = array("busy_in"),
        a7 = array("speed"),
        a8 = array("transmit"),
        a9 = array("receive"),
    )
}
