//! The whole way from the test doubles of libcuda and libcupti through the sampler's process to records.

use crate::bench::cupti::{Cupti, value};
use crate::bench::{Bench, double};
use std::path::PathBuf;
use std::time::Duration;
use throughline_doubles::nvml::SCENARIO_VARIABLE;
use throughline_gpu::{End, State};
use throughline_sample::catalogue;

#[test]
fn sums_are_exact_for_each_sample_and_absent_where_a_chip_has_no_such_metric() {
    let mut cupti = Cupti::scenario("");
    let batch = loop {
        let batch = cupti.next();
        if batch.gpu_pm.iter().all(|sample| value(sample, &catalogue::PM_SAMPLES) > Some(20)) {
            break batch;
        }
    };
    // The last GPU's chip has no metric.
    assert_eq!((batch.gpu_pm.len(), batch.coverage[0].expected, batch.coverage[0].failed), (3, 4, 1));
    for (place, sample) in batch.gpu_pm.iter().enumerate() {
        let samples = value(sample, &catalogue::PM_SAMPLES).unwrap();
        let has_nvlink = place < 2;
        let nvlink = |bytes: u64| has_nvlink.then_some(bytes);
        assert_eq!(value(sample, &catalogue::PM_NVLINK_TRANSMIT_BYTES), nvlink(4 * 1000 * samples));
        assert_eq!(value(sample, &catalogue::PM_NVLINK_RECEIVE_BYTES), nvlink(4 * 500 * samples));
        assert_eq!(value(sample, &catalogue::PM_PCIE_READ_BYTES), Some(30 * samples));
        assert_eq!(value(sample, &catalogue::PM_PCIE_WRITE_BYTES), Some(70 * samples));
        // 4000 bytes in a millisecond.
        assert_eq!(value(sample, &catalogue::PM_NVLINK_TRANSMIT_PEAK), nvlink(4_000_000));
        // The first one holds no number.
        assert_eq!(value(sample, &catalogue::PM_VOID_SAMPLES), Some(1));
        assert_eq!(value(sample, &catalogue::PM_OVERFLOWS), Some(0));
    }
    assert_eq!(batch.coverage[0].reasons.get("no_metric"), Some(&1));
    let status = cupti.source.status();
    assert_eq!((status.state, status.gpus, status.unreadable_gpus), (State::Running, 4, 1));
}

#[test]
fn an_older_release_gets_the_sizes_that_it_expects() {
    let cupti = Cupti::scenario("cupti 24\n");
    let status = cupti.until(|status| status.polls > 0);
    assert_eq!((status.library_version.as_deref(), status.unreadable_gpus), (Some("24"), 1));
}

#[test]
fn a_busy_gpu_is_waited_for_and_stops_no_other() {
    let mut cupti = Cupti::scenario("na 1 * 9001 26\n");
    let batch = cupti.next();
    assert_eq!((batch.gpu_pm.len(), batch.coverage[0].reasons.get("hardware_busy")), (2, Some(&1)));
    assert!(batch.events.iter().any(|event| event.kind == "gpu.busy"), "{:?}", batch.events);
    let scenario =
        std::fs::read_to_string(cupti.bench.scenario_path()).unwrap().replace("na 1 * 9001 26", "");
    cupti.bench.rewrite(&scenario);
    cupti.until(|status| status.gpus == 4 && status.unreadable_gpus == 1);
    let back = loop {
        let batch = cupti.next();
        if batch.gpu_pm.len() == 3 {
            break batch;
        }
    };
    assert!(back.gpu_pm[1].epoch > back.gpu_pm[0].epoch, "its sums began later");
}

#[test]
fn all_busy_is_a_state_of_its_own_and_the_sampler_stays() {
    let cupti = Cupti::scenario("na 0-2 * 9001 26\n");
    let status = cupti.until(|status| status.polls > 2);
    assert_eq!((status.state, status.starts), (State::Busy, 1));
    assert!(status.detail.unwrap().contains("another profiler has the GPU"));
}

