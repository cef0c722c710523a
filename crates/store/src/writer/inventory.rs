//! What exists, with validity ranges. A row is closed when something in it changed, and a new one begins;
//! what a finished discovery did not find is closed. A message that arrives late changes nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use throughline_sample::wire::{Batch, Event, IbMulticastTable, IbNodeInfo};
use throughline_sample::{Guid, to_rfc3339};
use tokio_postgres::Transaction;

use crate::fabrics::END_PARTS_OF_NODES;

use super::gpus::GpuInventory;
use super::job_facts::{
    CommKey, INSERT_SETTINGS, OpenCallKey, SettingKey, UPSERT_COMMS, UPSERT_OPEN_CALLS, comm_row,
    open_call_row, setting_row,
};
use super::jobs::Jobs;
use super::keys::Keys;
use super::multicast_groups::MulticastGroups;
use super::rank_scheduling::SchedulingReadings;
use super::record_times::{EARLIEST_TIME, optional_time};
use super::rows::{newest_time, now_nanoseconds};
use super::versioned::{VersionedTable, execute, run};
use super::{WriteError, failed, switch_routing};

const NODE: VersionedTable = VersionedTable {
    table: "node",
    key: &[("node_id", "bigint")],
    attributes: &[
        ("name", "text"),
        ("boot_id", "text"),
        ("boot_time", "timestamptz"),
        ("hca_guids", "text[]"),
    ],
};
const IB_NODE: VersionedTable = VersionedTable {
    table: "ib_node",
    key: &[("ib_node_id", "bigint")],
    attributes: &[
        ("guid", "text"),
        ("type", "text"),
        ("description", "text"),
        ("lid", "integer"),
        ("device_id", "integer"),
        ("vendor_id", "integer"),
        ("system_guid", "text"),
        ("routing", "text"),
    ],
};
const IB_PORT: VersionedTable = VersionedTable {
    table: "ib_port",
    key: &[("port_id", "bigint")],
    attributes: &[
        ("ib_node_id", "bigint"),
        ("port", "integer"),
        ("port_guid", "text"),
        ("lid", "integer"),
        ("state", "text"),
        ("physical_state", "text"),
        ("width", "text"),
        ("speed", "text"),
        ("rate_bytes_per_second", "bigint"),
        ("remote_port_id", "bigint"),
        ("lmc", "integer"),
    ],
};
const IB_MFT: VersionedTable = VersionedTable {
    table: "ib_mft",
    key: &[("ib_node_id", "bigint")],
    attributes: &[("multicast_forwarding_table", "jsonb")],
};

/// A finished discovery of one fabric.
struct Mark {
    fabric: i64,
    generation: i64,
    at: String,
}

/// The inventory of some batches, the newest record of each thing.
#[derive(Default)]
pub(super) struct Inventory {
    nodes: BTreeMap<i64, Value>,
    gpus: GpuInventory,
    jobs: Jobs,
    job_comms: BTreeMap<CommKey, Value>,
    job_settings: BTreeMap<SettingKey, Value>,
    open_calls: BTreeMap<OpenCallKey, (i64, Value)>,
    scheduling: SchedulingReadings,
    ib_nodes: BTreeMap<i64, Value>,
    ib_ports: BTreeMap<i64, Value>,
    tables: BTreeMap<i64, (String, Vec<u8>)>,
    multicast: BTreeMap<i64, Value>,
    multicast_groups: MulticastGroups,
    marks: Vec<Mark>,
}

impl Inventory {
    /// Adds a batch's inventory.
    pub fn add(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        let surveyed = batch.gpu_survey_marks.iter().map(|mark| mark.time).max();
        let batch_time = newest_time(batch).max(surveyed).unwrap_or_else(now_nanoseconds);
        let at = to_rfc3339(batch_time);
        for node in &batch.nodes {
            let id = keys.node(&node.name)?;
            let guids: Vec<String> = node.hca_guids.iter().map(|guid| Guid(*guid).to_string()).collect();
            let row = json!({
                "node_id": id, "name": node.name, "boot_id": node.boot_id, "at": at,
                "boot_time": optional_time(node.boot_time), "hca_guids": guids,
            });
            self.nodes.insert(id, row);
        }
        self.gpus.add(batch, keys, batch_time)?;
        self.jobs.add(batch, keys, batch_time)?;
        for comm in &batch.job_comms {
            self.job_comms.extend([comm_row(comm, keys)?]);
        }
        let node = keys.node(&batch.node).ok();
        for setting in &batch.job_settings {
            self.job_settings.extend([setting_row(setting, node, keys)?]);
        }
        for call in &batch.mpi_open_calls {
            let (key, row) = open_call_row(call, node, keys)?;
            // Batches of several nodes come in no order, and a job that moves may have a rank on two.
            if self.open_calls.get(&key).is_none_or(|(time, _)| *time <= call.time) {
                self.open_calls.insert(key, (call.time, row));
            }
        }
        self.scheduling.add(batch, keys)?;
        let fabric = keys.fabric(batch);
        for node in &batch.ib_nodes {
            self.add_ib_node(fabric.clone()?, node, keys, batch_time)?;
        }
        for table in &batch.ib_multicast_tables {
            let id = keys.ib_node(fabric.clone()?, table.guid)?;
            self.multicast.insert(id, multicast_row(id, table, batch_time));
        }
        self.multicast_groups.add(batch, keys)?;
        for mark in &batch.ib_topology_marks {
            self.marks.push(Mark {
                fabric: fabric.clone()?,
                generation: mark.generation,
                at: to_rfc3339(if mark.time > EARLIEST_TIME { mark.time } else { batch_time }),
            });
        }
        Ok(())
    }

