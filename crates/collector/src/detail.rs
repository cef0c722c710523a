//! Detail on demand on its way down: requests in the database are sent to the agents and crawlers that are connected here.
//!
//! Any collector may have a node's agent, so each looks at all open requests and sends those of its own senders. A request is
//! sent once over each stream: an agent that was started again, or that comes to another collector, gets it again, and
//! answers it from its begin or not at all where it has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_delivery::wire::{DetailPort, DetailRequest, PutResponse};
use throughline_store::{DetailOrder, DetailPlace, DetailQueue};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::CommitError;

/// How often it is looked for requests: half of the time that people notice.
const INTERVAL: Duration = Duration::from_millis(500);

/// Rounds from one look for expired requests to the next.
const EXPIRE_ROUNDS: u32 = 10;

/// What the collector needs of the requests; the store has them, and the tests have some in memory.
#[tonic::async_trait]
pub trait DetailOrders: Send + 'static {
    /// Those that are open.
    async fn open(&mut self) -> Result<Vec<DetailOrder>, CommitError>;
    /// They were sent: number and node.
    async fn note_sent(&mut self, sent: &[(i64, i64)]) -> Result<(), CommitError>;
    /// The agents or crawlers do not understand them.
    async fn refuse(&mut self, refused: &[(i64, i64)]) -> Result<(), CommitError>;
    /// Ends those that have expired.
    async fn expire(&mut self) -> Result<(), CommitError>;
}

fn away(error: throughline_store::Error) -> CommitError {
    CommitError::Away(error.to_string())
}

#[tonic::async_trait]
impl DetailOrders for DetailQueue {
    async fn open(&mut self) -> Result<Vec<DetailOrder>, CommitError> {
        DetailQueue::open(self).await.map_err(away)
    }

    async fn note_sent(&mut self, sent: &[(i64, i64)]) -> Result<(), CommitError> {
        DetailQueue::note_sent(self, sent).await.map_err(away)
    }

    async fn refuse(&mut self, refused: &[(i64, i64)]) -> Result<(), CommitError> {
        DetailQueue::refuse(self, refused).await.map_err(away)
    }

    async fn expire(&mut self) -> Result<(), CommitError> {
        DetailQueue::expire(self).await.map(drop).map_err(away)
    }
}

/// A collector without detail on demand.
pub struct NoDetail;

#[tonic::async_trait]
impl DetailOrders for NoDetail {
    async fn open(&mut self) -> Result<Vec<DetailOrder>, CommitError> {
        Ok(Vec::new())
    }

    async fn note_sent(&mut self, _: &[(i64, i64)]) -> Result<(), CommitError> {
        Ok(())
    }

    async fn refuse(&mut self, _: &[(i64, i64)]) -> Result<(), CommitError> {
        Ok(())
    }

    async fn expire(&mut self) -> Result<(), CommitError> {
        Ok(())
    }
}

/// A request by its number, and a node.
type NodeRequest = (i64, i64);

type Acks = mpsc::Sender<Result<PutResponse, Status>>;

/// What of a request may change.
#[derive(PartialEq)]
struct SentRequest {
    expires: SystemTime,
    ranks: Arc<[u32]>,
    is_all_ranks: bool,
}

/// A stream whose sender is known.
struct Route {
    place: DetailPlace,
    /// How far the sender's clock is ahead, nanoseconds: its records have its own times.
    offset: i64,
    acks: Acks,
    /// Whether requests go over it; `None` where its sender does not understand them.
    takes_detail: Option<bool>,
    /// Requests as they were sent over it: they are sent again where they were renewed.
    sent: HashMap<i64, SentRequest>,
}

/// The streams of agents and crawlers by their number. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Routes(Arc<Mutex<HashMap<u64, Route>>>);

impl Routes {
    /// A stream delivers for a node or as a crawler, which its certificate allows.
    pub fn enter(
        &self,
        stream: u64,
        place: DetailPlace,
        offset: i64,
        acks: &Acks,
        takes_detail: Option<bool>,
    ) {
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let route = routes.entry(stream).or_insert_with(|| Route {
            place: place.clone(),
            offset,
            acks: acks.clone(),
            takes_detail,
            sent: HashMap::new(),
        });
        route.offset = offset;
        if route.place != place {
            route.place = place;
            route.sent.clear();
        }
    }

    /// A stream has ended.
    pub fn leave(&self, stream: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream);
    }

    /// Sends what was not sent yet over the streams of those who have it. Requests that were sent for the first time, and those
    /// that no stream of their sender understands.
    fn send(&self, orders: &[DetailOrder]) -> (Vec<NodeRequest>, Vec<NodeRequest>) {
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for route in routes.values_mut() {
            route.sent.retain(|id, _| orders.iter().any(|order| order.id == *id));
        }
        let (mut sent, mut refused) = (Vec::new(), Vec::new());
        for order in orders {
            let (mut is_here, mut is_understood) = (false, false);
            for route in routes.values_mut().filter(|route| route.place == order.place) {
                is_here = true;
                is_understood |= route.takes_detail.is_some();
                if route.takes_detail != Some(true) {
                    continue;
                }
                let (ranks, is_all_ranks) = (order.ranks.clone(), order.is_all_ranks);
                let now = SentRequest { expires: order.expires, ranks, is_all_ranks };
                if route.sent.get(&order.id) == Some(&now) {
                    continue;
                }
                // A sender that reads no answers gets it with a later round.
                if route.acks.try_send(Ok(response(order, route.offset))).is_ok() {
                    route.sent.insert(order.id, now);
                    if order.is_new {
                        sent.push((order.id, order.node));
                    }
                }
            }
            if is_here && !is_understood && order.is_new {
                refused.push((order.id, order.node));
            }
        }
        (sent, refused)
    }
}

