//! Marks of time that no clock may leave ahead: how far something is made, from when on it is due, until when it holds. One that lies beyond
//! now() waits until that time comes, as after a clock that was 400 days ahead: it is put back, once the clock is believed again.
//!
//! Each mark of the schema is in [`MARKS`]. A time that nothing waits for (of records, of starts and ends) is none.

use tokio_postgres::Client;

use crate::error::Error;

const WHAT: &str = "putting marks of time back that lie ahead of the clock";

/// A mark: it is at a multiple of `grid` seconds, and may lie `ahead` seconds beyond now.
struct TimeMark {
    table: &'static str,
    column: &'static str,
    grid: u32,
    ahead: u32,
}

const fn mark(table: &'static str, column: &'static str) -> TimeMark {
    TimeMark { table, column, grid: 1, ahead: 0 }
}

impl TimeMark {
    const fn every(self, grid: u32) -> Self {
        Self { grid, ..self }
    }

    const fn ahead(self, ahead: u32) -> Self {
        Self { ahead, ..self }
    }

    /// What it may be at most, in SQL.
    fn latest(&self) -> String {
        let Self { grid, ahead, .. } = self;
        format!("date_bin('{grid} seconds', now() + INTERVAL '{ahead} seconds', TIMESTAMPTZ 'epoch')")
    }
}

const MINUTE: u32 = 60;
const HOUR: u32 = 3600;
/// Seconds of a window of link shares and of the export.
const WINDOW: u32 = 10;

/// The marks, in an order that the tables' constraints allow.
const MARKS: [TimeMark; 45] = [
    // Rollups and packed hours.
    mark("minute_state", "made_until").every(MINUTE),
    mark("minute_state", "noticed_until").every(MINUTE),
    mark("minute_state", "blocks_until").every(HOUR),
    mark("packed_state", "packed_from").every(HOUR),
    mark("packed_state", "packed_until").every(HOUR),
    // Shares of links.
    mark("link_share_state", "computed_until").every(WINDOW),
    mark("link_share_state", "noticed_until").every(WINDOW),
    mark("link_share_state", "minutes_since").every(MINUTE),
    mark("link_share_state", "minutes_until").every(MINUTE),
    mark("link_share_state", "hours_until").every(HOUR),
    mark("link_share_late", "noted_at"),
    // Remote write.
    mark("export_target", "exported_until").every(WINDOW),
    mark("export_target", "noticed_until").every(WINDOW),
    // Leases, at most of ten minutes (throughline-delivery's LEASE_LONGEST), and claims (writer/devices.rs).
    mark("crawler_term", "began_at"),
    mark("crawler_term", "ended_at"),
    mark("crawler_term", "covered_to"),
    mark("crawler_term", "expires_at").ahead(600),
    mark("device_claim", "holds_until").ahead(1800),
    // Jobs: who reports them, when they are judged and posted, at most ten minutes after a failure.
    mark("run", "first_seen"),
    mark("run_alias", "first_seen"),
    mark("run_claim", "first_seen"),
    mark("run_claim", "reported_at"),
    mark("run_claim", "judge_after").ahead(600),
    mark("job_judgement", "judged_at"),
    mark("job_judgement", "detail_after").ahead(HOUR),
    mark("job_verdict", "first_at"),
    mark("job_verdict", "last_at"),
    mark("report_post", "created_at"),
    mark("report_post", "next_try").ahead(600),
    // Retention: totals of what went, and names that go once they are not used.
    mark("retention_policy", "carried_to"),
    mark("retention_policy", "dropped_until"),
    mark("mpi_cell_key", "used_at"),
    mark("self_stat_names", "listed_at"),
    mark("self_stat_names", "used_at"),
    mark("node_certificate", "first_at"),
    mark("node_certificate", "last_at"),
    // Detail on demand: quotas count what was requested lately.
    mark("detail_request", "requested_at"),
    mark("detail_request", "expires_at").ahead(HOUR),
    mark("detail_request_node", "sent_at"),
    mark("detail_request_node", "done_at"),
    mark("detail_request_node", "ranks_until").ahead(HOUR),
    // What people are shown for a day.
    mark("record_quarantine", "first_at"),
    mark("record_quarantine", "last_at"),
    mark("batch_quarantine", "quarantined_at"),
    mark("node_bar", "since"),
];

/// Rows that were made for times to come: windows, minutes and hours are made again, and would be there twice.
const MADE_TOO_SOON: [&str; 3] = ["link_shares", "link_share_minutes", "link_share_hours"];

