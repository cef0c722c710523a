//! The recorder on a simulated disk and on a real folder: what is appended is read back, whatever the disk and the process do.
#![allow(clippy::unwrap_used)] // tests

use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use throughline_recorder::{
    BYTES_MAX_LEAST, Config, Error, FLUSH_INTERVAL, Filter, Kind, QUEUE_BYTES_MAX, Recorder, read_folder,
};
use throughline_sample::wire::{
    Batch, Event, GpuLinksSample, Job, MpiOpCell, MpiRankBin, MpiRankTrace, MpiTraceRecord,
};
use throughline_spool::simulated::{Fault, Random, Sim};

const ALL: Range<i64> = i64::MIN..i64::MAX;

/// A rank's bin with this time.
fn bin(time: i64) -> Batch {
    let cell = MpiOpCell { operation: "allreduce".into(), calls: time as u64, ..Default::default() };
    let bin = MpiRankBin { time, job_key: "slurm:1".into(), cells: vec![cell], ..Default::default() };
    Batch { mpi_ops: vec![bin], ..Batch::default() }
}

fn open(disk: &Sim, bytes_max: u64) -> Recorder {
    let config = Config { bytes_max, ..Config::default() };
    Recorder::with_storage(Arc::new(disk.clone()), config, false).unwrap()
}

/// Appends and writes, a block each.
fn write(recorder: &Recorder, times: Range<i64>) {
    for time in times {
        recorder.append(&mut bin(time));
        recorder.flush();
    }
}

/// Times of the bins that can be read, and how often something was lost.
fn times(recorder: &Recorder) -> (Vec<i64>, usize) {
    let (mut times, mut lost) = (Vec::new(), 0);
    for batch in recorder.records(ALL, Filter::default()) {
        match batch {
            Ok(batch) => times.extend(batch.mpi_ops.iter().map(|bin| bin.time)),
            Err(error) => {
                assert!(error.to_string().contains(".rec is lost: a block"), "{error}");
                lost += 1;
            }
        }
    }
    (times, lost)
}

fn numbers(range: Range<i64>) -> Vec<i64> {
    range.collect()
}

#[test]
fn what_is_appended_is_there_at_once_and_after_a_restart() {
    let disk = Sim::default();
    let recorder = open(&disk, BYTES_MAX_LEAST);
    recorder.append(&mut bin(1));
    assert_eq!(times(&recorder), (vec![1], 0), "without a write by the thread");
    write(&recorder, 2..50);
    drop(recorder);
    let recorder = open(&disk, BYTES_MAX_LEAST);
    write(&recorder, 50..60);
    assert_eq!(times(&recorder), (numbers(1..60), 0));
    let stats = recorder.stats();
    assert_eq!((stats.records, stats.dropped_records, stats.damaged_blocks, stats.segments), (10, 0, 0, 2));
    assert_eq!(stats.disk_bytes, disk.bytes_of(".rec"));
    let filter = Filter { job_key: Some("slurm:1".into()), kinds: vec![Kind::MpiOps], ..Filter::default() };
    let some = recorder.records(20..30, filter).map(|batch| batch.unwrap().mpi_ops[0].cells[0].calls);
    assert_eq!(some.collect::<Vec<_>>(), (20..30).collect::<Vec<_>>());
}

#[test]
fn records_of_trace_mode_are_left_out_and_stay_with_the_batch() {
    let recorder = open(&Sim::default(), BYTES_MAX_LEAST);
    let trace = MpiRankTrace { records: vec![MpiTraceRecord::default()], ..Default::default() };
    let mut batch = Batch { mpi_traces: vec![trace], events: vec![Event::default()], ..bin(1) };
    let before = batch.clone();
    recorder.append(&mut batch);
    assert_eq!(batch, before);
    let read: Vec<Batch> = recorder.records(ALL, Filter::default()).map(Result::unwrap).collect();
    assert_eq!(read, [Batch { mpi_traces: Vec::new(), ..before }]);
    assert_eq!(recorder.stats().records, 2);
}

#[test]
fn a_process_that_is_killed_while_it_writes_leaves_all_whole_blocks() {
    let mut torn = 0;
    for cut in 1..80 {
        let disk = Sim::default();
        let recorder = open(&disk, BYTES_MAX_LEAST);
        write(&recorder, 0..20);
        let name = disk.names().into_iter().find(|name| name.ends_with(".rec")).unwrap();
        disk.crash_at(disk.ops());
        drop(recorder);
        disk.revive();
        disk.cut(&name, disk.length(&name) - cut);
        let recorder = open(&disk, BYTES_MAX_LEAST);
        let (read, lost) = times(&recorder);
        assert!(lost == 0 && read.len() >= 18 && read == numbers(0..read.len() as i64), "{cut}: {read:?}");
        torn += recorder.stats().damaged_blocks;
        // It goes on in a segment of its own.
        write(&recorder, 20..25);
        assert_eq!(times(&recorder).0.len(), read.len() + 5);
    }
    assert!(torn > 70, "{torn}");
}

