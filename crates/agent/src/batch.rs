//! Records in the making of a spool entry: gathering, counting, splitting by what may be thinned.
//!
//! Pure: no clock, no I/O.

use throughline_sample::Message;
use throughline_sample::wire::Batch;
use throughline_spool::Class;

/// Above this many encoded bytes a batch goes to the spool before its time: well below the spool's largest
/// entry (2 MiB), so that the fragment that crosses the line still fits.
const EARLY_BYTES: usize = 512 << 10;

/// Calls `$apply!` with the kinds of record that carry cumulative or momentary values: of two, the later one
/// makes the earlier one superfluous.
macro_rules! cumulative {
    ($apply:ident) => {
        $apply!(
            ib_ports,
            host_ports,
            gpu_links,
            gpu_pcie,
            gpu_pm,
            mpi_ops,
            mpi_peers,
            mpi_pvars,
            mpi_regions,
            coverage,
            self_stats
        )
    };
}

/// Calls `$apply!` with the kinds of record of which each one counts.
macro_rules! precious {
    ($apply:ident) => {
        $apply!(
            events,
            nodes,
            gpus,
            gpu_link_infos,
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
pub struct Ready {
    /// The records.
    pub batch: Batch,
    /// Class for the spool.
    pub class: Class,
}

impl Ready {
    /// Whether it holds records of trace mode, which a spool that fills up no longer gets.
    pub fn is_trace(&self) -> bool {
        self.class == Class::Cumulative(TRACE_STREAM)
    }
}

impl Gathering {
    /// Adds the records of a fragment.
    pub fn add(&mut self, mut fragment: Batch) {
        self.bytes += fragment.encoded_len();
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

    /// Whether the batch should not wait for its time.
    pub fn is_large(&self) -> bool {
        self.bytes >= EARLY_BYTES
    }

    /// Takes what was gathered: first what must not be thinned (jobs and inventory, which rows refer to), then
    /// the rest. Empty when there is nothing.
    pub fn take(&mut self) -> Vec<Ready> {
        let Self { cumulative, precious, traces, .. } = std::mem::take(self);
        let stream = kinds(&cumulative);
        let classes = [
            (precious, Class::Precious),
            (cumulative, Class::Cumulative(stream)),
            (traces, Class::Cumulative(TRACE_STREAM)),
        ];
        let ready = classes.into_iter().map(|(batch, class)| Ready { batch, class });
        ready.filter(|ready| records(&ready.batch) > 0).collect()
    }
}

/// Which kinds of record are there, a bit for each. The spool thins each stream by itself; batches of one
/// stream hold the same kinds, so that a source with a slow interval is never the one that is thinned away.
fn kinds(batch: &Batch) -> u16 {
    macro_rules! bits {
        ($($kind:ident),+) => { [$(!batch.$kind.is_empty()),+] };
    }
    cumulative!(bits).iter().fold(0, |bits, there| bits << 1 | u16::from(*there))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{Event, GpuLinksSample, HostPortSample, Job};

    fn sample() -> Batch {
        Batch { gpu_links: vec![GpuLinksSample::default()], ..Batch::default() }
    }

    #[test]
    fn precious_records_go_first_and_apart() {
        let mut gathering = Gathering::default();
        gathering.add(sample());
        gathering.add(Batch { jobs: vec![Job::default()], events: vec![Event::default()], ..sample() });
        let ready = gathering.take();
        assert_eq!(ready.len(), 2);
        assert_eq!((ready[0].class, records(&ready[0].batch)), (Class::Precious, 2));
        assert!(matches!(ready[1].class, Class::Cumulative(_)));
        assert_eq!(ready[1].batch.gpu_links.len(), 2);
        assert!(gathering.take().is_empty());
    }

    #[test]
    fn other_kinds_are_another_stream() {
        let class = |fragment: Batch| {
            let mut gathering = Gathering::default();
            gathering.add(fragment);
            gathering.take()[0].class
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
        let ready = gathering.take();
        assert_eq!(ready.iter().map(Ready::is_trace).collect::<Vec<_>>(), [false, false, true]);
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
}
