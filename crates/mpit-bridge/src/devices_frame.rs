//! Frames of the device files that a rank has open. As pure and as careful as `frame.rs`, which this is part of.

use crate::frame::{Field, number};
use crate::status::Malformed;
use throughline_sample::admission::clean_text;

/// Most device files of one rank: the shim looks for no more.
const MINORS_MAX: usize = 64;
/// Longest value of CUDA_VISIBLE_DEVICES that the shim sends, bytes.
const VISIBLE_BYTES: usize = 1024;

/// Which device files of GPUs a rank has open, and which GPUs its environment names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// When the rank looked, and when it had looked before, nanoseconds.
    pub time: i64,
    /// The look before; of the first one the same.
    pub before: i64,
    /// N of each `/dev/nvidiaN` that is open; `None` where the rank could not find out.
    pub open: Option<Vec<u32>>,
    /// CUDA_VISIBLE_DEVICES as it was at `MPI_Init`; `None`: it was not set.
    pub visible: Option<String>,
}

/// Reads the fields of a body.
pub(crate) fn devices(fields: &[Field<'_>]) -> Result<Devices, Malformed> {
    let mut devices = Devices::default();
    let time = |data: &[u8]| i64::try_from(number(data)?).map_err(|_| Malformed::Field);
    for (tag, data) in fields {
        match tag {
            1 => devices.time = time(data)?,
            2 => devices.before = time(data)?,
            3 => {
                let (minors, rest) = data.as_chunks::<4>();
                if minors.len() > MINORS_MAX || !rest.is_empty() {
                    return Err(Malformed::Field);
                }
                devices.open = Some(minors.iter().map(|minor| u32::from_le_bytes(*minor)).collect());
            }
            4 => {
                let text = String::from_utf8_lossy(data.get(..VISIBLE_BYTES).unwrap_or(data));
                devices.visible = Some(clean_text(&text, VISIBLE_BYTES).into_owned());
            }
            _ => {} // 5 says why `open` is absent
        }
    }
    let is_ordered = devices.before > 0 && devices.before <= devices.time;
    is_ordered.then_some(devices).ok_or(Malformed::Field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_and_what_is_wrong() {
        let (early, late) = (5_u64.to_le_bytes(), 9_u64.to_le_bytes());
        let times: [Field<'_>; 2] = [(1, &late), (2, &early)];
        let known = |more: &[Field<'_>]| devices(&[&times, more].concat());
        assert_eq!(known(&[]), Ok(Devices { time: 9, before: 5, ..Devices::default() }));
        assert_eq!(known(&[(3, &[])]).unwrap().open, Some(vec![]));
        assert_eq!(known(&[(4, b"")]).unwrap().visible.as_deref(), Some(""));
        assert_eq!(known(&[(4, b"0,\x1b1")]).unwrap().visible.as_deref(), Some("0,\u{fffd}1"));
        assert_eq!(known(&[(4, &[b'x'; 5000])]).unwrap().visible.map(|text| text.len()), Some(1024));
        for wrong in [&[0; 3][..], &[0; 4 * 65]] {
            assert_eq!(known(&[(3, wrong)]), Err(Malformed::Field));
        }
        assert_eq!(devices(&[(1, &early), (2, &late)]), Err(Malformed::Field), "the look before is later");
        assert_eq!(devices(&[(1, &late)]), Err(Malformed::Field));
    }
}
