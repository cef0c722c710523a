//! Detail on demand, as it arrives: what of a batch was requested, and what became of the request.
//!
//! A sender's word that records were requested is held against the table of requests: what nobody requested is rejected. Rows
//! of detail have tables of their own and are there once, however often they were requested.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_sample::admission::Rejection;
use throughline_sample::wire::{Batch, DetailEnd, IbPortSample};
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::keys::Keys;
use super::{Content, Entry, RecordRejection, WriteError, failed};
use crate::detail::CRAWLER;

/// Longest refusal and remark of a sender that are stored, bytes.
const TEXT_BYTES_MAX: usize = 500;

/// A request and one of its nodes; the crawler of a subnet is [`CRAWLER`].
type Key = (i64, i64);

/// A request that is open on a node.
struct Open {
    job: Option<i64>,
    job_key: Option<String>,
    /// Ports of the fabric.
    ports: Option<Vec<i64>>,
    /// All records were requested.
    is_full: bool,
    since: i64,
    until: i64,
    records_max: i64,
    attempt: Option<i64>,
    records: i64,
    end: Option<DetailEnd>,
}

/// Requests that the entries of a transaction name, locked.
#[derive(Default)]
pub(super) struct Details(BTreeMap<Key, Open>);

/// Calls `$apply!` with the kinds of record that are requested of a job.
macro_rules! of_jobs {
    ($apply:ident) => {
        $apply!(mpi_ops, mpi_peers, mpi_pvars, mpi_regions)
    };
}

/// Calls `$apply!` with the kinds of record that are requested of a node.
macro_rules! of_nodes {
    ($apply:ident) => {
        $apply!(host_ports, gpu_links, gpu_pcie, gpu_pm)
    };
}

/// Calls `$apply!` with the kinds of record that are requested of a link.
macro_rules! of_links {
    ($apply:ident) => {
        $apply!(ib_ports)
    };
}

/// How many records of these kinds a batch has.
fn count(batch: &Batch) -> i64 {
    macro_rules! sum {
        ($($kind:ident),+) => { 0 $(+ batch.$kind.len())+ };
    }
    i64::try_from(of_jobs!(sum) + of_nodes!(sum) + of_links!(sum)).unwrap_or(i64::MAX)
}

impl Details {
    /// Locks the requests that these entries answer.
    pub async fn lock(
        transaction: &Transaction<'_>,
        entries: &[&Entry],
        keys: &Keys,
    ) -> Result<Self, WriteError> {
        let named = entries.iter().filter_map(|entry| match &entry.content {
            Content::Batch(batch) => key(batch, keys),
            Content::Undecodable { .. } => None,
        });
        let named: Vec<Key> = named.collect();
        if named.is_empty() {
            return Ok(Self::default());
        }
        let (requests, nodes): (Vec<i64>, Vec<i64>) = named.into_iter().unzip();
        let query = "SELECT n.request_id, n.node_id, j.key, r.since, r.until, r.records_max, n.attempt, n.records, r.job_id, \
                        r.resolution_seconds = 0, r.ib_port_ids \
                     FROM internal.detail_request_node n JOIN internal.detail_request r ON r.id = n.request_id \
                     LEFT JOIN internal.run j ON j.id = r.job_id \
                     WHERE (n.request_id, n.node_id) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[])) \
                       AND n.state IN ('waiting', 'sent', 'receiving') \
                     ORDER BY n.request_id, n.node_id FOR UPDATE OF n";
        let rows = transaction.query(query, &[&requests, &nodes]).await;
        let rows = rows.map_err(failed("looking for requests for detail"))?;
        let open = |row: &tokio_postgres::Row| {
            let open = Open {
                job: row.get(8),
                job_key: row.get(2),
                ports: row.get(10),
                is_full: row.get(9),
                since: nanoseconds(row.get(3)),
                until: nanoseconds(row.get(4)),
                records_max: row.get(5),
                attempt: row.get(6),
                records: row.get(7),
                end: None,
            };
            ((row.get(0), row.get(1)), open)
        };
        Ok(Self(rows.iter().map(open).collect()))
    }

