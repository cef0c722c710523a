//! Which self-metrics each daemon has, as rows of `self_stat_series`: readers find a series there, and not in
//! each row of arrays.

use std::collections::{BTreeSet, HashMap, HashSet};

use throughline_sample::catalogue::CLOCK_ERROR_SECONDS;
use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::keys::Keys;
use super::rows::{CLOCK, instance_of};
use super::{WriteError, failed};

/// Series of one daemon: a hundred of its own, and six of each MPI operation. What is more has no name for readers.
const OF_INSTANCE: usize = 8192;

/// Series in memory, at most: those of many thousand nodes.
const CACHED: usize = 2_000_000;

/// The series that the table has, as far as this session has written them, by instance.
#[derive(Default)]
pub(super) struct KnownSeries {
    known: HashMap<String, HashSet<DaemonSeries>>,
    count: usize,
}

/// Source, label and name of a series of a daemon.
type DaemonSeries = (String, String, String);

/// Instance and series, in the order in which all writers write them.
#[derive(Default)]
pub(super) struct NewSeries(BTreeSet<(String, DaemonSeries)>);

impl KnownSeries {
    /// The series of these batches that the table may not have.
    pub fn changed(&self, batches: &[&Batch], keys: &Keys) -> NewSeries {
        let mut new = NewSeries::default();
        for batch in batches.iter().filter(|batch| !batch.self_stats.is_empty()) {
            let instance = instance_of(batch, keys);
            let known = self.known.get(&instance);
            let clock = batch.clock_error_nanoseconds.map(|_| (CLOCK, "", CLOCK_ERROR_SECONDS.name));
            let all = batch.self_stats.iter().map(|stat| (&*stat.source, &*stat.label, &*stat.name));
            let mut left = OF_INSTANCE.saturating_sub(known.map_or(0, HashSet::len));
            for (source, label, name) in all.chain(clock) {
                let series = (source.to_owned(), label.to_owned(), name.to_owned());
                let is_known = known.is_some_and(|known| known.contains(&series));
                if left == 0 || is_known || [source, label, name].iter().any(|text| text.contains('\0')) {
                    continue;
                }
                left -= usize::from(new.0.insert((instance.clone(), series)));
            }
        }
        new
    }

    pub fn committed(&mut self, new: NewSeries) {
        if self.count > CACHED {
            *self = Self::default();
        }
        for (instance, series) in new.0 {
            self.count += usize::from(self.known.entry(instance).or_default().insert(series));
        }
    }
}

impl NewSeries {
    pub async fn write(&self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let insert = "INSERT INTO internal.self_stat_series (instance, source, label, name) \
                      SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) ON CONFLICT DO NOTHING";
        let instances: Vec<&str> = self.0.iter().map(|series| series.0.as_str()).collect();
        let sources: Vec<&str> = self.0.iter().map(|(_, series)| series.0.as_str()).collect();
        let labels: Vec<&str> = self.0.iter().map(|(_, series)| series.1.as_str()).collect();
        let names: Vec<&str> = self.0.iter().map(|(_, series)| series.2.as_str()).collect();
        let given: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
            (&instances, Type::TEXT_ARRAY),
            (&sources, Type::TEXT_ARRAY),
            (&labels, Type::TEXT_ARRAY),
            (&names, Type::TEXT_ARRAY),
        ];
        transaction.query_typed(insert, &given).await.map_err(failed("noting series of self-metrics"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::SelfStat;

    #[test]
    fn a_series_is_written_once_and_a_daemon_has_so_many() {
        let stat = |name: String| SelfStat { source: "spool".into(), name, ..SelfStat::default() };
        let of = |count: usize| Batch {
            node: "n1".into(),
            clock_error_nanoseconds: Some(1),
            self_stats: (0..count).map(|number| stat(format!("x{number}"))).collect(),
            ..Batch::default()
        };
        let mut known = KnownSeries::default();
        let keys = Keys::default();
        let new = known.changed(&[&of(2), &of(3)], &keys);
        assert_eq!(new.0.len(), 4, "three, and the clock's");
        known.committed(new);
        assert!(known.changed(&[&of(3)], &keys).0.is_empty());
        assert!(
            known
                .changed(&[&Batch { clock_error_nanoseconds: Some(1), ..Batch::default() }], &keys)
                .0
                .is_empty()
        );
        known.committed(known.changed(&[&of(2 * OF_INSTANCE)], &keys));
        assert_eq!(known.count, OF_INSTANCE);
    }
}
