//! Samples that arrive for a window that was exported already (`crate::export`): noted for each receiver, which gets them by
//! themselves.

use std::collections::BTreeMap;

use throughline_sample::catalogue::Table;
use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::keys::Keys;
use super::record_times::time;
use super::rows::instance_of;
use super::{WriteError, failed};
use crate::export::MILLISECOND;

/// Whether a batch has anything that is exported.
pub(super) fn has_any(batch: &Batch) -> bool {
    !(batch.ib_ports.is_empty()
        && batch.ib_port_lanes.is_empty()
        && batch.host_ports.is_empty()
        && batch.gpu_links.is_empty()
        && batch.gpu_pcie.is_empty()
        && batch.gpu_pm.is_empty()
        && batch.gpu_metrics.is_empty()
        && batch.self_stats.is_empty())
}

/// First and last time of the late samples of a thing of a table; nanoseconds since 1970.
type Notes = BTreeMap<(&'static str, String), (i64, i64)>;

/// Notes what of these batches is for times until `noticed`, nanoseconds since 1970.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    batches: &[&Batch],
    keys: &Keys,
    noticed: i64,
) -> Result<(), WriteError> {
    let mut notes = Notes::new();
    for batch in batches {
        collect(batch, keys, noticed, &mut notes).map_err(WriteError::Data)?;
    }
    if notes.is_empty() {
        return Ok(());
    }
    // Another receiver may not be as far: what is still to come there is in its window.
    let insert = "INSERT INTO internal.export_late (target_id, part, thing, since, until) \
                  SELECT t.id, n.part, n.thing, n.since, least(n.until, t.noticed_until + INTERVAL '999 microseconds') \
                  FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) \
                    AS n (part, thing, since, until) \
                  JOIN internal.export_target t ON n.since < t.noticed_until + INTERVAL '1 millisecond'";
    let parts: Vec<&str> = notes.keys().map(|(part, _)| *part).collect();
    let things: Vec<&str> = notes.keys().map(|(_, thing)| thing.as_str()).collect();
    let since: Vec<_> = notes.values().map(|(since, _)| time(*since)).collect();
    let until: Vec<_> = notes.values().map(|(_, until)| time(*until)).collect();
    let noted = transaction
        .query_typed(
            insert,
            &[
                (&parts, Type::TEXT_ARRAY),
                (&things, Type::TEXT_ARRAY),
                (&since, Type::TIMESTAMPTZ_ARRAY),
                (&until, Type::TIMESTAMPTZ_ARRAY),
            ],
        )
        .await;
    noted.map(drop).map_err(failed("noting late arrivals for the export"))
}

fn collect(batch: &Batch, keys: &Keys, noticed: i64, notes: &mut Notes) -> Result<(), String> {
    // Windows end at whole milliseconds, and a sample belongs to the one that it began in.
    let is_late = |time: i64| time < noticed.saturating_add(MILLISECOND);
    let mut note = |table: Table, thing: &dyn Fn() -> Result<String, String>, time: i64| {
        if is_late(time) {
            let range = notes.entry((table.name(), thing()?)).or_insert((time, time));
            *range = (range.0.min(time), range.1.max(time));
        }
        Ok::<(), String>(())
    };
    let fabric = keys.fabric(batch);
    let port = |guid: u64, port: u32| keys.ib_port(fabric.clone()?, guid, port).map(|id| id.to_string());
    let gpu = |uuid: &str| keys.gpu(&batch.node, uuid).map(|id| id.to_string());
    for one in &batch.ib_ports {
        note(Table::IbPortCounters, &|| port(one.node_guid, one.port), one.time)?;
    }
    for one in &batch.ib_port_lanes {
        note(Table::IbPortLaneCounters, &|| port(one.node_guid, one.port), one.time)?;
    }
    for one in &batch.host_ports {
        let id = || keys.host_port(&batch.node, &one.device, one.port).map(|id| id.to_string());
        note(Table::HostPortCounters, &id, one.time)?;
    }
    for one in &batch.gpu_links {
        note(Table::NvlinkCounters, &|| gpu(&one.gpu_uuid), one.time)?;
    }
    for one in &batch.gpu_pcie {
        note(Table::GpuPcieCounters, &|| gpu(&one.gpu_uuid), one.time)?;
    }
    for one in &batch.gpu_pm {
        note(Table::GpuPmCounters, &|| gpu(&one.gpu_uuid), one.time)?;
    }
    for one in &batch.gpu_metrics {
        let gpu = keys.gpu(&batch.node, &one.gpu_uuid)?;
        for id in one.metrics.iter().filter_map(|metric| keys.gpu_metric(gpu, &metric.name)) {
            note(Table::GpuMetrics, &|| Ok(id.to_string()), one.time)?;
        }
    }
    let instance = || Ok(instance_of(batch, keys));
    for one in &batch.self_stats {
        note(Table::SelfStats, &instance, one.time)?;
    }
    Ok(())
}
