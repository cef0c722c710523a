//! Whether this crawler sweeps, or stands by for another one of its subnet.
//!
//! It queries the collector, which queries the database. A crawler that can reach no collector sweeps on: what two
//! read at the same time is written once all the same, because the store holds every batch against the terms.

use super::config::Config;
use super::leader::Role;
use super::shared::SharedState;
use super::trigger::Trigger;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_delivery::wire::LeaseRequest;
use throughline_delivery::{GrpcSink, Leases, SinkError};
use throughline_infiniband::records::SOURCE;
use throughline_sample::catalogue::CRAWLER_ACTIVE;
use tokio_util::sync::CancellationToken;

/// Requests within one lease: two may be lost.
const REQUESTS: u32 = 3;
/// Sweep intervals without a sweep that came to its end after which the lease is left to another crawler: a
/// wedged driver must not keep the subnet unread.
const IDLE_INTERVALS: u32 = 5;

/// Requests the lease again and again.
pub struct Standby {
    shared: Arc<SharedState>,
    leases: Leases,
    request: LeaseRequest,
    lease: Duration,
    longest_idle: Duration,
    /// Until then the lease is left to others.
    left_until: Option<Instant>,
    is_warned: bool,
}

impl Standby {
    /// Queries nothing yet.
    pub fn new(config: &Config, sink: GrpcSink, shared: Arc<SharedState>) -> Standby {
        let lease = config.standby.lease_seconds.duration();
        let publisher = &shared.publisher;
        let name = nix::sys::utsname::uname().map(|name| name.nodename().to_string_lossy().into_owned());
        let request = LeaseRequest {
            subnet_prefix: publisher.sender.subnet_prefix(),
            crawler: publisher.spool.id().as_bytes().to_vec().into(),
            name: name.unwrap_or_default(),
            since: publisher.clock.now(),
            lease_milliseconds: u32::try_from(lease.as_millis()).unwrap_or(u32::MAX),
            release: false,
        };
        let longest_idle = lease.max(config.sweep.interval_seconds.duration() * IDLE_INTERVALS);
        let leases = Leases::new(sink);
        Standby { shared, leases, request, lease, longest_idle, left_until: None, is_warned: false }
    }

    /// Runs until `stop`; then waits until what was read is delivered (`delivered`), and gives the lease back.
    pub async fn run(mut self, stop: CancellationToken, delivered: CancellationToken) {
        let mut tick = tokio::time::interval(self.lease / REQUESTS);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.request_lease().await,
                () = stop.cancelled() => break,
            }
        }
        delivered.cancelled().await;
        if !self.shared.leader.is_standby() {
            self.give_back().await;
        }
    }

    async fn give_back(&mut self) {
        let back = LeaseRequest { release: true, ..self.request.clone() };
        if let Err(error) = self.leases.ask(back).await {
            tracing::debug!(%error, "the lease was not given back: it expires");
        }
    }

    async fn request_lease(&mut self) {
        if self.left_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let idle = self.shared.leader.idle();
        if idle > self.longest_idle {
            let idle_seconds = idle.as_secs();
            tracing::warn!(idle_seconds, "no sweep comes to its end: the lease is left to another crawler");
            self.give_back().await;
            self.left_until = Some(Instant::now() + self.lease);
            self.set(Role::Standby);
            return;
        }
        if self.shared.leader.is_standby() {
            // A term begins when it is granted; one that swept without a lease says since when.
            self.request.since = self.shared.publisher.clock.now();
        }
        match self.leases.ask(self.request.clone()).await {
            Ok(answer) if answer.granted => {
                if self.set(Role::Active) == Role::Standby {
                    tracing::info!("sweeping: no other crawler of this subnet does");
                    self.shared.want_discovery(&Trigger::Request);
                }
                self.is_warned = false;
            }
            Ok(answer) => {
                if self.set(Role::Standby) != Role::Standby {
                    tracing::info!(active = answer.holder, "standing by: another crawler sweeps this subnet");
                    self.shared.discard();
                }
            }
            Err(error) => self.not_answered(&error),
        }
    }

    /// Nobody says who sweeps: an active one goes on, one that stands by goes on standing by (somebody was
    /// active), and one that starts begins.
    fn not_answered(&mut self, error: &SinkError) {
        if !std::mem::replace(&mut self.is_warned, true) {
            tracing::info!(%error, "whether another crawler sweeps this subnet can't be found out now");
        }
        if self.shared.leader.is_undecided() {
            self.set(Role::Active);
        }
    }

    fn set(&self, role: Role) -> Role {
        let active = f64::from(u8::from(role == Role::Active));
        self.shared.publisher.metrics.set(SOURCE, &CRAWLER_ACTIVE, active);
        self.shared.leader.set(role)
    }
}
