//! Records in the making of a spool entry: gathering, counting, splitting by what may be thinned.
//!
//! Pure: no clock, no I/O.

use throughline_sample::Message;
use throughline_sample::wire::{Batch, Job};
use throughline_spool::{Class, ENTRY_BYTES_MAX};

/// Above this many encoded bytes a batch goes to the spool before its time.
const EARLY_BYTES: usize = 512 << 10;

/// Records of one entry, encoded. What is more is split by record: half of the spool's largest entry, so that one larger
/// record still fits into an entry of its own.
pub const PART_BYTES_MAX: usize = ENTRY_BYTES_MAX / 2;

/// Records of one entry. An empty record takes 2 bytes encoded and some 200 decoded, and the collector counts elements.
pub const PART_RECORDS_MAX: usize = 16_384;

/// What a record takes in a batch beside itself: its tag (at most 2 bytes) and its length (at most 5).
const RECORD_HEAD_BYTES: usize = 7;

/// What is beside the records in an entry: the sender, with a name of at most 253 bytes.
const SIGNATURE_BYTES: usize = 1024;

/// Largest record. A larger one fits into no entry and is rejected alone.
pub const RECORD_BYTES_MAX: usize = ENTRY_BYTES_MAX - SIGNATURE_BYTES - RECORD_HEAD_BYTES;

/// Calls `$apply!` with the kinds of record that carry cumulative or momentary values: of two, the later one
/// makes the earlier one superfluous.
macro_rules! cumulative {
    ($apply:ident) => {
        $apply!(
            ib_ports,
            gpu_metrics,
            host_ports,
            gpu_links,
            gpu_pcie,
            gpu_pm,
            mpi_ops,
            mpi_peers,
            mpi_pvars,
            mpi_regions,
            mpi_traffic,
            mpi_open_calls,
            mpi_scheduling,
            mpi_sampled_calls,
            mpi_rank_rows,
            mpi_node_cells,
            coverage,
            self_stats
        )
    };
}

/// Calls `$apply!` with the kinds of record where every single one counts.
macro_rules! precious {
    ($apply:ident) => {
        $apply!(
            events,
            nodes,
            gpus,
            gpu_link_infos,
            gpu_survey_marks,
            jobs,
            job_ranks,
            job_comms,
            job_settings,
            ib_nodes,
            ib_topology_marks
        )
    };
}

/// Calls `$apply!` with the kinds of record of trace mode: each counts, and they are the first to be left out.
macro_rules! traces {
    ($apply:ident) => {
        $apply!(mpi_traces, mpi_clocks)
    };
}

/// The stream of trace records in the spool: no combination of the other kinds.
const TRACE_STREAM: u16 = u16::MAX;

/// How many records a batch holds.
pub fn records(batch: &Batch) -> usize {
    macro_rules! count {
        ($($kind:ident),+) => { 0 $(+ batch.$kind.len())+ };
    }
    cumulative!(count) + precious!(count) + traces!(count)
}

/// Records that wait for their entry.
#[derive(Debug, Default)]
pub struct Gathering {
    cumulative: Batch,
    precious: Batch,
    traces: Batch,
    bytes: usize,
}

/// An entry to be: records without a sender, and what a full spool may do with them.
#[derive(Debug)]
pub struct PreparedEntry {
    /// The records.
    pub batch: Batch,
    /// Class for the spool.
    pub class: Class,
}

impl PreparedEntry {
    /// Whether it holds records of trace mode, which a spool that fills up no longer gets.
    pub fn is_trace(&self) -> bool {
        self.class == Class::Cumulative(TRACE_STREAM)
    }
}

impl Gathering {
    /// Adds the records of a fragment.
    pub fn add(&mut self, mut fragment: Batch) {
        self.bytes += fragment.encoded_len();
        self.own_last_rows(&fragment);
        for job in std::mem::take(&mut fragment.jobs) {
            put_job(&mut self.precious.jobs, job);
        }
        let (cumulative, precious, traces) = (&mut self.cumulative, &mut self.precious, &mut self.traces);
        macro_rules! keep {
            ($($kind:ident),+) => { $(cumulative.$kind.append(&mut fragment.$kind);)+ };
        }
        cumulative!(keep);
        macro_rules! keep {
            ($($kind:ident),+) => { $(precious.$kind.append(&mut fragment.$kind);)+ };
        }
        precious!(keep);
        macro_rules! keep {
            ($($kind:ident),+) => { $(traces.$kind.append(&mut fragment.$kind);)+ };
        }
        traces!(keep);
    }

