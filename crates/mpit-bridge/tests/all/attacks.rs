//! Attacks by users of a node on its receiver, through the real socket: each must harm nobody but the attacker.
//!
//! Users are threads that became another user. Where this process is not root, the tests are skipped.

mod support;

use crate::client::{Client, random};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Agent, BAD, GOOD, WORSE, as_user, is_root, names, ops, pvars, rank, trace};
use throughline_mpit_bridge::{Limits, Quota, QuotaLimits, Reason};
use throughline_sample::admission::Rejection;

const OPS: u16 = 3;
const PEERS: u16 = 4;
const PVARS: u16 = 5;
const NAMES: u16 = 8;
const REGIONS: u16 = 9;
const TRACE: u16 = 16;

/// An honest rank: so many bins, one each few milliseconds, whose calls count up from 1.
fn honest(socket: &Path, bins: u64, pause: Duration) {
    let mut client = rank(socket, 0, "honest");
    for calls in 1..=bins {
        client.operation(17, 14, calls, calls * 8).unwrap();
        std::thread::sleep(pause);
    }
    client.goodbye().unwrap();
}

/// That an honest rank's bins have come, each once and in order.
fn is_whole(calls: &[u64], bins: u64) -> bool {
    calls.iter().copied().eq(1..=bins)
}

/// Bins of each past hour, in frames of their own and between good ones: a chunk of the database for each.
#[tokio::test(flavor = "multi_thread")]
async fn attack_01_bins_dated_in_the_past() {
    if !is_root() {
        return;
    }
    let agent = Agent::start(Limits::default(), None);
    let (socket, honest_socket) = (agent.socket.clone(), agent.socket.clone());
    let good = as_user(GOOD, move || honest(&honest_socket, 100, Duration::from_millis(2)));
    let bad = as_user(BAD, move || {
        let mut client = rank(&socket, 0, "past");
        for hour in 1..=26 {
            client.frame(OPS, &ops(&[-hour * 3600 - 900], 1, 1, 0)).unwrap();
        }
        // One frame with a good bin between two bad ones.
        client.frame(OPS, &ops(&[-7200 - 900, 0, -86_400 * 365], 1, 77, 0)).unwrap();
        client.goodbye().unwrap();
    });
    good.join().unwrap();
    bad.join().unwrap();
    agent.until("both end", |all, _| all.ended.len() == 2).await;
    let all = agent.gathered.lock().unwrap();
    assert!(is_whole(&all.calls(GOOD), 100));
    assert_eq!(all.calls(BAD), [77], "the good bin of a bad frame");
    let status = agent.receiver.status();
    assert_eq!(status.rejected_for(Rejection::TimePast), 28);
    assert_eq!((status.rejected_for(Rejection::TimeFuture), status.malformed_messages()), (0, 0));
}

/// One frame a second dated 2200 set aside the records of all other users.
#[tokio::test(flavor = "multi_thread")]
async fn attack_02_frames_dated_2200() {
    if !is_root() {
        return;
    }
    const FAR: i64 = 174 * 365 * 86_400;
    let agent = Agent::start(Limits::default(), None);
    let (socket, honest_socket) = (agent.socket.clone(), agent.socket.clone());
    let good = as_user(GOOD, move || honest(&honest_socket, 120, Duration::from_millis(2)));
    let bad = as_user(BAD, move || {
        let mut client = rank(&socket, 0, "future");
        client.frame(NAMES, &names(1..3, 8)).unwrap();
        let at = crate::client::monotonic().saturating_add(FAR * 1_000_000_000).to_le_bytes();
        for round in 0..20 {
            client.frame(OPS, &ops(&[FAR, 0, 121, i64::MAX], 2, round + 1, 1)).unwrap();
            client.frame(PVARS, &pvars("x", 3, 1.0, FAR)).unwrap();
            client.frame(TRACE, &trace(3, 1, FAR)).unwrap();
            let peer = [at.to_vec(), vec![1, 0, 0, 0, 0, 0, 0, 0], vec![1; 16]].concat();
            client.frame(PEERS, &peer).unwrap();
            let region = [at.to_vec(), vec![1, 0, 0, 0, 0, 0, 0, 0], vec![0; 40]].concat();
            client.frame(REGIONS, &region).unwrap();
            let setting = [at.to_vec(), vec![4, 0, 3, 0], vec![0; 12], b"a=b".to_vec()].concat();
            client.frame(NAMES, &setting).unwrap();
        }
        client.goodbye().unwrap();
    });
    good.join().unwrap();
    bad.join().unwrap();
    agent.until("both end", |all, _| all.ended.len() == 2).await;
    let all = agent.gathered.lock().unwrap();
    assert!(is_whole(&all.calls(GOOD), 120));
    assert_eq!(all.calls(BAD), (1..=20).collect::<Vec<_>>(), "his bins of now");
    assert_eq!((all.pvars.get(&BAD), all.other.get(&BAD)), (None, None));
    let status = agent.receiver.status();
    // Of each round three bins, three trace records, and four frames with one time.
    assert_eq!(status.rejected_for(Rejection::TimeFuture), 20 * 10);
    assert_eq!(status.malformed_messages(), 0);
}

