//! One cable: what its ports are, their counters now, and what they carried over time; forwarding tables and the ports
//! of jobs, which say who goes over it.

use crate::row_rules::{milliseconds as ms, rules};
use crate::time::{Grid, QueryTime, milliseconds, seconds_between, steps_of_minutes};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_sample::catalogue::Table;
use throughline_store::Error;
use throughline_store::counter_sql::errors_of;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// A port as it is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Port GUID.
    pub guid: String,
    /// LID.
    pub lid: i32,
    /// Active, Armed, Initialize, Down.
    pub state: String,
    /// LinkUp, Polling …
    pub physical_state: String,
}

/// Counters of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    /// When they were read, milliseconds.
    pub time: i64,
    /// Since when they count.
    pub epoch: i64,
    /// By the names of the catalogue; what is read more rarely as of its last reading.
    pub values: BTreeMap<&'static str, i64>,
    /// Names of those that stood at their largest value.
    pub saturated: Vec<String>,
}

/// What a port carried in each step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Bytes per second sent, mean of the step.
    pub out: Vec<Option<f64>>,
    /// Largest between two readings.
    pub out_peak: Vec<Option<f64>>,
    /// Bytes per second received.
    pub received: Vec<Option<f64>>,
    /// Largest between two readings.
    pub received_peak: Vec<Option<f64>>,
    /// Bytes per second that could have been sent while data waited.
    pub waiting: Vec<Option<f64>>,
    /// Errors counted in the step.
    pub errors: Vec<Option<f64>>,
    /// Speed of the link in the step, by the port's own word.
    pub speed: Vec<Option<i64>>,
}

impl Series {
    /// So many steps without any known value.
    pub(crate) fn empty(steps: usize) -> Series {
        let nothing = || vec![None; steps];
        Series {
            out: nothing(),
            out_peak: nothing(),
            received: nothing(),
            received_peak: nothing(),
            waiting: nothing(),
            errors: nothing(),
            speed: vec![None; steps],
        }
    }
}

/// A port of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPort {
    /// The job's number in the tables.
    pub job: i64,
    /// The fabric port's.
    pub port_id: i64,
}

/// Facts of ports at a time, by their number in the tables.
///
/// # Errors
/// The database's.
pub async fn facts(client: &Client, ports: &[i64], at: QueryTime) -> Result<HashMap<i64, PortFacts>, Error> {
    let sql = format!(
        "SELECT port_id, port_guid, lid, state, physical_state FROM internal.ib_port p WHERE port_id = ANY($1) AND {}",
        at.valid("p")
    );
    let rows = client.query(&sql, &[&ports]).await.map_err(Error::sql("reading the ports of a link"))?;
    let facts = |row: &Row| {
        let facts =
            PortFacts { guid: row.get(1), lid: row.get(2), state: row.get(3), physical_state: row.get(4) };
        (row.get(0), facts)
    };
    Ok(rows.iter().map(facts).collect())
}

/// Since when the cable between two ports was there at a time, milliseconds.
///
/// # Errors
/// The database's.
pub async fn since(client: &Client, ports: [i64; 2], at: QueryTime) -> Result<Option<i64>, Error> {
    let sql = format!(
        "SELECT valid_from FROM internal.ib_link l
         WHERE port_a_id = least($1::bigint, $2) AND port_b_id = greatest($1::integer, $2) AND {}",
        at.valid("l")
    );
    let row = client.query_opt(&sql, &[&ports[0], &ports[1]]).await.map_err(Error::sql("reading a link"))?;
    Ok(row.map(|row| milliseconds(row.get(0))))
}

