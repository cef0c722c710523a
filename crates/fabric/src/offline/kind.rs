//! Which format a file is of, told from its beginning.

/// The formats, those first that say most of a node and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `ibnetdiscover`, and nets for ibsim.
    Ibnetdiscover,
    /// Unicast forwarding tables: `dump_lfts`, `dump_fts`, `ibroute`.
    Tables,
}

/// Lines that are looked at; a heading stands well before.
const LOOKED_AT: usize = 200;

/// The format of a file that begins with `bytes`; `None` where it is none of them.
#[must_use]
pub fn of(bytes: &[u8]) -> Option<Kind> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().take(LOOKED_AT).find_map(of_line)
}

fn of_line(line: &str) -> Option<Kind> {
    let line = line.trim_start();
    let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    if begins(&["Unicast lids ["]) {
        return Some(Kind::Tables);
    }
    if begins(&["# Topology file:", "vendid=0x", "Switch\t", "Ca\t", "Rt\t"]) {
        return Some(Kind::Ibnetdiscover);
    }
    None
}
