//! Traffic by operation, of real programs: modelled against the messages that Open MPI reports, one-sided operations,
//! and MPICH, whose algorithms nobody observes.

use crate::mpi::support::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const RANKS: u32 = 4;
const TIMES: u64 = 10;

/// By operation, kind, direction and peer: bytes and messages.
type Cells = BTreeMap<(String, String, String, u32), (u64, u64)>;

/// A command that runs the program with an agent for each rank, as on so many nodes.
fn command(agents: &[Agent], program: &Path, wire: bool, arguments: &[&str]) -> Command {
    let mut command = Mpi::Open.run_over("self,vader", 1);
    command.env("THROUGHLINE_LIB_DIR", plain_shim()).env_remove("THROUGHLINE_WIRE");
    for (rank, agent) in agents.iter().enumerate() {
        if rank > 0 {
            command.args([":", "-n", "1"]);
        }
        command.arg("-x").arg(format!("THROUGHLINE_SOCKET={}", agent.socket.display()));
        if wire {
            command.args(["-x", "THROUGHLINE_WIRE=1"]);
        }
        command.arg(env!("CARGO_BIN_EXE_throughline-exec")).arg(program).args(arguments);
    }
    command
}

/// The cells of each rank.
async fn run(folder: &Path, name: &str, change: impl FnOnce(&[Agent]) -> Command) -> Vec<Cells> {
    observed(folder, name, change).await.into_iter().map(|observed| observed.traffic).collect()
}

/// What each rank's agent received.
async fn observed(folder: &Path, name: &str, change: impl FnOnce(&[Agent]) -> Command) -> Vec<Observed> {
    let mut agents: Vec<_> =
        (0..RANKS).map(|rank| Agent::start(&folder.join(format!("{name}{rank}")))).collect();
    let mut command = change(&agents);
    let program = tokio::task::spawn_blocking(move || command.output().unwrap());
    let mut all = Vec::new();
    for agent in &mut agents {
        agent.until_ended(1).await;
        all.push(std::mem::take(&mut agent.observed));
    }
    let output = program.await.unwrap();
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    all
}

