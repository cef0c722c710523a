//! Where the ranks of this node compute: GPUs by the driver's list of processes, adapter ports by the kernel's queue
//! pairs. Brings the sources together, and reads nothing itself but the kernel's answer about queue pairs.
//!
//! Both are made some time after a rank connects, when it first uses a GPU or a peer: so ranks are looked at several
//! times, soon after new ones came and ever more rarely while they run.

use crate::sources::{Processes, Sources};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::Clock;
use throughline_gpu::place::places;
use throughline_host::qp;
use throughline_mpit_bridge::{Look, NodeGpu};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// How often it is looked whether there are new ranks.
const LOOK: Duration = Duration::from_secs(1);
/// Pauses in seconds from one look at places to the next after new ranks came; the last one is repeated.
const PAUSES_SECONDS: [u64; 6] = [2, 5, 10, 30, 60, 300];
/// How long the GPU driver may take to list processes before it is queried again at the next look.
const ANSWER: Duration = Duration::from_millis(500);

/// Notes where ranks compute, for ever. `sys`: where sysfs is mounted.
pub async fn run(sources: Sources, clock: Arc<Clock>, sys: PathBuf) {
    let mut known = BTreeSet::new();
    let mut looks = 0;
    let mut due = Instant::now();
    loop {
        sleep(LOOK).await;
        let ranks: BTreeSet<u32> = sources.ranks().into_iter().collect();
        if !ranks.is_subset(&known) {
            looks = 0;
            due = Instant::now() + Duration::from_secs(PAUSES_SECONDS[0]);
        }
        known = ranks;
        if known.is_empty() || Instant::now() < due {
            continue;
        }
        looks = (looks + 1).min(PAUSES_SECONDS.len() - 1);
        due = Instant::now() + Duration::from_secs(PAUSES_SECONDS[looks]);
        look(&sources, &known, &clock, &sys).await;
    }
}

/// One look at the places of all ranks.
async fn look(sources: &Sources, ranks: &BTreeSet<u32>, clock: &Clock, sys: &Path) {
    sources.query_gpu_processes();
    let time = clock.now();
    // Read from the kernel, which may wait for a driver.
    let hca_ports = spawn_blocking(qp::ports_of_processes).await.unwrap_or(Err("failed"));
    sleep(ANSWER).await;
    let (listed, sys) = (sources.gpu_processes(), sys.to_owned());
    let gpus = spawn_blocking(move || placed(listed, &sys)).await.unwrap_or(Err("failed"));
    sources.place(&Look { time, ranks: ranks.clone(), gpus, hca_ports });
}

/// The GPUs with how far their nearest adapters are.
fn placed(listed: Processes, sys: &Path) -> Result<Vec<NodeGpu>, &'static str> {
    let listed = listed?;
    let here = places(sys, listed.iter().map(|gpu| gpu.pci_bus_id.as_str()));
    let of = |gpu: throughline_gpu::GpuListing| NodeGpu {
        nearest_distance: here
            .nearest(&gpu.pci_bus_id)
            .map_or_else(String::new, |(distance, _)| distance.name().to_owned()),
        gpu_uuid: gpu.gpu_uuid,
        partition_uuid: gpu.partition_uuid,
        minor: gpu.minor,
        processes: gpu.processes,
    };
    Ok(listed.into_iter().map(of).collect())
}
