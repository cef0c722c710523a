//! Jobs: who runs what where, and the sums of their MPI operations.

use crate::as_of::AsOf;
use crate::time::milliseconds;
use crate::whole;
use std::collections::HashMap;
use std::time::SystemTime;
use throughline_api::JobState;
use throughline_store::Error;
use throughline_store::sql_time::moment;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// A job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its number in the tables.
    pub id: i64,
    /// `scheduler:[cluster:]id[.step]@uid`, or `local:…`.
    pub key: String,
    /// slurm, pbs, lsf, flux or local.
    pub scheduler: Option<String>,
    /// The Slurm cluster.
    pub cluster: Option<String>,
    /// The scheduler's own id.
    pub native_id: Option<String>,
    /// The step in it.
    pub step: Option<String>,
    /// Who runs it.
    pub user: Option<String>,
    /// As the scheduler reported.
    pub name: Option<String>,
    /// Account or project.
    pub account: Option<String>,
    /// Partition or queue.
    pub queue: Option<String>,
    /// What runs.
    pub command: Option<String>,
    /// When it began, milliseconds since 1970.
    pub start: Option<i64>,
    /// When its last rank ended.
    pub end: Option<i64>,
    /// When it was observed first, by the database's clock.
    pub first_seen: i64,
    /// As of the moment of the query: `job_state` of the schema.
    pub state: JobState,
    /// Ranks by its own account.
    pub world_size: Option<i32>,
    /// Ranks seen.
    pub ranks: i64,
    /// Hosts on which ranks were seen.
    pub nodes: i64,
    /// Ranks that run.
    pub ranks_running: i64,
    /// Ranks that ended without MPI_Finalize.
    pub ranks_lost: i64,
    /// Ranks whose nodes went away.
    pub ranks_silent: i64,
    /// Ranks that several nodes say they run.
    pub ranks_contested: i64,
    /// Facts about which its nodes disagree.
    pub contested_facts: Vec<String>,
    /// The node that alone reports it.
    pub only_node: Option<String>,
    /// When a node last reported it, by the database's clock.
    pub reported: Option<i64>,
    /// Kind of the most important verdict on it.
    pub verdict: Option<String>,
}

impl Job {
    /// As the API has it at a time; its sums may be older.
    #[must_use]
    pub fn described(
        self,
        now: i64,
        totals: Option<Totals>,
        as_of: Option<&AsOf>,
    ) -> throughline_api::jobs::Job {
        #[allow(clippy::cast_precision_loss)] // milliseconds
        let duration = self.start.map(|start| (self.end.unwrap_or(now) - start).max(0) as f64 / 1e3);
        throughline_api::jobs::Job {
            job_key: self.key,
            scheduler: self.scheduler,
            cluster: self.cluster,
            native_id: self.native_id,
            step: self.step,
            user: self.user,
            name: self.name,
            account: self.account,
            queue: self.queue,
            command: self.command,
            state: self.state,
            start_ms: self.start,
            end_ms: self.end,
            reported_ms: self.reported,
            duration_seconds: duration,
            ranks: whole(Some(self.ranks)),
            world_size: self.world_size.map(|size| whole(Some(size.into()))),
            nodes: whole(Some(self.nodes)),
            ranks_running: whole(Some(self.ranks_running)),
            ranks_lost: whole(Some(self.ranks_lost)),
            ranks_silent: whole(Some(self.ranks_silent)),
            ranks_contested: whole(Some(self.ranks_contested)),
            contested_facts: self.contested_facts,
            only_node: self.only_node,
            verdict: self.verdict,
            totals: totals.map(Totals::described),
            as_of: as_of.map(AsOf::described),
        }
    }
}

/// Sums of a job's MPI operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Calls of all operations.
    pub calls: i64,
    /// What callers passed to send.
    pub bytes: i64,
    /// Time inside MPI, summed over ranks.
    pub mpi_seconds: f64,
    /// Time that the ranks were observed, summed.
    pub observed_seconds: Option<f64>,
}

impl Totals {
    fn described(self) -> throughline_api::jobs::Totals {
        let share = self
            .observed_seconds
            .and_then(|observed| throughline_api::jobs::mpi_time_share(self.mpi_seconds, observed));
        throughline_api::jobs::Totals {
            calls: whole(Some(self.calls)),
            bytes: whole(Some(self.bytes)),
            mpi_seconds: self.mpi_seconds,
            observed_seconds: self.observed_seconds,
            // More than four digits say nothing, and cost bytes.
            mpi_time_share: share.map(|share| (share * 1e4).round() / 1e4),
        }
    }
}

