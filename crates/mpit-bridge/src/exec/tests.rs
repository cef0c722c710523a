//! Decisions on real programs of this machine and on made-up surroundings.

use super::*;

fn around(variables: &[(&str, &str)]) -> LaunchContext {
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    LaunchContext { variables, search: Search::of_system(""), ancestors: Vec::new() }
}

fn decide_for(program: &str, variables: &[(&str, &str)]) -> Decision {
    decide(Path::new(program), &[], &around(variables))
}

fn names(list: &[&str]) -> BTreeMap<String, ()> {
    list.iter().map(|name| ((*name).to_owned(), ())).collect()
}

#[test]
fn families_by_library() {
    for name in ["libmpi.so.40", "libmpi_mpifh.so.40", "libmpi_usempif08.so.40", "libmpi_cxx.so.40"] {
        assert_eq!(family_of(&names(&["libc.so.6", name])), Some(Family::OpenMpi), "{name}");
    }
    for name in
        ["libmpich.so.12", "libmpichfort.so.12", "libmpi.so.12", "libmpifort.so.12", "libmpi_cray.so.12"]
    {
        assert_eq!(family_of(&names(&["libc.so.6", name])), Some(Family::Mpich), "{name}");
    }
    assert_eq!(family_of(&names(&["libc.so.6", "libmpfr.so.6", "libmpdec.so.3"])), None);
}

#[test]
fn without_mpi_nothing_is_done() {
    assert!(matches!(decide_for("/bin/sh", &[]), Decision::Leave(why) if why.starts_with("no MPI")));
    assert!(matches!(decide_for("/etc/passwd", &[]), Decision::Leave(_)));
    assert!(matches!(decide_for("/nowhere", &[("PMI_RANK", "0")]), Decision::Leave(_)));
}

#[test]
fn interpreters_go_by_their_launcher() {
    let family = |variables: &[(&str, &str)]| match decide_for("/bin/sh", variables) {
        Decision::Preload(target, _) => Some(target.family),
        Decision::Leave(_) => None,
    };
    assert_eq!(family(&[("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0")]), Some(Family::OpenMpi));
    assert_eq!(family(&[("PMI_RANK", "0"), ("MPI_LOCALRANKID", "0")]), Some(Family::Mpich));
    assert_eq!(family(&[("PMIX_RANK", "0")]), Some(Family::Any), "the one that fits every MPI");
    assert_eq!(family(&[("PMI_RANK", "0"), ("THROUGHLINE_SHIM", "off")]), None);
}

#[test]
fn scripts_are_followed_to_their_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh -e\nexit 0\n").unwrap();
    assert_eq!(interpreter(&script), PathBuf::from("/bin/sh"));
    let outer = folder.path().join("outer");
    std::fs::write(&outer, format!("#! {}\n", script.display())).unwrap();
    assert_eq!(interpreter(&outer), PathBuf::from("/bin/sh"));
    let circle = folder.path().join("circle");
    std::fs::write(&circle, format!("#!{}\n", circle.display())).unwrap();
    assert_eq!(interpreter(&circle), circle, "ends");
}

#[test]
fn launchers_are_known_by_name() {
    for name in ["mpirun", "/usr/bin/mpirun.openmpi", "mpiexec.hydra", "srun", "mpiexec-4.1"] {
        assert!(is_launcher(Path::new(name)), "{name}");
    }
    for name in ["mpirunner", "lmp", "srunx"] {
        assert!(!is_launcher(Path::new(name)), "{name}");
    }
}

#[test]
fn existing_preloads_are_kept() {
    let object = Path::new("/l/libthroughline-mpich.so");
    assert_eq!(preload(object, None), "/l/libthroughline-mpich.so");
    assert_eq!(preload(object, Some("")), "/l/libthroughline-mpich.so");
    assert_eq!(preload(object, Some("/a.so /b.so")), "/l/libthroughline-mpich.so:/a.so:/b.so");
    assert_eq!(
        preload(object, Some("/x/libasan.so.8:/b.so")),
        "/x/libasan.so.8:/b.so:/l/libthroughline-mpich.so"
    );
    for nested in ["/b.so:/l/libthroughline-mpich.so", "/other/libthroughline-openmpi.so /b.so"] {
        assert_eq!(
            preload(object, Some(nested)),
            "/l/libthroughline-mpich.so:/b.so",
            "one of ours is enough"
        );
    }
}

/// A target without a known library: whatever is chosen must fit all.
fn unknown(family: Family) -> Target {
    Target { family, libraries: Vec::new() }
}

#[test]
fn objects_are_found_in_their_places() {
    const NAME: &str = "libthroughline-mpi3.so";
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("bin/throughline-exec");
    assert_eq!(find_object(&unknown(Family::Mpich), &own, &around(&[])), None);
    let library = folder.path().join("lib/throughline");
    std::fs::create_dir_all(&library).unwrap();
    std::fs::write(library.join(NAME), "").unwrap();
    std::fs::write(library.join("libthroughline-mpich.so"), "").unwrap();
    for family in [Family::OpenMpi, Family::Mpich, Family::Any] {
        assert_eq!(find_object(&unknown(family), &own, &around(&[])), Some(library.join(NAME)), "{family:?}");
    }
    let elsewhere = around(&[("THROUGHLINE_LIB_DIR", "/nowhere")]);
    assert_eq!(find_object(&unknown(Family::Mpich), &own, &elsewhere), None, "the given folder and no other");
    let odd = folder.path().join("with space");
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::write(odd.join(NAME), "").unwrap();
    assert_eq!(find_object(&unknown(Family::Mpich), &odd.join("throughline-exec"), &around(&[])), None);
}

#[test]
fn programs_are_found_on_the_path() {
    assert_eq!(find_program(&"sh".into(), "/nowhere:/bin"), Some(PathBuf::from("/bin/sh")));
    assert_eq!(find_program(&"./sh".into(), "/bin"), Some(PathBuf::from("./sh")));
    assert_eq!(find_program(&"no-such-program".into(), "/bin"), None);
    assert_eq!(find_program(&"passwd".into(), "/etc"), None, "not executable");
}
