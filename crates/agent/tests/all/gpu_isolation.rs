//! The real agent with all GPU libraries at once; one of them crashes again and again or never returns from a call:
//! no other one's sample is lost. The doubles add a fixed step at each reading, so what is missing shows in the counters,
//! whatever time it took.

use crate::bench::{Agent, Node, PATIENCE};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use throughline_sample::catalogue::{self, Metric};
use throughline_sample::increase;
use throughline_sample::wire::{Batch, Values};

/// Bytes that the doubles add to each link at each reading.
const SENT: u64 = 1_048_576;
const RECEIVED: u64 = 3_145_728;
/// GPUs of the scenario, and links of each.
const GPUS: usize = 8;
const LINKS: u32 = 7;
/// The double at fault is read so often before, looks at what there is among them.
const READINGS_BEFORE: u32 = 9;
/// Readings of every other source that must follow at least.
const READINGS_AFTER: usize = 12;
/// Readings that are waited for: of those that are counted then, a source's channel may have held 32 when the fault was
/// observed, and a few were on their way.
const READINGS_WAITED: f64 = 48.0;

/// Sources whose doubles count in steps; DCGM's gives rates of the time between, and CUPTI's samples by a clock of its own.
const BY_STEPS: [&str; 3] = ["nvml", "amd_smi", "level_zero"];
const ALL: [&str; 6] = ["nvml", "amd_smi", "level_zero", "dcgm", "cupti", "sysfs"];

fn node(more: &str) -> Node {
    Node::bare()
        .with("MPI__ENABLED", "false")
        .with_scenario("mi300x", &format!("traffic * * tx_step={SENT} rx_step={RECEIVED}\n{more}"))
        .with_every_gpu_library("0.05")
        .with("NVML__SURVEY_INTERVAL_SECONDS", "3600")
        .with_adapter("mlx5_0", throughline_sample::Guid(7))
}

/// Times at which a source delivered, in their order, one for each reading: those of its first GPU.
fn times(batches: &[Batch], source: &str) -> BTreeSet<i64> {
    let links =
        batches.iter().flat_map(|batch| &batch.gpu_links).map(|one| (&one.source, &one.gpu_uuid, one.time));
    let sums =
        batches.iter().flat_map(|batch| &batch.gpu_pm).map(|one| (&one.source, &one.gpu_uuid, one.time));
    let of_gpus: Vec<_> = links.chain(sums).filter(|(of, ..)| *of == source).collect();
    let first = of_gpus.iter().map(|(_, uuid, _)| *uuid).min();
    let gpus = of_gpus.iter().filter(|(_, uuid, _)| Some(*uuid) == first).map(|(.., time)| *time);
    let ports =
        batches.iter().flat_map(|batch| &batch.host_ports).filter(|_| source == "sysfs").map(|one| one.time);
    gpus.chain(ports).collect()
}

/// Readings of each source so far; one of GPUs has a record of each, and one of what was read.
fn readings(agent: &Agent) -> BTreeMap<&'static str, f64> {
    let page = agent.metrics();
    let of = |source: &str| {
        let name = format!("throughline_records_total{{source=\"{source}\"}} ");
        let number = page.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
        number.parse::<f64>().unwrap() / if source == "sysfs" { 1.0 } else { (GPUS + 1) as f64 }
    };
    ALL.into_iter().map(|source| (source, of(source))).collect()
}

