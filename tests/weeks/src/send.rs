//! Agents of the hosts and the crawler as the collector sees them: a spool in memory, the daemons' own delivery, clocks measured.

use crate::clock::pause;
use crate::truth::{FABRIC, HOSTS, INTERVAL, LATE_HOST, Link, PORT_GUIDS, PORTS, Reader, SPEED, SWITCH_GUID};
use anyhow::ensure;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_daemon::{Clock, ClockSpans};
use throughline_delivery::{ClockExchange, GrpcSink, Outbox, Quarantine};
use throughline_sample::Message;
use throughline_sample::catalogue::*;
use throughline_sample::wire::*;
use throughline_spool::{Class, Config, Spool};

const SECOND: i64 = 1_000_000_000;
/// Readings in one batch.
const BATCH_RECORDS: usize = 1000;
/// Longest wait for what is sent, by true time.
const PATIENCE: Duration = Duration::from_secs(120);
/// The largest gap between readings of sources that read each [`INTERVAL`].
const READ_EACH: Duration = Duration::from_secs(INTERVAL.unsigned_abs());

/// One sender.
struct Sender {
    node: String,
    spool: Spool,
    spans: Arc<ClockSpans>,
    order: u64,
    /// Delivers until it is dropped.
    _outbox: Outbox,
}

impl Sender {
    fn start(node: &str, collector: &str) -> anyhow::Result<Self> {
        let spans = Arc::new(ClockSpans::open(Arc::new(Clock::new()), None));
        let spool = Spool::in_memory(Config { memory_bytes_max: 256 << 20, ..Config::default() })?;
        let sink = GrpcSink::new(collector)?.with_clock(ClockExchange::new(spans.clone(), node.to_owned()));
        let refused = Spool::in_memory(Config { has_envelopes: true, ..Config::default() })?;
        let refused = Quarantine::new(refused, None, Duration::from_secs(3600), &spool)?;
        let outbox = Outbox::start(spool.clone(), refused, sink);
        Ok(Self { node: node.to_owned(), spool, spans, order: 0, _outbox: outbox })
    }

    fn append(&mut self, mut batch: Batch) -> anyhow::Result<()> {
        self.order += 1;
        batch.node.clone_from(&self.node);
        batch.boot_id = "weeks".into();
        batch.order = self.order;
        self.spans.sign(&mut batch, None);
        self.spool.append(batch.encode_to_vec(), Class::Precious)?;
        Ok(())
    }
}

/// All senders.
pub struct Senders {
    crawler: Sender,
    hosts: Vec<Sender>,
    links: Vec<Link>,
    /// When the world began, seconds since 1970.
    began: i64,
}

/// The name of a host.
pub fn host(number: u64) -> String {
    format!("h{number}")
}

impl Senders {
    pub fn start(collector: &str, links: Vec<Link>, began: i64) -> anyhow::Result<Self> {
        let crawler = Sender::start("", collector)?;
        let hosts = (0..HOSTS)
            .map(|number| Sender::start(&host(number), collector))
            .collect::<anyhow::Result<_>>()?;
        let mut senders = Self { crawler, hosts, links, began };
        senders.introduce()?;
        Ok(senders)
    }

    /// What exists.
    pub fn introduce(&mut self) -> anyhow::Result<()> {
        let began = self.began * SECOND;
        let mark = IbTopologyMark {
            generation: began,
            time: began,
            nodes: u32::try_from(PORTS + 1)?,
            links: u32::try_from(PORTS)?,
        };
        let mut nodes: Vec<IbNodeInfo> =
            (0..PORTS).map(|number| adapter(number, began)).collect::<anyhow::Result<_>>()?;
        nodes.push(switch(began)?);
        let marks = vec![mark];
        self.crawler.append(Batch {
            fabric: fingerprint(),
            ib_nodes: nodes,
            ib_topology_marks: marks,
            ..Batch::default()
        })?;
        for (number, host) in (0..).zip(&mut self.hosts) {
            let node = NodeInfo {
                name: host.node.clone(),
                boot_id: "weeks".into(),
                boot_time: began - 3600 * SECOND,
                hca_guids: vec![PORT_GUIDS + 0x10_0000 + number * 2],
            };
            host.append(Batch { nodes: vec![node], ..Batch::default() })?;
        }
        Ok(())
    }

    /// Sends all readings of a time: from the first second until the second, without it, in seconds of the world.
    pub fn feed(&mut self, from: i64, to: i64, what: Feed) -> anyhow::Result<()> {
        let step = usize::try_from(INTERVAL)?;
        let times: Vec<i64> = (from..to).step_by(step).collect();
        for times in times.chunks(BATCH_RECORDS / usize::try_from(PORTS)?) {
            if what != Feed::LateHost {
                let batch = self.sweeps(times);
                self.crawler.append(batch)?;
            }
            for number in 0..HOSTS {
                let is_late = number == LATE_HOST;
                if what == Feed::All || is_late == (what == Feed::LateHost) {
                    let batch = self.host_readings(number, times);
                    self.hosts[usize::try_from(number)?].append(batch)?;
                }
            }
        }
        Ok(())
    }

