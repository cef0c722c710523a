//! Thins records to a resolution: of cumulative ones within an interval the last holds all of it. Pure.

use std::collections::BTreeMap;
use throughline_sample::wire::{
    Batch, GpuLinksSample, GpuPcieSample, GpuPmSample, HostPortSample, IbPortSample, MpiPvarSample,
    MpiRankBin, MpiRankPeers, MpiRankRegions,
};

/// What one interval brought of one thing.
type Latest<K, R> = BTreeMap<K, R>;
/// A rank: its job, number and epoch.
type Rank = (String, u32, i64);
/// A variable of a rank: job, rank, name, element.
type Variable = (String, u32, String, u32);
/// A port or GPU: name, port, epoch, source.
type Device = (String, u32, i64, String);

/// Thins batches that come in the order of their times.
#[derive(Default)]
pub struct Thinner {
    /// Nanoseconds; below 2 all records pass.
    resolution: i64,
    ops: Latest<Rank, MpiRankBin>,
    peers: Latest<(Rank, String), MpiRankPeers>,
    regions: Latest<Rank, MpiRankRegions>,
    pvars: Latest<Variable, MpiPvarSample>,
    ports: Latest<Device, HostPortSample>,
    links: Latest<Device, GpuLinksSample>,
    pcie: Latest<Device, GpuPcieSample>,
    pm: Latest<Device, GpuPmSample>,
    fabric_ports: Latest<FabricPort, IbPortSample>,
}

/// A port of the fabric: GUID of its node, number, epoch.
type FabricPort = (u64, u32, i64);

/// The shortest resolution that leaves anything out: ranks report bins of 100 ms.
const RESOLUTION_LEAST: i64 = 100_000_001;

impl Thinner {
    /// To this resolution in nanoseconds; all records where that is no coarser than what ranks report.
    pub fn new(resolution: i64) -> Self {
        Self { resolution, ..Self::default() }
    }

    /// Takes a batch; what is complete of the intervals before.
    pub fn take(&mut self, batch: Batch) -> Batch {
        if self.resolution < RESOLUTION_LEAST {
            return batch;
        }
        let mut out = Batch::default();
        let resolution = self.resolution;
        macro_rules! thin {
            ($($kind:ident $map:ident $record:ident $key:expr, $merge:expr);+ $(;)?) => { $(
                for $record in batch.$kind {
                    let key = $key;
                    match self.$map.get_mut(&key) {
                        // Ends of intervals belong to them.
                        Some(held) if (held.time - 1).div_euclid(resolution) == ($record.time - 1).div_euclid(resolution) => {
                            $merge(held, $record);
                        }
                        Some(held) => out.$kind.push(std::mem::replace(held, $record)),
                        None => _ = self.$map.insert(key, $record),
                    }
                }
            )+ };
        }
        thin! {
            mpi_ops ops r (r.job_key.clone(), r.rank, r.epoch), merge_ops;
            mpi_peers peers r ((r.job_key.clone(), r.rank, r.epoch), r.kind.clone()), merge_peers;
            mpi_regions regions r (r.job_key.clone(), r.rank, r.epoch), merge_regions;
            mpi_pvars pvars r (r.job_key.clone(), r.rank, r.name.clone(), r.element), replace;
            host_ports ports r (r.device.clone(), r.port, r.epoch, r.source.clone()), replace;
            gpu_links links r (r.gpu_uuid.clone(), 0, r.epoch, r.source.clone()), replace;
            gpu_pcie pcie r (r.gpu_uuid.clone(), 0, r.epoch, r.source.clone()), replace;
            gpu_pm pm r (r.gpu_uuid.clone(), 0, r.epoch, r.source.clone()), replace;
            ib_ports fabric_ports r (r.node_guid, r.port, r.epoch), merge_ports;
        }
        out
    }

    /// The last interval.
    pub fn finish(&mut self) -> Batch {
        fn all<K: Ord, R>(map: &mut Latest<K, R>) -> Vec<R> {
            std::mem::take(map).into_values().collect()
        }
        Batch {
            mpi_ops: all(&mut self.ops),
            mpi_peers: all(&mut self.peers),
            mpi_regions: all(&mut self.regions),
            mpi_pvars: all(&mut self.pvars),
            host_ports: all(&mut self.ports),
            gpu_links: all(&mut self.links),
            gpu_pcie: all(&mut self.pcie),
            gpu_pm: all(&mut self.pm),
            ib_ports: all(&mut self.fabric_ports),
            ..Batch::default()
        }
    }
}

