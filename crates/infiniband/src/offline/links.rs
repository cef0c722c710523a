//! Width and speed of a link as the tools write them, and as PortInfo's bits. Pure.

use crate::mad::PortInfo;
use std::fmt;

/// LinkWidthActive, LinkSpeedActive and what extends it (IBTA volume 1, 14.2.5.6); 0 is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBits {
    /// LinkWidthActive.
    pub width: u8,
    /// How fast a lane is.
    pub speed: SpeedBits,
}

/// How fast a lane is, as PortInfo has it; all 0 is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeedBits {
    /// LinkSpeedActive.
    pub speed: u8,
    /// LinkSpeedExtActive.
    pub extended: u8,
    /// LinkSpeedExtActive2.
    pub extended_2: u8,
    /// QDR to PortInfo; the vendor's attribute says FDR10.
    pub is_fdr10: bool,
    /// The file names a speed that this version does not know.
    pub unknown: Option<Unknown>,
}

/// The name of a speed that is not known, as far as it has room here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unknown([u8; 8]);

impl Unknown {
    fn new(name: &str) -> Unknown {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        Unknown(bytes)
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.write_str(&String::from_utf8_lossy(bytes))
    }
}

impl SpeedBits {
    const fn new(speed: u8, extended: u8) -> SpeedBits {
        SpeedBits { speed, extended, extended_2: 0, is_fdr10: false, unknown: None }
    }

    /// Of a speed's name, such as `EDR`. A name of that form that is not known is a speed that is not known, so
    /// that files of links to come can be read; `None` for anything else.
    pub fn of_name(name: &str) -> Option<SpeedBits> {
        Some(match name {
            "SDR" => SpeedBits::new(1, 0),
            "DDR" => SpeedBits::new(2, 0),
            "QDR" => SpeedBits::new(4, 0),
            "FDR10" => SpeedBits { is_fdr10: true, ..SpeedBits::new(4, 0) },
            "FDR" => SpeedBits::new(4, 1),
            "EDR" => SpeedBits::new(4, 2),
            "HDR" => SpeedBits::new(4, 4),
            "NDR" => SpeedBits::new(4, 8),
            "XDR" => SpeedBits { extended_2: PortInfo::EXTENDED_SPEED_2_XDR, ..SpeedBits::new(4, 0) },
            _ if name.bytes().all(|byte| byte == b'?') => SpeedBits::default(),
            _ => {
                let family = name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix("DR")?;
                let is_name = !family.is_empty() && family.bytes().all(|byte| byte.is_ascii_uppercase());
                is_name.then(|| SpeedBits { unknown: Some(Unknown::new(name)), ..SpeedBits::default() })?
            }
        })
    }

    /// Of gigabits a second and lane, as `iblinkinfo` and ibdiagnet write them; a number that is none of the
    /// known ones is a speed that is not known, `None` is no number.
    pub fn of_gigabits(text: &str) -> Option<SpeedBits> {
        SpeedBits::of_name(match text {
            "2.5" => "SDR",
            "5" | "5.0" => "DDR",
            "10" | "10.0" => "QDR",
            "FDR10" => "FDR10",
            "14" | "14.0625" => "FDR",
            "25" | "25.78125" => "EDR",
            "50" | "53.125" => "HDR",
            "100" | "106.25" => "NDR",
            "200" | "200.0" | "212.5" => "XDR",
            _ => {
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let unknown = Some(Unknown::new(text));
                return (is_number && !text.is_empty())
                    .then_some(SpeedBits { unknown, ..SpeedBits::default() });
            }
        })
    }
}

/// `4xEDR`, as `ibnetdiscover` writes it.
pub fn parse(text: &str) -> Option<LinkBits> {
    let (lanes, speed) = text.split_once('x')?;
    Some(LinkBits { width: width_bits(lanes)?, speed: SpeedBits::of_name(speed)? })
}

/// LinkWidthActive of a number of lanes; `?` where the tool did not know it either.
pub fn width_bits(lanes: &str) -> Option<u8> {
    match lanes {
        "1" => Some(1),
        "4" => Some(2),
        "8" => Some(4),
        "12" => Some(8),
        "2" => Some(16),
        _ => lanes.bytes().all(|byte| byte == b'?').then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_crate() {
        for (text, width, speed) in [("1xSDR", "1x", "SDR"), ("2xHDR", "2x", "HDR"), ("12xQDR", "12x", "QDR")]
        {
            let bits = parse(text).unwrap();
            assert_eq!(crate::link::Width::decode(bits.width).unwrap().name(), width);
            let speed_bits = crate::link::Speed::decode(bits.speed.speed, bits.speed.extended);
            assert_eq!(speed_bits.unwrap().name(), speed);
        }
        assert_eq!(parse("4x???"), Some(LinkBits { width: 2, ..LinkBits::default() }));
        assert_eq!(parse("4xED"), None);
        assert_eq!(parse("4xDR"), None);
        let unknown = |bits: Option<SpeedBits>| bits.unwrap().unknown.map(|name| name.to_string());
        assert_eq!(unknown(SpeedBits::of_name("GDR")), Some("GDR".to_owned()));
        assert_eq!(unknown(SpeedBits::of_gigabits("425.0")), Some("425.0".to_owned()));
        assert_eq!(unknown(SpeedBits::of_gigabits("212.5")), None);
        assert_eq!(SpeedBits::of_gigabits("Active"), None);
    }
}
