//! Contests: two nodes say that they run the same rank. Both claims are stored; which one counts is settled here, never by who spoke first.
//!
//! The writer marks both claims as contested when the second one comes (`writer::contested_ranks`); from then on they are in no total. Upkeep then
//! looks for signs of the true one ([`settle_contests`]):
//!
//! 1. **Traffic.** Two nodes confirm each other where the bytes that each says its ranks sent to the other's are alike: a node that makes
//!    up ranks does not know what the others sent. The claim of a larger group of nodes that confirm each other prevails.
//! 2. **Contests elsewhere.** A node that is in contests with [`WITNESSES`] other nodes, which do not contest among themselves, is
//!    overruled, unless traffic confirms it or the other node is in as many.
//! 3. **Silence.** A node that reports nothing any more gives way to one that does.
//!
//! 4. **Bars.** Claims of a node that an administrator barred are out, those of the past too.
//!
//! Otherwise the contest stays, and is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use crate::error::Error;
use crate::writer::{SETTLE_FACTS, SETTLE_JOBS};

/// How many nodes that agree among themselves must be in contests with one for these to count against it.
const WITNESSES: usize = 3;

/// Bytes of two directions are alike when the smaller is at least this part of the larger: rows of two nodes are up to an interval apart.
const ALIKE: f64 = 0.75;

/// A group of confirmed nodes prevails over one that is at most this part of it.
const PREVAILS: f64 = 0.5;

/// Jobs that are looked at in one round.
const JOBS_MAX: i64 = 500;

/// Longest time for a statement about them: writers wait for locks that it holds.
const STATEMENT_MAX: Duration = Duration::from_secs(2);

/// A job that takes longer is tried again after this time.
const ASIDE: Duration = Duration::from_secs(60);

/// A contest counts as a sign in those about other jobs until so long after its end.
const PAIR_COUNTS: Duration = Duration::from_secs(3600);

/// Contests of an hour that become events; all are in the tables.
const EVENTS_MAX: i64 = 1000;

/// Jobs with claims of nodes that were barred or let in again since they were looked at last.
const TOUCHED: &str = "
SELECT job_id FROM (
    SELECT c.job_id FROM internal.barred_nodes b JOIN internal.node_key k ON k.name = b.node
    JOIN internal.run_claim c ON c.node_id = k.id
    WHERE NOT c.is_excluded AND internal.is_barred(k.name, c.first_seen)
    UNION
    SELECT r.job_id FROM internal.barred_nodes b JOIN internal.node_key k ON k.name = b.node
    JOIN internal.rank_claim r ON r.node_id = k.id
    WHERE r.contest IS DISTINCT FROM 'barred' AND internal.is_barred(k.name, r.start_time)
    UNION
    SELECT r.job_id FROM internal.node_key k JOIN internal.rank_claim r ON r.node_id = k.id AND r.contest = 'barred'
    WHERE NOT internal.is_barred(k.name)) touched
ORDER BY job_id LIMIT $1";

/// Settles these jobs ($1) anew: what barred nodes claim is out, and whatever their claims were about is open again.
const REOPEN: &str = "
UPDATE internal.rank_claim r SET contest = CASE WHEN internal.is_barred(k.name, r.start_time) THEN 'barred' ELSE 'contested' END
FROM internal.node_key k WHERE k.id = r.node_id AND r.job_id = ANY($1)";

const REOPEN_RUNS: &str = "
UPDATE internal.run_claim c SET is_excluded = internal.is_barred(k.name, c.first_seen)
FROM internal.node_key k WHERE k.id = c.node_id AND c.job_id = ANY($1)
  AND c.is_excluded IS DISTINCT FROM internal.is_barred(k.name, c.first_seen)";

/// Jobs behind one ($1) with claims that are contested.
const OPEN: &str = "
SELECT DISTINCT job_id FROM internal.rank_claim
WHERE contest = 'contested' AND job_id > $1 AND coalesce(end_time, now()) > now() - INTERVAL '1 day' ORDER BY job_id LIMIT $2";

/// Who claims ranks of these jobs, whether he reports them still, and which.
const CLAIMS: &str = "
SELECT r.job_id, r.node_id, array_agg(DISTINCT r.rank),
       bool_and(coalesce(r.ending = 'silent', r.end_time IS NULL AND c.reported_at < now() - internal.minutely_gap()))
FROM internal.rank_claim r LEFT JOIN internal.run_claim c USING (job_id, node_id)
WHERE r.job_id = ANY($1) AND r.node_id IS NOT NULL AND coalesce(r.contest, 'contested') = 'contested' GROUP BY 1, 2";

/// Pairs of nodes in contests about these jobs, and when such a contest was last.
const PAIRS: &str = "
SELECT job_id, node_id, other_node_id, extract(epoch FROM now() - max(coalesce(end_time, now())))::float8 FROM internal.rank_contests
WHERE job_id = ANY($1) AND contest IS NOT NULL AND contest <> 'barred' GROUP BY 1, 2, 3";

