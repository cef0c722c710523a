//! Where the time of ranks went, from the sums of their nodes: as of now, and over time.

use crate::batches::{SECOND, entry};
use std::time::SystemTime;
use throughline_api::account::JobAccount;
use throughline_query::jobs::Job as KnownJob;
use throughline_query::{account, jobs, node_accounts, waits};
use throughline_sample::wire::*;
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

const KEY: &str = "slurm:9@1000";
const RANKS: u64 = 4;

/// Sums of a node's ranks: of so many seconds of each rank so many tenths in MPI, and one off the processor, in a file.
fn sums(seconds: i64, tenths: u64) -> MpiAccountSums {
    let tenth = RANKS * seconds.unsigned_abs() * 100_000_000;
    MpiAccountSums {
        elapsed_nanoseconds: 10 * tenth,
        mpi_nanoseconds: tenths * tenth,
        off_outside_nanoseconds: tenth,
        file_nanoseconds: tenth,
        off_inside_nanoseconds: tenth,
        queued_inside_nanoseconds: tenth / 2,
        ..MpiAccountSums::default()
    }
}

/// A row of a node that has no operations.
fn row(epoch: i64, time: i64, account: MpiNodeAccount) -> MpiNodeCells {
    MpiNodeCells {
        time,
        epoch,
        job_key: KEY.into(),
        since: time - 10 * SECOND,
        source: "pmpi".into(),
        account: Some(account),
        ..MpiNodeCells::default()
    }
}

fn grown(sums: MpiAccountSums) -> MpiNodeAccount {
    MpiNodeAccount { grown: Some(sums), ..MpiNodeAccount::default() }
}

fn reading(rank: u32, start: i64, seconds: i64) -> MpiRankScheduling {
    let tenth = seconds.unsigned_abs() * 100_000_000;
    MpiRankScheduling {
        time: start + seconds * SECOND,
        epoch: start,
        job_key: KEY.into(),
        rank,
        elapsed_nanoseconds: Some(10 * tenth),
        mpi_nanoseconds: Some(5 * tenth),
        off_outside_nanoseconds: Some(tenth),
        queued_outside_nanoseconds: Some(0),
        off_inside_nanoseconds: Some(0),
        queued_inside_nanoseconds: Some(0),
        file_samples: u32::try_from(seconds / 10).unwrap(),
        ..MpiRankScheduling::default()
    }
}

/// A job of four ranks on a node that has run for so long at a whole ten seconds.
fn job(start: i64) -> Batch {
    let rank = |rank| JobRank {
        job_key: KEY.into(),
        rank,
        start,
        host: "n1".into(),
        world_size: 4,
        ..JobRank::default()
    };
    Batch {
        node: "n1".into(),
        jobs: vec![Job { key: KEY.into(), user: "ada".into(), start, world_size: 4, ..Job::default() }],
        job_ranks: (0..4).map(rank).collect(),
        ..Batch::default()
    }
}

/// A whole ten seconds that is known, nanoseconds.
fn known_time() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    (i64::try_from(now).unwrap() / SECOND - 4) / 10 * 10 * SECOND
}

async fn known_job(client: &Client) -> KnownJob {
    jobs::one(client, KEY).await.unwrap().unwrap()
}

fn seconds(account: &JobAccount, line: &str) -> f64 {
    account.lines.iter().find(|one| one.line == line).map_or(0.0, |one| one.seconds)
}

#[tokio::test]
async fn a_running_job_is_as_of_its_nodes_newest_ten_seconds() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let at = known_time();
    let start = at - 60 * SECOND;
    // Rows of its ranks are from its fortieth second, those of its node each ten seconds.
    let ranks = Batch { mpi_scheduling: (0..4).map(|rank| reading(rank, start, 40)).collect(), ..job(start) };
    writer.write(&[entry(Uuid::from_u128(1), 1, ranks)]).await.unwrap();
    let rows = (1..=6).map(|ten| row(start, start + ten * 10 * SECOND, grown(sums(ten * 10, 6))));
    let rows = Batch { node: "n1".into(), mpi_node_cells: rows.collect(), ..Batch::default() };
    writer.write(&[entry(Uuid::from_u128(1), 2, rows)]).await.unwrap();
    let client = database.connect_reader().await.unwrap();
    let job = known_job(&client).await;
    let account = account::of_job(&client, &job, &[], &waits::OfJob::default()).await.unwrap();
    assert_eq!(account.as_of.as_ref().map(|as_of| as_of.time_ms), Some(at / 1_000_000));
    assert_eq!(
        (account.elapsed_seconds, account.nodes[0].elapsed_seconds, account.nodes[0].ranks),
        (240.0, 240.0, 4)
    );
    // 6 of 10 in MPI by the node's sums, though it was 5 of 10 in the ranks' rows.
    assert_eq!((seconds(&account, "in_mpi"), seconds(&account, "in_file")), (144.0, 24.0));
    assert_eq!(account.lines.iter().map(|line| line.seconds).sum::<f64>(), 240.0);
    assert!(account.by_rank.iter().all(|rank| rank.elapsed_seconds == 40.0), "{:?}", account.by_rank);
    assert_eq!(account.newest_ms, Some((start + 40 * SECOND) / 1_000_000));
    assert!(account.lines.iter().all(|line| !line.group.is_empty()));
    // Its end: rows of ranks alone.
    let end = |rank| JobRank { end: at, ending: "clean".into(), ..job_rank(rank, start) };
    let ended = Batch {
        node: "n1".into(),
        jobs: vec![Job {
            key: KEY.into(),
            user: "ada".into(),
            start,
            end: at,
            world_size: 4,
            ..Job::default()
        }],
        job_ranks: (0..4).map(end).collect(),
        mpi_scheduling: (0..4).map(|rank| reading(rank, start, 60)).collect(),
        ..Batch::default()
    };
    writer.write(&[entry(Uuid::from_u128(1), 3, ended)]).await.unwrap();
    let job = known_job(&client).await;
    let account = account::of_job(&client, &job, &[], &waits::OfJob::default()).await.unwrap();
    assert_eq!((account.as_of, account.elapsed_seconds), (None, 240.0));
}

