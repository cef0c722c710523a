//! Launches without a scheduler: each is a job of its own, also where mpiexec is given the port of an earlier one, as happens by
//! chance after some hundred launches. Here it is always the same port.

use crate::mpi::support::*;
use std::path::Path;
use std::process::Command;

/// A port that is free now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Where Hydra's mpiexec listens.
fn at_port(mut launcher: Command, port: u16) -> Command {
    launcher.env("MPIEXEC_PORT_RANGE", format!("{port}:{port}"));
    launcher
}

/// Launches of two ranks, one after the other; each has to be another job.
async fn launches_in_a_row(launches: usize, folder: &Path) {
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder);
    let mut agent = Agent::start(&folder.join("mpi.sock"));
    let port = free_port();
    for launch in 1..=launches {
        let mut command = with_shim(at_port(Mpi::Mpich.run(2), port), &agent.socket);
        command.arg(&program).arg("1");
        let output = agent.run(command, 2).await;
        assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));
        assert_eq!(agent.observed.jobs.len(), launch, "each launch is a job");
    }
    assert_eq!(agent.observed.ranks.len(), 2 * launches);
    let is_launcher = |job: &throughline_sample::wire::Job| job.evidence == "launcher";
    assert!(agent.observed.jobs.values().all(is_launcher), "{:?}", agent.observed.jobs);
    agent.receiver.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_comes_again_is_another_job() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    launches_in_a_row(3, folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: benches/soak.sh runs it, THROUGHLINE_LAUNCHES times (1000)"]
async fn a_thousand_launches_are_a_thousand_jobs() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let launches = std::env::var("THROUGHLINE_LAUNCHES").map_or(1000, |count| count.parse().unwrap());
    launches_in_a_row(launches, folder.path()).await;
    println!("{launches} launches by one port: {launches} jobs");
}

/// Two names of this machine are two nodes to Hydra, each with a proxy of its own. Their ranks have in common what mpiexec passes on
/// to them: its start, where it has loaded the shim as well.
#[tokio::test(flavor = "multi_thread")]
async fn launches_over_several_nodes_are_named_by_mpiexec() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("mpi.sock"));
    let port = free_port();
    let nodes = |mut command: Command| {
        command.args(["-launcher", "fork", "-hosts", "localhost,127.0.0.1"]);
        command
    };
    for launch in 1..=2 {
        let launcher = at_port(nodes(Mpi::Mpich.run(2)), port);
        let mut command = exec();
        command.arg(launcher.get_program()).args(launcher.get_args()).arg(&program).arg("1");
        command.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_LIB_DIR", plain_shim());
        let output = agent.run(command, 2).await;
        assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));
        assert_eq!(agent.observed.jobs.len(), launch, "each launch is a job, of both nodes");
    }
    // With the shim in the ranks alone they agree on mpiexec's address: another port is another job.
    let mut command = with_shim(nodes(Mpi::Mpich.run(2)), &agent.socket);
    command.arg(&program).arg("1");
    let output = agent.run(command, 2).await;
    assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));
    assert_eq!(agent.observed.jobs.len(), 3);
    // Intel MPI's Hydra gives its ranks a number of the launch, on all nodes.
    for launch in ["fb260000-a86d-7c78-6861-060025f59f78", "4c270000-e63f-7779-6861-0600f86a616d"] {
        let mut command = with_shim(at_port(nodes(Mpi::Mpich.run(2)), port), &agent.socket);
        command.env("I_MPI_HYDRA_UUID", launch).arg(&program).arg("1");
        let output = agent.run(command, 2).await;
        assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));
    }
    assert_eq!(agent.observed.jobs.len(), 5);
    agent.receiver.stop().await;
}