/// Many ranks, cells and long names of one user: he is read at his rate, whole; others at theirs.
#[tokio::test(flavor = "multi_thread")]
async fn attack_03_one_user_fills_the_agent() {
    if !is_root() {
        return;
    }
    const RANKS: u32 = 12;
    const CELLS: u16 = 900;
    let quota = QuotaLimits {
        rows_per_second_of_user: 10_000,
        calm: Duration::from_secs(1),
        ..QuotaLimits::default()
    };
    let limits = Limits { quota, reconnect: Duration::from_millis(500), ..Limits::default() };
    let agent = Agent::start(limits, None);
    let (socket, honest_socket) = (agent.socket.clone(), agent.socket.clone());
    let over = Arc::new(AtomicBool::new(false));
    let stop = over.clone();
    let bad = as_user(BAD, move || {
        let mut clients: Vec<_> = (0..RANKS)
            .map(|number| {
                let mut client = rank(&socket, number, &format!("flood {number}"));
                client.frame(NAMES, &names(1..230, 240)).unwrap();
                client.set_nonblocking();
                client
            })
            .collect();
        let mut sent = vec![0_u64; clients.len()];
        while !stop.load(Ordering::Relaxed) {
            for (client, sent) in clients.iter_mut().zip(&mut sent) {
                // The socket is full: as a shim does, the next sums say what these would have.
                *sent += u64::from(client.frame(OPS, &ops(&[0], CELLS, *sent + 1, 7)).is_ok());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        (clients, sent)
    });
    let good = as_user(GOOD, move || honest(&honest_socket, 300, Duration::from_millis(10)));
    let (mut highest, mut named) = (0, false);
    while !good.is_finished() {
        let status = agent.receiver.status();
        highest = highest.max(status.waiting_bytes);
        named |= status.over_quota.iter().any(|user| user.uid == BAD && user.quotas.contains(&"rows"));
        assert!(status.over_quota.iter().all(|user| user.uid == BAD), "{status:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    good.join().unwrap();
    agent.until("the honest rank ends", |all, _| all.ended.contains_key(&GOOD)).await;
    assert!(is_whole(&agent.gathered.lock().unwrap().calls(GOOD), 300));
    over.store(true, Ordering::Relaxed);
    let (clients, sent) = bad.join().unwrap();
    let frames: u64 = sent.iter().sum();
    let cells = usize::try_from(frames).unwrap() * usize::from(CELLS);
    // What his sockets took comes whole and in order, so that his last sums are there.
    agent.until("the flood is read", |all, _| all.cells(BAD) >= cells).await;
    {
        let all = agent.gathered.lock().unwrap();
        assert_eq!(all.cells(BAD), cells);
        for (number, sent) in (0_u32..).zip(&sent) {
            let of_rank = all.bins[&BAD].iter().filter(|bin| bin.0 == number);
            assert_eq!(of_rank.map(|bin| bin.2).max(), Some(*sent), "the last sum of rank {number}");
        }
    }
    drop(clients);
    agent.until("the flood ends", |all, _| all.ended.get(&BAD) == Some(&(RANKS as usize))).await;
    agent
        .until("he is reported to be within", |all, status| {
            all.events.len() == 2 && status.over_quota_users == 0
        })
        .await;
    let status = agent.receiver.status();
    assert!(named && status.held_up_by(Quota::Rows) > 0, "{status:#?}");
    assert_eq!((status.dropped_records, status.waiting_bytes), (0, 0));
    assert!(highest <= 4 << 20, "{highest}");
    let events = &agent.gathered.lock().unwrap().events;
    assert!(events.iter().all(|(kind, text)| kind == "mpi.quota" && text.contains("4002")), "{events:?}");
}

/// A new name for each region of each rank: each was a key of the database for as long as its rows are there.
#[tokio::test(flavor = "multi_thread")]
async fn attack_27_new_names_of_one_user() {
    if !is_root() {
        return;
    }
    const RANKS: u32 = 40;
    const NAMES_OF_RANK: u16 = 200;
    let agent = Agent::start(Limits::default(), None);
    let (socket, honest_socket) = (agent.socket.clone(), agent.socket.clone());
    let start = Instant::now();
    let bad = as_user(BAD, move || {
        for number in 0..RANKS {
            let mut client = rank(&socket, number, "names");
            // Each with another length, so that no two ranks have one name.
            let length = 10 + number as usize;
            client.frame(NAMES, &names(1..NAMES_OF_RANK + 1, length)).unwrap();
            for region in 1..=NAMES_OF_RANK {
                client.frame(OPS, &ops(&[0], 1, 1, region)).unwrap();
            }
            client.goodbye().unwrap();
        }
    });
    bad.join().unwrap();
    let good = as_user(GOOD, move || {
        let mut client = rank(&honest_socket, 0, "honest");
        client.frame(NAMES, &names(1..11, 300 - 60)).unwrap();
        for region in 1..11 {
            client.frame(OPS, &ops(&[0], 1, 5, region)).unwrap();
        }
        client.goodbye().unwrap();
    });
    good.join().unwrap();
    agent
        .until("all end", |all, _| {
            all.ended.get(&BAD) == Some(&(RANKS as usize)) && all.ended.contains_key(&GOOD)
        })
        .await;
    let seconds = start.elapsed().as_secs() + 1;
    let all = agent.gathered.lock().unwrap();
    let (numbered, named): (Vec<_>, Vec<_>) =
        all.regions[&BAD].keys().partition(|name| name.starts_with('('));
    let named_max = 20 * (100 + seconds as usize);
    assert!((1000..=named_max).contains(&named.len()), "{} in {seconds} s", named.len());
    assert_eq!(numbered.len(), usize::from(NAMES_OF_RANK), "by number: the same for all ranks");
    assert_eq!(all.cells(BAD), (RANKS * u32::from(NAMES_OF_RANK)) as usize, "no call is lost");
    assert!(all.regions[&GOOD].keys().all(|name| !name.starts_with('(')) && all.regions[&GOOD].len() == 10);
    let status = agent.receiver.status();
    let wanted = u64::from(RANKS) * u64::from(NAMES_OF_RANK);
    assert_eq!(status.held_up_by(Quota::NewNames) + named.len() as u64, wanted);
    assert_eq!((status.unknown_names, status.dropped_records), (0, 0));
}

/// Readings of one user that nobody requested, and too many of those that somebody did.
#[tokio::test(flavor = "multi_thread")]
async fn attack_10_performance_variables_of_one_user() {
    if !is_root() {
        return;
    }
    let quota = QuotaLimits { pvars_per_second_of_user: 1000, ..QuotaLimits::default() };
    let variables = Some(vec!["listed_*".to_owned()]);
    let agent = Agent::start(Limits { quota, ..Limits::default() }, variables);
    let (socket, honest_socket) = (agent.socket.clone(), agent.socket.clone());
    let start = Instant::now();
    let bad = as_user(BAD, move || {
        let mut client = rank(&socket, 0, "readings");
        let mut sent = 0_u64;
        while start.elapsed() < Duration::from_secs(3) {
            client.frame(PVARS, &pvars("listed_one", 4000, 1.0, 0)).unwrap();
            client.frame(PVARS, &pvars("another", 4000, 1.0, 0)).unwrap();
            sent += 4000;
        }
        client.goodbye().unwrap();
        sent
    });
    let good = as_user(GOOD, move || {
        let mut client = rank(&honest_socket, 0, "honest");
        for value in 1..=100 {
            client.frame(PVARS, &pvars("listed_two", 1, f64::from(value), 0)).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        client.goodbye().unwrap();
    });
    good.join().unwrap();
    let sent = bad.join().unwrap();
    agent.until("both end", |all, _| all.ended.len() == 2).await;
    let seconds = start.elapsed().as_secs();
    let all = agent.gathered.lock().unwrap();
    let values = all.pvars[&GOOD].iter().map(|(_, value)| *value);
    assert!(values.eq((1..=100).map(f64::from)), "each of the honest rank's");
    let taken = all.pvars[&BAD].len() as u64;
    assert!(all.pvars[&BAD].iter().all(|(name, _)| name == "listed_one"));
    assert!((1..=1000 * (seconds + 5)).contains(&taken), "{taken} in {seconds} s");
    let status = agent.receiver.status();
    assert_eq!(status.rejected_for(Rejection::Quota) + taken, sent);
    assert_eq!((status.unlisted_variables, status.rejected_for(Rejection::Name)), (sent, sent));
}

/// Two users who connect and close: the socket refused everybody for 45 s.
#[tokio::test(flavor = "multi_thread")]
async fn attack_11_two_users_connect_and_close() {
    if !is_root() {
        return;
    }
    let quota = QuotaLimits { ghosts: 64, ..QuotaLimits::default() };
    let agent = Agent::start(Limits { connections: 64, quota, ..Limits::default() }, None);
    let over = Arc::new(AtomicBool::new(false));
    let made = Arc::new(AtomicU64::new(0));
    let attackers = [(BAD, true), (WORSE, false)].map(|(uid, says_hello)| {
        let (socket, over, made) = (agent.socket.clone(), over.clone(), made.clone());
        as_user(uid, move || {
            let mut number = 0;
            let mut silent = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let Ok(mut client) = Client::connect(&socket) else { continue };
                made.fetch_add(1, Ordering::Relaxed);
                number += 1;
                if says_hello {
                    let _ = client.hello(0, 1, &format!("job {number}"));
                } else if silent.len() < 100 {
                    silent.push(client); // and some that stay and say nothing
                }
            }
        })
    });
    while made.load(Ordering::Relaxed) < 5000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let honest_socket = agent.socket.clone();
    // Not one of his is refused, and what he sends is handed over, while the others go on.
    let good = as_user(GOOD, move || {
        let clients: Vec<_> = (0..6).map(|number| rank(&honest_socket, number, "honest")).collect();
        for mut client in clients {
            client.operation(17, 14, 5, 40).unwrap();
            client.goodbye().unwrap();
        }
    });
    tokio::task::spawn_blocking(move || good.join().unwrap()).await.unwrap();
    agent.until("all six end", |all, _| all.ended.get(&GOOD) == Some(&6)).await;
    assert_eq!(agent.gathered.lock().unwrap().calls(GOOD), [5; 6]);
    over.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().unwrap();
    }
    // Soon after it there is space for more than beside them: what they held is given back. Who is refused tries again,
    // as the shim does.
    let (socket, finished) = (agent.socket.clone(), Arc::new(AtomicBool::new(false)));
    let is_finished = finished.clone();
    let again = as_user(GOOD, move || {
        let welcomed = |number| loop {
            let mut client = Client::connect(&socket).unwrap();
            if client.hello(number, 64, "again").is_ok() && client.is_answered() {
                return client;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let _clients: Vec<_> = (0..30).map(welcomed).collect();
        while !is_finished.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    agent.until("thirty connect again", |_, status| status.connected == 30).await;
    finished.store(true, Ordering::Relaxed);
    tokio::task::spawn_blocking(move || again.join().unwrap()).await.unwrap();
    let status = agent.receiver.status();
    let own = status.closed_for(Reason::TooManyOfUser) + status.closed_for(Reason::TooFast);
    assert!(own > 0, "{status:#?}");
    assert!(status.running_jobs <= 64 + 64, "connections and ghosts: {status:#?}");
}

/// Valid and invalid frames of one user in any order never take a record of another's.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_one_user_sends_another_ones_records_are_whole() {
    if !is_root() {
        return;
    }
    for seed in 1..=8 {
        let agent = Agent::start(Limits::default(), None);
        let (socket, honest_socket) = (agent.socket.clone(), agent.socket.clone());
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let bad = as_user(BAD, move || {
            let mut random = random(seed);
            while !stop.load(Ordering::Relaxed) {
                let mut client = rank(&socket, 1, &format!("noise {}", random() % 5));
                client.set_nonblocking();
                for _ in 0..random() % 60 {
                    noise(&mut client, &mut random);
                }
            }
        });
        let good = as_user(GOOD, move || honest(&honest_socket, 100, Duration::from_millis(3)));
        tokio::task::spawn_blocking(move || good.join().unwrap()).await.unwrap();
        agent.until("the honest rank ends", |all, _| all.ended.contains_key(&GOOD)).await;
        over.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(move || bad.join().unwrap()).await.unwrap();
        let all = agent.gathered.lock().unwrap();
        assert!(is_whole(&all.calls(GOOD), 100), "seed {seed}: {:?}", all.calls(GOOD));
    }
}

/// One frame: good, of another time, with impossible numbers, cut, or no frame at all.
fn noise(client: &mut Client, random: &mut impl FnMut() -> u64) {
    let number = random();
    let seconds = i64::try_from(number >> 8).unwrap() % 10_000_000_000 - 5_000_000_000;
    let cells = u16::try_from(number % 500).unwrap();
    let _ = match number % 11 {
        0..3 => client.frame(OPS, &ops(&[0, seconds, 0], cells / 4, number >> 1, 0)),
        3 => client.frame(PVARS, &pvars("x", u32::from(cells), f64::from_bits(number), seconds % 100)),
        4 => client.frame(TRACE, &trace(u32::from(cells), 0, seconds)),
        5 => client.frame(NAMES, &names(1..1 + cells / 3, 200)),
        6 => client.frame(OPS, &ops(&[0], cells, 1, 99)[..usize::from(cells)]),
        7 => client.frame(u16::try_from(number % 40).unwrap(), &vec![7; usize::from(cells)]),
        8 => client.frame(PEERS, &number.to_le_bytes().repeat(usize::from(cells))),
        9 => client.send(&number.to_le_bytes().repeat(usize::from(cells) + 1)),
        _ => client.frame(REGIONS, &number.to_le_bytes().repeat(usize::from(cells))),
    };
}
