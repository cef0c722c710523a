//! What a recorder costs: processor time and bytes for each record, and how much of an hour fits into the default ring.
//! `cargo bench -p throughline-recorder [-- RANKS SECONDS]`.
//!
//! The records are those of a node of MPI ranks in which each 100 ms some cells of each rank change, with eight GPUs of 18
//! links and four adapter ports read each second; counters grow by rates that vary from one reading to the next. What is not
//! the recorder's is made before the measurement.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)] // figures for people

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::time::Instant;
use throughline_recorder::{Config, Filter, Recorder, records};
use throughline_sample::catalogue::{PORT_DATA_RECEIVED_BYTES, PORT_DATA_TRANSMITTED_BYTES};
use throughline_sample::wire::{
    Batch, GpuLinksSample, HostPortSample, LinkValues, MpiOpCell, MpiRankBin, Values,
};

/// Bins of a rank in a second.
const BINS: i64 = 10;
/// Cells that change in each of them: the demo's ranks send 70 rows a second.
const CELLS: usize = 7;
const GPUS: usize = 8;
const LINKS: u32 = 18;
const PORTS: usize = 4;
/// Nanoseconds from one bin to the next.
const BIN: i64 = 100_000_000;

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let ranks = numbers.first().copied().unwrap_or(32);
    let seconds = numbers.get(1).copied().unwrap_or(60);
    let mut node = Node::new(ranks);
    let mut made: Vec<Vec<Batch>> = (0..seconds).map(|_| node.second()).collect();
    let count: usize = made.iter().flatten().map(records).sum();
    let cells: usize = made.iter().flatten().flat_map(|b| &b.mpi_ops).map(|bin| bin.cells.len()).sum();

    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::open(folder.path(), Config::default()).unwrap();
    let (before, begin) = (processor_seconds(), Instant::now());
    for second in &mut made {
        second.iter_mut().for_each(|batch| recorder.append(batch));
        // As often as the thread would in two seconds' time.
        recorder.flush();
    }
    let (processor, elapsed) = (processor_seconds() - before, begin.elapsed().as_secs_f64());
    let stats = recorder.stats();
    assert_eq!((stats.records as usize, stats.dropped_records), (count, 0));
    let per_second = stats.disk_bytes as f64 / seconds as f64;
    println!(
        "{ranks} ranks of {CELLS} cells each 100 ms, {GPUS} GPUs of {LINKS} links, {PORTS} ports, {seconds} s"
    );
    println!(
        "  records, cells a second      {:>9.0} {:>9.0}",
        count as f64 / seconds as f64,
        cells as f64 / seconds as f64
    );
    println!("  encoded bytes a second       {:>9.0}", stats.record_bytes as f64 / seconds as f64);
    println!(
        "  bytes on disk a second       {per_second:>9.0}  ({:.1} times smaller)",
        stats.record_bytes as f64 / stats.disk_bytes as f64
    );
    println!("  bytes on disk a cell         {:>9.1}", stats.disk_bytes as f64 / cells as f64);
    println!(
        "  an hour                      {:>9.1} MB; the default ring holds {:.0} min",
        per_second * 3.6e-3,
        (512 << 20) as f64 / per_second / 60.0
    );
    println!(
        "  processor                    {:>9.3} % of a core at this rate, {:.2} us a record",
        100.0 * processor / seconds as f64,
        1e6 * processor / count as f64
    );
    println!("  elapsed                      {elapsed:>9.3} s");
    let begin = Instant::now();
    let read: usize =
        recorder.records(i64::MIN..i64::MAX, Filter::default()).map(|b| records(&b.unwrap())).sum();
    assert_eq!(read, count);
    println!("  reading all                  {:>9.3} s", begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    let filter = Filter { job_key: Some("slurm:4711.0".into()), ..Filter::default() };
    let to = node.time;
    let read: usize = recorder.records(to - 10_000_000_000..to, filter).map(|b| records(&b.unwrap())).sum();
    println!("  reading its last 10 s        {:>9.3} s ({read} records)", begin.elapsed().as_secs_f64());
}

fn processor_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 * 1e-6
}

struct Node {
    random: fastrand::Rng,
    time: i64,
    /// Cumulative cells of each rank.
    ranks: Vec<Vec<MpiOpCell>>,
    links: Vec<u64>,
    ports: Vec<u64>,
}