/// Waits until the one at fault has ended, and every other source has given enough readings since.
fn wait_for_readings_after(agent: &Agent, at_fault: &str, fault: &str) {
    let begin = Instant::now();
    let ended = format!("throughline_source_info{{source=\"{at_fault}\",state=\"backing_off\"}} 1");
    // A library that hangs says nothing: it has begun to when no reading follows any more.
    let mut is_over = fault == "hang";
    let mut since: BTreeMap<&'static str, f64> = BTreeMap::new();
    loop {
        let now = readings(agent);
        is_over |= agent.metrics().contains(&ended);
        let has_more = fault == "hang" && since.get(at_fault) != now.get(at_fault);
        if !is_over || since.is_empty() || has_more {
            since.clone_from(&now);
        }
        let others = || ALL.into_iter().filter(|source| *source != at_fault);
        if is_over
            && now[at_fault] > 0.0
            && others().all(|source| now[source] >= since[source] + READINGS_WAITED)
        {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{at_fault} {fault}: {now:?}\n{}", agent.metrics());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Each link of each GPU grew by one step from one record to the next, in one epoch: no reading is missing.
fn no_step_is_missing(batches: &[Batch], source: &str) {
    let mut last: BTreeMap<(String, u32), (i64, i64, u64, u64)> = BTreeMap::new();
    let read = |values: &Option<Values>, metric: &Metric| values.as_ref().unwrap().get(metric).unwrap();
    let mut samples: Vec<_> =
        batches.iter().flat_map(|batch| &batch.gpu_links).filter(|sample| sample.source == source).collect();
    samples.sort_by_key(|sample| sample.time);
    for sample in &samples {
        assert_eq!(sample.links.len(), LINKS as usize);
        for link in &sample.links {
            let sent = read(&link.values, &catalogue::NVLINK_TRANSMIT_BYTES);
            let received = read(&link.values, &catalogue::NVLINK_RECEIVE_BYTES);
            let key = (sample.gpu_uuid.clone(), link.link);
            let before = last.insert(key, (sample.epoch, sample.time, sent, received));
            let Some((epoch, time, sent_before, received_before)) = before else { continue };
            assert_eq!(epoch, sample.epoch, "{source} began anew");
            assert!(time < sample.time);
            let grown = (increase(sent_before, sent), increase(received_before, received));
            assert_eq!(grown, (SENT, RECEIVED), "{source}: link {} of {}", link.link, sample.gpu_uuid);
        }
    }
    assert_eq!(last.len(), GPUS * LINKS as usize);
}

/// The sums hold all samples that the GPUs took, in one epoch.
fn no_sum_is_missing(batches: &[Batch]) {
    let samples: Vec<_> = batches.iter().flat_map(|batch| &batch.gpu_pm).collect();
    assert_eq!(
        samples.iter().map(|sample| (&sample.gpu_uuid, sample.epoch)).collect::<BTreeSet<_>>().len(),
        GPUS
    );
    for sample in samples {
        let value = |metric| sample.values.as_ref().unwrap().get(metric).unwrap();
        let taken = value(&catalogue::PM_SAMPLES);
        assert_eq!(value(&catalogue::PM_NVLINK_TRANSMIT_BYTES), taken * u64::from(LINKS) * SENT);
        assert_eq!(value(&catalogue::PM_NVLINK_RECEIVE_BYTES), taken * u64::from(LINKS) * RECEIVED);
        assert_eq!(value(&catalogue::PM_OVERFLOWS), 0);
    }
}

/// One library is at fault after some readings; all others deliver on, and nothing of theirs is missing.
fn costs_nobody_else_a_sample(at_fault: &str, fault: &str) {
    let node = node(&format!("{fault} {READINGS_BEFORE} {at_fault}\n"));
    let mut agent = node.run();
    wait_for_readings_after(&agent, at_fault, fault);
    let page = agent.metrics();
    for source in ALL.into_iter().filter(|source| *source != at_fault) {
        let discarded = ("throughline_records_discarded_total", ",reason=\"queue_full\"");
        for (name, reason) in [discarded, ("throughline_failed_reads_total", "")] {
            let line = format!("{name}{{source=\"{source}\"{reason}}} 0.0");
            assert!(page.lines().any(|found| found == line), "{at_fault} {fault}: {line} is not in\n{page}");
        }
        let running = format!("throughline_source_info{{source=\"{source}\",state=\"running\"}} 1");
        // An adapter's port has a word of its own for it.
        assert!(
            source == "sysfs" || page.contains(&running),
            "{at_fault} {fault}: {running} is not in\n{page}"
        );
    }
    assert!(agent.stop().0.success());
    let batches = node.spooled();
    let mut crashes = batches.iter().flat_map(|batch| &batch.events);
    let crash = crashes
        .find(|event| event.source == at_fault && event.kind == "source.crashed")
        .map(|event| event.time);
    assert_eq!(crash.is_some(), fault == "crash", "{at_fault} {fault}");
    let ended = crash.unwrap_or_else(|| *times(&batches, at_fault).last().unwrap());
    for source in ALL.into_iter().filter(|source| *source != at_fault) {
        let after = times(&batches, source).range(ended..).count();
        assert!(after >= READINGS_AFTER, "{at_fault} {fault}: {after} readings of {source} after it");
        let reported = batches.iter().flat_map(|batch| &batch.events).filter(|event| event.source == source);
        let reported: Vec<_> =
            reported.filter(|event| !["source.up", "gpu.sampled"].contains(&event.kind.as_str())).collect();
        assert!(reported.is_empty(), "{at_fault} {fault}: {reported:?}");
    }
    BY_STEPS
        .into_iter()
        .filter(|source| *source != at_fault)
        .for_each(|source| no_step_is_missing(&batches, source));
    if at_fault != "cupti" {
        no_sum_is_missing(&batches);
    }
    if at_fault != "dcgm" {
        let samples =
            batches.iter().flat_map(|batch| &batch.gpu_links).filter(|sample| sample.source == "dcgm");
        let epochs: BTreeSet<_> = samples.map(|sample| (&sample.gpu_uuid, sample.epoch)).collect();
        assert_eq!(epochs.len(), GPUS, "DCGM's sums go on");
    }
}

#[test]
fn nvml_at_fault() {
    costs_nobody_else_a_sample("nvml", "crash");
    costs_nobody_else_a_sample("nvml", "hang");
}

#[test]
fn cupti_at_fault() {
    costs_nobody_else_a_sample("cupti", "crash");
    costs_nobody_else_a_sample("cupti", "hang");
}

#[test]
fn dcgm_at_fault() {
    costs_nobody_else_a_sample("dcgm", "crash");
    costs_nobody_else_a_sample("dcgm", "hang");
}

#[test]
fn amd_smi_at_fault() {
    costs_nobody_else_a_sample("amd_smi", "crash");
    costs_nobody_else_a_sample("amd_smi", "hang");
}

#[test]
fn level_zero_at_fault() {
    costs_nobody_else_a_sample("level_zero", "crash");
    costs_nobody_else_a_sample("level_zero", "hang");
}
