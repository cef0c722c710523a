//! Ranks that join, leave, come back and are found again after a restart.

use super::*;
use crate::hello::Hello;
use crate::identity::Identity;
use crate::process::Process;
use crate::rank_gpus::NodeGpu;

fn member(rank: u32, pid: u32, epoch: i64) -> Member {
    let identity = Identity { job_key: "slurm:1@7".into(), ..Identity::default() };
    let hello = Hello { rank, world_size: 2, epoch, ..Hello::default() };
    let process = Process { pid, uid: 7, start_ticks: Some(u64::from(pid) * 10), ..Process::default() };
    Member::new(identity, hello, process, "n1", epoch + 5)
}

const LATER: i64 = 1_000;

#[test]
fn first_and_last_rank_report_the_job() {
    let mut jobs = Jobs::default();
    let (one, two) = (member(0, 40, 200), member(1, 41, 100));
    let (start, reported) = jobs.join(&one, 1);
    assert_eq!(
        (start, reported.edge, reported.batch.jobs.len(), reported.batch.job_ranks[0].pid),
        (200, true, 1, 40)
    );
    let (_, reported) = jobs.join(&two, 2);
    assert_eq!((reported.edge, reported.batch.jobs.len()), (false, 0));
    assert_eq!(jobs.counts(), (1, 2));
    let reported = jobs.leave("slurm:1@7", &one.key(), Some(1), LATER, "clean").unwrap();
    assert_eq!(reported.batch.jobs.iter().map(|job| job.end).collect::<Vec<_>>(), [0], "with its owner");
    assert_eq!((reported.edge, reported.batch.job_ranks[0].ending.as_str()), (false, "clean"));
    let reported = jobs.leave("slurm:1@7", &two.key(), Some(2), LATER + 1, "lost").unwrap();
    assert!(reported.edge);
    assert_eq!((reported.batch.jobs[0].start, reported.batch.jobs[0].end), (100, LATER + 1));
    assert_eq!(reported.unknown, [Some("ended_before_a_look"); 2]);
    assert_eq!(jobs.counts(), (0, 0));
}

#[test]
fn a_rank_that_connects_anew_is_the_same_one() {
    let mut jobs = Jobs::default();
    let rank = member(0, 40, 200);
    jobs.join(&rank, 1);
    // Its clock is wrong, so its start was taken from its first hello: the second one must not shift it.
    let again = Member { start: 900, ..rank.clone() };
    let (start, reported) = jobs.join(&again, 2);
    assert_eq!((start, reported.edge, jobs.counts()), (200, false, (1, 1)));
    assert_eq!(jobs.leave("slurm:1@7", &rank.key(), Some(1), LATER, "lost"), None, "the old connection");
    assert!(jobs.leave("slurm:1@7", &rank.key(), Some(2), LATER, "clean").is_some());
    // The same process id is another process, or another run of MPI in it.
    jobs.join(&rank, 3);
    jobs.join(&member(0, 40, 300), 4);
    let reused = Process { start_ticks: Some(1), ..rank.process.clone() };
    jobs.join(&Member { process: reused, ..rank }, 5);
    assert_eq!(jobs.counts(), (1, 3));
}

#[test]
fn what_an_earlier_agent_knew() {
    let mut before = Jobs::default();
    let ranks = [member(0, 40, 200), member(1, 41, 200)];
    for (rank, connection) in ranks.iter().zip(1..) {
        before.join(rank, connection);
    }
    let saved = Saved { time: 700, ranks: before.take_unsaved(false).unwrap(), ..Saved::default() };
    assert!(before.take_unsaved(false).is_none(), "nothing new");
    // One of them still runs.
    let mut jobs = Jobs::default();
    let (reported, watched) =
        jobs.restore(saved.clone(), |key, _, _| key.pid == 41 && key.start_ticks == Some(410));
    let ended: Vec<_> = reported.batch.job_ranks.iter().filter(|rank| rank.end != 0).collect();
    assert_eq!((ended.len(), ended[0].rank, ended[0].end, ended[0].ending.as_str()), (1, 0, 700, "unseen"));
    assert!(reported.batch.jobs.iter().all(|job| job.end == 0), "the job runs");
    assert_eq!(watched, [AwaitedRank { job_key: "slurm:1@7".into(), rank: ranks[1].key() }]);
    let (start, reported) = jobs.join(&Member { start: 950, ..ranks[1].clone() }, 9);
    assert_eq!((start, reported.edge, jobs.counts()), (200, false, (1, 1)));
    assert_eq!(jobs.leave("slurm:1@7", &ranks[1].key(), None, LATER, "unseen"), None, "it has connected");
    // None does.
    let (reported, watched) = Jobs::default().restore(saved, |_, _, _| false);
    assert!(watched.is_empty());
    assert_eq!(reported.batch.jobs.iter().map(|job| job.end).collect::<Vec<_>>(), [700]);
}

#[test]
fn places_grow_and_are_reported_once() {
    let mut jobs = Jobs::default();
    jobs.join(&member(0, 40, 200), 1);
    let sys = tempfile::tempdir().unwrap();
    for (adapter, node) in [("mlx5_0", "1"), ("mlx5_1", "0")] {
        let folder = sys.path().join(format!("class/infiniband/{adapter}/device"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("numa_node"), node).unwrap();
    }
    let topology = Topology::read(sys.path());
    let place = |jobs: &mut Jobs, on: Result<&[&str], &'static str>, ports: Result<&[&str], &'static str>| {
        let gpu = |uuid: &str, on: &[&str]| NodeGpu {
            gpu_uuid: uuid.to_owned(),
            partition_uuid: String::new(),
            minor: None,
            nearest_distance: String::new(),
            processes: Ok(if on.contains(&uuid) { vec![40] } else { vec![] }),
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let look = Look {
            time: 300,
            ranks: [40, 99].into(),
            gpus: on.map(|on| vec![gpu("GPU-1", on), gpu("GPU-2", on)]),
            hca_ports: ports.map(|ports| [(40, names(ports))].into()),
        };
        jobs.place(&look, &topology)
    };
    assert_eq!(place(&mut jobs, Err("no_gpu"), Err("no_rdma")), []);
    let reported = place(&mut jobs, Ok(&[]), Err("no_rdma"));
    assert_eq!((reported.len(), reported[0].gpus.len(), &reported[0].hca_ports), (1, 0, &None));
    assert_eq!(reported[0].gpu_evidence, "driver", "it is known that it uses none");
    assert_eq!(reported[0].hca_numa_nodes, [0, 1], "any of the host");
    let reported = place(&mut jobs, Ok(&["GPU-1"]), Ok(&["mlx5_0/1"]));
    assert_eq!(reported[0].hca_numa_nodes, [1]);
    assert_eq!((reported[0].gpus.len(), reported[0].gpus[0].gpu_uuid.as_str()), (1, "GPU-1"));
    assert_eq!(place(&mut jobs, Ok(&["GPU-1"]), Err("no_rdma")), [], "nothing new");
    let reported = place(&mut jobs, Ok(&["GPU-2"]), Ok(&[]));
    let seen: Vec<_> = reported[0].gpus.iter().map(|gpu| (gpu.gpu_uuid.as_str(), gpu.last_seen)).collect();
    assert_eq!(seen, [("GPU-1", 300), ("GPU-2", 0)]);
    let end = jobs.leave("slurm:1@7", &member(0, 40, 200).key(), Some(1), LATER, "clean").unwrap();
    assert_eq!(end.unknown, [None; 2]);
    assert_eq!(end.batch.job_ranks[0].hca_ports.as_ref().unwrap().name, ["mlx5_0/1"]);
}
