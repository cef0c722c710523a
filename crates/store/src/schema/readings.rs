//! Functions that return readings, rows and packed hours alike. They name each metric of a table several times, so they are
//! made from the catalogue: a new counter is in them.

use throughline_sample::catalogue::Metric;

use crate::chunks::series_numbers::{EPOCHS, SATURATED, SOURCES, TIMES, beside};
use crate::counter_sql::has_saturation;
use crate::rollup_kind::Kind;

/// Of fabric ports.
pub(crate) fn ib_port_readings() -> String {
    readings(Kind::IbPorts, "ib_port_readings", "fabric ports")
}

/// Of hosts' own adapter ports.
pub(crate) fn host_port_readings() -> String {
    readings(Kind::HostPorts, "host_port_readings", "hosts'' own adapter ports")
}

/// All metrics of these kinds are integers.
fn readings(kind: Kind, function: &str, things: &str) -> String {
    let (id, rows, blocks) = (kind.id(), kind.readings(), kind.blocks());
    let metrics = kind.catalogue().metrics();
    let saturates = metrics.iter().any(|metric| has_saturation(metric));
    let lines =
        |line: &dyn Fn(&Metric) -> String| -> String { metrics.iter().map(|metric| line(metric)).collect() };
    let when_saturates = |text: &str| if saturates { text.to_owned() } else { String::new() };
    let unpacked = |function: &str, series: i32, column: &str| match beside(series) {
        Some(other) => {
            format!(
                "        internal.packed_beside({}, {}) AS {column},\n",
                part_of_hour(series),
                part_of_hour(other)
            )
        }
        None => format!("        internal.{function}({}) AS {column},\n", part_of_hour(series)),
    };
    let value = |metric: &Metric| {
        let name = metric.name;
        if has_saturation(metric) {
            format!(
                ",\n        CASE WHEN '{name}' = ANY (h.saturated[r.number]::text[]) THEN NULL ELSE h.{name}[r.number] END"
            )
        } else {
            format!(",\n        h.{name}[r.number]")
        }
    };
    let series = [
        unpacked("packed_integers", TIMES, "times"),
        unpacked("packed_integers", EPOCHS, "epochs"),
        unpacked("packed_texts", SOURCES, "sources"),
        when_saturates(&unpacked("packed_texts", SATURATED, "saturated")),
        lines(&|metric| unpacked("packed_integers", metric.id.cast_signed(), metric.name)),
    ]
    .concat();
    format!(
        r#"CREATE OR REPLACE FUNCTION public.{function}(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, {id} bigint, epoch timestamptz, source text{declared_saturated}{declared})
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.{id}, c.epoch, c.source{row_saturated}{of_rows}
    FROM internal.{rows} c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[r.number]), h.{id}, internal.packed_time(h.epochs[r.number]), h.sources[r.number]{packed_saturated}{packed}
    FROM (
        -- Grouped by the key of the table, so that each series is unpacked once and not for each of its readings. A series that the
        -- query does not use is neither read nor unpacked.
        SELECT m.{id},
{series}
        FROM internal.{blocks} m, internal.packed_state s
        WHERE s.readings = '{rows}' AND m.time >= s.packed_from AND m.time < s.packed_until
          AND m.time > since - INTERVAL '1 hour' AND m.time <= until
        GROUP BY m.{id}, m.time
    ) h
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until;
END;
COMMENT ON FUNCTION public.{function} IS
    'Readings of {things} from since to until, as {rows} has them: rows, and hours that are packed only. Condition '
    '{id}, so that no others are unpacked.';
"#,
        declared_saturated = when_saturates(", saturated text[]"),
        declared = lines(&|metric| format!(",\n    {} bigint", metric.name)),
        row_saturated = when_saturates(", c.saturated"),
        of_rows = lines(&|metric| format!(",\n        c.{}", metric.name)),
        packed_saturated = when_saturates(", h.saturated[r.number]::text[]"),
        packed = lines(&value),
        series = series.trim_end_matches(",\n"),
    )
}

/// Of GPUs' NVLinks, with arrays as rows have them.
pub(crate) fn nvlink_readings() -> String {
    let columns = |line: &dyn Fn(&str) -> String| of_nvlinks(&|metric| line(metric.name));
    format!(
        r#"CREATE OR REPLACE FUNCTION public.nvlink_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, epoch timestamptz, source text{declared})
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.gpu_id, c.epoch, c.source{of_rows}
    FROM internal.nvlink_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[v.number]), h.gpu_id, internal.packed_time(h.epochs[v.number]), h.source{of_arrays}
    FROM {hours}
    CROSS JOIN LATERAL (
        SELECT
            e.number{arrays}
        FROM (
            -- On its own, or whole series are sorted.
            SELECT
                r.number, l.link{elements}
            FROM {links}
            CROSS JOIN generate_series(1, cardinality(h.times)) AS r (number)
            WHERE internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until
            OFFSET 0
        ) e
        GROUP BY e.number
    ) v;
END;
COMMENT ON FUNCTION public.nvlink_readings IS
    'Readings of NVLinks from since to until, as nvlink_counters has them: rows, and hours that are packed only, whose arrays '
    'may end with more NULLs. Condition gpu_id, so that no others are unpacked.';
"#,
        declared = columns(&|name| format!(",\n    {name} bigint[]")),
        of_rows = columns(&|name| format!(",\n        c.{name}")),
        of_arrays = columns(&|name| format!(",\n        v.{name}")),
        arrays = columns(&|name| format!(
            ",\n            CASE WHEN count(e.{name}) > 0 THEN array_agg(e.{name} ORDER BY e.link) END AS {name}"
        )),
        elements = columns(&|name| format!(",\n                l.{name}[r.number] AS {name}")),
        hours = hours_by_source(Kind::Nvlinks, ", m.samples, m.metrics, m.elements, m.offsets", &[]),
        links = links_of_hour(""),
    )
}

