//! Counts, bytes and peers are exact.

use crate::mpi::support::*;
use std::process::Command;
use throughline_sample::wire::JobRank;

type Matrix = Vec<Vec<(u64, u64)>>;

/// 10 allreduces of 8 KiB on 4 ranks, whatever made them.
fn assert_ten_allreduces(observed: &Observed) {
    for rank in 0..4 {
        assert_eq!(
            observed.cell(rank, "allreduce", 8192),
            Some((10, 81_920)),
            "rank {rank}: {:#?}",
            observed.cells
        );
        let cell = &observed.cells[&(rank, "allreduce".to_owned(), 8192)];
        assert!(
            cell.elapsed_nanoseconds > 0 && cell.longest_nanoseconds <= cell.elapsed_nanoseconds,
            "{cell:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn allreduce_of_4_ranks() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/allreduce.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 4, &agent.socket);
        command.arg(program).arg("10");
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "sum 10\n", "{}", stderr(&output));
        let observed = &agent.observed;
        assert_ten_allreduces(observed);
        assert_eq!(observed.row(0, 4), [(0, 0), (81_920, 10), (81_920, 10), (81_920, 10)]);
        assert_eq!(observed.row(2, 4), [(81_920, 10), (81_920, 10), (0, 0), (81_920, 10)]);

        assert_eq!((observed.jobs.len(), observed.ranks.len()), (1, 4), "one launcher, one job");
        let job = observed.jobs.values().next().unwrap();
        assert!(job.key.starts_with("local:") && job.end > job.start && job.world_size == 4, "{job:?}");
        assert!(job.command.contains("allreduce"), "{job:?}");
        let clean = |rank: &JobRank| rank.ending == "clean" && rank.host == "n1" && rank.pid > 0;
        assert!(observed.ranks.values().all(clean), "{:?}", observed.ranks);
        let library = if mpi == Mpi::Open { "Open MPI" } else { "MPICH" };
        assert!(
            observed.ranks.values().all(|rank| rank.mpi_library.contains(library)),
            "{:?}",
            observed.ranks
        );
        assert!(
            observed.bin_times.iter().all(|time| (job.start..=job.end).contains(time)),
            "bins lie within the job"
        );
        let status = agent.receiver.status();
        assert_eq!(
            (status.malformed_messages(), status.lost_frames, status.connected),
            (0, 0, 0),
            "{status:?}"
        );
        let queue = "pml_ob1_unexpected_msgq_length";
        let variables = observed.variables.iter().filter(|one| one.name == queue).count();
        assert_eq!(variables >= 16, mpi == Mpi::Open, "4 ranks x 4 peers on Open MPI; MPICH has none");
    }
}

/// What makes and frees is a call as well, and so is one that fails.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_make_and_free_and_one_that_fails() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/made.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg(program).arg(folder.path());
        agent.run(command, 2).await;
        let once = [
            "comm_dup",
            "comm_dup_with_info",
            "comm_create",
            "comm_disconnect",
            "comm_create_group",
            "comm_split_type",
            "cart_create",
            "cart_sub",
            "graph_create",
            "dist_graph_create",
            "dist_graph_create_adjacent",
            "comm_split",
            "intercomm_create",
            "intercomm_merge",
            "win_create",
            "win_create_dynamic",
            "win_allocate",
            "win_allocate_shared",
            "file_open",
            "file_set_view",
            "file_set_info",
            "file_set_atomicity",
            "file_seek_shared",
            "file_close",
            "buffer_detach",
            "send",
        ];
        for rank in 0..2 {
            let observed = &agent.observed;
            let calls = |operation: &str| observed.cell(rank, operation, 0);
            for operation in once {
                assert_eq!(calls(operation), Some((1, 0)), "{operation} of rank {rank} on {mpi:?}");
            }
            assert_eq!((calls("comm_free"), calls("win_free")), (Some((12, 0)), Some((4, 0))), "{mpi:?}");
            assert_eq!(calls("file_delete"), (rank == 0).then_some((1, 0)));
            assert_eq!(observed.row(rank, 2), [(0, 0), (0, 0)], "nothing was sent");
        }
    }
}

