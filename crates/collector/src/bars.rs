//! The list of barred nodes and certificates as this server knows it: read from the store again and again, and applied to new
//! streams, open ones, and batches.
//!
//! While the store is away the list that was read last holds. Nothing is read of a stream before the list was read once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use throughline_sample::admission::{NAME_BYTES_MAX, clean_text};
use throughline_store::{BarSubject, NodeBar, NodeBars};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::CommitError;
use crate::identity::Identity;

/// From one look at the list to the next: half of the time within which each server obeys it.
const INTERVAL: Duration = Duration::from_secs(5);

/// Names of certificates that wait to be noted; further ones are noted when their streams send again.
const SEEN_MAX: usize = 64 * 1024;

/// What the collector needs of the list; the store has it, and the tests have one in memory.
#[tonic::async_trait]
pub trait BarList: std::fmt::Debug + Send + Sync + 'static {
    /// All that is barred now.
    async fn barred(&self) -> Result<Vec<NodeBar>, CommitError>;
    /// Certificates that sent records: node and serial number.
    async fn note(&self, seen: &[(String, String)]) -> Result<(), CommitError>;
}

#[tonic::async_trait]
impl BarList for tokio::sync::Mutex<NodeBars> {
    async fn barred(&self) -> Result<Vec<NodeBar>, CommitError> {
        let barred = self.lock().await.barred().await;
        barred.map_err(|error| CommitError::Away(error.to_string()))
    }

    async fn note(&self, seen: &[(String, String)]) -> Result<(), CommitError> {
        let noted = self.lock().await.note(seen).await;
        noted.map_err(|error| CommitError::Away(error.to_string()))
    }
}

/// What is barred, each with its reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Barred(HashMap<BarSubject, String>);

impl Barred {
    fn of(bars: Vec<NodeBar>) -> Self {
        Self(bars.into_iter().map(|bar| (bar.subject, bar.reason)).collect())
    }

    fn refusal(&self, subject: &BarSubject) -> Option<Status> {
        let reason = self.0.get(subject)?;
        let because = match reason.as_str() {
            "" => String::new(),
            reason => format!(" ({})", clean_text(reason, NAME_BYTES_MAX)),
        };
        Some(Status::permission_denied(format!(
            "{subject} is barred{because}; on the server's machine `throughline node unbar` lets it in again"
        )))
    }

    /// Why a sender is refused: any name of its certificate, or the certificate, is barred.
    ///
    /// # Errors
    /// It is.
    pub fn check(&self, identity: &Identity) -> Result<(), Status> {
        let Identity::Certified { names, serial, .. } = identity else { return Ok(()) };
        if self.0.is_empty() {
            return Ok(());
        }
        let mut subjects = names.iter().map(|name| BarSubject::Node(name.clone()));
        let refused = subjects.find_map(|subject| self.refusal(&subject));
        match refused.or_else(|| self.refusal(&BarSubject::Serial(serial.clone()))) {
            Some(status) => Err(status),
            None => Ok(()),
        }
    }

    /// The same of a batch's node, by any sender.
    ///
    /// # Errors
    /// It is barred.
    pub fn check_node(&self, node: &str) -> Result<(), Status> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.refusal(&BarSubject::Node(node.to_owned())).map_or(Ok(()), Err)
    }
}

/// What a stream watches: `None` until the list was read once.
pub(crate) type BarWatch = watch::Receiver<Option<Arc<Barred>>>;

/// The list of this server. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    list: Arc<watch::Sender<Option<Arc<Barred>>>>,
    seen: Arc<Mutex<HashSet<(String, String)>>>,
    is_noted: bool,
}

impl Bars {
    /// Of a collector that has a list, or none: there nobody is barred.
    pub fn new(has_list: bool) -> Self {
        let first = (!has_list).then(Arc::default);
        Self { list: Arc::new(watch::Sender::new(first)), seen: Arc::default(), is_noted: has_list }
    }

    pub fn watch(&self) -> BarWatch {
        self.list.subscribe()
    }

