//! The network between senders and collectors, and the collectors: the real queue and writer, behind connections that are
//! slow, cut, half open or gone.

use super::database::{Connection, Database};
use super::pause::Gate;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throughline_collector::direct::{Acks, DirectCollector, DirectStream};
use throughline_daemon::SelfMetrics;
use throughline_delivery::{Ack, Answer, Connecting, OnRefusal, Reason, Session, Sink, SinkError};
use throughline_spool::Entry;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long a sender waits for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a request about a lease waits for its answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Entries within a connection.
const IN_FLIGHT: usize = 8;

/// A collector: its writer is a task that can be killed and stopped.
pub struct Collector {
    running: Option<Running>,
    database: Database,
}

struct Running {
    direct: DirectCollector,
    writer: JoinHandle<()>,
    gate: Gate,
    gone: CancellationToken,
}

impl Collector {
    pub fn new(database: Database) -> Self {
        Collector { running: None, database }
    }

    pub fn start(&mut self, random: fastrand::Rng) {
        let connection = Connection { database: self.database.clone(), random };
        let (direct, writer) = DirectCollector::new(connection, SelfMetrics::default());
        let gate = Gate::default();
        let writer = tokio::spawn(gate.guard(writer));
        self.running = Some(Running { direct, writer, gate, gone: CancellationToken::new() });
    }

    /// SIGKILL: a transaction under way may have been committed.
    pub async fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.writer.abort();
        let _ = running.writer.await;
        running.gone.cancel();
    }

    pub fn pause(&self, is_paused: bool) {
        if let Some(running) = &self.running {
            running.gate.set(is_paused);
        }
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

/// All collectors, behind one name.
pub type Collectors = Arc<Mutex<Vec<Collector>>>;

/// How a node's packets fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCondition {
    Open,
    /// Nothing gets through; what waits does when the way is open again.
    Silent,
    /// Connections of now are dead, and neither end learns of it.
    HalfOpen,
}

/// One node's way to the collectors.
pub struct Link {
    pub way: watch::Sender<LinkCondition>,
    state: Mutex<LinkState>,
    collectors: Collectors,
}

struct LinkState {
    random: fastrand::Rng,
    slow: u32,
    /// Ends the connections of now.
    cut: CancellationToken,
}