    /// Leaves of a batch what was requested of its sender.
    pub fn admit<'a>(&self, batch: &'a Batch, keys: &Keys) -> (Cow<'a, Batch>, Vec<RecordRejection>) {
        let open = key(batch, keys).and_then(|key| self.0.get(&key));
        if open.is_some_and(|open| open.takes_all(batch, keys)) {
            return (Cow::Borrowed(batch), Vec::new());
        }
        let sender = Batch {
            node: batch.node.clone(),
            fabric: batch.fabric.clone(),
            boot_id: batch.boot_id.clone(),
            order: batch.order,
            detail: batch.detail.clone(),
            ..Batch::default()
        };
        let (mut left, mut rejected) = (sender, Vec::new());
        let mut over = false;
        if let Some(open) = &open {
            over = open.is_over(batch);
            let is_within = |time: i64| !over && (open.since..open.until).contains(&time);
            macro_rules! of_job {
                ($($kind:ident),+) => {
                    $(left.$kind = batch.$kind.iter().filter(|record| {
                        is_within(record.time) && open.job_key.as_ref() == Some(&record.job_key)
                    }).cloned().collect();)+
                };
            }
            of_jobs!(of_job);
            macro_rules! of_node {
                ($($kind:ident),+) => {
                    $(left.$kind = batch.$kind.iter().filter(|record| {
                        is_within(record.time) && open.is_of_node()
                    }).cloned().collect();)+
                };
            }
            of_nodes!(of_node);
            let fabric = keys.fabric(batch).ok();
            let ports = batch.ib_ports.iter();
            left.ib_ports = ports
                .filter(|record| is_within(record.time) && open.has_port(keys, fabric, record))
                .cloned()
                .collect();
        }
        let reason = if over { Rejection::Quota } else { Rejection::Detail };
        macro_rules! note {
            ($($kind:ident),+) => {
                // Of a kind as many as are missing; those that nobody can request, all of them.
                $(for record in batch.$kind.iter().skip(left.$kind.len()) {
                    RecordRejection::note(&mut rejected, reason, stringify!($kind), record);
                })+
            };
        }
        throughline_sample::record_kinds!(note);
        (Cow::Owned(left), rejected)
    }

    /// A batch that is left of an admitted one is about to be written.
    pub fn note(&mut self, batch: &Batch, keys: &Keys) {
        let open = key(batch, keys).and_then(|key| self.0.get_mut(&key));
        let (Some(open), Some(part)) = (open, &batch.detail) else { return };
        let attempt = part.attempt.cast_signed();
        if open.attempt != Some(attempt) {
            open.attempt = Some(attempt);
            open.records = 0;
        }
        open.records += count(batch);
        open.end.clone_from(&part.end);
    }

    /// Writes what became of the requests.
    pub async fn write(self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        for ((request, node), open) in self.0 {
            let Some(attempt) = open.attempt else { continue };
            let (state, since) = (open.state(), open.since);
            let end = open.end.clone().unwrap_or_default();
            let refusal = Some(cut(&end.refusal)).filter(|text| !text.is_empty());
            let expected = i64::try_from(end.records).unwrap_or(i64::MAX);
            let remark = match cut(&end.text) {
                text if !text.is_empty() => Some(text),
                _ if state == "incomplete" && expected == open.records && end.damaged == 0 => {
                    Some(if Open::is_gone(&end, since) && end.recorded_from > 0 {
                        let file = if node == CRAWLER { "fabric.toml" } else { "agent.toml" };
                        format!(
                            "the recorder does not reach back to the begin of it: raise retention_seconds or bytes_max in [recorder] of \
                             {file}, or request it sooner"
                        )
                    } else {
                        "the recorder has nothing yet".to_owned()
                    })
                }
                _ if state == "incomplete" && expected == open.records => {
                    Some("a part of the recorder is damaged: what was there is lost".to_owned())
                }
                _ if state == "incomplete" => Some(format!(
                    "{} of {expected} records arrived; request them again while the recorder has them",
                    open.records
                )),
                _ => None,
            };
            let recorded = u64::try_from(end.recorded_from).ok().filter(|from| *from > 0);
            let recorded = recorded.map(|from| UNIX_EPOCH + Duration::from_nanos(from));
            let damaged = i64::try_from(end.damaged).unwrap_or(i64::MAX);
            let update = "UPDATE internal.detail_request_node SET state = $3, attempt = $4, records = $5, recorded_from = $6, \
                          damaged = $7, refusal = $8, remark = $9, \
                          done_at = CASE WHEN $3 = 'receiving' THEN NULL ELSE clock_timestamp() END \
                          WHERE request_id = $1 AND node_id = $2";
            transaction
                .execute(
                    update,
                    &[
                        &request,
                        &node,
                        &state,
                        &attempt,
                        &open.records,
                        &recorded,
                        &damaged,
                        &refusal,
                        &remark,
                    ],
                )
                .await
                .map_err(failed("noting what came of a request for detail"))?;
            if let Some(job) = open.job.filter(|_| state != "receiving") {
                // What came of an attempt that was cut off, and before of this time: all of it came again.
                let delete = "DELETE FROM internal.detail_mpi_bins WHERE job_id = $1 AND node_id = $2 \
                              AND (request_id, attempt) <> ($3, $4) \
                              AND (request_id = $3 OR ($5 AND since >= to_timestamp($6::bigint / 1e9) \
                                                       AND time < to_timestamp($7::bigint / 1e9)))";
                let is_all = open.is_full && state == "done";
                let values: [&(dyn ToSql + Sync); 7] =
                    [&job, &node, &request, &attempt, &is_all, &open.since, &open.until];
                let deleted = transaction.execute(delete, &values).await;
                deleted.map_err(failed("removing what came before of a request for detail"))?;
            }
        }
        Ok(())
    }
}

