//! Looks at trees of `/proc` that the tests write, and at real processes.

use super::*;
use std::process::{Command, Stdio};

/// A tree of `/proc`.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn watch(&self) -> ProfilerWatch {
        ProfilerWatch::new(self.0.path())
    }

    /// A process, or its present state: pages without data, name, libraries' KiB (none of the kernel's), and files in its maps.
    fn put(&self, pid: u32, pages: u64, command: &str, libraries: Option<u64>, files: &[&str]) {
        let folder = self.0.path().join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("statm"), format!("{} 1 1 1 0 9 0\n", pages + 9)).unwrap();
        let memory =
            libraries.map_or_else(String::new, |size| format!("VmExe:\t 8 kB\nVmLib:\t {size} kB\n"));
        let status =
            format!("Name:\t{command}\nUmask:\t0022\nPPid:\t1\nUid:\t1000\t0\t0\t0\n{memory}Threads:\t1\n");
        fs::write(folder.join("status"), status).unwrap();
        let line = |file: &&str| format!("7f00-7f01 r-xp 00000000 fe:01 17    {file}\n");
        let maps: String = files.iter().map(line).collect();
        fs::write(folder.join("maps"), format!("00400000-00401000 r--p 00000000 00:00 0 \n{maps}")).unwrap();
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.0.path().join(pid.to_string())).unwrap();
    }
}

/// Process ids and signs.
fn found(watch: &mut ProfilerWatch) -> Vec<(u32, String)> {
    let look = watch.look().unwrap();
    look.profilers.into_iter().map(|profiler| (profiler.pid, profiler.sign)).collect()
}

fn one(pid: u32, sign: &str) -> Vec<(u32, String)> {
    vec![(pid, sign.to_owned())]
}

#[test]
fn names_of_profilers_are_known_as_the_kernel_keeps_them() {
    for name in ["ncu", "nsys", "nvprof", "nv-nsight-cu-cl", "dcgmproftester1"] {
        assert!(is_profiler(name), "{name}");
    }
    for name in ["ncu-ui", "nsys-ui", "nv-hostengine", "dcgmi", "python3", "", "ncurses"] {
        assert!(!is_profiler(name), "{name}");
    }
}

#[test]
fn files_in_maps_are_signs_with_any_version_and_in_any_folder() {
    let sign = |file: &str| names::sign_in(format!("7f00-7f01 r-xp 00 fe:01 17 {file}\n").as_bytes());
    for (file, said) in [
        ("/opt/nsight/libnvperf_host.so", "libnvperf_host.so"),
        ("/a b/libnvperf_host.so.2025.1 (deleted)", "libnvperf_host.so.2025.1"),
        ("/x/libcuda-injection.so", "libcuda-injection.so"),
        ("/x/libToolsInjection64.so", "libToolsInjection64.so"),
        ("/x/libToolsInjectionProxy64.so", "libToolsInjectionProxy64.so"),
        ("/x/libcuinj64.so.12.6", "libcuinj64.so.12.6"),
        ("/opt/nsight/target/ncu", "ncu"),
        ("/usr/bin/dcgmproftester13", "dcgmproftester13"),
    ] {
        assert_eq!(sign(file).as_deref(), Some(said), "{file}");
    }
    for file in [
        "/x/libcupti.so.12",
        "/x/libnvperf_target.so",
        "/x/libnvperf_dcgm_host.so",
        "/x/libnvperf_host.so/data",
        "/x/libnvperf_hostile",
        "/x/libInterceptorInjectionTarget.so",
        "/x/libTreeLauncherTargetInjection.so",
        "[heap]",
        "",
    ] {
        assert_eq!(sign(file), None, "{file}");
    }
}

#[test]
fn a_library_is_noticed_when_it_comes_and_when_it_goes() {
    let (tree, torch) = (Tree::new(), "/x/libcupti.so.12");
    tree.put(7, 0, "kworker/0", None, &[]);
    tree.put(42, 100, "python3", Some(50), &[torch]);
    let mut watch = tree.watch();
    let look = watch.look().unwrap();
    assert_eq!((look.count, look.processes, look.unreadable, look.waiting), (0, 1, 0, 0));
    tree.put(42, 200, "python3", Some(60), &[torch, "/x/libnvperf_host.so"]);
    let look = watch.look().unwrap();
    let profiler =
        Profiler { pid: 42, uid: 1000, command: "python3".to_owned(), sign: "libnvperf_host.so".to_owned() };
    assert_eq!((look.profilers, look.count), (vec![profiler], 1));
    tree.put(42, 190, "python3", Some(50), &[torch]);
    assert_eq!(found(&mut watch), []);
}

#[test]
fn maps_are_read_of_new_processes_and_where_the_size_of_libraries_changed() {
    let tree = Tree::new();
    tree.put(42, 100, "rank", Some(50), &[]);
    let mut watch = tree.watch();
    assert_eq!(found(&mut watch), []);
    // Neither changed: this can't be, and shows that nothing is read.
    tree.put(42, 100, "rank", Some(50), &["/x/libnvperf_host.so"]);
    assert_eq!(found(&mut watch), []);
    // More data.
    fs::write(tree.0.path().join("42/statm"), "170 1 1 1 0 70 0\n").unwrap();
    assert_eq!(found(&mut watch), []);
    // Other mappings that cannot be executed.
    tree.put(42, 120, "rank", Some(50), &["/x/libnvperf_host.so"]);
    assert_eq!(found(&mut watch), []);
    tree.put(42, 130, "rank", Some(51), &["/x/libnvperf_host.so"]);
    assert_eq!(found(&mut watch), one(42, "libnvperf_host.so"));
}

