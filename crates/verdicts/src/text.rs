//! Figures in sentences.

/// `41 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// `138 s`, `2.5 s`, `35 ms`, `8.1 µs`.
pub fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 || s == 0.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    if value >= 99.5 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// `12.5 GB`, decimal.
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.5 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// `ranks 0, 1, 2 and 13 others`; `rank 3`.
pub fn ranks(ranks: &[u32]) -> String {
    const NAMED: usize = 4;
    match ranks {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        few if few.len() <= NAMED => {
            let names: Vec<String> = few[..few.len() - 1].iter().map(u32::to_string).collect();
            format!("ranks {} and {}", names.join(", "), few[few.len() - 1])
        }
        many => {
            let names: Vec<String> = many[..NAMED - 1].iter().map(u32::to_string).collect();
            format!("ranks {} and {} others", names.join(", "), many.len() - names.len())
        }
    }
}

/// `, and 3 other hosts are alike`; nothing where there is none.
pub fn alike(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", and another host is alike".to_owned(),
        more => format!(", and {more} other hosts are alike"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([percent(0.414), percent(0.0042), percent(0.0)], ["41 %", "0.4 %", "0 %"]);
        assert_eq!(
            [seconds(138.2), seconds(2.53), seconds(0.035), seconds(8.1e-6)],
            ["138 s", "2.5 s", "35.0 ms", "8.1 µs"]
        );
        assert_eq!([bytes(12.5e9), bytes(999.0), bytes(123_456.0)], ["12.5 GB", "999 B", "123 kB"]);
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[1, 2]), "ranks 1 and 2");
        assert_eq!(ranks(&[0, 1, 2, 3, 4]), "ranks 0, 1, 2 and 2 others");
    }
}