    /// Whether a new stream of this sender is refused, as far as the list is known.
    ///
    /// # Errors
    /// It is.
    pub fn check(&self, identity: &Identity) -> Result<(), Status> {
        self.list.borrow().as_ref().map_or(Ok(()), |barred| barred.check(identity))
    }

    /// A certificate sends records as a node, or as a crawler.
    pub fn note(&self, identity: &Identity, node: &str) {
        let Identity::Certified { names, serial, .. } = identity else { return };
        let node = if node.is_empty() { names.first().map_or("", String::as_str) } else { node };
        let mut seen = self.lock();
        if self.is_noted && seen.len() < SEEN_MAX {
            seen.insert((node.to_owned(), serial.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        // A panic elsewhere leaves a set of names at worst.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, bars: Vec<NodeBar>) {
        let barred = Barred::of(bars);
        self.list.send_if_modified(|list| {
            let is_first = list.is_none();
            let before = list.take().unwrap_or_default();
            let changed: Vec<&BarSubject> =
                barred.0.keys().filter(|subject| !before.0.contains_key(*subject)).collect();
            for subject in changed {
                tracing::warn!(%subject, reason = barred.0[subject], "barred: its streams end");
            }
            for subject in before.0.keys().filter(|subject| !barred.0.contains_key(*subject)) {
                tracing::warn!(%subject, "no longer barred");
            }
            let is_new = *before != barred;
            *list = Some(if is_new { Arc::new(barred) } else { before });
            // 16,000 streams are not woken for nothing.
            is_first || is_new
        });
    }

    /// Reads the list until `stop`.
    pub async fn read(self, list: Arc<dyn BarList>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            match self.exchange(&*list).await {
                Ok(()) => is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(%error, "the list of barred nodes can't be read: the last one holds");
                    }
                }
            }
        }
    }

    async fn exchange(&self, list: &dyn BarList) -> Result<(), CommitError> {
        self.update(list.barred().await?);
        let seen: Vec<_> = std::mem::take(&mut *self.lock()).into_iter().collect();
        if seen.is_empty() {
            return Ok(());
        }
        let noted = list.note(&seen).await;
        if noted.is_err() {
            self.lock().extend(seen);
        }
        noted
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn bar(subject: BarSubject) -> NodeBar {
        let since = SystemTime::UNIX_EPOCH;
        NodeBar { subject, since, barred_by: "root".into(), reason: "stolen".into() }
    }

    fn certified(names: &[&str], serial: &str) -> Identity {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Identity::Certified { names, crawler: None, serial: serial.to_owned() }
    }

    #[test]
    fn attack_23_a_certificate_is_refused_by_any_of_its_names_and_by_its_number() {
        let barred =
            Barred::of(vec![bar(BarSubject::Node("n1".into())), bar(BarSubject::Serial("a1".into()))]);
        let refused = barred.check(&certified(&["login", "n1"], "7")).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(refused.message().contains("node n1 is barred (stolen)"), "{refused}");
        assert!(barred.check(&certified(&["n2"], "a1")).unwrap_err().message().contains("certificate a1"));
        assert!(barred.check(&certified(&["n2"], "a2")).is_ok());
        assert!(barred.check(&Identity::Local { uid: Some(0) }).is_ok());
        assert!(barred.check_node("n1").is_err() && barred.check_node("n2").is_ok());
    }

    #[test]
    fn streams_learn_of_each_change() {
        let bars = Bars::new(true);
        let mut watch = bars.watch();
        assert!(watch.borrow_and_update().is_none() && bars.check(&certified(&["n1"], "1")).is_ok());
        bars.update(Vec::new());
        assert!(watch.has_changed().unwrap() && watch.borrow_and_update().is_some());
        bars.update(vec![bar(BarSubject::Node("n1".into()))]);
        assert!(watch.has_changed().unwrap() && bars.check(&certified(&["n1"], "1")).is_err());
        bars.update(Vec::new());
        assert!(bars.check(&certified(&["n1"], "1")).is_ok());
        watch.borrow_and_update();
        bars.update(Vec::new());
        assert!(!watch.has_changed().unwrap());
        assert!(Bars::new(false).watch().borrow().is_some());
    }
}
