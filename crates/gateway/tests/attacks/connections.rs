//! Attack 5 on the role query: connections that never speak, and more of them than anybody needs.

use crate::site::{STRANGER, Site, status};
use std::collections::BTreeSet;
use throughline_gateway::access::Access;
use throughline_gateway::listen::{CONNECTIONS_EACH_MAX, CONNECTIONS_STRANGER_MAX};
use throughline_gateway::read::Limits;
use throughline_sample::catalogue::CONNECTIONS_REJECTED;
use throughline_store::Database;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn attack_05_silent_connections_of_readers_hold_up_nobody() {
    let site = Site::nowhere(Access::default()).await;
    let mut silent = Vec::new();
    for _ in 0..700 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        // One that has given its place to another is closed while it writes.
        _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHos").await;
        silent.push(stream);
    }
    for _ in 0..10 {
        assert_eq!(status(&site.get("/healthz", &[]).await), 200);
        if let Some(answer) = site.get_as(STRANGER, "/healthz", "").await {
            assert_eq!(status(&answer), 200, "{answer}");
        }
    }
    // Closed are those that had no place left, the longest silent first; the newest are as they were.
    let mut closed = 0;
    for stream in &mut silent[..700 - CONNECTIONS_EACH_MAX] {
        let mut answer = [0; 1];
        closed += usize::from(matches!(stream.read(&mut answer).await, Ok(0) | Err(_)));
    }
    assert_eq!(closed, 700 - CONNECTIONS_EACH_MAX);
    assert!(site.count(("query", "peer"), &CONNECTIONS_REJECTED) >= 572.0);
    let newest = silent.last_mut().unwrap();
    newest.write_all(b"t: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    newest.read_to_string(&mut answer).await.unwrap();
    assert_eq!(status(&answer), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_05_who_has_the_most_connections_loses_them_when_all_places_are_taken() {
    let nowhere = Database::from_url("host=/nonexistent user=a dbname=b").unwrap();
    let limits = Limits { connections: 20, ..Limits::default() };
    let site = Site::new(nowhere, limits, Access { local_users: BTreeSet::new(), ..Access::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(site.address).await.unwrap());
    }
    for _ in 0..CONNECTIONS_STRANGER_MAX {
        let Some(answer) = site.get_as(STRANGER, "/healthz", "").await else { break };
        assert_eq!(status(&answer), 200, "{answer}");
    }
    let mut closed = 0;
    for stream in &mut silent[..280] {
        let mut answer = [0; 1];
        closed += usize::from(matches!(stream.read(&mut answer).await, Ok(0) | Err(_)));
    }
    assert_eq!(closed, 280);
    assert!(site.count(("query", "total"), &CONNECTIONS_REJECTED) >= 280.0);
}
