//! With NVIDIA's own libcupti from the Python Package Index, without driver or GPU: for each chip that PM Sampling knows,
//! the metrics resolve in one pass, and the others are named. In a child process, as in the agent.

use std::collections::BTreeMap;
use std::process::Command;

use crate::cupti_metrics::TEN;
use throughline_prefix::Prefix;

/// Chips with what is said of each, and what each refuses of some metrics.
struct Chips {
    sampled: BTreeMap<String, String>,
    refused: Vec<String>,
}

fn chips(package: &str, version: &str, library: &str, metrics: &[&str]) -> Option<Chips> {
    let wheel = match Prefix::locate().unwrap().wheel(package, version) {
        Ok(wheel) => wheel,
        Err(error) => {
            throughline_test_support::skipped(error);
            return None;
        }
    };
    let reported = Command::new(env!("CARGO_BIN_EXE_throughline-gpu-sampler"))
        .args(["gpu-cupti-chips".into(), wheel.join(library)])
        .args(metrics)
        .output()
        .unwrap();
    assert!(reported.status.success(), "{}", String::from_utf8_lossy(&reported.stderr));
    let text = String::from_utf8(reported.stdout).unwrap();
    let (refused, sampled): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains(" ! "));
    let lines = sampled.iter().map(|line| line.split_once(' ').unwrap());
    Some(Chips {
        sampled: lines.map(|(chip, metrics)| (chip.to_owned(), metrics.to_owned())).collect(),
        refused: refused.into_iter().map(str::to_owned).collect(),
    })
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
    let Some(chips) = chips("nvidia-cuda-cupti-cu12", "12.6.80", "nvidia/cuda_cupti/lib/libcupti.so.12", &[])
    else {
        return;
    };
    check(&chips.sampled, false);
}

#[test]
fn cuda_12_9() {
    let Some(chips) = chips("nvidia-cuda-cupti-cu12", "12.9.79", "nvidia/cuda_cupti/lib/libcupti.so.12", &[])
    else {
        return;
    };
    check(&chips.sampled, true);
}

#[test]
fn cuda_13_0() {
    let Some(chips) = chips("nvidia-cuda-cupti", "13.0.85", "nvidia/cu13/lib/libcupti.so.13", &[]) else {
        return;
    };
    check(&chips.sampled, true);
}

/// What a site may choose on a GH100, as the real library answers: ten fit in the pass of the bytes; of others the nearest names, or
/// the passes, are named. The double has these metrics with the same answers.
#[test]
fn ten_metrics_fit_in_the_pass_of_the_bytes_and_wrong_ones_are_named_with_the_nearest() {
    let wrong = [
        ("dram__read_bytes.sum", "dram__bytes_read.sum"),
        ("sm__cycle_active.avg", "sm__cycles_active.avg"),
        ("sm__cycles_active.average", "sm__cycles_active.avg"),
        ("gpc_cycles_elapsed.max", "gpc__cycles_elapsed.max"),
        ("lts__t_sector_hit_rate.avg", "lts__t_sector_hit_rate.pct"),
    ];
    let several = ["sm__inst_executed_pipe_tensor.sum", "l1tex__t_sectors.sum"];
    let named: Vec<&str> =
        TEN.iter().copied().chain(wrong.iter().map(|(name, _)| *name)).chain(several).collect();
    for (package, version, library) in [
        ("nvidia-cuda-cupti-cu12", "12.9.79", "nvidia/cuda_cupti/lib/libcupti.so.12"),
        ("nvidia-cuda-cupti", "13.0.85", "nvidia/cu13/lib/libcupti.so.13"),
    ] {
        let Some(chips) = chips(package, version, library, &named) else { return };
        assert_eq!(chips.sampled["GH100"], format!("{ALL} {}", TEN.join(" ")));
        let refused: Vec<&str> =
            chips.refused.iter().filter_map(|line| line.strip_prefix("GH100 ! ")).collect();
        assert_eq!(refused.len(), 7, "{refused:#?}");
        for (name, nearest) in wrong {
            let text = format!("chip GH100 has no metric {name}; the nearest are ");
            let near = refused.iter().find_map(|line| line.strip_prefix(&text)).unwrap_or_default();
            assert!(near.split(", ").any(|one| one == nearest), "{name}: {refused:#?}");
        }
        let tensor = "sm__inst_executed_pipe_tensor.sum alone needs 2 passes on chip GH100";
        assert!(refused.iter().any(|line| line.starts_with(tensor)), "{refused:#?}");
        let tex = "l1tex__t_sectors.sum needs another pass: chip GH100 would take ";
        assert!(refused.iter().any(|line| line.starts_with(tex)), "{refused:#?}");
    }
}
