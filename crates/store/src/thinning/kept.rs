//! Which rows of a table are kept of a chunk that is thinned: of each step what the last row says of each cell.

use tokio_postgres::Transaction;

use super::{WHAT, merged};
use crate::error::Error;
use crate::tables::{Rule, ThinningPlan, hypertables};

/// A table that is thinned.
#[derive(Clone, Debug)]
pub(crate) struct ThinnedTable {
    /// The hypertable.
    pub table: &'static str,
    /// Its key columns without time; of sampled calls the job, whose nodes keep the same ones.
    key: Vec<&'static str>,
    /// Of each step one row is kept.
    thinned: ThinningPlan,
}

/// Seconds of sampled calls in each step.
const TICK_SECONDS: u32 = 10;

/// A self-metrics' list of names is used once it has been there for so long: a statement with an older snapshot would find rows, which are
/// written frozen, and not their names.
const NAMES_AGE: &str = "INTERVAL '1 hour'";

/// The tables that are thinned.
pub(super) fn all() -> impl Iterator<Item = ThinnedTable> {
    hypertables().filter_map(|(table, chunks)| {
        let thinned = chunks.thinned?;
        let keys = if thinned.rule == Rule::Ticks { &table.key[..1] } else { table.key };
        let key = keys.iter().copied().filter(|column| *column != "time").collect();
        Some(ThinnedTable { table: table.name, key, thinned })
    })
}

impl ThinnedTable {
    /// Puts the rows that are kept of a chunk into an empty table with its columns.
    pub(super) async fn fill(
        &self,
        transaction: &Transaction<'_>,
        chunk: &str,
        scratch: &str,
        columns: &[String],
    ) -> Result<(), Error> {
        let insert = |rows: String| format!("INSERT INTO {scratch} {rows}");
        let fill = match self.thinned.rule {
            Rule::Last => insert(self.last(chunk, columns)),
            Rule::Peers { has_since } => insert(self.peers(chunk, has_since)),
            Rule::Ticks => insert(self.ticks(chunk, columns)),
            Rule::Rounds => insert(self.rounds(chunk)),
            Rule::Metrics => self.metrics(chunk, scratch),
            Rule::Cells => {
                return merged::fill(transaction, chunk, scratch, &self.step("m.time")).await;
            }
        };
        transaction.batch_execute(&fill).await.map_err(Error::sql(WHAT))
    }

    /// The step that a time is in, by its beginning.
    fn step(&self, time: &str) -> String {
        self.step_of(self.thinned.step_seconds, time)
    }

    fn step_of(&self, seconds: u32, time: &str) -> String {
        // Microseconds are the precision of times.
        let less = if self.thinned.is_closed { " - INTERVAL '1 microsecond'" } else { "" };
        format!("date_bin('{seconds} seconds', {time}{less}, TIMESTAMPTZ 'epoch')")
    }

    /// The key's columns of a row.
    fn key_of(&self, row: &str) -> String {
        let columns: Vec<String> = self.key.iter().map(|column| format!("{row}.{column}")).collect();
        columns.join(", ")
    }

    /// Whether two rows are of the same key.
    fn is_same(&self, one: &str, other: &str) -> String {
        let same: Vec<String> =
            self.key.iter().map(|column| format!("{one}.{column} = {other}.{column}")).collect();
        same.join(" AND ")
    }

    fn last(&self, chunk: &str, columns: &[String]) -> String {
        let (key, step) = (self.key_of("m"), self.step("m.time"));
        format!(
            "({columns})
             (SELECT DISTINCT ON ({key}, {step}) {columns} FROM {chunk} m WHERE m.is_folded ORDER BY {key}, {step}, m.time DESC)
             UNION ALL SELECT {columns} FROM {chunk} m WHERE NOT m.is_folded",
            columns = columns.join(", ")
        )
    }

    /// As `mpi_traffic_cells` and `mpi_peer_cells` read them: the last row that has all peers, and what changed after it. A step
    /// without such a row keeps what changed in it.
    fn peers(&self, chunk: &str, has_since: bool) -> String {
        let (since, least, of_step) =
            if has_since { ("since, ", "min(since) AS since, ", "b.since, ") } else { ("", "", "") };
        format!(
            "(time, {names}, {since}source, is_whole, peers, bytes, messages)
             WITH steps AS MATERIALIZED (
                 SELECT {key}, {step} AS step, max(time) AS last, {least}max(time) FILTER (WHERE is_whole) AS whole
                 FROM {chunk} m GROUP BY {key}, {step})
             SELECT m.time, {of_m}, {of_step}m.source, true, m.peers, m.bytes, m.messages
             FROM steps b JOIN {chunk} m ON {same} AND m.time = b.last
             WHERE b.whole = b.last
             UNION ALL
             SELECT b.last, {of_b}, {of_step}p.source, b.whole IS NOT NULL, coalesce(p.peers, '{{}}'), coalesce(p.bytes, '{{}}'),
                    coalesce(p.messages, '{{}}')
             FROM steps b CROSS JOIN LATERAL (
                 SELECT max(c.source) AS source, array_agg(c.peer ORDER BY c.peer) AS peers,
                        array_agg(c.bytes ORDER BY c.peer) AS bytes, array_agg(c.messages ORDER BY c.peer) AS messages
                 FROM (SELECT u.peer, max(u.bytes) AS bytes, max(u.messages) AS messages, max(m.source) AS source
                       FROM {chunk} m CROSS JOIN LATERAL unnest(m.peers, m.bytes, m.messages) u (peer, bytes, messages)
                       WHERE {same} AND m.time <= b.last AND m.time >= coalesce(b.whole, b.step) AND {step} = b.step
                         AND u.peer IS NOT NULL
                       GROUP BY u.peer) c) p
             WHERE b.whole IS DISTINCT FROM b.last",
            names = self.key.join(", "),
            key = self.key_of("m"),
            of_m = self.key_of("m"),
            of_b = self.key_of("b"),
            same = self.is_same("m", "b"),
            step = self.step("m.time"),
        )
    }

