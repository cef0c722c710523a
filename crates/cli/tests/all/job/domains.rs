//! An NVLink domain over two nodes: from the double of the vendor's library through agents, collector and database to what the
//! server answers.

use super::detail::page;
use super::*;

const CLUSTER: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

/// A tray of a GB200 NVL72 with GPUs of its own, as a double of NVML shows it.
fn tray(folder: &Path, node: &str) -> Vec<(&'static str, String)> {
    let out = Path::new(env!("CARGO_BIN_EXE_throughline")).with_file_name("lib/throughline");
    let double = crates().join("gpu/testdouble");
    done(Command::new("make").arg("-s").arg("-C").arg(double).arg(format!("OUT={}", out.display())));
    let base = crates().join("gpu/scenarios/gb200-nvl.scenario");
    let scenario = folder.join(format!("{node}.scenario"));
    let more = format!("gpu 0-3 uuid=GPU-{node}-xx\nfabric 0-3 {CLUSTER} 9\n");
    std::fs::write(&scenario, format!("{}{more}", std::fs::read_to_string(base).unwrap())).unwrap();
    vec![
        ("THROUGHLINE__NODE", node.to_owned()),
        ("THROUGHLINE__NVML__ENABLED", "true".to_owned()),
        ("THROUGHLINE__NVML__LIBRARY", out.join("libnvidia-ml.so.1").display().to_string()),
        ("THROUGHLINE_NVML_SCENARIO", scenario.display().to_string()),
    ]
}

fn node(stack: &Stack, name: &str) -> Value {
    let answer = page(&stack.server, &format!("/api/v1/nodes/{name}"));
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_of_an_nvlink_domain_are_one() {
    let scenarios = tempfile::tempdir().unwrap();
    let stack = Stack::start_with(&tray(scenarios.path(), "tray1")).await;
    let mut environment = stack.environment.clone();
    environment
        .extend(tray(scenarios.path(), "tray2").into_iter().map(|(name, value)| (name.to_owned(), value)));
    let of_second = |key: &str, file: &str| {
        (format!("THROUGHLINE__{key}"), stack.folder.path().join(file).display().to_string())
    };
    environment.extend([
        of_second("STATE_DIR", "agent2"),
        of_second("RUN_DIR", "run2"),
        of_second("MPI__SOCKET", "mpi2.sock"),
    ]);
    let (_second, _) = Daemon::start(&mut agent("run", &environment), ["agent"]);
    let domain = format!("{CLUSTER}.9");
    let expected = serde_json::json!([{
        "domain": domain,
        "nodes": [{ "host": "tray1", "gpus": 4 }, { "host": "tray2", "gpus": 4 }],
    }]);
    let begin = Instant::now();
    let answer = loop {
        let answer = node(&stack, "tray1");
        if answer["nvlink_domains"] == expected {
            break answer;
        }
        assert!(begin.elapsed() < PATIENCE, "{answer}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let gpus = answer["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 4);
    assert!(
        gpus.iter().all(|gpu| gpu["nvlink_domain"] == domain && gpu["fabric_state"] == "completed"),
        "{answer}"
    );
    assert_eq!(node(&stack, "tray2")["nvlink_domains"], expected);
    let (client, connection) = tokio_postgres::connect(&stack.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let rows = client
        .query("SELECT domain, node_count, gpu_count, array_to_string(nodes, ',') FROM nvlink_domain", &[])
        .await
        .unwrap();
    let rows: Vec<(String, i64, i64, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(rows, [(domain, 2, 8, "tray1,tray2".to_owned())]);
}
