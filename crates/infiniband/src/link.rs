//! Width and speed of a link: from PortInfo's bits to names and a data rate. Pure.

use crate::mad::PortInfo;

/// Lanes of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(u8);

impl Width {
    /// From LinkWidthActive (IBTA volume 1, 14.2.5.6); `None` for anything but one of its values.
    #[must_use]
    pub const fn decode(active: u8) -> Option<Width> {
        match active {
            1 => Some(Width(1)),
            2 => Some(Width(4)),
            4 => Some(Width(8)),
            8 => Some(Width(12)),
            16 => Some(Width(2)),
            _ => None,
        }
    }

    /// Number of lanes.
    #[must_use]
    pub const fn lanes(self) -> u8 {
        self.0
    }

    /// `1x`, `2x`, `4x`, `8x` or `12x`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "1x",
            2 => "2x",
            4 => "4x",
            8 => "8x",
            _ => "12x",
        }
    }
}

/// Signalling of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// 2.5 GBd, 8b/10b.
    Sdr,
    /// 5 GBd, 8b/10b.
    Ddr,
    /// 10 GBd, 8b/10b.
    Qdr,
    /// 10.3125 GBd, 64b/66b: between QDR and FDR, of one vendor.
    Fdr10,
    /// 14.0625 GBd, 64b/66b.
    Fdr,
    /// 25.78125 GBd, 64b/66b.
    Edr,
    /// 50 Gbit/s of data.
    Hdr,
    /// 100 Gbit/s of data.
    Ndr,
    /// 200 Gbit/s of data.
    Xdr,
}

impl Speed {
    /// From LinkSpeedActive and, where the node has extended speeds, LinkSpeedExtActive.
    #[must_use]
    pub const fn decode(active: u8, extended_active: u8) -> Option<Speed> {
        match (extended_active, active) {
            (0, 1) => Some(Speed::Sdr),
            (0, 2) => Some(Speed::Ddr),
            (0, 4) => Some(Speed::Qdr),
            (1, _) => Some(Speed::Fdr),
            (2, _) => Some(Speed::Edr),
            (4, _) => Some(Speed::Hdr),
            (8, _) => Some(Speed::Ndr),
            _ => None,
        }
    }

    /// The name as infiniband-diags print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Speed::Sdr => "SDR",
            Speed::Ddr => "DDR",
            Speed::Qdr => "QDR",
            Speed::Fdr10 => "FDR10",
            Speed::Fdr => "FDR",
            Speed::Edr => "EDR",
            Speed::Hdr => "HDR",
            Speed::Ndr => "NDR",
            Speed::Xdr => "XDR",
        }
    }

    /// Data bits per second of one lane, after the line code.
    const fn lane_bits_per_second(self) -> u64 {
        match self {
            Speed::Sdr => 2_000_000_000,
            Speed::Ddr => 4_000_000_000,
            Speed::Qdr => 8_000_000_000,
            Speed::Fdr10 => 10_000_000_000,
            Speed::Fdr => 14_062_500_000 * 64 / 66,
            Speed::Edr => 25_000_000_000,
            Speed::Hdr => 50_000_000_000,
            Speed::Ndr => 100_000_000_000,
            Speed::Xdr => 200_000_000_000,
        }
    }
}

/// Bytes per second of one direction of a link, after the line code: what data counters can grow by at most.
#[must_use]
pub const fn rate_bytes_per_second(width: Width, speed: Speed) -> u64 {
    speed.lane_bits_per_second() * width.lanes() as u64 / 8
}

/// Bytes per second of one direction of a link with the line code up to EDR: what infiniband_exporter 0.10 calls the raw
/// rate.
#[must_use]
pub const fn signalling_bytes_per_second(width: Width, speed: Speed) -> u64 {
    let lane_bits: u64 = match speed {
        Speed::Sdr => 2_500_000_000,
        Speed::Ddr => 5_000_000_000,
        Speed::Qdr => 10_000_000_000,
        Speed::Fdr10 => 10_312_500_000,
        Speed::Fdr => 14_062_500_000,
        Speed::Edr => 25_781_250_000,
        // From HDR on the specification names the rate of the data, error correction taken off, and so do tools.
        Speed::Hdr => 50_000_000_000,
        Speed::Ndr => 100_000_000_000,
        Speed::Xdr => 200_000_000_000,
    };
    lane_bits * width.lanes() as u64 / 8
}

/// Width and speed of a port; `extended` says whether its node has extended speeds. `None` for a port without
/// a link and for values that the specification does not have.
#[must_use]
pub fn of_port(info: &PortInfo, extended: bool) -> Option<(Width, Speed)> {
    if !info.is_linked() {
        return None;
    }
    let width = Width::decode(info.width_active)?;
    if extended && info.extended_speed_2_active == PortInfo::EXTENDED_SPEED_2_XDR {
        return Some((width, Speed::Xdr));
    }
    let extended_active = if extended { info.extended_speed_active } else { 0 };
    match Speed::decode(info.speed_active, extended_active)? {
        // PortInfo has no bit for it: the vendor's attribute has.
        Speed::Qdr if info.is_fdr10 => Some((width, Speed::Fdr10)),
        speed => Some((width, speed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_data() {
        let rate = |width, speed| rate_bytes_per_second(Width::decode(width).unwrap(), speed);
        assert_eq!(rate(1, Speed::Sdr), 250_000_000);
        assert_eq!(rate(2, Speed::Qdr), 4_000_000_000);
        assert_eq!(rate(2, Speed::Fdr), 6_818_181_818);
        assert_eq!(rate(2, Speed::Edr), 12_500_000_000);
        assert_eq!(rate(16, Speed::Hdr), 12_500_000_000);
        assert_eq!(rate(8, Speed::Ndr), 150_000_000_000);
    }

    #[test]
    fn raw_rates_are_those_of_infiniband_exporter() {
        let raw = |speed| signalling_bytes_per_second(Width::decode(2).unwrap(), speed);
        assert_eq!(raw(Speed::Edr), 12_890_625_000);
        assert_eq!(raw(Speed::Hdr), 25_000_000_000);
        assert_eq!(raw(Speed::Ndr), 50_000_000_000);
    }

    #[test]
    fn speeds_that_stand_elsewhere() {
        let mut info = PortInfo {
            state: Some(crate::mad::PortState::Active),
            physical_state: crate::mad::PhysicalState(5),
            width_active: 2,
            speed_active: 4,
            ..PortInfo::default()
        };
        let rate = |info: &PortInfo| {
            let (width, speed) = of_port(info, true).unwrap();
            (speed.name(), rate_bytes_per_second(width, speed))
        };
        assert_eq!(rate(&info), ("QDR", 4_000_000_000));
        info.is_fdr10 = true;
        assert_eq!(rate(&info), ("FDR10", 5_000_000_000));
        info.extended_speed_active = 8;
        assert_eq!(rate(&info), ("NDR", 50_000_000_000));
        info.extended_speed_2_active = 1;
        assert_eq!(rate(&info), ("XDR", 100_000_000_000));
        assert_eq!(
            of_port(&info, false).unwrap().1,
            Speed::Fdr10,
            "without extended speeds they mean nothing"
        );
    }

    #[test]
    fn unknown_values_have_no_speed() {
        assert_eq!(Width::decode(3), None);
        assert_eq!(Speed::decode(7, 0), None);
        assert_eq!(Speed::decode(4, 3), None);
        assert_eq!(Speed::decode(4, 2), Some(Speed::Edr));
    }
}
