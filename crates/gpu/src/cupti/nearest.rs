//! The names that a chip has nearest to one that it lacks. Pure.

use super::wanted::divided;

/// How many are named.
const NAMED: usize = 3;

/// How far a name is from another: letters that differ, or one more than those of their words in any order where that is
/// less. `dram__read_bytes` is `dram__bytes_read` with its words in another order.
fn distance(one: &str, other: &str) -> usize {
    let sorted = |name: &str| {
        let mut words: Vec<&str> = name.split(['_', '.']).filter(|word| !word.is_empty()).collect();
        words.sort_unstable();
        words.join("_")
    };
    let by_letter = strsim::osa_distance(one, other);
    by_letter.min(1 + strsim::osa_distance(&sorted(one), &sorted(other)))
}

/// The names nearest to `wanted` among `own` names, each with the nearest of what may follow it.
pub(super) fn nearest(
    wanted: &str,
    own: &[String],
    mut endings: impl FnMut(&str) -> Vec<String>,
) -> Vec<String> {
    let is_own = |own: &&String| wanted.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('.'));
    let (name, ending) = match own.iter().filter(is_own).max_by_key(|own| own.len()) {
        Some(own) => wanted.split_at(own.len()),
        None => divided(wanted),
    };
    let mut by_distance: Vec<(usize, &String)> = own.iter().map(|own| (distance(name, own), own)).collect();
    by_distance.sort();
    let mut sorted = |own: &str| {
        let mut all = endings(own);
        all.sort_by_key(|one| (strsim::osa_distance(ending, one), one.len()));
        all
    };
    match by_distance.first() {
        // It is only what follows that is wrong.
        Some((0, own)) => sorted(own).iter().take(NAMED).map(|ending| format!("{own}{ending}")).collect(),
        _ => {
            let own = by_distance.iter().take(NAMED).map(|(_, own)| own.as_str());
            own.map(|own| format!("{own}{}", sorted(own).first().map_or("", String::as_str))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(wanted: &str) -> Vec<String> {
        let own = ["sm__cycles_active", "sm__cycles_elapsed", "dram__bytes_read", "pcie__read_bytes"];
        let own: Vec<String> = own.map(str::to_owned).into();
        let endings = |_: &str| [".avg", ".avg.per_second", ".max", ".sum"].map(str::to_owned).to_vec();
        nearest(wanted, &own, endings)
    }

    #[test]
    fn words_in_another_order_letters_and_endings_are_found() {
        assert_eq!(of("dram__read_bytes.sum")[0], "dram__bytes_read.sum");
        assert_eq!(of("sm__cycle_active.avg")[..2], ["sm__cycles_active.avg", "sm__cycles_elapsed.avg"]);
        assert_eq!(of("sm__cycles_active.mx")[0], "sm__cycles_active.max");
        assert_eq!(of("sm__cycles_active.max.per_second")[0], "sm__cycles_active.avg.per_second");
        assert_eq!(of("sm__cycles_active").len(), 3);
        assert!(nearest("a.sum", &[], |_| Vec::new()).is_empty());
    }
}