    fn sweeps(&self, times: &[i64]) -> Batch {
        let links: Vec<&Link> = self.links.iter().filter(|link| link.reader == Reader::Fabric).collect();
        let mut batch = Batch { fabric: fingerprint(), ..Batch::default() };
        for second in times {
            let read: Vec<&&Link> = links.iter().filter(|link| link.is_read(*second)).collect();
            batch.coverage.push(self.round("mad", *second, read.len()));
            batch.ib_ports.extend(read.into_iter().map(|link| {
                let (sent, mut values) = (link.value(*second), Values::default());
                values.put(&TRANSMIT_DATA_BYTES, sent);
                values.put(&RECEIVE_DATA_BYTES, sent / 8 * 4);
                values.put(&PORT_RATE_BYTES_PER_SECOND, SPEED);
                IbPortSample {
                    time: (self.began + second) * SECOND,
                    epoch: (self.began + link.epoch(*second)) * SECOND,
                    node_guid: PORT_GUIDS + link.number * 2,
                    port: 1,
                    values: Some(values),
                    saturated: Vec::new(),
                    source: "mad".into(),
                }
            }));
        }
        batch
    }

    fn host_readings(&self, number: u64, times: &[i64]) -> Batch {
        let mut batch = Batch::default();
        let links = || self.links.iter().filter(|link| link.reader == Reader::Host && link.number == number);
        for second in times {
            batch.coverage.push(self.round("sysfs", *second, links().count()));
            batch.host_ports.extend(links().map(|link| {
                let (sent, mut values) = (link.value(*second), Values::default());
                values.put(&PORT_DATA_TRANSMITTED_BYTES, sent);
                values.put(&PORT_DATA_RECEIVED_BYTES, sent / 8 * 4);
                values.put(&RATE_BYTES_PER_SECOND, SPEED);
                HostPortSample {
                    time: (self.began + second) * SECOND,
                    epoch: (self.began + link.epoch(*second)) * SECOND,
                    device: "mlx5_0".into(),
                    port: 1,
                    values: Some(values),
                    node_guid: PORT_GUIDS + 0x10_0000 + number * 2,
                    port_guid: PORT_GUIDS + 0x10_0000 + number * 2 + 1,
                    source: "sysfs".into(),
                }
            }));
        }
        batch
    }

    fn round(&self, source: &str, second: i64, read: usize) -> Coverage {
        let read = read as u64;
        Coverage {
            time: (self.began + second) * SECOND,
            source: source.into(),
            expected: read,
            read,
            elapsed_seconds: 0.01,
            row_rules: Some(RowRules::unthinned(READ_EACH)),
            ..Coverage::default()
        }
    }

    /// Waits until all is committed.
    pub async fn drained(&self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let waiting: HashMap<&str, u64> = self.waiting();
            if waiting.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < end, "entries that nobody takes: {waiting:?}");
            pause(Duration::from_millis(20)).await;
        }
    }

    fn waiting(&self) -> HashMap<&str, u64> {
        let senders = self.hosts.iter().chain([&self.crawler]);
        senders
            .map(|sender| (sender.node.as_str(), sender.spool.stats().backlog_entries))
            .filter(|(_, entries)| *entries > 0)
            .collect()
    }
}

/// Whose readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Of all.
    All,
    /// Of all but [`LATE_HOST`].
    ButLateHost,
    /// Of [`LATE_HOST`] alone.
    LateHost,
}

fn fingerprint() -> Option<FabricFingerprint> {
    Some(FabricFingerprint { name: FABRIC.into(), ..FabricFingerprint::of_guids([SWITCH_GUID], []) })
}

fn cable(port: u64, remote: (u64, u64)) -> anyhow::Result<IbPortInfo> {
    Ok(IbPortInfo {
        port: u32::try_from(port)?,
        state: "Active".into(),
        width: "4x".into(),
        speed: "50.0 Gbps".into(),
        rate_bytes_per_second: SPEED,
        remote_guid: Some(remote.0),
        remote_port: Some(u32::try_from(remote.1)?),
        physical_state: "LinkUp".into(),
        ..IbPortInfo::default()
    })
}

fn adapter(number: u64, began: i64) -> anyhow::Result<IbNodeInfo> {
    let guid = PORT_GUIDS + number * 2;
    let port = IbPortInfo {
        port_guid: guid + 1,
        lid: u32::try_from(number + 2)?,
        ..cable(1, (SWITCH_GUID, number + 1))?
    };
    Ok(IbNodeInfo {
        generation: began,
        guid,
        r#type: "ca".into(),
        description: format!("h{number} mlx5_0"),
        lid: u32::try_from(number + 2)?,
        device_id: 1,
        vendor_id: 1,
        system_guid: guid,
        ports: vec![port],
        port_count: 1,
        ..IbNodeInfo::default()
    })
}

fn switch(began: i64) -> anyhow::Result<IbNodeInfo> {
    let ports = (0..PORTS).map(|number| cable(number + 1, (PORT_GUIDS + number * 2, 1)));
    Ok(IbNodeInfo {
        generation: began,
        guid: SWITCH_GUID,
        r#type: "switch".into(),
        description: "switch".into(),
        lid: 1,
        device_id: 1,
        vendor_id: 1,
        system_guid: SWITCH_GUID,
        ports: ports.collect::<anyhow::Result<_>>()?,
        port_count: u32::try_from(PORTS)?,
        ..IbNodeInfo::default()
    })
}
