//! What is shown of readings, and for how long.

use super::*;
use throughline_daemon::Format;
use throughline_sample::catalogue::{
    NVLINK_TRANSMIT_BYTES, NVLINK_UP, PCIE_RECEIVE_BYTES, PORT_DATA_TRANSMITTED_BYTES,
};
use throughline_sample::wire::{GpuLinksSample, GpuPcieSample, GpuSurveyMark, HostPortSample, LinkValues};

fn values(pairs: &[(&throughline_sample::catalogue::Metric, u64)]) -> Option<Values> {
    let mut values = Values::default();
    pairs.iter().for_each(|(metric, value)| values.put(metric, *value));
    Some(values)
}

fn text(last: &LastValues) -> String {
    let mut page = Page::default();
    last.expose(&mut page);
    page.encode(Format::Text)
}

fn batch() -> Batch {
    let links = vec![
        LinkValues { link: 0, values: values(&[(&NVLINK_TRANSMIT_BYTES, 7), (&NVLINK_UP, 1)]) },
        LinkValues { link: 1, values: values(&[(&NVLINK_UP, 0)]) },
    ];
    let port = HostPortSample {
        device: "mlx5_0".into(),
        port: 1,
        node_guid: 0xab,
        values: values(&[(&PORT_DATA_TRANSMITTED_BYTES, 4096)]),
        ..Default::default()
    };
    let pcie = GpuPcieSample {
        gpu_uuid: "GPU-1".into(),
        values: values(&[(&PCIE_RECEIVE_BYTES, 5)]),
        ..Default::default()
    };
    Batch {
        host_ports: vec![port],
        gpu_links: vec![GpuLinksSample { gpu_uuid: "GPU-1".into(), links, ..Default::default() }],
        gpu_pcie: vec![pcie],
        gpus: vec![GpuInfo {
            uuid: "GPU-1".into(),
            index: 3,
            name: "H\"200".into(),
            fabric_cluster_uuid: "5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e".into(),
            fabric_clique_id: Some(7),
            ..Default::default()
        }],
        ..Batch::default()
    }
}