/// What nodes say that their ranks have sent to each rank. Sums are cumulative, so the newest of the last hour are enough.
const SENT: &str = "
SELECT job_id, node_id, peer, sum(bytes)::float8
FROM (SELECT m.job_id, m.node_id, m.operation, m.kind, m.epoch, c.peer, max(c.bytes) AS bytes
      FROM internal.mpi_node_traffic m CROSS JOIN LATERAL unnest(m.peers, m.bytes) c (peer, bytes)
      WHERE m.job_id = ANY($1) AND m.direction = 'transmit' AND m.time > now() - INTERVAL '1 hour' GROUP BY 1, 2, 3, 4, 5, 6) newest
GROUP BY 1, 2, 3";

const OVERRULE: &str = "
UPDATE internal.rank_claim r SET contest = 'overruled'
FROM unnest($1::bigint[], $2::bigint[]) w(job_id, node_id)
WHERE r.job_id = w.job_id AND r.node_id = w.node_id AND coalesce(r.contest, '') NOT IN ('overruled', 'barred')";

const EXCLUDE: &str = "
UPDATE internal.run_claim r SET is_excluded = true
FROM unnest($1::bigint[], $2::bigint[]) w(job_id, node_id)
WHERE r.job_id = w.job_id AND r.node_id = w.node_id AND NOT r.is_excluded";

/// Claims of these jobs that nothing is against any more, nor against an earlier or later claim of the node to the rank. What is against
/// any is found once: a node may have begun a rank a thousand times.
const RELEASE: &str = "
WITH against AS MATERIALIZED (
    SELECT DISTINCT c.job_id, c.rank, c.node_id FROM internal.rank_contests c
    WHERE c.job_id = ANY($1) AND c.contest = 'contested'
)
UPDATE internal.rank_claim r SET contest = NULL
WHERE r.job_id = ANY($1) AND r.contest = 'contested' AND NOT EXISTS (
    SELECT FROM against c WHERE c.job_id = r.job_id AND c.rank = r.rank AND c.node_id = r.node_id)";

/// One event an hour for a job.
const EVENTS: &str = "
INSERT INTO internal.events (time, instance, source, kind, severity, text, job_key)
SELECT now(), 'server', 'upkeep', 'job.contested', 'warning',
       format('nodes %s report the same %s of job %s: they count in no total until it is known which node runs them',
              string_agg(DISTINCT k.name, ', '), CASE count(DISTINCT r.rank) WHEN 1 THEN 'rank' ELSE count(DISTINCT r.rank) || ' ranks' END, j.key),
       j.key
FROM internal.rank_claim r JOIN internal.run j ON j.id = r.job_id JOIN internal.node_key k ON k.id = r.node_id
WHERE r.job_id = ANY($1) AND r.contest = 'contested'
  AND NOT EXISTS (SELECT FROM internal.events e WHERE e.kind = 'job.contested' AND e.job_key = j.key AND e.time BETWEEN now() - INTERVAL '1 hour' AND now())
GROUP BY j.key ORDER BY j.key
LIMIT greatest(0, $2 - (SELECT count(*) FROM internal.events WHERE kind = 'job.contested' AND time BETWEEN now() - INTERVAL '1 hour' AND now()))";

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContestsSettled {
    /// Jobs with contested ranks before.
    pub jobs: u64,
    /// Claims (job, node) that were overruled.
    pub overruled: u64,
    /// Claims of ranks that count again.
    pub released: u64,
}

impl std::ops::AddAssign for ContestsSettled {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.overruled += other.overruled;
        self.released += other.released;
    }
}

/// A node's claims in a job.
#[derive(Debug, Default)]
struct NodeClaim {
    ranks: BTreeSet<i32>,
    is_silent: bool,
}

/// What is known of one job.
#[derive(Debug, Default)]
struct ContestedJob {
    claims: BTreeMap<i64, NodeClaim>,
    /// Bytes that a node (first) says it sent to a rank.
    sent: BTreeMap<(i64, i32), f64>,
    /// Nodes in contests, the smaller number first.
    pairs: BTreeSet<(i64, i64)>,
}

/// Where rounds of [`settle_contests`] are.
#[derive(Debug, Default)]
pub struct ContestRounds {
    /// The last job that was looked at, 0 where none is left.
    after: i64,
    /// Jobs with more claims than can be compared, and when that was found out.
    aside: BTreeMap<i64, Instant>,
    /// Pairs of nodes in contests about any job, the smaller number first, and until when these count as signs in others.
    pairs: BTreeMap<(i64, i64), Instant>,
}

