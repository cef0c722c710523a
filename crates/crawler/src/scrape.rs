//! What a scraper requests of the page: a shard of the nodes and a choice of counters. Pure.

use throughline_daemon::{Format, Scrape};
use throughline_infiniband::errors::find;
use throughline_infiniband::mad::counter_metrics;
use throughline_sample::Guid;
use throughline_sample::admission::clean_text;
use throughline_sample::catalogue::{Kind, Metric, Unit};

/// Most shards of one page: 30,000 ports in 64 are 500 a scrape.
const MOST_SHARDS: u32 = 64;
/// Most characters of a query's value: all counters by name are 1,500.
const MOST_CHARACTERS: usize = 4096;

/// One of several disjoint parts of a fabric that are complete together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// From 1.
    number: u32,
    of: u32,
}

impl Shard {
    /// The whole fabric.
    pub const WHOLE: Shard = Shard { number: 1, of: 1 };

    fn parse(text: &str) -> Result<Shard, String> {
        let wrong = || {
            format!(
                "shard={} is not NUMBER/COUNT, from 1/1 to {MOST_SHARDS}/{MOST_SHARDS}: for instance 3/8",
                clean_text(text, SHOWN_BYTES)
            )
        };
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let shard =
            Shard { number: number.parse().map_err(|_| wrong())?, of: of.parse().map_err(|_| wrong())? };
        let fits = shard.of <= MOST_SHARDS && (1..=shard.of).contains(&shard.number);
        if fits { Ok(shard) } else { Err(wrong()) }
    }

    /// Whether a node with all its ports is in this shard. The same node is always in the same one, whatever
    /// else there is.
    #[must_use]
    pub fn has(&self, node: Guid) -> bool {
        // GUIDs of one vendor differ in few bits, so they are mixed before the division (the finaliser of
        // SplitMix64: a bijection, so nothing is lost).
        let mut mixed = node.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        mixed % u64::from(self.of) == u64::from(self.number - 1)
    }

    /// Whether what is reported once of a fabric belongs to this shard.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.number == 1
    }
}

/// Which counters a page shows, by position in [`counter_metrics`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CounterChoice {
    shown: Vec<bool>,
}

impl CounterChoice {
    /// Every counter.
    #[must_use]
    pub fn all() -> CounterChoice {
        CounterChoice { shown: vec![true; counter_metrics().len()] }
    }

    /// Reads `all`, `fast` (data, packets, wait), `errors`, names of counters (ours or IBTA's), or several of
    /// them with commas.
    ///
    /// # Errors
    /// A name that nothing has, in words.
    pub fn parse(text: &str) -> Result<CounterChoice, String> {
        if text.len() > MOST_CHARACTERS {
            return Err(format!("counters: more than {MOST_CHARACTERS} characters"));
        }
        let mut shown = vec![false; counter_metrics().len()];
        for name in text.split(',').map(str::trim) {
            let of_group: fn(&Metric) -> bool = match name {
                "all" => |_| true,
                "fast" => is_fast,
                "errors" => |metric| !is_fast(metric),
                _ => {
                    let index = find(name)
                        .and_then(|found| counter_metrics().iter().position(|metric| metric.id == found.id));
                    let index = index.ok_or_else(|| {
                        format!(
                            "counters={}: no such counter; there are all, fast, errors and the names in \
                             docs/METRICS.md, such as transmit_data_bytes",
                            clean_text(name, SHOWN_BYTES)
                        )
                    })?;
                    shown[index] = true;
                    continue;
                }
            };
            for (shown, metric) in shown.iter_mut().zip(counter_metrics()) {
                *shown |= of_group(metric);
            }
        }
        Ok(CounterChoice { shown })
    }

    /// Positions of the counters shown.
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.shown.iter().enumerate().filter(|(_, shown)| **shown).map(|(index, _)| index)
    }
}

/// Traffic and waiting; everything else counts what went wrong.
fn is_fast(metric: &Metric) -> bool {
    metric.kind == Kind::Counter && matches!(metric.unit, Unit::Bytes | Unit::Packets | Unit::Ticks)
}

