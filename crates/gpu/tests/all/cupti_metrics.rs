//! Metrics that a site chooses, from the sampler's arguments to records: which are sampled, and what is said of the others.

use crate::bench::cupti::Cupti;
use crate::bench::{Bench, PATIENCE};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use throughline_gpu::cupti::METRIC_REFUSED;
use throughline_gpu::cupti::wanted::MetricGroup;
use throughline_sample::wire::{Batch, GpuMetricValue, GpuMetricsSample};

/// A GH100, and an AD102 without NVLink.
const NODE: &str = "gpu 0 uuid=GPU-0 chip=GH100\ngpu 1 uuid=GPU-1 chip=AD102\nlink 0 0 version=4 speed_mbps=25000\n\
                    traffic 0 0 tx_step=1000 rx_step=500\npcie 0-1 tx_step=70 rx_step=30\n";

/// Ten that one pass of the real GH100 gives beside bytes, by the real library.
pub const TEN: [&str; 10] = [
    "sm__cycles_active.avg",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.sum",
    "gpc__cycles_elapsed.max",
    "gr__cycles_active.min",
    "sys__cycles_elapsed.max",
];

fn group(metrics: &[&str], milliseconds: u64) -> MetricGroup {
    let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
    MetricGroup { metrics, interval: Duration::from_millis(milliseconds) }
}

fn start(more: &str, groups: &[MetricGroup]) -> Cupti {
    Cupti::start(Bench::text(&format!("{NODE}{more}")), |config| config.metrics = groups.to_vec())
}

fn of<'b>(batch: &'b Batch, uuid: &str) -> Option<&'b GpuMetricsSample> {
    batch.gpu_metrics.iter().find(|sample| sample.gpu_uuid.starts_with(uuid))
}

fn values(sample: &GpuMetricsSample) -> BTreeMap<&str, &GpuMetricValue> {
    sample.metrics.iter().map(|metric| (metric.name.as_str(), metric)).collect()
}

/// Batches until the one that is wanted.
fn until(cupti: &mut Cupti, wanted: impl Fn(&Batch) -> bool) -> Batch {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let batch = cupti.next();
        if wanted(&batch) {
            return batch;
        }
        assert!(Instant::now() < deadline, "{batch:?} {:?}", cupti.source.status());
    }
}

#[test]
fn ten_metrics_are_sampled_in_the_pass_of_the_bytes_and_become_sums_means_and_extremes() {
    let values_of = "metric 0 sm__cycles_active.avg 100 300\nmetric 0 dram__bytes_read.sum 7\n\
                     metric 0 gpc__cycles_elapsed.max 5 9 7\nmetric 0 gr__cycles_active.min 5 9 7\n";
    let mut cupti = start(values_of, &[group(&TEN, 50)]);
    let full = |batch: &Batch| {
        let read =
            of(batch, "GPU-0").map(|sample| values(sample).get("dram__bytes_read.sum").and_then(|m| m.sum));
        read.flatten() > Some(7 * 40)
    };
    let batch = until(&mut cupti, full);
    let sample = of(&batch, "GPU-0").unwrap();
    let read = values(sample);
    assert_eq!(read.len(), 10, "{read:?}");
    let bytes = batch.gpu_pm.iter().find(|pm| pm.gpu_uuid.starts_with("GPU-0")).unwrap();
    let samples = bytes.values.as_ref().unwrap().get(&throughline_sample::catalogue::PM_SAMPLES).unwrap();
    assert_eq!(read["dram__bytes_read.sum"].sum, Some(7 * samples), "exact for each sample");
    assert_eq!(read["dram__bytes_read.sum"].value, None);
    let mean = read["sm__cycles_active.avg"].value.unwrap();
    assert!(mean > 150.0 && mean < 250.0, "{mean}");
    let extremes = ["gpc__cycles_elapsed.max", "gr__cycles_active.min"].map(|name| read[name].value);
    assert_eq!(extremes, [Some(9.0), Some(5.0)]);
    // 0 was read: that is no absence.
    assert_eq!(read["lts__t_sectors.sum"].sum, Some(0));
    assert_eq!((sample.epoch, sample.source.as_str()), (bytes.epoch, "cupti"));
    assert_eq!(of(&batch, "GPU-1").unwrap().metrics.len(), 10, "an AD102 has them as well");
    assert_eq!(cupti.source.status().detail, None);
}