/// Puts the marks back that lie beyond now(), in one transaction; how many rows changed. Connect as the writer, with a clock that is
/// believed.
pub(crate) async fn put_back(client: &mut Client) -> Result<u64, Error> {
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    let mut changed = 0;
    for mark in &MARKS {
        let TimeMark { table, column, .. } = mark;
        // A server that is sending reads where it is again.
        let version =
            if *table == "export_target" { ", version = version + 1, part = NULL, after = NULL" } else { "" };
        let update = format!(
            "UPDATE internal.{table} SET {column} = {latest}{version} WHERE {column} > now() + INTERVAL '{} seconds' AND isfinite({column})",
            mark.ahead,
            latest = mark.latest(),
        );
        changed += transaction.execute(&update, &[]).await.map_err(Error::sql(WHAT))?;
    }
    for table in MADE_TOO_SOON {
        let delete = format!("DELETE FROM internal.{table} WHERE time > now()");
        transaction.execute(&delete, &[]).await.map_err(Error::sql(WHAT))?;
    }
    transaction.commit().await.map_err(Error::sql(WHAT))?;
    Ok(changed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Times of plain tables that are no marks: of records, starts, ends and versions, which come with what is stored, or for people only.
    const NO_MARKS: &[&str] = &[
        "batch_ledger.changed_at",
        "block_wanted.time",
        "clock_span.began_at",
        "clock_span.ended_at",
        "clock_span.noted_at",
        "server_clock.judged_at",
        "clock_check.accept_requested_at",
        "clock_check.accepted_at",
        "clock_check.anchor_at",
        "clock_check.estimate",
        "clock_check.permitted_until",
        "clock_check.since",
        "clock_check.trusted_at",
        "detail_request.since",
        "detail_request.until",
        "detail_request_node.recorded_from",
        "export_late.since",
        "export_late.until",
        "fabric.first_seen",
        "fabric.observed_at",
        "fabric_attribute.valid_from",
        "fabric_attribute.valid_to",
        "gpu.valid_from",
        "gpu.valid_to",
        "gpu_link.valid_from",
        "gpu_link.valid_to",
        "ib_lft.valid_from",
        "ib_lft.valid_to",
        "ib_link.valid_from",
        "ib_link.valid_to",
        "ib_mft.valid_from",
        "ib_mft.valid_to",
        "ib_multicast_group.valid_from",
        "ib_multicast_group.valid_to",
        "ib_node.valid_from",
        "ib_node.valid_to",
        "ib_port.valid_from",
        "ib_port.valid_to",
        "job_comm.epoch",
        "job_comm.named_at",
        "job_final.began_at",
        "job_final.ended_at",
        "job_final.packed_at",
        "job_final_wanted.noted_at",
        "job_node_final.began_at",
        "job_node_final.ended_at",
        "job_setting.told_at",
        "link_share_late.time",
        "minute_late.since",
        "minute_late.until",
        "mpi_open_call.epoch",
        "mpi_open_call.reported_at",
        "mpi_open_call.start_time",
        "mpi_rank_scheduling.before_time",
        "mpi_rank_scheduling.epoch",
        "mpi_rank_scheduling.first_time",
        "mpi_rank_scheduling.stopped_since",
        "mpi_rank_scheduling.time",
        "node.boot_time",
        "node.valid_from",
        "node.valid_to",
        "node_bar.until",
        "rank_claim.end_time",
        "rank_claim.start_time",
        "rank_gpu.first_seen",
        "rank_gpu.last_seen",
        "rank_gpu.start_time",
        "row_rules.valid_from",
        "row_rules.valid_to",
        "run.end_time",
        "run.start_time",
        "run_claim.end_time",
        "run_claim.folded_until",
        "run_claim.last_seen",
        "run_claim.start_time",
        "schema_migrations.applied_at",
        "schema_objects.applied_at",
        "sender_clock.measured_at",
        "sender_clock.newest_record",
        "sender_clock.sender_time",
        "server_clock.noted_at",
        "thinned_chunk.range_end",
        "thinned_chunk.range_start",
        "thinned_chunk.thinned_at",
        "ib_routing.valid_from",
    ];

    #[tokio::test]
    async fn each_time_of_a_table_is_a_mark_or_known_to_be_none() {
        let client = crate::testing::database().await.connect().await.unwrap();
        let query = "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
                     WHERE c.relnamespace = 'internal'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
                       AND a.atttypid = 'timestamptz'::regtype
                       AND NOT EXISTS (SELECT FROM timescaledb_information.hypertables h WHERE h.hypertable_name = c.relname)";
        let rows = client.query(query, &[]).await.unwrap();
        let marks: BTreeSet<String> =
            MARKS.iter().map(|mark| format!("{}.{}", mark.table, mark.column)).collect();
        assert_eq!(marks.len(), MARKS.len());
        let columns: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let missing: Vec<_> = marks.difference(&columns).collect();
        assert!(missing.is_empty(), "no such columns: {missing:?}");
        let known = |column: &&String| !marks.contains(*column) && !NO_MARKS.contains(&column.as_str());
        let unknown: Vec<_> = columns.iter().filter(known).collect();
        assert!(unknown.is_empty(), "neither a mark nor known to be none: {unknown:?}");
    }
}