/// A page as it was requested.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageRequest {
    /// Which nodes.
    pub shard: Shard,
    /// Which counters.
    pub choice: CounterChoice,
    /// In which format.
    pub format: Format,
}

impl PageRequest {
    /// Reads a query; what it does not name is as configured.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(scrape: &Scrape, configured: &CounterChoice) -> Result<PageRequest, String> {
        let mut request =
            PageRequest { shard: Shard::WHOLE, choice: configured.clone(), format: scrape.format };
        for (key, value) in &scrape.query {
            match key.as_str() {
                "shard" => request.shard = Shard::parse(value)?,
                "counters" => request.choice = CounterChoice::parse(value)?,
                other => {
                    return Err(format!(
                        "'{}' is no parameter of this page; there are shard=3/8 and counters=fast",
                        clean_text(other, SHOWN_BYTES)
                    ));
                }
            }
        }
        Ok(request)
    }
}

/// Bytes of a wrong value that a message repeats.
const SHOWN_BYTES: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        CounterChoice::parse(text).unwrap().indices().map(|index| counter_metrics()[index].name).collect()
    }

    #[test]
    fn shards_are_disjoint_complete_and_even() {
        // As a vendor numbers switches: steps of 16.
        let guids: Vec<Guid> = (0..1600).map(|i| Guid(0x0002_c902_0000_0000 + 16 * i)).collect();
        for of in [1, 2, 3, 8, 64] {
            let shards: Vec<Shard> = (1..=of).map(|number| Shard { number, of }).collect();
            for guid in &guids {
                assert_eq!(shards.iter().filter(|shard| shard.has(*guid)).count(), 1);
            }
            let even = guids.len() / of as usize;
            for shard in &shards {
                let size = guids.iter().filter(|guid| shard.has(**guid)).count();
                assert!(size > even / 4 && size < even * 2 + 8, "{size} of {even}");
            }
        }
        // What a page showed yesterday it shows tomorrow: the function may never change.
        let of_eight = |guid: u64| (1..=8).find(|number| Shard { number: *number, of: 8 }.has(Guid(guid)));
        let expected: [Option<u32>; 3] = OF_EIGHT.map(Some);
        assert_eq!([0x0002_c902_0000_0010, 0x506b_4b03_005c_2740, 1].map(of_eight), expected);
    }

    /// Shards of three GUIDs among eight, as of the first release.
    const OF_EIGHT: [u32; 3] = [4, 8, 6];

    #[test]
    fn wrong_shards_are_refused() {
        for wrong in ["", "3", "0/8", "9/8", "1/0", "a/b", "1/65", "-1/8", "1/8/2", " 1/8"] {
            assert!(Shard::parse(wrong).unwrap_err().contains("3/8"), "{wrong}");
        }
        assert_eq!(Shard::parse("3/8"), Ok(Shard { number: 3, of: 8 }));
    }

    #[test]
    fn counters_are_chosen_by_group_and_by_name() {
        assert_eq!(names("all").len(), counter_metrics().len());
        assert!(names("fast").contains(&"transmit_data_bytes") && names("fast").contains(&"transmit_wait"));
        assert!(!names("fast").contains(&"symbol_error"));
        assert!(names("errors").contains(&"link_downed"));
        assert_eq!(names("fast").len() + names("errors").len(), names("all").len());
        assert_eq!(names("PortXmitData, symbol_error"), ["transmit_data_bytes", "symbol_error"]);
        assert!(CounterChoice::parse("nonsense").is_err());
        assert!(CounterChoice::parse("").is_err());
    }

    #[test]
    fn a_query_says_what_it_wants() {
        let all = CounterChoice::parse("all").unwrap();
        let scrape = |query: &[(&str, &str)]| Scrape {
            format: Format::Text,
            query: query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        };
        let request = PageRequest::parse(&scrape(&[("shard", "2/3"), ("counters", "errors")]), &all).unwrap();
        assert_eq!(request.shard, Shard { number: 2, of: 3 });
        assert!(request.choice == CounterChoice::parse("errors").unwrap());
        assert!(PageRequest::parse(&scrape(&[]), &all).unwrap().choice == all);
        assert!(PageRequest::parse(&scrape(&[("shards", "1/2")]), &all).unwrap_err().contains("'shards'"));
    }
}
