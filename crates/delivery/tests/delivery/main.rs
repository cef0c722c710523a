//! The ship loop against sinks that misbehave, and the gRPC client against a small server.
#![allow(clippy::unwrap_used, missing_docs)]

mod refused;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use throughline_delivery::wire::collect_server::{Collect, CollectServer};
use throughline_delivery::wire::{
    ClockAnswer, ClockRequest, LeaseRequest, LeaseResponse, PutRequest, PutResponse,
};
use throughline_delivery::{
    Ack, Answer, Connecting, GrpcSink, Leases, OnRefusal, Reason, Session, ShipStats, Sink, ship,
};
use throughline_spool::{Class, Config, Entry, Spool};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

/// Generous: tests wait for conditions.
const DEADLINE: Duration = Duration::from_secs(60);

type Received = Arc<Mutex<Vec<u64>>>;

/// Acknowledges, and breaks the session after every few entries.
struct Flaky {
    received: Received,
    entries_per_session: usize,
}

impl Sink for Flaky {
    fn connect(&self, _: OnRefusal) -> Connecting<'_> {
        let (entries, mut queue) = mpsc::channel::<Entry>(4);
        let (sent, answers) = mpsc::channel(4);
        let (received, limit) = (self.received.clone(), self.entries_per_session);
        tokio::spawn(async move {
            for count in 0.. {
                let Some(entry) = queue.recv().await else { return };
                received.lock().unwrap().push(entry.sequence);
                if count + 1 == limit {
                    return; // The last one is committed, and its acknowledgement lost.
                }
                let ack = Ack { spool_id: entry.spool_id, sequence: entry.sequence };
                if sent.send(Ok(Answer::Stored(ack))).await.is_err() {
                    return;
                }
            }
        });
        Box::pin(async { Ok(Session { entries, answers }) })
    }

    fn name(&self) -> String {
        "flaky".into()
    }
}

fn fill(spool: &Spool, count: u64) {
    for n in 0..count {
        spool.append(n.to_le_bytes().to_vec(), Class::Precious).unwrap();
    }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(tokio::time::Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn broken_sessions_repeat_what_was_not_acknowledged_and_skip_nothing() {
    let spool = Spool::in_memory(Config::default()).unwrap();
    fill(&spool, 100);
    let received = Received::default();
    let sink = Flaky { received: received.clone(), entries_per_session: 7 };
    let (stop, stats) = (CancellationToken::new(), Arc::new(ShipStats::default()));
    let task = tokio::spawn({
        let (spool, stop, stats) = (spool.clone(), stop.clone(), stats.clone());
        async move { ship(&spool, &sink, stop, &stats).await }
    });
    until("emptying the spool", || spool.stats().backlog_entries <= 1).await;
    stop.cancel();
    task.await.unwrap();
    let received = received.lock().unwrap().clone();
    let mut highest = 0;
    for sequence in received {
        assert!(sequence <= highest + 1, "{sequence} came before {}", highest + 1);
        highest = highest.max(sequence);
    }
    assert_eq!(highest, 100);
    assert!(stats.failures(Reason::Lost) > 10);
}

#[tokio::test]
async fn a_sink_that_acknowledges_what_it_never_got_is_not_believed() {
    struct Liar;
    impl Sink for Liar {
        fn connect(&self, _: OnRefusal) -> Connecting<'_> {
            let (entries, mut queue) = mpsc::channel::<Entry>(4);
            let (sent, answers) = mpsc::channel(4);
            tokio::spawn(async move {
                let Some(entry) = queue.recv().await else { return };
                let ack = Ack { spool_id: entry.spool_id, sequence: entry.sequence + 1000 };
                let _ = sent.send(Ok(Answer::Stored(ack))).await;
            });
            Box::pin(async { Ok(Session { entries, answers }) })
        }
        fn name(&self) -> String {
            "liar".into()
        }
    }
    let spool = Spool::in_memory(Config::default()).unwrap();
    fill(&spool, 3);
    let (stop, stats) = (CancellationToken::new(), Arc::new(ShipStats::default()));
    let task = tokio::spawn({
        let (spool, stop, stats) = (spool.clone(), stop.clone(), stats.clone());
        async move { ship(&spool, &Liar, stop, &stats).await }
    });
    until("refusing the lie", || stats.failures(Reason::Protocol) > 0).await;
    assert_eq!(spool.acked(), 0);
    stop.cancel();
    task.await.unwrap();
}

/// Acknowledges everything it receives.
struct Server(Received);

#[tonic::async_trait]
impl Collect for Server {
    type PutStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<PutResponse, tonic::Status>> + Send>>;

    async fn put(
        &self,
        request: tonic::Request<tonic::Streaming<PutRequest>>,
    ) -> Result<tonic::Response<Self::PutStream>, tonic::Status> {
        let received = self.0.clone();
        let acks = request.into_inner().map(move |message| {
            let message = message?;
            received.lock().unwrap().push(message.sequence);
            Ok(PutResponse {
                spool_id: message.spool_id,
                acknowledged: message.sequence,
                refusal: None,
                detail: None,
            })
        });
        Ok(tonic::Response::new(Box::pin(acks)))
    }

    type ClockStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<ClockRequest, tonic::Status>> + Send>>;

    /// It measures no clocks.
    async fn clock(
        &self,
        _: tonic::Request<tonic::Streaming<ClockAnswer>>,
    ) -> Result<tonic::Response<Self::ClockStream>, tonic::Status> {
        Err(tonic::Status::unimplemented("no clocks here"))
    }

    async fn lease(
        &self,
        request: tonic::Request<LeaseRequest>,
    ) -> Result<tonic::Response<LeaseResponse>, tonic::Status> {
        let request = request.into_inner();
        if request.crawler.len() != 16 {
            return Err(tonic::Status::invalid_argument("crawler"));
        }
        let (granted, holder) = (!request.release, request.name);
        Ok(tonic::Response::new(LeaseResponse { granted, holder, ..LeaseResponse::default() }))
    }
}

#[tokio::test]
async fn over_grpc_with_a_collector_that_comes_late() {
    let spool = Spool::in_memory(Config::default()).unwrap();
    fill(&spool, 1500);
    // Taken and given back, so that nobody listens there yet.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sink = GrpcSink::new(&format!("http://{address}")).unwrap();
    let (stop, stats) = (CancellationToken::new(), Arc::new(ShipStats::default()));
    let task = tokio::spawn({
        let (spool, stop, stats) = (spool.clone(), stop.clone(), stats.clone());
        async move { ship(&spool, &sink, stop, &stats).await }
    });
    until("a failed attempt", || stats.failures(Reason::Connect) > 0).await;
    assert_eq!(spool.acked(), 0);
    let received = Received::default();
    let server =
        tonic::transport::Server::builder().add_service(CollectServer::new(Server(received.clone())));
    let server = tokio::spawn(server.serve(address));
    until("delivery", || spool.acked() == 1500).await;
    assert_eq!(*received.lock().unwrap(), (1..=1500).collect::<Vec<_>>());
    // Stopping delivers what was appended before.
    fill(&spool, 10);
    stop.cancel();
    task.await.unwrap();
    assert_eq!((spool.acked(), spool.stats().backlog_entries), (1510, 0));
    server.abort();
}

#[tokio::test]
async fn a_lease_is_asked_for_again_over_a_new_connection() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut leases = Leases::new(GrpcSink::new(&format!("http://{address}")).unwrap());
    let request = LeaseRequest { crawler: vec![7; 16].into(), name: "a".into(), ..LeaseRequest::default() };
    assert_eq!(leases.ask(request.clone()).await.unwrap_err().reason, Reason::Connect, "nobody there");
    let server =
        tonic::transport::Server::builder().add_service(CollectServer::new(Server(Received::default())));
    let server = tokio::spawn(server.serve(address));
    let mut answer = leases.ask(request.clone()).await;
    while matches!(&answer, Err(error) if error.reason == Reason::Connect) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        answer = leases.ask(request.clone()).await;
    }
    let answer = answer.unwrap();
    assert!(answer.granted && answer.holder == "a", "{answer:?}");
    let refused = leases.ask(LeaseRequest::default()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Refused);
    server.abort();
}

