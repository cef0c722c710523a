//! Figures of running jobs: each answer is of one time and says which, whatever comes late.

use super::seed::{self, Run, SECOND, START_MS};
use super::{api_on, get};
use serde_json::{Value, json};
use throughline_sample::wire::*;

/// The newest whole ten seconds that ended at least 4 s ago, seconds after the start of all.
fn newest() -> i64 {
    let now = throughline_daemon::Clock::new().now() / SECOND - START_MS / 1000;
    (now - 4).div_euclid(10) * 10
}

fn time(seconds: i64) -> Value {
    json!(START_MS + seconds * 1000)
}

fn job(number: u32, start: i64, hosts: Vec<&'static str>) -> Run {
    Run { number, user: "ada", start, end: None, hosts }
}

/// What each host of a job reports of it: itself and its own ranks.
fn announced(run: &Run) -> Vec<Batch> {
    let all = seed::run(run);
    let of = |host: &&'static str| Batch {
        node: (*host).into(),
        job_ranks: all.job_ranks.iter().filter(|rank| rank.host == **host).cloned().collect(),
        ..all.clone()
    };
    run.hosts.iter().map(of).collect()
}

/// Sums of a host each ten seconds up to a time, counted from `epoch`: ten calls of 8 B a second of each of its two ranks, a tenth of a
/// second inside. Without calls its reports that there were none.
fn counted(run: &Run, host: usize, (epoch, until): (i64, i64), has_calls: bool) -> Batch {
    let mut all = Batch { node: run.hosts[host].into(), ..Batch::default() };
    let mut time = epoch.div_euclid(10) * 10 + 10;
    while time <= until {
        let calls = 20 * u64::try_from(time - epoch).unwrap();
        let cells = [("allreduce", 8, calls, 8 * calls, 10 * calls)];
        let mut record = seed::folded(run, epoch.max(time - 10), time, &cells).mpi_node_cells.remove(0);
        record.epoch = seed::at(epoch);
        if !has_calls {
            record.cells.clear();
            record.is_whole = false;
        }
        all.mpi_node_cells.push(record);
        time += 10;
    }
    all
}

/// Rows of the two ranks of a host as of a time.
fn of_ranks(run: &Run, host: usize, time: i64) -> Batch {
    let calls = 10 * u64::try_from(time - run.start).unwrap();
    let mut all = Batch { node: run.hosts[host].into(), ..Batch::default() };
    for rank in [2 * u32::try_from(host).unwrap(), 2 * u32::try_from(host).unwrap() + 1] {
        let mut row = seed::rank_row(run, time, rank, &[("allreduce", 8, calls, 8 * calls, 10 * calls)]);
        all.mpi_rank_rows.append(&mut row.mpi_rank_rows);
        all.mpi_peers.append(&mut seed::peers(run, time, rank, "logical", &[(3 - rank, calls, 1)]).mpi_peers);
    }
    all
}

