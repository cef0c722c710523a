//! Regions of a program: by its own header, MPI_Pcontrol, Caliper and NVTX, and names of communicators.

use crate::mpi::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, and the double of the libraries whose annotations it has.
fn program(mpi: Mpi, folder: &Path) -> PathBuf {
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let library = folder.join("libannotations.so");
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library);
    succeeded(command.arg(source("annotations_double.c")));
    let program = folder.join(format!("regions.{}", mpi.name()));
    let mut command = Command::new(format!("mpicc.{}", mpi.name()));
    command.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source("regions.c")).arg(library);
    succeeded(command.arg(format!("-Wl,-rpath,{}", folder.display())));
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_counts_in_the_innermost_region() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = program(mpi, folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 4, &agent.socket);
        command.arg(&program);
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "caliper 1 1 nvtx 1 1\nthere\n", "{}", stderr(&output));
        let observed = &agent.observed;
        for rank in 0..4 {
            let calls = |region: &str| -> u64 {
                let parts = observed.parts.iter().filter(|(key, _)| key.0 == rank && key.1 == "allreduce");
                parts.filter(|(key, _)| key.3 == region).map(|(_, cell)| cell.calls).sum()
            };
            let expected = [
                ("whole", 1, 1),
                ("solve", 13, 2),
                ("halo", 7, 2),
                ("phase 2", 6, 1),
                ("phase 3", 7, 1),
                ("caliper", 8, 1),
                ("nvtx", 9, 1),
            ];
            for (region, allreduces, visits) in expected {
                assert_eq!(calls(region), allreduces, "{mpi:?} {region}");
                let cell = &observed.regions[&(rank, region.to_owned())];
                assert_eq!((cell.visits, cell.mpi_calls), (visits, allreduces), "{mpi:?} {region}: {cell:?}");
                let times = [cell.mpi_nanoseconds, cell.own_nanoseconds, cell.elapsed_nanoseconds];
                assert!(times.is_sorted() && times[0] > 0, "{mpi:?} {region}: {cell:?}");
            }
            assert_eq!(calls(""), 5 + 1, "outside of all");
            let open = &observed.regions[&(rank, "open".to_owned())];
            assert_eq!((open.visits, open.mpi_calls), (1, 0), "ended by the region around it");
            let comms: Vec<_> = observed.comms.values().filter(|comm| comm.rank == rank).collect();
            assert_eq!(comms.len(), 1, "{comms:?}");
            let place = Some(rank / 2);
            assert_eq!((&*comms[0].name, comms[0].size, comms[0].rank_in_comm), ("rows", 2, place));
        }
        let status = agent.receiver.status();
        // A region never begun, and one ended by another's end; of 9 + 300 names 255 are recorded.
        assert_eq!((status.mismatched_regions, status.refused_regions), (4 * 2, 4 * (9 + 300 - 255)));
        assert_eq!((status.unknown_names, status.malformed_messages()), (0, 0), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_shim_nothing_happens() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = program(mpi, folder.path());
        let output = mpi.run(2).arg(program).output().unwrap();
        assert_eq!(stdout(&output), "caliper 1 1 nvtx 1 1\nnot there\n", "{}", stderr(&output));
    }
}