/// The counters of a port as of a time. Some are read more rarely than data: they are looked for in two heartbeats.
///
/// # Errors
/// The database's.
pub async fn counters(client: &Client, port: i64, at: i64) -> Result<Option<Counters>, Error> {
    let rules = rules(client, Kind::IbPorts, &[port], at, at).await?;
    let back = rules.largest_gap_seconds.max(2.0 * rules.heartbeat_seconds);
    let sql = format!(
        "SELECT time, epoch, to_jsonb(c), saturated FROM public.ib_port_readings({from}, {at}) c
         WHERE port_id = $1 AND time > {from} ORDER BY time DESC LIMIT 1000",
        at = moment(at),
        from = moment(at - ms(back))
    );
    let rows = client.query(&sql, &[&port]).await.map_err(Error::sql("reading the counters of a port"))?;
    let Some(newest) = rows.first() else { return Ok(None) };
    let epoch: SystemTime = newest.get(1);
    let mut values = BTreeMap::new();
    for row in rows.iter().filter(|row| row.get::<_, SystemTime>(1) == epoch) {
        let fields: serde_json::Value = row.get(2);
        for metric in Table::IbPortCounters.metrics() {
            if let Some(value) = fields[metric.name].as_i64() {
                values.entry(metric.name).or_insert(value);
            }
        }
    }
    Ok(Some(Counters {
        time: milliseconds(newest.get(0)),
        epoch: milliseconds(epoch),
        values,
        saturated: newest.get::<_, Option<Vec<String>>>(3).unwrap_or_default(),
    }))
}

/// What ports carried over time, by their number in the tables. Steps of whole minutes are made of the rows of minutes,
/// which are few and retained longer; what of those is not made yet, of readings.
///
/// # Errors
/// The database's.
pub async fn series(client: &Client, ports: &[i64], grid: &Grid) -> Result<HashMap<i64, Series>, Error> {
    let what = "reading what a link carried";
    let of_minutes = steps_of_minutes(client, Kind::IbPorts, grid, true).await?;
    let rest = grid.behind(of_minutes);
    let empty = || Series::empty(grid.steps);
    let mut all: HashMap<i64, Series> = HashMap::new();
    if of_minutes > 0 {
        let query = minutes_query(grid, rest.from);
        for row in client.query(&query, &[&ports]).await.map_err(Error::sql(what))? {
            let Ok(step) = usize::try_from(row.get::<_, i32>(1)) else { continue };
            if step < of_minutes {
                put(all.entry(row.get(0)).or_insert_with(empty), &row, step);
            }
        }
    }
    if rest.steps > 0 {
        let rules = rules(client, Kind::IbPorts, ports, rest.from, rest.to()).await?;
        for row in client
            .query(&series_query(&rest, rules.largest_gap_seconds), &[&ports])
            .await
            .map_err(Error::sql(what))?
        {
            add(all.entry(row.get(0)).or_insert_with(empty), &row, &rest, of_minutes);
        }
    }
    Ok(all)
}

fn minutes_query(grid: &Grid, until: i64) -> String {
    let mean = |column: &str| {
        format!(
            "sum({column}::float8 * seconds) / nullif(sum(seconds::float8) FILTER (WHERE {column} IS NOT NULL), 0)"
        )
    };
    let step = format!("floor((extract(epoch FROM time) * 1000 - {}) / {})::integer", grid.from, grid.step);
    format!(
        "SELECT port_id, {step} AS step, {out}, max(transmit_peak_bytes_per_second)::float8, {received},
                max(receive_peak_bytes_per_second)::float8, {waiting}, sum(errors)::float8, max(rate_bytes_per_second)
         FROM internal.ib_port_minutes
         WHERE port_id = ANY($1) AND time >= {from} AND time < {until} AND seconds > 0
         GROUP BY port_id, step ORDER BY port_id, step",
        out = mean("transmit_bytes_per_second"),
        received = mean("receive_bytes_per_second"),
        waiting = mean("transmit_wait_bytes_per_second"),
        from = moment(grid.from),
        until = moment(until),
    )
}

