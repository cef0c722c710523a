//! Attack 18: bytes in addresses and conditions that no text of the database has. Each was an internal error with a line in
//! the log, which anybody who may read could have by the thousand.

use crate::site::{Site, status};
use prost::Message;
use throughline_gateway::access::Access;
use throughline_gateway::read::Limits;
use throughline_gateway::read::message::{LabelMatcher, MatchType, Query, ReadRequest};
use throughline_store::testing;

#[tokio::test(flavor = "multi_thread")]
async fn attack_18_a_byte_0_is_a_wrong_question_and_no_fault_of_the_server() {
    let site = Site::new(testing::database().await, Limits::default(), Access::default()).await;
    for address in ["/api/v1/jobs/%00", "/api/v1/nodes/x%00y", "/api/v1/jobs?q=%00"] {
        let answer = site.get(address, &[]).await;
        assert_eq!(status(&answer), 400, "{address}: {answer}");
        assert!(answer.contains("byte 0"), "{answer}");
    }
    let condition = |name: &str, value: &str| LabelMatcher {
        kind: MatchType::Equal as i32,
        name: name.into(),
        value: value.into(),
    };
    let query = Query {
        start_timestamp_ms: 1,
        end_timestamp_ms: 2,
        matchers: vec![condition("__name__", "throughline_records_total"), condition("instance", "a\0b")],
        hints: None,
    };
    let request = ReadRequest { queries: vec![query], accepted_response_types: vec![1] };
    let body = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap();
    let host = format!("Host: {}", site.address);
    let lines = [&host, "Content-Type: application/x-protobuf", "Content-Encoding: snappy"];
    let answer = site.send("POST /api/v1/read", &lines, &body).await;
    assert_eq!(status(&answer), 400, "{answer}");
}
