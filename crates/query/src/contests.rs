//! What nodes report against each other: ranks that several say they run, and what they say of a job in different ways.

use crate::whole;
use throughline_api::jobs::{ContestedFact, ContestedRanks, FactVersion, JobContests};
use throughline_api::status::ContestingNode;
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// Versions of facts of one job; each is a text of a program.
const VERSIONS_MAX: i64 = 64;

/// Nodes in contests that are listed.
const NODES_MAX: i64 = 64;

const RANKS: &str = "
    SELECT node_name, state, count(DISTINCT rank), min(rank), max(rank), internal.stored_total(sum(calls)), internal.stored_total(sum(bytes))
    FROM public.contested_ranks WHERE job_id = $1 GROUP BY 1, 2 ORDER BY 2, 1";

const FACTS: &str = "
    SELECT f.fact, left(to_jsonb(c) ->> f.fact, 256), min(k.name), count(*)
    FROM internal.run_visible j CROSS JOIN unnest(j.contested_facts) f (fact)
    JOIN internal.run_claim c ON c.job_id = j.id AND NOT c.is_excluded AND c.has_ranks
    JOIN internal.node_key k ON k.id = c.node_id
    WHERE j.id = $1 AND to_jsonb(c) ->> f.fact IS NOT NULL
    GROUP BY 1, 2 ORDER BY 1, 4 DESC, 2 LIMIT $2";

const NODES: &str = "
    SELECT k.name, c.contest, count(DISTINCT c.job_id), count(DISTINCT (c.job_id, c.rank)),
           (array_agg(DISTINCT o.name))[1:5]
    FROM internal.rank_contests c
    JOIN internal.node_key k ON k.id = c.node_id
    JOIN internal.node_key o ON o.id = c.other_node_id
    WHERE c.contest IN ('contested', 'overruled') AND coalesce(c.end_time, now()) > now() - INTERVAL '1 day'
    GROUP BY 1, 2 ORDER BY 2 DESC, 3 DESC, 1 LIMIT $1";

/// What is contested of a job.
///
/// # Errors
/// The database's.
pub async fn of_job(client: &Client, id: i64) -> Result<JobContests, Error> {
    let what = "reading what nodes contest";
    let ranks = |row: &Row| ContestedRanks {
        node: row.get(0),
        state: row.get(1),
        ranks: whole(Some(row.get(2))),
        first_rank: row.get(3),
        last_rank: row.get(4),
        calls: row.get::<_, Option<i64>>(5).map(|calls| whole(Some(calls))),
        bytes: row.get::<_, Option<i64>>(6).map(|bytes| whole(Some(bytes))),
    };
    let rows = client.query(RANKS, &[&id]).await.map_err(Error::sql(what))?;
    let mut contests = JobContests { ranks: rows.iter().map(ranks).collect(), facts: Vec::new() };
    for row in client.query(FACTS, &[&id, &VERSIONS_MAX]).await.map_err(Error::sql(what))? {
        let (fact, value): (String, String) = (row.get(0), row.get(1));
        let version = FactVersion { value, node: row.get(2), nodes: whole(Some(row.get(3))) };
        match contests.facts.last_mut().filter(|last| last.fact == fact) {
            Some(last) => last.versions.push(version),
            None => contests.facts.push(ContestedFact { fact, versions: vec![version] }),
        }
    }
    Ok(contests)
}

/// Nodes that report ranks that other nodes report, those that were overruled first.
///
/// # Errors
/// The database's.
pub async fn nodes(client: &Client) -> Result<Vec<ContestingNode>, Error> {
    let rows = client.query(NODES, &[&NODES_MAX]).await;
    let node = |row: &Row| ContestingNode {
        node: row.get(0),
        state: row.get(1),
        jobs: whole(Some(row.get(2))),
        ranks: whole(Some(row.get(3))),
        others: row.get(4),
    };
    Ok(rows.map_err(Error::sql("reading which nodes contest ranks"))?.iter().map(node).collect())
}

/// A condition on rows `m` of ranks: their claim counts.
pub(crate) const OF_COUNTED_RANK: &str = "NOT EXISTS (SELECT FROM internal.rank_claim x \
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id)";

/// A condition on rows `m` of nodes of a job: all its ranks on the node count.
pub(crate) const OF_COUNTED_NODE: &str = "NOT EXISTS (SELECT FROM internal.rank_claim x \
    WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id)";
