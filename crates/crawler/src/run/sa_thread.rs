//! The thread that queries the subnet administrator: subscribes to traps, watches the manager and the local
//! port, and reports the subnet from the administrator's records where the nodes do not answer.
//!
//! It is the only one with a transport of its class. It wakes discovery (`trigger`) and says when to pause
//! (`heavy_sweep`); what was found is published by discovery alone.

use super::config::Config;
use super::group_reading::{GroupReading, GroupsRequest};
use super::local_port;
use super::manager::{Manager, ManagerChange};
use super::reports;
use super::shared::SharedState;
use super::thread_names::ADMINISTRATION;
use super::trigger::Trigger;
use crate::discover::Discovery;
use crate::port::FabricPort;
use crate::sa::{self, Client, SaError, Settings};
use crate::simulator::Simulator;
use crate::stop::Stop;
use crate::transport::{Class, LocalPort, Transport};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use throughline_infiniband::mad::sa::{Notice, trap};
use throughline_sample::catalogue::{
    FAILED_READS, MAD_RETRIES, MAD_TIMEOUTS, MADS_SENT, REPORTED_TRAPS, SM_CHANGES, SM_UP, SOURCE_UP,
};

/// Between two checks of the local port: some small files.
const PORT_INTERVAL: Duration = Duration::from_secs(1);
/// Between two checks for requests while another crawler sweeps.
const PASSIVE_PAUSE: Duration = Duration::from_millis(200);
/// Between two checks of the manager: one MAD.
const MANAGER_INTERVAL: Duration = Duration::from_secs(5);
/// The same while it does not answer.
const SUSPECTED_INTERVAL: Duration = Duration::from_secs(1);
/// Between two subscriptions: a manager that took over in between knows nothing of the last one. One MAD.
const SUBSCRIBE_INTERVAL: Duration = Duration::from_secs(60);
/// Longest wait for a Report, after which requests are looked at.
const REPORT_WAIT: Duration = Duration::from_millis(100);
/// Reports taken before they are handed on together.
const REPORTS_TOGETHER: usize = 1024;
/// Wait after the transport broke before it is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(2);

/// A request of the discovery thread.
enum SaRequest {
    /// The subnet from the administrator's records.
    Discovery { tables: bool, answer: SyncSender<Result<Discovery, SaError>> },
    /// Multicast groups, to be published.
    Groups(GroupsRequest),
}

/// The way to the thread.
#[derive(Clone)]
pub struct SaThread {
    requests: SyncSender<SaRequest>,
}

impl SaThread {
    /// Requests that multicast groups are read and published; whether the request was taken.
    pub fn read_groups(&self, request: GroupsRequest) -> bool {
        self.requests.try_send(SaRequest::Groups(request)).is_ok()
    }

    /// The subnet from the administrator's records.
    ///
    /// # Errors
    /// [`SaError`]; [`SaError::Stopped`] as well when the thread is gone.
    pub fn discover(&self, tables: bool, stop: &Stop) -> Result<Discovery, SaError> {
        let (answer, answers) = sync_channel(1);
        match self.requests.try_send(SaRequest::Discovery { tables, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(SaError::Transport("the subnet administrator is queried already".to_owned()));
            }
            Err(TrySendError::Disconnected(_)) => return Err(SaError::Stopped),
        }
        loop {
            match answers.recv_timeout(REPORT_WAIT) {
                Ok(found) => return found,
                Err(RecvTimeoutError::Timeout) if !stop.is_set() => {}
                Err(_) => return Err(SaError::Stopped),
            }
        }
    }
}

