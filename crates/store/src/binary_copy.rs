//! PostgreSQL's binary form of COPY, read. Bytes only: nothing here knows a table or a connection. `copy.rs` writes it.

use bytes::{Buf, Bytes};

/// From 1970 to 2000, where PostgreSQL counts from; microseconds.
pub const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// What the form begins with: a signature of 11 bytes, flags, the length of an extension.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Takes what comes before the first row.
pub fn header(data: &mut Bytes) -> Option<()> {
    (data.len() >= SIGNATURE.len() + 8 && data.starts_with(SIGNATURE)).then_some(())?;
    data.advance(SIGNATURE.len() + 4);
    let extension = usize::try_from(data.get_i32()).ok()?;
    (data.len() >= extension).then(|| data.advance(extension))
}

/// Takes the beginning of a row; whether there is one: behind the last comes the mark of the end.
pub fn begins_row(data: &mut Bytes) -> Option<bool> {
    Some(data.try_get_i16().ok()? != -1)
}

/// Takes a field; `None` inside for NULL.
pub fn field(data: &mut Bytes) -> Option<Option<Bytes>> {
    let length = data.try_get_i32().ok()?;
    if length < 0 {
        return Some(None);
    }
    let length = length as usize;
    (data.len() >= length).then(|| Some(data.split_to(length)))
}

/// Takes an integer that is not NULL.
pub fn int8(data: &mut Bytes) -> Option<i64> {
    field(data)??.try_get_i64().ok()
}

/// Takes a time that is not NULL, in milliseconds since 1970.
pub fn time(data: &mut Bytes) -> Option<i64> {
    field(data)??.try_get_i64().ok().map(milliseconds)
}

/// A time's field in milliseconds since 1970.
pub fn milliseconds(time: i64) -> i64 {
    time.saturating_add(POSTGRES_EPOCH).div_euclid(1_000)
}

/// Takes the elements of an array's field: index from 0 and value of each that is not NULL.
pub fn elements(mut array: Bytes, mut take: impl FnMut(i32, i64)) -> Option<()> {
    // Dimensions, a flag for NULLs, the type of elements; length and first subscript of the one dimension.
    let dimensions = array.try_get_i32().ok()?;
    if dimensions == 1 && array.len() >= 16 {
        array.advance(8);
        let length = array.get_i32();
        array.advance(4);
        for element in 0..length {
            if let Some(mut one) = field(&mut array)? {
                take(element, one.try_get_i64().ok()?);
            }
        }
    }
    Some(())
}
