//! The recipes of deploy/ that put the shim into programs: what each would do, without its scheduler.

use crate::mpi::support::plain_shim;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
    // Nothing: no launcher, switched off, a family that nobody knows and no program to examine, no objects.
    assert_eq!(prolog(folder.path(), &[]), "");
    for off in ["off", "0", "no"] {
        assert_eq!(prolog(folder.path(), &[("PMIX_RANK", "0"), ("THROUGHLINE_SHIM", off)]), "");
    }
    let nobody = [("PMIX_RANK", "0"), ("THROUGHLINE_EXEC", "/nowhere/throughline-exec")];
    assert_eq!(prolog(folder.path(), &nobody), "");
    assert_eq!(prolog(Path::new("/nowhere"), &[("PMIX_RANK", "0"), ("THROUGHLINE_MPI", "mpich")]), "");
}

#[test]
fn without_the_modules_word_the_prolog_queries_throughline_exec() {
    let objects = plain_shim();
    let dry_run = Command::new(env!("CARGO_BIN_EXE_throughline-exec"))
        .args(["--dry-run", "/bin/sh"])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("PMIX_RANK", "0")])
        .env("THROUGHLINE_LIB_DIR", objects)
        .output()
        .unwrap();
    let said = String::from_utf8(dry_run.stdout).unwrap();
    let object = said.strip_prefix("preload ").unwrap().split(": ").next().unwrap();
    assert!(object.contains("libthroughline-"), "{said}");
    assert_eq!(prolog(objects, &[("PMIX_RANK", "0")]), format!("export LD_PRELOAD={object}\n"));
}

/// The objects run on glibc 2.17; what this machine's compiler makes of a later function is rejected by its name.
#[test]
fn a_symbol_of_a_later_glibc_is_named() {
    let check = |file: &Path| Command::new(deploy("check-glibc.sh")).arg(file).output().unwrap();
    for family in ["openmpi", "openmpi5", "mpich", "mpi3"] {
        let output = check(&plain_shim().join(format!("libthroughline-{family}.so")));
        assert!(output.status.success(), "{output:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("late.c"), folder.path().join("late.so"));
    std::fs::write(
        &source,
        "int getentropy(void *, unsigned long); int late(void *p) { return getentropy(p, 1); }",
    )
    .unwrap();
    let mut compile = Command::new("cc");
    assert!(compile.args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&source).status().unwrap().success());
    let output = check(&object);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("getentropy needs GLIBC_2.25"), "{said}");
}

/// A hook of deploy/containers with these folders in place of those of an installation.
fn hook(name: &str, folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(deploy(&format!("containers/{name}"))).unwrap();
    let place = |name: &str| folder.join(name).display().to_string();
    let text =
        text.replace("/usr/lib/throughline", &place("objects")).replace("/run/throughline", &place("run"));
    let hook = folder.join(name);
    std::fs::write(&hook, text).unwrap();
    hook
}