/// Starts the thread; it ends with its client, to be closed once no other thread speaks MADs.
///
/// # Errors
/// It can't be started.
pub fn spawn(
    config: Config,
    port: Arc<FabricPort>,
    transport: Option<Box<dyn Transport>>,
    shared: Arc<SharedState>,
    stop: Stop,
) -> std::io::Result<(SaThread, JoinHandle<Option<Client>>)> {
    let (requests, taken) = sync_channel(1);
    let handle = std::thread::Builder::new().name("mad-administration".to_owned()).spawn(move || {
        let local = port.local().clone();
        let mut thread = Watching {
            config,
            port,
            shared,
            stop,
            topology_manager: local.sm_lid,
            last_look: local.clone(),
            local,
            manager: Manager::default(),
            port_due: Instant::now(),
            manager_due: Instant::now(),
            subscribe_due: Instant::now(),
            is_subscribed: false,
            is_up: false,
            groups: GroupReading::default(),
        };
        thread.run(transport, &taken)
    })?;
    Ok((SaThread { requests }, handle))
}

struct Watching {
    config: Config,
    port: Arc<FabricPort>,
    shared: Arc<SharedState>,
    stop: Stop,
    local: LocalPort,
    /// What the port said of itself last, which may be older than what discovery read (libumad2sim's files are).
    last_look: LocalPort,
    /// The manager's LID in the local port's PortInfo, as discovery read it last.
    topology_manager: u16,
    manager: Manager,
    port_due: Instant,
    manager_due: Instant,
    subscribe_due: Instant,
    is_subscribed: bool,
    /// Whether the last round could use the transport.
    is_up: bool,
    groups: GroupReading,
}

impl Watching {
    fn run(
        &mut self,
        transport: Option<Box<dyn Transport>>,
        requests: &Receiver<SaRequest>,
    ) -> Option<Client> {
        let mut client = transport.map(|transport| self.client(transport));
        while !self.stop.is_set() {
            if self.shared.leader.is_passive() {
                // The active one queries, and reports; a manager should not have to answer both.
                self.manager = Manager::default();
                (self.is_subscribed, self.subscribe_due) = (false, Instant::now());
                // Which fabric the port is in may change all the same.
                self.look_at_port();
                if let Ok(SaRequest::Discovery { tables, answer }) = requests.try_recv() {
                    let found = match &mut client {
                        Some(client) => self.discover(client, tables),
                        None => Err(SaError::NoManager),
                    };
                    // Who queried may be gone.
                    let _ = answer.try_send(found);
                }
                self.stop.sleep(PASSIVE_PAUSE);
                continue;
            }
            let result = match &mut client {
                Some(client) => self.round(client, requests),
                None => Err(SaError::Transport("not open".to_owned())),
            };
            match result {
                Ok(()) | Err(SaError::NoManager) => self.is_up = true,
                Err(SaError::Stopped) => break,
                Err(error) => {
                    // libumad2sim attaches once: its descriptor stays until the process is executed again.
                    let is_simulated = Simulator::preloaded().is_some();
                    let is_news = if is_simulated { self.is_up } else { client.take().is_some() };
                    self.is_up = false;
                    if is_news {
                        self.shared.publisher.metrics.set(ADMINISTRATION, &SOURCE_UP, 0.0);
                        tracing::warn!(%error, "the subnet administrator can't be queried");
                    }
                    self.look_at_port();
                    self.name_manager();
                    if self.stop.sleep(REOPEN_PAUSE) {
                        break;
                    }
                    if is_simulated && client.is_some() {
                        continue;
                    }
                    client = self.port.open(Class::Administration).ok().map(|open| self.client(open));
                }
            }
        }
        client
    }

    fn client(&self, transport: Box<dyn Transport>) -> Client {
        let mad = &self.config.mad;
        let settings = Settings { budget: mad.settings().budget, sm_key: mad.sm_key, ..Settings::default() };
        Client::new(transport, self.local.sm_lid, self.local.service_level, settings)
    }

