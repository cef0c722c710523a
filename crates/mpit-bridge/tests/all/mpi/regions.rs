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

/// Paths of the program before those of two of its many names: 11, and one for each of the 255 names that is none of its first
/// nine.
const PATHS: u64 = 11 + 255 - 9;
const REFUSED_PATHS: u64 = 36 * 36 - (1023 - PATHS);

fn check_paths(observed: &Observed, rank: u32) {
    let expected = [
        ("whole", 1, 1),
        ("whole/solve", 11, 1),
        ("whole/solve/halo", 3, 1),
        ("whole/solve/halo/solve", 2, 1),
        ("whole/halo", 4, 1),
        ("whole/left", 0, 1),
        ("whole/left/open", 0, 1),
        ("phase 2", 6, 1),
        ("phase 3", 7, 1),
        ("caliper", 8, 1),
        ("caliper/nvtx", 9, 1),
        // Once by itself, 36 times with another in it; the last of those has no path.
        ("many 35", 1, 37),
    ];
    let path = |text: &str| &observed.paths[&(rank, text.to_owned())];
    for (text, calls, visits) in expected {
        let cell = path(text);
        assert_eq!((cell.visits, cell.mpi_calls), (visits, calls), "{text}: {cell:?}");
        let times = [cell.mpi_nanoseconds, cell.own_nanoseconds, cell.elapsed_nanoseconds];
        assert!(times.is_sorted(), "{text}: {cell:?}");
    }
    assert_eq!(observed.paths.keys().filter(|(of, _)| *of == rank).count(), 1023);
    let inner = ["whole/solve", "whole/halo", "whole/left"].map(|text| path(text).elapsed_nanoseconds);
    let whole = path("whole");
    let sum = whole.own_nanoseconds + inner.iter().sum::<u64>();
    let solve = &observed.regions[&(rank, "solve".to_owned())];
    let (outer, again) = (path("whole/solve"), path("whole/solve/halo/solve"));
    // No sum falls where the clock's rate is measured anew, so that the two may differ by parts in a million.
    let same = |a: u64, b: u64| a.abs_diff(b) <= 10 + a / 1_000_000;
    assert!(
        same(solve.elapsed_nanoseconds, outer.elapsed_nanoseconds),
        "within itself, its time counts once"
    );
    assert!(same(whole.elapsed_nanoseconds, sum), "{whole:?} {inner:?}");
    assert!(same(solve.own_nanoseconds, outer.own_nanoseconds + again.own_nanoseconds), "{solve:?}");
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
            check_paths(observed, rank);
            let open = &observed.regions[&(rank, "open".to_owned())];
            assert_eq!((open.visits, open.mpi_calls), (1, 0), "ended by the region around it");
            let comms: Vec<_> = observed.comms.values().filter(|comm| comm.rank == rank).collect();
            assert_eq!(comms.len(), 1, "{comms:?}");
            let place = Some(rank / 2);
            assert_eq!((&*comms[0].name, comms[0].size, comms[0].rank_in_comm), ("rows", 2, place));
        }
        let status = agent.receiver.status();
        // A region never begun, and one ended by another's end; of 9 + 300 names 255 are recorded, and 1,023 paths.
        assert_eq!(
            (status.mismatched_regions, status.refused_regions),
            (4 * 2, 4 * (9 + 300 - 255 + REFUSED_PATHS))
        );
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

/// Regions, and allreduces and visits in each, of `nvtx.c`.
fn check_nvtx(observed: &Observed, ranks: u32) {
    let expected = [
        ("before", 1, 1),
        ("plain", 2, 1),
        ("w\u{ef}de \u{1f680}", 3, 1),
        ("event", 4, 1),
        ("mine:outer", 5, 1),
        ("yours:inner", 13, 1),
        ("first", 0, 1),
        ("mine:(nvtx)", 17, 1),
        ("elsewhere", 10, 1),
        ("after", 11, 1),
        ("(nvtx)", 0, 1),
    ];
    for rank in 0..ranks {
        for (region, calls, visits) in expected {
            let cell = &observed.regions[&(rank, region.to_owned())];
            assert_eq!((cell.visits, cell.mpi_calls), (visits, calls), "{region}: {cell:?}");
        }
        assert_eq!(observed.regions.keys().filter(|(of, _)| *of == rank).count(), expected.len());
        let paths: Vec<_> =
            observed.paths.keys().filter(|(of, _)| *of == rank).map(|(_, path)| &**path).collect();
        for path in ["before/plain", "mine:outer/yours:inner", "first/mine:(nvtx)", "elsewhere", "after"] {
            assert!(paths.contains(&path), "{path}: {paths:?}");
        }
        let time = |region: &str| observed.regions[&(rank, region.to_owned())].elapsed_nanoseconds;
        let own = |region: &str| observed.regions[&(rank, region.to_owned())].own_nanoseconds;
        assert!(
            time("mine:outer") > own("mine:outer") && time("first") > own("first"),
            "up to their own ends"
        );
        let outside: u64 = observed
            .parts
            .iter()
            .filter(|(key, _)| key.0 == rank && key.1 == "allreduce" && key.3.is_empty())
            .map(|(_, cell)| cell.calls)
            .sum();
        assert_eq!(outside, 12);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_nvtx_3_are_regions() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/nvtx.c", folder.path());
        // By throughline-exec, and where a site preloads the object itself.
        for site in [false, true] {
            let mut agent = Agent::start(&folder.path().join(format!("{}{site}", mpi.name())));
            let mut command = if site { mpi.run(2) } else { run_with_shim(mpi, 2, &agent.socket) };
            if site {
                let object = plain_shim().join(mpi.object());
                command.env("THROUGHLINE_SOCKET", &agent.socket);
                command.arg("env").arg(format!("LD_PRELOAD={}", object.display()));
            }
            command.arg(&program);
            let output = agent.run(command, 2).await;
            assert_eq!(stdout(&output), "tool 1 levels 1 2 3 3 2 1\n", "{}", stderr(&output));
            check_nvtx(&agent.observed, 2);
            let status = agent.receiver.status();
            assert_eq!((status.mismatched_regions, status.refused_regions), (2, 0), "one of each rank");
            assert_eq!((status.unknown_names, status.malformed_messages()), (0, 0), "{status:?}");
        }
    }
}