    fn add_ib_node(
        &mut self,
        fabric: i64,
        node: &IbNodeInfo,
        keys: &Keys,
        batch_time: i64,
    ) -> Result<(), String> {
        let id = keys.ib_node(fabric, node.guid)?;
        // A crawler's generation is the time at which the discovery began.
        let at = to_rfc3339(if node.generation > EARLIEST_TIME { node.generation } else { batch_time });
        let mut row = json!({
            "ib_node_id": id, "guid": Guid(node.guid).to_string(), "type": node.r#type,
            "description": node.description, "lid": node.lid, "device_id": node.device_id,
            "vendor_id": node.vendor_id, "system_guid": Guid(node.system_guid).to_string(),
            "generation": node.generation, "at": at,
        });
        switch_routing::put(&mut row, node.routing.as_deref(), self.ib_nodes.get(&id));
        self.ib_nodes.insert(id, row);
        for port in &node.ports {
            let remote = match port.remote_guid.zip(port.remote_port) {
                Some((guid, number)) => Some(keys.ib_port(fabric, guid, number)?),
                None => None,
            };
            let port_id = keys.ib_port(fabric, node.guid, port.port)?;
            let row = json!({
                "port_id": port_id, "ib_node_id": id, "port": port.port,
                "port_guid": Guid(port.port_guid).to_string(), "lid": port.lid, "state": port.state,
                "physical_state": port.physical_state, "width": port.width, "speed": port.speed,
                "rate_bytes_per_second": port.rate_bytes_per_second, "remote_port_id": remote,
                "lmc": port.lmc, "at": at,
            });
            self.ib_ports.insert(port_id, row);
        }
        if !node.linear_forwarding_table.is_empty() {
            self.tables.insert(id, (at, node.linear_forwarding_table.clone()));
        }
        Ok(())
    }

    /// Brings the tables up to date. Gives the events that are made of what changed, each with the name of its node.
    pub async fn apply(self, transaction: &Transaction<'_>) -> Result<Vec<(String, Event)>, WriteError> {
        // In the order of references and, among writers, in one order of locks.
        self.jobs.apply(transaction).await?;
        execute(transaction, "named communicators", UPSERT_COMMS, self.job_comms).await?;
        execute(transaction, "settings of MPI libraries", INSERT_SETTINGS, self.job_settings).await?;
        let open_calls: BTreeMap<_, _> =
            self.open_calls.into_iter().map(|(key, (_, row))| (key, row)).collect();
        execute(transaction, "open calls", UPSERT_OPEN_CALLS, open_calls).await?;
        self.scheduling.apply(transaction).await?;
        NODE.apply(transaction, self.nodes.into_values().collect()).await?;
        let events = self.gpus.apply(transaction).await?;
        execute(transaction, "generations of fabric nodes", UPDATE_GENERATIONS, self.ib_nodes.clone())
            .await?;
        let nodes = switch_routing::complete(transaction, self.ib_nodes).await?;
        IB_NODE.apply(transaction, nodes.into_values().collect()).await?;
        if let Some(changed) = IB_PORT.apply(transaction, self.ib_ports.into_values().collect()).await? {
            // A link changes with a port at one of its ends, and only then.
            for (end, other) in [("port_a_id", "port_b_id"), ("port_b_id", "port_a_id")] {
                run(transaction, "ended links", &close_links(end, other), &changed).await?;
            }
            run(transaction, "links", INSERT_LINKS, &changed).await?;
        }
        apply_tables(transaction, self.tables).await?;
        IB_MFT.apply(transaction, self.multicast.into_values().collect()).await?;
        self.multicast_groups.apply(transaction).await?;
        for mark in self.marks {
            mark.finish(transaction).await?;
        }
        Ok(events)
    }
}