impl Link {
    pub fn new(random: fastrand::Rng, collectors: Collectors) -> Arc<Link> {
        let state = LinkState { random, slow: 1, cut: CancellationToken::new() };
        Arc::new(Link { way: watch::Sender::new(LinkCondition::Open), state: Mutex::new(state), collectors })
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn cut(&self) {
        std::mem::take(&mut self.state().cut).cancel();
    }

    pub fn slow(&self, times: u32) {
        self.state().slow = times;
    }

    async fn delay(&self) {
        let delay = {
            let mut state = self.state();
            Duration::from_micros(state.random.u64(200..6000)) * state.slow
        };
        tokio::time::sleep(delay).await;
    }

    /// Waits while nothing gets through; false where this connection is dead.
    async fn passes(&self, dead: &mut bool) -> bool {
        let mut way = self.way.subscribe();
        loop {
            match *way.borrow_and_update() {
                LinkCondition::Open => return !*dead,
                LinkCondition::HalfOpen => {
                    *dead = true;
                    return false;
                }
                LinkCondition::Silent => {}
            }
            if way.changed().await.is_err() {
                return false;
            }
        }
    }

    /// A stream to one of the collectors that run.
    fn stream(&self) -> Option<(DirectStream, Acks, CancellationToken)> {
        let collectors = self.collectors.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let running: Vec<&Running> = collectors.iter().filter_map(|one| one.running.as_ref()).collect();
        let chosen = running.get(self.state().random.usize(..running.len().max(1)))?;
        let (stream, acks) = chosen.direct.stream();
        Some((stream, acks, chosen.gone.clone()))
    }

    /// A crawler asks for the term of its subnet; `None` where nobody answers.
    pub async fn ask(&self, database: &Database, crawler: Uuid, since: i64, lease: Duration) -> Option<bool> {
        let work = async {
            let mut dead = false;
            self.delay().await;
            if !self.passes(&mut dead).await {
                std::future::pending::<()>().await;
            }
            self.stream()?;
            let now = super::now_nanoseconds() / 1000;
            let lease = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
            let granted = {
                let mut state = database.state();
                if state.faults.away {
                    return None;
                }
                let granted = state.terms.ask(crawler, since, lease, false, now);
                state.note([u64::from(granted), now.unsigned_abs()]);
                granted
            };
            self.delay().await;
            self.passes(&mut dead).await.then_some(granted)
        };
        tokio::time::timeout(ANSWER_LIMIT, work).await.ok().flatten()
    }
}

/// The destination of one node.
pub struct ModelSink(pub Arc<Link>);

fn failed(reason: Reason, detail: &str) -> SinkError {
    SinkError { to: "the model".into(), reason, detail: detail.into() }
}

impl Sink for ModelSink {
    fn connect(&self, _: OnRefusal) -> Connecting<'_> {
        Box::pin(async {
            let link = &self.0;
            link.delay().await;
            let mut dead = false;
            let through = tokio::time::timeout(CONNECT_LIMIT, link.passes(&mut dead)).await;
            if through != Ok(true) {
                tokio::time::sleep(if through.is_ok() { CONNECT_LIMIT } else { Duration::ZERO }).await;
                return Err(failed(Reason::Connect, "no answer"));
            }
            let Some((stream, answers, gone)) = link.stream() else {
                return Err(failed(Reason::Connect, "refused"));
            };
            let (entries, sent) = mpsc::channel(IN_FLIGHT);
            let (acks, receiver) = mpsc::channel(IN_FLIGHT);
            let cut = link.state().cut.clone();
            tokio::spawn(upward(link.clone(), sent, stream, [cut.clone(), gone.clone()]));
            tokio::spawn(downward(link.clone(), answers, acks, [cut, gone]));
            Ok(Session { entries, answers: receiver })
        })
    }

    fn name(&self) -> String {
        "the model".into()
    }
}

/// Entries to the collector, in their order, as long as both ends are there.
async fn upward(
    link: Arc<Link>,
    mut sent: mpsc::Receiver<Entry>,
    stream: DirectStream,
    [cut, gone]: [CancellationToken; 2],
) {
    let mut dead = false;
    let work = async {
        while let Some(entry) = sent.recv().await {
            link.delay().await;
            if !link.passes(&mut dead).await {
                continue; // Into the void, and all behind it.
            }
            let bytes = entry.payload.len();
            let entry = throughline_store::Entry::decode(entry.spool_id, entry.sequence, &entry.payload);
            if !stream.put(entry, bytes).await {
                break;
            }
        }
    };
    tokio::select! {
        biased;
        () = cut.cancelled() => {}
        () = gone.cancelled() => {}
        () = work => return,
    }
    drop(stream);
    // The sender goes on sending until it learns of it.
    while sent.recv().await.is_some() {}
}

/// Acknowledgements to the sender, and why the connection ended.
async fn downward(
    link: Arc<Link>,
    mut answers: Acks,
    acks: mpsc::Sender<Result<Answer, SinkError>>,
    [cut, gone]: [CancellationToken; 2],
) {
    let mut dead = false;
    let work = async {
        while let Some(answer) = answers.recv().await {
            link.delay().await;
            if !link.passes(&mut dead).await {
                continue;
            }
            let (answer, is_last) = match answer {
                Ok(put) => {
                    let spool_id = Uuid::from_slice(&put.spool_id).unwrap_or_default();
                    (Ok(Answer::Stored(Ack { spool_id, sequence: put.acknowledged })), false)
                }
                Err(status) => (Err(failed(Reason::Refused, status.message())), true),
            };
            if acks.send(answer).await.is_err() || is_last {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = cut.cancelled() => {}
        () = gone.cancelled() => {}
        () = work => {}
        () = acks.closed() => return,
    }
    // A reset reaches a sender that it can reach; others find out by themselves.
    if link.passes(&mut dead).await {
        let _ = acks.send(Err(failed(Reason::Lost, "reset"))).await;
    } else {
        acks.closed().await;
    }
}
