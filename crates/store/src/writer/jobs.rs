//! Jobs, their ranks, and when each node last reported them.
//!
//! Each node of a job reports it. What one knows fills what another left empty, and what they disagree about is shown as contested. No
//! node ends the job for the others: a job has ended when none of its ranks is open. A message that arrives late changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{Batch, Job, JobRank, Names};
use tokio_postgres::Transaction;

use super::contested_ranks;
use super::keys::{Keys, small};
use super::rank_gpus::RankGpus;
use super::record_times::optional_time;
use super::versioned::execute;
use super::{WriteError, failed};

/// The jobs and ranks of some batches, the newest record of each.
#[derive(Default)]
pub(super) struct Jobs {
    /// Whether the newest record is a node's, and the record.
    jobs: BTreeMap<i64, (bool, Job)>,
    ranks: BTreeMap<(i64, i32, i64, Option<i64>), Value>,
    gpus: RankGpus,
    nodes: BTreeMap<(i64, i64), Value>,
}

impl Jobs {
    /// Adds a batch's jobs and ranks.
    pub fn add(&mut self, batch: &Batch, keys: &Keys, batch_time: i64) -> Result<(), String> {
        for job in &batch.jobs {
            let id = keys.job(&job.key)?;
            if !batch.node.is_empty() {
                let node = keys.node(&batch.node)?;
                let seen = [job.end, job.seen, batch_time].into_iter().find(|time| *time != 0);
                let mut row = job_row(id, job);
                row["job_id"] = id.into();
                row["node_id"] = node.into();
                row["seen"] = to_rfc3339(seen.unwrap_or(batch_time)).into();
                row["ended"] = (job.end != 0).into();
                self.nodes.insert((id, node), row);
            }
            let is_of_node = !batch.node.is_empty();
            let (_, known) = self.jobs.entry(id).or_insert_with(|| (is_of_node, job.clone()));
            let start = [known.start, job.start].into_iter().filter(|start| *start != 0).min();
            let world_size = known.world_size.max(job.world_size);
            self.jobs.insert(id, (is_of_node, Job { start: start.unwrap_or(0), world_size, ..job.clone() }));
        }
        for rank in &batch.job_ranks {
            let (id, number) = (keys.job(&rank.job_key)?, small(rank.rank, "rank")?);
            let host = if rank.host.is_empty() { &batch.node } else { &rank.host };
            // Of a sender that is judged it is the batch's node.
            let node = keys.node(host).ok();
            let mut row = rank_row(id, number, rank, host, node);
            if !self.gpus.add(&row, rank, host, keys) {
                row["gpu_evidence"] = Value::Null;
            }
            self.ranks.insert((id, number, rank.start, node), row);
        }
        Ok(())
    }

    /// Brings the tables up to date.
    pub async fn apply(self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        let touched: BTreeSet<i64> =
            self.jobs.keys().copied().chain(self.ranks.keys().map(|(job, ..)| *job)).collect();
        if touched.is_empty() {
            return Ok(());
        }
        let touched: Vec<i64> = touched.into_iter().collect();
        transaction.execute(LOCK_JOBS, &[&touched]).await.map_err(failed("inventory: jobs"))?;
        let row = |(id, (is_of_node, job)): (i64, (bool, Job))| {
            let mut row = job_row(id, &job);
            row["is_of_node"] = is_of_node.into();
            (id, row)
        };
        execute(transaction, "jobs", UPDATE_JOBS, self.jobs.into_iter().map(row).collect()).await?;
        let mut changed = touched_by(transaction, CHANGED_RUNS, self.nodes.values()).await?;
        execute(transaction, "nodes of jobs", UPSERT_NODES, self.nodes.clone()).await?;
        execute(transaction, "ranks of jobs", UPSERT_RANKS, self.ranks.clone()).await?;
        self.gpus.apply(transaction).await?;
        changed.append(&mut touched_by(transaction, NOTE_RANKS, self.ranks.values()).await?);
        if !changed.is_empty() {
            let changed: Vec<i64> = changed.into_iter().collect();
            let settled = transaction.execute(SETTLE_FACTS, &[&changed]).await;
            settled.map_err(failed("inventory: facts of jobs"))?;
        }
        contested_ranks::mark(transaction, self.ranks.values()).await?;
        execute(transaction, "ranks that report again", REOPEN_RANKS, self.nodes.clone()).await?;
        execute(transaction, "ranks on nodes that are done", END_RANKS, self.nodes).await?;
        transaction.execute(SETTLE_JOBS, &[&touched]).await.map_err(failed("inventory: ends of jobs"))?;
        Ok(())
    }
}