    /// The records of ranks that ended, and of their jobs, go into the entry of their last rows as well: where damage takes
    /// the entry with what cannot be thinned, the rows have an owner all the same.
    fn own_last_rows(&mut self, fragment: &Batch) {
        let mut ended = fragment.job_ranks.iter().filter(|rank| rank.end != 0).peekable();
        if ended.peek().is_none() {
            return;
        }
        self.cumulative.job_ranks.extend(ended.cloned());
        for job in &fragment.jobs {
            put_job(&mut self.cumulative.jobs, job.clone());
        }
    }

    /// Whether the batch should not wait for its time.
    pub fn is_large(&self) -> bool {
        self.bytes >= EARLY_BYTES
    }

    /// Takes what was gathered: first what must not be thinned (jobs and inventory, which rows refer to), then
    /// the rest, each in entries within their bounds. Empty when there is nothing.
    pub fn take(&mut self) -> GatheredEntries {
        let Self { cumulative, precious, traces, .. } = std::mem::take(self);
        let mut taken = GatheredEntries::default();
        split(precious, |_| Class::Precious, &mut taken);
        split(cumulative, |part| Class::Cumulative(kinds(part)), &mut taken);
        split(traces, |_| Class::Cumulative(TRACE_STREAM), &mut taken);
        taken
    }
}

/// Adds a job's record. One that says the same but for the time when it was last observed has its place: each rank that ends
/// comes with its job.
fn put_job(jobs: &mut Vec<Job>, job: Job) {
    let is_same =
        |known: &&mut Job| known.key == job.key && **known == Job { seen: known.seen, ..job.clone() };
    match jobs.iter_mut().rev().find(is_same) {
        Some(known) => known.seen = known.seen.max(job.seen),
        None => jobs.push(job),
    }
}

/// What was gathered, as entries.
#[derive(Debug, Default)]
pub struct GatheredEntries {
    /// In the order in which they are to be appended.
    pub ready: Vec<PreparedEntry>,
    /// Records left out because each is larger than any entry.
    pub too_large: u64,
}

/// Makes entries of a batch: one where it fits, which is the rule, and else as many as it takes.
fn split(batch: Batch, class: impl Fn(&Batch) -> Class, taken: &mut GatheredEntries) {
    let count = records(&batch);
    if count == 0 {
        return;
    }
    if count <= PART_RECORDS_MAX && batch.encoded_len() <= PART_BYTES_MAX {
        taken.ready.push(PreparedEntry { class: class(&batch), batch });
        return;
    }
    let (mut part, mut bytes, mut count) = (Batch::default(), 0, 0);
    macro_rules! each {
        ($($kind:ident),+) => { $(
            for record in batch.$kind {
                let length = record.encoded_len() + RECORD_HEAD_BYTES;
                if length > RECORD_BYTES_MAX {
                    taken.too_large += 1;
                    continue;
                }
                if count == PART_RECORDS_MAX || (count > 0 && bytes + length > PART_BYTES_MAX) {
                    let full = std::mem::take(&mut part);
                    taken.ready.push(PreparedEntry { class: class(&full), batch: full });
                    (bytes, count) = (0, 0);
                }
                bytes += length;
                count += 1;
                part.$kind.push(record);
            }
        )+ };
    }
    precious!(each);
    cumulative!(each);
    traces!(each);
    if count > 0 {
        taken.ready.push(PreparedEntry { class: class(&part), batch: part });
    }
}

/// The first kinds have no bit of their own: no agent reads `ib_ports`, and `gpu_metrics` come with a reading of `gpu_pm` only.
const WITHOUT_BIT: usize = 2;