/// What jobs are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// When it began.
    Start,
    /// When it ended.
    End,
    /// How long it ran.
    Duration,
    /// Who ran it.
    User,
    /// As the scheduler reported.
    Name,
    /// Hosts that reported it.
    Nodes,
    /// Ranks by its own account.
    Ranks,
    /// Its key.
    Key,
}

impl Sort {
    /// The value in SQL, and its type.
    fn value(self) -> (&'static str, &'static str) {
        match self {
            Sort::Start => ("extract(epoch FROM coalesce(j.start_time, j.first_seen))::float8", "float8"),
            Sort::End => ("extract(epoch FROM j.end_time)::float8", "float8"),
            Sort::Duration => {
                ("extract(epoch FROM j.end_time - coalesce(j.start_time, j.first_seen))::float8", "float8")
            }
            Sort::User => ("left(coalesce(j.user_name, ''), 64)", "text"),
            Sort::Name => ("left(coalesce(j.name, ''), 256)", "text"),
            Sort::Nodes => {
                ("(SELECT count(*) FROM internal.run_claim n WHERE n.job_id = j.id)::float8", "float8")
            }
            Sort::Ranks => ("coalesce(j.world_size, 0)::float8", "float8"),
            Sort::Key => ("j.key", "text"),
        }
    }
}

/// Which jobs of a list that is read page by page.
#[derive(Clone, Debug)]
pub struct JobQuery<'a> {
    /// Those that run as well; without them only those that have ended.
    pub with_live: bool,
    /// What comes first.
    pub sort: Sort,
    /// From the largest on.
    pub is_descending: bool,
    /// Part of key, id, user, name, account, queue or command.
    pub text: Option<&'a str>,
    /// Of this user.
    pub user: Option<&'a str>,
    /// Of this scheduler.
    pub scheduler: Option<&'a str>,
    /// That ran at or after this time, milliseconds.
    pub since: Option<i64>,
    /// Behind the job with this value and number.
    pub behind: Option<(&'a str, i64)>,
    /// Most jobs.
    pub limit: i64,
}

/// Texts of programs are cut: one may have a megabyte.
const COLUMNS: &str =
    "j.id, j.key, j.scheduler, j.native_id, j.step, left(j.user_name, 64), left(j.name, 256), left(j.account, 256),
    left(j.queue, 256), left(j.command, 2048),
    j.start_time, j.end_time, j.first_seen, j.world_size, coalesce(j.contested_facts, '{}'), j.cluster";

/// What the ranks of job `j` report, and its nodes; of a job whose claims are gone what is packed.
const RANKS: &str = "
    LEFT JOIN internal.job_final f ON f.job_id = j.id AND f.is_released
    LEFT JOIN LATERAL (
        SELECT count(DISTINCT rank) AS ranks, count(DISTINCT host) AS nodes,
               count(*) FILTER (WHERE end_time IS NULL) AS running, count(*) FILTER (WHERE ending = 'lost') AS lost,
               count(*) FILTER (WHERE ending = 'silent') AS silent, max(end_time) AS last_end
        FROM internal.job_rank WHERE job_id = j.id) r ON true
    LEFT JOIN LATERAL (
        SELECT coalesce(max(reported_at) FILTER (WHERE has_ranks), max(reported_at)) AS reported,
               CASE WHEN count(*) FILTER (WHERE has_ranks) = 1 THEN min(node_id) FILTER (WHERE has_ranks)
                    WHEN count(*) = 1 THEN min(node_id) END AS only_node_id
        FROM internal.run_claim WHERE job_id = j.id AND NOT is_excluded) n ON true
    LEFT JOIN LATERAL (
        SELECT count(DISTINCT rank) AS ranks FROM internal.rank_claim WHERE job_id = j.id AND contest = 'contested') c ON true";

const COUNTS: &str = "coalesce(f.ranks, r.ranks), coalesce(f.nodes, r.nodes), r.running, coalesce(f.lost, r.lost), coalesce(f.silent, r.silent),
    n.reported, c.ranks, (SELECT name FROM internal.node_key WHERE id = n.only_node_id AND coalesce(f.nodes, r.nodes, 0) <= 1),
    internal.job_state(j.end_time, coalesce(f.lost, r.lost), coalesce(f.silent, r.silent), coalesce(n.reported, j.first_seen), now()),
    (SELECT v.kind FROM internal.job_judgement d JOIN internal.job_verdict v ON v.job_id = d.job_id AND v.last_at = d.judged_at
     WHERE d.job_id = j.id ORDER BY v.place LIMIT 1)";

