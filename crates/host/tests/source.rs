//! The source on a tree of its own: values on the way to records, faults, and its life.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use throughline_doubles::sysfs::{AdapterDouble, COUNTERS};
use throughline_host::{State, SysfsConfig, SysfsSource, SysfsStatus};
use throughline_sample::Guid;
use throughline_sample::catalogue::{self, Metric, Table};
use throughline_sample::wire::{Batch, HostPortSample};
use tokio::sync::mpsc;

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const GUID: Guid = Guid(0x506b_4b03_005c_2740);

struct Bench {
    source: SysfsSource,
    records: mpsc::Receiver<Batch>,
    root: tempfile::TempDir,
}

impl Bench {
    /// A source on an empty tree. Its clock counts readings.
    fn start(channel: usize) -> Self {
        Self::with_clock(channel, 1_000_000_000_000)
    }

    /// A source whose clock goes on by so many nanoseconds with each reading.
    fn with_clock(channel: usize, step: i64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (sender, records) = mpsc::channel(channel);
        let config = SysfsConfig { root: root.path().to_owned(), interval: Duration::from_millis(5) };
        let readings = AtomicI64::new(1_000);
        let clock = Arc::new(move || readings.fetch_add(step, Ordering::Relaxed));
        Self { source: SysfsSource::start(config, clock, sender).unwrap(), records, root }
    }

    fn plug(&self, device: &str) -> AdapterDouble {
        AdapterDouble::create(self.root.path(), device, GUID).unwrap()
    }

