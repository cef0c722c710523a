//! Records as JSON for `once`: keys are the catalogue's short names, an absent value is left out.
//!
//! Pure.

use serde_json::{Map, Value, json};
use throughline_sample::catalogue::by_id;
use throughline_sample::wire::{self, Batch, Values};
use throughline_sample::{Guid, to_rfc3339};

/// The samples of a batch, a list for each kind of record that it holds.
pub fn samples(batch: &Batch) -> Map<String, Value> {
    let links = batch.gpu_links.iter().flat_map(|sample| sample.links.iter().map(move |link| (sample, link)));
    let lists = [
        ("gpus", list(&batch.gpus, gpu)),
        ("links", links.map(|(sample, link)| nvlink(sample, link)).collect()),
        ("link_ends", list(&batch.gpu_link_infos, link_end)),
        ("pcie", list(&batch.gpu_pcie, pcie)),
        ("performance_monitors", list(&batch.gpu_pm, performance_monitor)),
        ("gpu_metrics", batch.gpu_metrics.iter().flat_map(gpu_metrics).collect()),
        ("ports", list(&batch.host_ports, host_port)),
        ("jobs", list(&batch.jobs, job)),
        ("ranks", list(&batch.job_ranks, job_rank)),
        ("operations", batch.mpi_ops.iter().flat_map(operations).collect()),
        ("peers", batch.mpi_peers.iter().flat_map(peers).collect()),
        ("pvars", list(&batch.mpi_pvars, pvar)),
        ("regions", batch.mpi_regions.iter().flat_map(regions).collect()),
        ("region_paths", batch.mpi_regions.iter().flat_map(region_paths).collect()),
        ("traffic", batch.mpi_traffic.iter().flat_map(traffic).collect()),
        ("open_calls", list(&batch.mpi_open_calls, open_call)),
        ("scheduling", list(&batch.mpi_scheduling, scheduling)),
        ("sampled_calls", list(&batch.mpi_sampled_calls, sampled_calls)),
        ("communicators", list(&batch.job_comms, communicator)),
        ("settings", list(&batch.job_settings, setting)),
        ("events", list(&batch.events, event)),
        ("self_metrics", list(&batch.self_stats, self_metric)),
        ("coverage", list(&batch.coverage, coverage)),
    ];
    let there = lists.into_iter().filter(|(_, list): &(_, Vec<Value>)| !list.is_empty());
    there.map(|(key, list)| (key.to_owned(), Value::Array(list))).collect()
}

fn list<T>(records: &[T], convert: fn(&T) -> Value) -> Vec<Value> {
    records.iter().map(convert).collect()
}

/// `fields`, and each value by its catalogue name.
fn with_values(fields: Value, values: Option<&Values>) -> Value {
    let mut fields = fields;
    if let (Value::Object(fields), Some(values)) = (&mut fields, values) {
        fields
            .extend(values.iter().filter_map(|(id, value)| Some((by_id(id)?.name.to_owned(), value.into()))));
    }
    fields
}

fn nvlink(sample: &wire::GpuLinksSample, link: &wire::LinkValues) -> Value {
    let fields = json!({ "gpu": sample.gpu_uuid, "link": link.link, "time": to_rfc3339(sample.time) });
    with_values(fields, link.values.as_ref())
}

fn pcie(sample: &wire::GpuPcieSample) -> Value {
    with_values(json!({ "gpu": sample.gpu_uuid, "time": to_rfc3339(sample.time) }), sample.values.as_ref())
}

fn performance_monitor(sample: &wire::GpuPmSample) -> Value {
    with_values(json!({ "gpu": sample.gpu_uuid, "time": to_rfc3339(sample.time) }), sample.values.as_ref())
}

fn gpu_metrics(sample: &wire::GpuMetricsSample) -> impl Iterator<Item = Value> {
    let (gpu, time) = (&sample.gpu_uuid, to_rfc3339(sample.time));
    sample.metrics.iter().map(move |metric| {
        let mut fields = json!({ "gpu": gpu, "time": time, "metric": metric.name });
        if let Some(sum) = metric.sum {
            fields["sum"] = sum.into();
        }
        if let Some(value) = metric.value {
            fields["value"] = value.into();
        }
        fields
    })
}

fn host_port(sample: &wire::HostPortSample) -> Value {
    let fields = json!({
        "device": sample.device,
        "port": sample.port,
        "node_guid": Guid(sample.node_guid),
        "port_guid": (sample.port_guid != 0).then_some(Guid(sample.port_guid)),
        "time": to_rfc3339(sample.time),
    });
    with_values(fields, sample.values.as_ref())
}

fn gpu(gpu: &wire::GpuInfo) -> Value {
    json!({
        "gpu": gpu.uuid,
        "index": gpu.index,
        "name": gpu.name,
        "pci_bus_id": gpu.pci_bus_id,
        "link_count": gpu.link_count,
        "parent": gpu.parent_uuid,
        "numa_node": gpu.numa_node,
        "nearest_hcas": gpu.nearest_hcas,
        "nvlink_domain": gpu.nvlink_domain(),
        "pcie_bytes_per_second": gpu.pcie_bytes_per_second,
        "fabric_state": (!gpu.fabric_state.is_empty()).then_some(&gpu.fabric_state),
    })
}

