//! Calls that spin, hang, leak, print, crash and answer with each code: what that costs, and what is reported of it.

use crate::bench::{Bench, FAULTS_VARIABLE, double, ends, replace};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use throughline_doubles::nvml::SCENARIO_VARIABLE;
use throughline_gpu::code::Code;
use throughline_gpu::frame::{GpuSurvey, Poll, ProblemKind, Survey};
use throughline_gpu::nvml::{Library, NvmlOptions, NvmlReader};
use throughline_gpu::{End, Reader, State};
use throughline_sample::wire::{Batch, Event};

/// A node whose calls can fail.
fn bench(scenario: &str, more: &str) -> Bench {
    Bench::scenario(scenario, more).with_library("faults/libnvidia-ml.so.1")
}

fn events<'b>(batches: &'b [Batch], kind: &str) -> Vec<&'b Event> {
    batches.iter().flat_map(|batch| &batch.events).filter(|event| event.kind == kind).collect()
}

#[test]
fn a_start_that_spins_is_killed_by_its_processor_time_and_pays_for_it() {
    let bench =
        bench("hgx-h200", "").with(|config| config.pace.start_processor_max = Duration::from_millis(300));
    bench.fail("nvmlDeviceGetFieldValues spin\n");
    let mut bench = bench.start();
    let batch = bench.until(|batch| batch.events.iter().any(|event| event.kind == "source.processor_time"));
    assert!(batch.events[0].text.contains("of processor time, gave no reading"), "{:?}", batch.events);
    let status = bench.until_status(|status| status.ends.contains_key(&End::ProcessorTime));
    assert_eq!((status.state, status.starts), (State::BackingOff, 1));
    // It used a second or so: the pause is nine times as long, though the first one of this bench is 10 ms.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(bench.status().starts, 1);
}

#[test]
fn a_start_that_hangs_is_one_incident_until_it_has_read_again() {
    let bench = bench("hgx-h200", "").with(|config| {
        config.pace.start_deadline = Duration::from_millis(150);
        config.pace.silence = Duration::from_millis(300);
    });
    bench.fail("nvmlDeviceGetFieldValues hang\n");
    let mut bench = bench.start();
    let hung = bench.until_status(|status| status.ends.get(&End::Silent) >= Some(&4));
    assert!(hung.fruitless >= 4);
    bench.fail("");
    let mut batches = vec![bench.until(|batch| !batch.coverage.is_empty())];
    assert_eq!(bench.status().fruitless, 0);
    bench.fail("nvmlDeviceGetFieldValues hang\n");
    batches.push(bench.until(|batch| batch.events.iter().any(|event| event.kind == "source.silent")));
    assert_eq!(events(&batches[1..], "source.silent").len(), 1);
}

