//! `hardware/gpu.sh` without the hardware: its order, its report and its exit status, with programs in place of cargo and
//! nvidia-smi, and the real agent on the double. What the checks themselves do is tried by their own tests on doubles.

use crate::bench::{Node, nvml_double};
use std::path::Path;
use std::process::Command;

/// Writes an executable file by a child's shell: a fork of another test may hold a file open that this process wrote, and
/// it could not be executed then.
fn write_program(path: &Path, text: &str) {
    let script = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    assert!(Command::new("sh").args(["-c", script, "sh", text]).arg(path).status().unwrap().success());
}

/// The exit status and the report, where cargo ends each check with a status.
fn run(check_status: i32) -> (Option<i32>, String) {
    let node = Node::bare().with("MPI__ENABLED", "false").with_gpus("hgx-h200");
    let programs = node.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    write_program(&programs.join("nvidia-smi"), "#!/bin/sh\necho '0, NVIDIA H200, 580.65.06'\n");
    // A check that wants a copy requests one and waits until it was made.
    let cargo = format!(
        "#!/bin/sh\ncase \" $* \" in *' --no-run '*) exit 0 ;; esac\nfor last; do :; done\necho 'running 1 test'\n\
         case $last in *copy*) printf to >\"$THROUGHLINE_COPY_READY\"\n\
         while [ ! -f \"$THROUGHLINE_COPY_DONE\" ]; do sleep 0.1; done ;; esac\n\
         echo \"  found by ${{last##*::}}\"\nexit {check_status}\n"
    );
    write_program(&programs.join("cargo"), &cargo);
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs).chain(std::env::split_paths(&old));
    let doubles = nvml_double().parent().unwrap();
    let report = node.path().join("report.txt");
    let agent = node.command("run");
    let variables = agent.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hardware/gpu.sh"))
        .arg(&report)
        .envs(variables)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("THROUGHLINE_AGENT", agent.get_program())
        .env("THROUGHLINE_CHECK_SECONDS", "1")
        .env("THROUGHLINE_CUPTI_LIBRARY", doubles.join("libcupti.so"))
        .env("THROUGHLINE__CUPTI__CUDA", doubles.join("libcuda.so.1"))
        .output()
        .unwrap();
    let report = std::fs::read_to_string(&report).unwrap();
    assert_eq!(
        report,
        String::from_utf8_lossy(&output.stdout),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code(), report)
}

#[test]
fn all_seven_checks_are_made_and_reported_in_their_order() {
    let (status, report) = run(0);
    let mut rest = report.as_str();
    for part in [
        "== machine\n",
        "driver 580.65.06, NVML 13.580.65.06, 8 GPUs",
        "n1: 8 GPUs, 32 logical links",
        "== 1 chip",
        "found by start",
        "== 2 fields",
        "found by each_field_answers_with_a_code_and_what_is_absent_is_reported",
        "found by what_gpm_and_the_fabric_answer",
        "== 3 pinned copies of 68719476736 bytes",
        // There is no CUDA driver here.
        "  the copy to the GPU failed: libcuda.so.1: ",
        "found by a_copy_shows_in_pcie_bytes",
        "found by copy",
        "== 4 a second profiler",
        "found by busy",
        "  a program called ncu: noticed after ",
        "  sampled again ",
        "== 5 as another user",
        "found by user",
        "== 6 latency",
        "found by a_poll_takes_so_long",
        "  clocks with nothing running: 0, NVIDIA H200",
        "ms of processor time in 1 s, ",
        "found by clocks",
        "== 7 a sampler that is killed",
        "  NVML's: killed ",
        "; now there is ",
        "found by killed",
        "== took ",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part} does not follow in\n{report}"));
        rest = &rest[at + part.len()..];
    }
    assert!(!report.contains("FAILED") && !report.contains("running 1 test"), "{report}");
    // The sampler that was killed was started anew.
    let line = report.lines().find(|line| line.contains("now there is")).unwrap();
    let (killed, now) = line.split_once("; now there is").unwrap();
    let now = now.trim();
    let killed = killed.split_whitespace().last();
    assert!(!now.is_empty() && killed.is_some_and(|killed| killed != now), "{line}");
    assert_eq!(status, Some(0), "{report}");
}

#[test]
fn a_check_that_fails_is_in_the_report_and_in_the_status() {
    let (status, report) = run(1);
    assert_eq!((status, report.matches("  FAILED: ").count()), (Some(2), 10), "{report}");
}