/// The jobs that a statement over these rows answers with.
async fn touched_by(
    transaction: &Transaction<'_>,
    sql: &str,
    rows: impl Iterator<Item = &Value>,
) -> Result<BTreeSet<i64>, WriteError> {
    let rows: Vec<Value> = rows.cloned().collect();
    if rows.is_empty() {
        return Ok(BTreeSet::new());
    }
    let found = transaction.query(sql, &[&Value::Array(rows)]).await;
    Ok(found.map_err(failed("inventory: claims of jobs"))?.iter().map(|row| row.get(0)).collect())
}

fn job_row(id: i64, job: &Job) -> Value {
    json!({
        "id": id, "scheduler": job.scheduler, "native_id": job.native_id, "step": job.step, "uid": job.uid,
        "user_name": job.user, "command": job.command, "start_time": optional_time(job.start),
        "end_time": optional_time(job.end), "world_size": job.world_size, "name": job.name,
        "account": job.account, "queue": job.queue, "array_id": job.array_id, "evidence": job.evidence,
    })
}

fn rank_row(id: i64, number: i32, rank: &JobRank, host: &str, node: Option<i64>) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let names = |names: &Option<Names>| names.as_ref().map(|names| names.name.clone());
    json!({
        "job_id": id, "rank": number, "node_id": node, "host": host, "pid": rank.pid,
        "world_size": rank.world_size, "mpi_library": rank.mpi_library, "start_time": to_rfc3339(rank.start),
        "end_time": optional_time(rank.end), "ending": text(&rank.ending), "gpu_evidence": text(&rank.gpu_evidence),
        "visible_devices": rank.visible_devices,
        "hca_ports": names(&rank.hca_ports), "cpus": text(&rank.cpus),
        "numa_nodes": (!rank.cpus.is_empty()).then_some(&rank.numa_nodes),
        "hca_numa_nodes": (!rank.hca_numa_nodes.is_empty()).then_some(&rank.hca_numa_nodes),
    })
}

/// One transaction at a time changes a job ($1): each reads what ranks other nodes have reported, and of two that commit at once
/// neither would see that the other's ranks have ended.
const LOCK_JOBS: &str = "SELECT FROM internal.run WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// A job key that begins again after its end runs. A job with no known rank ends by its own record. What else a run is, its nodes
/// settle together; a record without a node is a tool's, and fills what is empty.
const UPDATE_JOBS: &str = "
UPDATE internal.run j SET (scheduler, native_id, step, uid, user_name, command, start_time, end_time, world_size, name,
    account, queue, array_id, evidence) =
    (n.scheduler, n.native_id, n.step, n.uid, n.user_name, n.command, n.start_time, n.end_time, n.world_size, n.name,
    n.account, n.queue, n.array_id, n.evidence)
