//! Who ended first without MPI_Finalize, and what settings its library reported.

use crate::batches::{SECOND, START, entry};
use throughline_query::job_parts::{first_lost, settings};
use throughline_sample::wire::{Batch, Job, JobRank, JobSetting, MpiOpenCall};
use throughline_store::{Writer, testing};
use uuid::Uuid;

const KEY: &str = "slurm:1";

fn rank(rank: u32, host: &str, seconds: i64, ending: &str) -> JobRank {
    JobRank {
        job_key: KEY.into(),
        rank,
        start: START,
        end: START + seconds * SECOND,
        ending: ending.into(),
        host: host.into(),
        ..JobRank::default()
    }
}

#[tokio::test]
async fn the_first_is_named_with_its_call() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let spool = Uuid::from_u128(1);
    let recv = MpiOpenCall {
        time: START + 19 * SECOND,
        epoch: START,
        job_key: KEY.into(),
        rank: 2,
        operation: "recv".into(),
        start: START + 8 * SECOND,
        ..MpiOpenCall::default()
    };
    let setting =
        JobSetting { time: START, job_key: KEY.into(), rank: 0, name: "pml".into(), value: "ob1".into() };
    let clean = Batch {
        node: "n1".into(),
        jobs: vec![Job {
            key: KEY.into(),
            user: "ada".into(),
            start: START,
            world_size: 4,
            ..Job::default()
        }],
        job_ranks: vec![rank(0, "n1", 10, "clean")],
        job_settings: vec![setting],
        ..Batch::default()
    };
    writer.write(&[entry(spool, 1, clean)]).await.unwrap();
    let client = database.connect_reader().await.unwrap();
    let id = client.query_one("SELECT id FROM internal.run", &[]).await.unwrap().get(0);
    assert_eq!(first_lost(&client, id).await.unwrap(), None, "it ended by itself");
    let of = settings(&client, id).await.unwrap();
    assert_eq!((of.len(), of[0].name.as_str(), of[0].value.as_str()), (1, "pml", "ob1"));

    let lost = Batch {
        node: "n2".into(),
        job_ranks: vec![rank(1, "n2", 22, "lost"), rank(2, "n2", 20, "lost"), rank(3, "n2", 22, "lost")],
        mpi_open_calls: vec![recv],
        ..Batch::default()
    };
    writer.write(&[entry(spool, 2, lost)]).await.unwrap();
    let first = first_lost(&client, id).await.unwrap().unwrap();
    assert_eq!((first.rank, first.host.as_str(), first.ranks), (2, "n2", 3));
    assert_eq!(first.end_ms, (START + 20 * SECOND) / 1_000_000);
    assert_eq!((first.operation.as_deref(), first.operation_seconds), (Some("recv"), Some(12.0)));
    assert_eq!(first.next_after_seconds, Some(2.0));
}