/// Roots of images that take the objects, and of some that do not, each with what is preloaded there.
fn images(folder: &Path) -> [(PathBuf, bool); 5] {
    for made in ["run", "objects"] {
        std::fs::create_dir(folder.join(made)).unwrap();
    }
    std::fs::write(folder.join("objects/libthroughline-mpich.so"), "").unwrap();
    let root = |name: &str, files: &[(&str, &str)]| {
        let root = folder.join(name);
        for (file, text) in files {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        root
    };
    const LIBC: &str = "\0GLIBC_2.16\0GLIBC_2.17\0";
    let debian = "lib/x86_64-linux-gnu/";
    let parts = [("libpthread.so.0", ""), ("libdl.so.2", ""), ("libc.so.6", LIBC)];
    let whole = |place: &str| parts.map(|(name, text)| (format!("{place}{name}"), text));
    let made = |name: &str, files: &[(String, &str)]| {
        let files: Vec<_> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
        root(name, &files)
    };
    let musl = [whole(debian).to_vec(), vec![("lib/ld-musl-x86_64.so.1".to_owned(), "")]].concat();
    let mut old = whole("lib64/");
    old[2].1 = "\0GLIBC_2.12\0";
    [
        (made("debian", &whole(debian)), true),
        (made("rhel", &whole("usr/lib64/")), true),
        (made("musl", &musl), false),
        (made("rhel6", &old), false),
        (made("parts", &whole(debian)[2..]), false),
    ]
}

#[test]
fn enroots_hook_looks_at_the_images_c_library() {
    let folder = tempfile::tempdir().unwrap();
    let (environment, mounts) = (folder.path().join("environment"), folder.path().join("fstab"));
    let objects = folder.path().join("objects").display().to_string();
    for (root, takes) in images(folder.path()) {
        let started = |before: &str| {
            std::fs::write(&environment, before).unwrap();
            std::fs::write(&mounts, "").unwrap();
            let mut run = Command::new("/bin/sh");
            run.arg(hook("enroot-hook.sh", folder.path())).env_clear().env("PATH", "/usr/bin:/bin");
            run.env("ENROOT_ROOTFS", &root).env("ENROOT_ENVIRON", &environment).env("ENROOT_MOUNTS", &mounts);
            let output = run.output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            let after = std::fs::read_to_string(&environment).unwrap();
            let mounted = std::fs::read_to_string(&mounts).unwrap().lines().count();
            assert_eq!(mounted, if takes { 2 } else { 0 }, "{}", root.display());
            after.strip_prefix(before).unwrap().to_owned()
        };
        let object = format!("LD_PRELOAD={objects}/libthroughline-mpich.so");
        let wanted = |text: &str| if takes { format!("{object}{text}\n") } else { String::new() };
        assert_eq!(started("THROUGHLINE_MPI=mpich\n"), wanted(""));
        assert_eq!(started("LD_PRELOAD=/opt/tool.so\nTHROUGHLINE_MPI=mpich\n"), wanted(":/opt/tool.so"));
        assert_eq!(started("THROUGHLINE_MPI=mpich\nTHROUGHLINE_SHIM=off\n"), "");
        assert_eq!(started("THROUGHLINE_MPI=openmpi\n"), "");
        assert_eq!(started(""), "");
        assert_eq!(started(&format!("{object}\n")), if takes { "" } else { "LD_PRELOAD=\n" });
    }
}

#[test]
fn podmans_hook_looks_at_the_images_c_library() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("objects/libthroughline-mpich.so").display().to_string();
    for (root, takes) in images(folder.path()) {
        let started = |environment: &[&str]| -> (Vec<String>, usize) {
            let config =
                serde_json::json!({"root": {"path": root}, "process": {"env": environment}, "mounts": []});
            let mut run = Command::new("python3");
            run.arg(hook("oci-hook", folder.path())).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut run = run.spawn().unwrap();
            run.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
            let output = run.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let config: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let strings = serde_json::from_value(config["process"]["env"].clone()).unwrap();
            (strings, config["mounts"].as_array().unwrap().len())
        };
        let mounted = if takes { 2 } else { 0 };
        let preload = format!("LD_PRELOAD={object}");
        let named = ["PATH=/bin", "THROUGHLINE_MPI=mpich"];
        let mut wanted = named.map(str::to_owned).to_vec();
        wanted.extend(takes.then(|| preload.clone()));
        assert_eq!(started(&named), (wanted, mounted), "{}", root.display());
        let off = ["THROUGHLINE_MPI=mpich", "THROUGHLINE_SHIM=off"];
        assert_eq!(started(&off), (off.map(str::to_owned).to_vec(), mounted));
        let had: Vec<_> = takes.then(|| preload.clone()).into_iter().collect();
        assert_eq!(started(&[&preload]), (had, mounted));
    }
    let mut run = Command::new("python3");
    run.arg(hook("oci-hook", folder.path())).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = run.spawn().unwrap();
    run.stdin.take().unwrap().write_all(b"no JSON").unwrap();
    assert_eq!(run.wait_with_output().unwrap().stdout, b"no JSON");
}

