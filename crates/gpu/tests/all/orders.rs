//! Requests to the sampler beside its ticks: a reading now, the processes on each GPU.

use crate::bench::Bench;
use std::time::{Duration, Instant};
use throughline_gpu::GpuListing;

const PATIENCE: Duration = Duration::from_secs(60);
/// No tick comes in a test's time.
const NEVER: Duration = Duration::from_secs(3600);

type Known = Result<Vec<GpuListing>, &'static str>;

fn processes(bench: &Bench, wanted: impl Fn(&Known) -> bool) -> Known {
    let deadline = Instant::now() + PATIENCE;
    loop {
        bench.source().query_processes();
        let known = bench.source().processes();
        if wanted(&known) {
            return known;
        }
        assert!(Instant::now() < deadline, "{known:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_reading_is_made_when_it_is_requested() {
    let mut bench = Bench::scenario("hgx-h200", "").with(|config| config.interval = NEVER).start();
    let first = bench.next_batch();
    // The first tick has a phase of its own within the interval; readings requested do not move it.
    for _ in 0..3 {
        assert!(bench.source().sample_now());
        let next = bench.next_batch();
        assert!(next.gpu_links[0].time > first.gpu_links[0].time);
        assert_eq!(next.gpu_links.len(), 8);
    }
    assert_eq!(bench.status().overruns, 0);
    bench.stop();
}

#[test]
fn processes_and_their_gpus() {
    // 70 of them: more than there is space for at the first try.
    let many: String = (1000..1070).map(|pid| format!("process 5 {pid}\n")).collect();
    let scenario = format!("gpu 1 minor=9\nprocess 0-1 4711\nprocess 3 4712\n{many}");
    let mut bench = Bench::scenario("hgx-h200", &scenario).with(|config| config.interval = NEVER).start();
    assert!(bench.source().processes().is_err(), "not requested");
    bench.next_batch();
    let known = processes(&bench, Result::is_ok).unwrap();
    for (gpu, listed) in bench.gpus().iter().zip(&known) {
        let named = (&listed.gpu_uuid, listed.partition_uuid.as_str(), &listed.pci_bus_id);
        assert_eq!(named, (&gpu.uuid, "", &gpu.pci_bus_id));
    }
    let minors: Vec<_> = known.iter().map(|gpu| gpu.minor.unwrap()).collect();
    assert_eq!(minors, [0, 9, 2, 3, 4, 5, 6, 7]);
    let on = |gpu: usize| known[gpu].processes.clone().unwrap();
    assert_eq!([on(0), on(1), on(2), on(3)], [vec![4711], vec![4711], vec![], vec![4712]]);
    assert_eq!(on(5), (1000..1070).collect::<Vec<_>>());
}

#[test]
fn why_processes_are_not_known() {
    let mut bench = Bench::scenario("hgx-h200", "fail processes 4\n").start();
    bench.next_batch();
    assert_eq!(
        processes(&bench, |known| *known != Err("not_listed_yet")).unwrap()[0].processes,
        Err("no_permission")
    );
    let mut old = Bench::scenario("hgx-h200", "").with_library("old/libnvidia-ml.so.1").start();
    old.next_batch();
    let listed = processes(&old, |known| *known != Err("not_listed_yet")).unwrap();
    assert_eq!((&listed[0].processes, listed[0].minor), (&Err("function_not_found"), None));
    let none = Bench::scenario("hgx-h200", "").with_library("none/libnvidia-ml.so.1").start();
    assert_eq!(processes(&none, |known| *known != Err("starting")), Err("library_missing"));
    assert!(!none.source().sample_now(), "no sampler runs");
}
