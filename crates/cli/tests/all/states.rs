//! The state of a job: the command line, the JSON API, the view and the function of SQL name the same one, on one database
//! with a job in each state.

use crate::client::Site;
use serde_json::Value;
use std::collections::BTreeMap;
use throughline_client::Connection;

/// Number of the job, the state that all must name, when it began and ended (minutes before now), how its rank ended, and
/// when a node last reported it (minutes before now). Job 2 last called MPI eleven minutes ago.
const JOBS: &str = "
    CREATE TEMPORARY TABLE given (n integer, begun integer, ended integer, ending text, reported integer);
    INSERT INTO given VALUES (1, 10, NULL, NULL, 0), (2, 15, NULL, NULL, 0), (3, 10, NULL, NULL, 2), (4, 10, NULL, NULL, 4),
        (5, 10, 1, 'silent', 20), (6, 10, 1, 'lost', 0), (7, 10, 1, 'clean', 20);
    INSERT INTO internal.node_key (name) VALUES ('n1');
    INSERT INTO internal.run (id, key, scheduler, native_id, user_name, command, world_size, start_time, end_time)
        OVERRIDING SYSTEM VALUE SELECT n, format('slurm:%s.0@1000', n), 'slurm', n::text, 'ada', './solve', 1, now() - begun * interval '1 minute',
               now() - ended * interval '1 minute' FROM given;
    INSERT INTO internal.job_rank (job_id, rank, pid, world_size, host, node_id, mpi_library, start_time, end_time, ending)
        SELECT g.n, 0, 100, 1, 'n1', k.id, 'Open MPI 5', j.start_time, j.end_time, g.ending
        FROM given g JOIN internal.run j ON j.id = g.n CROSS JOIN internal.node_key k;
    INSERT INTO internal.run_claim (job_id, node_id, first_seen, last_seen, reported_at)
        SELECT g.n, k.id, j.start_time, now(), now() - g.reported * interval '1 minute'
        FROM given g JOIN internal.run j ON j.id = g.n CROSS JOIN internal.node_key k;
    INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source) VALUES ('allreduce', 8, '', '', '');
    INSERT INTO internal.mpi_rank_rows (time, job_id, rank, node_id, epoch, source, is_folded, cells)
        SELECT now() - interval '11 minutes', 2, 0, 1, start_time, 'pmpi', true,
               pg_temp.packed_cells(ARRAY[1], ARRAY[10], ARRAY[80], ARRAY[1000000000]) FROM internal.run WHERE id = 2;";

const EXPECTED: [&str; 7] = ["running", "running", "running", "silent", "silent", "lost", "ended"];

#[tokio::test(flavor = "multi_thread")]
async fn command_line_api_and_sql_name_the_same_states() {
    let site = Site::with(&[throughline_store::testing::PACKED_CELLS, JOBS].concat()).await;
    let expected: BTreeMap<String, String> =
        (1..).zip(EXPECTED).map(|(n, state)| (format!("slurm:{n}.0@1000"), state.to_owned())).collect();

    let reader = site.database.connect_reader().await.unwrap();
    let view = reader.query("SELECT job_key, state FROM public.job_summary", &[]).await.unwrap();
    let view: BTreeMap<String, String> = view.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(view, expected);

    let state = |job: &Value| {
        let text = |name: &str| job[name].as_str().unwrap_or_else(|| panic!("no {name} in {job}")).to_owned();
        (text("job_key"), text("state"))
    };
    let list: Value = serde_json::from_str(&site.text(&["job", "list", "--json"])).unwrap();
    let listed: BTreeMap<String, String> = list["jobs"].as_array().unwrap().iter().map(state).collect();
    assert_eq!(listed, expected);
    let table = site.text(&["job", "list"]);
    let live = site.text(&["job", "list", "--running"]);
    let status = site.text(&["status"]);

    let connection = Connection {
        server: Some(site.server.clone()),
        token_file: Some(site.folder.path().join("token")),
        ca_file: Some(site.folder.path().join("ca.pem")),
    };
    let server = tokio::task::block_in_place(|| connection.server()).unwrap();
    for (key, expected) in &expected {
        let detail: Value = tokio::task::block_in_place(|| server.get(&["jobs", key], &[])).unwrap();
        assert_eq!(detail["job"]["state"], **expected, "{key}");
        let show: Value = serde_json::from_str(&site.text(&["job", "show", key, "--json"])).unwrap();
        assert_eq!(show["job"]["job"]["state"], **expected, "{key}");
        assert!(site.text(&["job", "show", key]).contains(expected), "{key}");
        let line = table.lines().find(|line| line.contains(key.as_str())).unwrap();
        assert!(line.contains(expected), "{line}");
        let has_ended = !detail["job"]["end_ms"].is_null();
        assert_eq!(live.contains(key.as_str()), !has_ended, "{key}");
        if expected == "running" {
            let line = status.lines().find(|line| line.contains(key.as_str()));
            assert!(line.is_some_and(|line| line.contains("running")), "{key} in\n{status}");
        }
    }
}
