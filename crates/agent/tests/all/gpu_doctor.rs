//! What `gpu doctor` says of drivers and libraries that answer badly: the code, what to do about it, and nothing else.

use crate::bench::{Node, make};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use throughline_gpu::code::Code;

/// Functions whose refusal must be named, as each one answers in the scenario of [`node`].
const FUNCTIONS: [&str; 24] = [
    "nvmlInit_v2",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
    "nvmlEventSetCreate",
    "nvmlDeviceRegisterEvents",
];

fn doubles() -> PathBuf {
    make("gpu/testdouble", "agent-nvml-double")
}

/// A node of 8 GPUs with GPM and a partition, whose calls can fail.
fn node(faults: &str) -> Node {
    let more = "gpu 0-7 state_field=no gpm=yes\npart 0 0 uuid=MIG-0 name=1g gi=7 ci=0\n";
    let node = Node::bare().with_scenario("hgx-h200", more);
    let file = node.path().join("faults");
    std::fs::write(&file, faults).unwrap();
    node.with("NVML__LIBRARY", doubles().join("faults/libnvidia-ml.so.1").to_str().unwrap())
        .with_variable("THROUGHLINE_NVML_FAULTS", file.to_str().unwrap())
}

/// Its exit status and what it says.
fn doctor(node: &Node) -> (Option<i32>, String) {
    let output = node.command("gpu").arg("doctor").output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn each_function_with_a_refusal_is_named_with_its_own_remedy_within_seconds() {
    let all: Vec<(&str, Code)> =
        FUNCTIONS.iter().flat_map(|name| [(*name, Code(4)), (*name, Code(15)), (*name, Code(999))]).collect();
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(4)) {
            scope.spawn(move || part.iter().for_each(|(function, code)| refused(function, *code)));
        }
    });
}

fn refused(function: &str, code: Code) {
    let node = node(&format!("{function} code {}\n", code.0));
    let begin = Instant::now();
    let (status, said) = doctor(&node);
    let what = format!("{function} answering {code}: {said}");
    assert!(begin.elapsed() < Duration::from_secs(25), "{what}");
    assert_eq!(status, Some(2), "{what}");
    assert!(said.contains(code.reason()), "{what}");
    let remedy = if function.contains("Processes") && code == Code::NO_PERMISSION {
        "run the agent as root"
    } else {
        code.remedy()
    };
    assert!(said.contains(remedy), "{what}");
    // A lost GPU is one that the driver calls so.
    assert_eq!(said.contains("left the bus"), code == Code::GPU_IS_LOST, "{what}");
}

#[test]
fn links_whose_state_is_refused_are_not_none() {
    let (status, said) = doctor(&node("nvmlDeviceGetNvLinkState code 4\n"));
    assert!(!said.contains("these GPUs have no links") && status == Some(2), "{said}");
    assert!(said.contains("not known: the driver refuses their state"), "{said}");
}

#[test]
fn links_without_a_speed_are_a_problem() {
    let node = Node::bare().with_scenario("hgx-h200", "na * * 164 3\n");
    let (status, said) = doctor(&node);
    assert!(status == Some(2) && said.contains("144 of 144 links that are up report no speed"), "{said}");
}

#[test]
fn gpus_that_lack_what_others_have_are_counted() {
    let node = Node::bare().with_scenario("hgx-h200", "gpu 2 gpm=yes\n");
    let (status, said) = doctor(&node);
    assert!(status == Some(2) && said.contains("of 1 of 8 GPUs"), "{said}");
    assert!(said.contains("no GPM (Hopper and later have it)"), "{said}");
}

/// The double without some of its functions: the names of their symbols are changed.
fn library_without(folder: &Path, functions: &[&str]) -> PathBuf {
    let mut bytes = std::fs::read(doubles().join("libnvidia-ml.so.1")).unwrap();
    for function in functions {
        let name = [b"\0".as_slice(), function.as_bytes(), b"\0"].concat();
        let at: Vec<usize> =
            bytes.windows(name.len()).enumerate().filter(|(_, one)| *one == name).map(|(at, _)| at).collect();
        assert!(!at.is_empty(), "{function}");
        at.into_iter().for_each(|at| bytes[at + 1] = b'x');
    }
    let path = folder.join("libnvidia-ml.so.1");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn functions_that_the_library_lacks_are_named_and_gpm_is_not_the_gpus_fault() {
    let node = Node::bare().with_scenario("hgx-h200", "gpu 0-7 gpm=yes\n");
    let library = library_without(
        node.path(),
        &["nvmlGpmSampleGet", "nvmlDeviceGetNvLinkVersion", "nvmlEventSetCreate"],
    );
    let (_, said) = doctor(&node.with("NVML__LIBRARY", library.to_str().unwrap()));
    for name in ["nvmlGpmSampleGet", "nvmlDeviceGetNvLinkVersion", "nvmlEventSetCreate"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    assert!(said.contains("no functions of GPM") && !said.contains("Hopper and later"), "{said}");
}

#[test]
fn a_user_that_does_not_exist_is_refused_by_check_config() {
    let node = Node::bare().with("CUPTI__USER", "no-such-user-here");
    let output = node.command("check-config").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("cupti.user: there is no user no-such-user-here"), "{said}");
}