#[test]
fn after_a_power_loss_what_is_left_is_read_and_nothing_wrong() {
    for seed in 0..200 {
        let disk = Sim::default();
        let recorder = open(&disk, BYTES_MAX_LEAST);
        write(&recorder, 0..30);
        let disk = disk.after_crash(&mut Random::new(seed));
        let after = open(&disk, BYTES_MAX_LEAST);
        let (read, _) = times(&after);
        assert_eq!(read, numbers(0..read.len() as i64), "seed {seed}");
        write(&after, 100..103);
        assert_eq!(times(&after).0.len(), read.len() + 3);
    }
}

#[test]
fn a_damaged_spot_costs_the_rest_of_its_segment() {
    let disk = Sim::default();
    for part in 0..3 {
        let recorder = open(&disk, BYTES_MAX_LEAST);
        write(&recorder, part * 10..part * 10 + 10);
    }
    let name = disk.names().into_iter().filter(|name| name.ends_with(".rec")).nth(1).unwrap();
    let middle = disk.length(&name) / 2;
    disk.flip(&name, middle);
    let recorder = open(&disk, BYTES_MAX_LEAST);
    let (read, lost) = times(&recorder);
    assert!(lost <= 1 && read.len() < 30 && read.len() >= 22, "{read:?}");
    assert_eq!(read[..10], numbers(0..10));
    assert_eq!(read[read.len() - 10..], numbers(20..30));
    assert!(recorder.stats().damaged_blocks == 1 || lost == 1);
}

#[test]
fn a_full_disk_costs_the_oldest_and_then_the_newest_and_is_counted() {
    let disk = Sim::default();
    drop({
        let recorder = open(&disk, BYTES_MAX_LEAST);
        write(&recorder, 0..10);
        recorder
    });
    let recorder = open(&disk, BYTES_MAX_LEAST);
    write(&recorder, 10..20);
    // Full for one write: the oldest segment makes room.
    disk.fail(disk.ops(), Fault::NoSpace);
    write(&recorder, 20..21);
    let stats = recorder.stats();
    assert_eq!((stats.no_space_errors, stats.dropped_records), (1, 0));
    assert_eq!(times(&recorder).0, numbers(10..21));
    // Full for good: what comes is dropped, and the daemon lives on.
    disk.fail_always(Some(Fault::NoSpace));
    write(&recorder, 21..30);
    assert_eq!(recorder.stats().dropped_records, 9);
    disk.fail_always(None);
    write(&recorder, 30..33);
    assert_eq!(times(&recorder), (numbers(30..33), 0), "what was given up for room is gone");
    assert_eq!(recorder.stats().dropped_records, 9);
}

#[test]
fn a_failed_write_costs_its_own_records_only() {
    for fault in [Fault::Io, Fault::Torn] {
        let disk = Sim::default();
        let recorder = open(&disk, BYTES_MAX_LEAST);
        write(&recorder, 0..5);
        disk.fail(disk.ops(), fault);
        write(&recorder, 5..10);
        let expected: Vec<i64> = numbers(0..5).into_iter().chain(6..10).collect();
        assert_eq!(times(&recorder), (expected.clone(), 0), "{fault:?}");
        assert_eq!((recorder.stats().dropped_records, recorder.stats().write_errors), (1, 1));
        drop(recorder);
        assert_eq!(times(&open(&disk, BYTES_MAX_LEAST)).0, expected);
    }
}

/// Text that can't be packed, of this many bytes.
fn noise(random: &mut Random, bytes: usize) -> String {
    (0..bytes).map(|_| char::from(33 + u8::try_from(random.below(90)).unwrap())).collect()
}

#[test]
fn the_ring_stays_within_its_bytes_and_forgets_the_oldest() {
    let (disk, mut random) = (Sim::default(), Random::new(1));
    let recorder = open(&disk, BYTES_MAX_LEAST);
    for time in 0..400 {
        let event = Event { time, text: noise(&mut random, 20_000), ..Event::default() };
        recorder.append(&mut Batch { events: vec![event], ..Batch::default() });
        recorder.flush();
        assert!(disk.bytes_of(".rec") <= BYTES_MAX_LEAST + 20_000, "{time}");
    }
    let read = recorder.records(ALL, Filter::default()).map(|batch| batch.unwrap().events[0].time);
    let read: Vec<i64> = read.collect();
    assert!(read.len() > 150 && read.len() < 300, "{}", read.len());
    assert_eq!(read, numbers(400 - read.len() as i64..400));
    assert_eq!(recorder.stats().dropped_records, 0, "forgotten is not dropped");
}