fn link_end(link: &wire::GpuLinkInfo) -> Value {
    json!({
        "gpu": link.gpu_uuid,
        "link": link.link,
        "active": link.active,
        "version": link.version,
        "speed_bytes_per_second": link.speed_bytes_per_second,
        "remote_type": link.remote_type,
        "remote_gpu": link.remote_gpu_uuid,
        "remote_link": link.remote_link,
    })
}

fn job(job: &wire::Job) -> Value {
    json!({
        "job_key": job.key,
        "scheduler": job.scheduler,
        "user": job.user,
        "command": job.command,
        "start": to_rfc3339(job.start),
        "world_size": job.world_size,
    })
}

fn job_rank(rank: &wire::JobRank) -> Value {
    json!({
        "job_key": rank.job_key,
        "rank": rank.rank,
        "pid": rank.pid,
        "world_size": rank.world_size,
        "mpi_library": rank.mpi_library,
        "ended": rank.end != 0,
    })
}

fn operations(bin: &wire::MpiRankBin) -> impl Iterator<Item = Value> {
    bin.cells.iter().map(|cell| {
        let mut row = json!({
            "job_key": bin.job_key,
            "rank": bin.rank,
            "time": to_rfc3339(bin.time),
            "operation": cell.operation,
            "size_class_bytes": cell.size_class_bytes,
            "calls": cell.calls,
            "bytes": cell.bytes,
            "region": cell.region,
            "algorithm": cell.algorithm,
            "algorithm_source": cell.algorithm_source,
            "elapsed_seconds": seconds(cell.elapsed_nanoseconds),
            "longest_seconds": seconds(cell.longest_nanoseconds),
        });
        if let Some(wait) = cell.wait_nanoseconds {
            row["wait_seconds"] = json!(seconds(wait));
        }
        if let Some(least) = cell.least_nanoseconds {
            row["least_seconds"] = json!(seconds(least));
        }
        if let Some(received) = cell.received_bytes {
            row["received_bytes"] = json!(received);
        }
        row
    })
}

fn traffic(row: &wire::MpiNodeTraffic) -> impl Iterator<Item = Value> {
    row.cells.iter().map(|cell| {
        json!({
            "job": row.job_key,
            "operation": row.operation,
            "kind": row.kind,
            "direction": row.direction,
            "peer": cell.peer,
            "time": to_rfc3339(row.time),
            "bytes": cell.bytes,
            "messages": cell.messages,
        })
    })
}

fn region_paths(row: &wire::MpiRankRegions) -> impl Iterator<Item = Value> {
    row.paths.iter().map(|cell| {
        json!({
            "job_key": row.job_key,
            "rank": row.rank,
            "time": to_rfc3339(row.time),
            "path": cell.path,
            "visits": cell.visits,
            "elapsed_seconds": seconds(cell.elapsed_nanoseconds),
            "own_seconds": seconds(cell.own_nanoseconds),
            "mpi_calls": cell.mpi_calls,
            "mpi_seconds": seconds(cell.mpi_nanoseconds),
        })
    })
}

fn regions(row: &wire::MpiRankRegions) -> impl Iterator<Item = Value> {
    row.cells.iter().map(|cell| {
        json!({
            "job_key": row.job_key,
            "rank": row.rank,
            "time": to_rfc3339(row.time),
            "region": cell.region,
            "visits": cell.visits,
            "elapsed_seconds": seconds(cell.elapsed_nanoseconds),
            "own_seconds": seconds(cell.own_nanoseconds),
            "mpi_calls": cell.mpi_calls,
            "mpi_seconds": seconds(cell.mpi_nanoseconds),
        })
    })
}

fn sampled_calls(row: &wire::MpiSampledCalls) -> Value {
    let call = |call: &wire::MpiSampledCall| {
        json!({
            "call": call.call,
            "ranks": call.ranks,
            "elapsed_seconds": seconds(call.elapsed_nanoseconds),
            "least_seconds": seconds(call.least_nanoseconds),
            "least_rank": call.least_rank,
            "calls_represented": 1_u64 << call.level.min(63),
        })
    };
    json!({
        "job_key": row.job_key,
        "time": to_rfc3339(row.time),
        "members": row.members,
        "group_size": row.group_size,
        "operation": row.operation,
        "size_class_bytes": row.size_class_bytes,
        "calls": row.calls.iter().map(call).collect::<Vec<_>>(),
    })
}