fn replace<R>(held: &mut R, record: R) {
    *held = record;
}

/// Puts the newer cells in the place of those of the same key.
fn merge<C>(held: &mut Vec<C>, newer: Vec<C>, is_same: impl Fn(&C, &C) -> bool) {
    for cell in newer {
        match held.iter_mut().find(|held| is_same(held, &cell)) {
            Some(held) => *held = cell,
            None => held.push(cell),
        }
    }
}

fn merge_ops(held: &mut MpiRankBin, record: MpiRankBin) {
    held.time = record.time;
    merge(&mut held.cells, record.cells, |a, b| {
        (&a.operation, a.size_class_bytes, &a.region, &a.algorithm)
            == (&b.operation, b.size_class_bytes, &b.region, &b.algorithm)
    });
}

/// Not all counters are read each time: those that were read before stay.
fn merge_ports(held: &mut IbPortSample, record: IbPortSample) {
    let before = std::mem::replace(held, record);
    let (Some(held), Some(before)) = (&mut held.values, before.values) else { return };
    for (metric, value) in before.metric.iter().zip(before.value) {
        if !held.metric.contains(metric) {
            held.metric.push(*metric);
            held.value.push(value);
        }
    }
}

fn merge_peers(held: &mut MpiRankPeers, record: MpiRankPeers) {
    held.time = record.time;
    merge(&mut held.cells, record.cells, |a, b| a.peer == b.peer);
}

fn merge_regions(held: &mut MpiRankRegions, record: MpiRankRegions) {
    held.time = record.time;
    merge(&mut held.cells, record.cells, |a, b| a.region == b.region);
    merge(&mut held.paths, record.paths, |a, b| a.path == b.path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::MpiOpCell;

    const MS: i64 = 1_000_000;

    fn bin(time_ms: i64, operation: &str, calls: u64) -> MpiRankBin {
        let cell = MpiOpCell { operation: operation.into(), calls, ..MpiOpCell::default() };
        MpiRankBin { time: time_ms * MS, job_key: "a".into(), cells: vec![cell], ..MpiRankBin::default() }
    }

    fn bins(resolution_ms: i64) -> Vec<(i64, Vec<(String, u64)>)> {
        let mut thinner = Thinner::new(resolution_ms * MS);
        let mut out = Vec::new();
        for number in 1..=25_u64 {
            let time = i64::try_from(number).unwrap() * 100;
            let operation = if number % 5 == 0 { "bcast" } else { "send" };
            out.extend(
                thinner
                    .take(Batch { mpi_ops: vec![bin(time, operation, number)], ..Batch::default() })
                    .mpi_ops,
            );
        }
        out.extend(thinner.finish().mpi_ops);
        let cells =
            |bin: MpiRankBin| bin.cells.into_iter().map(|cell| (cell.operation, cell.calls)).collect();
        out.into_iter().map(|bin| (bin.time / MS, cells(bin))).collect()
    }

    #[test]
    fn of_each_interval_the_last_state_of_each_cell_is_left() {
        assert_eq!(bins(100).len(), 25);
        assert_eq!(bins(0).len(), 25);
        let second = bins(1000);
        let of = |send: u64, bcast: u64| vec![("send".to_owned(), send), ("bcast".to_owned(), bcast)];
        assert_eq!(second, [(1000, of(9, 10)), (2000, of(19, 20)), (2500, of(24, 25))]);
    }

    #[test]
    fn readings_of_a_port_are_thinned_by_their_epoch() {
        let port = |time_ms: i64, epoch| HostPortSample {
            time: time_ms * MS,
            device: "mlx5_0".into(),
            epoch,
            ..HostPortSample::default()
        };
        let mut thinner = Thinner::new(1000 * MS);
        let ports = vec![port(100, 0), port(200, 0), port(300, 1), port(1100, 1)];
        let mut out = thinner.take(Batch { host_ports: ports, ..Batch::default() }).host_ports;
        out.extend(thinner.finish().host_ports);
        let mut times: Vec<_> = out.iter().map(|port| port.time / MS).collect();
        times.sort_unstable();
        assert_eq!(times, [200, 300, 1100]);
    }
}
