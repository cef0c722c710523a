//! Width and speed of a link as the tools write them, and as PortInfo's bits. Pure.

/// LinkWidthActive, LinkSpeedActive and LinkSpeedExtActive (IBTA volume 1, 14.2.5.6); 0 is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBits {
    /// LinkWidthActive.
    pub width: u8,
    /// LinkSpeedActive.
    pub speed: u8,
    /// LinkSpeedExtActive.
    pub extended_speed: u8,
}

/// `4xEDR`, as `ibnetdiscover` writes it.
pub fn parse(text: &str) -> Option<LinkBits> {
    let (lanes, speed) = text.split_once('x')?;
    let (speed, extended_speed) = speed_bits(speed)?;
    Some(LinkBits { width: width_bits(lanes)?, speed, extended_speed })
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

/// LinkSpeedActive and LinkSpeedExtActive of a speed's name. FDR10 is QDR to PortInfo.
pub fn speed_bits(name: &str) -> Option<(u8, u8)> {
    match name {
        "SDR" => Some((1, 0)),
        "DDR" => Some((2, 0)),
        "QDR" | "FDR10" => Some((4, 0)),
        "FDR" => Some((4, 1)),
        "EDR" => Some((4, 2)),
        "HDR" => Some((4, 4)),
        "NDR" => Some((4, 8)),
        _ => name.bytes().all(|byte| byte == b'?').then_some((0, 0)),
    }
}

/// The same of gigabits a second and lane, as `iblinkinfo` and ibdiagnet write them.
pub fn gigabits_bits(text: &str) -> Option<(u8, u8)> {
    speed_bits(match text {
        "2.5" => "SDR",
        "5" | "5.0" => "DDR",
        "10" | "10.0" | "FDR10" => "QDR",
        "14" | "14.0625" => "FDR",
        "25" | "25.78125" => "EDR",
        "50" | "53.125" => "HDR",
        "100" | "106.25" => "NDR",
        _ => return None,
    })
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
            assert_eq!(crate::link::Speed::decode(bits.speed, bits.extended_speed).unwrap().name(), speed);
        }
        assert_eq!(parse("4x???"), Some(LinkBits { width: 2, speed: 0, extended_speed: 0 }));
        assert_eq!(parse("4xED"), None);
    }
}