/// Where the time went, beside the program's own clock: how long it was outside of MPI, and that it slept there.
#[tokio::test(flavor = "multi_thread")]
async fn time_outside_of_mpi_is_divided() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/slept.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg(program);
        let output = stdout(&agent.run(command, 2).await);
        for line in output.lines() {
            let (rank, own) = line.split_once(' ').unwrap();
            let (rank, own): (u32, f64) = (rank.parse().unwrap(), own.parse().unwrap());
            let reading = &agent.observed.scheduling[&rank];
            let seconds = |of: Option<u64>| of.unwrap() as f64 / 1e9;
            let outside = seconds(reading.elapsed_nanoseconds) - seconds(reading.mpi_nanoseconds);
            let off = seconds(reading.off_outside_nanoseconds);
            assert!((outside - own).abs() < 0.6, "{own} s outside by its clock: {reading:?}");
            let (slept, computed) = if rank == 0 { (1.2, 0.2) } else { (0.0, 0.0) };
            assert!(off >= slept - 0.02 && off <= outside - computed + 0.02, "{output}: {reading:?}");
            // The other one waited for it in its barriers.
            assert!(rank == 0 || seconds(reading.mpi_nanoseconds) > 1.0, "{reading:?}");
        }
        assert_eq!(output.lines().count(), 2, "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mpi4py() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let Some(python) = mpi.python() else { continue };
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 4, &agent.socket);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/allreduce.py");
        // It loads the library without showing its symbols to others.
        command.args([&python, script]);
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "sum 10\n", "{python}: {}", stderr(&output));
        assert_ten_allreduces(&agent.observed);
    }
}

/// What Open MPI's own coll monitoring counted: lines `C FROM TO N bytes N msgs sent` in one file a rank.
fn monitored(prefix: &std::path::Path) -> Matrix {
    let mut matrix = vec![vec![(0, 0); 4]; 4];
    for rank in 0..4 {
        let path = format!("{}.{rank}.prof", prefix.display());
        for line in std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            if let ["C", from, to, bytes, "bytes", messages, "msgs", ..] = words[..] {
                let number = |word: &str| word.parse::<u64>().unwrap();
                let index = |word: &str| word.parse::<usize>().unwrap();
                matrix[index(from)][index(to)] = (number(bytes), number(messages));
            }
        }
    }
    matrix
}

