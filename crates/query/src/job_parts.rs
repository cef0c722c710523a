//! Parts of one job that are read on request only: how its ranks ended, regions, traffic by pairs, links.

use crate::whole;
use throughline_api::jobs::{Ending, LinkPeak, LostRank, Pair, Region, Setting, Traffic};
use throughline_store::Error;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const ENDINGS: &str = "
    SELECT coalesce(ending, 'running') AS ending, count(*) AS ranks, (array_agg(rank ORDER BY rank))[1:8] AS examples
    FROM internal.job_ranks($1) GROUP BY 1 ORDER BY 2 DESC, 1";

/// How many starts of ranks ended in which way, the most frequent first.
///
/// # Errors
/// The database's.
pub async fn endings(client: &Client, id: i64) -> Result<Vec<Ending>, Error> {
    let rows = client.query(ENDINGS, &[&id]).await.map_err(Error::sql("reading how ranks ended"))?;
    let ending = |row: &tokio_postgres::Row| Ending {
        ending: row.get("ending"),
        ranks: whole(row.get("ranks")),
        examples: row.get("examples"),
    };
    Ok(rows.iter().map(ending).collect())
}

const FIRST_LOST: &str = "
    SELECT r.rank, r.host, round(extract(epoch FROM r.end_time) * 1000)::bigint AS end_ms, r.ranks,
           extract(epoch FROM r.next_end - r.end_time)::double precision AS next_after, c.operation, c.seconds
    FROM (SELECT job_id, rank, host, start_time, end_time, count(*) OVER () AS ranks,
                 lead(end_time) OVER (ORDER BY end_time, rank) AS next_end
          FROM internal.job_ranks($1) WHERE ending = 'lost' ORDER BY end_time, rank LIMIT 1) r
    LEFT JOIN LATERAL (
        SELECT o.operation, extract(epoch FROM r.end_time - o.start_time)::double precision AS seconds
        FROM internal.mpi_open_calls o WHERE o.job_id = r.job_id AND o.rank = r.rank AND o.rank_end_time = r.end_time
        UNION ALL
        SELECT e.open_operation, e.open_nanoseconds / 1e9::double precision
        FROM internal.job_final_ranks(r.job_id) e
        WHERE e.is_released AND e.rank = r.rank AND e.end_time = r.end_time AND e.open_nanoseconds IS NOT NULL
        ORDER BY seconds DESC LIMIT 1) c ON true";

/// The rank that ended first without MPI_Finalize. Clocks of nodes differ by what the alignment of their times is.
///
/// # Errors
/// The database's.
pub async fn first_lost(client: &Client, id: i64) -> Result<Option<LostRank>, Error> {
    let row = client.query_opt(FIRST_LOST, &[&id]).await.map_err(Error::sql("reading who ended first"))?;
    Ok(row.map(|row| LostRank {
        rank: row.get("rank"),
        host: row.get("host"),
        end_ms: row.get("end_ms"),
        operation: row.get("operation"),
        operation_seconds: row.get("seconds"),
        ranks: whole(row.get("ranks")),
        next_after_seconds: row.get("next_after"),
    }))
}

/// Settings that a job's MPI libraries reported, by name.
///
/// # Errors
/// The database's.
pub async fn settings(client: &Client, id: i64) -> Result<Vec<Setting>, Error> {
    let sql = "SELECT DISTINCT name, value FROM internal.job_setting WHERE job_id = $1 ORDER BY name, value LIMIT 256";
    let rows =
        client.query(sql, &[&id]).await.map_err(Error::sql("reading the settings of MPI libraries"))?;
    Ok(rows.iter().map(|row| Setting { name: row.get(0), value: row.get(1) }).collect())
}

const REGIONS: &str = "
    WITH state AS MATERIALIZED (SELECT internal.job_rows_gone($1, 'mpi_regions') AS is_gone)
    SELECT region, count(DISTINCT rank) AS ranks, internal.stored_total(sum(visits)) AS visits,
           coalesce(sum(elapsed_seconds), 0) AS elapsed_seconds,
           internal.stored_total(sum(mpi_calls)) AS mpi_calls, sum(mpi_seconds) AS mpi_seconds
    FROM internal.mpi_region_totals WHERE job_id = $1 AND NOT (SELECT is_gone FROM state) GROUP BY region
    UNION ALL
    SELECT r->>0, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::double precision, (r->>4)::bigint, (r->>5)::double precision
    FROM internal.job_final f CROSS JOIN LATERAL json_array_elements(f.regions) AS rows (r)
    WHERE f.job_id = $1 AND (SELECT is_gone FROM state)
    ORDER BY mpi_seconds DESC NULLS LAST, elapsed_seconds DESC, region";

/// Annotated regions of the program, those with the most MPI time first.
///
/// # Errors
/// The database's.
pub async fn regions(client: &Client, id: i64) -> Result<Vec<Region>, Error> {
    let rows = client.query(REGIONS, &[&id]).await.map_err(Error::sql("summing the regions of a job"))?;
    let region = |row: &tokio_postgres::Row| Region {
        region: row.get("region"),
        ranks: whole(row.get("ranks")),
        visits: whole(row.get("visits")),
        elapsed_seconds: row.get("elapsed_seconds"),
        mpi_calls: row.get::<_, Option<i64>>("mpi_calls").map(|calls| whole(Some(calls))),
        mpi_seconds: row.get("mpi_seconds"),
    };
    Ok(rows.iter().map(region).collect())
}

