//! throughline-exec with real programs: what it chooses, and that it is not noticed.

use crate::mpi::support::*;
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
        let object = mpi.object();
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
        assert_eq!(agent.observed.jobs.len(), 2, "two launchers, two jobs");
        assert_eq!(agent.observed.cell(1, "allreduce", 8192), Some((10, 81_920)));
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

/// Each message names the thing, its cause and its remedy.
#[test]
fn errors_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let executable = |name: &str, bytes: &[u8]| {
        std::fs::write(at(name), bytes).unwrap();
        succeeded(Command::new("chmod").args(["+x", &at(name)]));
    };
    // An ELF header of another machine: enough for the kernel to refuse it, and for us to say why.
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(64, 0);
    let (kind, machine) = (2, if cfg!(target_arch = "aarch64") { 62 } else { 183 });
    (header[16], header[18], header[20]) = (kind, machine, 1);
    executable("foreign", &header);
    executable("orphan", b"#!/no/such/interpreter\n");
    std::fs::write(at("plain"), "text").unwrap();
    for (program, status, parts) in [
        ("no-such-program".to_owned(), 127, ["not found in any folder of PATH", "module"]),
        (at("nothing"), 127, ["there is no", "check the name"]),
        (at("orphan"), 127, ["/no/such/interpreter", "install it"]),
        (at("plain"), 126, ["may not be executed", "chmod +x"]),
        (at("foreign"), 126, ["is a program for", "build it"]),
        (at(""), 126, ["is a folder", "name a program"]),
    ] {
        let output = exec().arg(&program).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{program}: {said}");
        assert!(
            parts.iter().all(|part| said.contains(part)) && said.lines().count() == 1,
            "{program}: {said}"
        );
    }
}

#[test]
fn dry_run_says_whether_an_agent_listens() {
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    let say = |socket: &str| {
        let mut command = exec();
        command.env("THROUGHLINE_LIB_DIR", plain_shim()).env("THROUGHLINE_SOCKET", socket);
        stdout(&command.arg("--dry-run").arg(&program).output().unwrap())
    };
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(say("/no/such/socket").contains("there is no such socket"));
    assert!(say(file.to_str().unwrap()).contains("nobody listens there"));
    assert!(say(&format!("/{}", "x".repeat(200))).contains("107"));
    let listening = std::os::unix::net::UnixListener::bind(folder.path().join("stream")).unwrap();
    assert!(say(folder.path().join("stream").to_str().unwrap()).contains("none"), "a socket of another kind");
    drop(listening);
}

/// throughline-exec before the launcher and before the program, each choosing for itself: every call counts once.
#[tokio::test(flavor = "multi_thread")]
async fn nested() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&folder.path().join("s"));
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    let launcher = Mpi::Mpich.run(2);
    let mut command = exec();
    command.args(["--mpi", "openmpi"]).arg(launcher.get_program()).args(launcher.get_args());
    command.args([env!("CARGO_BIN_EXE_throughline-exec"), env!("CARGO_BIN_EXE_throughline-exec")]);
    command.arg(&program).arg("10").env_remove("LD_PRELOAD");
    command.env("THROUGHLINE_SOCKET", &agent.socket).env("THROUGHLINE_LIB_DIR", plain_shim());
    let output = agent.run(command, 2).await;
    assert_eq!(stdout(&output), "sum 3\n", "{}", stderr(&output));
    assert_eq!(agent.observed.cell(0, "allreduce", 8192), Some((10, 81_920)));
}