/// Two rows farther apart than `gap` seconds, and than three steps, have silence between them.
fn series_query(grid: &Grid, gap: f64) -> String {
    let increase =
        |column: &str| format!("public.counter_increase(lag(c.{column}) OVER w, c.{column})::float8");
    format!(
        "WITH pairs AS (
             SELECT c.port_id, c.time, lag(c.time) OVER w AS before,
                    extract(epoch FROM c.time - lag(c.time) OVER w)::float8 AS seconds,
                    {out} AS out, {received} AS received,
                    CASE WHEN c.transmit_wait >= lag(c.transmit_wait) OVER w
                         THEN (c.transmit_wait - lag(c.transmit_wait) OVER w)::float8 END * c.transmit_wait_tick_bytes AS wait,
                    greatest(({errors}) - lag({errors}) OVER w, 0)::float8 AS errors, c.rate_bytes_per_second AS speed
             FROM public.ib_port_readings({oldest}, {to}) c
             WHERE c.port_id = ANY($1) AND c.time > {oldest}
               AND (c.transmit_data_bytes IS NOT NULL OR c.receive_data_bytes IS NOT NULL)
             WINDOW w AS (PARTITION BY c.port_id, c.epoch ORDER BY c.time)
         )
         SELECT port_id, {step} AS step, sum(out) / sum(seconds) FILTER (WHERE out IS NOT NULL), max(out / seconds),
                sum(received) / sum(seconds) FILTER (WHERE received IS NOT NULL), max(received / seconds),
                sum(wait) / sum(seconds) FILTER (WHERE wait IS NOT NULL), sum(errors), max(speed), min(before), min(time)
         FROM pairs
         WHERE seconds > 0 AND seconds <= {most} AND time > {from} GROUP BY port_id, step ORDER BY port_id, step",
        out = increase("transmit_data_bytes"),
        received = increase("receive_data_bytes"),
        errors = errors_of("c"),
        from = moment(grid.from),
        oldest = moment(grid.from - ms(gap)),
        to = moment(grid.to()),
        step = grid.step_of("time"),
        most = gap.max(grid.step as f64 * 3.0 / 1e3),
    )
}

/// Puts a step's sums into their place. A port that stood still has a row a minute: the steps before the first row of
/// this one and behind the row before had the same rates. The grid's steps are those from `first_step` on.
fn add(series: &mut Series, row: &Row, grid: &Grid, first_step: usize) {
    let Ok(step) = usize::try_from(row.get::<_, i32>(1)) else { return };
    if step >= grid.steps {
        return;
    }
    let (before, first): (SystemTime, SystemTime) = (row.get(9), row.get(10));
    let begin = UNIX_EPOCH + Duration::from_millis(u64::try_from(grid.from).unwrap_or(0));
    let since = seconds_between(begin, before) * 1e3 / grid.step as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a step of the grid
    let filled = if seconds_between(before, first) * 1e3 > grid.step as f64 {
        since.ceil().max(0.0) as usize
    } else {
        step
    };
    for place in filled..=step {
        put(series, row, first_step + place);
        if place < step {
            series.errors[first_step + place] = Some(0.0);
        }
    }
}

/// Puts a row's sums into a step.
fn put(series: &mut Series, row: &Row, step: usize) {
    series.out[step] = row.get(2);
    series.out_peak[step] = row.get(3);
    series.received[step] = row.get(4);
    series.received_peak[step] = row.get(5);
    series.waiting[step] = row.get(6);
    series.errors[step] = row.get(7);
    series.speed[step] = row.get(8);
}

