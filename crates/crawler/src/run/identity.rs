//! Which fabric the crawler sees: the fingerprint of its last walk, and what the collector answered about it.
//!
//! What a walk found is published only once the collector said which fabric that is, unless its switches are the same as
//! before. While no collector answers, the crawler goes on: its batches carry the fingerprint, and the store decides.

use super::leader::{LeaderState, Role};
use crate::stop::Stop;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_sample::CommonGuids;
use throughline_sample::wire::FabricFingerprint;
use tokio::sync::Notify;

/// Longest wait of a walk for the collector's answer: longer than one request may take.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Longest wait between two checks of a stop request.
const LOOK: Duration = Duration::from_millis(200);

/// What the last walk saw.
#[derive(Clone, Debug)]
pub struct FabricSighting {
    /// Of its topology.
    pub fingerprint: Arc<FabricFingerprint>,
    /// When a walk first found these switches, without others in between.
    pub since: Instant,
    /// When a walk last found them.
    pub last: Instant,
    /// Number of the walk: what was answered about an earlier one may not hold.
    number: u64,
}

/// What becomes of a walk's topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishDecision {
    /// It is published, as the one after the last.
    Publish,
    /// It is published, and has nothing to do with the last: it is of another fabric.
    PublishAnew,
    /// It is not published.
    Hold,
}

#[derive(Default)]
struct State {
    /// Of the topology that was published last: batches are signed with it.
    current: Option<Arc<FabricFingerprint>>,
    seen: Option<FabricSighting>,
    walks: u64,
    /// The last walk that was answered for.
    answered: u64,
    /// The fabric's name, as the collector said last.
    name: String,
    /// Why the crawler neither sweeps nor stands by; empty where it does.
    waiting_for: String,
}

/// The fabric, for the crawler's threads and tasks.
#[derive(Default)]
pub struct FabricIdentity {
    state: Mutex<State>,
    changed: Condvar,
    wake: Notify,
}

impl FabricIdentity {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each field is replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What batches are signed with.
    pub fn current(&self) -> Option<Arc<FabricFingerprint>> {
        self.lock().current.clone()
    }

    /// What the last walk saw; `None` where it saw no fabric.
    pub fn seen(&self) -> Option<FabricSighting> {
        self.lock().seen.clone()
    }

    /// The fabric's name, as far as a collector has said it.
    pub fn name(&self) -> String {
        self.lock().name.clone()
    }

    /// Why the crawler neither sweeps nor stands by; empty where it does.
    pub fn waiting_for(&self) -> String {
        self.lock().waiting_for.clone()
    }

    /// Waits until a walk has found something that the collector has not answered for.
    pub async fn news(&self) {
        self.wake.notified().await;
    }

    /// A walk saw no fabric: the port has no link, or the device does not work.
    pub fn lose(&self) {
        self.lock().seen = None;
        self.wake.notify_one();
    }

    /// The collector, or its absence, has been heard for this sighting.
    pub fn answer(&self, sighting: &FabricSighting, name: Option<String>, waiting_for: String) {
        let mut state = self.lock();
        state.answered = state.answered.max(sighting.number);
        state.waiting_for = waiting_for;
        if let Some(name) = name {
            state.name = name;
        }
        self.changed.notify_all();
    }

    /// The crawler neither sweeps nor stands by, for this reason.
    pub fn wait_for(&self, reason: String) {
        self.lock().waiting_for = reason;
    }

    /// What to do with the topology of a walk: waits for the collector's answer where its switches are others than before.
    pub fn decide(&self, found: FabricFingerprint, leader: &LeaderState, stop: &Stop) -> PublishDecision {
        let found = Arc::new(found);
        let mut state = self.lock();
        state.walks += 1;
        let (now, number) = (Instant::now(), state.walks);
        let since = state.seen.as_ref().filter(|seen| seen.fingerprint.guids() == found.guids());
        let since = since.map_or(now, |seen| seen.since);
        state.seen = Some(FabricSighting { fingerprint: found.clone(), since, last: now, number });
        let is_same = state.current.as_ref().is_some_and(|current| current.guids() == found.guids());
        if is_same && leader.role() == Role::Active {
            state.current = Some(found);
            return PublishDecision::Publish;
        }
        self.wake.notify_one();
        let name = state.name.clone();
        while state.answered < number && now.elapsed() < ANSWER_WAIT && !stop.is_set() {
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        if leader.role() != Role::Active {
            return PublishDecision::Hold;
        }
        let common =
            |current: &Arc<FabricFingerprint>| CommonGuids::of(current.guids(), found.guids()).common;
        let is_other = state.current.as_ref().is_some_and(|current| common(current) == 0)
            || !name.is_empty() && state.name != name;
        state.current = Some(found);
        if is_other { PublishDecision::PublishAnew } else { PublishDecision::Publish }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(switches: &[u64]) -> FabricFingerprint {
        FabricFingerprint::of_guids(switches.iter().copied(), [])
    }

    /// Answers once for what is seen.
    fn answering(
        identity: &Arc<FabricIdentity>,
        leader: &Arc<LeaderState>,
        role: Role,
        name: &str,
    ) -> std::thread::JoinHandle<()> {
        let (identity, leader, name) = (identity.clone(), leader.clone(), name.to_owned());
        let before = identity.lock().walks;
        std::thread::spawn(move || {
            while identity.lock().walks == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            leader.set(role);
            let seen = identity.seen().unwrap();
            identity.answer(&seen, Some(name), String::new());
        })
    }

    #[test]
    fn other_switches_wait_for_an_answer_and_the_same_do_not() {
        let (identity, leader, stop) =
            (Arc::new(FabricIdentity::default()), Arc::new(LeaderState::default()), Stop::default());
        let answer = answering(&identity, &leader, Role::Active, "a");
        assert_eq!(identity.decide(of(&[1, 2]), &leader, &stop), PublishDecision::Publish);
        answer.join().unwrap();
        // Nobody answers, and nobody has to.
        let late = FabricFingerprint { subnet_prefix: 7, ..of(&[1, 2]) };
        assert_eq!(identity.decide(late.clone(), &leader, &stop), PublishDecision::Publish);
        assert_eq!(*identity.current().unwrap(), late, "a prefix that was set late");
        let answer = answering(&identity, &leader, Role::Waiting, "a");
        assert_eq!(identity.decide(of(&[1, 2, 3, 4]), &leader, &stop), PublishDecision::Hold);
        answer.join().unwrap();
        assert_eq!(identity.current().unwrap().guids(), [1, 2], "batches are still of the last topology");
        let answer = answering(&identity, &leader, Role::Active, "b");
        assert_eq!(identity.decide(of(&[7]), &leader, &stop), PublishDecision::PublishAnew);
        answer.join().unwrap();
        identity.lose();
        assert!(identity.seen().is_none());
    }
}
