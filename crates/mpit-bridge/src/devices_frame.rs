//! What a rank says of the device files that it has open: fields of a DEVICES frame. As pure and as careful as `frame.rs`.

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
    use crate::frame::{Frame, decode};

    #[test]
    fn golden_devices() {
        let read = |text: &str| {
            let bytes: Vec<u8> =
                text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            let Frame::Devices(fields) = decode(&bytes).unwrap().1 else { panic!("another frame") };
            devices(&fields).unwrap()
        };
        let (time, before) = (4_950_000_000, 3_950_000_000);
        let visible = Some("GPU-8932f937,3".to_owned());
        assert_eq!(
            read(include_str!("../protocol/golden/devices.hex")),
            Devices { time, before, open: Some(vec![0, 3, 255]), visible }
        );
        assert_eq!(
            read(include_str!("../protocol/golden/devices_unknown.hex")),
            Devices { time, before: time, open: None, visible: None }
        );
    }

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
