//! Whether this crawler sweeps, or stands by for another one of the fabric that it sees.
//!
//! It queries the collector, which queries the database. A crawler that can reach no collector sweeps on: what two
//! read at the same time is written once all the same, because the store holds every batch against the terms.

use super::config::Config;
use super::identity::{FabricIdentity, FabricSighting};
use super::leader::Role;
use super::shared::SharedState;
use super::trigger::Trigger;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_delivery::wire::{LeaseRequest, LeaseResponse};
use throughline_delivery::{GrpcSink, Leases, SinkError};
use throughline_infiniband::records::SOURCE;
use throughline_sample::Message;
use throughline_sample::catalogue::CRAWLER_ACTIVE;
use tokio_util::sync::CancellationToken;

/// Requests within one lease: two may be lost.
const REQUESTS: u32 = 3;
/// Sweep intervals without a sweep that came to its end after which the lease is left to another crawler: a
/// wedged driver must not keep the fabric unread.
const IDLE_INTERVALS: u32 = 5;

/// Why nothing is recorded where the port shows no fabric.
const BLIND: &str = "the crawler's port shows no fabric; see its cable, the adapter and its driver";
/// And where no sweep comes to its end.
const WEDGED: &str = "no sweep comes to its end: the lease is left to another crawler";

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
    agreement: Duration,
    /// Whether the first decision is not to be waited for.
    accepts_first: bool,
    /// Since when it isn't clear which fabric is seen, and by which switches.
    unclear: Option<(Instant, Vec<u64>)>,
}

impl Standby {
    /// Queries nothing yet.
    pub fn new(config: &Config, sink: GrpcSink, shared: Arc<SharedState>, accept: bool) -> Standby {
        let lease = config.standby.lease_seconds.duration();
        let publisher = &shared.publisher;
        let name = nix::sys::utsname::uname().map(|name| name.nodename().to_string_lossy().into_owned());
        let request = LeaseRequest {
            fabric: Default::default(),
            crawler: publisher.spool.id().as_bytes().to_vec().into(),
            name: name.unwrap_or_default(),
            since: publisher.clock.now(),
            lease_milliseconds: u32::try_from(lease.as_millis()).unwrap_or(u32::MAX),
            release: false,
            accept: false,
        };
        let longest_idle = lease.max(config.sweep.interval_seconds.duration() * IDLE_INTERVALS);
        Standby {
            leases: Leases::new(sink),
            shared,
            request,
            lease,
            longest_idle,
            left_until: None,
            is_warned: false,
            agreement: config.fabric.agreement_seconds.duration(),
            accepts_first: accept,
            unclear: None,
        }
    }

    fn identity(&self) -> &FabricIdentity {
        &self.shared.publisher.sender.identity
    }

    /// Runs until `stop`; then waits until what was read is delivered (`delivered`), and gives the lease back.
    pub async fn run(mut self, stop: CancellationToken, delivered: CancellationToken) {
        let mut tick = tokio::time::interval(self.lease / REQUESTS);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let identity = self.shared.publisher.sender.identity.clone();
        loop {
            tokio::select! {
                _ = tick.tick() => self.request_lease().await,
                () = identity.news() => self.request_lease().await,
                () = stop.cancelled() => break,
            }
        }
        delivered.cancelled().await;
        if self.shared.leader.role() == Role::Active {
            self.give_back().await;
        }
    }

    async fn give_back(&mut self) {
        if self.request.fabric.is_empty() {
            return;
        }
        let back = LeaseRequest { release: true, accept: false, ..self.request.clone() };
        if let Err(error) = self.leases.ask(back).await {
            tracing::debug!(%error, "the lease was not given back: it expires");
        }
    }

