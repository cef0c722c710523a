//! With NVIDIA's own libcupti from the Python Package Index, without driver or GPU: for each chip that PM Sampling knows,
//! the metrics resolve in one pass, and the others are named. In a child process, as in the agent.

use std::collections::BTreeMap;
use std::process::Command;

use throughline_prefix::Prefix;

fn chips(package: &str, version: &str, library: &str) -> Option<BTreeMap<String, String>> {
    let wheel = match Prefix::locate().unwrap().wheel(package, version) {
        Ok(wheel) => wheel,
        Err(error) => {
            throughline_test_support::skipped(error);
            return None;
        }
    };
    let reported = Command::new(env!("CARGO_BIN_EXE_throughline-gpu-sampler"))
        .args(["gpu-cupti-chips".into(), wheel.join(library)])
        .output()
        .unwrap();
    assert!(reported.status.success(), "{}", String::from_utf8_lossy(&reported.stderr));
    let text = String::from_utf8(reported.stdout).unwrap();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap());
    Some(lines.map(|(chip, metrics)| (chip.to_owned(), metrics.to_owned())).collect())
}

const ALL: &str = "nvltx__bytes.sum nvlrx__bytes.sum pcie__read_bytes.sum pcie__write_bytes.sum";
const BLACKWELL: &str = "nvltx__bytes.sum nvlrx__bytes.sum PCI.TriageCompute.pcie__read_bytes.sum \
                         PCI.TriageCompute.pcie__write_bytes.sum";
const PCIE: &str = "pcie__read_bytes.sum pcie__write_bytes.sum";

fn check(chips: &BTreeMap<String, String>, blackwell: bool) {
    // A plan that needs several passes is reported as such, and would be no match here.
    for chip in ["TU102", "TU104", "TU106", "GA100", "GA102", "GA103", "GA104", "GA106", "GA107", "GH100"] {
        assert_eq!(chips[chip], ALL, "{chip}");
    }
    for chip in ["TU116", "TU117", "AD102", "AD103", "AD104", "AD106", "AD107"] {
        assert_eq!(chips[chip], PCIE, "{chip}");
    }
    for chip in ["GV100", "GV11B"] {
        assert_eq!(chips[chip], "- cuptiProfilerHostInitialize answers 27 (not_supported)", "{chip}");
    }
    assert!(chips["GA10B"].starts_with("- ") && chips["GA10B"].contains("no_metric"), "{}", chips["GA10B"]);
    if blackwell {
        for chip in ["GB100", "GB102"] {
            assert_eq!(chips[chip], BLACKWELL, "{chip}");
        }
        for chip in ["GB202", "GB203", "GB205", "GB206"] {
            assert_eq!(chips[chip], PCIE, "{chip}");
        }
    }
    let refused = chips.values().filter(|metrics| metrics.starts_with("- "));
    assert!(
        refused.clone().all(|why| why.contains("not_supported") || why.contains("no_metric")),
        "{chips:?}"
    );
}

#[test]
fn cuda_12_6() {
    let Some(chips) = chips("nvidia-cuda-cupti-cu12", "12.6.80", "nvidia/cuda_cupti/lib/libcupti.so.12")
    else {
        return;
    };
    check(&chips, false);
}

#[test]
fn cuda_12_9() {
    let Some(chips) = chips("nvidia-cuda-cupti-cu12", "12.9.79", "nvidia/cuda_cupti/lib/libcupti.so.12")
    else {
        return;
    };
    check(&chips, true);
}

#[test]
fn cuda_13_0() {
    let Some(chips) = chips("nvidia-cuda-cupti", "13.0.85", "nvidia/cu13/lib/libcupti.so.13") else { return };
    check(&chips, true);
}