fn job(row: &Row) -> Job {
    let time = |place: usize| row.get::<_, Option<SystemTime>>(place).map(milliseconds);
    Job {
        id: row.get(0),
        key: row.get(1),
        scheduler: row.get(2),
        native_id: row.get(3),
        step: row.get(4),
        user: row.get(5),
        name: row.get(6),
        account: row.get(7),
        queue: row.get(8),
        command: row.get(9),
        start: time(10),
        end: time(11),
        first_seen: time(12).unwrap_or_default(),
        world_size: row.get(13),
        contested_facts: row.get(14),
        cluster: row.get(15),
        ranks: row.get(16),
        nodes: row.get(17),
        ranks_running: row.get(18),
        ranks_lost: row.get(19),
        ranks_silent: row.get(20),
        reported: time(21),
        ranks_contested: row.get(22),
        only_node: row.get(23),
        state: row.get::<_, &str>(24).parse().unwrap_or_default(),
        verdict: row.get(25),
    }
}

/// All jobs that have not ended, in no order.
///
/// # Errors
/// The database's.
pub async fn live(client: &Client) -> Result<Vec<Job>, Error> {
    let sql =
        format!("SELECT {COLUMNS}, {COUNTS} FROM internal.run_visible j {RANKS} WHERE j.end_time IS NULL");
    let rows = client.query(&sql, &[]).await.map_err(Error::sql("reading the jobs that run"))?;
    Ok(rows.iter().map(job).collect())
}

/// Jobs in their order, each with its value as text: what the following page begins behind. Live ones have no end and no
/// duration to be sorted by.
///
/// # Errors
/// The database's.
pub async fn page(client: &Client, query: &JobQuery<'_>) -> Result<Vec<(Job, String)>, Error> {
    let (value, kind) = query.sort.value();
    let (order, behind) = if query.is_descending { ("DESC", "<") } else { ("ASC", ">") };
    let since = query.since.map(moment).map(|since| format!("j.end_time >= {since}"));
    let which = match (query.with_live, since) {
        (false, None) => "j.end_time IS NOT NULL".to_owned(),
        (false, Some(since)) => since,
        (true, None) => "true".to_owned(),
        (true, Some(since)) => format!("(j.end_time IS NULL OR {since})"),
    };
    let (behind_value, behind_id) = query.behind.unzip();
    let sql = format!(
        "WITH page AS MATERIALIZED (
             SELECT j.*, {value} AS value FROM internal.run_visible j
             WHERE {which}
               AND ($1::text IS NULL OR strpos(lower(concat_ws(' ', j.key, j.native_id, j.user_name, j.name, j.account,
                    j.queue, j.command)), lower($1)) > 0)
               AND ($2::text IS NULL OR j.user_name = $2)
               AND ($3::text IS NULL OR ({value}, j.id) {behind} ($3::text::{kind}, $4::bigint))
               AND ($6::text IS NULL OR j.scheduler = $6)
             ORDER BY {value} {order}, j.id {order} LIMIT $5
         )
         SELECT {COLUMNS}, {COUNTS}, j.value::text FROM page j {RANKS} ORDER BY j.value {order}, j.id {order}"
    );
    let parameters: [&(dyn ToSql + Sync); 6] =
        [&query.text, &query.user, &behind_value, &behind_id, &query.limit, &query.scheduler];
    let rows = client.query(&sql, &parameters).await.map_err(Error::sql("reading a page of jobs"))?;
    Ok(rows.iter().map(|row| (job(row), row.get(26))).collect())
}

/// Jobs that run, the newest first, then those that ended, the last first.
///
/// # Errors
/// The database's.
pub async fn running_first(client: &Client, limit: i64) -> Result<Vec<Job>, Error> {
    let order = "j.end_time IS NOT NULL, coalesce(j.end_time, j.start_time, j.first_seen) DESC, j.id DESC";
    // Each part has an index.
    let sql = format!(
        "WITH page AS MATERIALIZED (
             SELECT * FROM (
                 (SELECT * FROM internal.run_visible WHERE end_time IS NULL
                  ORDER BY coalesce(start_time, first_seen) DESC, id DESC LIMIT $1)
                 UNION ALL
                 (SELECT * FROM internal.run_visible WHERE end_time IS NOT NULL ORDER BY end_time DESC, id DESC LIMIT $1)) j
             ORDER BY {order} LIMIT $1)
         SELECT {COLUMNS}, {COUNTS} FROM page j {RANKS} ORDER BY {order}"
    );
    let rows = client.query(&sql, &[&limit]).await.map_err(Error::sql("reading the newest jobs"))?;
    Ok(rows.iter().map(job).collect())
}

