//! Beside others: tools with wrappers of their own, a second MPI library, one that is linked into the program.

use crate::mpi::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM_STATE: &str = "tests/programs/program_state.c";
const TOOL: &str = "tests/programs/counting_tool.c";

/// `mpicc` of this MPI with sources from the crate's folder and anything else.
fn compile(mpi: Mpi, program: PathBuf, sources: &[&str], flags: &[&str]) -> PathBuf {
    let mut command = Command::new(mpi.command("mpicc"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread"]);
    succeeded(command.arg("-o").arg(&program).args(sources).args(flags).arg("-lm"));
    program
}

/// Runs with this LD_PRELOAD in the ranks. Rank 0's tool says that it saw all, no matter who else did.
async fn run_beside(agent: &mut Agent, mpi: Mpi, program: &Path, preload: &str) -> u64 {
    agent.observed = Observed::default();
    let mut command = mpi.run(2);
    command.arg("env").arg(format!("LD_PRELOAD={preload}")).arg(program).arg("environment");
    command.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_PUSH_MS", "100");
    let output = agent.run(command, 2).await;
    assert_eq!(stdout(&output), "sum 6\ntool: 20 allreduces\n", "{preload}: {}", stderr(&output));
    assert!(
        agent.observed.ranks.values().all(|rank| rank.ending == "clean"),
        "{preload}: {:?}",
        agent.observed.ranks
    );
    agent.observed.cell(1, "allreduce", 8).map_or(0, |cell| cell.0)
}

/// Before the shim or behind it, by PMPI or by the next in line: the tool sees every call, and so does the shim
/// wherever a call comes by.
#[tokio::test(flavor = "multi_thread")]
async fn tools_see_every_call() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let at = |name: &str| folder.path().join(format!("{name}.{}", mpi.name()));
        let program = compile(mpi, at("program_state"), &[PROGRAM_STATE], &[]);
        let direct = compile(mpi, at("direct"), &[TOOL], &["-shared", "-fPIC"]);
        let next = compile(mpi, at("next"), &[TOOL], &["-shared", "-fPIC", "-DNEXT"]);
        let inside = compile(mpi, at("inside"), &[PROGRAM_STATE, TOOL], &[]);
        let mut agent = Agent::start(&at("s"));
        let shim = plain_shim().join(format!("libthroughline-{}.so", mpi.name()));
        let (shim, direct, next) = (shim.display(), direct.display(), next.display());
        // The order in which throughline-exec puts them.
        for preload in [format!("{shim}:{direct}"), format!("{shim}:{next}"), format!("{next}:{shim}")] {
            assert_eq!(run_beside(&mut agent, mpi, &program, &preload).await, 20, "{preload}");
        }
        // A tool in front that goes on with PMPI leaves nothing to see. MPI_Finalize is noticed all the same.
        let preload = format!("{direct}:{shim}");
        assert_eq!(run_beside(&mut agent, mpi, &program, &preload).await, 0, "{preload}");
        // Linked into the program it can't be counted: that is reported, also where the program starts MPI past the shim.
        let starts = compile(mpi, at("starts"), &[PROGRAM_STATE, TOOL], &["-DSTARTS"]);
        for program in [&inside, &starts] {
            assert_eq!(run_beside(&mut agent, mpi, program, &shim.to_string()).await, 0, "{program:?}");
            let observed = &agent.observed;
            let functions =
                observed.settings.get("pmpi_tool").unwrap_or_else(|| panic!("{:?}", observed.settings));
            assert!(functions.contains("MPI_Allreduce"), "{functions}");
            assert_eq!(observed.ranks.len(), 2, "the job is there");
            let name = program.file_name().unwrap().to_string_lossy();
            let named = agent.receiver.status().bypassed;
            let of_it: Vec<_> = named.iter().filter(|text| text.starts_with(&*name)).collect();
            assert!(of_it.len() == 1 && of_it[0].contains("build the tool as a shared library"), "{named:?}");
        }
        assert!(
            agent.observed.events.iter().any(|event| event.kind == "mpi.bypassed"),
            "{:?}",
            agent.observed.events
        );
    }
}

