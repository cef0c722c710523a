//! PromQL over the database, by a real Prometheus with our remote-read, held against the same samples in Prometheus'
//! own storage.
use crate::support::server::Server;
use crate::support::{Seed, TICK_SECONDS, server};
use std::collections::BTreeMap;
use std::time::Duration;
use throughline_daemon::SelfMetrics;
use throughline_dashboard_check::{Prometheus, Window};
use throughline_gateway::access::Access;
use throughline_gateway::query;
use throughline_gateway::read::Limits;
use throughline_store::{Database, Retention, encode_chunks};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Queries of different kinds that read every sample: answers must be the same to the last bit.
const EXACT: &[&str] = &[
    "infiniband_switch_port_transmit_data_bytes_total",
    "infiniband_switch_port_rate_bytes_per_second",
    "throughline_source_up",
    "topk(3, infiniband_switch_port_transmit_data_bytes_total)",
    "bottomk(2, throughline_pcie_transmit_bytes_total)",
    "sum by (guid) (infiniband_switch_port_transmit_data_bytes_total)",
    "sum without (port) (infiniband_hca_port_receive_data_bytes_total)",
    "avg by (instance) (throughline_nvlink_transmit_bytes_total)",
    "count by (gpu) (throughline_nvlink_up)",
    "quantile by (guid) (0.9, infiniband_switch_port_transmit_data_bytes_total)",
    "stddev(throughline_pcie_receive_bytes_total)",
    "count_values(\"state\", throughline_nvlink_up)",
    "irate(infiniband_switch_port_transmit_data_bytes_total[2m])",
    "max_over_time(throughline_nvlink_up[3m])",
    "changes(throughline_nvlink_transmit_bytes_total[1m])",
    "resets(infiniband_switch_port_transmit_data_bytes_total[2m])",
    "delta(throughline_pcie_transmit_bytes_total[1m])",
    "deriv(throughline_pcie_transmit_bytes_total[2m])",
    "predict_linear(throughline_pcie_transmit_bytes_total[2m], 3600)",
    "avg_over_time(infiniband_switch_port_rate_bytes_per_second[1m])",
    "count_over_time(infiniband_switch_port_transmit_data_bytes_total[1m])",
    "last_over_time(throughline_source_up[1m])",
    "absent(infiniband_switch_port_transmit_data_bytes_total)",
    "absent(infiniband_switch_port_transmit_data_bytes_total{guid=\"0xnone\"})",
    "infiniband_switch_port_transmit_data_bytes_total{port=~\"[1-3]\", guid!~\".*b.\"}",
    "{__name__=~\"throughline_pcie_.*_bytes_total\"}",
    "{guid=~\"0x.*\", port=\"1\", __name__!~\".*_possible_.*\"}",
    "infiniband_switch_port_transmit_data_bytes_total offset 2m",
    "infiniband_switch_port_transmit_data_bytes_total > 1e9 and infiniband_switch_port_receive_data_bytes_total > 0",
    "throughline_pcie_transmit_bytes_total - ignoring(gpu) group_left sum(throughline_pcie_receive_bytes_total) * 0",
    "infiniband_switch_port_transmit_data_bytes_total \
     * on (guid, port) group_left (switch, uplink) infiniband_switch_uplink_info",
    "infiniband_hca_port_receive_data_bytes_total \
     * on (guid, port) group_left (hca, uplink, node_guid) infiniband_hca_uplink_info",
    "infiniband_switch_port_receive_data_bytes_total * on (guid, port) group_left (uplink_guid) \
     infiniband_switch_uplink_info * on (uplink_guid) group_left (hca, node_guid) \
     label_replace(infiniband_hca_info, \"uplink_guid\", \"$1\", \"guid\", \"(.*)\")",
    "clamp_max(label_replace(throughline_source_up, \"node\", \"$1\", \"instance\", \"(.*)\"), 1)",
    "max_over_time(sum(irate(infiniband_switch_port_transmit_data_bytes_total[1m]))[2m:30s])",
    "histogram_quantile(0.9, sum by (le) (label_replace(throughline_pcie_transmit_bytes_total, \"le\", \"+Inf\", \"gpu\", \".*\")))",
    "vector(1)",
    "throughline_no_such_name",
];

