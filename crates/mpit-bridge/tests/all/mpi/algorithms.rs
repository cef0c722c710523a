//! Which algorithm a collective used: observed, forced, or unknown; never another one than what the library did.

use crate::mpi::support::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Sizes at which Open MPI's fixed decisions for four ranks differ.
const SIZES: [&str; 5] = ["8", "1024", "8192", "65536", "1048576"];

fn run(mpi: Mpi, socket: &Path, program: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = mpi.run(4);
    for (name, value) in settings {
        command.args(["--mca", name, value]);
    }
    command.env("THROUGHLINE_SOCKET", socket).env("THROUGHLINE_LIB_DIR", plain_shim());
    command.arg(env!("CARGO_BIN_EXE_throughline-exec")).arg(program).args(SIZES);
    command
}

/// Algorithm and source of each size class of one rank's operation.
fn algorithms(observed: &Observed, rank: u32, operation: &str) -> BTreeMap<u64, BTreeSet<(String, String)>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for ((of, name, class, ..), cell) in &observed.parts {
        if *of == rank && name == operation {
            found.entry(*class).or_default().insert((cell.algorithm.clone(), cell.algorithm_source.clone()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_at_sizes_that_switch() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/algorithms.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let output = agent.run(run(Mpi::Open, &agent.socket, &program, &[]), 4).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    for operation in ["allreduce", "bcast", "alltoall"] {
        let found = algorithms(&agent.observed, 2, operation);
        assert_eq!(found.len(), SIZES.len(), "{operation}: {found:?}");
        let names: BTreeSet<_> = found.values().flatten().map(|(name, _)| name).collect();
        assert!(names.len() > 1, "{operation} at sizes that switch: {found:?}");
        for (class, cells) in &found {
            // A size class may hold both sides of a switch, but nothing that nobody saw.
            assert!(
                cells.iter().all(|(name, source)| !name.is_empty() && source == "observed"),
                "{class} {cells:?}"
            );
            let calls = agent.observed.cell(2, operation, *class).unwrap().0;
            assert_eq!(calls, 5, "{operation} {class}");
        }
    }
    // What Open MPI's own decision function says for four ranks and 8 KiB, and what it does for small blocks.
    let one = |operation: &str, class: u64| {
        let cells = algorithms(&agent.observed, 0, operation).remove(&class).unwrap();
        cells.into_iter().map(|cell| cell.0).collect::<Vec<_>>()
    };
    assert_eq!(one("allreduce", 8192), ["redscat_allgather"]);
    assert_eq!(one("alltoall", 8192), ["basic_linear"]);
    assert!(agent.observed.settings.is_empty(), "nothing was set: {:?}", agent.observed.settings);
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_ones_are_reported_as_forced() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/algorithms.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let forced = [
        ("coll_tuned_use_dynamic_rules", "1"),
        ("coll_tuned_allreduce_algorithm", "4"),
        ("coll_tuned_bcast_algorithm", "6"),
        ("coll_tuned_alltoall_algorithm", "2"),
    ];
    let output = agent.run(run(Mpi::Open, &agent.socket, &program, &forced), 4).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    for (operation, name) in [("allreduce", "ring"), ("bcast", "binomial"), ("alltoall", "pairwise")] {
        let expected = BTreeSet::from([(name.to_owned(), "forced".to_owned())]);
        for (class, cells) in algorithms(&agent.observed, 1, operation) {
            assert_eq!(cells, expected, "{operation} {class}");
        }
    }
    let others: BTreeSet<_> =
        algorithms(&agent.observed, 1, "allgather").into_values().flatten().map(|cell| cell.1).collect();
    assert_eq!(others, BTreeSet::from(["observed".to_owned()]), "not forced");
    let settings = &agent.observed.settings;
    assert_eq!(
        settings.get("coll_tuned_allreduce_algorithm").map(String::as_str),
        Some("4:ring"),
        "{settings:?}"
    );
    assert_eq!(settings.len(), 4, "{settings:?}");
}

/// Without coll_tuned_use_dynamic_rules the library does not heed what is requested.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_requested_in_vain_is_not_forced() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/algorithms.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let requested = [("coll_tuned_allreduce_algorithm", "4")];
    let output = agent.run(run(Mpi::Open, &agent.socket, &program, &requested), 4).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    let found = algorithms(&agent.observed, 0, "allreduce");
    assert!(found.values().flatten().all(|cell| cell.1 == "observed"), "{found:?}");
    assert!(found[&8192].contains(&("redscat_allgather".to_owned(), "observed".to_owned())), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mpich_shows_only_what_was_requested() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/algorithms.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = run(Mpi::Mpich, &agent.socket, &program, &[]);
    command.env("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "recursive_doubling");
    let output = agent.run(command, 4).await;
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    let only = |operation: &str| -> BTreeSet<_> {
        algorithms(&agent.observed, 3, operation).into_values().flatten().collect()
    };
    let cell = |name: &str, source: &str| BTreeSet::from([(name.to_owned(), source.to_owned())]);
    assert_eq!(only("allreduce"), cell("recursive_doubling", "forced"));
    assert_eq!(only("bcast"), cell("", "unknown"));
    let value = agent.observed.settings.get("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM");
    assert!(
        value.is_some_and(|value| value.ends_with(":recursive_doubling")),
        "{:?}",
        agent.observed.settings
    );
}
