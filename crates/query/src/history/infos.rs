//! Info metrics: the inventory's rows as series with value 1 while they are valid.

use super::series::{Equal, Labels, Parameter, SampleLocation, Series, Validity, request, seconds, texts};
use super::{Range, Samples, ends};
use std::collections::BTreeMap;
use std::fmt::Write;
use throughline_sample::catalogue::{HCA_INFO, HCA_UPLINK_INFO, SWITCH_INFO, SWITCH_UPLINK_INFO};
use throughline_store::Error;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

/// A sample stands for so long: a fifth of the time after which Prometheus takes a series for gone. Milliseconds.
const EVERY: i64 = 60_000;

/// One info metric.
#[derive(Debug)]
pub(super) struct Info {
    /// Name, as the daemons' pages have it.
    pub name: &'static str,
    /// Labels and their SQL, ordered by name.
    pub labels: &'static [(&'static str, &'static str)],
    /// SQL of beginning and end, the end NULL while it holds.
    valid: (&'static str, &'static str),
    /// FROM and the beginning of WHERE.
    from: [&'static str; 2],
}

const OF_NODE: &str = "FROM internal.ib_node v JOIN internal.ib_node_key nk ON nk.id = v.ib_node_id JOIN internal.fabric s ON s.id = nk.fabric_id \
    WHERE v.type";
const OF_ADAPTER_PORT: &str = "FROM internal.ib_port v JOIN internal.ib_node_key nk ON nk.id = v.ib_node_id JOIN internal.fabric s ON s.id = nk.fabric_id \
    JOIN LATERAL (SELECT type, description FROM internal.ib_node n WHERE n.ib_node_id = nk.id ORDER BY valid_from DESC LIMIT 1) n \
    ON true WHERE n.type";
const NODE_VALID: (&str, &str) = ("v.valid_from", "v.valid_to");

/// Names are those that the ends have now, or had last.
const CABLE: &str = "FROM internal.ib_port v JOIN internal.ib_node_key nk ON nk.id = v.ib_node_id JOIN internal.fabric s ON s.id = nk.fabric_id \
    JOIN LATERAL (SELECT type, description FROM internal.ib_node n WHERE n.ib_node_id = nk.id ORDER BY valid_from DESC LIMIT 1) n \
    ON true \
    JOIN internal.ib_port_key rk ON rk.id = v.remote_port_id JOIN internal.ib_node_key rnk ON rnk.id = rk.ib_node_id \
    JOIN LATERAL (SELECT type, description, lid FROM internal.ib_node n WHERE n.ib_node_id = rnk.id ORDER BY valid_from DESC LIMIT 1) r \
    ON true LEFT JOIN LATERAL (SELECT lid, port_guid FROM internal.ib_port p WHERE p.port_id = rk.id ORDER BY valid_from DESC LIMIT 1) rp ON true \
    WHERE n.type";
/// An adapter's port has its own GUID, as on the crawler's page; of one that is not known the node's.
const PORT_GUID: &str = "coalesce(nullif(v.port_guid, '0x0000000000000000'), nk.guid)";
const REMOTE_GUID: &str = "CASE WHEN r.type = 'switch' THEN rnk.guid ELSE coalesce(nullif(rp.port_guid, '0x0000000000000000'), rnk.guid) END";
const REMOTE_LID: &str = "(CASE WHEN r.type = 'switch' THEN r.lid ELSE rp.lid END)::text";
const REMOTE_TYPE: &str = "CASE r.type WHEN 'switch' THEN 'SW' WHEN 'ca' THEN 'CA' ELSE 'RT' END";

/// A GPU that is lost is not on its agent's page.
const OF_GPU: &str = "FROM internal.gpu v JOIN internal.node_key n ON n.id = v.node_id WHERE NOT v.is_lost AND v.parent_gpu_id IS NULL";
const OF_PARTITION: &str = "FROM internal.gpu v JOIN internal.node_key n ON n.id = v.node_id JOIN internal.gpu_key p ON p.id = v.parent_gpu_id \
    WHERE NOT v.is_lost";
const OF_LINK: &str = "FROM internal.gpu_link v JOIN internal.gpu_key k ON k.id = v.gpu_id LEFT JOIN internal.gpu_key rk ON rk.id = v.remote_gpu_id \
    JOIN internal.node_key n ON n.id = k.node_id WHERE true";
/// A job on each of its nodes, while any of its ranks runs there.
const OF_JOB: &str = "FROM (SELECT job_id, node_id, min(start_time) AS start_time, \
      CASE WHEN bool_and(end_time IS NOT NULL) THEN max(end_time) END AS end_time \
    FROM internal.job_rank GROUP BY job_id, node_id \
    UNION ALL SELECT f.job_id, p.node_id, p.began_at, p.ended_at FROM internal.job_final f JOIN internal.job_node_final p ON p.job_id = f.job_id \
    WHERE f.is_released) v \
    JOIN internal.run_visible j ON j.id = v.job_id JOIN internal.node_key n ON n.id = v.node_id WHERE true";

/// As the view `job_rank_gpus` has a rank's own, without the way to its port.
const OF_RANK_GPU: &str = "FROM (SELECT g.job_id, g.rank, g.node_id, g.gpu_id, g.partition_id, g.evidence, g.first_seen, \
      coalesce(g.last_seen, r.end_time) AS last_seen \
    FROM internal.rank_gpu g JOIN internal.job_rank r ON r.job_id = g.job_id AND r.rank = g.rank AND r.node_id = g.node_id \
      AND r.start_time = g.start_time \
    WHERE g.evidence = 'driver' OR g.evidence = r.gpu_evidence AND NOT EXISTS (SELECT FROM internal.rank_gpu d WHERE d.job_id = g.job_id \
      AND d.rank = g.rank AND d.node_id = g.node_id AND d.start_time = g.start_time AND d.gpu_id = g.gpu_id AND d.evidence = 'driver')) v \
    JOIN internal.run_visible j ON j.id = v.job_id JOIN internal.node_key n ON n.id = v.node_id \
    JOIN internal.gpu_key k ON k.id = v.gpu_id LEFT JOIN internal.gpu_key p ON p.id = v.partition_id WHERE true";

/// All of them.
pub(super) static ALL: [Info; 9] = [
    Info {
        name: SWITCH_INFO.name,
        labels: &[
            ("guid", "v.guid"),
            ("instance", "s.name"),
            ("lid", "v.lid::text"),
            ("switch", "v.description"),
        ],
        valid: NODE_VALID,
        from: [OF_NODE, "= 'switch'"],
    },
    Info {
        name: HCA_INFO.name,
        labels: &[
            ("guid", PORT_GUID),
            ("hca", "n.description"),
            ("instance", "s.name"),
            ("lid", "v.lid::text"),
            ("node_guid", "nk.guid"),
        ],
        valid: NODE_VALID,
        from: [OF_ADAPTER_PORT, "<> 'switch'"],
    },
    Info {
        name: SWITCH_UPLINK_INFO,
        labels: &[
            ("guid", "nk.guid"),
            ("instance", "s.name"),
            ("port", "v.port::text"),
            ("switch", "n.description"),
            ("uplink", "r.description"),
            ("uplink_guid", REMOTE_GUID),
            ("uplink_lid", REMOTE_LID),
            ("uplink_port", "rk.port::text"),
            ("uplink_type", REMOTE_TYPE),
        ],
        valid: NODE_VALID,
        from: [CABLE, "= 'switch'"],
    },
    Info {
        name: HCA_UPLINK_INFO,
        labels: &[
            ("guid", PORT_GUID),
            ("hca", "n.description"),
            ("instance", "s.name"),
            ("node_guid", "nk.guid"),
            ("port", "v.port::text"),
            ("uplink", "r.description"),
            ("uplink_guid", REMOTE_GUID),
            ("uplink_lid", REMOTE_LID),
            ("uplink_port", "rk.port::text"),
            ("uplink_type", REMOTE_TYPE),
        ],
        valid: NODE_VALID,
        from: [CABLE, "<> 'switch'"],
    },
    Info {
        name: "throughline_gpu_info",
        labels: &[
            ("domain", "v.fabric_cluster_uuid || '.' || v.fabric_clique_id"),
            ("gpu", "v.uuid"),
            ("index", "v.index::text"),
            ("instance", "n.name"),
            ("name", "v.name"),
            ("pci", "v.pci_bus_id"),
        ],
        valid: NODE_VALID,
        from: [OF_GPU, ""],
    },
    Info {
        name: "throughline_gpu_partition_info",
        labels: &[
            ("gpu", "p.uuid"),
            ("index", "v.index::text"),
            ("instance", "n.name"),
            ("name", "v.name"),
            ("partition", "v.uuid"),
        ],
        valid: NODE_VALID,
        from: [OF_PARTITION, ""],
    },
    Info {
        name: "throughline_nvlink_info",
        labels: &[
            ("gpu", "k.uuid"),
            ("instance", "n.name"),
            ("link", "v.link::text"),
            ("remote_gpu", "rk.uuid"),
            ("remote_link", "v.remote_link::text"),
            ("remote_type", "v.remote_type"),
        ],
        valid: NODE_VALID,
        from: [OF_LINK, ""],
    },
    Info {
        name: "throughline_job_info",
        labels: &[
            ("command", "j.command"),
            ("instance", "n.name"),
            ("job_key", "j.key"),
            ("scheduler", "j.scheduler"),
            ("user", "j.user_name"),
            ("world_size", "j.world_size::text"),
        ],
        valid: ("v.start_time", "v.end_time"),
        from: [OF_JOB, ""],
    },
    Info {
        name: "throughline_rank_gpu_info",
        labels: &[
            ("evidence", "v.evidence"),
            ("gpu", "k.uuid"),
            ("instance", "n.name"),
            ("job_key", "j.key"),
            ("partition", "p.uuid"),
            ("rank", "v.rank::text"),
        ],
        valid: ("v.first_seen", "v.last_seen"),
        from: [OF_RANK_GPU, ""],
    },
];

/// The series that are valid at some time of the range; rows with the same labels are one.
pub(super) async fn find(
    client: &Client,
    info: &Info,
    range: Range,
    equal: &[Equal<'_>],
) -> Result<Vec<Series>, Error> {
    let (begins, ends) = info.valid;
    let milliseconds = |time: &str| format!("(extract(epoch FROM {time}) * 1000)::bigint");
    let mut sql = format!("SELECT {}, {}", milliseconds(begins), milliseconds(ends));
    info.labels.iter().for_each(|(_, label)| _ = write!(sql, ", {label}"));
    _ = write!(
        sql,
        " {} {} AND {begins} <= to_timestamp($2) AND coalesce({ends} >= to_timestamp($1), true)",
        info.from[0], info.from[1]
    );
    let (from, to) = (seconds(range.from), seconds(range.to));
    let given: [Parameter<'_>; 2] = [(&from, Type::FLOAT8), (&to, Type::FLOAT8)];
    let mut valid: BTreeMap<Labels, Validity> = BTreeMap::new();
    for row in request(client, &mut sql, info.labels, equal, &given).await? {
        valid.entry(texts(&row, info.labels)).or_default().push((row.get(0), row.get(1)));
    }
    let series = |(labels, mut ranges): (Labels, Validity)| {
        ranges.sort_unstable();
        Series { labels, known: SampleLocation::Valid(ranges) }
    };
    Ok(valid.into_iter().map(series).collect())
}

/// The samples of one series in a range of whole minutes; each minute's sample has the time of its end. The samples of
/// ranges that follow each other are those of all of them together.
pub(super) fn of_minutes(series: &Series, range: Range) -> Samples {
    let SampleLocation::Valid(ranges) = &series.known else { return Samples::default() };
    let mut samples = of_ranges(ranges, range);
    // What went on at the beginning of the range had its sample at the end of the one before.
    let goes_on =
        |time: i64| ranges.iter().any(|(begin, end)| *begin < time && end.is_none_or(|end| end > time));
    if goes_on(range.from) {
        samples.remove(range.from);
    }
    samples
}

/// 1 each minute while valid, at whole minutes, and Prometheus' mark where it ends.
pub(super) fn samples(round: &[Series], range: Range) -> Vec<Samples> {
    let all = round.iter().map(|series| match &series.known {
        SampleLocation::Valid(ranges) => of_ranges(ranges, range),
        _ => Samples::default(),
    });
    all.collect()
}

fn of_ranges(ranges: &[(i64, Option<i64>)], range: Range) -> Samples {
    let mut samples = Samples::default();
    for (place, (begin, end)) in ranges.iter().enumerate() {
        let first = (*begin).max(range.from);
        let last = end.map_or(range.to, |end| range.to.min(end - 1));
        if first > last {
            continue;
        }
        samples.push(first, 1.0);
        let whole = (first / EVERY + 1) * EVERY;
        (0..)
            .map(|step| whole + step * EVERY)
            .take_while(|time| *time <= last)
            .for_each(|time| samples.push(time, 1.0));
        // A row that changed in something else goes on at once.
        let goes_on = |end: i64| ranges.get(place + 1).is_some_and(|next| next.0 <= end);
        if let Some(end) = end.filter(|end| *end <= range.to && !goes_on(*end)) {
            samples.push(end, ends::mark());
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_1_each_minute_while_it_is_valid_and_then_ends() {
        let range = Range { from: 100_000, to: 400_000 };
        let times = |ranges: &[(i64, Option<i64>)]| -> Vec<(i64, bool)> {
            let samples = of_ranges(ranges, range);
            samples.points().iter().map(|(time, value)| (*time, value.is_nan())).collect()
        };
        let open = [100_000, 120_000, 180_000, 240_000, 300_000, 360_000].map(|time| (time, false));
        assert_eq!(times(&[(50_000, None)]), open);
        assert_eq!(times(&[(200_000, Some(250_000))]), [(200_000, false), (240_000, false), (250_000, true)]);
        // Two rows that differ in what is no label.
        let both = times(&[(200_000, Some(250_000)), (250_000, None)]);
        assert!(both.iter().all(|(_, is_end)| !is_end), "{both:?}");
        assert_eq!(times(&[(10, Some(20))]), []);
    }

    #[test]
    fn minutes_one_by_one_are_the_minutes_together() {
        let ranges = vec![(50_000, Some(130_000)), (130_000, Some(200_000)), (240_000, None)];
        let series = Series { labels: Vec::new(), known: SampleLocation::Valid(ranges) };
        let times = |from: i64, to: i64| -> Vec<(i64, bool)> {
            let samples = of_minutes(&series, Range { from: from * EVERY + 1, to: to * EVERY });
            samples.points().iter().map(|(time, value)| (*time, value.is_nan())).collect()
        };
        let one_by_one: Vec<_> = (0..5).flat_map(|minute| times(minute, minute + 1)).collect();
        let expected = [
            (50_000, false),
            (60_000, false),
            (120_000, false),
            // Another row of the same series begins.
            (130_000, false),
            (180_000, false),
            (200_000, true),
            (240_000, false),
            (300_000, false),
        ];
        assert_eq!(one_by_one, expected);
        assert_eq!(times(0, 5), expected);
    }
}
