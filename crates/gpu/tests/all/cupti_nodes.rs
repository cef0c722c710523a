//! Every node that has a scenario, read by CUPTI: exact sums of each link (Metric API) or of each GPU (PM Sampling), and each
//! error of a GPU in its own reason.

use crate::bench::Bench;
use crate::bench::cupti::{Cupti, value};
use std::fmt::Write;
use std::time::Duration;
use throughline_gpu::State;
use throughline_sample::catalogue::{self, Metric};
use throughline_sample::increase;
use throughline_sample::wire::Batch;

/// What a link of a GPU sends in each reading or sample: no two have the same, all are whole units of 32 bytes.
fn step(gpu: usize, link: u32) -> u64 {
    32 * (1 + (gpu as u64) * 64 + u64::from(link))
}

/// A node whose links all carry different traffic, with one kind of chip.
fn node(scenario: &str, chip: &str, gpus: usize, links: u32) -> Cupti {
    let mut more = format!("gpu 0-{} chip={chip}\npcie * tx_step=700 rx_step=300\n", gpus - 1);
    for (gpu, link) in (0..gpus).flat_map(|gpu| (0..links).map(move |link| (gpu, link))) {
        let step = step(gpu, link);
        writeln!(more, "traffic {gpu} {link} tx_step={step} rx_step={}", step * 3).unwrap();
    }
    Cupti::start(Bench::scenario(scenario, &more), |_| {})
}

#[test]
fn nodes_of_volta_are_exact_link_by_link() {
    for (scenario, gpus) in [("power9-v100", 4), ("dgx1-v100", 8), ("dgx2-v100", 16)] {
        let mut cupti = node(scenario, "GV100", gpus, 6);
        let (before, after) = (cupti.next(), cupti.next());
        assert_eq!((after.gpu_links.len(), after.gpu_pm.len()), (gpus, 0), "{scenario}");
        for (gpu, (old, new)) in before.gpu_links.iter().zip(&after.gpu_links).enumerate() {
            assert_eq!(
                (old.epoch, new.links.len(), new.source.as_str()),
                (new.epoch, 6, "cupti"),
                "{scenario}"
            );
            assert_eq!(old.gpu_uuid, new.gpu_uuid);
            for (old, new) in old.links.iter().zip(&new.links) {
                let read = |values: &Option<throughline_sample::wire::Values>, metric: &Metric| {
                    values.as_ref().unwrap().get(metric).unwrap()
                };
                let grown = |metric: &Metric| increase(read(&old.values, metric), read(&new.values, metric));
                let expected = step(gpu, new.link);
                assert_eq!(
                    grown(&catalogue::NVLINK_TRANSMIT_BYTES),
                    expected,
                    "{scenario} {gpu} {}",
                    new.link
                );
                assert_eq!(
                    grown(&catalogue::NVLINK_RECEIVE_BYTES),
                    expected * 3,
                    "{scenario} {gpu} {}",
                    new.link
                );
            }
        }
        let status = cupti.source.status();
        assert_eq!((status.state, status.absent.len()), (State::Running, 0), "{scenario}");
    }
}

#[test]
fn start_up_query_and_exit_are_timed_as_in_the_paper() {
    let mut cupti = node("power9-v100", "GV100", 4, 6);
    cupti.next();
    cupti.source.pause(Duration::from_secs(3600));
    let status = cupti.until(|status| status.end_seconds.is_some());
    assert!(status.start_seconds.is_some() && status.last_poll_seconds > 0.0);
}

#[test]
fn nodes_of_later_chips_are_exact_gpu_by_gpu() {
    for (scenario, chip, gpus, links) in
        [("hgx-h200", "GH100", 8, 18), ("gb200-nvl", "GB100", 4, 18), ("pcie-only", "AD102", 4, 0)]
    {
        let mut cupti = node(scenario, chip, gpus, links);
        let sampled = |batch: &Batch| {
            batch.gpu_pm.iter().all(|sample| value(sample, &catalogue::PM_SAMPLES) > Some(20))
        };
        let batch = loop {
            let batch = cupti.next();
            if sampled(&batch) {
                break batch;
            }
        };
        assert_eq!((batch.gpu_pm.len(), batch.gpu_links.len()), (gpus, 0), "{scenario}");
        assert_eq!((batch.coverage[0].expected, batch.coverage[0].failed), (gpus as u64, 0), "{scenario}");
        for (gpu, sample) in batch.gpu_pm.iter().enumerate() {
            let samples = value(sample, &catalogue::PM_SAMPLES).unwrap();
            let all: u64 = (0..links).map(|link| step(gpu, link)).sum();
            // A GPU without NVLink has no such number: absent, and not 0.
            let nvlink = |bytes: u64| (links > 0).then_some(bytes);
            for (metric, expected) in [
                (&catalogue::PM_NVLINK_TRANSMIT_BYTES, nvlink(all * samples)),
                (&catalogue::PM_NVLINK_RECEIVE_BYTES, nvlink(3 * all * samples)),
                (&catalogue::PM_PCIE_READ_BYTES, Some(300 * samples)),
                (&catalogue::PM_PCIE_WRITE_BYTES, Some(700 * samples)),
                // A sample is a millisecond.
                (&catalogue::PM_NVLINK_TRANSMIT_PEAK, nvlink(all * 1000)),
                (&catalogue::PM_PCIE_READ_PEAK, Some(300_000)),
            ] {
                assert_eq!(value(sample, metric), expected, "{scenario} {gpu} {}", metric.name);
            }
        }
    }
}

#[test]
fn each_error_of_one_gpu_has_its_reason_and_costs_no_other_gpu_a_sample() {
    for (code, reason, kind) in [
        (26, "hardware_busy", "gpu.busy"),
        (27, "not_supported", "gpu.not_sampled"),
        (35, "insufficient_privileges", "gpu.not_sampled"),
        (999, "unknown", "gpu.not_sampled"),
    ] {
        // Refused from the start (field 9001), and while it was sampled (9002).
        for field in [9001, 9002] {
            let mut cupti =
                Cupti::start(Bench::scenario("hgx-h200", &format!("na 3 * {field} {code}\n")), |_| {});
            let batch = cupti.next();
            let failed = &batch.coverage[0];
            assert_eq!((failed.expected, failed.read, failed.failed), (8, 7, 1), "{code}");
            assert_eq!(failed.reasons, [(reason.to_owned(), 1)].into(), "{code}");
            assert_eq!(batch.gpu_pm.len(), 7, "absent, and not 0");
            let event = batch.events.iter().find(|event| event.kind == kind).unwrap();
            assert!(
                event.text.starts_with("GPU 3 (") && event.text.contains(&code.to_string()),
                "{}",
                event.text
            );
            assert!(batch.gpu_pm.iter().all(|sample| sample.gpu_uuid != event.gpu_uuid));
            let status = cupti.until(|status| status.polls > 2);
            assert_eq!(
                (status.state, status.gpus, status.unreadable_gpus, status.starts),
                (State::Running, 8, 1, 1),
                "{code}"
            );
            assert!(status.absent[reason] > 0, "{status:?}");
        }
    }
}
