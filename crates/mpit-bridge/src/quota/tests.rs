//! Shares, rates and queues of users.

use super::*;

fn quotas(connections: usize) -> Arc<Quotas> {
    Quotas::new(QuotaLimits::default(), connections, Accounts::default(), Arc::default())
}

#[test]
fn nobody_gets_more_than_what_is_free() {
    let (quotas, now) = (quotas(16), Instant::now());
    let take = |uid: u32, wanted: usize| {
        let user = quotas.user(uid, now);
        (0..wanted).map_while(|_| quotas.connect(&user, now).ok()).collect::<Vec<_>>()
    };
    let one = take(1, 16);
    let two = take(2, 16);
    let three = take(3, 16);
    assert_eq!((one.len(), two.len(), three.len()), (8, 4, 2));
    assert_eq!(quotas.connect(&quotas.user(1, now), now).unwrap_err(), Quota::Connections);
    drop(one);
    assert_eq!(take(4, 16).len(), 5, "as many as are left free");
    drop((two, three));
    assert_eq!(quotas.lock().used, [0; RESOURCES]);
    let last = take(5, 1);
    assert_eq!(last.len(), 1);
}

#[test]
fn one_connection_of_one() {
    let quotas = quotas(1);
    let now = Instant::now();
    let user = quotas.user(1, now);
    let held = quotas.connect(&user, now).unwrap();
    assert_eq!(quotas.connect(&user, now).unwrap_err(), Quota::AllConnections);
    drop(held);
}

#[test]
fn connections_have_a_rate() {
    let (quotas, now) = (quotas(4096), Instant::now());
    let user = quotas.user(1, now);
    let taken = (0..10_000).filter(|_| quotas.connect(&user, now).is_ok()).count();
    assert_eq!(taken, 2000);
    assert!(quotas.connect(&quotas.user(2, now), now).is_ok(), "others have their own");
    assert_eq!(quotas.over(9).0, 1);
}

#[test]
fn users_of_whom_nothing_is_here_are_no_longer_known() {
    let (quotas, now) = (quotas(16), Instant::now());
    for uid in 0..5000 {
        quotas.user(uid, now);
    }
    assert_eq!(quotas.lock().users.len(), USERS_MAX + 1);
    quotas.tick(now + USER_IDLE, 0);
    assert_eq!(quotas.lock().users.len(), 0);
}

#[tokio::test]
async fn whoever_sends_too_much_waits_in_turn() {
    let limits = QuotaLimits { rows_per_second_of_user: 100, ..QuotaLimits::default() };
    let quotas = Quotas::new(limits, 16, Accounts::default(), Arc::default());
    let user = quotas.user(1, Instant::now());
    let job = user.job("a", &limits);
    assert!(user.pass(&job, || Ok(())).await.iter().all(Option::is_none), "nobody waits");
    user.charge(&job, 300);
    assert!(user.pass(&job, || Ok(())).await.iter().all(Option::is_none), "within the burst");
    assert!(!user.over.is_over());
    let full_for = |span: Duration| {
        let began = Instant::now();
        move || if began.elapsed() < span { Err(Quota::Bytes) } else { Ok(()) }
    };
    let turns = user.pass(&job, full_for(SPACE_GRACE / 10)).await;
    assert!(turns[0].is_none() && turns[1].is_some());
    assert!(!user.over.is_over(), "a moment");
    drop(turns);
    user.pass(&job, full_for(SPACE_GRACE * 2)).await;
    assert_eq!(user.over.line(1, String::new()).quotas, ["bytes_waiting"]);
}