/// A program that uses functions of MPI 4 where they are there does the same under every object that is preloaded.
#[test]
fn functions_that_the_library_lacks_are_not_there() {
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/weak.c", folder.path());
        let run = |object: Option<&str>, more: &[&str]| {
            let mut command = mpi.run(2);
            if let Some(object) = object {
                command.arg("env").arg(format!("LD_PRELOAD={}", plain_shim().join(object).display()));
            }
            command
                .arg(&program)
                .args(more)
                .env_remove("LD_PRELOAD")
                .env("THROUGHLINE_SOCKET", "/nonexistent");
            stdout(&succeeded(&mut command))
        };
        let expected = run(None, &[]);
        for object in ["openmpi", "openmpi5", "mpich", "mpi3"] {
            let object = format!("libthroughline-{object}.so");
            assert_eq!(run(Some(&object), &[]), expected, "{object} on {mpi:?}");
        }
        // What is loaded later finds the wrapper, which does the same with counts that fit.
        if mpi == Mpi::Open && expected.starts_with("small") {
            let output = run(Some("libthroughline-mpich.so"), &["later"]);
            assert_eq!(output, format!("{expected}later 0\ntoo large 1\n"));
        }
    }
}

/// Parts of a program with an MPI library each: every part goes on with its own.
#[tokio::test(flavor = "multi_thread")]
async fn two_libraries_in_one_process() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("host");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/host.c");
    succeeded(
        Command::new("cc").args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&host).args([source, "-ldl"]),
    );
    let part = |mpi: Mpi| {
        let library = folder.path().join(format!("part.{}.so", mpi.name()));
        compile(mpi, library, &["tests/programs/plugin.c"], &["-shared", "-fPIC"])
    };
    let (open, mpich) = (part(Mpi::Open), part(Mpi::Mpich));
    let mut agent = Agent::start(&folder.path().join("s"));
    // Open MPI makes itself global, so that nothing works that is loaded behind it, shim or not.
    for (parts, recorded) in [(vec![&mpich, &open], true), (vec![&open], true), (vec![&mpich], true)] {
        for mpi in BOTH {
            let mut plain = Command::new(&host);
            plain.args(&parts).env_remove("LD_PRELOAD");
            plain.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            let expected = plain.output().unwrap();
            assert!(expected.status.success(), "{parts:?}: {}", stderr(&expected));
            plain.env("LD_PRELOAD", plain_shim().join(format!("libthroughline-{}.so", mpi.name())));
            plain.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_PUSH_MS", "10");
            agent.observed = Observed::default();
            let output = agent.run(plain, usize::from(recorded)).await;
            assert_eq!(shown(&output), shown(&expected), "{parts:?} under {mpi:?}");
            assert_eq!(agent.observed.cell(0, "allreduce", 4), Some((10, 40)), "the first part's only");
        }
    }
}

/// A job that runs programs of both libraries at once: each rank gets the object that fits it, and they are reported
/// apart although the scheduler's number is the same.
#[tokio::test(flavor = "multi_thread")]
async fn two_libraries_in_one_job() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&folder.path().join("s"));
    let script = |with_shim: bool| {
        let mut line = String::new();
        for (mpi, calls, end) in
            [(Mpi::Open, "5", "&"), (Mpi::Mpich, "7", "; a=$?; wait $!; exit $((a + $?))")]
        {
            let program = mpi.compile("tests/programs/allreduce.c", folder.path());
            let launcher = mpi.run(2);
            let launcher = std::iter::once(launcher.get_program()).chain(launcher.get_args());
            let words: Vec<_> = launcher.map(|word| word.to_str().unwrap()).collect();
            let exec = if with_shim { env!("CARGO_BIN_EXE_throughline-exec") } else { "env" };
            line += &format!("{} {exec} {} {calls} {end} ", words.join(" "), program.display());
        }
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(line).env("SLURM_JOB_ID", "4711").env_remove("LD_PRELOAD");
        shell.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        shell.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_LIB_DIR", plain_shim());
        shell
    };
    let (mut plain, shimmed) = (script(false), script(true));
    let expected = plain.output().unwrap();
    assert_eq!(shown(&expected), ("sum 3\nsum 3\n".into(), String::new(), Some(0)));
    let output = agent.run(shimmed, 4).await;
    assert_eq!(shown(&output), shown(&expected));
    assert_eq!(agent.observed.jobs.len(), 2, "{:?}", agent.observed.jobs);
    for library in ["Open MPI", "MPICH"] {
        let ranks: Vec<_> =
            agent.observed.ranks.values().filter(|rank| rank.mpi_library.contains(library)).collect();
        assert!(ranks.len() == 2 && ranks.iter().all(|rank| rank.ending == "clean"), "{library}: {ranks:?}");
    }
}

