//! Odd surroundings: variables that make no sense, sockets that are none, an agent that talks nonsense, no /proc.

use crate::mpi::support::*;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// One rank without a launcher: quick.
fn alone_with(program: &Path, variables: &[(&str, &[u8])]) -> (String, String, Option<i32>) {
    let mut command = Command::new(program);
    command.args(["20", "0", "3"]).env_remove("LD_PRELOAD");
    for (name, value) in variables {
        command.env(name, std::ffi::OsStr::from_bytes(value));
    }
    shown(&command.output().unwrap())
}

#[test]
fn variables_that_make_no_sense() {
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    let plain = alone_with(&program, &[]);
    assert_eq!((plain.0.as_str(), plain.2), ("sum 1\n", Some(3)), "{plain:?}");
    let object = plain_shim().join("libthroughline-mpich.so");
    let long = [b'x'; 100_000];
    let sets: [&[(&str, &[u8])]; 9] = [
        &[("THROUGHLINE_SOCKET", file.as_os_str().as_bytes())],
        &[("THROUGHLINE_SOCKET", &long[..200])],
        &[("THROUGHLINE_SOCKET", b"/")],
        &[("THROUGHLINE_SOCKET", b"\xff\xfe"), ("SLURM_JOB_ID", b"\xff\xff"), ("PMIX_NAMESPACE", &long)],
        &[("THROUGHLINE_BIN_MS", b"-1"), ("THROUGHLINE_PUSH_MS", b"99999999999999999999")],
        &[("THROUGHLINE_BIN_MS", b""), ("THROUGHLINE_PUSH_MS", b"ten")],
        &[("THROUGHLINE_PVARS", &long), ("XDG_RUNTIME_DIR", &long)],
        &[("THROUGHLINE_PVARS", b",,, ,,"), ("THROUGHLINE_SHIM", b"perhaps")],
        &[("THROUGHLINE_TRACE", b"\x01"), ("THROUGHLINE_REGIONS", &long)],
    ];
    for set in sets {
        let preload: &[(&str, &[u8])] = &[("LD_PRELOAD", object.as_os_str().as_bytes())];
        let name = String::from_utf8_lossy(set[0].1).chars().take(40).collect::<String>();
        let with = alone_with(&program, &[preload, set].concat());
        // MPICH 5 wants PMIx where PMIX_NAMESPACE is, and ends itself, with addresses in its message.
        let without = alone_with(&program, set);
        if without == plain {
            assert_eq!(with, plain, "{}={name}", set[0].0);
        } else {
            assert_eq!((with.0, with.2), (without.0, without.2), "{}={name}", set[0].0);
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

/// Something listens that is no agent: it answers nonsense, in all lengths, and never reads.
#[test]
fn an_agent_that_talks_nonsense() {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept, bind, listen, socket,
    };
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    let plain = alone_with(&program, &[]);
    let object = plain_shim().join("libthroughline-mpich.so");
    let welcome = |tag: u16, length: u16, data: &[u8]| {
        let mut frame = vec![0; 32];
        frame[..4].copy_from_slice(b"TLM1");
        frame[4] = 2;
        frame[6] = 2;
        frame.extend(tag.to_le_bytes().into_iter().chain(length.to_le_bytes()).chain(data.iter().copied()));
        let whole = u32::try_from(frame.len()).unwrap();
        frame[8..12].copy_from_slice(&whole.to_le_bytes());
        frame
    };
    let mut answers = vec![vec![0xff; 1], vec![0; 32], vec![0x41; 60_000], b"TLM1".repeat(20)];
    answers.push(welcome(3, 60_000, b"short")); // a text that ends beyond the frame
    answers.push(welcome(3, 5000, &[b'a'; 5000]));
    answers.push(welcome(1, 4, &[0; 4])); // bins of no length
    answers.push(welcome(2, 4, &[0xff; 4]));
    answers.push(welcome(99, 3, b"new"));
    for (i, answer) in answers.into_iter().enumerate() {
        let path = folder.path().join(format!("s{i}"));
        let listening =
            socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(listening.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listening, Backlog::new(4).unwrap()).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let talking = std::thread::spawn(move || {
            let connection = accept(listening.as_raw_fd()).unwrap();
            for _ in 0..20 {
                let flags =
                    nix::sys::socket::MsgFlags::MSG_NOSIGNAL | nix::sys::socket::MsgFlags::MSG_DONTWAIT;
                let _ = nix::sys::socket::send(connection, &answer, flags);
            }
            let _ = receiver.recv(); // held open until the program has ended
            nix::unistd::close(connection).unwrap();
        });
        let socket = path.as_os_str().as_bytes();
        let preload = object.as_os_str().as_bytes();
        let got = alone_with(
            &program,
            &[("LD_PRELOAD", preload), ("THROUGHLINE_SOCKET", socket), ("THROUGHLINE_PUSH_MS", b"10")],
        );
        assert_eq!(got, plain, "answer {i}");
        drop(sender);
        talking.join().unwrap();
    }
}

/// A root folder with the program, libraries and nothing else: no /proc, no /sys, no /run. Real MPI libraries do
/// not start there, so it is the stub, which looks like MPICH.
#[test]
fn a_root_without_proc() {
    if !throughline_test_support::is_root("for chroot(2)") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let (library, driver) = (folder.path().join("libmpistub.so"), folder.path().join("driver"));
    succeeded(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libmpistub.so", "-o"])
            .arg(&library)
            .arg(source("stub_mpi.c")),
    );
    let mut link = Command::new("cc");
    link.args(["-pthread", "-Wl,-rpath,/", "-o"]).arg(&driver).arg(source("stub_driver.c"));
    succeeded(link.arg(&library));
    let object = plain_shim().join("libthroughline-mpich.so");
    // Of the shim, too: each glibc brings libpthread and libdl, which are empty since 2.34.
    let loaded = [&driver, &object].map(|file| stdout(&succeeded(Command::new("ldd").arg(file)))).concat();
    let files = loaded.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    for file in files.filter(|file| !file.contains("mpistub")).chain([object.to_str().unwrap()]) {
        let to = folder.path().join(file.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(file, to).unwrap();
    }
    let run = |preload: bool| {
        let mut command = Command::new("/usr/sbin/chroot"); // not found by an empty PATH
        command.arg(folder.path()).args(["/driver", "2", "1000"]).env_clear();
        if preload {
            // chroot(1) itself has it too, and finds it at the same path.
            command.env("LD_PRELOAD", &object).env("THROUGHLINE_SOCKET", "/s").env("THROUGHLINE_DEBUG", "1");
        }
        shown(&command.output().unwrap())
    };
    assert_eq!(run(false), (String::new(), String::new(), Some(0)));
    let (out, said, status) = run(true);
    assert_eq!((out.as_str(), status), ("", Some(0)), "{said}");
    assert!(said.contains("rank 0 of 64"), "it recorded all the same: {said}");
}

/// The loader of musl ends a program whose preload needs a function that is not there: the objects need none.
#[test]
fn programs_of_musl_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hello");
    let text = folder.path().join("hello.c");
    std::fs::write(&text, "int puts(const char *);\nint main(void) { return puts(\"hello\") < 0; }\n")
        .unwrap();
    succeeded(Command::new("musl-gcc").arg("-o").arg(&program).arg(text));
    for object in ["mpi3", "mpich", "openmpi", "openmpi5"] {
        let object = plain_shim().join(format!("libthroughline-{object}.so"));
        let mut command = Command::new(&program);
        let output = command.env("LD_PRELOAD", &object).env("THROUGHLINE_WIRE", "1").output().unwrap();
        assert_eq!(shown(&output), ("hello\n".to_owned(), String::new(), Some(0)), "{}", object.display());
    }
}

/// Who looks the functions up in the library itself is named in the state of the agent, and once in an event.
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_bypass_the_shim_are_named() {
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&folder.path().join("s"));
    for (mpi, library) in [(Mpi::Mpich, "libmpich.so.12"), (Mpi::Open, "libmpi.so.40")] {
        let program = mpi.compile("tests/programs/bypass.c", folder.path());
        for _ in 0..2 {
            let mut command = Command::new(&program);
            command.arg(library).env("LD_PRELOAD", plain_shim().join(mpi.object()));
            command.env("THROUGHLINE_SOCKET", &agent.socket);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            assert_eq!(shown(&command.output().unwrap()), ("done\n".into(), String::new(), Some(0)));
        }
        let name = program.file_name().unwrap().to_str().unwrap().to_owned();
        let is_named = |observed: &Observed| observed.events.iter().any(|event| event.text.contains(&name));
        agent.until("an event", is_named).await;
        let named = agent.receiver.status().bypassed;
        assert_eq!(named.iter().filter(|text| text.contains(&name)).count(), 1, "{named:?}");
    }
    let kinds: Vec<_> = agent.observed.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["mpi.bypassed"; 2], "once each");
    assert_eq!(agent.receiver.status().malformed_messages(), 0);
}

