//! GPUs that are put into another node.

use super::*;

/// GPUs and NVLinks of `batch_of_everything`, as a node reports them.
fn gpus(node: &str) -> Batch {
    let all = batch_of_everything();
    let (gpus, gpu_link_infos, gpu_links) = (all.gpus, all.gpu_link_infos, all.gpu_links);
    Batch { node: node.to_owned(), gpus, gpu_link_infos, gpu_links, ..Batch::default() }
}

#[tokio::test]
async fn what_a_node_reported_of_a_gpu_stays_that_nodes() {
    let mut bench = Bench::new().await;
    bench.send(gpus("node1")).await;
    bench
        .client
        .execute("UPDATE internal.device_claim SET holds_until = now() - INTERVAL '1 hour'", &[])
        .await
        .unwrap();
    let mut moved = gpus("node2");
    moved.gpu_links[0].time += 30 * SECOND;
    bench.send(moved).await;
    let keys = "SELECT n.name || ' ' || k.uuid FROM internal.gpu_key k JOIN internal.node_key n ON n.id = k.node_id ORDER BY 1";
    assert_eq!(bench.texts(keys).await, ["node1 GPU-1", "node1 GPU-2", "node2 GPU-1", "node2 GPU-2"]);
    for table in ["gpu", "gpu_link"] {
        let rows = format!(
            "SELECT n.name || ' ' || (t.valid_to IS NULL) FROM internal.{table} t JOIN internal.gpu_key k ON k.id = t.gpu_id \
             JOIN internal.node_key n ON n.id = k.node_id WHERE k.uuid = 'GPU-1' ORDER BY 1"
        );
        assert_eq!(bench.texts(&rows).await, ["node1 false", "node2 true"], "{table}");
    }
    let readings = "SELECT DISTINCT n.name || ' ' || c.gpu || ' ' || extract(second FROM c.time - min(c.time) OVER ())::integer \
                    FROM internal.nvlink_link_counters c JOIN internal.gpu_key k ON k.id = c.gpu_id JOIN internal.node_key n ON n.id = k.node_id ORDER BY 1";
    assert_eq!(bench.texts(readings).await, ["node1 GPU-1 0", "node2 GPU-1 30"]);
    assert_eq!(bench.texts("SELECT node_name FROM public.intra_node_topo").await, ["node2"]);
}