impl Node {
    fn new(ranks: usize) -> Self {
        let names = [
            "allreduce",
            "isend",
            "irecv",
            "waitall",
            "bcast",
            "alltoall",
            "barrier",
            "reduce",
            "wait",
            "test",
        ];
        let cell = |number: usize| MpiOpCell {
            operation: names[number % names.len()].into(),
            size_class_bytes: 1 << (number % 21),
            region: if number.is_multiple_of(3) { "solver/halo exchange".into() } else { String::new() },
            algorithm: if number.is_multiple_of(4) { "recursivedoubling".into() } else { String::new() },
            algorithm_source: if number.is_multiple_of(4) { "observed".into() } else { String::new() },
            ..MpiOpCell::default()
        };
        Self {
            random: fastrand::Rng::with_seed(7),
            time: 1_790_000_000_000_000_000,
            ranks: (0..ranks).map(|_| (0..24).map(cell).collect()).collect(),
            links: vec![1 << 50; GPUS * LINKS as usize * 2],
            ports: vec![1 << 50; PORTS * 2],
        }
    }

    /// The batches of one second: as ranks push them, each by itself.
    fn second(&mut self) -> Vec<Batch> {
        let (begin, random) = (self.time, &mut self.random);
        self.time += BINS * BIN;
        let mut batches = Vec::new();
        for (rank, cells) in self.ranks.iter_mut().enumerate() {
            let bins = (0..BINS).map(|bin| MpiRankBin {
                time: begin + bin * BIN,
                epoch: 1_789_999_000_000_000_000 + rank as i64 * 7_654_321,
                job_key: "slurm:4711.0".into(),
                rank: rank as u32,
                source: "mpi".into(),
                cells: (0..CELLS).map(|_| changed(cells, random)).collect(),
            });
            batches.push(Batch { mpi_ops: bins.collect(), ..Batch::default() });
        }
        let time = self.time + 1_234_567;
        let mut values = |counter: &mut [u64]| {
            counter.iter_mut().for_each(|value| *value += random.u64(0..20_000_000_000));
            let mut values = Values::default();
            values.put(&PORT_DATA_RECEIVED_BYTES, counter[0]);
            values.put(&PORT_DATA_TRANSMITTED_BYTES, counter[1]);
            Some(values)
        };
        let gpu_links = self.links.chunks_mut(LINKS as usize * 2).enumerate().map(|(gpu, links)| {
            let link = |(link, counter): (usize, &mut [u64])| LinkValues {
                link: link as u32,
                values: values(counter),
            };
            let links = links.chunks_mut(2).enumerate().map(link).collect();
            let gpu_uuid = format!("GPU-5f0b6c1e-0000-4000-8000-00000000000{gpu}");
            GpuLinksSample { time, epoch: 1, gpu_uuid, source: "nvml".into(), links }
        });
        let gpu_links = gpu_links.collect();
        let ports = self.ports.chunks_mut(2).enumerate().map(|(port, counter)| HostPortSample {
            time,
            epoch: 1,
            device: format!("mlx5_{port}"),
            port: 1,
            values: values(counter),
            node_guid: 0x1234_5678,
            port_guid: 0,
            source: "sysfs".into(),
        });
        let host_ports = ports.collect();
        batches.push(Batch { gpu_links, host_ports, ..Batch::default() });
        batches
    }
}

/// One of the cells after some calls more.
fn changed(cells: &mut [MpiOpCell], random: &mut fastrand::Rng) -> MpiOpCell {
    let at = random.usize(0..cells.len());
    let cell = &mut cells[at];
    let calls = random.u64(1..200);
    cell.calls += calls;
    cell.bytes += calls * cell.size_class_bytes;
    let elapsed = calls * random.u64(800..60_000);
    cell.elapsed_nanoseconds += elapsed;
    cell.longest_nanoseconds = cell.longest_nanoseconds.max(elapsed / calls * 3);
    cell.least_nanoseconds = Some(cell.least_nanoseconds.unwrap_or(0) + elapsed / 2);
    if at.is_multiple_of(2) {
        cell.wait_nanoseconds = Some(cell.wait_nanoseconds.unwrap_or(0) + elapsed / 3);
        cell.received_bytes = Some(cell.received_bytes.unwrap_or(0) + calls * cell.size_class_bytes);
    }
    cell.clone()
}
