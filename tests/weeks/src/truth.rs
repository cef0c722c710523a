//! Links whose counters are known at each second, by formula, and when each of them is read.

/// Seconds from one reading to the next.
pub const INTERVAL: i64 = 20;
pub const MINUTE: i64 = 60;
pub const HOUR: i64 = 3600;
pub const DAY: i64 = 24 * HOUR;
/// Speed of each link, bytes a second.
pub const SPEED: u64 = 25_000_000_000;

/// How a counter rises.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// The same rate always.
    Constant(u64),
    /// From nothing to twice this rate in each hour.
    Ramp(u64),
    /// At this rate in the first 23 s of each minute.
    Bursts(u64),
}

impl Load {
    /// Bytes in the first so many seconds.
    fn bytes(self, seconds: u64) -> u64 {
        match self {
            Load::Constant(rate) => rate * seconds,
            Load::Ramp(rate) => {
                let (hours, rest) = (seconds / 3600, seconds % 3600);
                // 2 rate / 3600 in each second more.
                rate * 3600 * hours + rate / 3600 * rest * rest
            }
            Load::Bursts(rate) => rate * (seconds / 60 * 23 + (seconds % 60).min(23)),
        }
    }
}

/// Who reads a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The crawler.
    Fabric,
    /// The agent of the host.
    Host,
}

/// A link's end and its life, in seconds since the world began.
#[derive(Clone, Debug)]
pub struct Link {
    pub name: &'static str,
    pub reader: Reader,
    /// Of the fabric's port, or of the host.
    pub number: u64,
    pub load: Load,
    /// Read from here on.
    pub starts: i64,
    /// Read until here.
    pub stops: i64,
    /// Not read from the first until the second.
    pub pauses: Vec<(i64, i64)>,
    /// When its counter began anew.
    pub resets: Vec<i64>,
    /// Readings that never came.
    pub lost: Vec<(i64, i64)>,
}

impl Link {
    fn new(name: &'static str, reader: Reader, number: u64, load: Load) -> Self {
        let (pauses, resets, lost) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, reader, number, load, starts: 0, stops: i64::MAX, pauses, resets, lost }
    }

    /// Since when its counter counts, at this second.
    pub fn epoch(&self, second: i64) -> i64 {
        self.resets.iter().copied().filter(|at| *at <= second).max().unwrap_or(0)
    }

    /// What its counter has at this second.
    pub fn value(&self, second: i64) -> u64 {
        self.load.bytes((second - self.epoch(second)).unsigned_abs())
    }

    /// Whether it is read at this second.
    pub fn is_read(&self, second: i64) -> bool {
        let is_off = |(from, to): &(i64, i64)| (*from..*to).contains(&second);
        (self.starts..self.stops).contains(&second) && !self.pauses.iter().any(is_off)
    }

    /// Whether its reading at this second is in the database.
    pub fn is_stored(&self, second: i64) -> bool {
        let is_lost = |(from, to): &(i64, i64)| (*from..*to).contains(&second);
        self.is_read(second) && !self.lost.iter().any(is_lost)
    }

    /// GUID of its port.
    pub fn guid(&self) -> u64 {
        PORT_GUIDS + self.number * 2 + 1
    }

    /// What is counted between readings that are stored, none of them farther apart than a source's pause, from the first second
    /// until the second, and how many such pairs there are.
    pub fn counted(&self, from: i64, to: i64, is_fed: impl Fn(i64) -> bool) -> (u64, u64) {
        let (mut bytes, mut pairs) = (0, 0);
        let mut second = from + INTERVAL;
        while second <= to {
            let before = second - INTERVAL;
            let are_read =
                self.is_stored(before) && self.is_stored(second) && is_fed(before) && is_fed(second);
            if are_read && self.epoch(before) == self.epoch(second) {
                bytes += self.value(second) - self.value(before);
                pairs += 1;
            }
            second += INTERVAL;
        }
        (bytes, pairs)
    }
}

/// Node GUIDs of hosts' adapters and of the switch; a port's is one more.
pub const PORT_GUIDS: u64 = 0x0c42_a103_0000_0000;
pub const SWITCH_GUID: u64 = 0x0002_c903_0000_0001;
/// Name of the fabric.
pub const FABRIC: &str = "weeks";

/// Ports of the fabric that are read.
pub const PORTS: u64 = 7;
/// Hosts whose own ports are read.
pub const HOSTS: u64 = 4;
/// The host whose records are late at times.
pub const LATE_HOST: u64 = 2;

/// All links. `day` is a day of the world in which series start, stop, pause and begin anew.
pub fn links(day: i64) -> Vec<Link> {
    let fabric = |name, number, load| Link::new(name, Reader::Fabric, number, load);
    let host = |name, number, load| Link::new(name, Reader::Host, number, load);
    vec![
        fabric("constant", 0, Load::Constant(4_000_000_000)),
        fabric("ramp", 1, Load::Ramp(3_600_000_000)),
        fabric("bursts", 2, Load::Bursts(12_000_000_000)),
        Link { starts: day + 20 * MINUTE, ..fabric("starts", 3, Load::Constant(2_000_000_000)) },
        Link { stops: day + 40 * MINUTE, ..fabric("stops", 4, Load::Ramp(1_800_000_000)) },
        Link {
            pauses: vec![(day + 15 * MINUTE, day + 35 * MINUTE)],
            ..fabric("pauses", 5, Load::Bursts(8_000_000_000))
        },
        Link {
            resets: vec![day + 25 * MINUTE, day + 50 * MINUTE + 40],
            ..fabric("resets", 6, Load::Constant(1_000_000_000))
        },
        host("host-constant", 0, Load::Constant(500_000_000)),
        host("host-bursts", 1, Load::Bursts(6_000_000_000)),
        host("host-late", LATE_HOST, Load::Ramp(7_200_000_000)),
        host("host-ramp", 3, Load::Ramp(900_000_000)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_rise_by_their_rates() {
        assert_eq!(Load::Constant(5).bytes(7), 35);
        assert_eq!(Load::Ramp(3600).bytes(3600), 3600 * 3600);
        assert_eq!(Load::Ramp(3600).bytes(5400), 3600 * 3600 + 1800 * 1800);
        assert_eq!(Load::Bursts(10).bytes(125), 10 * (46 + 5));
        let link = &links(0)[6];
        let day: u64 = link.counted(0, HOUR, |_| true).0;
        // Two intervals have a new epoch within them.
        assert_eq!(day, 1_000_000_000 * (3600 - 40));
    }
}