    fn round(&mut self, client: &mut Client, requests: &Receiver<SaRequest>) -> Result<(), SaError> {
        match requests.try_recv() {
            Ok(SaRequest::Discovery { tables, answer }) => {
                let found = self.discover(client, tables);
                // Who queried may be gone.
                let _ = answer.try_send(found);
            }
            Ok(SaRequest::Groups(request)) => {
                // After a change of the manager discoveries come quickly, and a silent one would hold up who watches it.
                self.look_at_port();
                self.follow_manager(client);
                self.look_at_manager(client)?;
                if !self.manager.is_gone() && !self.manager.is_suspected() {
                    self.groups.read(client, &request, &self.shared, self.stop.flag())?;
                }
            }
            Err(_) => {}
        }
        self.look_at_port();
        self.follow_manager(client);
        let now = Instant::now();
        if now >= self.manager_due {
            self.manager_due = now + MANAGER_INTERVAL;
            self.look_at_manager(client)?;
        }
        if now >= self.subscribe_due && self.config.discovery.traps && !self.manager.is_gone() {
            self.subscribe_due = now + SUBSCRIBE_INTERVAL;
            self.subscribe(client)?;
        }
        self.take_reports(client)?;
        self.shared.heavy_sweep.look();
        self.tell(client);
        Ok(())
    }

    /// The fabric by the administrator's records.
    fn discover(&self, client: &mut Client, tables: bool) -> Result<Discovery, SaError> {
        let limits = self.config.discovery.limits();
        sa::discover(client, &self.local, tables, &limits, self.stop.flag())
    }

    /// Looks at the local port when it is time to.
    fn look_at_port(&mut self) {
        if Instant::now() < self.port_due {
            return;
        }
        self.port_due = Instant::now() + PORT_INTERVAL;
        let metrics = &self.shared.publisher.metrics;
        match self.port.refreshed() {
            Ok(local) => {
                self.shared.heavy_sweep.port(local.state);
                for trigger in local_port::changes(&self.last_look, &local) {
                    tracing::info!(reason = trigger.name(), "the local port changed");
                    self.shared.want_discovery(&trigger);
                    self.manager_due = Instant::now();
                }
                // Of the two that say who the manager is, the one that changed last.
                let is_new = self.last_look.sm_lid != local.sm_lid;
                let sm_lid = if is_new { local.sm_lid } else { self.local.sm_lid };
                self.local = LocalPort { sm_lid, ..local.clone() };
                self.last_look = local;
            }
            Err(error) => {
                metrics.add(ADMINISTRATION, &FAILED_READS, 1);
                tracing::debug!(%error, "looking at the local port");
            }
        }
    }

    /// The manager's LID as the port has it, or as discovery read it in PortInfo, whichever changed last.
    fn manager_lid(&mut self) -> u16 {
        let found = self.shared.found();
        let info = found.as_ref().and_then(|found| {
            let topology = &found.topology;
            let end = topology.local?;
            topology.nodes[end.node].port(end.port)?.info
        });
        let managers_lid = info.map_or(self.topology_manager, |info| info.sm_lid);
        if managers_lid != self.topology_manager {
            self.topology_manager = managers_lid;
            self.local.sm_lid = managers_lid;
        }
        self.local.sm_lid
    }

    /// Queries the manager that the port has now.
    fn follow_manager(&mut self, client: &mut Client) {
        if self.manager_lid() != client.manager_lid() {
            client.set_manager(self.local.sm_lid, self.local.service_level);
            (self.manager_due, self.subscribe_due) = (Instant::now(), Instant::now());
        }
    }

    /// Reports another manager where it is not known who it is.
    fn name_manager(&mut self) {
        let lid = self.manager_lid();
        let found = self.shared.found();
        let reported = self.manager.named(lid, found.as_ref().map(|found| &*found.topology));
        self.handle(reported);
    }

