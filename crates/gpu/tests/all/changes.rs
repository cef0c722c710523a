//! GPUs that are repartitioned, exchanged, renumbered and taken out while they are read, and counters that jump: what is sent.

use std::collections::BTreeMap;

use throughline_gpu::State;
use throughline_sample::catalogue::{self, Metric};
use throughline_sample::wire::Batch;

use crate::bench::Bench;

/// Three GPUs with two links each; the first is partitioned.
const NODE: &str = "
gpu 0-2 uuid=GPU-1100 name=NVIDIA_H100 pcie=5x16 gpm=yes
gpu 0 pci=0:10:0.0
gpu 1 pci=0:20:0.0
gpu 2 pci=0:30:0.0
part 0 0 uuid=MIG-a name=MIG_1g.10gb gi=1 ci=0
part 0 1 uuid=MIG-b name=MIG_1g.10gb gi=2 ci=0
link 0-2 0-1 version=6 speed_mbps=26562 state=up remote=switch remote_pci=0:5:0.0
";

fn bench(more: &str) -> Bench {
    let quick = std::time::Duration::from_millis(200);
    let text = format!("{NODE}{more}");
    Bench::text(&text).with(|config| (config.survey_interval, config.unfold_pcie) = (quick, false)).start()
}

/// What a mark says: GPUs and partitions that are there, those that are lost, and how many give no identity.
fn marked(batch: &Batch) -> Option<String> {
    let mark = batch.gpu_survey_marks.first()?;
    let here: Vec<_> = mark.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    assert_eq!(here.len(), batch.gpus.len(), "each has a record");
    assert!(batch.coverage.iter().all(|round| mark.time <= round.time) && mark.source == "nvml");
    Some(format!("{}; lost {}; {}", here.join(" "), mark.lost.join(" "), mark.unidentified))
}

/// The next mark that says so.
fn until_marked(bench: &mut Bench, wanted: &str) -> Batch {
    bench.until(|batch| marked(batch).as_deref() == Some(wanted))
}

#[test]
fn each_survey_has_exactly_what_is_there() {
    let mut bench = bench("");
    let first = until_marked(&mut bench, "GPU-1100 MIG-a MIG-b GPU-1101 GPU-1102; lost ; 0");
    assert_eq!(first.gpu_survey_marks[0].gpus[0].links, [0, 1]);
    let other =
        NODE.replace("part 0 0 uuid=MIG-a", "part 0 0 uuid=MIG-c").replace("part 0 1 uuid=MIG-b", "#");
    bench.rewrite(&other);
    until_marked(&mut bench, "GPU-1100 MIG-c GPU-1101 GPU-1102; lost ; 0");
    let exchanged = format!("{other}gpu 1 uuid=GPU-9999\n");
    bench.rewrite(&exchanged);
    until_marked(&mut bench, "GPU-1100 MIG-c GPU-9999 GPU-1102; lost ; 0");
    // The driver counts those that are left.
    bench.rewrite(&format!("{exchanged}gone 0\n"));
    let fewer = until_marked(&mut bench, "GPU-9999 GPU-1102; lost ; 0");
    assert_eq!(fewer.gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 1]);
    bench.rewrite(&format!("{exchanged}gone 0-2\n"));
    let none = until_marked(&mut bench, "; lost ; 0");
    assert!(none.gpu_links.is_empty() && none.events.is_empty());
    bench.until_status(|status| status.state == State::NoGpu);
    bench.rewrite(&exchanged);
    until_marked(&mut bench, "GPU-1100 MIG-c GPU-9999 GPU-1102; lost ; 0");
}

#[test]
fn a_gpu_that_gives_no_identity_stays_as_lost() {
    let mut bench = bench("");
    until_marked(&mut bench, "GPU-1100 MIG-a MIG-b GPU-1101 GPU-1102; lost ; 0");
    bench.rewrite(&format!("{NODE}lost 1\n"));
    let lost = until_marked(&mut bench, "GPU-1100 MIG-a MIG-b GPU-1102; lost GPU-1101; 0");
    assert_eq!(lost.events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["gpu.lost"]);
    bench.rewrite(NODE);
    until_marked(&mut bench, "GPU-1100 MIG-a MIG-b GPU-1101 GPU-1102; lost ; 0");
    // A sampler that was not there before knows nothing of it.
    let mut later = self::bench("lost 2\n");
    until_marked(&mut later, "GPU-1100 MIG-a MIG-b GPU-1101; lost ; 1");
}

/// Bytes that each GPU sent over a link, and over PCIe, by UUID.
fn counted(batch: &Batch, link: u32) -> BTreeMap<String, (Option<u64>, Option<u64>)> {
    let of =
        |values: &Option<throughline_sample::wire::Values>, metric: &Metric| values.as_ref()?.get(metric);
    let mut found: BTreeMap<String, (Option<u64>, Option<u64>)> = BTreeMap::new();
    for sample in &batch.gpu_links {
        let values = sample.links.iter().find(|values| values.link == link).map(|values| &values.values);
        let bytes = values.and_then(|values| of(values, &catalogue::NVLINK_TRANSMIT_BYTES));
        found.entry(sample.gpu_uuid.clone()).or_default().0 = bytes;
    }
    for sample in &batch.gpu_pcie {
        found.entry(sample.gpu_uuid.clone()).or_default().1 =
            of(&sample.values, &catalogue::PCIE_TRANSMIT_BYTES);
    }
    found
}