FROM (
    SELECT j.id, coalesce(nullif(t.scheduler, ''), j.scheduler) AS scheduler,
        coalesce(nullif(t.native_id, ''), j.native_id) AS native_id, coalesce(nullif(t.step, ''), j.step) AS step,
        coalesce(t.uid, j.uid) AS uid, coalesce(nullif(t.user_name, ''), j.user_name) AS user_name,
        coalesce(nullif(t.command, ''), j.command) AS command, least(t.start_time, j.start_time) AS start_time,
        CASE WHEN EXISTS (SELECT FROM internal.rank_claim r WHERE r.job_id = j.id) THEN j.end_time
             WHEN s.end_time IS NOT NULL THEN greatest(s.end_time, j.end_time)
             WHEN s.start_time > j.end_time THEN NULL ELSE j.end_time END AS end_time,
        greatest(t.world_size, j.world_size) AS world_size, coalesce(nullif(t.name, ''), j.name) AS name,
        coalesce(nullif(t.account, ''), j.account) AS account, coalesce(nullif(t.queue, ''), j.queue) AS queue,
        coalesce(nullif(t.array_id, ''), j.array_id) AS array_id, coalesce(nullif(t.evidence, ''), j.evidence) AS evidence
    FROM jsonb_to_recordset($1) AS s(id bigint, is_of_node boolean, scheduler text, native_id text, step text, uid bigint,
        user_name text, command text, start_time timestamptz, end_time timestamptz, world_size integer, name text,
        account text, queue text, array_id text, evidence text)
    JOIN internal.run j ON j.id = s.id
    LEFT JOIN LATERAL (SELECT s.* WHERE NOT s.is_of_node) t ON true
) n
WHERE j.id = n.id AND ROW(j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time, j.end_time,
    j.world_size, j.name, j.account, j.queue, j.array_id, j.evidence) IS DISTINCT FROM ROW(n.scheduler, n.native_id,
    n.step, n.uid, n.user_name, n.command, n.start_time, n.end_time, n.world_size, n.name, n.account, n.queue,
    n.array_id, n.evidence)";

/// A rank's own end counts more than that of an orphaned job.
const UPSERT_RANKS: &str = "
INSERT INTO internal.rank_claim AS r
    (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending, gpu_evidence, visible_devices,
    hca_ports, cpus, numa_nodes, hca_numa_nodes)
SELECT job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending, gpu_evidence, visible_devices,
    hca_ports, cpus, numa_nodes, hca_numa_nodes
FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint, host text, pid bigint,
    world_size integer, mpi_library text, start_time timestamptz, end_time timestamptz, ending text,
    gpu_evidence text, visible_devices text, hca_ports text[], cpus text, numa_nodes integer[], hca_numa_nodes integer[])
ORDER BY job_id, rank, node_id, start_time
ON CONFLICT (job_id, rank, node_id, start_time) DO UPDATE SET host = excluded.host,
    pid = excluded.pid, world_size = excluded.world_size, mpi_library = excluded.mpi_library,
    end_time = coalesce(excluded.end_time, r.end_time), ending = coalesce(excluded.ending, r.ending),
    gpu_evidence = coalesce(excluded.gpu_evidence, r.gpu_evidence),
    visible_devices = coalesce(excluded.visible_devices, r.visible_devices), hca_ports = coalesce(excluded.hca_ports, r.hca_ports),
    cpus = coalesce(excluded.cpus, r.cpus), numa_nodes = coalesce(excluded.numa_nodes, r.numa_nodes),
    hca_numa_nodes = coalesce(excluded.hca_numa_nodes, r.hca_numa_nodes)";

/// `reported_at` is this server's time: a wrong clock of a node does not make its jobs orphans. A job that ends is looked at for a
/// verdict at once, and one that begins again after its last verdict waits for another; all else leaves `judge_after` as it is, so
/// that no index changes.
const UPSERT_NODES: &str = "
INSERT INTO internal.run_claim AS n (job_id, node_id, first_seen, last_seen, scheduler, native_id, step, uid, user_name, command, start_time,
    end_time, world_size, name, account, queue, array_id, evidence)
SELECT job_id, node_id, seen, seen, nullif(scheduler, ''), nullif(native_id, ''), nullif(step, ''), uid, nullif(user_name, ''),
    nullif(command, ''), start_time, end_time, nullif(world_size, 0), nullif(name, ''), nullif(account, ''), nullif(queue, ''),
    nullif(array_id, ''), nullif(evidence, '')
FROM jsonb_to_recordset($1) AS s(job_id bigint, node_id bigint, seen timestamptz, scheduler text, native_id text, step text, uid bigint,
    user_name text, command text, start_time timestamptz, end_time timestamptz, world_size integer, name text, account text, queue text,
    array_id text, evidence text)