/// An installation for a package: each file in its place, paths in files those of the prefix, and a program there that
/// finds its objects.
#[test]
fn a_staged_installation_is_whole() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (from, stage) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let built = from.path();
    let install = || {
        let mut make = Command::new("make");
        make.arg("-s").arg("-C").arg(&top).args(["install", "PREFIX=/opt/throughline"]);
        make.arg(format!("FROM={}", built.display())).arg(format!("DESTDIR={}", stage.path().display()));
        // Of a make above this one.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().unwrap()
    };
    let empty = install();
    let said = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert!(
        !empty.status.success() && said.contains("throughline-agent") && said.contains("make build"),
        "{said}"
    );

    // The daemons of a release are not built for a test: something of that name stands for them.
    for daemon in ["throughline", "throughline-agent", "throughline-fabric"] {
        std::fs::copy("/bin/true", built.join(daemon)).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_throughline-exec"), built.join("throughline-exec")).unwrap();
    std::fs::create_dir_all(built.join("lib/throughline")).unwrap();
    for family in ["openmpi", "openmpi5", "mpich", "mpi3"] {
        let name = format!("libthroughline-{family}.so");
        std::fs::copy(plain_shim().join(&name), built.join("lib/throughline").join(&name)).unwrap();
    }
    // Twice: what is there is replaced.
    for _ in 0..2 {
        let output = install();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    let root = stage.path().join("opt/throughline");
    let text = |file: &str| {
        std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    for unit in ["throughline-serve", "throughline-fabric", "throughline-agent"] {
        let unit = text(&format!("lib/systemd/system/{unit}.service"));
        assert!(unit.contains("ExecStart=/opt/throughline/bin/throughline"), "{unit}");
    }
    for file in ["modulefiles/throughline", "modulefiles/throughline.lua", "pbs/throughline_launch.py"] {
        let file = text(&format!("share/throughline/{file}"));
        assert!(file.contains("/opt/throughline/lib/throughline") && !file.contains("/usr/lib/throughline"));
    }
    for file in [
        "lib/sysusers.d/throughline.conf",
        "lib/tmpfiles.d/throughline.conf",
        "share/throughline/config/agent.toml",
    ] {
        text(file);
    }
    // Debug information is beside the programs, where debuggers look for it.
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    let (whole, bare) = (built.join("throughline-exec"), root.join("bin/throughline-exec"));
    assert!(size(&bare) * 2 < size(&whole), "{} of {} bytes are left", size(&bare), size(&whole));
    let sections = Command::new("objdump").arg("-h").arg(&bare).output().unwrap();
    let sections = String::from_utf8_lossy(&sections.stdout).into_owned();
    assert!(sections.contains(".gnu_debuglink") && !sections.contains(".debug_line"), "{sections}");
    assert!(size(&root.join("bin/.debug/throughline-exec.debug")) > size(&bare));
    // A program of a user, and the launcher there.
    let program = stage.path().join("program.c");
    std::fs::write(
        &program,
        "#include <throughline.h>\nint main(void) { throughline_region_begin(\"a\"); }\n",
    )
    .unwrap();
    let mut compile = Command::new("cc");
    compile.arg("-I").arg(root.join("include")).args(["-Wall", "-Wextra", "-Werror", "-o"]);
    assert!(compile.arg(stage.path().join("program")).arg(&program).status().unwrap().success());
    let dry_run = Command::new(root.join("bin/throughline-exec"))
        .args(["--dry-run", "/bin/sh"])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("PMIX_RANK", "0")])
        .output()
        .unwrap();
    let said = String::from_utf8(dry_run.stdout).unwrap();
    let objects = root.join("lib/throughline");
    assert!(said.starts_with(&format!("preload {}/libthroughline-", objects.display())), "{said}");
    let prolog = Command::new(objects.join("task-prolog.sh"))
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("PMIX_RANK", "0"), ("THROUGHLINE_MPI", "openmpi5")])
        .env("THROUGHLINE_LIB_DIR", &objects)
        .output()
        .unwrap();
    let exported = format!("export LD_PRELOAD={}/libthroughline-openmpi5.so\n", objects.display());
    assert_eq!(String::from_utf8(prolog.stdout).unwrap(), exported);
}

/// Runs a script in an interpreter; `None` where it is not installed.
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
    // The commands of environment-modules, as far as the file uses them; with an argument it unloads.
    let commands = "proc module-whatis text {}\nproc prepend-path {name value} { puts \"$name=$value\" }\n\
                    proc module-info {what mode} { return $::argc }\n";
    let here = module.replace("/usr/lib/throughline", &place);
    let Some(loaded) = run("tclsh", &format!("{commands}{here}"), &[]) else {
        throughline_test_support::skip!("no tclsh; apt-get install tcl");
    };
    assert_eq!(
        String::from_utf8_lossy(&loaded.stdout),
        format!("LD_PRELOAD={place}/libthroughline-mpi3.so\n")
    );
    let elsewhere = module.replace("/usr/lib/throughline", "/nowhere");
    let missing = run("tclsh", &format!("{commands}{elsewhere}"), &[]).unwrap();
    assert!(missing.stdout.is_empty() && String::from_utf8_lossy(&missing.stderr).contains("is not there"));
    // Taken away is whichever it was: THROUGHLINE_MPI may have changed since.
    let unloaded = run("tclsh", &format!("{commands}{here}"), &["unload"]).unwrap();
    assert_eq!(String::from_utf8_lossy(&unloaded.stdout).lines().count(), 4);
}

