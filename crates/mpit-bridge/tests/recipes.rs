//! The recipes of deploy/ that put the shim into programs: what each would do, without its scheduler.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file).canonicalize().unwrap()
}

/// A folder with something that is named like each object.
fn objects() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for family in ["openmpi", "openmpi5", "mpich", "mpi3"] {
        std::fs::write(folder.path().join(format!("libthroughline-{family}.so")), b"").unwrap();
    }
    folder
}

/// What Slurm would take over from the prolog for a task with these variables.
fn prolog(objects: &Path, variables: &[(&str, &str)]) -> String {
    let mut run = Command::new("/bin/sh");
    run.arg(deploy("slurm/task-prolog.sh")).env_clear().env("PATH", "/usr/bin:/bin");
    run.env("THROUGHLINE_LIB_DIR", objects).env("THROUGHLINE_EXEC", env!("CARGO_BIN_EXE_throughline-exec"));
    let output = run.envs(variables.iter().copied()).output().unwrap();
    // Of what is preloaded into the shell itself and is no library the loader complains.
    let is_quiet = variables.iter().any(|(name, _)| *name == "LD_PRELOAD") || output.stderr.is_empty();
    assert!(output.status.success() && is_quiet, "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_task_prolog_exports_what_the_task_needs_and_no_more() {
    let folder = objects();
    let at = |family: &str| folder.path().join(format!("libthroughline-{family}.so")).display().to_string();
    let export = |value: String| format!("export LD_PRELOAD={value}\n");
    // A task of srun, by the module's word.
    for family in ["openmpi", "openmpi5", "mpich", "mpi3"] {
        let task = [("PMI_RANK", "3"), ("THROUGHLINE_MPI", family)];
        assert_eq!(prolog(folder.path(), &task), export(at(family)));
    }
    // What is preloaded already stays: a tool behind, AddressSanitizer before, the shim once.
    let with = |list: &str| {
        prolog(folder.path(), &[("PMIX_RANK", "0"), ("THROUGHLINE_MPI", "mpich"), ("LD_PRELOAD", list)])
    };
    assert_eq!(with("/opt/libdarshan.so"), export(at("mpich") + ":/opt/libdarshan.so"));
    let libasan = "/nowhere/libasan.so.8";
    assert_eq!(with(libasan), export(format!("{libasan}:{}", at("mpich"))));
    assert_eq!(with(&at("openmpi")), "");
    // Nothing: no launcher, switched off, a family that nobody knows and no program to ask, no objects.
    assert_eq!(prolog(folder.path(), &[]), "");
    for off in ["off", "0", "no"] {
        assert_eq!(prolog(folder.path(), &[("PMIX_RANK", "0"), ("THROUGHLINE_SHIM", off)]), "");
    }
    let nobody = [("PMIX_RANK", "0"), ("THROUGHLINE_EXEC", "/nowhere/throughline-exec")];
    assert_eq!(prolog(folder.path(), &nobody), "");
    assert_eq!(prolog(Path::new("/nowhere"), &[("PMIX_RANK", "0"), ("THROUGHLINE_MPI", "mpich")]), "");
}

#[test]
fn without_the_modules_word_the_prolog_asks_throughline_exec() {
    // Where `make test` has the real objects: throughline-exec looks into them.
    let objects = Path::new(env!("CARGO_BIN_EXE_throughline-exec")).with_file_name("lib/throughline");
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(shim).arg(format!("OUT={}", objects.display()));
    assert!(make.status().unwrap().success());
    let dry_run = Command::new(env!("CARGO_BIN_EXE_throughline-exec"))
        .args(["--dry-run", "/bin/sh"])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("PMIX_RANK", "0")])
        .env("THROUGHLINE_LIB_DIR", &objects)
        .output()
        .unwrap();
    let said = String::from_utf8(dry_run.stdout).unwrap();
    let object = said.strip_prefix("preload ").unwrap().split(": ").next().unwrap();
    assert!(object.contains("libthroughline-"), "{said}");
    assert_eq!(prolog(&objects, &[("PMIX_RANK", "0")]), format!("export LD_PRELOAD={object}\n"));
}

/// Runs a script in an interpreter that not every machine has; `None` without it.
fn run(interpreter: &str, script: &str, arguments: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, script).unwrap();
    let output = Command::new(interpreter).arg(&file).args(arguments).env_remove("THROUGHLINE_MPI").output();
    let output = output.ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

#[test]
fn the_module_file_prepends_the_object() {
    let folder = objects();
    let module = std::fs::read_to_string(deploy("modulefiles/throughline")).unwrap();
    let place = folder.path().display().to_string();
    // The commands of environment-modules, as far as the file uses them.
    let commands = "proc module-whatis text {}\nproc prepend-path {name value} { puts \"$name=$value\" }\n";
    let here = module.replace("/usr/lib/throughline", &place);
    let Some(loaded) = run("tclsh", &format!("{commands}{here}"), &[]) else { return };
    assert_eq!(
        String::from_utf8_lossy(&loaded.stdout),
        format!("LD_PRELOAD={place}/libthroughline-mpi3.so\n")
    );
    let elsewhere = module.replace("/usr/lib/throughline", "/nowhere");
    let missing = run("tclsh", &format!("{commands}{elsewhere}"), &[]).unwrap();
    assert!(missing.stdout.is_empty() && String::from_utf8_lossy(&missing.stderr).contains("is not there"));
}

#[test]
fn the_pbs_hook_changes_the_environment_only() {
    let folder = objects();
    let place = folder.path().display().to_string();
    let hook = std::fs::read_to_string(deploy("pbs/throughline_launch.py")).unwrap();
    let hook = hook.replace("/usr/lib/throughline", &place);
    // PBS's module, as far as the hook uses it.
    let script = format!(
        "import sys, types\n\
         env = dict(pair.split('=', 1) for pair in sys.argv[1:])\n\
         event = types.SimpleNamespace(env=env, accept=lambda: print(env.get('LD_PRELOAD')))\n\
         sys.modules['pbs'] = types.SimpleNamespace(event=lambda: event)\n{hook}"
    );
    let told = |arguments: &[&str]| {
        let output = run("python3", &script, arguments)?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let Some(plain) = told(&[]) else { return };
    assert_eq!(plain, format!("{place}/libthroughline-mpi3.so"));
    assert_eq!(
        told(&["THROUGHLINE_MPI=mpich", "LD_PRELOAD=/opt/tool.so"]).unwrap(),
        format!("{place}/libthroughline-mpich.so:/opt/tool.so")
    );
    assert_eq!(told(&["THROUGHLINE_SHIM=off"]).unwrap(), "None");
    assert_eq!(told(&["THROUGHLINE_MPI=unheard"]).unwrap(), "None");
}
