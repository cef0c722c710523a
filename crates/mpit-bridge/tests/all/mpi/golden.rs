//! The golden frames are what the shim's C code writes and reads.

use crate::mpi::support::*;
use std::path::Path;
use std::process::Command;

const FRAMES: [&str; 21] = [
    "hello",
    "ops",
    "peers",
    "pvars",
    "status",
    "bye",
    "names",
    "regions",
    "paths",
    "trace",
    "clock",
    "traffic",
    "groups",
    "collectives",
    "own_groups",
    "open",
    "samples",
    "ops_least",
    "account",
    "devices",
    "devices_unknown",
];

#[test]
fn golden_frames_are_the_shims() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("golden");
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-o"]);
    compile.arg(&program).args([source.join("protocol/golden.c"), source.join("shim/frame.c")]);
    succeeded(&mut compile);
    succeeded(Command::new(&program).arg(folder.path()));
    for name in FRAMES {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(format!("{name}.hex"))).unwrap();
        assert_eq!(read(folder.path()), read(&source.join("protocol/golden")), "{name}");
    }
    let welcome = source.join("protocol/golden/welcome.hex");
    let read = succeeded(Command::new(&program).arg("--welcome").arg(welcome));
    assert_eq!(stdout(&read), "1 50\n2 500\n3 one,two\n4 4096\n5 1\n16 1\n17 50000\n18 20000000\n");
}