ORDER BY job_id, node_id
ON CONFLICT (job_id, node_id) DO UPDATE SET first_seen = least(n.first_seen, excluded.first_seen),
    last_seen = greatest(n.last_seen, excluded.last_seen), reported_at = now(),
    judge_after = CASE WHEN excluded.end_time IS NULL THEN coalesce(n.judge_after, now()) ELSE now() END, scheduler = excluded.scheduler,
    native_id = excluded.native_id, step = excluded.step, uid = excluded.uid,
    user_name = coalesce(excluded.user_name, n.user_name), command = coalesce(excluded.command, n.command),
    start_time = least(n.start_time, excluded.start_time), end_time = excluded.end_time,
    world_size = greatest(n.world_size, excluded.world_size), name = coalesce(excluded.name, n.name),
    account = coalesce(excluded.account, n.account), queue = coalesce(excluded.queue, n.queue),
    array_id = coalesce(excluded.array_id, n.array_id), evidence = coalesce(excluded.evidence, n.evidence)";

/// A node reports again: ranks that were closed as orphans are reopened.
const REOPEN_RANKS: &str = "
UPDATE internal.rank_claim r SET end_time = NULL, ending = NULL
FROM jsonb_to_recordset($1) AS s(job_id bigint, node_id bigint, seen timestamptz, ended boolean)
WHERE r.job_id = s.job_id AND r.node_id = s.node_id AND NOT s.ended AND r.ending = 'silent' AND r.end_time < s.seen";

/// A node that has no rank of a job any more: a rank that is still open there has lost its own record.
const END_RANKS: &str = "
UPDATE internal.rank_claim r SET end_time = greatest(r.start_time, s.seen), ending = 'lost'
FROM jsonb_to_recordset($1) AS s(job_id bigint, node_id bigint, seen timestamptz, ended boolean)
WHERE r.job_id = s.job_id AND r.node_id = s.node_id AND s.ended AND r.end_time IS NULL AND r.start_time <= s.seen";

/// A job runs while one of its ranks ($1 jobs) does, wherever. Where ranks are contested, the nodes without a contest decide; where all
/// nodes have one, it has ended as soon as one of them says so of all that it claims: a node that makes up ranks must not keep it
/// running. Once it is settled who runs them, that decides.
pub(crate) const SETTLE_JOBS: &str = "
UPDATE internal.run j SET end_time = n.end_time
FROM (
    SELECT i.id, CASE
        WHEN NOT x.is_contested AND EXISTS (SELECT FROM internal.job_rank r WHERE r.job_id = i.id AND r.end_time IS NULL) THEN NULL
        WHEN NOT x.is_contested THEN (SELECT max(r.end_time) FROM internal.job_rank r WHERE r.job_id = i.id)
        ELSE (SELECT CASE WHEN bool_or(c.is_undisputed) THEN CASE WHEN bool_and(c.has_ended) FILTER (WHERE c.is_undisputed)
                                   THEN max(c.end_time) FILTER (WHERE c.is_undisputed) END
                          ELSE max(c.end_time) FILTER (WHERE c.has_ended) END
              FROM (SELECT bool_and(r.contest IS NULL) AS is_undisputed, bool_and(r.end_time IS NOT NULL) AS has_ended,
                           max(r.end_time) AS end_time
                    FROM internal.rank_claim r WHERE r.job_id = i.id AND r.contest IS DISTINCT FROM 'barred' GROUP BY r.node_id) c)
        END AS end_time
    FROM unnest($1::bigint[]) AS i(id)
    CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM internal.rank_claim r WHERE r.job_id = i.id AND r.contest IS NOT NULL)) x (is_contested)
    WHERE EXISTS (SELECT FROM internal.rank_claim r WHERE r.job_id = i.id)
) n
WHERE j.id = n.id AND j.end_time IS DISTINCT FROM n.end_time";

/// Runs that a node ($1) says something new about: what is shown of them is then settled anew.
const CHANGED_RUNS: &str = "
SELECT DISTINCT s.job_id
FROM jsonb_to_recordset($1) AS s(job_id bigint, node_id bigint, uid bigint, user_name text, command text, start_time timestamptz,
    world_size integer, name text, account text, queue text, array_id text, evidence text)
