//! Rows in PostgreSQL's binary COPY format. Bytes only: nothing here knows a table or a connection.
//!
//! Format: docs "COPY", section Binary Format: a signature, then per row the number of fields and per field
//! its length (-1 for NULL) and content in network byte order, at the end -1.

use crate::binary_copy::POSTGRES_EPOCH;
use bytes::{BufMut, Bytes, BytesMut};
use throughline_packed::Bits;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Object identifiers of array elements' types (pg_type).
const INT8_OID: u32 = 20;
const INT4_OID: u32 = 23;
const TEXT_OID: u32 = 25;
const BOOLEAN_OID: u32 = 16;
const FLOAT8_OID: u32 = 701;

/// Rows of one table.
pub(crate) struct RowBuffer {
    bytes: BytesMut,
    rows: u64,
    columns: i16,
    written: i16,
}

impl RowBuffer {
    /// For rows of so many columns.
    pub fn new(columns: usize) -> Self {
        // No table has more than 1,600 columns.
        let columns = i16::try_from(columns).unwrap_or(i16::MAX);
        Self { bytes: BytesMut::new(), rows: 0, columns, written: columns }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Begins a row; each of its columns follows.
    pub fn row(&mut self) {
        debug_assert_eq!(self.written, self.columns, "the row before is not complete");
        if self.bytes.is_empty() {
            self.bytes.put_slice(SIGNATURE);
            self.bytes.put_i32(0); // flags
            self.bytes.put_i32(0); // length of the header's extension
        }
        self.bytes.put_i16(self.columns);
        self.rows += 1;
        self.written = 0;
    }

    fn field(&mut self, length: i32) {
        self.written += 1;
        self.bytes.put_i32(length);
    }

    pub fn null(&mut self) {
        self.field(-1);
    }

    pub fn int4(&mut self, value: i32) {
        self.field(4);
        self.bytes.put_i32(value);
    }

    pub fn int8(&mut self, value: i64) {
        self.field(8);
        self.bytes.put_i64(value);
    }

    pub fn boolean(&mut self, value: bool) {
        self.field(1);
        self.bytes.put_u8(u8::from(value));
    }

    pub fn optional_int8(&mut self, value: Option<i64>) {
        match value {
            Some(value) => self.int8(value),
            None => self.null(),
        }
    }

    pub fn float8(&mut self, value: f64) {
        self.field(8);
        self.bytes.put_f64(value);
    }

    pub fn optional_float8(&mut self, value: Option<f64>) {
        match value {
            Some(value) => self.float8(value),
            None => self.null(),
        }
    }

    /// UTC nanoseconds since 1970, rounded down to the microsecond.
    pub fn time(&mut self, nanoseconds: i64) {
        self.field(8);
        self.bytes.put_i64(nanoseconds.div_euclid(1000) - POSTGRES_EPOCH);
    }

    /// PostgreSQL's text has no NUL byte; one in a name from outside is replaced.
    pub fn text(&mut self, value: &str) {
        if value.contains('\0') {
            return self.plain_text(&value.replace('\0', "\u{fffd}"));
        }
        self.plain_text(value);
    }

    fn plain_text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// A `bytea`.
    pub fn bytes(&mut self, value: &[u8]) {
        self.field(length_of(value.len()));
        self.bytes.put_slice(value);
    }

    /// A `bit varying`.
    pub fn bits(&mut self, value: Bits) {
        let (count, bytes) = (value.count(), value.finish());
        self.field(length_of(4 + bytes.len()));
        self.bytes.put_i32(length_of(count));
        self.bytes.put_slice(&bytes);
    }

    pub fn optional_text(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.text(value),
            None => self.null(),
        }
    }

    /// A document that is text already; `jsonb` has a version byte before it.
    pub fn jsonb(&mut self, value: &str) {
        self.field(length_of(value.len() + 1));
        self.bytes.put_u8(1);
        self.bytes.put_slice(value.as_bytes());
    }