    fn look_at_manager(&mut self, client: &mut Client) -> Result<(), SaError> {
        let found = self.shared.found();
        let topology = found.as_ref().map(|found| &*found.topology);
        let reported = match client.managers(self.stop.flag()) {
            Ok(managers) => {
                self.shared.publisher.metrics.set(ADMINISTRATION, &SM_UP, 1.0);
                self.manager.answered(client.manager_lid(), &managers, topology)
            }
            Err(error @ (SaError::Stopped | SaError::Transport(_))) => return Err(error),
            Err(error @ (SaError::Silent { .. } | SaError::NoManager)) => {
                self.shared.publisher.metrics.set(ADMINISTRATION, &SM_UP, 0.0);
                tracing::debug!(%error, "looking at the subnet manager");
                self.manager.silent(client.manager_lid(), Instant::now(), topology)
            }
            Err(error) => {
                self.shared.publisher.metrics.add(ADMINISTRATION, &FAILED_READS, 1);
                tracing::debug!(%error, "looking at the subnet manager");
                ManagerChange::default()
            }
        };
        if self.manager.is_suspected() {
            self.manager_due = Instant::now() + SUSPECTED_INTERVAL;
        }
        if self.manager.is_gone() {
            // The next one writes its LID into all ports; device files may not show it.
            self.shared.want_discovery(&Trigger::LocalPort("its subnet manager is silent"));
        }
        self.handle(reported);
        Ok(())
    }

    fn handle(&mut self, reported: ManagerChange) {
        let nodes = self.shared.found().map_or(0, |found| found.topology.nodes.len());
        if let Some(requests) = reported.requests {
            self.shared.heavy_sweep.activity(requests, nodes.max(1));
        }
        if reported.subscribe {
            self.subscribe_due = Instant::now();
        }
        if let Some(event) = reported.event {
            self.shared.publisher.metrics.add(ADMINISTRATION, &SM_CHANGES, 1);
            self.shared.publisher.emit(&[event]);
        }
        if let Some(trigger) = reported.trigger {
            self.shared.want_discovery(&trigger);
        }
    }

    fn subscribe(&mut self, client: &mut Client) -> Result<(), SaError> {
        match client.subscribe(None, self.stop.flag()) {
            Ok(()) => {
                if !std::mem::replace(&mut self.is_subscribed, true) {
                    tracing::info!(lid = client.manager_lid(), "subscribed to the subnet's traps");
                }
            }
            Err(error @ (SaError::Stopped | SaError::Transport(_))) => return Err(error),
            Err(error) => {
                self.shared.publisher.metrics.add(ADMINISTRATION, &FAILED_READS, 1);
                if std::mem::replace(&mut self.is_subscribed, false) {
                    tracing::warn!(%error, "the subnet's traps can't be had; trying on");
                } else {
                    tracing::debug!(%error, "subscribing to traps");
                }
            }
        }
        Ok(())
    }

    /// Waits for Reports and hands on what came together.
    fn take_reports(&mut self, client: &mut Client) -> Result<(), SaError> {
        let mut notices: Vec<Notice> = Vec::new();
        let mut wait = REPORT_WAIT;
        while let Some(report) = client.report(wait)? {
            notices.push(report.notice);
            wait = Duration::ZERO;
            if notices.len() >= REPORTS_TOGETHER {
                break;
            }
        }
        if notices.is_empty() {
            return Ok(());
        }
        self.shared.publisher.metrics.add(ADMINISTRATION, &REPORTED_TRAPS, notices.len() as u64);
        for notice in &notices {
            if let Some(trigger) = reports::trigger(notice) {
                // What switches say makes the manager sweep; what it says itself (64 to 67) comes when it is done.
                if notice.number == trap::LINK_STATE {
                    self.shared.heavy_sweep.trap();
                }
                self.shared.want_discovery(&trigger);
            }
        }
        let found = self.shared.found();
        let topology = found.as_ref().map(|found| &*found.topology);
        self.shared.publisher.emit(&reports::events(&notices, topology));
        Ok(())
    }

    // Exact up to 2^53.
    #[allow(clippy::cast_precision_loss)]
    fn tell(&self, client: &Client) {
        let (stats, metrics) = (client.stats(), &self.shared.publisher.metrics);
        metrics.set(ADMINISTRATION, &SOURCE_UP, 1.0);
        metrics.set(ADMINISTRATION, &MADS_SENT, stats.sent as f64);
        metrics.set(ADMINISTRATION, &MAD_TIMEOUTS, stats.timeouts as f64);
        metrics.set(ADMINISTRATION, &MAD_RETRIES, stats.retries as f64);
    }
}
