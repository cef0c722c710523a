//! Which records are wanted, and what time each has. Pure.

use throughline_sample::wire::Batch;

/// Calls `$apply!` with the kinds of record that name a job and have a time.
macro_rules! of_jobs {
    ($apply:ident) => {
        $apply!(
            mpi_ops MpiOps,
            mpi_peers MpiPeers,
            mpi_pvars MpiPvars,
            mpi_regions MpiRegions,
            mpi_traffic MpiTraffic,
            mpi_open_calls MpiOpenCalls,
            mpi_scheduling MpiScheduling,
            mpi_sampled_calls MpiSampledCalls,
            job_comms JobComms,
            job_settings JobSettings,
            events Events
        )
    };
}

/// Calls `$apply!` with the kinds of record that name a GPU and have a time.
macro_rules! of_gpus {
    ($apply:ident) => {
        $apply!(gpu_links GpuLinks, gpu_pcie GpuPcie, gpu_pm GpuPm, gpu_metrics GpuMetrics)
    };
}

/// Calls `$apply!` with the kinds of record that have a time and belong to the node or the fabric.
macro_rules! of_nodes {
    ($apply:ident) => {
        $apply!(ib_ports IbPorts, coverage Coverage, self_stats SelfStats)
    };
}

/// Calls `$apply!` with the kinds of record that have no time of their own: they count from when they were written.
macro_rules! timeless {
    ($apply:ident) => {
        $apply!(nodes Nodes, gpus Gpus, gpu_link_infos GpuLinkInfos, gpu_survey_marks GpuSurveyMarks, jobs Jobs, job_ranks JobRanks)
    };
}

macro_rules! kinds {
    ($($field:ident $kind:ident),+ $(,)?) => {
        /// A kind of record, by its field of `throughline.v1.Batch`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // The fields of the schema describe them.
        pub enum Kind { $($kind),+ }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$kind),+];

            /// Its name: that of the field.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$kind => stringify!($field)),+ }
            }
        }

        /// How many records a batch has of the kinds that are recorded. Trace mode's are not: they go to the database whole.
        pub fn records(batch: &Batch) -> usize {
            0 $(+ batch.$field.len())+
        }

        /// Drops all records but those of some kinds; none for all.
        fn retain_kinds(batch: &mut Batch, kinds: &[Kind]) {
            if !kinds.is_empty() {
                $(if !kinds.contains(&Kind::$kind) { batch.$field = Vec::new(); })+
            }
        }
    };
}

kinds!(
    mpi_ops MpiOps,
    mpi_peers MpiPeers,
    mpi_pvars MpiPvars,
    mpi_regions MpiRegions,
    mpi_traffic MpiTraffic,
    mpi_open_calls MpiOpenCalls,
    mpi_scheduling MpiScheduling,
    mpi_sampled_calls MpiSampledCalls,
    job_comms JobComms,
    job_settings JobSettings,
    events Events,
    gpu_links GpuLinks,
    gpu_pcie GpuPcie,
    gpu_pm GpuPm,
    gpu_metrics GpuMetrics,
    host_ports HostPorts,
    ib_ports IbPorts,
    coverage Coverage,
    self_stats SelfStats,
    nodes Nodes,
    gpus Gpus,
    gpu_link_infos GpuLinkInfos,
    gpu_survey_marks GpuSurveyMarks,
    jobs Jobs,
    job_ranks JobRanks,
);

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("no kind of record is called {name:?}; there are {}", names.join(", "))
        })
    }
}

/// Which records are wanted. What is left out does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of this job alone; readings that belong to no job are left out.
    pub job_key: Option<String>,
    /// Those of this GPU (its UUID) or adapter (its device) alone.
    pub device: Option<String>,
    /// These kinds alone; empty for all.
    pub kinds: Vec<Kind>,
    /// Of readings of the fabric's ports those of these alone: GUID of the node and number; empty for all.
    pub ports: Vec<(u64, u32)>,
}

