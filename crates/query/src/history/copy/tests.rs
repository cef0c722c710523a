//! Tests of the copying of binary rows.

use super::*;
use throughline_store::binary_copy::POSTGRES_EPOCH;

fn held() -> Vec<BufferedSeries> {
    vec![BufferedSeries::default(); 2]
}

fn query(is_array: bool) -> Query {
    let sql = String::new();
    Query { sql, is_array, is_float: false, has_sources: false, has_beginnings: false }
}

fn taken(data: &mut Bytes, query: &Query, held: &mut [BufferedSeries]) -> Option<Option<u64>> {
    row(data, query, &[((7, 0), 0), ((7, 2), 1)].into(), held)
}

fn bytes(parts: &[&[u8]]) -> Bytes {
    Bytes::from(parts.concat())
}

#[test]
fn rows_and_arrays_are_read_and_null_is_absent() {
    let head: &[&[u8]] =
        &[&[0, 3], &[0, 0, 0, 8], &7i64.to_be_bytes(), &[0, 0, 0, 8], &1_500i64.to_be_bytes()];
    let mut held = held();
    let mut plain = bytes(&[head, &[&[0, 0, 0, 8], &9i64.to_be_bytes()]].concat());
    assert_eq!(taken(&mut plain, &query(false), &mut held), Some(Some(1)));
    let array: &[&[u8]] = &[
        &48i32.to_be_bytes(),
        &1i32.to_be_bytes(),
        &1i32.to_be_bytes(),
        &20i32.to_be_bytes(),
        &3i32.to_be_bytes(),
        &1i32.to_be_bytes(),
        &8i32.to_be_bytes(),
        &5i64.to_be_bytes(),
        &(-1i32).to_be_bytes(),
        &8i32.to_be_bytes(),
        &6i64.to_be_bytes(),
    ];
    let mut links = bytes(&[head, array].concat());
    assert_eq!(taken(&mut links, &query(true), &mut held), Some(Some(2)));
    let mut null = bytes(&[head, &[&(-1i32).to_be_bytes()]].concat());
    assert_eq!(taken(&mut null, &query(false), &mut held), Some(Some(0)));
    assert_eq!(taken(&mut bytes(&[&[0xff, 0xff]]), &query(false), &mut held), Some(None));
    let time = POSTGRES_EPOCH / 1_000 + 1;
    assert_eq!(held[0].samples().points(), [(time, 9.0), (time, 5.0)]);
    assert_eq!(held[1].samples().points(), [(time, 6.0)]);
}

#[test]
fn every_damaged_row_is_refused_and_none_is_read_beyond_its_end() {
    let whole: Vec<u8> = [
        &[0u8, 3][..],
        &8i32.to_be_bytes(),
        &7i64.to_be_bytes(),
        &8i32.to_be_bytes(),
        &0i64.to_be_bytes(),
        &8i32.to_be_bytes(),
        &9i64.to_be_bytes(),
    ]
    .concat();
    let mut held = held();
    for length in 0..whole.len() {
        assert_eq!(taken(&mut Bytes::copy_from_slice(&whole[..length]), &query(false), &mut held), None);
    }
}

#[test]
fn of_two_sources_the_first_is_the_series() {
    let line = |time: i64, value: i64, source: &[u8]| {
        let parts: [&[u8]; 8] = [
            &[0, 4, 0, 0, 0, 8],
            &7i64.to_be_bytes(),
            &[0, 0, 0, 8],
            &time.to_be_bytes(),
            &[0, 0, 0, 8],
            &value.to_be_bytes(),
            &(source.len() as i32).to_be_bytes(),
            source,
        ];
        parts.concat()
    };
    let rows = [(1_000, 5, b"dcgm"), (2_000, 9, b"nvml"), (3_000, 6, b"dcgm"), (4_000, 10, b"nvml")];
    let mut data = Bytes::from(rows.map(|(time, value, source)| line(time, value, source)).concat());
    let query = Query { has_sources: true, ..query(false) };
    let mut held = held();
    while !data.is_empty() {
        taken(&mut data, &query, &mut held).unwrap();
    }
    let values: Vec<f64> = held[0].samples().points().iter().map(|point| point.1).collect();
    assert_eq!(values, [9.0, 10.0]);
}

#[test]
fn constants_are_quoted() {
    assert_eq!(quoted(r"a'b\c"), r"E'a''b\\c'");
}