/// Of each NVLink, as the view `nvlink_link_counters` has them.
pub(crate) fn nvlink_link_readings() -> String {
    let columns = |line: &dyn Fn(&str) -> String| of_nvlinks(&|metric| line(metric.name));
    format!(
        r#"CREATE OR REPLACE FUNCTION public.nvlink_link_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, gpu text, link integer, epoch timestamptz, source text{declared})
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.gpu_id, c.gpu, c.link, c.epoch, c.source{of_rows}
    FROM internal.nvlink_link_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[r.number]), h.gpu_id, g.uuid, l.link, internal.packed_time(h.epochs[r.number]), h.source{of_links}
    FROM {hours}
    JOIN internal.gpu_key g ON g.id = h.gpu_id
    CROSS JOIN LATERAL {links}
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE (l.has_values IS NULL OR l.has_values[r.number])
      AND internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until;
END;
COMMENT ON FUNCTION public.nvlink_link_readings IS
    'Readings of each NVLink from since to until, as nvlink_link_counters has them: rows, and hours that are packed only. '
    'Condition gpu_id, so that no others are unpacked.';
"#,
        declared = columns(&|name| format!(",\n    {name} bigint")),
        of_rows = columns(&|name| format!(",\n        c.{name}")),
        of_links = columns(&|name| format!(",\n        l.{name}[r.number]")),
        hours = hours_by_source(Kind::Nvlinks, ", m.samples, m.metrics, m.elements, m.offsets", &[]),
        links = links_of_hour(
            ",\n            internal.packed_link_rows(h.samples, h.metrics, h.elements, h.offsets, e.link, cardinality(h.times)) AS has_values"
        ),
    )
}

fn of_nvlinks(line: &dyn Fn(&Metric) -> String) -> String {
    Kind::Nvlinks.catalogue().metrics().iter().map(|metric| line(metric)).collect()
}

/// Of GPUs' PCIe.
pub(crate) fn gpu_pcie_readings() -> String {
    let metrics = Kind::GpuPcie.catalogue().metrics();
    let columns =
        |line: &dyn Fn(&Metric) -> String| -> String { metrics.iter().map(|metric| line(metric)).collect() };
    format!(
        r#"CREATE OR REPLACE FUNCTION public.gpu_pcie_readings(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, gpu_id bigint, epoch timestamptz, source text{declared})
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        c.time, c.gpu_id, c.epoch, c.source{of_rows}
    FROM internal.gpu_pcie_counters c
    WHERE c.time >= since AND c.time <= until
    UNION ALL
    SELECT
        internal.packed_time(h.times[r.number]), h.gpu_id, internal.packed_time(h.epochs[r.number]), h.source{packed}
    FROM {hours}
    CROSS JOIN LATERAL generate_series(1, cardinality(h.times)) AS r (number)
    WHERE internal.packed_time(h.times[r.number]) >= since AND internal.packed_time(h.times[r.number]) <= until;
END;
COMMENT ON FUNCTION public.gpu_pcie_readings IS
    'Readings of GPUs'' PCIe from since to until, as gpu_pcie_counters has them: rows, and hours that are packed only. Condition '
    'gpu_id, so that no others are unpacked.';
"#,
        declared = columns(&|metric| format!(",\n    {} bigint", metric.name)),
        of_rows = columns(&|metric| format!(",\n        c.{}", metric.name)),
        packed = columns(&|metric| format!(",\n        h.{}[r.number]", metric.name)),
        hours = hours_by_source(Kind::GpuPcie, "", metrics),
    )
}

/// Packed hours of a GPU by one source: these columns, the times and epochs, and these series. Grouped by the key of the table, so that
/// each is unpacked once, and a condition on the GPU reaches the table.
fn hours_by_source(kind: Kind, columns: &str, metrics: &[&Metric]) -> String {
    let part = |series: i32| format!("internal.packed_integers({})", part_of_hour(series));
    let series: String = metrics
        .iter()
        .map(|metric| format!(",\n               {} AS {}", part(metric.id.cast_signed()), metric.name))
        .collect();
    format!(
        "(
        SELECT m.gpu_id, m.source{columns},
               {} AS times,
               {} AS epochs{series}
        FROM internal.{} m, internal.packed_state s
        WHERE s.readings = '{}' AND m.time >= s.packed_from AND m.time < s.packed_until
          AND m.time > since - INTERVAL '1 hour' AND m.time <= until
        GROUP BY m.gpu_id, m.time, m.source
    ) h",
        part(TIMES),
        part(EPOCHS),
        kind.blocks(),
        kind.readings(),
    )
}

/// The bytes of a series of the packed hour `m`.
fn part_of_hour(series: i32) -> String {
    format!("internal.packed_part(m.samples, m.metrics, m.offsets, {series})")
}

/// The links of such an hour, each with its series. Grouped, so that each series is unpacked once, and one that the query does not
/// use is neither read nor unpacked.
fn links_of_hour(more: &str) -> String {
    let series = of_nvlinks(&|metric| {
        format!(
            ",\n            internal.packed_integers(internal.packed_link(h.samples, h.metrics, h.elements, h.offsets, {}, e.link)) AS {}",
            metric.id, metric.name
        )
    });
    format!(
        "(
            SELECT e.link{more}{series}
            FROM generate_series(0, coalesce((SELECT max(u.link) FROM unnest(h.elements) AS u (link)), 0)) AS e (link)
            GROUP BY e.link
        ) l"
    )
}