/// Forwarding tables of a subnet's switches at a time, by the switch's number in the tables: entry i is the output port
/// for LID i, 255 where there is none.
///
/// # Errors
/// The database's.
pub async fn tables(client: &Client, subnet: i64, at: QueryTime) -> Result<HashMap<i64, Vec<u8>>, Error> {
    let sql = format!(
        "SELECT t.ib_node_id, t.linear_forwarding_table FROM internal.ib_node_key k JOIN internal.ib_lft t ON t.ib_node_id = k.id AND {}
         WHERE k.fabric_id = $1",
        at.valid("t")
    );
    let rows = client.query(&sql, &[&subnet]).await.map_err(Error::sql("reading forwarding tables"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Multicast forwarding tables of a subnet's switches at a time, by the switch's number in the tables: ports by multicast
/// LID.
///
/// # Errors
/// The database's.
pub async fn multicast(
    client: &Client,
    subnet: i64,
    at: QueryTime,
) -> Result<HashMap<i64, MulticastTable>, Error> {
    let sql = format!(
        "SELECT t.ib_node_id, t.multicast_forwarding_table FROM internal.ib_node_key k
         JOIN internal.ib_mft t ON t.ib_node_id = k.id AND {} WHERE k.fabric_id = $1",
        at.valid("t")
    );
    let rows = client.query(&sql, &[&subnet]).await.map_err(Error::sql("reading multicast tables"))?;
    // What the writer made is always of this form; anything else counts as no entry.
    let table = |row: &Row| serde_json::from_value(row.get(1)).unwrap_or_default();
    Ok(rows.iter().map(|row| (row.get(0), table(row))).collect())
}

/// Ports of a switch by multicast LID.
pub type MulticastTable = BTreeMap<u16, Vec<u8>>;

/// Which ranks' ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Of this job, whenever they ran.
    Of(i64),
    /// That run now.
    Running,
    /// That ran at this time, milliseconds.
    RunningAt(i64),
}

/// Fabric ports of ranks, by job: those that a rank has queue pairs on or, where that is not known, all of its host's.
/// As the view `job_rank_ports`, without a row for each rank. Of a node that reads no ports of its own (its source sysfs is off) those of
/// the adapters that it names (`hca_guids`), unless the rank is known to use none.
///
/// # Errors
/// The database's.
pub async fn job_ports(client: &Client, ranks: Ranks) -> Result<Vec<JobPort>, Error> {
    let of_rank = "coalesce(r.end_time, 'infinity')".to_owned();
    let (from, time) = match ranks {
        Ranks::Of(id) => (format!("internal.job_ranks({id}) r"), of_rank),
        Ranks::Running => ("internal.job_rank r WHERE r.end_time IS NULL".to_owned(), of_rank),
        Ranks::RunningAt(time) => {
            let at = moment(time);
            // Jobs of that time whose claims are gone have theirs packed.
            let from = format!(
                "(SELECT r.job_id, r.node_id, r.hca_ports, r.start_time, r.end_time FROM internal.job_rank r
                  UNION ALL
                  SELECT r.job_id, r.node_id, r.hca_ports, r.start_time, r.end_time
                  FROM internal.job_final f CROSS JOIN LATERAL internal.job_final_ranks(f.job_id) r
                  WHERE f.is_released AND f.began_at <= {at} AND f.ended_at > {at}) r
                 WHERE r.start_time <= {at} AND (r.end_time IS NULL OR r.end_time > {at})"
            );
            (from, at)
        }
    };
    let sql = format!(
        "WITH places AS MATERIALIZED (SELECT DISTINCT r.job_id, r.node_id, r.hca_ports, r.end_time FROM {from})
         SELECT DISTINCT r.job_id, p.id
         FROM places r
         JOIN internal.host_port_key h ON h.node_id = r.node_id
             AND (r.hca_ports IS NULL OR h.device || '/' || h.port = ANY (r.hca_ports))
         CROSS JOIN LATERAL internal.fabric_port_of(h.port_guid, h.guid, h.port, {time}) f
         JOIN internal.ib_port_key p ON p.id = f.port_id
         UNION
         SELECT r.job_id, p.id
         FROM places r
         JOIN internal.node n ON n.node_id = r.node_id AND n.valid_to IS NULL
         JOIN internal.ib_node_key g ON g.guid = ANY (n.hca_guids)
         JOIN internal.ib_port_key p ON p.ib_node_id = g.id AND p.port > 0
         WHERE r.hca_ports IS DISTINCT FROM '{{}}'
             AND NOT EXISTS (SELECT FROM internal.host_port_key h WHERE h.node_id = r.node_id)
         ORDER BY 1, 2"
    );
    let rows = client.query(&sql, &[]).await.map_err(Error::sql("reading the ports of jobs"))?;
    Ok(rows.iter().map(|row| JobPort { job: row.get(0), port_id: row.get(1) }).collect())
}

/// Key, user and name of jobs, by their number in the tables.
///
/// # Errors
/// The database's.
pub async fn job_names(
    client: &Client,
    ids: &[i64],
) -> Result<HashMap<i64, (String, Option<String>, Option<String>)>, Error> {
    let sql = "SELECT id, key, user_name, name FROM internal.run_visible WHERE id = ANY($1)";
    let rows = client.query(sql, &[&ids]).await.map_err(Error::sql("reading the names of jobs"))?;
    Ok(rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2), row.get(3)))).collect())
}
