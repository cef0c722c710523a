//! Device files of GPUs that ranks of real programs have open, and the GPUs that their environment names.

use crate::mpi::support::*;
use std::fs::{File, create_dir_all};
use throughline_mpit_bridge::{Look, NodeGpu};
use throughline_sample::wire::{JobRank, RankGpu};

fn gpu(number: u32) -> NodeGpu {
    NodeGpu {
        gpu_uuid: format!("GPU-{number}"),
        partition_uuid: String::new(),
        minor: Some(number),
        nearest_distance: String::new(),
        processes: Err("no_permission"),
    }
}

/// Rank, GPU and evidence of each row; whether it was so to the end.
fn rows(ranks: &[&JobRank]) -> Vec<String> {
    let row = |rank: &JobRank, gpu: &RankGpu| {
        format!("{} {} {} {}", rank.rank, gpu.gpu_uuid, gpu.evidence, gpu.last_seen == 0)
    };
    let mut all: Vec<_> = ranks.iter().flat_map(|rank| rank.gpus.iter().map(|gpu| row(rank, gpu))).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn open_devices_are_known_by_the_ranks_own_word() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/devices.c", folder.path());
        let devices = folder.path().join(format!("dev-{}", mpi.name()));
        create_dir_all(&devices).unwrap();
        for name in ["nvidia0", "nvidia1", "nvidiactl"] {
            File::create(devices.join(name)).unwrap();
        }
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = mpi.run(3);
        command.env("THROUGHLINE_DEVICE_FOLDER", &devices).env("CUDA_VISIBLE_DEVICES", "GPU-1,0");
        let mut command = with_shim(command, &agent.socket);
        command.arg(&program).arg(&devices);
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        agent.until("ranks are here", |observed| observed.ranks.len() == 3).await;
        let look = Look {
            time: utc(),
            ranks: agent.receiver.processes().into_iter().collect(),
            gpus: Ok((0..3).map(gpu).collect()),
            hca_ports: Err("no_adapters"),
        };
        agent.receiver.place(&look);
        let is_open = |rank: &&JobRank| rank.gpus.iter().any(|gpu| gpu.evidence == "device");
        agent
            .until("devices are open", |observed| observed.ranks.values().filter(is_open).count() == 2)
            .await;
        let all: Vec<_> = agent.observed.ranks.values().collect();
        assert!(all.iter().all(|rank| rank.visible_devices.as_deref() == Some("GPU-1,0")), "{all:?}");
        assert!(all.iter().all(|rank| rank.gpu_evidence == "device"), "{all:?}");
        File::create(devices.join("close")).unwrap();
        agent.until_ended(3).await;
        let output = running.await.unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let all: Vec<_> = agent.observed.ranks.values().collect();
        assert_eq!(
            rows(&all),
            [
                "0 GPU-0 device false",
                "0 GPU-1 visible true",
                "1 GPU-1 device false",
                "1 GPU-1 visible true",
                "2 GPU-1 visible true"
            ],
            "{}",
            mpi.name()
        );
        agent.receiver.stop().await;
    }
}
