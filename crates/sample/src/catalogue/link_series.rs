//! Series of the contributors of links, on the page of the server that makes shares of links.

/// A counter whose series come and go with what links carry.
#[derive(Debug)]
pub struct LinkSeriesMetric {
    /// Prometheus name.
    pub name: &'static str,
    /// Labels in order; `instance` is added by the scrape.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

/// Of jobs, by operation.
pub static LINK_JOB_BYTES: LinkSeriesMetric = LinkSeriesMetric {
    name: "throughline_link_job_transmit_bytes",
    labels: &["guid", "port", "job", "operation", "job_key", "user", "known"],
    help: "Bytes of an operation of a job that a port sent, by windows of 10 s: the largest contributors only. known: measured, modelled or logical, and bound where only bounds are known.",
};

/// Of nobody that reported it.
pub static LINK_UNMONITORED_BYTES: LinkSeriesMetric = LinkSeriesMetric {
    name: "throughline_link_unmonitored_transmit_bytes",
    labels: &["guid", "port", "contributor", "name", "known"],
    help: "Bytes that a port sent and no job reported, by the host or group of hosts that they come from: the largest contributors only.",
};

/// What the port counted, to divide by.
pub static LINK_BYTES: LinkSeriesMetric = LinkSeriesMetric {
    name: "throughline_link_transmit_bytes",
    labels: &["guid", "port"],
    help: "Bytes that a port counted in the windows of 10 s for which its contributors are known: what their shares are of.",
};

/// All of them.
pub static LINK_SERIES: [&LinkSeriesMetric; 3] = [&LINK_JOB_BYTES, &LINK_UNMONITORED_BYTES, &LINK_BYTES];
