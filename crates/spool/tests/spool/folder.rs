//! The spool on a real folder: lock, background writer, waiting, memory variant.

use std::time::{Duration, Instant};

use throughline_spool::{Class, Config, Error, Spool};

/// Generous: the tests wait for conditions, on machines that may be slow.
const DEADLINE: Duration = Duration::from_secs(60);

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_second_process_learns_that_the_folder_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let first = Spool::open(dir.path(), Config::default()).unwrap();
    let second = Spool::open(dir.path(), Config::default()).err().unwrap();
    assert!(matches!(second, Error::Locked { .. }));
    assert!(second.to_string().contains("in use by another process"));
    drop(first);
    Spool::open(dir.path(), Config::default()).unwrap();
}

#[test]
fn the_background_writer_writes_and_removes() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), Config::default()).unwrap();
    for n in 0..100u8 {
        spool.append(vec![n; 1000], Class::Precious).unwrap();
    }
    wait_for("writing", || spool.stats().written_entries == 100);
    assert_eq!(spool.stats().memory_bytes, 0);
    let id = spool.id();
    drop(spool);

    let spool = Spool::open(dir.path(), Config::default()).unwrap();
    assert_eq!(spool.id(), id);
    let all = spool.reader().next_batch(0, 1000, usize::MAX).unwrap();
    assert_eq!(all.iter().map(|e| e.sequence).collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    assert!(spool.ack(100));
    wait_for("removal", || segments(dir.path()) == 0);
    assert_eq!(spool.append(vec![1], Class::Precious).unwrap(), 101, "a clean end wastes no numbers");
}

#[test]
fn acknowledged_in_time_is_never_written() {
    let dir = tempfile::tempdir().unwrap();
    let spool = Spool::open(dir.path(), Config::default()).unwrap();
    let last = spool.append(vec![7; 100], Class::Cumulative(0)).unwrap();
    assert_eq!(spool.reader().next_after(0).unwrap().unwrap().sequence, last);
    if spool.ack(last) && spool.stats().written_entries == 0 {
        spool.flush().unwrap();
        assert_eq!((spool.stats().written_entries, segments(dir.path())), (0, 0));
    }
    assert!(!spool.ack(last + 5), "nobody can acknowledge what was never sent");
    assert_eq!((spool.acked(), spool.stats().wrong_acks), (last, 1));
}

#[tokio::test]
async fn a_waiting_reader_is_woken() {
    let spool = Spool::in_memory(Config::default()).unwrap();
    let waiter = tokio::spawn({
        let spool = spool.clone();
        async move { spool.wait_after(0).await }
    });
    tokio::task::yield_now().await;
    spool.append(vec![1], Class::Precious).unwrap();
    tokio::time::timeout(DEADLINE, waiter).await.unwrap().unwrap();
}

#[test]
fn in_memory_has_its_own_bound() {
    let config = Config {
        memory_bytes_max: 10_000,
        segment_bytes_max: 4096,
        disk_bytes_max: 1 << 20,
        ..Config::default()
    };
    let spool = Spool::in_memory(config).unwrap();
    for n in 0..200u8 {
        spool.append(vec![n; 500], if n % 10 == 0 { Class::Precious } else { Class::Cumulative(0) }).unwrap();
    }
    let stats = spool.stats();
    assert!(stats.memory_bytes <= 10_000 && !spool.is_on_disk());
    assert_eq!(200, stats.backlog_entries + stats.thinned_memory_entries + stats.dropped_memory_entries);
    assert!(spool.append(vec![], Class::Precious).is_err());
    assert!(spool.append(vec![0; 5000], Class::Precious).is_err());
    assert_eq!(spool.stats().refused_entries, 2);
}

fn segments(dir: &std::path::Path) -> usize {
    std::fs::read_dir(dir)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".seg"))
        .count()
}
