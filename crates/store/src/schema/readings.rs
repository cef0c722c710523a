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
    let (id, rows) = (kind.id(), kind.readings());
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
        internal.packed_time(h.times[r.number]), k.id, internal.packed_time(h.epochs[r.number]), h.sources[r.number]{packed_saturated}{packed}
    FROM {hours}
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
        hours = hours_of_things(kind, series.trim_end_matches(",\n")),
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
        internal.packed_time(h.times[v.number]), k.id, internal.packed_time(h.epochs[v.number]), h.source{of_arrays}
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
        internal.packed_time(h.times[r.number]), k.id, k.uuid, l.link, internal.packed_time(h.epochs[r.number]), h.source{of_links}
    FROM {hours}
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
        internal.packed_time(h.times[r.number]), k.id, internal.packed_time(h.epochs[r.number]), h.source{packed}
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

/// Packed hours of a GPU by one source: these columns, the times and epochs, and these series.
fn hours_by_source(kind: Kind, columns: &str, metrics: &[&Metric]) -> String {
    let part = |series: i32| format!("internal.packed_integers({})", part_of_hour(series));
    let series: String = metrics
        .iter()
        .map(|metric| format!(",\n        {} AS {}", part(metric.id.cast_signed()), metric.name))
        .collect();
    let series = format!(
        "        m.source{columns},\n        {} AS times,\n        {} AS epochs{series}",
        part(TIMES),
        part(EPOCHS),
    );
    hours_of_things(kind, &series)
}

/// The things of a kind as `k`, and their packed hours in the range as `h`, with what a SELECT makes of each. What the planner sees is
/// the same however many hours are packed: functions look for them, and for none where all of the range is rows. A condition on the thing
/// reaches its key.
fn hours_of_things(kind: Kind, series: &str) -> String {
    format!(
        "internal.packed_span('{rows}', since, until) p
    CROSS JOIN internal.{keys} k
    CROSS JOIN LATERAL (
        -- On its own, so that each series is unpacked once and not for each of its readings. A series that the query does not use is
        -- neither read nor unpacked.
        SELECT
{series}
        FROM internal.{function}(k.id, p.first, p.last) m
        OFFSET 0
    ) h",
        rows = kind.readings(),
        keys = kind.keys(),
        function = hours_function(kind),
    )
}

fn hours_function(kind: Kind) -> String {
    format!("{}_hours", kind.blocks().trim_end_matches("_blocks"))
}

/// The packed hours of one fabric port.
pub(crate) fn ib_port_hours() -> String {
    hours(Kind::IbPorts)
}

/// The packed hours of one port of a host.
pub(crate) fn host_port_hours() -> String {
    hours(Kind::HostPorts)
}

/// The packed hours of the NVLinks of one GPU.
pub(crate) fn nvlink_hours() -> String {
    hours(Kind::Nvlinks)
}

/// The packed hours of one GPU's PCIe.
pub(crate) fn gpu_pcie_hours() -> String {
    hours(Kind::GpuPcie)
}

fn hours(kind: Kind) -> String {
    let mut columns = vec![("samples", "bytea"), ("metrics", "integer[]"), ("offsets", "integer[]")];
    if kind.has_sources() {
        columns.push(("source", "text"));
    }
    if kind.catalogue().has_arrays() {
        columns.push(("elements", "integer[]"));
    }
    let declared: Vec<String> = columns.iter().map(|(name, of)| format!("{name} {of}")).collect();
    let named: Vec<String> = columns.iter().map(|(name, _)| format!("m.{name}")).collect();
    format!(
        r#"CREATE OR REPLACE FUNCTION internal.{function}(thing bigint, first timestamptz, last timestamptz)
RETURNS TABLE ({declared})
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 2
SET search_path = ''
AS $$
BEGIN
    -- Planned with these times: no other chunk is opened.
    RETURN QUERY
    SELECT {named}
    FROM internal.{blocks} m
    WHERE m.{id} = thing AND m.time >= first AND m.time <= last;
END
$$;
COMMENT ON FUNCTION internal.{function} IS
    'Packed hours of a {id} that begin from first to last, as {blocks} has them.';
"#,
        function = hours_function(kind),
        declared = declared.join(", "),
        named = named.join(", "),
        blocks = kind.blocks(),
        id = kind.id(),
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