#[test]
fn names_and_labels_are_the_catalogues() {
    let last = LastValues::default();
    last.observe(&batch());
    let text = text(&last);
    for line in [
        "node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\",port=\"1\"} 4096",
        "throughline_nvlink_transmit_bytes_total{gpu=\"GPU-1\",link=\"0\"} 7",
        "throughline_nvlink_up{gpu=\"GPU-1\",link=\"1\"} 0",
        "throughline_pcie_receive_bytes_total{gpu=\"GPU-1\"} 5",
        "throughline_gpu_info{gpu=\"GPU-1\",index=\"3\",name=\"H\\\"200\",pci=\"\",domain=\"5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e.7\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // A link that could not be read has no bytes: absent is not zero.
    assert!(!text.contains("throughline_nvlink_transmit_bytes_total{gpu=\"GPU-1\",link=\"1\"}"), "{text}");
}

#[test]
fn old_values_are_not_shown() {
    let last = LastValues::default();
    last.observe(&batch());
    let Some(old) = Instant::now().checked_sub(last.stale_after()) else { return };
    last.lock().pcie.values_mut().for_each(|seen| seen.at = old);
    let text = text(&last);
    assert!(!text.contains("throughline_pcie_"), "{text}");
    assert!(text.contains("throughline_nvlink_up"), "{text}");
}

#[test]
fn what_is_lost_or_was_not_read_is_absent_at_once() {
    let round =
        |source: &str| throughline_sample::wire::Coverage { source: source.into(), ..Default::default() };
    let of_nvml = || {
        let mut batch = batch();
        batch.gpu_links.iter_mut().for_each(|sample| sample.source = "nvml".into());
        batch.gpu_pcie.iter_mut().for_each(|sample| sample.source = "nvml_gpm".into());
        batch.gpus.iter_mut().for_each(|gpu| gpu.source = "nvml".into());
        batch
    };
    let event = |kind: &str, source: &str| Event {
        kind: kind.into(),
        source: source.into(),
        gpu_uuid: "GPU-1".into(),
        ..Event::default()
    };
    let with = |event| Batch { events: vec![event], ..Batch::default() };
    let shown = |then: Batch| {
        let last = LastValues::default();
        last.observe(&of_nvml());
        last.observe(&then);
        let text = text(&last);
        ["nvlink_", "pcie_", "gpu_info", "port_data"].map(|part| text.contains(part))
    };
    assert_eq!(shown(Batch::default()), [true; 4]);
    assert_eq!(shown(with(event(GPU_LOST, "nvml"))), [false, false, false, true]);
    for kind in ["source.down", "source.absent"] {
        assert_eq!(shown(with(event(kind, "nvml"))), [false, false, false, true], "{kind}");
        assert_eq!(shown(with(event(kind, "sysfs"))), [true, true, true, false], "{kind}");
    }
    assert_eq!(shown(with(event("source.up", "nvml"))), [true; 4]);
    // A reading that has the GPU's PCIe and no link, and one without any port.
    let half = Batch { coverage: vec![round("nvml")], gpu_links: Vec::new(), gpus: Vec::new(), ..of_nvml() };
    assert_eq!(shown(half), [false, true, true, true]);
    assert_eq!(
        shown(Batch { coverage: vec![round("sysfs")], ..Batch::default() }),
        [true, true, true, false]
    );
    assert_eq!(shown(Batch { coverage: vec![round("dcgm")], ..Batch::default() }), [true; 4]);
    // Another GPU has taken its place; one of another vendor takes none.
    let other = |source: &str| GpuInfo { uuid: "GPU-2".into(), source: source.into(), ..GpuInfo::default() };
    let infos = |source: &str| {
        let last = LastValues::default();
        last.observe(&of_nvml());
        let found = SurveyedGpu { uuid: "GPU-2".into(), ..SurveyedGpu::default() };
        let mark = GpuSurveyMark { source: source.to_owned(), gpus: vec![found], ..GpuSurveyMark::default() };
        last.observe(&Batch { gpus: vec![other(source)], gpu_survey_marks: vec![mark], ..Batch::default() });
        text(&last).matches("throughline_gpu_info{").count()
    };
    assert_eq!((infos("nvml"), infos("amd_smi")), (1, 2));
}

#[test]
fn what_a_source_does_not_read_on_purpose_is_absent() {
    use throughline_sample::wire::{Coverage, GpuPmSample};
    let pm = |gpus: &[&str]| Batch {
        gpu_pm: gpus
            .iter()
            .map(|gpu| GpuPmSample {
                gpu_uuid: (*gpu).to_owned(),
                source: CUPTI.to_owned(),
                values: values(&[(&throughline_sample::catalogue::PM_PCIE_READ_PEAK, 7)]),
                ..GpuPmSample::default()
            })
            .collect(),
        coverage: vec![Coverage { source: CUPTI.to_owned(), ..Coverage::default() }],
        ..Batch::default()
    };
    let event = |kind: &str| Batch {
        events: vec![Event { kind: kind.into(), source: CUPTI.into(), ..Event::default() }],
        ..Batch::default()
    };
    let last = LastValues::default();
    let peaks = || text(&last).matches("throughline_gpu_pm_pcie_read_peak_bytes_per_second{").count();
    last.observe(&pm(&["GPU-1", "GPU-2"]));
    assert_eq!(peaks(), 2);
    // Another profiler has one of them.
    last.observe(&pm(&["GPU-2"]));
    assert_eq!(peaks(), 1);
    for kind in [PAUSED, BUSY] {
        last.observe(&pm(&["GPU-1", "GPU-2"]));
        last.observe(&event(kind));
        assert_eq!(peaks(), 0, "{kind}");
    }
    last.observe(&event(throughline_gpu::RESUMED));
    last.observe(&pm(&["GPU-1"]));
    assert_eq!(peaks(), 1);
}

#[test]
fn what_a_survey_lacks_is_not_on_the_page_and_partitions_are_no_gpus() {
    let gpu = |uuid: &str, parent: &str| GpuInfo {
        uuid: uuid.into(),
        parent_uuid: parent.into(),
        source: "nvml".into(),
        ..GpuInfo::default()
    };
    let survey = |uuids: &[&str]| {
        let found = uuids.iter().map(|uuid| SurveyedGpu { uuid: (*uuid).into(), ..SurveyedGpu::default() });
        let gpus = uuids.iter().map(|uuid| gpu(uuid, if uuid.starts_with("MIG") { "GPU-1" } else { "" }));
        let mark = GpuSurveyMark { source: "nvml".into(), gpus: found.collect(), ..GpuSurveyMark::default() };
        Batch { gpus: gpus.collect(), gpu_survey_marks: vec![mark], ..Batch::default() }
    };
    let last = LastValues::default();
    let counts = |batch: &Batch| {
        last.observe(batch);
        let text = text(&last);
        ["gpu_info{", "gpu_partition_info{gpu=\"GPU-1\"", "nvlink_up{gpu=\"GPU-1\""]
            .map(|part| text.matches(part).count())
    };
    let mut whole = survey(&["GPU-1", "MIG-a", "MIG-b"]);
    whole.gpu_links = batch().gpu_links;
    whole.gpu_links.iter_mut().for_each(|sample| sample.source = "nvml".into());
    assert_eq!(counts(&whole), [1, 2, 2]);
    assert_eq!(counts(&survey(&["GPU-1", "MIG-c"])), [1, 1, 2]);
    assert_eq!(counts(&survey(&["GPU-2"])), [1, 0, 0]);
    assert_eq!(counts(&survey(&[])), [0, 0, 0]);
}

/// One reading of a link by a source.
fn reading(source: &str, sent: u64) -> Batch {
    let links = vec![LinkValues { link: 0, values: values(&[(&NVLINK_TRANSMIT_BYTES, sent)]) }];
    let (gpu_uuid, source) = ("GPU-1".to_owned(), source.to_owned());
    Batch {
        gpu_links: vec![GpuLinksSample { gpu_uuid, source, links, ..Default::default() }],
        ..Batch::default()
    }
}

#[test]
fn of_several_sources_the_first_of_their_order_makes_the_series() {
    const SENT: &str = "throughline_nvlink_transmit_bytes_total{gpu=\"GPU-1\",link=\"0\"}";
    let shows = |last: &LastValues, sent: Option<u64>| {
        let text = text(last);
        let line = text.lines().find_map(|line| line.strip_prefix(SENT));
        assert_eq!(line.map(|number| number.trim().parse::<u64>().unwrap()), sent, "{text}");
    };
    let both = LastValues::new(vec!["nvml", "dcgm", "sysfs"], true);
    both.observe(&reading("dcgm", 7));
    shows(&both, None);
    both.observe(&reading("nvml", 1000));
    both.observe(&reading("dcgm", 8));
    shows(&both, Some(1000));
    // Once it is shown it stays: the other one counts from elsewhere.
    both.observe(&reading("cupti", 9));
    shows(&both, Some(1000));
    // Nothing better came in time, or it has been silent for long.
    let later = LastValues::new(vec!["nvml", "dcgm"], true);
    later.observe(&reading("dcgm", 7));
    later.lock().links.values_mut().for_each(|seen| seen.value.shown_from = seen.at);
    later.observe(&reading("nvml", 1000));
    shows(&later, Some(7));
    let Some(old) = Instant::now().checked_sub(GOES_OVER_AFTER) else { return };
    later.lock().links.values_mut().for_each(|seen| seen.at = old);
    later.observe(&reading("nvml", 1001));
    shows(&later, Some(1001));
    // Alone, or of another vendor: nobody is waited for.
    let alone = LastValues::new(vec!["dcgm", "amd_smi"], true);
    alone.observe(&reading("dcgm", 7));
    shows(&alone, Some(7));
    let other = LastValues::new(vec!["nvml", "amd_smi"], true);
    other.observe(&reading("amd_smi", 5));
    shows(&other, Some(5));
}

#[test]
fn the_number_of_groups_is_bounded() {
    let mut map = BTreeMap::new();
    (0..GROUPS_MAX + 9).for_each(|key| keep(&mut map, key, 0));
    keep(&mut map, 0, 1);
    assert_eq!((map.len(), map.get(&0)), (GROUPS_MAX, Some(&1)));
}

#[test]
fn chosen_metrics_are_series_with_their_name_until_they_hold_no_number() {
    use throughline_sample::wire::{Coverage, GpuMetricValue, GpuMetricsSample, GpuPmSample};
    let reading = |metrics: &[(&str, Option<u64>, Option<f64>)]| Batch {
        gpu_pm: vec![GpuPmSample { gpu_uuid: "GPU-1".into(), ..GpuPmSample::default() }],
        gpu_metrics: vec![GpuMetricsSample {
            gpu_uuid: "GPU-1".into(),
            metrics: metrics
                .iter()
                .map(|(name, sum, value)| GpuMetricValue { name: (*name).into(), sum: *sum, value: *value })
                .collect(),
            ..GpuMetricsSample::default()
        }],
        coverage: vec![Coverage { source: CUPTI.to_owned(), ..Coverage::default() }],
        ..Batch::default()
    };
    let last = LastValues::default();
    last.observe(&reading(&[
        ("dram__bytes_read.sum", Some(7), None),
        ("sm__cycles_active.avg", None, Some(2.5)),
    ]));
    // The other one is not due.
    last.observe(&reading(&[("dram__bytes_read.sum", Some(8), None)]));
    let page = text(&last);
    let sum = "throughline_gpu_metric_sum_total{gpu=\"GPU-1\",metric=\"dram__bytes_read.sum\"} 8";
    let mean = "throughline_gpu_metric_value{gpu=\"GPU-1\",metric=\"sm__cycles_active.avg\"} 2.5";
    assert!(page.contains(sum) && page.contains(mean), "{page}");
    last.observe(&reading(&[("sm__cycles_active.avg", None, None)]));
    assert!(!text(&last).contains("sm__cycles_active.avg"));
    let busy = Event { kind: BUSY.into(), source: CUPTI.into(), ..Event::default() };
    last.observe(&Batch { events: vec![busy], ..Batch::default() });
    assert!(!text(&last).contains("throughline_gpu_metric"));
}