fn transposed(matrix: &Matrix) -> Matrix {
    (0..4).map(|row| (0..4).map(|column| matrix[column][row]).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn matrix_is_that_of_open_mpis_monitoring() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Open.compile("tests/programs/collectives.c", folder.path());
    for part in ["forward", "rooted"] {
        let mut agent = Agent::start(&folder.path().join(format!("{part}.s")));
        let prefix = folder.path().join(part);
        let mut command = Mpi::Open.run(4);
        let settings = [
            ("pml_monitoring_enable", "1"),
            ("pml_monitoring_enable_output", "3"),
            ("pml_monitoring_filename", prefix.to_str().unwrap()),
        ];
        for (name, value) in settings {
            command.args(["--mca", name, value]);
        }
        command.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_LIB_DIR", plain_shim());
        command.arg(env!("CARGO_BIN_EXE_throughline-exec")).arg(&program).arg(part);
        let output = agent.run(command, 4).await;
        assert!(output.status.success(), "{}", stderr(&output));
        let theirs = monitored(&prefix);
        assert!(theirs.iter().flatten().any(|cell| cell.0 > 0), "it counted");
        // A row of ours is always the rank that sends; theirs is the root's for gather and reduce.
        let theirs = if part == "rooted" { transposed(&theirs) } else { theirs };
        assert_eq!(agent.observed.matrix(4), theirs, "{part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_libraries_are_counted_alike() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let mut results = Vec::new();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/collectives.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        for part in ["forward", "rooted"] {
            let mut command = run_with_shim(mpi, 4, &agent.socket);
            command.arg(&program).arg(part);
            let output = agent.run(command, 4).await;
            assert!(output.status.success(), "{}", stderr(&output));
        }
        let cells: Vec<_> =
            agent.observed.cells.iter().map(|(key, cell)| (key.clone(), cell.calls, cell.bytes)).collect();
        results.push((cells, agent.observed.matrix(4)));
    }
    assert_eq!(results[0], results[1]);
    let cells = &results[0].0;
    let cell = |rank, operation: &str| {
        let found = cells.iter().find(|((r, name, _), ..)| *r == rank && name == operation);
        found.map(|((_, _, class), calls, bytes)| (*class, *calls, *bytes)).unwrap()
    };
    assert_eq!(cell(1, "bcast"), (4096, 1, 4000));
    assert_eq!(cell(0, "bcast"), (4096, 1, 0), "only the root hands data over");
    assert_eq!(cell(1, "scatter"), (2048, 1, 8000));
    assert_eq!(cell(3, "scatter"), (2048, 1, 0));
    assert_eq!(cell(2, "alltoall"), (256, 1, 800));
    assert_eq!(cell(2, "alltoallv"), (32, 1, 126));
    assert_eq!(cell(3, "gatherv"), (512, 1, 400));
    assert_eq!(cell(0, "reduce_scatter"), (256, 1, 1000));
    assert_eq!(cell(0, "barrier"), (0, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn communicators_are_translated() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/communicators.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 4, &agent.socket);
        command.arg(program);
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        assert_eq!(agent.observed.matrix(4), expected_of_communicators(), "{mpi:?}");
        let observed = &agent.observed;
        assert_eq!(observed.cell(0, "send", 0), Some((1, 0)), "to MPI_PROC_NULL");
        assert_eq!(observed.cell(2, "send", 128), Some((1, 100)));
        assert_eq!(observed.cell(1, "sendrecv", 32), Some((1, 24)), "a strided type");
        assert_eq!(observed.cell(2, "gather", 32), Some((1, 20)), "in place");
        assert_eq!(observed.cell(1, "waitall", 0), Some((1, 0)));
        assert_eq!(agent.receiver.status().unknown_messages, 0);
    }
}

/// The matrix of communicators.c, step by step.
fn expected_of_communicators() -> Matrix {
    let mut matrix = vec![vec![(0, 0); 4]; 4];
    let mut send = |from: usize, to: usize, bytes: u64, messages: u64| {
        matrix[from][to].0 += bytes * messages;
        matrix[from][to].1 += messages;
    };
    send(2, 0, 100, 1);
    send(3, 1, 100, 1);
    for (from, to) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
        send(from, to, 40, 1);
    }
    send(2, 3, 60, 1);
    for (from, to) in [(0, 1), (0, 3), (2, 1), (2, 3), (1, 0), (1, 2), (3, 0), (3, 2)] {
        send(from, to, 16, 1);
    }
    for from in 0..4 {
        for to in (0..4).filter(|to| *to != from) {
            if from == 0 || from == 3 {
                send(from, to, 1, 10);
            }
            send(from, to, 30, 1); // allgather
            send(from, to, 24, 1); // iallreduce
            if from == 1 {
                send(from, to, 12, 1); // ibcast
            }
            send(from, to, 0, 1); // ibarrier
        }
        if from != 2 {
            send(from, 2, 20, 1); // gather
        }
        send(from, (from + 1) % 4, 7, 1);
        send(from, (from + 1) % 4, 24, 1);
    }
    matrix
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_lose_nothing() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/threads.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg(program).arg("250");
        let output = agent.run(command, 2).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        for rank in 0..2 {
            assert_eq!(agent.observed.cell(rank, "sendrecv", 16), Some((1000, 16_000)), "{mpi:?}");
        }
        assert_eq!(agent.observed.row(0, 2), [(0, 0), (16_000, 1000)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fortran_bindings() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/bindings.f90", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 4, &agent.socket);
        command.arg(program);
        let output = agent.run(command, 4).await;
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        for rank in 0..4 {
            assert_eq!(agent.observed.cell(rank, "allreduce", 128), Some((3, 240)), "{mpi:?}");
            assert_eq!(agent.observed.cell(rank, "allgather", 16), Some((1, 16)), "{mpi:?}");
        }
        assert_eq!(
            agent.observed.cell(3, "bcast", 16),
            Some((1, 12)),
            "the root of the reversed communicator"
        );
        assert_eq!(agent.observed.cell(0, "bcast", 16), Some((1, 0)));
        assert_eq!(agent.observed.row(3, 4)[0], (240 + 16 + 12, 5));
    }
}

/// Symbols that an object or library defines.
fn defined(path: &str) -> Vec<String> {
    let output = succeeded(Command::new("nm").args(["-D", "--defined-only", "--format=posix", path]));
    stdout(&output).lines().filter_map(|line| line.split([' ', '@']).next()).map(str::to_owned).collect()
}

/// Libraries of an MPI that a program of it loads.
fn libraries(mpi: Mpi, folder: &std::path::Path) -> Vec<String> {
    let program = mpi.compile("tests/programs/bindings.f90", folder);
    let loaded = stdout(&succeeded(Command::new("ldd").arg(program)));
    let files = loaded
        .lines()
        .filter(|line| line.contains("libmpi"))
        .filter_map(|line| line.split_once("=> ")?.1.split(' ').next());
    files.map(str::to_owned).collect()
}

#[test]
fn objects_export_only_what_their_library_has() {
    let folder = tempfile::tempdir().unwrap();
    let every = "libthroughline-mpi3.so".to_owned();
    for (mpi, name) in BOTH.into_iter().flat_map(|mpi| [(mpi, mpi.object()), (mpi, every.clone())]) {
        let object = plain_shim().join(&name);
        let ours = defined(object.to_str().unwrap());
        assert!(ours.len() > 60, "{ours:?}");
        let theirs: Vec<_> =
            libraries(mpi, folder.path()).iter().flat_map(|library| defined(library)).collect();
        // Nobody looks up functions of Open MPI's inside of a library; those of MPI are requested by mpi4py.
        let inside = |symbol: &String| {
            symbol.starts_with("ompi_coll_base_") || symbol.starts_with("mca_common_monitoring_")
        };
        // Annotations that programs make for others.
        let annotation = |symbol: &String| {
            ["throughline_", "cali_", "_ZN4cali", "nvtx", "InitializeInjectionNvtx"]
                .iter()
                .any(|prefix| symbol.starts_with(prefix))
        };
        // MPICH's mpi_f08 has one name for large counts in 4.0 and another one since, which only compiled calls have.
        let large_in_fortran = |symbol: &String| {
            let plain = symbol.replace("_f08ts_large_", "_f08ts_").replace("_c_f08ts_", "_f08ts_");
            plain != *symbol && theirs.contains(&plain)
        };
        assert_eq!(ours.iter().any(inside), name.contains("openmpi"));
        let more: Vec<_> = ours
            .iter()
            .filter(|symbol| !theirs.contains(symbol) && !inside(symbol))
            .filter(|symbol| !annotation(symbol) && !large_in_fortran(symbol))
            .collect();
        assert!(more.is_empty(), "{mpi:?} lacks {more:?} of {name}");
        let needed = stdout(&succeeded(Command::new("readelf").arg("-d").arg(&object)));
        assert!(!needed.contains("libmpi"), "{needed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_without_init() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    // Open MPI has sessions since 5.
    let program = Mpi::Mpich.compile("tests/programs/sessions.c", folder.path());
    let mut agent = Agent::start(&folder.path().join("s"));
    let mut command = run_with_shim(Mpi::Mpich, 3, &agent.socket);
    command.arg(program);
    let output = agent.run(command, 3).await;
    assert_eq!(stdout(&output), "done\ndone\n", "{}", stderr(&output));
    for rank in 0..3 {
        assert_eq!(agent.observed.cell(rank, "allreduce", 128), Some((2, 160)));
        assert_eq!(agent.observed.cell(rank, "sendrecv", 16), Some((2, 20)));
    }
    assert_eq!(agent.observed.row(0, 3), [(0, 0), (180, 4), (160, 2)]);
    assert!(agent.observed.ranks.values().all(|rank| rank.ending == "clean"), "{:?}", agent.observed.ranks);
}

/// Most tests and probes that fail are counted without being timed, and their requests not looked up.
#[tokio::test(flavor = "multi_thread")]
async fn polls_that_fail_are_counted_and_what_they_wait_for_is_exact() {
    const FAILING: u64 = 5_000;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/polls.c", folder.path());
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg(program).arg(FAILING.to_string());
        let output = agent.run(command, 2).await;
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let mut waited = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (calls, nanoseconds): (u64, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
            let cell = &agent.observed.cells[&(0, words[0].to_owned(), 0)];
            assert!(cell.calls == calls && calls > FAILING, "{mpi:?} {line}: {cell:?}");
            // Few of them are timed and stand for the others: where one was interrupted, the sum is too high.
            assert!(
                (1..=nanoseconds * 4).contains(&cell.elapsed_nanoseconds),
                "{mpi:?} {line}, not far from what there was: {cell:?}"
            );
            waited += if words[0].ends_with("probe") { 0 } else { cell.elapsed_nanoseconds };
        }
        assert_eq!(text.lines().count(), 6, "{text}");
        let irecv = &agent.observed.cells[&(0, "irecv".to_owned(), 1024)];
        // MPICH's MPI_Testall must not be given statuses that the program did not request.
        let ways = if mpi == Mpi::Open { 4 } else { 3 };
        assert_eq!((irecv.calls, irecv.received_bytes), (12, Some(ways * (1000 + 999 + 998))), "{mpi:?}");
        let reported = irecv.wait_nanoseconds.unwrap(); // each bin rounds
        assert!(reported <= waited + 100 && reported > waited / 2, "{mpi:?}: {reported} of {waited} waiting");
    }
}