#[test]
fn five_wrong_ones_are_named_with_the_nearest_and_cost_nothing_else() {
    let wrong = [
        ("dram__read_bytes.sum", "dram__bytes_read.sum"),
        ("sm__cycle_active.avg", "sm__cycles_active.avg"),
        ("sm__cycles_active.average", "sm__cycles_active.avg"),
        ("gpc_cycles_elapsed.max", "gpc__cycles_elapsed.max"),
        ("lts__t_sector_hit_rate.avg", "lts__t_sector_hit_rate."),
    ];
    let mut all: Vec<&str> = TEN.into();
    all.extend(wrong.iter().map(|(name, _)| *name));
    let mut cupti = start("", &[group(&all, 50)]);
    let batch = until(&mut cupti, |batch| of(batch, "GPU-0").is_some() && of(batch, "GPU-1").is_some());
    assert_eq!(of(&batch, "GPU-0").unwrap().metrics.len(), 10);
    assert_eq!(batch.gpu_pm.len(), 2, "bytes go on");
    let events = cupti.events();
    let refused: Vec<_> = events.iter().filter(|event| event.kind == METRIC_REFUSED).collect();
    assert_eq!(refused.len(), 10, "each once a chip: {refused:?}");
    for (name, nearest) in wrong {
        let text = |chip: &str| format!("chip {chip} has no metric {name}; the nearest are {nearest}");
        for chip in ["GH100", "AD102"] {
            assert!(
                refused.iter().any(|event| event.text.starts_with(&text(chip))),
                "{name} {chip}: {refused:#?}"
            );
        }
    }
    let detail = cupti.until(|status| status.detail.is_some()).detail.unwrap();
    assert!(detail.contains("not sampled: chip") && detail.contains("more, see"), "{detail}");
}

#[test]
fn what_needs_several_passes_is_refused_with_their_number_and_what_fits() {
    let first = ["sm__cycles_active.avg", "sm__inst_executed.sum", "sm__inst_executed_pipe_fma.sum"];
    let second = ["l1tex__t_sectors.sum", "lts__t_sectors.sum", "sm__inst_executed_pipe_tensor.sum"];
    let mut cupti = start("", &[group(&first, 50), group(&second, 100)]);
    let batch = until(&mut cupti, |batch| of(batch, "GPU-0").is_some_and(|sample| sample.metrics.len() == 4));
    let sampled: Vec<&str> = values(of(&batch, "GPU-0").unwrap()).into_keys().collect();
    let fitting = [
        "lts__t_sectors.sum",
        "sm__cycles_active.avg",
        "sm__inst_executed.sum",
        "sm__inst_executed_pipe_fma.sum",
    ];
    assert_eq!(sampled, fitting);
    let texts: Vec<String> = cupti.events().into_iter().map(|event| event.text).collect();
    let alone = "sm__inst_executed_pipe_tensor.sum alone needs 2 passes on chip GH100";
    assert!(texts.iter().any(|text| text.starts_with(alone)), "{texts:?}");
    let together = "l1tex__t_sectors.sum needs another pass: chip GH100 would take 2 passes for group 2 with what is sampled \
                    before it; one pass has room for lts__t_sectors.sum; nothing is replayed";
    assert!(texts.iter().any(|text| text == together), "{texts:?}");
}

#[test]
fn each_group_is_reported_at_its_interval() {
    let mut cupti = start(
        "metric 0 lts__t_sectors.sum 3\n",
        &[group(&["sm__cycles_active.avg"], 50), group(&["lts__t_sectors.sum"], 150)],
    );
    until(&mut cupti, |batch| of(batch, "GPU-0").is_some_and(|sample| sample.metrics.len() == 2));
    let counts: Vec<usize> = (0..6).map(|_| of(&cupti.next(), "GPU-0").unwrap().metrics.len()).collect();
    assert_eq!(counts, [1, 1, 2, 1, 1, 2]);
}

#[test]
fn a_ratio_without_a_number_is_absent_and_counted_and_the_others_go_on() {
    let nan =
        "metric 0 sm__warps_active.avg.pct_of_peak_sustained_active nan\nmetric 0 dram__bytes_read.sum 7\n";
    let mut cupti = start(nan, &[group(&TEN, 50)]);
    let sum = |batch: &Batch| values(of(batch, "GPU-0")?).get("dram__bytes_read.sum")?.sum;
    let batch = until(&mut cupti, |batch| sum(batch).is_some());
    let ratio = values(of(&batch, "GPU-0").unwrap())["sm__warps_active.avg.pct_of_peak_sustained_active"];
    assert_eq!((ratio.sum, ratio.value), (None, None));
    assert_eq!(batch.coverage[0].failed, 0, "its GPU was read");
    assert!(batch.coverage[0].reasons.get("not_a_number") > Some(&0), "{:?}", batch.coverage[0].reasons);
}

#[test]
fn a_node_of_volta_reads_links_and_says_that_the_metrics_need_a_later_chip() {
    let volta = "gpu 0 uuid=GPU-0 chip=GV100\nlink 0 0-1 version=2 speed_mbps=25000\n";
    let mut cupti = Cupti::start(Bench::text(volta), |config| {
        config.metrics = vec![group(&["sm__cycles_active.avg"], 50)]
    });
    let batch = cupti.next();
    assert_eq!((batch.gpu_links.len(), batch.gpu_metrics.len()), (1, 0));
    let events = cupti.events();
    let text = "sm__cycles_active.avg: chip GV100 has values of links alone: CUPTI's Metric API";
    assert!(events.iter().any(|event| event.kind == METRIC_REFUSED && event.text == text), "{events:?}");
}