#[test]
fn values_stay_with_their_gpu_when_indices_are_swapped_under_it() {
    let traffic = "traffic 0 0 tx=1048576\ntraffic 1 0 tx=2097152\n";
    let mut bench = bench(traffic);
    let sent = |batch: &Batch| {
        counted(batch, 0).into_iter().map(|(uuid, (sent, _))| (uuid, sent)).collect::<Vec<_>>()
    };
    let expected = || [("GPU-1100", 1 << 20), ("GPU-1101", 2 << 20), ("GPU-1102", 0)];
    let expected = || expected().map(|(uuid, sent)| (uuid.to_owned(), Some(sent)));
    assert_eq!(sent(&bench.next_batch()), expected());
    let swapped = format!("{NODE}gpu 0 uuid=GPU-1101\ngpu 1 uuid=GPU-1100\n");
    bench.rewrite(&swapped);
    let index =
        |batch: &Batch, uuid: &str| batch.gpus.iter().find(|gpu| gpu.uuid == uuid).map(|gpu| gpu.index);
    // Readings through handles that were given before, and through new ones.
    let mut readings = Vec::new();
    loop {
        let batch = bench.next_batch();
        readings.extend((!batch.gpu_links.is_empty()).then(|| sent(&batch)));
        if index(&batch, "GPU-1100") == Some(1) {
            break;
        }
    }
    assert!(readings.iter().all(|sent| *sent == expected()), "{readings:?}");
}

/// What a reading of GPU 1's link 1 and PCIe came to, with the events of the reading.
type Outcome = (Option<u64>, Option<u64>, Vec<String>);

/// Readings from a change of the scenario on, until one has a value again after one that had none.
fn readings(
    bench: &mut Bench,
    text: &str,
    is_there: impl Fn(&Outcome) -> bool,
    back: Option<&str>,
) -> Vec<Outcome> {
    let outcome = |batch: &Batch| {
        let (link, pcie) = counted(batch, 1).remove("GPU-1101").unwrap_or_default();
        let kinds = batch.events.iter().map(|event| event.kind.clone());
        (link, pcie, kinds.collect())
    };
    bench.next_batch();
    bench.rewrite(text);
    let mut all = Vec::new();
    while all.last().is_none_or(&is_there) {
        all.push(outcome(&bench.next_batch()));
        assert!(all.len() < 1000);
    }
    if let Some(text) = back {
        all.push(outcome(&bench.next_batch()));
        bench.rewrite(text);
    }
    while all.last().is_none_or(|outcome| !is_there(outcome)) {
        all.push(outcome(&bench.next_batch()));
        assert!(all.len() < 1000);
    }
    all
}

fn events(readings: &[Outcome]) -> Vec<&str> {
    readings.iter().flat_map(|(.., events)| events).map(String::as_str).collect()
}

const MOVING: &str = "traffic 1 1 tx_rate=1000000000\npcie 1 tx_rate=3000000000\n";

#[test]
fn a_counter_that_jumps_ahead_is_absent_once_with_an_event_and_begins_at_zero() {
    let mut bench = bench(MOVING);
    let jumped = readings(
        &mut bench,
        &format!("{NODE}{MOVING}traffic 1 1 tx_jump=4400000000000\n"),
        |outcome| outcome.0.is_some(),
        None,
    );
    assert_eq!(events(&jumped), ["counter.implausible"]);
    assert_eq!(jumped.iter().filter(|outcome| outcome.0.is_none()).count(), 1);
    let after = jumped.last().and_then(|outcome| outcome.0).unwrap();
    assert!(after < 26_562_000_000, "{after}");
    assert_eq!(bench.status().absent["implausible"], 1);
}

#[test]
fn a_value_of_all_ones_is_absent_for_as_long_as_it_lasts_and_the_counter_goes_on() {
    let mut bench = bench(MOVING);
    let base = format!("{NODE}{MOVING}");
    let ones = format!("{base}field 1 1 138 18446744073709551615\n");
    let read = readings(&mut bench, &ones, |outcome| outcome.0.is_some(), Some(&base));
    assert_eq!(events(&read), ["counter.implausible"]);
    let values: Vec<u64> = read.iter().filter_map(|outcome| outcome.0).collect();
    assert!(values.is_sorted() && values.last() < Some(&200_000_000_000), "{values:?}");
    assert!(read.iter().filter(|outcome| outcome.0.is_none()).count() >= 2);
}

#[test]
fn a_rate_of_gpm_that_is_none_or_beyond_the_slot_is_absent_and_pcie_goes_on() {
    for wrong in ["1e300 1e300", "nan 5", "-5 5", "1e6 5", "inf inf"] {
        let mut bench = bench(MOVING);
        let base = format!("{NODE}{MOVING}");
        let first = bench.until(|batch| counted(batch, 1)["GPU-1101"].1 > Some(0));
        assert!(first.gpu_pcie.iter().all(|sample| sample.source == "nvml_gpm"));
        let read = readings(
            &mut bench,
            &format!("{base}gpm 1 {wrong}\n"),
            |outcome| outcome.1.is_some(),
            Some(&base),
        );
        assert_eq!(events(&read), ["counter.implausible"], "{wrong}");
        let values: Vec<u64> = read.iter().filter_map(|outcome| outcome.1).collect();
        assert!(values.is_sorted() && values.last() < Some(&600_000_000_000), "{wrong}: {values:?}");
        let last = *values.last().unwrap();
        let on = bench.until(|batch| counted(batch, 1)["GPU-1101"].1 > Some(last));
        assert!(on.events.is_empty());
    }
}