/// What libmpich.a needs besides, by the names of the libraries that libmpich.so needs.
fn link_statically(folder: &Path) -> PathBuf {
    let shared = Mpi::Mpich.compile("tests/programs/allreduce.c", folder);
    let loaded = stdout(&succeeded(Command::new("ldd").arg(&shared)));
    let needed: Vec<_> = loaded
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("lib") && !name.starts_with("libmpich"))
        .map(|name| format!("-l:{name}"))
        .collect();
    let shown = stdout(&succeeded(Command::new("mpicc.mpich").arg("-show")));
    // Debian 13 has libmpich.a in a folder of its own.
    let folders = shown.split_whitespace().filter(|word| word.starts_with("-I") || word.starts_with("-L"));
    let program = folder.join("static");
    let mut command = Command::new("cc");
    command.arg("-o").arg(&program).args(folders);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/allreduce.c")).arg("-l:libmpich.a");
    succeeded(command.args(needed));
    program
}

/// An MPI library in the program itself: nothing comes by the shim, which `--dry-run` says, and nothing is harmed.
#[test]
fn static_mpi() {
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    let program = link_statically(folder.path());
    let plain = Mpi::Mpich.run(2).arg(&program).args(["5", "0", "3"]).output().unwrap();
    assert_eq!(plain.status.code(), Some(3), "{}", stderr(&plain));
    let socket = folder.path().join("absent");
    let chosen = run_with_shim(Mpi::Mpich, 2, &socket).arg(&program).args(["5", "0", "3"]).output().unwrap();
    assert_eq!(comparable(&chosen), comparable(&plain));
    for wrong in ["mpich", "openmpi"] {
        let mut forced = run_with_shim(Mpi::Mpich, 2, &socket);
        let forced = forced.args(["--mpi", wrong]).arg(&program).args(["5", "0", "3"]).output().unwrap();
        assert_eq!(comparable(&forced), comparable(&plain), "{wrong}: {}", stderr(&forced));
    }
    let said =
        exec().env("THROUGHLINE_LIB_DIR", plain_shim()).arg("--dry-run").arg(&program).output().unwrap();
    assert!(stdout(&said).contains("linked into the program"), "{}", stdout(&said));
}

/// Secure execution (set-user-ID) ignores LD_PRELOAD: the program runs unrecorded, and the loader says nothing.
#[test]
fn set_user_id() {
    if !throughline_test_support::is_root("to run a program as another user") {
        return;
    }
    let _alone = alone_blocking();
    let folder = tempfile::Builder::new().permissions(world_readable()).tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    succeeded(Command::new("chmod").arg("u+s").arg(&program));
    let run = |preload: Option<PathBuf>| {
        // nobody starts a program of root's. A singleton: no launcher is needed for one rank.
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(["5", "0", "3"]);
        command.env_remove("LD_PRELOAD").current_dir("/");
        if let Some(object) = preload {
            command.env("LD_PRELOAD", object).env("THROUGHLINE_DEBUG", "1");
        }
        command.output().unwrap()
    };
    let plain = run(None);
    assert_eq!(plain.status.code(), Some(3), "{}", stderr(&plain));
    assert_eq!(shown(&run(Some(plain_shim().join("libthroughline-mpich.so")))), shown(&plain));
}

fn world_readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}