/// Queries whose samples are thinned. The seed is minutes long: the last ones have a range that no series fills, as when a port is new.
const THINNED: &[&str] = &[
    "sum by (guid) (rate(infiniband_switch_port_transmit_data_bytes_total[5m]))",
    "increase(throughline_pcie_transmit_bytes_total[4m])",
    "rate(throughline_nvlink_transmit_bytes_total[5m])",
    "increase(infiniband_switch_port_transmit_data_bytes_total[15m])",
    "increase(infiniband_switch_port_transmit_data_bytes_total[1h])",
    "rate(throughline_nvlink_transmit_bytes_total[6h])",
    "max_over_time(rate(infiniband_switch_port_transmit_data_bytes_total[1m])[5m:30s])",
];
/// Largest relative difference.
const THINNED_DIFFERENCE: f64 = 0.01;

/// Our HTTP side over a database, until the token is cancelled.
async fn gateway(database: &Database) -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stop = CancellationToken::new();
    let metrics = SelfMetrics::default();
    let server =
        query::Server::new(&metrics, database.clone(), Limits::default(), &Access::default()).unwrap();
    tokio::spawn(server.run(listener, stop.clone()));
    (address, stop)
}

async fn query_range(
    api: &Prometheus,
    expression: &str,
    window: &Window,
) -> BTreeMap<String, Vec<(f64, String)>> {
    let series =
        api.query_range(expression, window).await.unwrap_or_else(|error| panic!("{expression}: {error}"));
    series.into_iter().map(|one| (format!("{:?}", one.metric), one.values)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn promql_over_the_database_is_promql_over_prometheus_own_storage() {
    let seed = Seed::make();
    let oracle = server::with_history(&seed.open_metrics()).await;
    let database = seed.store().await;
    let (address, stop) = gateway(&database).await;
    let ours = server::start(tempfile::tempdir().unwrap(), &configuration(&address)).await;

    let mut window = seed.window();
    window.step = Duration::from_secs(TICK_SECONDS.cast_unsigned());
    exact(&oracle, &ours, &window).await;
    thinned(&oracle, &ours, &window).await;

    // The same of the same samples packed. What a server knows of blocks is as of half a minute ago: another one.
    stop.cancel();
    pack(&database).await;
    let (address, stop) = gateway(&database).await;
    let ours = server::start(tempfile::tempdir().unwrap(), &configuration(&address)).await;
    exact(&oracle, &ours, &window).await;
    thinned(&oracle, &ours, &window).await;
    stop.cancel();
}

/// Packs the hours of the readings as if they had passed, and takes the readings away.
async fn pack(database: &Database) {
    let mut client = database.connect().await.unwrap();
    let passed =
        "UPDATE internal.minute_state SET made_until = date_trunc('hour', now()) + INTERVAL '1 hour'";
    client.batch_execute(passed).await.unwrap();
    let made = encode_chunks(&mut client, &Retention::default(), Duration::from_secs(600)).await.unwrap();
    assert!(made.samples > 10_000, "{made:?}");
    // Nobody made its minutes.
    let gone = "UPDATE internal.minute_state SET made_until = NULL; \
                DELETE FROM internal.ib_port_counters; DELETE FROM internal.host_port_counters; DELETE FROM internal.nvlink_counters";
    client.batch_execute(gone).await.unwrap();
}

fn configuration(address: &str) -> String {
    format!(
        "remote_read:\n  - url: http://{address}/api/v1/read\n    read_recent: true\n    filter_external_labels: false\n"
    )
}

async fn exact(oracle: &Server, ours: &Server, window: &Window) {
    let mut empty = 0;
    for expression in EXACT {
        let (expected, got) = (
            query_range(&oracle.api, expression, window).await,
            query_range(&ours.api, expression, window).await,
        );
        assert_eq!(got, expected, "{expression}");
        empty += usize::from(expected.is_empty());
    }
    // Some of those query what is not there.
    assert!(EXACT.len() >= 30 && empty <= 5, "{empty} of {} queries had no answer", EXACT.len());
}

async fn thinned(oracle: &Server, ours: &Server, window: &Window) {
    for expression in THINNED {
        let (expected, got) = (
            query_range(&oracle.api, expression, window).await,
            query_range(&ours.api, expression, window).await,
        );
        assert!(expected.keys().eq(got.keys()) && !got.is_empty(), "{expression}");
        for (labels, points) in &got {
            let expected = &expected[labels];
            let times = |points: &[(f64, String)]| points.iter().map(|point| point.0).collect::<Vec<_>>();
            assert_eq!(times(points), times(expected), "{expression}");
            for (point, expected) in points.iter().zip(expected) {
                let [got, expected] = [point, expected].map(|point| point.1.parse::<f64>().unwrap());
                assert!(
                    (got - expected).abs() <= expected.abs() * THINNED_DIFFERENCE,
                    "{expression} at {}: {got} against {expected}",
                    point.0
                );
            }
        }
    }
}
