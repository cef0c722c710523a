//! What a sender's entries take in memory, by the allocator's own count: alone in its process.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "collector/site.rs"]
mod site;

use peak_alloc::PeakAlloc;
use site::*;
use throughline_sample::Message;
use throughline_sample::wire::*;
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The bound of the collector's queue.
const QUEUE_BYTES: usize = 128 << 20;

/// An entry may have 4 MiB with what is around it.
const ENTRY_BYTES: usize = (4 << 20) - 256;

#[tokio::test(flavor = "multi_thread")]
async fn attack_09_empty_messages_take_no_more_than_the_queue_has() {
    let site = Site::start().await;
    // Four million bytes of one kind of empty message after the node's name, or as many as are decoded at all.
    let node = Batch { node: "evil".into(), ..Batch::default() }.encode_to_vec();
    let of_empty = |field: u8, bytes: usize| {
        // Keys of fields 16 and up have two bytes.
        let message = [field << 3 & 0x7f | 0x82, field >> 4, 0];
        [node.clone(), message.repeat((bytes - node.len()) / 3)].concat()
    };
    let (event_field, stat_field, job_field) = (18, 20, 33);
    let payloads = [
        of_empty(event_field, ENTRY_BYTES),
        of_empty(job_field, ENTRY_BYTES),
        // Decoded, and rejected one by one.
        of_empty(stat_field, 3 * 250_000),
        of_empty(event_field, 3 * 100_000),
    ];
    let largest = payloads.iter().map(|payload| Batch::decode(&payload[..300]).unwrap().encoded_len()).max();
    assert!(largest.unwrap() > 200, "they are batches");
    let honest = site.ship("good");
    PeakAlloc.reset_peak_usage();
    let before = PeakAlloc.current_usage();
    let attackers: Vec<Vec<(Uuid, u64, Vec<u8>)>> = (0..8)
        .map(|attacker| {
            let spool = Uuid::new_v4();
            (0..3).map(|n| (spool, n + 1, payloads[(attacker + n as usize) % 4].clone())).collect()
        })
        .collect();
    let of_senders = PeakAlloc.current_usage() - before;
    let attack = async {
        for entries in attackers.chunks(4) {
            let sent = entries.iter().map(|entries| site.put("evil", entries));
            for done in futures_of(sent).await {
                done.unwrap();
            }
        }
    };
    let work = async {
        for n in 0..50 {
            let batch =
                Batch { node: "good".into(), events: vec![event(now() + n, "good")], ..Batch::default() };
            honest.append(&batch);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::join!(attack, work);
    honest.end().await;
    let peak = PeakAlloc.peak_usage() - before - of_senders;
    println!("{} MiB at most, of a queue of {} MiB", peak >> 20, QUEUE_BYTES >> 20);
    assert!(peak < 3 * QUEUE_BYTES, "{} MiB", peak >> 20);
    assert_eq!(site.number("SELECT count(*) FROM internal.events WHERE instance = 'good'").await, 50);
    // Twelve were not decoded; of the others each record was rejected for its name.
    assert_eq!(site.rejected("size"), 12);
    assert_eq!(site.rejected("name"), 6 * (250_000 - 2 + 100_000 - 2));
    assert_eq!(site.number("SELECT count(*) FROM internal.batch_quarantine").await, 12);
    let bytes = "SELECT max(octet_length(batch))::bigint FROM internal.batch_quarantine";
    assert!(site.number(bytes).await <= 64 << 10);
    site.end().await;
}

async fn futures_of<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        pending.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(result) => {
                done.push(result);
                false
            }
            std::task::Poll::Pending => true,
        });
        if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}
