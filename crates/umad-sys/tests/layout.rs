//! Compares the layouts in `raw` with the installed `infiniband/umad.h` by compiling a small C program.
#![allow(clippy::unwrap_used, missing_docs, clippy::print_stderr)]

use std::mem::offset_of;
use std::process::Command;
use umad_sys::raw::{IbMadAddr, IbUserMad, UMAD_CA_NAME_LEN, UmadPort};

const HEADER: &str = "/usr/include/infiniband/umad.h";

#[test]
fn layouts_are_those_of_the_header() {
    if !std::path::Path::new(HEADER).exists() {
        throughline_test_support::skip!("{HEADER} is not there; apt-get install libibumad-dev");
    }
    let mut expected = Vec::new();
    let mut program = String::from(
        "#include <infiniband/umad.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    let mut number = |expression: String, ours: usize| {
        program.push_str(&format!("printf(\"%zu\\n\", (size_t)({expression}));\n"));
        expected.push((expression, ours));
    };
    macro_rules! layout {
        ($c:literal, $rust:ty, $($field:ident),+) => {
            number(format!("sizeof({})", $c), size_of::<$rust>());
            $(number(format!("offsetof({}, {})", $c, stringify!($field)), offset_of!($rust, $field));)+
        };
    }
    layout!("ib_mad_addr_t", IbMadAddr, qpn, qkey, lid, sl, path_bits, grh_present, gid_index, hop_limit);
    layout!("ib_mad_addr_t", IbMadAddr, traffic_class, gid, flow_label, pkey_index, reserved);
    layout!("ib_user_mad_t", IbUserMad, agent_id, status, timeout_ms, retries, length, addr);
    layout!("umad_port_t", UmadPort, ca_name, portnum, base_lid, lmc, sm_lid, sm_sl, state, phys_state, rate);
    layout!("umad_port_t", UmadPort, capmask, gid_prefix, port_guid, pkeys_size, pkeys, link_layer);
    number("UMAD_CA_NAME_LEN".to_owned(), UMAD_CA_NAME_LEN);
    program.push_str("return 0; }\n");

    let folder = std::env::temp_dir().join(format!("umad-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let source = folder.join("probe.c");
    let binary = folder.join("probe");
    std::fs::write(&source, &program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler).arg("-o").arg(&binary).arg(&source).status().unwrap();
    assert!(status.success(), "the probe does not compile:\n{program}");
    let output = Command::new(&binary).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let theirs: Vec<usize> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), expected.len());
    for ((expression, ours), theirs) in expected.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{expression}");
    }
}