/// The job with a key.
///
/// # Errors
/// The database's.
pub async fn one(client: &Client, key: &str) -> Result<Option<Job>, Error> {
    let sql = format!("SELECT {COLUMNS}, {COUNTS} FROM internal.run_visible j {RANKS} WHERE j.key = $1");
    let row = client.query_opt(&sql, &[&key]).await.map_err(Error::sql("reading a job"))?;
    Ok(row.map(|row| job(&row)))
}

/// The job with a number in the tables.
///
/// # Errors
/// The database's.
pub async fn by_id(client: &Client, id: i64) -> Result<Option<Job>, Error> {
    let sql = format!("SELECT {COLUMNS}, {COUNTS} FROM internal.run_visible j {RANKS} WHERE j.id = $1");
    let row = client.query_opt(&sql, &[&id]).await.map_err(Error::sql("reading a job"))?;
    Ok(row.map(|row| job(&row)))
}

/// Nodes of each job in one order for both arrays.
const TOTALS: &str = "
    SELECT i.id, s.calls, s.bytes, coalesce(s.elapsed_seconds, 0), s.observed_seconds
    FROM unnest($1::bigint[], $2::timestamptz[], $3::boolean[]) i (id, until, is_of_nodes)
    CROSS JOIN LATERAL (
        SELECT array_agg(n.node_id ORDER BY n.node_id) AS nodes, array_agg(n.time ORDER BY n.node_id) AS times
        FROM unnest($4::bigint[], $5::bigint[], $6::timestamptz[]) n (job_id, node_id, time) WHERE n.job_id = i.id) n
    CROSS JOIN LATERAL internal.job_sums(i.id, i.until, i.is_of_nodes, n.nodes, n.times) s";

/// Sums of some jobs, each as of its time, final ones of those without; those without any row are left out.
///
/// # Errors
/// The database's.
pub async fn totals(
    client: &Client,
    ids: &[i64],
    as_of: &HashMap<i64, AsOf>,
) -> Result<Vec<(i64, Totals)>, Error> {
    let until: Vec<Option<SystemTime>> = ids.iter().map(|id| as_of.get(id).map(|at| at.until)).collect();
    let is_of_nodes: Vec<bool> =
        ids.iter().map(|id| as_of.get(id).is_some_and(|at| at.is_of_nodes)).collect();
    let nodes = || as_of.iter().flat_map(|(job, at)| at.nodes.iter().map(move |node| (*job, node)));
    let of_jobs: Vec<i64> = nodes().map(|(job, _)| job).collect();
    let node_ids: Vec<i64> = nodes().map(|(_, node)| node.id).collect();
    let times: Vec<Option<SystemTime>> = nodes().map(|(_, node)| node.time).collect();
    let parameters: [&(dyn ToSql + Sync); 6] = [&ids, &until, &is_of_nodes, &of_jobs, &node_ids, &times];
    let rows =
        client.query(TOTALS, &parameters).await.map_err(Error::sql("summing the operations of jobs"))?;
    let totals = |row: &Row| {
        let count = |place: usize| row.get::<_, Option<i64>>(place).unwrap_or_default();
        let sums = Totals {
            calls: count(1),
            bytes: count(2),
            mpi_seconds: row.get(3),
            observed_seconds: row.get(4),
        };
        (row.get(0), sums)
    };
    Ok(rows.iter().map(totals).collect())
}

/// A combination of operation, size class and algorithm, over all ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// MPI name without the prefix.
    pub operation: String,
    /// Largest message of the class, bytes.
    pub size_class_bytes: i64,
    /// What the library did inside; empty where it is not known or there is none.
    pub algorithm: String,
    /// observed, pvar, forced, unknown, or empty for an operation that has none.
    pub algorithm_source: String,
    /// Calls.
    pub calls: i64,
    /// What callers passed to send.
    pub bytes: i64,
    /// What receives got.
    pub received_bytes: Option<i64>,
    /// Time inside.
    pub elapsed_seconds: f64,
    /// From the return of the call that began it to its completion.
    pub wait_seconds: Option<f64>,
    /// Longest single call.
    pub longest_seconds: Option<f64>,
}

