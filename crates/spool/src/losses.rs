//! What a spool lost, in words: each cause with its own remedy, so that a person raises the bound that was reached.

use crate::Stats;

impl Stats {
    /// Entries lost since the start. At least so many, where [`Stats::uncounted_spots`] is not 0.
    pub fn lost_entries(&self) -> u64 {
        self.dropped_memory_entries + self.dropped_disk_entries + self.damaged_entries
    }

    /// Why entries were lost, and what helps. Empty where none was.
    pub fn losses(&self) -> Vec<String> {
        let mut losses = Vec::new();
        if self.dropped_memory_entries > 0 {
            losses.push(format!(
                "{} dropped from memory before the disk took them; see how slow or full the disk is, or raise spool.memory_bytes_max",
                self.dropped_memory_entries
            ));
        }
        if self.dropped_disk_entries > 0 {
            losses.push(format!(
                "{} dropped as its folder is full; see that the collector takes them, or raise spool.bytes_max",
                self.dropped_disk_entries
            ));
        }
        if self.damaged_entries + self.uncounted_spots > 0 {
            losses
                .push(format!("{} damaged on disk; see the disk, and the *.bad files", self.damaged_words()));
        }
        losses
    }

    /// Why every second entry of cumulative values was left out, and what helps. Empty where none was.
    pub fn evictions(&self) -> Vec<String> {
        let mut evictions = Vec::new();
        if self.thinned_memory_entries > 0 {
            evictions.push(format!(
                "{} in memory; see how slow or full the disk is, or raise spool.memory_bytes_max",
                self.thinned_memory_entries
            ));
        }
        if self.thinned_disk_entries > 0 {
            evictions.push(format!(
                "{} in its folder; see that the collector takes them, or raise spool.bytes_max",
                self.thinned_disk_entries
            ));
        }
        evictions
    }

    /// How many entries damage cost: a number, or the least that it can be.
    pub fn damaged_words(&self) -> String {
        damaged_words(self.damaged_entries, self.uncounted_spots)
    }
}

/// So many entries; the least, where some spots held an unknown number.
pub(crate) fn damaged_words(entries: u64, uncounted_spots: u64) -> String {
    if uncounted_spots > 0 { format!("at least {entries}") } else { entries.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_remedy() {
        let none = Stats::default();
        assert!(none.losses().is_empty() && none.evictions().is_empty());
        let memory = Stats { dropped_memory_entries: 10, ..Stats::default() };
        assert!(memory.losses()[0].contains("spool.memory_bytes_max"), "{memory:?}");
        assert!(!memory.losses()[0].contains("folder is full"), "{memory:?}");
        let disk = Stats { dropped_disk_entries: 3, thinned_disk_entries: 4, ..Stats::default() };
        assert!(disk.losses()[0].contains("raise spool.bytes_max") && disk.evictions()[0].starts_with("4 "));
        let damaged = Stats { damaged_entries: 2, uncounted_spots: 1, ..Stats::default() };
        assert!(damaged.losses()[0].starts_with("at least 2 damaged"), "{damaged:?}");
        assert_eq!(Stats { damaged_entries: 2, ..Stats::default() }.damaged_words(), "2");
    }
}