/// The recorder's oldest block may begin so much after what is requested: jobs are announced within a moment of their start.
const GONE: i64 = 2_000_000_000;

impl Open {
    fn is_over(&self, batch: &Batch) -> bool {
        self.records.saturating_add(count(batch)) > self.records_max.saturating_mul(2)
    }

    /// Whether readings of a node's ports and GPUs were requested.
    fn is_of_node(&self) -> bool {
        self.job_key.is_none() && self.ports.is_none()
    }

    /// Whether a reading is of a port that was requested.
    fn has_port(&self, keys: &Keys, fabric: Option<i64>, record: &IbPortSample) -> bool {
        let id = fabric.and_then(|fabric| keys.ib_port(fabric, record.node_guid, record.port).ok());
        self.ports.as_ref().zip(id).is_some_and(|(ports, id)| ports.contains(&id))
    }

    /// Whether all of a batch was requested, which is the rule.
    fn takes_all(&self, batch: &Batch, keys: &Keys) -> bool {
        let mut requested = 0_i64;
        let is_within = |time: i64| (self.since..self.until).contains(&time);
        macro_rules! of_job {
            ($($kind:ident),+) => {
                $(requested += i64::try_from(batch.$kind.iter().filter(|record| {
                    is_within(record.time) && self.job_key.as_ref() == Some(&record.job_key)
                }).count()).unwrap_or(0);)+
            };
        }
        of_jobs!(of_job);
        macro_rules! of_node {
            ($($kind:ident),+) => {
                $(requested += i64::try_from(batch.$kind.iter().filter(|record| {
                    is_within(record.time) && self.is_of_node()
                }).count()).unwrap_or(0);)+
            };
        }
        of_nodes!(of_node);
        let fabric = keys.fabric(batch).ok();
        let is_port = |record: &&IbPortSample| is_within(record.time) && self.has_port(keys, fabric, record);
        requested += i64::try_from(batch.ib_ports.iter().filter(is_port).count()).unwrap_or(0);
        macro_rules! all {
            ($($kind:ident),+) => { 0 $(+ batch.$kind.len())+ };
        }
        let all = throughline_sample::record_kinds!(all);
        i64::try_from(all).is_ok_and(|all| all == requested) && !self.is_over(batch)
    }

    /// Whether the recorder had lost, or never had, what is at the begin of the time that was requested.
    fn is_gone(end: &DetailEnd, since: i64) -> bool {
        end.recorded_from == 0 || end.recorded_from > since.saturating_add(GONE)
    }

    fn state(&self) -> &'static str {
        match &self.end {
            None => "receiving",
            Some(end) if !end.refusal.is_empty() && end.records == 0 => "refused",
            Some(end) if !end.refusal.is_empty() => "incomplete",
            Some(end) if i64::try_from(end.records).ok() != Some(self.records) => "incomplete",
            Some(end) if end.damaged > 0 || Self::is_gone(end, self.since) => "incomplete",
            Some(_) => "done",
        }
    }
}

fn key(batch: &Batch, keys: &Keys) -> Option<Key> {
    let part = batch.detail.as_ref()?;
    let node = if batch.node.is_empty() { CRAWLER } else { keys.node(&batch.node).ok()? };
    Some((i64::try_from(part.request).ok()?, node))
}

/// Text of a sender as it is stored.
fn cut(text: &str) -> String {
    let clean = text.chars().filter(|letter| !letter.is_control());
    let mut length = 0;
    clean
        .take_while(|letter| {
            length += letter.len_utf8();
            length <= TEXT_BYTES_MAX
        })
        .collect()
}

fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