#[test]
fn a_full_buffer_drops_what_comes_and_counts_it() {
    let recorder = open(&Sim::default(), BYTES_MAX_LEAST * 8);
    let event = Event { time: 1, text: "x".repeat(1 << 20), ..Event::default() };
    let batch = Batch { events: vec![event], ..Batch::default() };
    let begin = Instant::now();
    for _ in 0..20 {
        recorder.append(&mut batch.clone());
    }
    let taken = (QUEUE_BYTES_MAX >> 20) as u64 - 1;
    let stats = recorder.stats();
    assert_eq!((stats.records, stats.dropped_records), (taken, 20 - taken), "{:?}", begin.elapsed());
    assert_eq!(recorder.records(ALL, Filter::default()).count(), 1);
    recorder.append(&mut batch.clone());
    assert_eq!(recorder.stats().records, taken + 1);
}

#[test]
fn the_thread_writes_and_a_second_process_reads_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorder");
    let recorder = Recorder::open(&path, Config::default()).unwrap();
    assert!(matches!(Recorder::open(&path, Config::default()), Err(Error::Folder(_))), "one process writes");
    recorder.append(&mut bin(7));
    let begin = Instant::now();
    while recorder.stats().newest_ns.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(FLUSH_INTERVAL / 10);
    }
    let read = || read_folder(&path, ALL, Filter::default()).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(read(), [bin(7)]);
    recorder.append(&mut bin(8));
    recorder.flush();
    assert_eq!(read(), [bin(7), bin(8)]);
    drop(recorder);
    assert_eq!(read(), [bin(7), bin(8)]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64;
    assert_eq!(read_folder(&path, now..now + 1, Filter::default()).unwrap().count(), 0);
}

#[test]
fn without_a_disk_it_is_in_memory() {
    let recorder = Recorder::in_memory(Config { bytes_max: BYTES_MAX_LEAST, ..Config::default() }).unwrap();
    write(&recorder, 0..10);
    assert_eq!(times(&recorder), (numbers(0..10), 0));
}

#[test]
fn bounds_that_make_no_sense_are_refused() {
    let small = Recorder::in_memory(Config { bytes_max: 1000, ..Config::default() });
    assert!(small.err().unwrap().to_string().contains("bytes_max must be at least 4194304"));
    let short = Recorder::in_memory(Config { age_max: Duration::from_secs(1), ..Config::default() });
    assert!(short.err().unwrap().to_string().contains("retention_seconds must be at least 60"));
}

proptest! {
    /// Whatever the records and wherever the blocks end, they are read back the same and in their order.
    #[test]
    fn any_records_are_read_back_the_same(
        parts in proptest::collection::vec((0i64..1000, 0u64..u64::MAX, ".{0,40}", any::<bool>(), 0u8..4), 1..60),
    ) {
        let disk = Sim::default();
        let recorder = open(&disk, BYTES_MAX_LEAST);
        let (mut bins, mut links, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        for (time, number, text, ends, what) in parts {
            let cell = MpiOpCell { operation: text.clone(), bytes: number, ..Default::default() };
            let mut batch = Batch::default();
            match what {
                0 => batch.jobs.push(Job { key: text, ..Default::default() }),
                1 => batch.gpu_links.push(GpuLinksSample { time, gpu_uuid: text, ..Default::default() }),
                _ => batch.mpi_ops.push(MpiRankBin { time, cells: vec![cell; usize::from(what)], ..Default::default() }),
            }
            bins.extend(batch.mpi_ops.clone());
            links.extend(batch.gpu_links.clone());
            jobs.extend(batch.jobs.clone());
            recorder.append(&mut batch);
            if ends {
                recorder.flush();
            }
        }
        let mut read = Batch::default();
        for batch in recorder.records(ALL, Filter::default()) {
            let batch = batch.unwrap();
            read.mpi_ops.extend(batch.mpi_ops);
            read.gpu_links.extend(batch.gpu_links);
            read.jobs.extend(batch.jobs);
        }
        prop_assert_eq!((read.mpi_ops, read.gpu_links, read.jobs), (bins, links, jobs));
    }
}