/// Another tool's variable stays, and without the shim there is no tool.
#[test]
fn the_tool_of_nvtx_that_a_user_names_stays() {
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/nvtx.c", folder.path());
    let object = plain_shim().join("libthroughline-mpich.so");
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        command.env_remove("NVTX_INJECTION64_PATH").envs(variables.iter().copied());
        stdout(&succeeded(&mut command)).split(" levels").next().unwrap().to_owned()
    };
    let (object, other) = (object.to_str().unwrap(), folder.path().join("tool.so"));
    assert_eq!(run(&[]), "tool 0");
    assert_eq!(run(&[("LD_PRELOAD", object)]), "tool 1");
    assert_eq!(run(&[("LD_PRELOAD", object), ("THROUGHLINE_SHIM", "off")]), "tool 0");
    let named = ("NVTX_INJECTION64_PATH", other.to_str().unwrap());
    assert_eq!(run(&[("LD_PRELOAD", object), named]), "tool 0");
    // What a process inherited that has no shim: it is no tool there.
    assert_eq!(run(&[("NVTX_INJECTION64_PATH", object)]), "tool 0");
    // What an outer throughline-exec named gives way to the object that is preloaded.
    let outer = ("NVTX_INJECTION64_PATH", "/nowhere/libthroughline-mpi3.so");
    assert_eq!(run(&[("LD_PRELOAD", object), outer]), "tool 1");
}

/// Caliper's C++ classes, of a shared library.
#[tokio::test(flavor = "multi_thread")]
async fn classes_of_caliper_are_regions() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let library = folder.path().join("libcaliper.so");
    let mut command = Command::new("c++");
    command.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library);
    succeeded(command.arg(source("caliper_double.cpp")));
    for mpi in BOTH {
        let program = folder.path().join(format!("caliper.{}", mpi.name()));
        // As C++ of no MPI compiler: its own bindings are of no interest.
        let mut command = Command::new(format!("mpicc.{}", mpi.name()));
        command.args(["-x", "c++", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-Wall", "-Wextra", "-o"]);
        command.arg(&program).arg(source("caliper.cpp")).args(["-x", "none"]).arg(&library).arg("-lstdc++");
        succeeded(command.arg(format!("-Wl,-rpath,{}", folder.path().display())));
        let mut agent = Agent::start(&folder.path().join(mpi.name()));
        let mut command = run_with_shim(mpi, 2, &agent.socket);
        command.arg(&program);
        let output = agent.run(command, 2).await;
        let counts = 2 * 2 + 1 + 300 + 2 + 1 + 1 + 1;
        assert_eq!(stdout(&output), format!("caliper {counts} {counts}\n"), "{}", stderr(&output));
        let expected = [
            ("step", 2, 2),
            ("scope", 4, 2),
            ("loop", 3, 1),
            ("destroyed", 0, 1),
            ("again", 5, 1),
            ("solve", 6, 1),
            ("guarded", 7, 1),
            ("halo", 8, 1),
        ];
        for rank in 0..2 {
            for (region, calls, visits) in expected {
                let cell = &agent.observed.regions[&(rank, region.to_owned())];
                assert_eq!((cell.visits, cell.mpi_calls), (visits, calls), "{mpi:?} {region}: {cell:?}");
            }
            let count = agent.observed.regions.keys().filter(|(of, _)| *of == rank).count();
            assert_eq!(count, expected.len(), "{:?}", agent.observed.regions.keys());
        }
        let status = agent.receiver.status();
        assert_eq!((status.mismatched_regions, status.refused_regions), (0, 0), "{status:?}");
    }
}