    fn until(&mut self, wanted: impl Fn(&Batch) -> bool) -> Batch {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.records.try_recv() {
                Ok(batch) if wanted(&batch) => return batch,
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < deadline, "{:?}", self.source.status());
        }
    }

    fn until_status(&self, wanted: impl Fn(&SysfsStatus) -> bool) -> SysfsStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.source.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{status:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn value(sample: &HostPortSample, metric: &Metric) -> Option<u64> {
    sample.values.as_ref()?.get(metric)
}

#[test]
fn every_counter_of_a_port_arrives_under_its_name() {
    let mut bench = Bench::start(1024);
    let adapter = bench.plug("mlx5_0");
    for (at, counter) in (1..).zip(COUNTERS) {
        // Below 15: no counter, however narrow, is saturated there.
        adapter.set_counter(counter, at % 14).unwrap();
    }
    let all = Table::HostPortCounters.metrics().len();
    let whole = |batch: &Batch| {
        let values = batch.host_ports.first().and_then(|sample| sample.values.as_ref());
        values.is_some_and(|values| values.metric.len() == all)
            && values.is_some_and(|values| values.get(&catalogue::UNICAST_PACKETS_TRANSMITTED) == Some(7))
    };
    let batch = bench.until(whole);
    let sample = &batch.host_ports[0];
    assert_eq!((sample.device.as_str(), sample.port, sample.node_guid), ("mlx5_0", 1, GUID.0));
    for metric in Table::HostPortCounters.metrics() {
        let (file, factor) = throughline_host::sysfs::file_and_factor(metric);
        let Some(counter) = file.strip_prefix("counters/") else { continue };
        let at =
            COUNTERS.iter().position(|name| *name == counter).expect("the double has every counter") as u64;
        assert_eq!(value(sample, metric), Some((at + 1) % 14 * factor), "{}", metric.name);
    }
    assert_eq!(value(sample, &catalogue::RATE_BYTES_PER_SECOND), Some(12_500_000_000));
    assert_eq!(value(sample, &catalogue::STATE_ID), Some(4));
    assert_eq!(value(sample, &catalogue::PHYSICAL_STATE_ID), Some(5));
    assert_eq!(value(sample, &catalogue::PCIE_BYTES_PER_SECOND), Some(31_507_692_307));
    // A virtual function has no link of its own.
    adapter.set("device/current_link_speed", "Unknown").unwrap();
    let without = bench.until(|batch| batch.coverage[0].failed == 1);
    assert_eq!(without.coverage[0].reasons["not_a_rate"], 1);
    assert_eq!(value(&without.host_ports[0], &catalogue::PCIE_BYTES_PER_SECOND), None);
}

#[test]
fn what_one_adapter_lacks_costs_nothing_else() {
    let mut bench = Bench::start(1024);
    let bad = bench.plug("mlx5_1");
    bad.set("ports/1/counters/port_xmit_data", "N/A (no PMA)").unwrap();
    bad.remove("ports/1/counters/port_xmit_wait").unwrap();
    bad.set("ports/1/counters/link_downed", "255").unwrap();
    bad.set("node_guid", "none").unwrap();
    bench.plug("mlx5_0");
    let both = |batch: &Batch| batch.host_ports.len() == 2 && batch.coverage[0].failed == 3;
    let batch = bench.until(both);
    let reasons = &batch.coverage[0].reasons;
    assert_eq!((reasons["no_pma"], reasons["missing"], reasons["saturated"]), (1, 1, 1));
    let [good, bad] = &batch.host_ports[..] else { unreachable!() };
    for metric in [
        &catalogue::PORT_DATA_TRANSMITTED_BYTES,
        &catalogue::PORT_TRANSMIT_WAIT,
        &catalogue::HOST_LINK_DOWNED,
    ] {
        assert_eq!((value(good, metric), value(bad, metric)), (Some(0), None), "{}", metric.name);
    }
    assert_eq!(bad.node_guid, 0);
    assert!(bench.until_status(|status| status.ports == 2).absent_values["no_pma"] >= 1);
}

#[test]
fn an_adapter_that_comes_goes_and_comes_back_is_another() {
    let mut bench = Bench::start(1024);
    let status = bench.until_status(|status| status.state == State::NoAdapter);
    assert_eq!((status.rounds, status.dropped_batches), (0, 0));
    assert!(status.detail.unwrap().contains("class/infiniband"));
    let adapter = bench.plug("mlx5_0");
    adapter.set_counter("port_rcv_data", 1000).unwrap();
    let received = |batch: &Batch, bytes| {
        batch.host_ports.first().and_then(|sample| value(sample, &catalogue::PORT_DATA_RECEIVED_BYTES))
            == Some(bytes)
    };
    let first = bench.until(|batch| received(batch, 4000));
    adapter.unplug().unwrap();
    bench.until_status(|status| status.state == State::NoAdapter);
    let adapter = bench.plug("mlx5_0");
    adapter.set_counter("port_rcv_data", 2000).unwrap();
    let second = bench.until(|batch| received(batch, 8000));
    assert!(second.host_ports[0].epoch > first.host_ports[0].epoch);
}

#[test]
fn a_full_channel_costs_batches_and_stops_nothing() {
    let bench = Bench::start(1);
    bench.plug("mlx5_0");
    let status = bench.until_status(|status| status.dropped_batches > 5);
    assert_eq!(status.state, State::Running);
}

#[test]
fn a_dropped_source_ends_its_thread() {
    let Bench { source, mut records, root } = Bench::start(16);
    drop(source);
    // The thread held the only sender.
    while records.try_recv().is_ok() {}
    let left = records.try_recv().unwrap_err();
    assert_eq!(left, mpsc::error::TryRecvError::Disconnected);
    drop(root);
}

/// By its clock there are 20 ms from one reading to the next, and each takes more than a hundredth of twice that: most are no rows.
#[test]
fn readings_that_are_too_near_for_rates_are_no_rows() {
    let mut bench = Bench::with_clock(100_000, 20_000_000);
    let _adapters: Vec<_> = (0..32).map(|number| bench.plug(&format!("mlx5_{number}"))).collect();
    let is_whole = |batch: &Batch| batch.host_ports.len() == 32;
    bench.until(is_whole);
    let from = bench.source.status().rounds;
    // On a busy machine readings take longer, and rows come more rarely.
    (0..10).for_each(|_| drop(bench.until(is_whole)));
    let readings = bench.source.status().rounds - from;
    assert!(readings > 2 * 10, "10 rows of {readings}");
}