#[tokio::test]
async fn all_surfaces_have_one_time_and_name_who_is_behind() {
    let database = seed::fabric().await;
    let newest = newest();
    let run = job(1, newest - 125, vec!["n2", "n10"]);
    let mut batches = announced(&run);
    // Ranks had their rows a minute ago, nodes theirs each ten seconds; what n10 sent in the last half minute has not come.
    batches.extend([of_ranks(&run, 0, newest - 60), of_ranks(&run, 1, newest - 60)]);
    batches.push(counted(&run, 0, (run.start, newest), true));
    batches.push(counted(&run, 1, (run.start, newest - 30), true));
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
    let sums = json!({"time_ms": time(newest), "behind": [{"node": "n10", "time_ms": time(newest - 30)}]});
    let ranks = json!({"time_ms": time(newest - 60), "behind": []});
    let calls = json!(20 * 125 + 20 * 95);

    let list = get(&router, "/jobs?state=live&totals=true").await;
    let page = get(&router, "/jobs/slurm:1.0@1000").await;
    let status = get(&router, "/status").await;
    for job in [&list["jobs"][0], &page["job"], &status["jobs"][0]["job"]] {
        assert_eq!((&job["as_of"], &job["totals"]["calls"]), (&sums, &calls), "{job:#}");
        // Of two ranks as of then, and of two as of half a minute before.
        assert_eq!(job["totals"]["observed_seconds"], json!(f64::from(2 * 125 + 2 * 95)));
        assert_eq!(job["totals"]["mpi_time_share"], json!(0.1));
    }
    assert_eq!(page["operations"][0]["calls"], calls);
    assert_eq!(page["operations"][0]["algorithms"][0]["algorithm"], "ring");
    assert_eq!(status["jobs"][0]["operations"][0]["calls"], calls);
    // Without sums there is no time of them.
    assert_eq!(get(&router, "/jobs?state=live").await["jobs"][0]["as_of"], Value::Null);

    let of_ranks = get(&router, "/jobs/slurm:1.0@1000/ranks").await;
    assert_eq!(of_ranks["as_of"], ranks);
    assert_eq!(of_ranks["ranks"]["calls"], json!([650, 650, 650, 650]));
    assert_eq!(of_ranks["ranks"]["observed_seconds"], json!([65.0, 65.0, 65.0, 65.0]));
    for part in ["waits", "traffic", "regions", "broadcast", "report"] {
        let answer = get(&router, &format!("/jobs/slurm:1.0@1000/{part}")).await;
        assert_eq!(answer["as_of"], ranks, "{part}");
        if part == "report" {
            let text = answer["report"].as_str().unwrap();
            assert!(text.contains(", as of 20") && text.contains("runs for 65.0 s"), "{text}");
            assert!(text.contains("allreduce 26.0 s (2600 calls"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_node_that_is_quiet_is_as_of_its_newest_row() {
    let database = seed::fabric().await;
    let newest = newest();
    let run = job(7, newest - 100, vec!["n2", "n10"]);
    let mut batches = announced(&run);
    batches.extend([(0, 64), (1, 75), (1, 59)].map(|(host, age)| of_ranks(&run, host, newest - age)));
    // Since then n2 called MPI, and of n10 nothing is known.
    batches.push(counted(&run, 0, (run.start, newest), true));
    batches.push(counted(&run, 1, (run.start, newest - 60), true));
    seed::write(&database, 3, batches).await;
    let ranks = get(&api_on(database), "/jobs/slurm:7.0@1000/ranks").await;
    let behind = json!([{"node": "n2", "time_ms": time(newest - 64)}]);
    assert_eq!(ranks["as_of"], json!({"time_ms": time(newest - 59), "behind": behind}));
    assert_eq!(ranks["ranks"]["calls"], json!([360, 360, 410, 410]));
}

#[tokio::test]
async fn a_young_job_and_one_that_calls_nothing() {
    let database = seed::fabric().await;
    let newest = newest();
    // Younger than the interval of its node: its ranks have their first rows.
    let young = job(2, newest + 1, vec!["n2"]);
    let quiet = job(3, newest - 40, vec!["n2"]);
    let unknown = job(4, newest - 40, vec!["n10"]);
    // First rows of nodes are a second apart, and of one of them there is an older one.
    let apart = job(6, newest + 1, vec!["n2", "n10"]);
    let mut batches = [announced(&young), announced(&quiet), announced(&unknown), announced(&apart)].concat();
    batches.extend([(0, 2), (1, 1), (1, 3)].map(|(host, age)| of_ranks(&apart, host, apart.start + age)));
    batches.push(of_ranks(&young, 0, young.start + 2));
    batches.push(counted(&quiet, 0, (quiet.start, newest), false));
    seed::write(&database, 3, batches).await;
    let router = api_on(database);
    let page = async |number: u32| get(&router, &format!("/jobs/slurm:{number}.0@1000")).await;
    let body = page(2).await;
    assert_eq!(body["job"]["as_of"], json!({"time_ms": time(young.start + 2), "behind": []}));
    assert_eq!((&body["job"]["totals"]["calls"], &body["operations"][0]["calls"]), (&json!(40), &json!(40)));
    assert_eq!(body["job"]["totals"]["observed_seconds"], json!(4.0));
    let body = page(6).await;
    let behind = json!([{"node": "n2", "time_ms": time(apart.start + 2)}]);
    assert_eq!(body["job"]["as_of"], json!({"time_ms": time(apart.start + 3), "behind": behind}));
    assert_eq!(body["job"]["totals"]["calls"], json!(20 * 2 + 20 * 3));
    // Its agent counted no call, and says so up to when.
    let body = page(3).await;
    assert_eq!(body["job"]["as_of"], json!({"time_ms": time(newest), "behind": []}));
    assert_eq!((&body["job"]["totals"], &body["operations"]), (&Value::Null, &json!([])));
    // Of this one nothing has come yet.
    assert_eq!(page(4).await["job"]["as_of"], Value::Null);
}

#[tokio::test]
async fn sums_have_what_ranks_did_before_their_agent_began_anew() {
    let database = seed::fabric().await;
    let newest = newest();
    let run = job(5, newest - 100, vec!["n2"]);
    let mut batches = announced(&run);
    // It was away from 45 to 32 s ago; ranks have rows again with its first interval.
    batches.push(of_ranks(&run, 0, newest - 60));
    batches.push(counted(&run, 0, (run.start, newest - 50), true));
    batches.push(counted(&run, 0, (newest - 32, newest - 30), true));
    seed::write(&database, 3, batches).await;
    let router = api_on(database.clone());
    let calls = async || get(&router, "/jobs/slurm:5.0@1000").await["job"]["totals"]["calls"].clone();
    assert_eq!(calls().await, json!(20 * 50 + 20 * 2), "without the gap: never more than was");
    let mut later = counted(&run, 0, (newest - 32, newest), true);
    later.mpi_node_cells.remove(0);
    seed::write(&database, 4, vec![of_ranks(&run, 0, newest - 30), later]).await;
    assert_eq!(calls().await, json!(20 * 100));
}
