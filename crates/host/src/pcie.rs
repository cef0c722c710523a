//! What an adapter's PCIe link carries, from the texts in sysfs. Pure.

/// Lanes that a link can have (PCI Express Base Specification 4.0, 7.5.3.8); the kernel prints 0 or 63 where it does not
/// know.
const LANES: [u64; 7] = [1, 2, 4, 8, 12, 16, 32];

/// Bytes per second in one direction, from for instance `16.0 GT/s PCIe x16`: speed and width as one text.
///
/// A transfer is a bit of a lane. With 2.5 and 5 GT/s 8 of 10 bits are bytes of packets, from 8 GT/s on 128 of 130 (PCI
/// Express Base Specification 3.0, 4.2.1 and 4.2.2), with 64 GT/s 236 of the 256 bytes of a flit (6.0, 4.2.3). What is left has
/// the headers of PCIe's own packets in it. `None` for other text and for a link that is down.
#[must_use]
pub fn bytes_per_second(text: &str) -> Option<u64> {
    let (speed, width) = text.rsplit_once(" x")?;
    let lanes: u64 = width.parse().ok().filter(|lanes| LANES.contains(lanes))?;
    let (number, rest) = speed.split_once(' ')?;
    if !rest.starts_with("GT/s") {
        return None;
    }
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let (megabits, bytes_of, of) = match (whole, tenths) {
        ("2", "5") => (2_500_u64, 8, 10),
        ("5", "0") => (5_000, 8, 10),
        ("8", "0") => (8_000, 128, 130),
        ("16", "0") => (16_000, 128, 130),
        ("32", "0") => (32_000, 128, 130),
        ("64", "0") => (64_000, 236, 256),
        _ => return None,
    };
    Some(megabits * 1_000_000 * lanes * bytes_of / of / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_all_generations() {
        for (text, rate) in [
            ("2.5 GT/s PCIe x1", 250_000_000),
            ("5.0 GT/s PCIe x8", 4_000_000_000),
            // Older kernels.
            ("8 GT/s x16", 15_753_846_153),
            ("8.0 GT/s PCIe x16", 15_753_846_153),
            ("16.0 GT/s PCIe x16", 31_507_692_307),
            ("32.0 GT/s PCIe x16", 63_015_384_615),
            ("64.0 GT/s PCIe x16", 118_000_000_000),
        ] {
            assert_eq!(bytes_per_second(text), Some(rate), "{text}");
        }
    }

    #[test]
    fn what_is_no_link_has_no_rate() {
        for text in [
            "",
            "Unknown x0",
            "Unknown x16",
            "16.0 GT/s PCIe x63",
            "16.0 GT/s PCIe",
            "7.0 GT/s PCIe x4",
            "16.0 Gb/s x4",
        ] {
            assert_eq!(bytes_per_second(text), None, "{text}");
        }
    }
}
