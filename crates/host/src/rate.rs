//! The rate of a link from the text in sysfs. Pure.

/// Bytes per second of data in one direction, from for instance `100 Gb/sec (4X EDR)`.
///
/// The number before `Gb/sec` is the signal's: with SDR, DDR and QDR a fifth of it is line code, with FDR
/// 2 of 66 bits. What counters can grow by is the data rate, so that is what utilisation is measured against;
/// the fabric crawler computes it the same way. `None` for other text and for a link that has no rate.
#[must_use]
pub fn bytes_per_second(text: &str) -> Option<u64> {
    let (number, rest) = text.split_once(' ')?;
    let link = rest.strip_prefix("Gb/sec")?.trim().strip_prefix('(')?.strip_suffix(')')?;
    let mut words = link.split_whitespace();
    let lanes: u64 = words.next()?.strip_suffix(['X', 'x'])?.parse().ok()?;
    let speed = words.next();
    let bits_per_lane = match speed {
        // Older kernels name no SDR.
        None | Some("SDR") => 2_000_000_000,
        Some("DDR") => 4_000_000_000,
        Some("QDR") => 8_000_000_000,
        Some("FDR10") => 10_000_000_000,
        Some("FDR") => 14_062_500_000 * 64 / 66,
        Some("EDR") => 25_000_000_000,
        Some("HDR") => 50_000_000_000,
        Some("NDR") => 100_000_000_000,
        Some("XDR") => 200_000_000_000,
        // A speed newer than this program: those have no line code in their number.
        Some(_) => return whole_bytes(number),
    };
    // At most 12 lanes exist; a larger number is no link.
    (1..=12).contains(&lanes).then(|| bits_per_lane * lanes / 8)
}

/// Gigabits with at most one decimal, as the kernel prints them, to bytes.
fn whole_bytes(gigabits: &str) -> Option<u64> {
    let (whole, tenths) = gigabits.split_once('.').unwrap_or((gigabits, "0"));
    let whole: u64 = whole.parse().ok()?;
    let tenths: u64 = if tenths.len() == 1 { tenths.parse().ok()? } else { return None };
    whole
        .checked_mul(10)?
        .checked_add(tenths)?
        .checked_mul(100_000_000)?
        .checked_div(8)
        .filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_links_have_their_data_rate() {
        for (text, rate) in [
            ("100 Gb/sec (4X EDR)", 12_500_000_000),
            ("200 Gb/sec (4X HDR)", 25_000_000_000),
            ("100 Gb/sec (2X HDR)", 12_500_000_000),
            ("400 Gb/sec (4X NDR)", 50_000_000_000),
            ("40 Gb/sec (4X QDR)", 4_000_000_000),
            ("2.5 Gb/sec (1X SDR)", 250_000_000),
            ("10 Gb/sec (4X)", 1_000_000_000),
            ("40 Gb/sec (4X FDR10)", 5_000_000_000),
            ("56 Gb/sec (4X FDR)", 6_818_181_818),
            ("1600 Gb/sec (4X GDR)", 200_000_000_000),
            ("2.5 Gb/sec (1X NEW)", 312_500_000),
        ] {
            assert_eq!(bytes_per_second(text), Some(rate), "{text}");
        }
    }

    #[test]
    fn other_text_has_no_rate() {
        for text in
            ["", "N/A", "100", "100 Gb/sec", "100 Gb/s (4X EDR)", "0 Gb/sec (0X)", "x Gb/sec (4X NEW)"]
        {
            assert_eq!(bytes_per_second(text), None, "{text}");
        }
        assert_eq!(bytes_per_second("99999999999999999999 Gb/sec (4X NEW)"), None);
        assert_eq!(bytes_per_second("100 Gb/sec (99999999999X EDR)"), None);
    }
}