LEFT JOIN internal.run_claim n USING (job_id, node_id)
WHERE n.job_id IS NULL OR n.uid <> s.uid OR s.start_time < n.start_time OR s.world_size > coalesce(n.world_size, 0)
   OR nullif(s.user_name, '') IS DISTINCT FROM n.user_name OR nullif(s.command, '') IS DISTINCT FROM n.command
   OR nullif(s.name, '') IS DISTINCT FROM n.name OR nullif(s.account, '') IS DISTINCT FROM n.account
   OR nullif(s.queue, '') IS DISTINCT FROM n.queue OR nullif(s.array_id, '') IS DISTINCT FROM n.array_id
   OR nullif(s.evidence, '') IS DISTINCT FROM n.evidence";

/// Nodes that report their first rank ($1) of a run.
const NOTE_RANKS: &str = "
UPDATE internal.run_claim n SET has_ranks = true
FROM (SELECT DISTINCT job_id, node_id FROM jsonb_to_recordset($1) AS s(job_id bigint, node_id bigint)) s
WHERE n.job_id = s.job_id AND n.node_id = s.node_id AND NOT n.has_ranks
RETURNING n.job_id";

/// What is shown of runs ($1): that on which all nodes agree whose claims count, those without a rank of it only where no node has one.
/// It began with its first node.
pub(crate) const SETTLE_FACTS: &str = "
UPDATE internal.run j SET (scheduler, native_id, step, uid, user_name, command, start_time, world_size, name, account, queue, array_id,
    evidence, contested_facts) = (coalesce(n.scheduler, j.scheduler), coalesce(n.native_id, j.native_id),
    coalesce(n.step, j.step), coalesce(n.uid, j.uid), n.user_name, n.command, n.start_time, n.world_size, n.name,
    n.account, n.queue, n.array_id, n.evidence, n.contested)
FROM (
    SELECT i.id AS job_id, max(scheduler) AS scheduler, max(native_id) AS native_id, max(step) AS step, max(uid) AS uid,
        CASE WHEN min(user_name) = max(user_name) THEN max(user_name) END AS user_name,
        CASE WHEN min(command) = max(command) THEN max(command) END AS command, min(start_time) AS start_time,
        CASE WHEN min(world_size) = max(world_size) THEN max(world_size) END AS world_size,
        CASE WHEN min(name) = max(name) THEN max(name) END AS name,
        CASE WHEN min(account) = max(account) THEN max(account) END AS account,
        CASE WHEN min(queue) = max(queue) THEN max(queue) END AS queue,
        CASE WHEN min(array_id) = max(array_id) THEN max(array_id) END AS array_id,
        CASE WHEN min(evidence) = max(evidence) THEN max(evidence) END AS evidence,
        nullif(array_remove(ARRAY[
            CASE WHEN min(user_name) < max(user_name) THEN 'user_name' END, CASE WHEN min(command) < max(command) THEN 'command' END,
            CASE WHEN min(world_size) < max(world_size) THEN 'world_size' END, CASE WHEN min(name) < max(name) THEN 'name' END,
            CASE WHEN min(account) < max(account) THEN 'account' END, CASE WHEN min(queue) < max(queue) THEN 'queue' END,
            CASE WHEN min(array_id) < max(array_id) THEN 'array_id' END], NULL), '{}') AS contested
    FROM unnest($1::bigint[]) i(id) LEFT JOIN internal.run_claim c ON c.job_id = i.id AND NOT c.is_excluded
        AND (c.has_ranks OR NOT EXISTS (SELECT FROM internal.run_claim o WHERE o.job_id = i.id AND o.has_ranks))
    WHERE EXISTS (SELECT FROM internal.run_claim e WHERE e.job_id = i.id)
    GROUP BY i.id
) n
WHERE j.id = n.job_id AND ROW(j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time, j.world_size, j.name,
    j.account, j.queue, j.array_id, j.evidence, j.contested_facts) IS DISTINCT FROM ROW(coalesce(n.scheduler, j.scheduler),
    coalesce(n.native_id, j.native_id), coalesce(n.step, j.step), coalesce(n.uid, j.uid), n.user_name, n.command, n.start_time, n.world_size, n.name, n.account, n.queue, n.array_id, n.evidence, n.contested)";