impl ContestRounds {
    /// Whether there are jobs that were not looked at yet.
    pub fn has_more(&self) -> bool {
        self.after != 0
    }
}

/// Looks for signs of the true one of contested claims, and lets those count that are not contested any more. Looks at some jobs,
/// those behind the last ones: a flood that can't be settled holds up no others. Writers of these jobs wait meanwhile; a job that takes
/// longer than [`STATEMENT_MAX`] stays as it is, and is tried again a minute later.
///
/// # Errors
/// The database's.
pub async fn settle_contests(
    client: &mut Client,
    rounds: &mut ContestRounds,
) -> Result<ContestsSettled, Error> {
    let what = "settling which node runs a rank";
    let touched = client.query(TOUCHED, &[&JOBS_MAX]).await.map_err(Error::sql(what))?;
    let touched: BTreeSet<i64> = touched.iter().map(|row| row.get(0)).collect();
    let open = client.query(OPEN, &[&rounds.after, &JOBS_MAX]).await.map_err(Error::sql(what))?;
    let open: Vec<i64> = open.iter().map(|row| row.get(0)).collect();
    let is_full = i64::try_from(open.len()).is_ok_and(|jobs| jobs == JOBS_MAX);
    rounds.after = open.last().copied().filter(|_| is_full).unwrap_or(0);
    rounds.aside.retain(|_, since| since.elapsed() < ASIDE);
    rounds.pairs.retain(|_, until| *until > Instant::now());
    let ids: BTreeSet<i64> = open.into_iter().chain(touched.iter().copied()).collect();
    let mut left = vec![ids.into_iter().filter(|id| !rounds.aside.contains_key(id)).collect::<Vec<_>>()];
    let mut settled = ContestsSettled::default();
    while let Some(ids) = left.pop() {
        if ids.is_empty() {
            continue;
        }
        let again: Vec<i64> = ids.iter().copied().filter(|id| touched.contains(id)).collect();
        match settle(client, &ids, &again, &mut rounds.pairs).await {
            Ok(part) => settled += part,
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => match ids.as_slice() {
                [id] => {
                    tracing::warn!(
                        job = id,
                        "a job has more contested claims than can be compared: they stay contested"
                    );
                    rounds.aside.insert(*id, Instant::now());
                }
                _ => left.extend(ids.chunks(ids.len().div_ceil(2)).map(<[i64]>::to_vec)),
            },
            Err(error) => return Err(Error::from_postgres(what, &error)),
        }
    }
    Ok(settled)
}

/// Settles these jobs, `again` among them from the beginning, in one transaction.
async fn settle(
    client: &mut Client,
    ids: &[i64],
    again: &[i64],
    site: &mut BTreeMap<(i64, i64), Instant>,
) -> Result<ContestsSettled, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    // In the writer's order of locks: jobs before ranks.
    transaction
        .execute("SELECT FROM internal.run WHERE id = ANY($1) ORDER BY id FOR UPDATE", &[&ids])
        .await?;
    let limit = format!("SET LOCAL statement_timeout = {}", STATEMENT_MAX.as_millis());
    transaction.batch_execute(&limit).await?;
    if !again.is_empty() {
        transaction.execute(REOPEN, &[&again]).await?;
        transaction.execute(REOPEN_RUNS, &[&again]).await?;
    }
    transaction.execute(EVENTS, &[&ids, &EVENTS_MAX]).await?;
    let jobs = read(&transaction, ids, site).await?;
    let site: BTreeSet<(i64, i64)> = site.keys().copied().collect();
    let (mut overruled_jobs, mut overruled_nodes) = (Vec::new(), Vec::new());
    for (id, job) in &jobs {
        for node in job.overruled(&site) {
            overruled_jobs.push(*id);
            overruled_nodes.push(node);
        }
    }
    let losers: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&overruled_jobs, &overruled_nodes];
    transaction.execute(OVERRULE, &losers).await?;
    transaction.execute(EXCLUDE, &losers).await?;
    let released = transaction.execute(RELEASE, &[&ids]).await?;
    transaction.execute(SETTLE_FACTS, &[&ids]).await?;
    transaction.execute(SETTLE_JOBS, &[&ids]).await?;
    transaction.commit().await?;
    Ok(ContestsSettled { jobs: ids.len() as u64, overruled: overruled_jobs.len() as u64, released })
}