fn open_call(call: &wire::MpiOpenCall) -> Value {
    json!({
        "job_key": call.job_key,
        "rank": call.rank,
        "time": to_rfc3339(call.time),
        "thread": call.thread,
        "operation": call.operation,
        "seconds": seconds(u64::try_from(call.time.saturating_sub(call.start)).unwrap_or(0)),
        "has_returned": call.has_returned,
        "is_on_world": call.is_on_world,
        "comm": call.comm,
        "comm_size": call.comm_size,
        "peer": call.peer,
        "pending_requests": call.pending_requests,
        "oldest_request": call.oldest_request,
        "tag": call.tag,
        "is_from_any": call.is_from_any,
        "requests": call.requests,
        "oldest_peer": call.oldest_peer,
        "oldest_tag": call.oldest_tag,
        "threads_elsewhere": call.threads_elsewhere,
        "threads_to_come": call.threads_to_come,
    })
}

fn scheduling(reading: &wire::MpiRankScheduling) -> Value {
    json!({
        "job_key": reading.job_key,
        "rank": reading.rank,
        "time": to_rfc3339(reading.time),
        "cpu_seconds": reading.cpu_nanoseconds.map(seconds),
        "runqueue_wait_seconds": reading.runqueue_wait_nanoseconds.map(seconds),
        "involuntary_switches": reading.involuntary_switches,
        "cpu_hertz": reading.cpu_hertz,
        "elapsed_seconds": reading.elapsed_nanoseconds.map(seconds),
        "mpi_seconds": reading.mpi_nanoseconds.map(seconds),
        "off_outside_seconds": reading.off_outside_nanoseconds.map(seconds),
        "queued_outside_seconds": reading.queued_outside_nanoseconds.map(seconds),
        "off_inside_seconds": reading.off_inside_nanoseconds.map(seconds),
        "queued_inside_seconds": reading.queued_inside_nanoseconds.map(seconds),
        "throttled_seconds": reading.throttled_nanoseconds.map(seconds),
    })
}

fn communicator(comm: &wire::JobComm) -> Value {
    json!({
        "job_key": comm.job_key,
        "rank": comm.rank,
        "comm": comm.comm,
        "name": comm.name,
        "size": comm.size,
        "rank_in_comm": comm.rank_in_comm,
    })
}

fn setting(setting: &wire::JobSetting) -> Value {
    json!({ "job_key": setting.job_key, "rank": setting.rank, "name": setting.name, "value": setting.value })
}

fn peers(row: &wire::MpiRankPeers) -> impl Iterator<Item = Value> {
    row.cells.iter().map(|cell| {
        json!({
            "job_key": row.job_key,
            "rank": row.rank,
            "time": to_rfc3339(row.time),
            "peer": cell.peer,
            "kind": row.kind,
            "bytes": cell.bytes,
            "messages": cell.messages,
        })
    })
}

fn pvar(pvar: &wire::MpiPvarSample) -> Value {
    json!({
        "job_key": pvar.job_key,
        "rank": pvar.rank,
        "time": to_rfc3339(pvar.time),
        "name": pvar.name,
        "element": pvar.element,
        "value": pvar.value,
    })
}

fn event(event: &wire::Event) -> Value {
    json!({ "time": to_rfc3339(event.time), "kind": event.kind, "severity": event.severity, "text": event.text })
}

fn self_metric(value: &wire::SelfStat) -> Value {
    let mut all = json!({
        "time": to_rfc3339(value.time),
        "source": value.source,
        "name": value.name,
        "value": value.value,
    });
    if !value.label.is_empty() {
        all["label"] = json!(value.label);
    }
    all
}

fn coverage(round: &wire::Coverage) -> Value {
    json!({
        "time": to_rfc3339(round.time),
        "source": round.source,
        "expected": round.expected,
        "read": round.read,
        "failed": round.failed,
        "elapsed_seconds": round.elapsed_seconds,
        "reasons": round.reasons,
    })
}

fn seconds(nanoseconds: u64) -> f64 {
    std::time::Duration::from_nanos(nanoseconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::catalogue::{PORT_DATA_RECEIVED_BYTES, STATE_ID};

    #[test]
    fn keys_are_catalogue_names_and_absent_kinds_are_left_out() {
        let mut values = Values::default();
        values.put(&PORT_DATA_RECEIVED_BYTES, 12);
        values.put(&STATE_ID, 4);
        let port = wire::HostPortSample {
            device: "mlx5_0".into(),
            port: 1,
            values: Some(values),
            ..Default::default()
        };
        let cell = wire::MpiOpCell { operation: "send".into(), calls: 3, ..Default::default() };
        let bin = wire::MpiRankBin { rank: 2, cells: vec![cell], ..Default::default() };
        let batch = Batch { host_ports: vec![port], mpi_ops: vec![bin], ..Batch::default() };
        let json = samples(&batch);
        assert_eq!(json.keys().collect::<Vec<_>>(), ["operations", "ports"]);
        let port = &json["ports"][0];
        assert_eq!((&port["port_data_received_bytes"], &port["state_id"]), (&json!(12), &json!(4)));
        assert_eq!(port.get("port_data_transmitted_bytes"), None);
        assert_eq!((&json["operations"][0]["rank"], &json["operations"][0]["calls"]), (&json!(2), &json!(3)));
    }
}