impl Filter {
    /// Leaves of a batch written at `written_ns` the records that are wanted, with times from `from_ns` to before `to_ns`
    /// (UTC nanoseconds).
    pub fn apply(&self, batch: &mut Batch, from_ns: i64, to_ns: i64, written_ns: i64) {
        retain_kinds(batch, &self.kinds);
        let is_within = |time: i64| (from_ns..to_ns).contains(&time);
        let is_job =
            |key: &str| self.device.is_none() && self.job_key.as_deref().is_none_or(|job| job == key);
        let is_device =
            |name: &str| self.job_key.is_none() && self.device.as_deref().is_none_or(|device| device == name);
        let is_any = self.job_key.is_none() && self.device.is_none();
        macro_rules! jobs {
            ($($field:ident $kind:ident),+) => {
                $(batch.$field.retain(|record| is_within(record.time) && is_job(&record.job_key));)+
            };
        }
        of_jobs!(jobs);
        macro_rules! gpus {
            ($($field:ident $kind:ident),+) => {
                $(batch.$field.retain(|record| is_within(record.time) && is_device(&record.gpu_uuid));)+
            };
        }
        of_gpus!(gpus);
        batch.host_ports.retain(|record| is_within(record.time) && is_device(&record.device));
        macro_rules! nodes {
            ($($field:ident $kind:ident),+) => { $(batch.$field.retain(|record| is_within(record.time) && is_any);)+ };
        }
        of_nodes!(nodes);
        batch
            .ib_ports
            .retain(|port| self.ports.is_empty() || self.ports.contains(&(port.node_guid, port.port)));
        let is_written_within = is_within(written_ns);
        batch.jobs.retain(|job| is_written_within && is_job(&job.key));
        batch.job_ranks.retain(|rank| is_written_within && is_job(&rank.job_key));
        batch.gpus.retain(|gpu| is_written_within && is_device(&gpu.uuid));
        batch.gpu_link_infos.retain(|link| is_written_within && is_device(&link.gpu_uuid));
        batch.gpu_survey_marks.retain(|mark| is_within(mark.time) && is_any);
        batch.nodes.retain(|_| is_written_within && is_any);
    }
}

/// Least and largest time of the records of a batch; `written_ns` for those that have none.
pub(crate) fn span(batch: &Batch, written_ns: i64) -> (i64, i64) {
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    let mut note = |time: i64| {
        first = first.min(time);
        last = last.max(time);
    };
    macro_rules! times {
        ($($field:ident $kind:ident),+) => { $(batch.$field.iter().for_each(|record| note(record.time));)+ };
    }
    of_jobs!(times);
    of_gpus!(times);
    of_nodes!(times);
    batch.host_ports.iter().for_each(|record| note(record.time));
    macro_rules! untimed {
        ($($field:ident $kind:ident),+) => { $(if !batch.$field.is_empty() { note(written_ns); })+ };
    }
    timeless!(untimed);
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{GpuLinksSample, HostPortSample, IbPortSample, Job, MpiRankBin, SelfStat};

    fn bin(job: &str, time: i64) -> MpiRankBin {
        MpiRankBin { job_key: job.into(), time, ..Default::default() }
    }

    fn batch() -> Batch {
        Batch {
            mpi_ops: vec![bin("a", 10), bin("b", 11), bin("a", 20)],
            gpu_links: vec![GpuLinksSample { gpu_uuid: "g".into(), time: 12, ..Default::default() }],
            host_ports: vec![HostPortSample { device: "mlx5_0".into(), time: 13, ..Default::default() }],
            self_stats: vec![SelfStat { time: 14, ..Default::default() }],
            jobs: vec![Job { key: "a".into(), ..Default::default() }],
            ..Batch::default()
        }
    }

    fn left(filter: &Filter, from: i64, to: i64) -> [usize; 5] {
        let mut batch = batch();
        filter.apply(&mut batch, from, to, 15);
        [
            batch.mpi_ops.len(),
            batch.gpu_links.len(),
            batch.host_ports.len(),
            batch.self_stats.len(),
            batch.jobs.len(),
        ]
    }

    #[test]
    fn records_are_taken_by_time_job_device_and_kind() {
        let all = Filter::default();
        assert_eq!(left(&all, 0, 100), [3, 1, 1, 1, 1]);
        assert_eq!(left(&all, 10, 20), [2, 1, 1, 1, 1], "the end is not included");
        assert_eq!(left(&all, 16, 100), [1, 0, 0, 0, 0], "what has no time counts from its writing");
        let job = Filter { job_key: Some("a".into()), ..Filter::default() };
        assert_eq!(left(&job, 0, 100), [2, 0, 0, 0, 1]);
        let device = Filter { device: Some("mlx5_0".into()), ..Filter::default() };
        assert_eq!(left(&device, 0, 100), [0, 0, 1, 0, 0]);
        let kinds = Filter { kinds: vec![Kind::MpiOps, Kind::Jobs], ..Filter::default() };
        assert_eq!(left(&kinds, 0, 100), [3, 0, 0, 0, 1]);
        let port = |node_guid, port| IbPortSample { time: 10, node_guid, port, ..Default::default() };
        let mut readings = Batch { ib_ports: vec![port(1, 1), port(1, 2), port(2, 1)], ..Batch::default() };
        let ports = Filter { ports: vec![(1, 2), (2, 2)], ..Filter::default() };
        ports.apply(&mut readings, 0, 100, 15);
        assert_eq!(readings.ib_ports, [port(1, 2)]);
        assert_eq!(records(&batch()), 7);
        assert_eq!(span(&batch(), 15), (10, 20));
    }

    #[test]
    fn kinds_are_called_as_their_fields() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Kind>(), Ok(*kind));
        }
        assert!("mpi_op".parse::<Kind>().unwrap_err().contains("mpi_ops"));
    }
}