impl Mark {
    /// Ends what the finished discovery did not find.
    async fn finish(&self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        let what = "inventory: what is gone";
        let gone = transaction
            .query(END_NODES, &[&self.fabric, &self.generation, &self.at])
            .await
            .map_err(failed(what))?;
        if gone.is_empty() {
            return Ok(());
        }
        let nodes: Vec<i64> = gone.iter().map(|row| row.get(0)).collect();
        for sql in END_PARTS_OF_NODES {
            transaction.execute(sql, &[&nodes, &self.at]).await.map_err(failed(what))?;
        }
        Ok(())
    }
}

/// Forwarding tables are bytes, and too large for JSON.
async fn apply_tables(
    transaction: &Transaction<'_>,
    tables: BTreeMap<i64, (String, Vec<u8>)>,
) -> Result<(), WriteError> {
    if tables.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = tables.keys().copied().collect();
    let times: Vec<&str> = tables.values().map(|(at, _)| at.as_str()).collect();
    let bytes: Vec<&[u8]> = tables.values().map(|(_, bytes)| bytes.as_slice()).collect();
    for sql in UPDATE_TABLES {
        transaction
            .execute(sql, &[&ids, &times, &bytes])
            .await
            .map_err(failed("inventory: forwarding tables"))?;
    }
    Ok(())
}

fn multicast_row(id: i64, table: &IbMulticastTable, batch_time: i64) -> Value {
    let at = to_rfc3339(if table.generation > EARLIEST_TIME { table.generation } else { batch_time });
    let entries: serde_json::Map<String, Value> =
        table.entries.iter().map(|entry| (entry.mlid.to_string(), json!(entry.ports.as_slice()))).collect();
    json!({"ib_node_id": id, "multicast_forwarding_table": entries, "at": at})
}

const UPDATE_GENERATIONS: &str = "
UPDATE internal.ib_node n SET generation = s.generation
FROM jsonb_to_recordset($1) AS s(ib_node_id bigint, generation bigint)
WHERE n.ib_node_id = s.ib_node_id AND n.valid_to IS NULL AND n.generation < s.generation";

/// Ends links whose port at one end reports another port at the other end.
fn close_links(end: &str, other: &str) -> String {
    format!(
        "UPDATE internal.ib_link l SET valid_to = s.at
FROM jsonb_to_recordset($1) AS s(port_id bigint, remote_port_id bigint, at timestamptz)
WHERE l.valid_to IS NULL AND s.port_id = l.{end} AND l.valid_from < s.at AND s.remote_port_id IS DISTINCT FROM l.{other}"
    )
}

const INSERT_LINKS: &str = "
INSERT INTO internal.ib_link (port_a_id, port_b_id, valid_from)
SELECT DISTINCT ON (1, 2) least(s.port_id, s.remote_port_id), greatest(s.port_id, s.remote_port_id), s.at
FROM jsonb_to_recordset($1) AS s(port_id bigint, remote_port_id bigint, at timestamptz)
WHERE s.remote_port_id <> s.port_id AND NOT EXISTS (
    SELECT FROM internal.ib_link l WHERE l.port_a_id = least(s.port_id, s.remote_port_id)
    AND l.port_b_id = greatest(s.port_id, s.remote_port_id) AND (l.valid_to IS NULL OR l.valid_to > s.at))
ORDER BY 1, 2, s.at
ON CONFLICT DO NOTHING";

const UPDATE_TABLES: [&str; 3] = [
    "UPDATE internal.ib_lft t SET linear_forwarding_table = s.bytes
FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS s(id, at, bytes)
WHERE t.ib_node_id = s.id AND t.valid_to IS NULL AND t.valid_from = s.at::timestamptz
AND t.linear_forwarding_table <> s.bytes",
    "UPDATE internal.ib_lft t SET valid_to = s.at::timestamptz
FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS s(id, at, bytes)
WHERE t.ib_node_id = s.id AND t.valid_to IS NULL AND t.valid_from < s.at::timestamptz
AND t.linear_forwarding_table <> s.bytes",
    "INSERT INTO internal.ib_lft (ib_node_id, linear_forwarding_table, valid_from)
SELECT s.id, s.bytes, s.at::timestamptz FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS s(id, at, bytes)
WHERE NOT EXISTS (SELECT FROM internal.ib_lft t WHERE t.ib_node_id = s.id
    AND (t.valid_to IS NULL OR t.valid_to > s.at::timestamptz))
ON CONFLICT DO NOTHING",
];

/// Ends nodes that a finished discovery ($1 fabric, $2 generation, $3 time) did not find.
const END_NODES: &str = "
UPDATE internal.ib_node n SET valid_to = greatest($3::text::timestamptz, n.valid_from)
FROM internal.ib_node_key k
WHERE k.id = n.ib_node_id AND k.fabric_id = $1 AND n.valid_to IS NULL AND n.generation < $2
RETURNING n.ib_node_id";
