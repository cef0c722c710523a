//! What ranks report about their job once: names of communicators, settings of the MPI library. Reported again after each
//! reconnect, so the same row comes many times. And what its threads are in for long; only the newest report of it counts.

use serde_json::{Value, json};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{JobComm, JobSetting, MpiOpenCall};

use super::keys::{Keys, small};

/// Key and row of a named communicator.
pub(super) type CommKey = (i64, i32, i64, i32);

pub(super) fn comm_row(comm: &JobComm, keys: &Keys) -> Result<(CommKey, Value), String> {
    let (job, rank) = (keys.job(&comm.job_key)?, small(comm.rank, "rank")?);
    let number = small(comm.comm, "communicator")?;
    let row = json!({
        "job_id": job, "rank": rank, "epoch": to_rfc3339(comm.epoch), "comm": number,
        "name": storable(&comm.name), "size": comm.size, "rank_in_comm": comm.rank_in_comm,
        "named_at": to_rfc3339(comm.time),
    });
    Ok(((job, rank, comm.epoch, number), row))
}

/// Key and row of a setting; ranks mostly have the same, so the first of a node that reported it stands for all.
pub(super) type SettingKey = (i64, Option<i64>, String, String);

pub(super) fn setting_row(
    setting: &JobSetting,
    node: Option<i64>,
    keys: &Keys,
) -> Result<(SettingKey, Value), String> {
    let (job, rank) = (keys.job(&setting.job_key)?, small(setting.rank, "rank")?);
    let (name, value) = (storable(&setting.name), storable(&setting.value));
    let row = json!({
        "job_id": job, "node_id": node, "name": name, "value": value, "rank": rank, "told_at": to_rfc3339(setting.time),
    });
    Ok(((job, node, name, value), row))
}

/// Job, rank and thread of an open call, and the node that reports it.
pub(super) type OpenCallKey = (i64, i32, i32, Option<i64>);

pub(super) fn open_call_row(
    call: &MpiOpenCall,
    node: Option<i64>,
    keys: &Keys,
) -> Result<(OpenCallKey, Value), String> {
    let (job, rank) = (keys.job(&call.job_key)?, small(call.rank, "rank")?);
    let thread = small(call.thread, "thread")?;
    let oldest = (!call.oldest_request.is_empty()).then(|| storable(&call.oldest_request));
    let row = json!({
        "job_id": job, "rank": rank, "node_id": node, "thread": thread, "epoch": to_rfc3339(call.epoch),
        "operation": storable(&call.operation), "start_time": to_rfc3339(call.start),
        "reported_at": to_rfc3339(call.time), "has_returned": call.has_returned, "is_on_world": call.is_on_world,
        "comm": call.comm, "comm_size": call.comm_size, "peer": call.peer,
        "pending_requests": call.pending_requests, "oldest_request": oldest,
        "tag": call.tag, "is_from_any": call.is_from_any, "requests": call.requests, "oldest_peer": call.oldest_peer,
        "oldest_tag": call.oldest_tag, "threads_elsewhere": call.threads_elsewhere, "threads_to_come": call.threads_to_come,
    });
    Ok(((job, rank, thread, node), row))
}

/// PostgreSQL's text has no NUL byte.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(super) const UPSERT_COMMS: &str = "
INSERT INTO internal.job_comm AS c (job_id, rank, epoch, comm, name, size, rank_in_comm, named_at)
SELECT job_id, rank, epoch, comm, name, size, rank_in_comm, named_at
FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, epoch timestamptz, comm integer, name text,
    size integer, rank_in_comm integer, named_at timestamptz)
ORDER BY job_id, rank, epoch, comm
ON CONFLICT (job_id, rank, epoch, library, comm) DO UPDATE SET name = excluded.name, named_at = excluded.named_at
WHERE c.named_at < excluded.named_at AND c.name <> excluded.name";

pub(super) const INSERT_SETTINGS: &str = "
INSERT INTO internal.job_setting (job_id, node_id, name, value, rank, told_at)
SELECT job_id, node_id, name, value, rank, told_at
FROM jsonb_to_recordset($1) AS s(job_id bigint, node_id bigint, name text, value text, rank integer, told_at timestamptz)
ORDER BY job_id, name, value, node_id
ON CONFLICT DO NOTHING";

pub(super) const UPSERT_OPEN_CALLS: &str = "
INSERT INTO internal.mpi_open_call AS c (job_id, rank, node_id, thread, epoch, operation, start_time, reported_at, has_returned, is_on_world,
    comm, comm_size, peer, pending_requests, oldest_request, tag, is_from_any, requests, oldest_peer, oldest_tag,
    threads_elsewhere, threads_to_come)
SELECT job_id, rank, node_id, thread, epoch, operation, start_time, reported_at, has_returned, is_on_world,
    comm, comm_size, peer, pending_requests, oldest_request, tag, is_from_any, requests, oldest_peer, oldest_tag,
    threads_elsewhere, threads_to_come
FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint, thread integer, epoch timestamptz, operation text,
    start_time timestamptz, reported_at timestamptz, has_returned boolean, is_on_world boolean, comm integer,
    comm_size integer, peer integer, pending_requests integer, oldest_request text, tag integer, is_from_any boolean,
    requests integer, oldest_peer integer, oldest_tag integer, threads_elsewhere integer, threads_to_come integer)
ORDER BY job_id, rank, thread, node_id
ON CONFLICT (job_id, rank, library, thread, node_id) DO UPDATE SET epoch = excluded.epoch, operation = excluded.operation,
    start_time = excluded.start_time, reported_at = excluded.reported_at, has_returned = excluded.has_returned,
    is_on_world = excluded.is_on_world, comm = excluded.comm, comm_size = excluded.comm_size, peer = excluded.peer,
    pending_requests = excluded.pending_requests, oldest_request = excluded.oldest_request, tag = excluded.tag,
    is_from_any = excluded.is_from_any, requests = excluded.requests, oldest_peer = excluded.oldest_peer,
    oldest_tag = excluded.oldest_tag, threads_elsewhere = excluded.threads_elsewhere, threads_to_come = excluded.threads_to_come
WHERE c.reported_at <= excluded.reported_at";