#[test]
fn a_process_that_becomes_a_profiler_is_one_and_one_that_ends_is_none() {
    let tree = Tree::new();
    tree.put(42, 100, "sh", Some(50), &[]);
    let mut watch = tree.watch();
    assert_eq!(found(&mut watch), []);
    tree.put(42, 300, "nsys", Some(50), &[]);
    tree.put(43, 100, "dcgmproftester1", Some(9), &[]);
    assert_eq!(found(&mut watch), [(42, "nsys".to_owned()), (43, "dcgmproftester1".to_owned())]);
    // It has ended, and nobody has waited for it yet.
    tree.put(42, 0, "nsys", None, &[]);
    tree.end(43);
    let look = watch.look().unwrap();
    assert_eq!((look.profilers, look.processes), (vec![], 0));
    // Another has its id.
    tree.end(42);
    watch.look().unwrap();
    tree.put(42, 100, "sleep", Some(50), &[]);
    assert_eq!(found(&mut watch), []);
}

#[test]
fn a_process_of_any_name_is_looked_into() {
    let tree = Tree::new();
    for pid in [42, 43] {
        tree.put(pid, 100, "x", Some(50), &["/x/libcuda-injection.so"]);
    }
    let status = |name: &[u8]| [b"Name:\t", name, b"\nPPid:\t1\nUid:\t7\t7\t7\t7\nVmLib:\t 50 kB\n"].concat();
    fs::write(tree.0.path().join("42/status"), status(b"\xff\xfe")).unwrap();
    fs::write(tree.0.path().join("43/status"), status(b"")).unwrap();
    let mut watch = tree.watch();
    for _ in 0..2 {
        let look = watch.look().unwrap();
        assert_eq!((look.count, look.unreadable, look.waiting), (2, 0, 0), "{look:?}");
    }
}

#[test]
fn own_processes_are_none() {
    let tree = Tree::new();
    tree.put(std::process::id(), 100, "throughline-agent", Some(50), &["/x/libnvperf_host.so"]);
    tree.put(42, 100, "sampler", Some(50), &["/x/libnvperf_host.so"]);
    let status = fs::read_to_string(tree.0.path().join("42/status")).unwrap();
    let parent = format!("PPid:\t{}", std::process::id());
    fs::write(tree.0.path().join("42/status"), status.replace("PPid:\t1", &parent)).unwrap();
    // Somebody else's agent.
    tree.put(43, 100, "sampler", Some(50), &["/x/libnvperf_host.so"]);
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), tree.0.path().join("43/exe")).unwrap();
    let look = tree.watch().look().unwrap();
    assert_eq!((look.count, look.processes, look.unreadable), (0, 3, 0));
}

#[test]
fn maps_longer_than_a_buffer_are_read_to_their_end_and_endless_ones_are_unreadable() {
    let tree = Tree::new();
    let mut files: Vec<String> = (0..4000).map(|number| format!("/x/library-{number}.so")).collect();
    files.push("/x/libcuinj64.so.12.6".to_owned());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    tree.put(42, 100, "rank", Some(50), &files);
    let mut watch = tree.watch();
    assert_eq!(found(&mut watch), one(42, "libcuinj64.so.12.6"));
    tree.put(43, 100, "rank", Some(50), &[]);
    fs::write(tree.0.path().join("43/maps"), "7f00-7f01 r--p 00000000 00:00 0 \n".repeat(600_000)).unwrap();
    let mut look = watch.look().unwrap();
    while look.waiting > 0 {
        look = watch.look().unwrap();
    }
    assert_eq!((look.count, look.processes, look.unreadable), (1, 2, 1));
}

#[test]
fn the_kernels_files_are_of_the_form_that_is_read() {
    let mut watch = ProfilerWatch::new(Path::new("/proc"));
    let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let mut look = watch.look().unwrap();
    // It may still be being executed, with nothing but a stack: the next look has it, not a later one.
    while watch.known[&child.id()].libraries.is_none_or(|size| size <= 100) {
        assert!(!watch.known[&child.id()].is_bare);
        look = watch.look().unwrap();
    }
    assert!(look.processes > 1, "{look:?}");
    let known = &watch.known[&child.id()];
    assert!(known.pages > 10 && known.libraries.is_some_and(|size| size > 100), "{} pages", known.pages);
    assert_eq!(
        (known.command.as_str(), known.is_own, known.uid),
        ("sleep", true, nix::unistd::getuid().as_raw())
    );
    // Its file stays that of the process that has ended.
    child.kill().unwrap();
    child.wait().unwrap();
    watch.look().unwrap();
    assert!(!watch.known.contains_key(&child.id()));
    assert_eq!(watch.sign_of(std::process::id()).unwrap(), None);
}