/// These jobs; adds their pairs of nodes in contests to those of the `site`.
async fn read(
    transaction: &Transaction<'_>,
    ids: &[i64],
    site: &mut BTreeMap<(i64, i64), Instant>,
) -> Result<BTreeMap<i64, ContestedJob>, tokio_postgres::Error> {
    let mut jobs: BTreeMap<i64, ContestedJob> = ids.iter().map(|id| (*id, ContestedJob::default())).collect();
    for row in transaction.query(CLAIMS, &[&ids]).await? {
        let Some(job) = jobs.get_mut(&row.get(0)) else { continue };
        let ranks: Vec<i32> = row.get(2);
        job.claims
            .insert(row.get(1), NodeClaim { ranks: ranks.into_iter().collect(), is_silent: row.get(3) });
    }
    for row in transaction.query(PAIRS, &[&ids]).await? {
        let (one, other): (i64, i64) = (row.get(1), row.get(2));
        let pair = (one.min(other), one.max(other));
        let ago = Duration::try_from_secs_f64(row.get(3)).unwrap_or_default();
        if let Some(left) = PAIR_COUNTS.checked_sub(ago) {
            let until = site.entry(pair).or_insert_with(Instant::now);
            *until = (*until).max(Instant::now() + left);
        }
        if let Some(job) = jobs.get_mut(&row.get(0)) {
            job.pairs.insert(pair);
        }
    }
    for row in transaction.query(SENT, &[&ids]).await? {
        if let Some(job) = jobs.get_mut(&row.get(0)) {
            job.sent.insert((row.get(1), row.get(2)), row.get(3));
        }
    }
    Ok(jobs)
}

impl ContestedJob {
    /// Nodes whose claims are overruled.
    fn overruled(&self, site: &BTreeSet<(i64, i64)>) -> BTreeSet<i64> {
        let groups = self.confirmed_groups();
        let size = |node: i64| groups.get(&node).copied().unwrap_or(1);
        let mut overruled = BTreeSet::new();
        for (one, other) in &self.pairs {
            let (Some(claim), Some(rival)) = (self.claims.get(one), self.claims.get(other)) else { continue };
            let loser = match (size(*one), size(*other)) {
                (a, b) if a >= 2 && prevails(a, b) => Some(*other),
                (a, b) if b >= 2 && prevails(b, a) => Some(*one),
                _ => match (is_witnessed_against(*one, site), is_witnessed_against(*other, site)) {
                    (true, false) if size(*one) < 2 => Some(*one),
                    (false, true) if size(*other) < 2 => Some(*other),
                    _ if claim.is_silent && !rival.is_silent => Some(*one),
                    _ if rival.is_silent && !claim.is_silent => Some(*other),
                    _ => None,
                },
            };
            overruled.extend(loser);
        }
        overruled
    }

    /// How many nodes confirm each other, for each of them.
    fn confirmed_groups(&self) -> BTreeMap<i64, usize> {
        let nodes: Vec<i64> = self.claims.keys().copied().collect();
        let mut group: BTreeMap<i64, i64> = nodes.iter().map(|node| (*node, *node)).collect();
        for (at, one) in nodes.iter().enumerate() {
            for other in &nodes[at + 1..] {
                if !self.pairs.contains(&(*one, *other)) && self.confirm_each_other(*one, *other) {
                    let (from, to) = (group[other], group[one]);
                    group.values_mut().filter(|of| **of == from).for_each(|of| *of = to);
                }
            }
        }
        let mut sizes: BTreeMap<i64, usize> = BTreeMap::new();
        group.values().for_each(|of| *sizes.entry(*of).or_default() += 1);
        group.into_iter().map(|(node, of)| (node, sizes[&of])).collect()
    }

    fn confirm_each_other(&self, one: i64, other: i64) -> bool {
        let (there, back) = (self.sent_to(one, other), self.sent_to(other, one));
        there.min(back) > 0.0 && there.min(back) >= ALIKE * there.max(back)
    }

    /// Bytes that a node says its ranks sent to those that another one claims.
    fn sent_to(&self, from: i64, to: i64) -> f64 {
        self.claims[&to].ranks.iter().filter_map(|rank| self.sent.get(&(from, *rank))).sum()
    }
}

#[allow(clippy::cast_precision_loss)] // nodes of a job
fn prevails(group: usize, other: usize) -> bool {
    other as f64 <= PREVAILS * group as f64
}

/// Whether enough nodes are in contests with this one that do not contest among themselves.
fn is_witnessed_against(node: i64, site: &BTreeSet<(i64, i64)>) -> bool {
    let others = |of: i64| {
        let pairs = site.iter().filter(move |(one, other)| *one == of || *other == of);
        pairs.map(move |(one, other)| if *one == of { *other } else { *one })
    };
    // Those in the fewest contests first: a set of nodes without contests among them, found greedily.
    let mut candidates: Vec<(usize, i64)> =
        others(node).map(|other| (others(other).count(), other)).collect();
    candidates.sort_unstable();
    let mut agreed: Vec<i64> = Vec::new();
    for (_, candidate) in candidates {
        let contests = |other: &i64| site.contains(&(candidate.min(*other), candidate.max(*other)));
        if !agreed.iter().any(contests) {
            agreed.push(candidate);
        }
        if agreed.len() >= WITNESSES {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