    pub fn int4_array(&mut self, values: &[i32]) {
        self.array_header(INT4_OID, values.len(), 8 * values.len());
        for value in values {
            self.bytes.put_i32(4);
            self.bytes.put_i32(*value);
        }
    }

    pub fn int8_array(&mut self, values: &[Option<i64>]) {
        let bytes: usize = values.iter().map(|value| if value.is_some() { 12 } else { 4 }).sum();
        self.array_header(INT8_OID, values.len(), bytes);
        for value in values {
            match value {
                Some(value) => {
                    self.bytes.put_i32(8);
                    self.bytes.put_i64(*value);
                }
                None => self.bytes.put_i32(-1),
            }
        }
    }

    pub fn float8_array(&mut self, values: &[f64]) {
        self.array_header(FLOAT8_OID, values.len(), 12 * values.len());
        for value in values {
            self.bytes.put_i32(8);
            self.bytes.put_f64(*value);
        }
    }

    /// A NUL byte in an element is replaced, as in [`Self::text`].
    pub fn text_array(&mut self, values: &[&str]) {
        self.optional_text_array(&values.iter().copied().map(Some).collect::<Vec<_>>());
    }

    pub fn optional_text_array(&mut self, values: &[Option<&str>]) {
        if values.iter().flatten().any(|value| value.contains('\0')) {
            let clean: Vec<Option<String>> =
                values.iter().map(|value| value.map(|value| value.replace('\0', "\u{fffd}"))).collect();
            return self.optional_text_array(&clean.iter().map(Option::as_deref).collect::<Vec<_>>());
        }
        let bytes: usize = values.iter().map(|value| 4 + value.map_or(0, str::len)).sum();
        self.array_header(TEXT_OID, values.len(), bytes);
        for value in values {
            self.bytes.put_i32(value.map_or(-1, |value| length_of(value.len())));
            self.bytes.put_slice(value.unwrap_or_default().as_bytes());
        }
    }

    pub fn boolean_array(&mut self, values: &[bool]) {
        self.array_header(BOOLEAN_OID, values.len(), 5 * values.len());
        for value in values {
            self.bytes.put_i32(1);
            self.bytes.put_u8(u8::from(*value));
        }
    }

    fn array_header(&mut self, element: u32, elements: usize, bytes: usize) {
        self.field(length_of(20 + bytes));
        self.bytes.put_i32(1); // dimensions
        self.bytes.put_i32(1); // may have NULLs
        self.bytes.put_u32(element);
        self.bytes.put_i32(length_of(elements));
        self.bytes.put_i32(1); // first index
    }

    /// The whole COPY stream; empty without rows.
    pub fn finish(mut self) -> Bytes {
        if self.rows > 0 {
            self.bytes.put_i16(-1);
        }
        self.bytes.freeze()
    }
}

/// A length as the format has it. A spool's entry, and so each of its fields, is far below 2 GiB.
fn length_of(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// The store's columns are signed; what does not fit stands at the largest value.
pub(crate) fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_header_fields_and_end() {
        let mut buffer = RowBuffer::new(3);
        buffer.row();
        buffer.int4(7);
        buffer.null();
        buffer.text("a\0b");
        let bytes = buffer.finish();
        let mut expected = SIGNATURE.to_vec();
        expected.extend([0; 8]);
        expected.extend([0, 3, 0, 0, 0, 4, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 5]);
        expected.extend("a\u{fffd}b".as_bytes());
        expected.extend([0xff, 0xff]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn bits_have_their_number_before_them() {
        let mut bits = Bits::default();
        bits.write(0b1_0110_1111, 9);
        let mut buffer = RowBuffer::new(1);
        buffer.row();
        buffer.bits(bits);
        assert_eq!(buffer.finish()[19..31], [0, 1, 0, 0, 0, 6, 0, 0, 0, 9, 0b1011_0111, 0b1000_0000]);
    }

    #[test]
    fn without_rows_there_is_nothing_to_send() {
        assert!(RowBuffer::new(2).finish().is_empty());
    }
}