#[tokio::test]
async fn when_one_of_two_collectors_is_gone_the_other_takes_over() {
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let urls = listeners.each_ref().map(|listener| format!("http://{}", listener.local_addr().unwrap()));
    let received = Received::default();
    // Each with its connections in a runtime of its own, so that it ends with them as a killed process does.
    let mut servers = listeners.map(|listener| {
        listener.set_nonblocking(true).unwrap();
        let (runtime, received) = (tokio::runtime::Runtime::new().unwrap(), received.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
            let server = CollectServer::new(Server(received));
            tonic::transport::Server::builder().add_service(server).serve_with_incoming(incoming).await
        });
        Some(runtime)
    });
    let sink = GrpcSink::to_all(&urls, None).unwrap();
    let spool = Spool::in_memory(Config::default()).unwrap();
    let (stop, stats) = (CancellationToken::new(), Arc::new(ShipStats::default()));
    let task = tokio::spawn({
        let (spool, sink, stop, stats) = (spool.clone(), sink.clone(), stop.clone(), stats.clone());
        async move { ship(&spool, &sink, stop, &stats).await }
    });
    fill(&spool, 100);
    until("delivery", || spool.acked() == 100).await;
    let used = sink.name();
    let place = urls.iter().position(|url| *url == used).unwrap();
    servers[place].take().unwrap().shutdown_background();
    fill(&spool, 100);
    until("delivery to the other", || spool.acked() == 200).await;
    assert_eq!(sink.name(), urls[1 - place]);
    // Leases go there, too, whichever is first.
    for _ in 0..2 {
        let mut leases = Leases::new(GrpcSink::to_all(&urls, None).unwrap());
        let request =
            LeaseRequest { crawler: vec![7; 16].into(), name: "a".into(), ..LeaseRequest::default() };
        assert!(leases.ask(request).await.unwrap().granted);
    }
    stop.cancel();
    task.await.unwrap();
    servers[1 - place].take().unwrap().shutdown_background();
}