/// The cells of a program of MPICH on one node.
async fn on_mpich(name: &str) -> Cells {
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile(&format!("tests/programs/{name}.c"), folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = run_with_shim(Mpi::Mpich, RANKS, &agent.socket);
    command.arg(&program);
    let output = agent.run(command, RANKS as usize).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    std::mem::take(&mut agent.observed.traffic)
}

/// Sum over kinds, directions and peers.
fn bytes(cells: &Cells, operation: &str) -> u64 {
    cells.iter().filter(|(key, _)| key.0 == operation).map(|(_, (bytes, _))| bytes).sum()
}

/// Sums over directions and kinds.
fn by_operation(cells: &Cells) -> BTreeMap<(&str, u32), (u64, u64)> {
    let mut sums = BTreeMap::new();
    for ((operation, _, _, peer), (bytes, messages)) in cells {
        let sum: &mut (u64, u64) = sums.entry((operation.as_str(), *peer)).or_default();
        *sum = (sum.0 + bytes, sum.1 + messages);
    }
    sums
}

fn kinds<'a>(cells: &'a Cells, operation: &str) -> Vec<&'a str> {
    let mut kinds: Vec<_> = cells.keys().filter(|key| key.0 == operation).map(|key| key.1.as_str()).collect();
    kinds.dedup();
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_what_open_mpi_reports() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/traffic.c", folder.path());
    let measured = run(folder.path(), "w", |agents| command(agents, &program, true, &[])).await;
    let modelled = run(folder.path(), "m", |agents| command(agents, &program, false, &[])).await;
    for rank in 0..RANKS as usize {
        // Open MPI 4.1 starts persistent sends without its monitoring layer.
        let others = measured[rank].iter().filter(|(key, _)| key.1 != "measured");
        assert_eq!(others.map(|(key, _)| key.0.as_str()).collect::<Vec<_>>(), ["send_init"]);
        let (real, model) = (by_operation(&measured[rank]), by_operation(&modelled[rank]));
        for operation in [
            "allreduce",
            "bcast",
            "allgather",
            "reduce",
            "gather",
            "scatter",
            "alltoall",
            "alltoallv",
            "scan",
            "barrier",
            "sendrecv",
            "send_init",
            // By the schedule of libnbc, which nobody observes.
            "iallreduce",
        ] {
            for peer in 0..RANKS {
                let of = |cells: &BTreeMap<(&str, u32), (u64, u64)>| {
                    cells.get(&(operation, peer)).copied().unwrap_or_default()
                };
                assert_eq!(of(&model), of(&real), "{operation} from {rank} to {peer}: {real:?}");
            }
            assert!(
                kinds(&modelled[rank], operation).iter().all(|kind| *kind == "modelled"),
                "{operation} of {rank}"
            );
        }
        assert!(real.keys().any(|(operation, _)| *operation == "iallreduce"), "{real:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_groups_models_are_what_open_mpi_reports() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/intercommunicators.c", folder.path());
    let measured = run(folder.path(), "w", |agents| command(agents, &program, true, &[])).await;
    let modelled = run(folder.path(), "m", |agents| command(agents, &program, false, &[])).await;
    for (rank, (real, model)) in measured.iter().zip(&modelled).enumerate() {
        let (real, by_model) = (by_operation(real), by_operation(model));
        for operation in
            ["allgather", "allreduce", "alltoall", "bcast", "gather", "reduce", "scatter", "ibcast"]
        {
            for peer in 0..RANKS {
                let of = |cells: &BTreeMap<(&str, u32), (u64, u64)>| {
                    cells.get(&(operation, peer)).copied().unwrap_or_default()
                };
                assert_eq!(of(&by_model), of(&real), "{operation} from {rank} to {peer}: {real:?}");
            }
            assert!(kinds(model, operation).iter().all(|kind| *kind == "modelled"), "{operation} of {rank}");
        }
        assert!(real.keys().any(|(operation, _)| *operation == "allreduce"), "{real:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_groups_of_mpich_each_byte_that_crosses_does_so_once() {
    let _alone = alone().await;
    let cells = on_mpich("intercommunicators").await;
    let sum = |operation: &str| bytes(&cells, operation);
    // Each way once, after one message within each pair and before one; three and one: 2 and 0 of each.
    assert_eq!(kinds(&cells, "allreduce"), ["modelled"]);
    assert_eq!(sum("allreduce"), (2 + 2 * 2 + 2 + 2 * 2) * 1600 * TIMES);
    // One across and one within the other pair; one across to the one alone.
    assert_eq!(kinds(&cells, "ibcast"), ["modelled"]);
    assert_eq!(sum("ibcast"), (2 + 1) * 600 * TIMES);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_monitoring_layer_traffic_is_modelled_although_messages_are_wanted() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/traffic.c", folder.path());
    let cells = run(folder.path(), "p", |agents| {
        let mut command = command(agents, &program, true, &[]);
        command.env("OMPI_MCA_pml", "ob1");
        command
    });
    for cells in cells.await {
        assert_eq!(kinds(&cells, "allreduce"), ["modelled"]);
        assert_eq!(kinds(&cells, "sendrecv"), ["modelled"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_rank_reads_comes_from_its_peer() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/traffic.c", folder.path());
    let all = observed(folder.path(), "g", |agents| command(agents, &program, false, &["one-sided"])).await;
    for (rank, observed) in (0..).zip(&all) {
        let cells = &observed.traffic;
        // The matrix has it by the rank that read, as the other one's process has no part in it.
        let read: Vec<_> =
            observed.read.values().map(|cell| (cell.peer, cell.bytes, cell.messages)).collect();
        let mut expected = vec![((rank + 1) % RANKS, 800 * TIMES, TIMES)];
        match (rank + 1) % RANKS {
            0 => expected[0] = (0, 804 * TIMES, 2 * TIMES),
            _ => expected.push((0, 4 * TIMES, TIMES)),
        }
        expected.sort_unstable();
        assert_eq!(read, expected, "of rank {rank}");
        let of = |operation: &str, direction: &str| {
            let matching = cells.iter().filter(|(key, _)| key.0 == operation && key.2 == direction);
            matching.map(|(key, sums)| (key.1.as_str(), key.3, *sums)).collect::<Vec<_>>()
        };
        assert_eq!(of("get", "receive"), [("modelled", (rank + 1) % RANKS, (800 * TIMES, TIMES))]);
        assert_eq!(of("get", "transmit"), []);
        assert_eq!(of("put", "transmit"), [("modelled", (rank + 3) % RANKS, (60 * TIMES, TIMES))]);
        for direction in ["transmit", "receive"] {
            assert_eq!(of("fetch_and_op", direction), [("modelled", 0, (4 * TIMES, TIMES))]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn algorithms_that_nobody_observes_are_assumed_or_logical() {
    let _alone = alone().await;
    let cells = on_mpich("traffic").await;
    let sum = |operation: &str| bytes(&cells, operation);
    // By a binomial tree each member but the root gets all of it once: 2 on the part of the world, 3 on the world.
    assert_eq!(kinds(&cells, "bcast"), ["modelled"]);
    assert_eq!(sum("bcast"), (2 * 3000 + 3 * 16384) * TIMES);
    // By recursive doubling in two steps.
    assert_eq!(kinds(&cells, "iallreduce"), ["modelled"]);
    assert_eq!(sum("iallreduce"), 4 * 2 * 200 * TIMES);
    assert_eq!(kinds(&cells, "alltoallv"), ["modelled"], "it names each receiver");
    assert_eq!(kinds(&cells, "sendrecv"), ["modelled"]);
    let ring = cells.iter().filter(|(key, _)| key.0 == "sendrecv").map(|(_, sums)| *sums);
    assert_eq!(ring.collect::<Vec<_>>(), [(4096 * TIMES, TIMES); 4]);
}
