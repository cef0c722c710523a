//! Fills a recorder's ring with what a busy node's sources send.

use super::Options;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use throughline_benches::site::cluster::{Cluster, Name};
use throughline_benches::site::node::Node;
use throughline_benches::site::ranks::{Ranks, SECOND};
use throughline_recorder::{Config, Recorder};
use throughline_sample::wire::{Batch, MpiOpCell, MpiPeerCell, MpiRankBin, MpiRankPeers};
use throughline_spool::FileStorage;

/// Bins in a second.
const BINS: i64 = 10;
/// Cells of a rank; some of them change in each bin.
const CELLS: usize = 24;
const OPERATIONS: [&str; 10] =
    ["allreduce", "isend", "irecv", "waitall", "bcast", "alltoall", "barrier", "reduce", "wait", "test"];

/// Fills it from `begin` on; what it took.
pub fn fill(place: &Path, job: &str, epoch: i64, begin: i64, options: &Options) -> anyhow::Result<String> {
    let clock = Arc::new(AtomicI64::new(begin));
    let time = clock.clone();
    let recorder = Recorder::with_clock(Arc::new(FileStorage::open(place)?), Config::default(), move || {
        time.load(Relaxed)
    })?;
    let mut random = fastrand::Rng::with_seed(7);
    let mut ranks: Vec<Vec<MpiOpCell>> = (0..options.ranks).map(|_| (0..CELLS).map(cell).collect()).collect();
    let cluster = Cluster { adapters: 1, gpus: 8, links: 18, gpu_nodes: 1, ..Cluster::new(Name::B, 1) };
    let mut node = Node::new(0, &cluster, Ranks::new(1, 0, 1, 1, begin), begin);
    for second in 1..=i64::from(options.seconds) {
        let end = begin + second * SECOND;
        for (number, cells) in (0_u32..).zip(&mut ranks) {
            let epoch = epoch + i64::from(number);
            let mut batch = Batch::default();
            batch.mpi_ops.extend((0..BINS).map(|bin| MpiRankBin {
                time: end - (BINS - bin) * SECOND / BINS,
                epoch,
                job_key: job.to_owned(),
                rank: number,
                source: "pmpi".into(),
                cells: some(cells, options.cells, &mut random),
            }));
            let peer = |peer: u32| MpiPeerCell {
                peer: (number + peer * 7 + 1) % options.ranks,
                bytes: second.unsigned_abs() * 1_000_003 + u64::from(peer),
                messages: second.unsigned_abs() * 211,
            };
            batch.mpi_peers.push(MpiRankPeers {
                time: end - SECOND / BINS,
                epoch,
                job_key: job.to_owned(),
                rank: number,
                kind: "logical".into(),
                source: "pmpi".into(),
                cells: (0..4).map(peer).collect(),
                is_whole: false,
            });
            recorder.append(&mut batch);
            // Ranks push each at a moment of its own, and it is written twice a second.
            if number == options.ranks / 2 {
                clock.store(end - SECOND / 2, Relaxed);
                recorder.flush();
            }
        }
        let read = node.second(end - SECOND, end - SECOND, false);
        let (host_ports, gpu_links, gpu_pcie) = (read.host_ports, read.gpu_links, read.gpu_pcie);
        recorder.append(&mut Batch { host_ports, gpu_links, gpu_pcie, ..Batch::default() });
        clock.store(end, Relaxed);
        recorder.flush();
    }
    let stats = recorder.stats();
    anyhow::ensure!(stats.dropped_records == 0, "{} records did not fit", stats.dropped_records);
    Ok(format!(
        "{} records of {:.1} MB, {:.1} MB in the ring",
        stats.records,
        stats.record_bytes as f64 / 1e6,
        stats.disk_bytes as f64 / 1e6
    ))
}

fn cell(number: usize) -> MpiOpCell {
    let algorithm = |name: &str| if number.is_multiple_of(4) { name.into() } else { String::new() };
    MpiOpCell {
        operation: OPERATIONS[number % OPERATIONS.len()].into(),
        size_class_bytes: 1 << (number % 21),
        region: if number.is_multiple_of(3) { "solver/halo exchange".into() } else { String::new() },
        algorithm: algorithm("recursivedoubling"),
        algorithm_source: algorithm("observed"),
        ..MpiOpCell::default()
    }
}

/// Some of the cells after some calls more.
fn some(cells: &mut [MpiOpCell], count: usize, random: &mut fastrand::Rng) -> Vec<MpiOpCell> {
    let first = random.usize(0..cells.len());
    (0..count)
        .map(|at| {
            let place = (first + at) % cells.len();
            let cell = &mut cells[place];
            let calls = random.u64(1..200);
            cell.calls += calls;
            cell.bytes += calls * cell.size_class_bytes;
            let elapsed = calls * random.u64(800..60_000);
            cell.elapsed_nanoseconds += elapsed;
            cell.longest_nanoseconds = cell.longest_nanoseconds.max(elapsed / calls * 3);
            cell.least_nanoseconds = Some(cell.least_nanoseconds.unwrap_or(0) + elapsed / 2);
            if place.is_multiple_of(2) {
                cell.wait_nanoseconds = Some(cell.wait_nanoseconds.unwrap_or(0) + elapsed / 3);
                cell.received_bytes = Some(cell.received_bytes.unwrap_or(0) + calls * cell.size_class_bytes);
            }
            cell.clone()
        })
        .collect()
}