/// Which kinds of record are there, a bit for each. The spool thins each stream by itself; batches of one
/// stream hold the same kinds, so that a source with a slow interval is never the one that is thinned away.
fn kinds(batch: &Batch) -> u16 {
    macro_rules! bits {
        ($($kind:ident),+) => { [$(!batch.$kind.is_empty()),+] };
    }
    let all = cumulative!(bits);
    const { assert!(WITHOUT_BIT + 16 == KINDS, "a kind too many for the bits of a stream") };
    all[WITHOUT_BIT..].iter().fold(0, |bits, there| bits << 1 | u16::from(*there))
}

/// Kinds of [`cumulative`].
const KINDS: usize = {
    macro_rules! one_each {
        ($($kind:ident),+) => { [$(stringify!($kind)),+] };
    }
    cumulative!(one_each).len()
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use throughline_sample::wire::{Event, GpuLinksSample, HostPortSample, JobRank};

    fn sample() -> Batch {
        Batch { gpu_links: vec![GpuLinksSample::default()], ..Batch::default() }
    }

    #[test]
    fn precious_records_go_first_and_apart() {
        let mut gathering = Gathering::default();
        gathering.add(sample());
        gathering.add(Batch { jobs: vec![Job::default()], events: vec![Event::default()], ..sample() });
        let ready = gathering.take().ready;
        assert_eq!(ready.len(), 2);
        assert_eq!((ready[0].class, records(&ready[0].batch)), (Class::Precious, 2));
        assert!(matches!(ready[1].class, Class::Cumulative(_)));
        assert_eq!(ready[1].batch.gpu_links.len(), 2);
        assert!(gathering.take().ready.is_empty());
    }

    #[test]
    fn last_rows_come_with_their_owners() {
        let mut gathering = Gathering::default();
        let job = Job { key: "job".into(), ..Job::default() };
        for (rank, end) in [(0, 0), (1, 7), (2, 7)] {
            let rank = JobRank { rank, end, ..JobRank::default() };
            gathering.add(Batch { jobs: vec![job.clone()], job_ranks: vec![rank], ..Batch::default() });
        }
        gathering.add(Batch { jobs: vec![Job { seen: 9, ..job }], ..sample() });
        let ready = gathering.take().ready;
        let of = |at: usize| {
            let PreparedEntry { batch, .. } = &ready[at];
            let ranks: Vec<u32> = batch.job_ranks.iter().map(|rank| rank.rank).collect();
            (batch.jobs.iter().map(|job| job.seen).collect::<Vec<_>>(), ranks)
        };
        assert_eq!((ready.len(), ready[0].class), (2, Class::Precious));
        assert_eq!((of(0), of(1)), ((vec![9], vec![0, 1, 2]), (vec![0], vec![1, 2])));
    }

    #[test]
    fn other_kinds_are_another_stream() {
        let class = |fragment: Batch| {
            let mut gathering = Gathering::default();
            gathering.add(fragment);
            gathering.take().ready[0].class
        };
        let both = Batch { host_ports: vec![HostPortSample::default()], ..sample() };
        assert_eq!(class(sample()), class(sample()));
        assert_ne!(class(sample()), class(both));
    }

    #[test]
    fn trace_records_go_last_and_apart() {
        let traces =
            Batch { mpi_traces: vec![Default::default()], mpi_clocks: vec![Default::default()], ..sample() };
        let mut gathering = Gathering::default();
        gathering.add(Batch { jobs: vec![Job::default()], ..traces });
        let ready = gathering.take().ready;
        assert_eq!(ready.iter().map(PreparedEntry::is_trace).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(records(&ready[2].batch), 2);
        assert_eq!((ready[0].batch.mpi_traces.len(), ready[1].batch.mpi_clocks.len()), (0, 0));
    }

    #[test]
    fn a_large_batch_does_not_wait() {
        let mut gathering = Gathering::default();
        let event = Event { text: "x".repeat(EARLY_BYTES), ..Event::default() };
        assert!(!gathering.is_large());
        gathering.add(Batch { events: vec![event], ..Batch::default() });
        assert!(gathering.is_large());
        gathering.take();
        assert!(!gathering.is_large());
    }

    /// A record of one of the kinds, with a number to know it by and a text of so many bytes.
    fn numbered(kind: u8, number: i64, bytes: usize) -> Batch {
        let text = "x".repeat(bytes);
        let mut batch = Batch::default();
        match kind {
            0 => batch.events.push(Event { time: number, text, ..Event::default() }),
            1 => batch.jobs.push(Job { start: number, command: text, ..Job::default() }),
            2 => batch.host_ports.push(HostPortSample { time: number, device: text, ..Default::default() }),
            3 => batch.gpu_links.push(GpuLinksSample { time: number, gpu_uuid: text, ..Default::default() }),
            _ => batch.mpi_traces.push(throughline_sample::wire::MpiRankTrace {
                epoch: number,
                job_key: text,
                ..Default::default()
            }),
        }
        batch
    }

    fn numbers(batch: &Batch) -> Vec<i64> {
        let mut all: Vec<i64> = batch.events.iter().map(|record| record.time).collect();
        all.extend(batch.jobs.iter().map(|record| record.start));
        all.extend(batch.host_ports.iter().map(|record| record.time));
        all.extend(batch.gpu_links.iter().map(|record| record.time));
        all.extend(batch.mpi_traces.iter().map(|record| record.epoch));
        all
    }

    /// Encoded bytes of the one record of a batch, without its tag and length.
    fn record_bytes(batch: &Batch) -> usize {
        let mut bytes = 0;
        macro_rules! add {
            ($($kind:ident),+) => { $(bytes += batch.$kind.iter().map(Message::encoded_len).sum::<usize>();)+ };
        }
        cumulative!(add);
        precious!(add);
        traces!(add);
        bytes
    }

    fn check(records: &[(u8, usize)]) {
        let mut gathering = Gathering::default();
        let mut expected = Vec::new();
        for (number, (kind, bytes)) in records.iter().enumerate() {
            let record = numbered(*kind, number as i64 + 1, *bytes);
            if record_bytes(&record) + RECORD_HEAD_BYTES <= RECORD_BYTES_MAX {
                expected.push(number as i64 + 1);
            }
            gathering.add(record);
        }
        let taken = gathering.take();
        assert_eq!(taken.too_large, (records.len() - expected.len()) as u64);
        let mut arrived: Vec<i64> = taken.ready.iter().flat_map(|ready| numbers(&ready.batch)).collect();
        arrived.sort_unstable();
        assert_eq!(arrived, expected, "each exactly once");
        for ready in &taken.ready {
            let signed = Batch { node: "n".repeat(253), boot_id: "b".repeat(36), ..ready.batch.clone() };
            assert!(signed.encoded_len() <= ENTRY_BYTES_MAX, "{}", signed.encoded_len());
            assert!((1..=PART_RECORDS_MAX).contains(&super::records(&ready.batch)));
        }
        // What rows refer to goes before them.
        let last_precious = taken.ready.iter().rposition(|ready| ready.class == Class::Precious);
        let first_other = taken.ready.iter().position(|ready| ready.class != Class::Precious);
        assert!(last_precious.zip(first_other).is_none_or(|(precious, other)| precious < other));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn attack_03_any_mix_of_records_arrives_in_entries_within_the_bound(
            records in proptest::collection::vec(
                (0_u8..5, prop_oneof![6 => 0_usize..2_000, 2 => 0_usize..600_000, 1 => 1_900_000_usize..2_300_000]),
                0..40,
            )
        ) {
            check(&records);
        }
    }

    #[test]
    fn attack_03_the_largest_record_is_reported_to_the_byte() {
        for bytes in RECORD_BYTES_MAX - 64..RECORD_BYTES_MAX + 64 {
            check(&[(0, bytes), (4, 10)]);
        }
    }

    #[test]
    fn attack_03_one_record_too_large_takes_no_other_with_it() {
        // Before, this was one entry of 3 MiB, which the spool refused whole.
        let mut records = vec![(2, 100); 500];
        records.push((2, 3 << 20));
        check(&records);
        check(&vec![(0, 0); 3 * PART_RECORDS_MAX + 1]);
        check(&[(3, RECORD_BYTES_MAX - 100), (3, 5)]);
    }
}
