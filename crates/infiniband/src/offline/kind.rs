//! Which format a file is of, recognised from its beginning.

/// The formats, those first that say most of a node and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `ibnetdiscover --cache`.
    Cache,
    /// ibdiagnet's `.db_csv`.
    Database,
    /// `ibnetdiscover`, and nets for ibsim.
    Ibnetdiscover,
    /// ibdiagnet's `.lst`.
    Listing,
    /// `ibnetdiscover --ports`.
    Report,
    /// `iblinkinfo`.
    LinkInfo,
    /// `perfquery`.
    Perfquery,
    /// `ibqueryerrors`.
    QueryErrors,
    /// Forwarding tables: `dump_lfts`, `dump_mfts`, `dump_fts`, `ibroute`.
    Tables,
    /// The same as opensm and ibdiagnet dump them: `.fdbs`, `.mcfdbs`.
    Dumped,
    /// `saquery -g` and `saquery -m`.
    Groups,
}

impl Kind {
    /// Whether nodes and cables can be read from it alone.
    #[must_use]
    pub fn is_topology(self) -> bool {
        matches!(self, Kind::Cache | Kind::Database | Kind::Ibnetdiscover | Kind::Listing | Kind::Report)
    }
}

/// Lines that are looked at; a heading stands well before.
const LOOKED_AT: usize = 200;

/// The format of a file that begins with `bytes`; `None` where it is none of them.
#[must_use]
pub fn of(bytes: &[u8]) -> Option<Kind> {
    if bytes.starts_with(&super::cache::MAGIC.to_le_bytes()) {
        return Some(Kind::Cache);
    }
    let text = String::from_utf8_lossy(bytes);
    text.lines().take(LOOKED_AT).find_map(of_line)
}

fn of_line(line: &str) -> Option<Kind> {
    let line = line.trim_start();
    let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    if begins(&["START_"]) {
        return Some(Kind::Database);
    }
    if begins(&["{ CA Ports:", "{ SW Ports:", "{ RT Ports:"]) {
        return Some(Kind::Listing);
    }
    if begins(&["LID    : Port", "LID    : Out Port", "LID : Port", "LID : Out Port"]) {
        return Some(Kind::Dumped);
    }
    if begins(&["MCMemberRecord group dump:", "MCMemberRecord member dump:"]) {
        return Some(Kind::Groups);
    }
    if begins(&["Unicast lids [", "Multicast mlids ["]) {
        return Some(Kind::Tables);
    }
    if begins(&["# Topology file:", "vendid=0x", "Switch\t", "Ca\t", "Rt\t"]) {
        return Some(Kind::Ibnetdiscover);
    }
    if line.starts_with("# Port") && line.contains(" counters: ") {
        return Some(Kind::Perfquery);
    }
    if begins(&["Errors for 0x", "Errors for \"", "Data Counters for 0x", "## Summary:"]) {
        return Some(Kind::QueryErrors);
    }
    if line.contains("==(") && line.contains("==>") || begins(&["Switch: 0x"]) {
        return Some(Kind::LinkInfo);
    }
    let mut words = line.split_whitespace();
    let is_end = matches!(words.next(), Some("CA" | "SW" | "RT"));
    let has_numbers = words.by_ref().take(2).all(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    (is_end && has_numbers && words.next().is_some_and(|guid| guid.starts_with("0x"))).then_some(Kind::Report)
}