/// A request by the clock of its receiver, which is so far ahead.
fn response(order: &DetailOrder, offset: i64) -> PutResponse {
    #[allow(clippy::cast_possible_truncation)] // An hour of nanoseconds is far below.
    let resolution = (order.resolution.clamp(0.0, 86_400.0) * 1e9) as i64;
    let request = DetailRequest {
        id: order.id.unsigned_abs(),
        job_key: order.job_key.clone().unwrap_or_default(),
        from: nanoseconds(order.from).saturating_add(offset),
        to: nanoseconds(order.to).saturating_add(offset),
        resolution,
        records_max: order.records_max,
        expires: nanoseconds(order.expires).saturating_add(offset),
        is_live: order.is_live,
        ports: order
            .ports
            .iter()
            .map(|(node_guid, port)| DetailPort { node_guid: *node_guid, port: *port })
            .collect(),
        ranks: order.ranks.to_vec(),
        is_all_ranks: order.is_all_ranks,
    };
    PutResponse { detail: Some(request), ..PutResponse::default() }
}

fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Sends requests until `stop`. A database that is away is tried again with the next round: nothing else waits for it.
pub(crate) async fn run(routes: Routes, mut orders: impl DetailOrders, stop: CancellationToken) {
    let mut tick = interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut round = 0_u32;
    let mut is_failing = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        round = round.wrapping_add(1);
        let result = send(&routes, &mut orders, round.is_multiple_of(EXPIRE_ROUNDS)).await;
        match result {
            Ok(()) => is_failing = false,
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(%error, "requests for detail wait");
                }
            }
        }
    }
}

async fn send(routes: &Routes, orders: &mut impl DetailOrders, expires: bool) -> Result<(), CommitError> {
    if expires {
        orders.expire().await?;
    }
    let open = orders.open().await?;
    let (sent, refused) = routes.send(&open);
    if !sent.is_empty() {
        orders.note_sent(&sent).await?;
    }
    if !refused.is_empty() {
        orders.refuse(&refused).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn node(name: &str) -> DetailPlace {
        DetailPlace::Node(name.to_owned())
    }

    fn order(id: i64, number: i64, place: DetailPlace) -> DetailOrder {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        DetailOrder {
            id,
            node: number,
            place,
            job_key: Some("a".to_owned()),
            ports: Vec::new(),
            from: at(1),
            to: at(2),
            resolution: 0.1,
            records_max: 10,
            expires: at(100),
            is_live: false,
            ranks: Arc::default(),
            is_all_ranks: false,
            is_new: true,
        }
    }

    #[test]
    fn a_request_goes_once_over_each_stream_of_its_node() {
        let routes = Routes::default();
        let (acks, mut answers) = mpsc::channel(8);
        let (others, mut other_answers) = mpsc::channel(8);
        let acks_of_crawler = mpsc::channel(8);
        routes.enter(1, node("n1"), 0, &acks, Some(true));
        routes.enter(2, node("n2"), 0, &others, None);
        let orders = [order(5, 1, node("n1")), order(6, 2, node("n2")), order(7, 3, node("n3"))];
        assert_eq!(routes.send(&orders), (vec![(5, 1)], vec![(6, 2)]));
        let request = answers.try_recv().unwrap().unwrap().detail.unwrap();
        assert_eq!((request.id, request.job_key.as_str(), request.resolution), (5, "a", 100_000_000));
        assert!(other_answers.try_recv().is_err(), "it would take it for an acknowledgement");
        let sent = DetailOrder { is_new: false, ..order(5, 1, node("n1")) };
        assert_eq!(routes.send(std::slice::from_ref(&sent)), (Vec::new(), Vec::new()));
        assert!(answers.try_recv().is_err());
        let renewed = DetailOrder { expires: UNIX_EPOCH + Duration::from_secs(130), ..sent.clone() };
        routes.send(&[renewed]);
        assert_eq!(answers.try_recv().unwrap().unwrap().detail.unwrap().expires, 130_000_000_000);
        let of_ranks = DetailOrder { ranks: Arc::new([4, 7]), is_all_ranks: true, ..sent.clone() };
        routes.send(std::slice::from_ref(&of_ranks));
        let request = answers.try_recv().unwrap().unwrap().detail.unwrap();
        assert_eq!((request.ranks, request.is_all_ranks), (vec![4, 7], true));
        routes.send(&[of_ranks]);
        assert!(answers.try_recv().is_err());
        // Another stream of the node: its agent was started again.
        routes.leave(1);
        routes.enter(3, node("n1"), 0, &acks, Some(true));
        routes.send(&[sent]);
        assert!(answers.try_recv().is_ok());
        // Ports go to the crawler of their fabric.
        let (crawler, mut of_crawler) = (DetailPlace::Crawler(Uuid::from_u128(7)), acks_of_crawler.1);
        routes.enter(4, crawler.clone(), 0, &acks_of_crawler.0, Some(true));
        let ports = vec![(9, 1), (10, 2)];
        let (of_link, elsewhere) =
            (order(8, 0, crawler), order(9, 0, DetailPlace::Crawler(Uuid::from_u128(8))));
        let of_link = DetailOrder { job_key: None, ports, ..of_link };
        assert_eq!(routes.send(&[of_link, elsewhere]), (vec![(8, 0)], Vec::new()));
        let request = of_crawler.try_recv().unwrap().unwrap().detail.unwrap();
        assert_eq!(
            request.ports.iter().map(|port| (port.node_guid, port.port)).collect::<Vec<_>>(),
            [(9, 1), (10, 2)]
        );
        assert!(of_crawler.try_recv().is_err());
    }
}
