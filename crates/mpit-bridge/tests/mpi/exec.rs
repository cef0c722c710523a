//! throughline-exec with real programs: what it chooses, and that it is not noticed.

use crate::support::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

fn dry_run(program: &[&str]) -> String {
    let output =
        exec().env("THROUGHLINE_LIB_DIR", plain_shim()).arg("--dry-run").args(program).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn chooses_by_the_programs_libraries() {
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/allreduce.c", folder.path());
        let object = format!("libthroughline-{}.so", mpi.name());
        let program = program.to_str().unwrap();
        assert!(dry_run(&[program]).contains(&object));
        assert!(dry_run(&["mpirun", "-n", "2", program]).contains(&object), "before a launcher");
    }
    assert!(dry_run(&["/bin/ls"]).starts_with("nothing to preload: no MPI"));
}

#[test]
fn follows_libraries_of_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("lib.c"), "#include <mpi.h>\nint f(void) { return MPI_Init(0, 0); }\n").unwrap();
    std::fs::write(at("main.c"), "int f(void);\nint main(void) { return f(); }\n").unwrap();
    let mut library = Command::new("mpicc.mpich");
    succeeded(library.args(["-shared", "-fPIC", "-o"]).arg(at("libinner.so")).arg(at("lib.c")));
    let mut program = Command::new("cc");
    program.arg("-o").arg(at("outer")).arg(at("main.c")).arg("-L").arg(folder.path());
    succeeded(program.args(["-linner", "-Wl,-rpath,$ORIGIN"]));
    assert!(dry_run(&[at("outer").to_str().unwrap()]).contains("libthroughline-mpich.so"));
}

#[test]
fn status_output_and_arguments_are_the_programs() {
    let run = |arguments: &[&str]| exec().args(arguments).output().unwrap();
    let output = run(&["/bin/sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("out\n", "err\n"));
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).status.signal(), Some(9));
    assert_eq!(stdout(&run(&["echo", "--help", "-n", "a b"])), "--help -n a b\n");
    assert_eq!(run(&["no-such-program"]).status.code(), Some(127));
    assert_eq!(run(&["/etc/passwd"]).status.code(), Some(126));
    assert_eq!(run(&["--no-such-option"]).status.code(), Some(64));
    assert_eq!(run(&[]).status.code(), Some(64));
    assert!(stdout(&run(&["--help"])).contains("mpirun -n 4 throughline-exec"));
}

#[tokio::test(flavor = "multi_thread")]
async fn works_before_the_launcher_and_in_scripts() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    for mpi in BOTH {
        let program = mpi.compile("tests/programs/allreduce.c", folder.path());
        let script = folder.path().join("script");
        std::fs::write(&script, format!("#!/bin/sh\nexec {} 10\n", program.display())).unwrap();
        succeeded(Command::new("chmod").arg("+x").arg(&script));
        let mut agent = Agent::start(&folder.path().join(mpi.name()));

        let launcher = mpi.run(2);
        let mut before = exec();
        before.arg(launcher.get_program()).args(launcher.get_args()).arg(&program).arg("10");
        before.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
        before.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_LIB_DIR", plain_shim());
        let output = agent.run(before, 2).await;
        assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));

        let mut inside = run_with_shim(mpi, 2, &agent.socket);
        inside.arg(&script);
        let output = agent.run(inside, 2).await;
        assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));
        assert_eq!(agent.seen.jobs.len(), 2, "two launchers, two jobs");
        assert_eq!(agent.seen.cell(1, "allreduce", 8192), Some((10, 81_920)));
    }
}

#[test]
fn the_wrong_object_does_no_harm() {
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    for (mpi, wrong) in [(Mpi::Open, "mpich"), (Mpi::Mpich, "openmpi")] {
        let program = mpi.compile("tests/programs/communicators.c", folder.path());
        let mut command = run_with_shim(mpi, 4, &folder.path().join("absent"));
        let output = command.args(["--mpi", wrong]).arg(program).output().unwrap();
        assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
        assert!(output.status.success());
    }
}