/// Pairs of each kind that are listed.
const BUSIEST: i64 = 3;

const TRAFFIC: &str = "
    WITH state AS MATERIALIZED (
        SELECT internal.job_rows_gone($1, 'mpi_rank_peers') AS is_gone
    ), hosts AS MATERIALIZED (
        SELECT DISTINCT ON (rank) rank, host FROM internal.job_ranks($1) ORDER BY rank, start_time DESC
    ), pairs AS MATERIALIZED (
        SELECT p.kind, p.rank, p.peer, p.bytes, p.messages, s.host = d.host AS same_node,
               row_number() OVER (PARTITION BY p.kind ORDER BY p.bytes DESC, p.messages DESC, p.rank, p.peer) AS place
        FROM public.mpi_peer_totals p
        LEFT JOIN hosts s ON s.rank = p.rank
        LEFT JOIN hosts d ON d.rank = p.peer
        WHERE p.job_id = $1 AND NOT (SELECT is_gone FROM state)
    ), sums AS (
        SELECT kind, internal.stored_total(sum(bytes)) AS all_bytes,
               internal.stored_total(sum(messages)) AS all_messages, count(*) AS all_pairs,
               internal.stored_total(coalesce(sum(bytes) FILTER (WHERE NOT same_node), 0)) AS between_bytes
        FROM pairs GROUP BY kind
    )
    SELECT s.*, p.rank, p.peer, p.bytes, p.messages, p.same_node, p.place
    FROM sums s JOIN pairs p ON p.kind = s.kind AND p.place <= $2
    UNION ALL
    SELECT t->>0, (t->>1)::bigint, (t->>2)::bigint, (t->>3)::bigint, (t->>4)::bigint, (t->>5)::integer, (t->>6)::integer, (t->>7)::bigint,
           (t->>8)::bigint, (t->>9)::boolean, row_number() OVER ()
    FROM internal.job_final f CROSS JOIN LATERAL json_array_elements(f.traffic) AS rows (t)
    WHERE f.job_id = $1 AND (SELECT is_gone FROM state)
    ORDER BY kind, place";

/// Traffic of each kind with its busiest pairs.
///
/// # Errors
/// The database's.
pub async fn traffic(client: &Client, id: i64) -> Result<Vec<Traffic>, Error> {
    let rows = client.query(TRAFFIC, &[&id, &BUSIEST]).await;
    let rows = rows.map_err(Error::sql("summing the traffic between ranks"))?;
    let mut kinds: Vec<Traffic> = Vec::new();
    for row in &rows {
        let kind: String = row.get("kind");
        let sum = |column: &str| whole(row.get(column));
        if kinds.last().is_none_or(|last| last.kind != kind) {
            kinds.push(Traffic {
                kind,
                bytes: sum("all_bytes"),
                messages: sum("all_messages"),
                pairs: sum("all_pairs"),
                between_nodes_bytes: sum("between_bytes"),
                busiest: Vec::new(),
            });
        }
        if let Some(last) = kinds.last_mut() {
            last.busiest.push(Pair {
                from: row.get("rank"),
                to: row.get("peer"),
                bytes: sum("bytes"),
                messages: sum("messages"),
                same_node: row.get("same_node"),
            });
        }
    }
    Ok(kinds)
}

const LINK_PEAKS: &str = "
    SELECT * FROM public.job_links($1)
    ORDER BY max_utilisation DESC NULLS LAST, max_bytes_per_second DESC, kind, node_name, link, direction";

/// Links of a job's nodes while it ran, the most utilised first; `None` where that takes longer than `seconds`: every reading
/// of every link of every node is read, and of a large job of many hours those are very many. 0 does not begin.
///
/// # Errors
/// The database's.
pub async fn link_peaks(client: &Client, id: i64, seconds: u64) -> Result<Option<Vec<LinkPeak>>, Error> {
    const WHAT: &str = "reading the links of a job's nodes";
    if seconds == 0 {
        return Ok(None);
    }
    // For this statement only: its transaction has a limit of its own, which holds again afterwards.
    let begin = format!("SAVEPOINT links; SET LOCAL statement_timeout = '{seconds}s'");
    client.batch_execute(&begin).await.map_err(Error::sql(WHAT))?;
    let rows = client.query(LINK_PEAKS, &[&id]).await;
    client.batch_execute("ROLLBACK TO SAVEPOINT links").await.map_err(Error::sql(WHAT))?;
    let rows = match rows {
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => return Ok(None),
        rows => rows.map_err(Error::sql(WHAT))?,
    };
    let link = |row: &tokio_postgres::Row| LinkPeak {
        kind: row.get("kind"),
        node: row.get("node_name"),
        link: row.get("link"),
        direction: row.get("direction"),
        rate_bytes_per_second: row
            .get::<_, Option<i64>>("rate_bytes_per_second")
            .map(|rate| whole(Some(rate))),
        bytes: row.get("bytes"),
        p95_bytes_per_second: row.get("p95_bytes_per_second"),
        max_bytes_per_second: row.get("max_bytes_per_second"),
        p95_utilisation: row.get("p95_utilisation"),
        max_utilisation: row.get("max_utilisation"),
        readings: whole(row.get("readings")),
        is_shared: row.get("is_shared"),
    };
    Ok(Some(rows.iter().map(link).collect()))
}
