//! Answers from a recorder in memory.

use super::*;
use throughline_sample::wire::{GpuLinksSample, LinkValues, MpiOpCell, MpiRankBin, Values};

const SECOND: i64 = 1_000_000_000;

struct Node;

impl Origin for Node {
    fn config_file(&self) -> &'static str {
        "agent.toml"
    }

    fn sign(&mut self, batch: &mut Batch) {
        batch.node = "n1".to_owned();
    }

    fn sign_times(&self, _: &mut Batch) {}

    fn certain_from(&self) -> i64 {
        0
    }

    fn may_answer(&self) -> bool {
        true
    }

    fn parts(&self, batch: Batch) -> Vec<Batch> {
        vec![batch]
    }

    fn lift(&self) -> Lift {
        Box::new(|_, _| {})
    }
}

struct Setup {
    details: Details<Node>,
    spool: Spool,
}

fn setup(recording: Recording) -> Setup {
    let spool = Spool::in_memory(throughline_spool::Config::default()).unwrap();
    let metrics = SelfMetrics::default();
    let details = Details::new(recording, spool.clone(), Node, metrics, CancellationToken::new());
    Setup { details, spool }
}

fn recorder(bins: i64) -> Recorder {
    let recorder = Recorder::in_memory(throughline_recorder::Config::default()).unwrap();
    let begin = now_ns() - 100 * SECOND;
    for number in 0..bins {
        for job in ["a", "b"] {
            let cell =
                MpiOpCell { operation: "send".into(), calls: number.unsigned_abs(), ..MpiOpCell::default() };
            let (time, job_key) = (begin + number * SECOND / 10, job.to_owned());
            let bin = MpiRankBin { time, job_key, cells: vec![cell], ..MpiRankBin::default() };
            recorder.append(&mut Batch { mpi_ops: vec![bin], ..Batch::default() });
        }
    }
    recorder
}

fn request(id: u64) -> DetailRequest {
    let now = now_ns();
    DetailRequest {
        id,
        job_key: "a".into(),
        from: now - 200 * SECOND,
        to: now - 5 * SECOND,
        records_max: 1_000_000,
        expires: now + 60 * SECOND,
        ..DetailRequest::default()
    }
}

fn sent(spool: &Spool) -> (Vec<Batch>, DetailEnd) {
    let entries = spool.reader().next_batch(0, 10_000, 64 << 20).unwrap();
    let mut batches: Vec<Batch> =
        entries.into_iter().map(|entry| Batch::decode(entry.payload).unwrap()).collect();
    assert!(batches.iter().all(|batch| batch.node == "n1" && batch.detail.is_some()));
    let end = batches.pop().unwrap().detail.unwrap().end.unwrap();
    (batches, end)
}

#[tokio::test]
async fn a_request_brings_the_records_of_its_job_once_and_then_the_end() {
    let recorder = recorder(500);
    let mut setup = setup(Recording::On(recorder.clone()));
    setup.details.take(&request(7));
    let (parts, end) = sent(&setup.spool);
    let bins: Vec<&MpiRankBin> = parts.iter().flat_map(|part| &part.mpi_ops).collect();
    assert_eq!((bins.len(), end.records, end.refusal.as_str(), end.damaged), (500, 500, "", 0));
    assert!(bins.iter().all(|bin| bin.job_key == "a") && end.recorded_from > 0);
    let before = setup.spool.stats().appended_entries;
    setup.details.take(&request(7));
    assert_eq!(setup.spool.stats().appended_entries, before, "it is answered already");
    setup.details.take(&DetailRequest { records_max: 100, ..request(8) });
    let (_, end) = sent(&setup.spool);
    assert_eq!(end.refusal, "limit");
}

#[tokio::test]
async fn a_node_without_a_recorder_refuses_and_one_that_stops_leaves_the_request_open() {
    for (recording, reason) in [(Recording::Off, "off"), (Recording::Failed("broken".into()), "failed")] {
        let mut setup = setup(recording);
        setup.details.take(&request(1));
        let (parts, end) = sent(&setup.spool);
        assert_eq!((parts.len(), end.refusal.as_str(), end.text.is_empty()), (0, reason, false));
    }
    let mut setup = setup(Recording::On(recorder(1)));
    setup.details.stop.cancel();
    setup.details.take(&DetailRequest { to: now_ns() + SECOND, ..request(2) });
    assert_eq!(setup.spool.stats().appended_entries, 0);
}

#[tokio::test]
async fn no_more_waits_in_the_spool_than_it_may_and_an_expired_request_is_given_up() {
    let recorder = recorder(1);
    let begin = now_ns() - 50 * SECOND;
    for number in 0..60_000_u32 {
        let cell = MpiOpCell { operation: "x".repeat(100), ..MpiOpCell::default() };
        let time = begin + i64::from(number) * 1000;
        let bin = MpiRankBin {
            time,
            job_key: "a".into(),
            rank: number,
            cells: vec![cell],
            ..MpiRankBin::default()
        };
        recorder.append(&mut Batch { mpi_ops: vec![bin], ..Batch::default() });
        if number % 10_000 == 0 {
            recorder.flush();
        }
    }
    let mut setup = setup(Recording::On(recorder));
    setup.details.take(&DetailRequest { expires: now_ns() + SECOND / 2, ..request(3) });
    let (parts, end) = sent(&setup.spool);
    assert_eq!(end.refusal, "expired");
    let bytes: usize = parts.iter().map(Message::encoded_len).sum();
    assert!((OUTSTANDING_BYTES..2 * OUTSTANDING_BYTES).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn entries_of_many_links_have_no_more_elements_than_the_collector_takes() {
    let recorder = Recorder::in_memory(throughline_recorder::Config::default()).unwrap();
    let begin = now_ns() - 150 * SECOND;
    let link = |link| LinkValues {
        link,
        values: Some(Values { metric: (201..221).collect(), value: vec![u64::from(link); 20] }),
    };
    for (second, gpu) in (0..100).flat_map(|second| (0..8).map(move |gpu| (second, gpu))) {
        let (time, gpu_uuid) = (begin + second * SECOND, format!("GPU-{gpu}"));
        let sample = GpuLinksSample {
            time,
            gpu_uuid,
            links: (0..18).map(link).collect(),
            ..GpuLinksSample::default()
        };
        recorder.append(&mut Batch { gpu_links: vec![sample], ..Batch::default() });
    }
    let mut setup = setup(Recording::On(recorder));
    setup.details.take(&DetailRequest { job_key: String::new(), ..request(3) });
    let (batches, end) = sent(&setup.spool);
    assert_eq!((end.records, batches.iter().map(|batch| batch.gpu_links.len()).sum::<usize>()), (800, 800));
    // 800 readings of 18 links with 40 numbers each are 607,200 elements.
    assert!(batches.len() >= 5 && batches.iter().all(|batch| elements(batch) <= PART_ELEMENTS));
}