fn job_rank(rank: u32, start: i64) -> JobRank {
    job(start).job_ranks.swap_remove(usize::try_from(rank).unwrap())
}

#[tokio::test]
async fn a_job_has_a_course_over_a_restart_of_its_agent_and_says_since_when_a_line_grows() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let at = known_time();
    let start = at - 200 * SECOND;
    writer.write(&[entry(Uuid::from_u128(1), 1, job(start))]).await.unwrap();
    // Two tenths in MPI in the first hundred seconds, six since; after 150 s the node counts anew, and knows what was before.
    let in_mpi = |second: i64| if second <= 100 { 2 * second } else { 200 + 6 * (second - 100) };
    let of = |from: i64, to: i64| {
        let tenth = (RANKS * 100_000_000) as i64;
        let of = |value: i64| value.unsigned_abs();
        MpiAccountSums { mpi_nanoseconds: of((in_mpi(to) - in_mpi(from)) * tenth), ..sums(to - from, 0) }
    };
    let first = (1..=15).map(|ten| row(start, start + ten * 10 * SECOND, grown(of(0, ten * 10))));
    let began = start + 152 * SECOND;
    let before = Some(of(0, 152));
    let second = (16..=20).map(|ten| {
        // While somebody looks the row comes a second later.
        let account =
            MpiNodeAccount { behind_nanoseconds: SECOND.unsigned_abs(), before, ..grown(of(152, ten * 10)) };
        row(began, start + ten * 10 * SECOND + SECOND, account)
    });
    let rows = Batch { node: "n1".into(), mpi_node_cells: first.chain(second).collect(), ..Batch::default() };
    writer.write(&[entry(Uuid::from_u128(1), 2, rows)]).await.unwrap();
    let client = database.connect_reader().await.unwrap();
    let job = known_job(&client).await;
    let span = (start / 1_000_000, at / 1_000_000);
    let grid = node_accounts::grid(&client, span, 10_000, 1, 1000).await.unwrap();
    assert_eq!((grid.from, grid.step, grid.steps), (span.0, 10_000, 20));
    let steps = account::steps(&client, &job, &grid, None).await.unwrap();
    let mut elapsed = vec![40.0; 20];
    // What was between the last row of the one and the beginning of the other is in neither.
    elapsed[15] = 32.0;
    assert_eq!(steps.elapsed_seconds, elapsed);
    let line = |name: &str| steps.lines.iter().find(|one| one.line == name).unwrap().seconds.clone();
    let mpi = line("in_mpi");
    assert_eq!((mpi[0], mpi[9], mpi[10], mpi[19]), (8.0, 8.0, 24.0, 24.0));
    assert_eq!(line("in_file")[3], 4.0);
    for (at, elapsed) in elapsed.iter().enumerate() {
        let sum: f64 = steps.lines.iter().map(|one| one.seconds[at]).sum();
        assert!((sum - elapsed).abs() < 1e-9, "step {at}: {sum}");
    }
    // Longer steps have the same sums, and a node that has none has none.
    let grid = node_accounts::grid(&client, span, 100_000, 1, 1000).await.unwrap();
    let coarse = account::steps(&client, &job, &grid, Some("n1")).await.unwrap();
    let all: f64 = coarse.lines.iter().find(|one| one.line == "in_mpi").unwrap().seconds.iter().sum();
    assert!(all <= mpi.iter().sum::<f64>() && all > 0.0, "{coarse:?}");
    let none = account::steps(&client, &job, &grid, Some("n2")).await.unwrap();
    assert!(none.lines.is_empty() && none.elapsed_seconds.iter().all(|elapsed| *elapsed == 0.0));
    // As many rows as are read: of many nodes steps are longer.
    assert_eq!(node_accounts::grid(&client, span, 10_000, 2_000, 1000).await.unwrap().step, 20_000);
    // Of a reading of each rank the account has the trend.
    let reading =
        Batch { node: "n1".into(), mpi_scheduling: vec![reading(0, start, 100)], ..Batch::default() };
    writer.write(&[entry(Uuid::from_u128(1), 3, reading)]).await.unwrap();
    let account = account::of_job(&client, &job, &[], &waits::OfJob::default()).await.unwrap();
    let [trend] = account.trends.as_slice() else { panic!("{:?}", account.trends) };
    assert_eq!(
        (trend.line.as_str(), trend.trend.as_str(), trend.time_ms),
        ("in_mpi", "grows", span.0 + 100_000)
    );
    assert!((trend.before - 0.2).abs() < 1e-6 && (trend.since - 0.6).abs() < 1e-6, "{trend:?}");
}