#[test]
fn five_kills_are_five_events_that_name_the_outside() {
    let mut bench = bench("pcie-only", "")
        .with(|config| (config.pace.healthy_after, config.unfold_pcie) = (Duration::ZERO, false))
        .start();
    let mut batches = Vec::new();
    for _ in 0..5 {
        batches.push(bench.next_batch());
        let pid = i32::try_from(bench.status().pid.unwrap()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        batches.push(bench.until(|batch| batch.events.iter().any(|event| event.kind == "source.killed")));
    }
    let killed = events(&batches, "source.killed");
    assert_eq!((killed.len(), ends(&bench.status()).get("killed")), (5, Some(&5)));
    assert!(killed.iter().all(|event| event.text.contains("from outside (signal 9, SIGKILL)")), "{killed:?}");
}

#[test]
fn a_leak_ends_the_sampler_before_it_costs_the_node_its_memory() {
    let mut bench = bench("hgx-h200", "").with(|config| config.pace.memory_bytes_max = 64 << 20).start();
    bench.next_batch();
    bench.fail("nvmlDeviceGetFieldValues leak 8\n");
    let batch = bench.until(|batch| batch.events.iter().any(|event| event.kind == "source.memory"));
    let text = &batch.events.iter().find(|event| event.kind == "source.memory").unwrap().text;
    assert!(text.contains("64 are allowed") && text.contains("leaks"), "{text}");
    bench.fail("");
    bench.until_status(|status| status.state == State::Running && status.starts >= 2);
}

#[test]
fn a_leak_faster_than_any_look_meets_the_samplers_own_bound() {
    let bench = bench("hgx-h200", "").with(|config| config.pace.memory_bytes_max = u64::MAX).start();
    bench.fail("nvmlDeviceGetFieldValues leak 256\n");
    let begin = Instant::now();
    let mut most = 0;
    while begin.elapsed() < Duration::from_secs(4) {
        most = most.max(bench.status().memory_bytes);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(most > 200 << 20 && most < 400 << 20, "{most}");
}

#[test]
fn a_flood_of_output_is_counted_and_costs_no_reading() {
    let mut bench =
        bench("pcie-only", "").with(|config| config.interval = Duration::from_millis(100)).start();
    bench.next_batch();
    bench.fail("nvmlDeviceGetFieldValues print 1\n");
    let batch = bench.until(|batch| batch.events.iter().any(|event| event.kind == "source.output"));
    assert!(batch.events[0].text.contains("bytes were dropped"), "{:?}", batch.events);
    let polls = bench.status().polls;
    let status =
        bench.until_status(|status| status.polls > polls + 10 && status.dropped_output_bytes > 20 << 20);
    assert_eq!((status.state, status.starts), (State::Running, 1));
    assert!(status.memory_bytes < 100 << 20);
}

#[test]
fn the_last_words_of_a_sampler_are_in_the_reason() {
    let bench = Bench::text("gpu 0 uuid=GPU-0\nlink 0 0 sped=1\n").start();
    let status = bench.until_status(|status| status.ends.contains_key(&End::Crashed));
    let detail = status.detail.unwrap();
    assert!(detail.contains("status 70") && detail.contains("a link has no 'sped'"), "{detail}");
}

#[test]
fn links_that_are_refused_stay_and_are_counted() {
    // The state has a call of its own alone.
    let mut bench = bench("hgx-h200", "gpu 0-7 state_field=no\n")
        .with(|config| config.survey_interval = Duration::from_millis(100))
        .start();
    let first = bench.next_batch();
    assert_eq!(first.gpu_link_infos.len(), 144);
    bench.fail("nvmlDeviceGetNvLinkState code 4\n");
    let refused = bench.until(|batch| {
        let counted = batch.coverage.iter().any(|round| round.reasons.get("no_permission") >= Some(&288));
        counted && batch.gpus.is_empty()
    });
    // Bytes go on, of all links; states are absent; and the survey's refusal is counted beside the poll's.
    assert_eq!(refused.gpu_links.iter().map(|gpu| gpu.links.len()).sum::<usize>(), 144);
    assert!(
        bench.status().refusals.iter().all(|one| one.call == "nvmlDeviceGetNvLinkState" && one.values == 18)
    );
    bench.fail("");
    let again = bench.until(|batch| batch.coverage.iter().any(|round| round.failed == 0));
    assert!(again.events.is_empty(), "{:?}", again.events);
}

#[test]
fn links_that_were_never_known_are_not_said_to_be_none() {
    let mut open = bench("hgx-h200", "gpu 0-7 state_field=no\n");
    open.fail("nvmlDeviceGetNvLinkState code 999\n");
    open = open.start();
    let first = open.next_batch();
    assert!(first.gpu_link_infos.is_empty());
    assert_eq!(first.coverage[0].reasons.get("unknown"), Some(&8));
    let refusals = open.status().refusals;
    assert_eq!(refusals.len(), 8);
    assert!(refusals[0].text().contains("NVML error 999 (unknown)"), "{}", refusals[0].text());
    // Where the field of that name answers, it is read in the place of the call.
    let by_field = bench("hgx-h200", "");
    by_field.fail("nvmlDeviceGetNvLinkState code 999\n");
    let mut by_field = by_field.start();
    assert_eq!(by_field.next_batch().gpu_link_infos.len(), 144);
}

#[test]
fn a_source_whose_every_counter_fails_is_down_though_links_have_a_state() {
    let mut bench = bench("hgx-h200", "gpu 0-7 state_field=no\n").start();
    bench.next_batch();
    bench.fail("nvmlDeviceGetFieldValues code 15\n");
    let down = bench.until_status(|status| status.state == State::BackingOff);
    assert!(down.detail.is_some());
    let batch = bench.until(|batch| batch.events.iter().any(|event| event.kind == "source.unreadable"));
    assert_eq!(events(&[batch], "source.unreadable").len(), 1);
    bench.until_status(|status| status.fruitless >= 2 && status.state != State::Running);
    bench.fail("");
    bench.until_status(|status| status.state == State::Running && status.fruitless == 0);
}

#[test]
fn a_second_gpu_of_the_same_uuid_is_refused_with_an_event() {
    let mut bench = Bench::scenario("pcie-only", "gpu 0 uuid=GPU-same\ngpu 2 uuid=GPU-same\n")
        .with(|config| config.survey_interval = Duration::from_millis(50))
        .start();
    let mut batches = vec![bench.next_batch()];
    assert_eq!(batches[0].gpus.len(), 3);
    batches.extend((0..10).map(|_| bench.next_batch()));
    let duplicates = events(&batches, "gpu.duplicate_uuid");
    assert_eq!(duplicates.len(), 1);
    assert!(duplicates[0].text.starts_with("GPU 2 reports the UUID of a GPU before it"), "{duplicates:?}");
    assert_eq!(events(&batches, "counter.cleared").len(), 0);
}

#[test]
fn each_function_with_each_code_keeps_its_words_and_the_plan() {
    let more = "gpu 0-7 state_field=no gpm=yes\npart 0 0 uuid=MIG-0 name=1g gi=7 ci=0\n\
                fabric 0-7 5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e 3\n";
    let bench = bench("hgx-h200", more);
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture", "--exact", "faults::check_each_function_with_each_code"])
        .env(SCENARIO_VARIABLE, bench.scenario_path())
        .env(FAULTS_VARIABLE, bench.folder().join("faults"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// The functions that Throughline calls but for the ends of things, whose codes change nothing.
const FUNCTIONS: [&str; 29] = [
    "nvmlInit_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMinorNumber",
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
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
    "nvmlEventSetCreate",
    "nvmlDeviceRegisterEvents",
];

#[test]
#[ignore = "run by each_function_with_each_code_keeps_its_words_and_the_plan, with the double's variables"]
fn check_each_function_with_each_code() {
    let faults = PathBuf::from(std::env::var_os(FAULTS_VARIABLE).unwrap());
    let path = double().join("faults/libnvidia-ml.so.1");
    for function in FUNCTIONS {
        for code in (1..=30).filter(|code| *code != 5).chain([999]) {
            fail_once(&path, &faults, function, Code(code));
        }
    }
}

/// Reads well, then with one function failing: from the start, and after a good survey.
fn fail_once(path: &Path, faults: &Path, function: &str, code: Code) {
    let options = NvmlOptions { unfold_pcie: false, gpm: true };
    let what = format!("{function} answering {code}");
    replace(faults, "");
    let library = Library::open(path).unwrap();
    let session = library.start().unwrap();
    let mut reader = NvmlReader::new(&session, options);
    let good = reader.survey().unwrap();
    let mut poll = Poll::default();
    reader.poll(&mut poll);
    replace(faults, &format!("{function} code {}\n", code.0));
    if function == "nvmlInit_v2" {
        assert_eq!(library.start().err(), Some(code));
        return;
    }
    if let Err((kind, text)) = NvmlReader::new(&session, options).survey() {
        check_end(&what, function, code, kind, &text);
    }
    // What is lost, not listed or not in the driver any more ends; any other refusal leaves it open.
    let again = match reader.survey() {
        Err((kind, text)) => {
            let ends = [1, 2, 9, 15, 28];
            assert!(ends.contains(&code.0), "{what}: {text}");
            check_end(&what, function, code, kind, &text);
            return;
        }
        Ok(found) => found,
    };
    check_survey(&what, function, code, &good, &again);
    if function.starts_with("nvmlGpm") {
        std::thread::sleep(Duration::from_millis(55));
    }
    reader.poll(&mut poll);
    let processes = reader.processes();
    let codes = |gpu: usize| poll.gpus[gpu].pcie_fields.iter().map(|value| value.code).collect::<Vec<_>>();
    match function {
        "nvmlDeviceGetFieldValues" => {
            let links = poll.gpus.iter().flat_map(|gpu| &gpu.link_fields);
            assert!(links.filter(|value| value.field != 165).all(|value| value.code == code.0), "{what}");
            assert_eq!(codes(3), [code.0; 2], "{what}");
        }
        "nvmlGpmSampleGet" | "nvmlGpmMetricsGet" => assert_eq!(codes(3), [code.0; 2], "{what}"),
        "nvmlDeviceGetComputeRunningProcesses_v3" => {
            assert!(processes.gpus.iter().all(|gpu| gpu.code == code.0), "{what}");
        }
        _ => {}
    }
}

/// What a start without a GPU says.
fn check_end(what: &str, function: &str, code: Code, kind: ProblemKind, text: &str) {
    assert!(text.contains(code.reason()) && text.contains(code.remedy()), "{what}: {text}");
    if function == "nvmlDeviceGetCount_v2" {
        assert_eq!(kind, ProblemKind::DriverUnavailable, "{what}: {text}");
        return;
    }
    assert!(["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"].contains(&function), "{what}: {text}");
    assert!(text.contains("none of 8 GPUs") && text.contains(function), "{what}: {text}");
    assert_eq!(kind == ProblemKind::NotPermitted, code == Code::NO_PERMISSION, "{what}");
    assert_eq!(text.contains("left the bus"), code == Code::GPU_IS_LOST, "{what}: {text}");
}

/// A refusal leaves what is known, and is reported; an answer that there is none takes it away.
fn check_survey(what: &str, function: &str, code: Code, good: &Survey, again: &Survey) {
    let is_asked = [
        "Count_v2",
        "HandleByIndex",
        "UUID",
        "Name",
        "Pci",
        "Pcie",
        "NvLink",
        "Mig",
        "InstanceId",
        "Fabric",
        "FieldValues",
    ];
    if !is_asked.iter().any(|part| function.contains(part)) {
        return;
    }
    let is_absence = match function {
        // Whether there is a link is known by these two alone.
        "nvmlDeviceGetNvLinkState" => [Code::INVALID_ARGUMENT, Code::NOT_SUPPORTED].contains(&code),
        // That a GPU is there was known.
        "nvmlDeviceGetCount_v2" | "nvmlDeviceGetHandleByIndex_v2" | "nvmlDeviceGetUUID" => false,
        // That an index is invalid ends a list.
        _ if ["NvLink", "MigDeviceHandle", "InstanceId"].iter().any(|part| function.contains(part)) => {
            code.is_absence() || code == Code::INVALID_ARGUMENT
        }
        _ => code.is_absence(),
    };
    if is_absence {
        assert!(again.refusals.is_empty(), "{what}: {:?}", again.refusals);
        return;
    }
    let known = |survey: &Survey| {
        let gpus = survey.gpus.iter();
        let known =
            |gpu: &GpuSurvey| GpuSurvey { gpm: None, xids: None, has_unread_parts: false, ..gpu.clone() };
        gpus.map(known).collect::<Vec<_>>()
    };
    assert_eq!(known(again), known(good), "{what}");
    let refusals: Vec<String> = again.refusals.iter().map(throughline_gpu::frame::Refusal::text).collect();
    assert!(
        again.refusals.iter().all(|one| one.code == code.0) && !refusals.is_empty(),
        "{what}: {refusals:?}"
    );
    assert!(refusals.iter().all(|text| text.contains(code.remedy())), "{what}: {refusals:?}");
}
