//! Offsets of spans: written once, by whichever server is first, and the last ones of a sender kept.

use throughline_store::{SenderClocks, SpanOffset, testing};

const SECOND: i64 = 1_000_000_000;

fn span(span: u64, offset: Option<f64>) -> SpanOffset {
    let began = 1_790_000_000 * SECOND;
    SpanOffset { span, began, ended: None, offset_seconds: offset, slew_seconds: 2.5 }
}

#[tokio::test]
async fn the_first_server_writes_the_offset_of_a_span_and_all_others_have_it() {
    let database = testing::database().await;
    let (mut one, mut other) = (SenderClocks::new(database.clone()), SenderClocks::new(database.clone()));
    let large = u64::MAX - 1;
    let fixed = one.fix("node:n1", &[span(1, Some(300.0)), span(large, None)]).await.unwrap();
    assert_eq!(fixed.len(), 2);
    // Another one measured something else, and knows that it ended.
    let ended = SpanOffset { ended: Some(1_790_000_900 * SECOND), ..span(1, Some(310.0)) };
    let fixed = other.fix("node:n1", &[ended, ended]).await.unwrap();
    assert_eq!(fixed, [SpanOffset { ended: ended.ended, ..span(1, Some(300.0)) }]);
    let mut read = other.offsets("node:n1", &[1, large, 7]).await.unwrap();
    read.sort_by_key(|span| span.span);
    assert_eq!(read, [fixed[0], span(large, None)]);
    assert_eq!(other.offsets("node:n2", &[1]).await.unwrap(), []);
    let client = database.connect().await.unwrap();
    let moved =
        client.query_one("SELECT instance, offset_seconds FROM public.moved_times", &[]).await.unwrap();
    assert_eq!((moved.get::<_, String>(0), moved.get::<_, f64>(1)), ("n1".to_owned(), 300.0));
}

#[tokio::test]
async fn attack_38_a_sender_that_lists_spans_for_ever_keeps_the_last() {
    let database = testing::database().await;
    let mut clocks = SenderClocks::new(database.clone());
    let many: Vec<SpanOffset> = (0..2000).map(|number| span(number, Some(0.0))).collect();
    for some in many.chunks(128) {
        clocks.fix("node:evil", some).await.unwrap();
    }
    let client = database.connect().await.unwrap();
    let row = client.query_one("SELECT count(*), max(span) FROM internal.clock_span", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1024, 1999));
}