    fn ticks(&self, chunk: &str, columns: &[String]) -> String {
        let (step, tick) = (self.step("m.time"), self.step_of(TICK_SECONDS, "m.time"));
        let (columns, key, same) = (columns.join(", "), self.key_of("m"), self.is_same("m", "t"));
        let of_m: Vec<String> = columns.split(", ").map(|column| format!("m.{column}")).collect();
        format!(
            "({columns}) SELECT {of_m} FROM {chunk} m JOIN (
                 SELECT {key}, {step} AS step, max({tick}) AS tick FROM {chunk} m GROUP BY {key}, {step}) t
             ON {same} AND {step} = t.step AND {tick} = t.tick",
            of_m = of_m.join(", ")
        )
    }

    /// Rows have numbers of lists of names, unless the list is new. All daemons together have a few lists.
    fn metrics(&self, chunk: &str, scratch: &str) -> String {
        let (key, step) = (self.key_of("m"), self.step("m.time"));
        format!(
            "WITH made AS MATERIALIZED (
                 SELECT max(v.time) AS time, {of_v}, array_agg(v.source ORDER BY {series}) AS sources,
                        array_agg(v.label ORDER BY {series}) AS labels, array_agg(v.name ORDER BY {series}) AS names,
                        array_agg(v.reading ORDER BY {series}) AS readings
                 FROM (SELECT {key}, {step} AS step, u.source, u.label, u.name, max(m.time) AS time, public.last(u.reading, m.time) AS reading
                       FROM {chunk} m LEFT JOIN internal.self_stat_names n ON n.id = m.names_id
                       CROSS JOIN LATERAL unnest(coalesce(n.sources, m.sources), coalesce(n.labels, m.labels),
                           coalesce(n.names, m.names), m.readings) u (source, label, name, reading)
                       GROUP BY {key}, {step}, u.source, u.label, u.name) v
                 GROUP BY {of_v}, v.step
             ), lists AS (
                 INSERT INTO internal.self_stat_names AS l (digest, sources, labels, names)
                 SELECT DISTINCT ON (digest) digest, sources, labels, names
                 FROM (SELECT {digest} AS digest, sources, labels, names FROM made) m
                 ON CONFLICT (digest) DO UPDATE SET used_at = now()
                 RETURNING l.id, l.digest, l.listed_at < now() - {NAMES_AGE} AS is_known
             )
             INSERT INTO {scratch} (time, {names}, sources, labels, names, readings, names_id)
             SELECT m.time, {of_m}, CASE WHEN l.is_known THEN '{{}}' ELSE m.sources END,
                    CASE WHEN l.is_known THEN '{{}}' ELSE m.labels END, CASE WHEN l.is_known THEN '{{}}' ELSE m.names END, m.readings,
                    CASE WHEN l.is_known THEN l.id END
             FROM made m JOIN lists l ON l.digest = {digest}",
            names = self.key.join(", "),
            of_v = self.key_of("v"),
            of_m = self.key_of("m"),
            series = "v.source, v.label, v.name",
            digest = "md5(sources::text || labels::text || names::text)",
        )
    }

    /// As agents merge rounds (`throughline_sample::rounds`): what says the same and comes at most one and a half intervals later.
    fn rounds(&self, chunk: &str) -> String {
        let (key, of_j, step) = (self.key_of("m"), self.key_of("j"), self.step("m.time"));
        let begins = "coalesce(m.first_time, m.time)";
        let says = ["expected", "read", "failed", "reasons"];
        let is_equal: Vec<String> = says
            .iter()
            .map(|column| format!("m.{column} IS NOT DISTINCT FROM lag(m.{column}) OVER same"))
            .collect();
        format!(
            "(time, {names}, expected, read, failed, elapsed_seconds, reasons, rounds, first_time)
             WITH known AS (
                 SELECT m.*, {begins} AS begins, {step} AS step, {is_equal} AS is_equal,
                        {begins} - lag(m.time) OVER same AS gap, lead({begins}) OVER same - m.time AS next_gap
                 FROM {chunk} m WINDOW same AS (PARTITION BY {key} ORDER BY m.time)
             ), spaced AS (
                 SELECT m.*, CASE WHEN m.rounds > 1 THEN (m.time - m.begins) / (m.rounds - 1) ELSE least(m.gap, m.next_gap) END AS apart
                 FROM known m
             ), joined AS (
                 SELECT m.*, count(*) FILTER (WHERE NOT coalesce(m.is_joined, false)) OVER (PARTITION BY {key} ORDER BY m.time) AS run
                 FROM (SELECT m.*, m.is_equal AND m.gap > INTERVAL '0' AND m.gap <= least(m.apart, lag(m.apart) OVER same) * 1.5 AS is_joined
                       FROM spaced m WINDOW same AS (PARTITION BY {key} ORDER BY m.time)) m
             )
             SELECT max(j.time), {of_j}, min(j.expected), min(j.read), min(j.failed), max(j.elapsed_seconds), min(j.reasons::text)::jsonb,
                    sum(j.rounds)::integer, CASE WHEN sum(j.rounds) > 1 THEN min(j.begins) END
             FROM joined j GROUP BY {of_j}, j.step, j.run",
            names = self.key.join(", "),
            is_equal = is_equal.join(" AND "),
        )
    }
}