#[test]
fn each_refusal_ends_in_its_own_state_with_a_remedy() {
    for (more, state, end, remedy) in [
        (
            "fail cuInit 100\n",
            State::DriverUnavailable,
            End::DriverUnavailable,
            "cuInit answers CUDA error 100",
        ),
        ("fail cupti_init 15\n", State::DriverUnavailable, End::DriverUnavailable, "nvidia-smi"),
        ("fail cupti_init 999\n", State::DriverUnavailable, End::DriverUnavailable, "999 (unknown)"),
        (
            "fail pm_enable 35\n",
            State::NotPermitted,
            End::NotPermitted,
            "NVreg_RestrictProfilingToAdminUsers",
        ),
        ("fail pm_enable 27\n", State::NotSupported, End::NotSupported, "NVML alone"),
    ] {
        let cupti = Cupti::scenario(more);
        let status = cupti.until(|status| status.state == state && status.ends.contains_key(&end));
        assert!(status.detail.as_ref().unwrap().contains(remedy), "{more}: {status:?}");
    }
}

#[test]
fn libraries_that_are_missing_or_wrong_are_named() {
    for (library, end, word) in [
        ("none/libcupti.so", End::LibraryMissing, "cupti.library"),
        ("libcuda.so.1", End::LibraryUnusable, "cuptiGetVersion"),
        ("13.2/libcupti.so", End::LibraryUnusable, "13.2"),
    ] {
        let cupti =
            Cupti::start(Bench::scenario("ampere-pm", ""), |config| config.cupti = double().join(library));
        let status = cupti.until(|status| status.ends.contains_key(&end));
        assert!(status.detail.as_ref().unwrap().contains(word), "{status:?}");
        assert_eq!(status.ends.get(&End::Crashed), None, "nothing that is refused is called");
    }
    // A function that is needed while sampling: the GPUs say so one by one.
    let broken = Cupti::start(Bench::scenario("ampere-pm", ""), |config| {
        config.cupti = double().join("broken/libcupti.so")
    });
    let status = broken.until(|status| status.absent.contains_key("function_not_found"));
    assert!(status.detail.unwrap().contains("cuptiPmSamplingDecodeData"));
    let no_driver =
        Cupti::start(Bench::scenario("ampere-pm", ""), |config| config.cuda = "/nowhere/libcuda.so.1".into());
    no_driver.until(|status| status.state == State::LibraryMissing);
}

#[test]
fn a_crash_and_an_endless_call_end_the_sampler_alone_and_it_is_started_anew() {
    let crashing = Cupti::scenario("crash 3\n");
    crashing.until(|status| status.ends.get(&End::Crashed) > Some(&1));
    let hanging = Cupti::start(Bench::scenario("ampere-pm", "hang 3\n"), |config| {
        config.pace.silence = Duration::from_millis(300);
    });
    hanging.until(|status| status.ends.get(&End::Silent) > Some(&0) && status.starts > 1);
}

#[test]
fn a_pause_gives_the_gpus_back_and_sampling_comes_back() {
    let mut cupti = Cupti::scenario("");
    cupti.next();
    let pid = cupti.source.status().pid.unwrap();
    cupti.source.pause(Duration::from_secs(3600));
    let paused = cupti.until(|status| status.state == State::Paused);
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "the sampler has ended");
    assert!(paused.detail.unwrap().contains("gpu resume"));
    assert_eq!((paused.pid, paused.gave_way, paused.ends.len()), (None, 1, 0));
    assert!(paused.end_seconds.is_some(), "it gave the GPUs back by itself");
    cupti.source.resume();
    let back = cupti.until(|status| status.state == State::Running);
    assert_eq!(back.starts, 2);
    // A pause ends by itself.
    cupti.source.pause(Duration::from_millis(1));
    cupti.until(|status| status.state == State::Running && status.polls > back.polls);
}

#[test]
fn a_lease_gives_the_gpus_back_for_as_long_as_its_file_is_there() {
    let mut cupti = Cupti::scenario("");
    cupti.next();
    std::fs::create_dir_all(&cupti.leases).unwrap();
    let lease = cupti.leases.join("4711");
    std::fs::write(&lease, "").unwrap();
    let paused = cupti.until(|status| status.state == State::Paused);
    assert!(paused.detail.unwrap().contains("leases/4711"));
    std::fs::remove_file(&lease).unwrap();
    cupti.until(|status| status.state == State::Running && status.starts == 2);
}

#[test]
fn the_double_refuses_wrong_use() {
    let bench = Bench::text("gpu 0 uuid=GPU-0 chip=GH100\nlink 0 0 version=4\n");
    let checked = std::process::Command::new(double().join("cupti_misuse"))
        .args([double().join("libcuda.so.1"), double().join("libcupti.so")])
        .env(SCENARIO_VARIABLE, bench.scenario_path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
