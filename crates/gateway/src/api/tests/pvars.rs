//! A job's MPI_T variables over time.

use super::seed::{self, Run};
use super::*;
use serde_json::json;
use throughline_sample::wire::{Batch, MpiPvarSample};

const RUN: Run = Run { number: 7, user: "ada", start: 0, end: Some(20), hosts: Vec::new() };

fn value(seconds: i64, rank: u32, element: u32, value: f64) -> MpiPvarSample {
    MpiPvarSample {
        time: seed::at(seconds),
        job_key: seed::key(7),
        rank,
        name: "unexpected_recvq_length".into(),
        element,
        value,
        source: "mpi_t".into(),
        variable_class: "level".into(),
    }
}

#[tokio::test]
async fn variables_by_rank_and_element() {
    let database = seed::fabric().await;
    let run = Run { hosts: vec!["n2", "n10"], ..RUN };
    let counted = |seconds: i64, count: f64| MpiPvarSample {
        name: "calls".into(),
        variable_class: "counter".into(),
        ..value(seconds, 1, 0, count)
    };
    let mpi_pvars = vec![
        value(5, 0, 1, 3.0),
        value(10, 0, 1, 0.0),
        value(5, 0, 2, 4.0),
        value(15, 0, 2, 6.0),
        value(15, 1, 2, 1.0),
        counted(5, 100.0),
        counted(15, 150.0),
    ];
    let batch = Batch { node: "n2".into(), mpi_pvars, ..Batch::default() };
    seed::write(&database, 2, vec![Batch::default(), seed::run(&run), batch]).await;
    let router = api_on(database);
    let (key, from) = (seed::key(7), seed::START_MS);
    let path = format!("/jobs/{key}/pvars?points=4&from={from}&to={}", from + 20_000);
    let list = get(&router, &path).await;
    assert_eq!(list["variable"], json!(null));
    let described = |at: usize| {
        let one = &list["variables"][at];
        (one["name"].clone(), one["elements"].clone(), one["is_rate"].clone())
    };
    assert_eq!(described(0), (json!("calls"), json!(1), json!(true)));
    assert_eq!(described(1), (json!("unexpected_recvq_length"), json!(2), json!(false)));
    let series = async |rest: &str| get(&router, &format!("{path}&{rest}")).await["series"].clone();
    let all = series("variable=unexpected_recvq_length").await;
    assert_eq!(all, json!([{"rank": null, "element": null, "values": [7.0, 4.0, 7.0, null]}]));
    let by_rank = series("variable=unexpected_recvq_length&by=rank").await;
    assert_eq!(by_rank[1], json!({"rank": 1, "element": null, "values": [null, null, 1.0, null]}));
    let by_element = series("variable=unexpected_recvq_length&by=element").await;
    assert_eq!(by_element[0], json!({"rank": null, "element": 1, "values": [3.0, 0.0, null, null]}));
    let rates = series("variable=calls&by=rank").await;
    assert_eq!(rates, json!([{"rank": 1, "element": null, "values": [null, 5.0, 5.0, null]}]));
    let wrong = refused(&router, &format!("{path}&variable=nothing")).await;
    assert!(wrong.contains("bad_parameter") && wrong.contains("unexpected_recvq_length"), "{wrong}");
}