const CELLS: &str = "
    SELECT operation, size_class_bytes, algorithm, algorithm_source, calls, bytes, received_bytes, elapsed_seconds, wait_seconds,
           longest_seconds
    FROM internal.job_cells($1, $2, $3) ORDER BY operation, size_class_bytes, algorithm, algorithm_source";

/// A job's operations as of a time, final ones without.
///
/// # Errors
/// The database's.
pub async fn cells(client: &Client, id: i64, as_of: Option<&AsOf>) -> Result<Vec<Cell>, Error> {
    let (until, is_of_nodes) = (as_of.map(|at| at.until), as_of.is_some_and(|at| at.is_of_nodes));
    let rows = client.query(CELLS, &[&id, &until, &is_of_nodes]).await;
    let rows = rows.map_err(Error::sql("summing the operations of a job"))?;
    let cell = |row: &Row| Cell {
        operation: row.get(0),
        size_class_bytes: row.get(1),
        algorithm: row.get(2),
        algorithm_source: row.get(3),
        calls: row.get::<_, Option<i64>>(4).unwrap_or_default(),
        bytes: row.get::<_, Option<i64>>(5).unwrap_or_default(),
        received_bytes: row.get(6),
        elapsed_seconds: row.get(7),
        wait_seconds: row.get(8),
        longest_seconds: row.get(9),
    };
    Ok(rows.iter().map(cell).collect())
}

/// A rank; of one that was started again the last start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rank {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Where it runs.
    pub host: String,
    /// MPI library.
    pub library: String,
    /// When MPI_Init ended, milliseconds.
    pub start: i64,
    /// When it ended.
    pub end: Option<i64>,
    /// clean, lost, unseen or silent.
    pub ending: Option<String>,
    /// UUIDs of its GPUs.
    pub gpus: Option<Vec<String>>,
    /// DEVICE/PORT of its adapter ports.
    pub ports: Option<Vec<String>>,
    /// CPUs that it might run on.
    pub cpus: Option<String>,
}

/// The ranks of a job.
///
/// # Errors
/// The database's.
pub async fn ranks(client: &Client, id: i64) -> Result<Vec<Rank>, Error> {
    let sql = "SELECT DISTINCT ON (rank) rank, host, mpi_library, start_time, end_time, ending, gpu_uuids, hca_ports, cpus
               FROM internal.job_ranks($1) ORDER BY rank, start_time DESC";
    let rows = client.query(sql, &[&id]).await.map_err(Error::sql("reading the ranks of a job"))?;
    let rank = |row: &Row| Rank {
        rank: row.get(0),
        host: row.get(1),
        library: row.get(2),
        start: milliseconds(row.get(3)),
        end: row.get::<_, Option<SystemTime>>(4).map(milliseconds),
        ending: row.get(5),
        gpus: row.get(6),
        ports: row.get(7),
        cpus: row.get(8),
    };
    Ok(rows.iter().map(rank).collect())
}

/// Sums of a job by rank as of a time of its ranks' rows ([`crate::as_of::ranks`]), final ones without; ranks without any row are left
/// out.
///
/// # Errors
/// The database's.
pub async fn rank_totals(
    client: &Client,
    id: i64,
    as_of: Option<&AsOf>,
) -> Result<Vec<(i32, Totals)>, Error> {
    const WHAT: &str = "summing the operations of ranks";
    let rows = if let Some(at) = as_of {
        let nodes: Vec<i64> = at.nodes.iter().map(|node| node.id).collect();
        let times: Vec<Option<SystemTime>> = at.nodes.iter().map(|node| node.time).collect();
        let sql = "SELECT rank, calls, bytes, coalesce(elapsed_seconds, 0), observed_seconds
                   FROM internal.job_rank_sums($1, $2, $3, $4) ORDER BY rank";
        client.query(sql, &[&id, &at.latest(), &nodes, &times]).await
    } else {
        let sql = "SELECT rank, calls, bytes, coalesce(elapsed_seconds, 0), observed_seconds
                   FROM internal.job_rank_totals($1) ORDER BY rank";
        client.query(sql, &[&id]).await
    };
    let rows = rows.map_err(Error::sql(WHAT))?;
    let totals = |row: &Row| {
        let count = |place: usize| row.get::<_, Option<i64>>(place).unwrap_or_default();
        let (calls, bytes) = (count(1), count(2));
        (row.get(0), Totals { calls, bytes, mpi_seconds: row.get(3), observed_seconds: row.get(4) })
    };
    Ok(rows.iter().map(totals).collect())
}