    async fn request_lease(&mut self) {
        let seen = self.identity().seen();
        if self.left_until.is_some_and(|until| Instant::now() < until) {
            if let Some(seen) = seen {
                self.identity().answer(&seen, None, WEDGED.to_owned());
            }
            return;
        }
        let idle = self.shared.leader.idle();
        if idle > self.longest_idle {
            let idle_seconds = idle.as_secs();
            tracing::warn!(idle_seconds, "{WEDGED}");
            self.give_back().await;
            self.left_until = Some(Instant::now() + self.lease);
            self.identity().wait_for(WEDGED.to_owned());
            self.set(Role::Waiting);
            return;
        }
        let Some(seen) = seen.filter(|_| !self.shared.device.is_lost()) else {
            // An active one goes on until it is idle for too long. Nobody stands by for a fabric that he can't see.
            if self.shared.leader.role() == Role::Standby {
                tracing::warn!("{BLIND}");
                self.set(Role::Waiting);
            }
            if self.shared.leader.role() != Role::Active {
                self.identity().wait_for(BLIND.to_owned());
            }
            return;
        };
        if self.shared.leader.is_passive() {
            // A term begins when it is granted; one that swept without a lease says since when.
            self.request.since = self.shared.publisher.clock.now();
        }
        self.request.fabric = seen.fingerprint.encode_to_vec().into();
        self.request.accept = self.accepts(&seen);
        match self.leases.ask(self.request.clone()).await {
            Ok(answer) => self.answered(&seen, answer),
            Err(error) => self.not_answered(&seen, &error),
        }
    }

    /// Whether it is to be decided which fabric is seen, although that isn't clear: walks have agreed for long enough.
    fn accepts(&self, seen: &FabricSighting) -> bool {
        let unclear = self.unclear.as_ref().filter(|(_, guids)| seen.fingerprint.guids() == guids.as_slice());
        let agreed =
            |since: &Instant| seen.last.saturating_duration_since((*since).max(seen.since)) >= self.agreement;
        self.accepts_first || unclear.is_some_and(|(since, _)| agreed(since))
    }

    fn answered(&mut self, seen: &FabricSighting, answer: LeaseResponse) {
        self.is_warned = false;
        let reason = if answer.refused.is_empty() { &answer.undecided } else { &answer.refused };
        if !reason.is_empty() {
            if self.identity().waiting_for() != *reason {
                tracing::warn!(reason, "nothing is recorded");
            }
            if answer.refused.is_empty() {
                let is_same = |(_, guids): &(Instant, Vec<u64>)| seen.fingerprint.guids() == guids.as_slice();
                if !self.unclear.as_ref().is_some_and(is_same) {
                    self.unclear = Some((Instant::now(), seen.fingerprint.guids().to_vec()));
                }
            }
            self.discard_as(Role::Waiting);
            self.identity().answer(seen, None, reason.clone());
            return;
        }
        (self.unclear, self.accepts_first) = (None, false);
        let fabric = answer.fabric;
        if answer.granted {
            match self.set(Role::Active) {
                Role::Active => {}
                Role::Unknown => tracing::info!(fabric, "sweeping"),
                Role::Standby | Role::Waiting => {
                    tracing::info!(fabric, "sweeping: no other crawler of this fabric does");
                    self.shared.want_discovery(&Trigger::Request);
                }
            }
        } else if self.shared.leader.role() != Role::Standby {
            tracing::info!(fabric, active = answer.holder, "standing by: another crawler sweeps this fabric");
            self.discard_as(Role::Standby);
        }
        self.identity().answer(seen, Some(fabric), String::new());
    }

    /// Takes a role in which nothing is recorded; what was found is old by the time it ends.
    fn discard_as(&mut self, role: Role) {
        if self.set(role) != role {
            self.shared.discard();
        }
    }

    /// Nobody says who sweeps: an active one goes on, one that stands by goes on standing by (somebody was
    /// active), and one that starts begins.
    fn not_answered(&mut self, seen: &FabricSighting, error: &SinkError) {
        if !std::mem::replace(&mut self.is_warned, true) {
            tracing::info!(%error, "whether another crawler sweeps this fabric can't be found out now");
        }
        if self.shared.leader.role() == Role::Unknown {
            self.set(Role::Active);
        }
        let reason = self.identity().waiting_for();
        self.identity().answer(seen, None, reason);
    }

    fn set(&self, role: Role) -> Role {
        let active = f64::from(u8::from(role == Role::Active));
        self.shared.publisher.metrics.set(SOURCE, &CRAWLER_ACTIVE, active);
        self.shared.leader.set(role)
    }
}