/// Lua as Debian and others name it; `None`, and the test reported as skipped, where there is none.
#[track_caller]
fn lua(script: &str, arguments: &[&str]) -> Option<Output> {
    let output = ["lua5.4", "lua5.3", "lua"].iter().find_map(|name| run(name, script, arguments));
    if output.is_none() {
        throughline_test_support::skipped("no Lua; apt-get install lua5.4");
    }
    output
}

#[test]
fn the_lua_module_prepends_the_object() {
    let folder = objects();
    let place = folder.path().display().to_string();
    let module = std::fs::read_to_string(deploy("modulefiles/throughline.lua")).unwrap();
    // The commands of Lmod, as far as the file uses them; with an argument it unloads.
    let commands = r#"
        function mode() return arg[1] or "load" end
        function help(text) end
        function whatis(text) end
        function pathJoin(a, b) return a .. "/" .. b end
        function isFile(name) local f = io.open(name); if f then f:close() end; return f ~= nil end
        function prepend_path(name, value, sign) print(name .. "=" .. value .. sign) end
        function LmodWarning(text) io.stderr:write(text, "\n") end
    "#;
    let here = module.replace("/usr/lib/throughline", &place);
    let Some(loaded) = lua(&format!("{commands}{here}"), &[]) else { return };
    assert_eq!(
        String::from_utf8_lossy(&loaded.stdout),
        format!("LD_PRELOAD={place}/libthroughline-mpi3.so:\n")
    );
    let chosen = here.replace("os.getenv(\"THROUGHLINE_MPI\")", "\"openmpi5\"");
    let chosen = lua(&format!("{commands}{chosen}"), &[]).unwrap();
    assert!(String::from_utf8_lossy(&chosen.stdout).contains("libthroughline-openmpi5.so"));
    let elsewhere = module.replace("/usr/lib/throughline", "/nowhere");
    let missing = lua(&format!("{commands}{elsewhere}"), &[]).unwrap();
    assert!(missing.stdout.is_empty() && String::from_utf8_lossy(&missing.stderr).contains("is not there"));
    let unloaded = lua(&format!("{commands}{here}"), &["unload"]).unwrap();
    assert_eq!(String::from_utf8_lossy(&unloaded.stdout).lines().count(), 4);
}

#[test]
fn slurms_job_submit_changes_the_environment_only() {
    let plugin = std::fs::read_to_string(deploy("slurm/job_submit.lua")).unwrap();
    // As slurmctld does: the file once, its value looked at, then its functions with a job. The environment can be
    // written to and not be listed there.
    let script = format!(
        r#"
        slurm = {{ SUCCESS = 0 }}
        local plugin = function() {plugin} end
        assert(plugin() == slurm.SUCCESS)
        local reported_values = {{}}
        local environment = setmetatable({{}}, {{ __newindex = function(_, name, value)
            reported_values[#reported_values + 1] = name .. "=" .. value
        end }})
        local job = {{ comment = arg[1], environment = arg[2] ~= "salloc" and environment or nil }}
        assert(slurm_job_submit(job, {{}}, 1000) == slurm.SUCCESS)
        assert(slurm_job_modify(job, {{}}, {{}}, 1000) == slurm.SUCCESS)
        assert(job.comment == arg[1])
        print(table.concat(reported_values, " "))
        "#
    );
    let reported = |arguments: &[&str]| {
        Some(String::from_utf8(lua(&script, arguments)?.stdout).unwrap().trim_end().to_owned())
    };
    let Some(off) = reported(&["throughline=off"]) else { return };
    assert_eq!(off, "THROUGHLINE_SHIM=off");
    assert_eq!(reported(&["my run, throughline=trace please"]).unwrap(), "THROUGHLINE_TRACE=1");
    for nothing in [&[][..], &["a comment"], &["throughline=unheard"], &["throughline=off", "salloc"]] {
        assert_eq!(reported(nothing).unwrap(), "", "{nothing:?}");
    }
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
    let reported = |arguments: &[&str]| {
        let output = run("python3", &script, arguments)?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let Some(plain) = reported(&[]) else {
        throughline_test_support::skip!("no python3; apt-get install python3");
    };
    assert_eq!(plain, format!("{place}/libthroughline-mpi3.so"));
    assert_eq!(
        reported(&["THROUGHLINE_MPI=mpich", "LD_PRELOAD=/opt/tool.so"]).unwrap(),
        format!("{place}/libthroughline-mpich.so:/opt/tool.so")
    );
    assert_eq!(reported(&["THROUGHLINE_SHIM=off"]).unwrap(), "None");
    assert_eq!(reported(&["THROUGHLINE_MPI=unheard"]).unwrap(), "None");
}
