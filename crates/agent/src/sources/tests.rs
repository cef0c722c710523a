//! Tests of the sources as the agent holds them.

use super::*;
use throughline_sample::catalogue::{CONNECTED_RANKS, FAILED_READS, OVERRUNS, RECORDS_DISCARDED, SOURCE_UP};

struct Fake(Arc<Mutex<bool>>);

impl Source for Fake {
    fn status(&self) -> Status {
        let state = "running".to_owned();
        Status { health: Health::Up, state, dropped: 4, connected: Some(2), ..Status::default() }
    }

    fn stop(self: Box<Self>) {
        *self.0.lock().unwrap() = true;
    }
}

fn sources(stopped: &Arc<Mutex<bool>>) -> Sources {
    let failed = Status {
        health: Health::Failing,
        state: "start_failed".into(),
        settled: true,
        failed: 1,
        ..Status::default()
    };
    let good: Box<dyn Source> = Box::new(Fake(stopped.clone()));
    let error = Some(anyhow::anyhow!("no thread"));
    let slots = vec![
        Slot { name: "good", source: Some(good), error: None, reported: None, otherwise: Status::default() },
        Slot { name: "bad", source: None, error, reported: None, otherwise: failed },
    ];
    Sources { slots: Arc::new(Mutex::new(slots)), edge: Arc::default(), begun: Instant::now() }
}

#[tokio::test]
async fn one_failed_source_leaves_the_other_up() {
    let stopped = Arc::default();
    let sources = sources(&stopped);
    let metrics = SelfMetrics::default();
    sources.report(&metrics);
    assert_eq!(metrics.get("good", &SOURCE_UP), Some(1.0));
    assert_eq!(metrics.get(("good", "queue_full"), &RECORDS_DISCARDED), Some(4.0));
    assert_eq!(metrics.get("good", &CONNECTED_RANKS), Some(2.0));
    assert_eq!(metrics.get("good", &OVERRUNS), None);
    assert_eq!(metrics.get("bad", &SOURCE_UP), Some(0.0));
    assert_eq!(metrics.get("bad", &FAILED_READS), Some(1.0));
    assert!(sources.mistake().is_none());
    sources.stop().await;
    assert!(*stopped.lock().unwrap());
    sources.report(&metrics);
    assert_eq!(metrics.get("good", &SOURCE_UP), Some(0.0));
    assert_eq!(metrics.get(("good", "queue_full"), &RECORDS_DISCARDED), Some(4.0));
}

#[tokio::test]
async fn a_source_that_ceases_to_deliver_is_an_event() {
    let sources = sources(&Arc::default());
    let kinds =
        |events: Vec<Event>| events.into_iter().map(|event| (event.source, event.kind)).collect::<Vec<_>>();
    let down = |source: &str| (source.to_owned(), "source.down".to_owned());
    assert_eq!(kinds(sources.changes(1, false)), [down("bad")]);
    assert!(sources.changes(2, false).is_empty());
    assert_eq!(kinds(sources.changes(3, true)), [down("bad")]);
    sources.stop().await;
    let events = sources.changes(4, false);
    assert_eq!(events[0].text, "stopped");
    assert_eq!(kinds(events), [down("good")]);
}

#[test]
fn what_the_node_does_not_have_is_absent_until_it_was_there() {
    let metrics = SelfMetrics::default();
    let up_after = |health, is_beginning| {
        report(&metrics, "nvml", &Status { health, ..Status::default() }, is_beginning);
        metrics.get("nvml", &SOURCE_UP)
    };
    assert_eq!(up_after(Health::Starting, true), None);
    assert_eq!(up_after(Health::NotHere, false), None);
    assert_eq!(up_after(Health::Starting, false), Some(0.0), "a start that takes too long shows");
    assert_eq!(up_after(Health::Up, false), Some(1.0));
    assert_eq!(up_after(Health::NotHere, false), Some(0.0), "it was there");
}

#[test]
fn what_the_node_does_not_have_is_an_event_that_is_no_warning() {
    let absent =
        Status { health: Health::NotHere, state: "no_gpu".into(), settled: true, ..Status::default() };
    let slot = Slot { name: "nvml", source: None, error: None, reported: None, otherwise: absent };
    let sources =
        Sources { slots: Arc::new(Mutex::new(vec![slot])), edge: Arc::default(), begun: Instant::now() };
    let event = sources.changes(1, false).remove(0);
    assert_eq!((event.kind.as_str(), event.severity.as_str()), ("source.absent", "info"));
    assert!(sources.changes(2, false).is_empty());
}

#[test]
fn states_are_exposed() {
    let mut page = Page::default();
    sources(&Arc::default()).expose(&mut page);
    let text = page.encode(throughline_daemon::Format::Text);
    assert!(text.contains("throughline_source_info{source=\"bad\",state=\"start_failed\"} 1"), "{text}");
}

#[test]
fn processes_are_known_where_every_source_knows_its_own() {
    let known = |list: &[(u32, &str)]| -> Processes {
        let listing = |(pid, gpu): &(u32, &str)| GpuListing {
            gpu_uuid: (*gpu).to_owned(),
            partition_uuid: String::new(),
            minor: None,
            pci_bus_id: String::new(),
            processes: Ok(vec![*pid]),
        };
        Ok(list.iter().map(listing).collect())
    };
    assert_eq!(merged([].into_iter()), Err("switched_off"));
    assert_eq!(merged([known(&[])].into_iter()), known(&[]));
    let both = merged([known(&[(1, "GPU-1")]), known(&[(1, "GPU-2"), (2, "GPU-3")])].into_iter());
    assert_eq!(both, known(&[(1, "GPU-1"), (1, "GPU-2"), (2, "GPU-3")]));
    // No NVIDIA GPU is used, and nothing is known of AMD's: that is not none.
    for order in [[known(&[]), Err("not_told_by_library")], [Err("not_told_by_library"), known(&[])]] {
        assert_eq!(merged(order.into_iter()), Err("not_told_by_library"));
    }
}