/// Who looks the functions up in the library itself learns it, where he requests it.
#[test]
fn calls_that_bypass_the_shim() {
    let _alone = alone_blocking();
    let folder = tempfile::tempdir().unwrap();
    let program = Mpi::Mpich.compile("tests/programs/bypass.c", folder.path());
    let run = |debug: bool| {
        let mut command = Command::new(&program);
        command.arg("libmpich.so.12").env("LD_PRELOAD", plain_shim().join("libthroughline-mpich.so"));
        if debug {
            command.env("THROUGHLINE_DEBUG", "1");
        }
        shown(&command.output().unwrap())
    };
    assert_eq!(run(false), ("done\n".into(), String::new(), Some(0)));
    let (out, said, status) = run(true);
    assert_eq!((out.as_str(), status), ("done\n", Some(0)), "{said}");
    assert!(said.contains("calls bypass the shim"), "{said}");
    // Who calls them as linked is not.
    let linked = Mpi::Mpich.compile("tests/programs/allreduce.c", folder.path());
    let object = plain_shim().join("libthroughline-mpich.so");
    let said =
        alone_with(&linked, &[("LD_PRELOAD", object.as_os_str().as_bytes()), ("THROUGHLINE_DEBUG", b"1")]).1;
    assert!(said.contains("rank 0 of 1") && !said.contains("bypass"), "{said}");
}
