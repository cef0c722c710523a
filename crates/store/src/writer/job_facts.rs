//! What ranks report about their job once: names of communicators, settings of the MPI library. Reported again after each
//! reconnect, so the same row comes many times.

use serde_json::{Value, json};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{JobComm, JobSetting};

use super::keys::{Keys, small};

/// Key and row of a named communicator.
pub(super) type CommKey = (i32, i32, i64, i32);

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

/// Key and row of a setting; ranks mostly have the same, so the first that reported it stands for all.
pub(super) type SettingKey = (i32, String, String);

pub(super) fn setting_row(setting: &JobSetting, keys: &Keys) -> Result<(SettingKey, Value), String> {
    let (job, rank) = (keys.job(&setting.job_key)?, small(setting.rank, "rank")?);
    let (name, value) = (storable(&setting.name), storable(&setting.value));
    let row = json!({
        "job_id": job, "name": name, "value": value, "rank": rank, "told_at": to_rfc3339(setting.time),
    });
    Ok(((job, name, value), row))
}

/// PostgreSQL's text has no NUL byte.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(super) const UPSERT_COMMS: &str = "
INSERT INTO job_comm AS c (job_id, rank, epoch, comm, name, size, rank_in_comm, named_at)
SELECT job_id, rank, epoch, comm, name, size, rank_in_comm, named_at
FROM jsonb_to_recordset($1) AS s(job_id integer, rank integer, epoch timestamptz, comm integer, name text,
    size integer, rank_in_comm integer, named_at timestamptz)
ORDER BY job_id, rank, epoch, comm
ON CONFLICT (job_id, rank, epoch, comm) DO UPDATE SET name = excluded.name, named_at = excluded.named_at
WHERE c.named_at < excluded.named_at AND c.name <> excluded.name";

pub(super) const INSERT_SETTINGS: &str = "
INSERT INTO job_setting (job_id, name, value, rank, told_at)
SELECT job_id, name, value, rank, told_at
FROM jsonb_to_recordset($1) AS s(job_id integer, name text, value text, rank integer, told_at timestamptz)
ORDER BY job_id, name, value
ON CONFLICT DO NOTHING";
