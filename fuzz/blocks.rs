//! Packed hours: bytes as the database has them, their checksum made right so that the decoder behind it is
//! reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throughline_packed::series::{Series, unpack};
use throughline_packed::series_chunks;

/// Bytes before the streams: version and checksum.
const HEAD: usize = 5;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEAD {
        let sum = crc32c::crc32c(&bytes[HEAD..]);
        bytes[1..HEAD].copy_from_slice(&sum.to_be_bytes());
    }
    let other = Series { rows: vec![0, 1, 4], values: vec![0, i64::MAX, -1], texts: Vec::new() };
    let alone = unpack(&bytes, None);
    for series in [alone, unpack(&bytes, Some(&other))].into_iter().flatten() {
        _ = series_chunks(&[0, 1000, 2000], &series, true);
    }
});
