//! The functions, procedures and views of the schema, in dependency order: each after those that it uses.

use std::borrow::Cow;

use super::{readings, rules};

/// What a file of the schema defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Function,
    Procedure,
    View,
}

impl ObjectKind {
    /// As the table `schema_objects` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ObjectKind::Function => "function",
            ObjectKind::Procedure => "procedure",
            ObjectKind::View => "view",
        }
    }

    /// The kind of that name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [ObjectKind::Function, ObjectKind::Procedure, ObjectKind::View]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Where the text of an object comes from.
#[derive(Debug)]
enum Text {
    File(&'static str),
    /// One of those of `packed.sql`.
    Packed,
    Made(fn() -> String),
}

/// The schema of views and functions for people.
pub(crate) const PUBLIC: &str = "public";

/// The schema of tables, and of views and functions that others are made of.
pub(crate) const INTERNAL: &str = "internal";

/// `CREATE OR REPLACE` of one function, procedure or view, and its comment: a file, or made from the catalogue. Names are unique in both schemas.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    pub(crate) name: &'static str,
    text: Text,
}

impl Object {
    /// `CREATE OR REPLACE`, and the comment.
    pub(crate) fn sql(&self) -> Cow<'static, str> {
        match self.text {
            Text::File(sql) => Cow::Borrowed(sql),
            Text::Packed => Cow::Borrowed(of_packed(self.name)),
            Text::Made(make) => Cow::Owned(make()),
        }
    }

    /// The schema that its text names: [`PUBLIC`] or [`INTERNAL`].
    pub(crate) fn schema(&self) -> &'static str {
        let keyword = self.kind.name().to_uppercase();
        let is_public = self.sql().contains(&format!("CREATE OR REPLACE {keyword} {PUBLIC}.{}", self.name));
        if is_public { PUBLIC } else { INTERNAL }
    }
}

macro_rules! function {
    ($name:literal) => {
        Object {
            kind: ObjectKind::Function,
            name: $name,
            text: Text::File(include_str!(concat!("../../schema/functions/", $name, ".sql"))),
        }
    };
}

/// What reads packed rows and series is in one file.
const PACKED: &str = include_str!("../../schema/functions/packed.sql");

/// A function of [`PACKED`] and its comment.
fn of_packed(name: &str) -> &'static str {
    const CREATE: &str = "CREATE OR REPLACE FUNCTION internal.";
    let of = |at: usize| &PACKED[at + CREATE.len()..];
    let mut begins = PACKED.match_indices(CREATE).map(|(at, _)| at);
    let begin = begins
        .find(|at| of(*at).strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
        .unwrap_or(PACKED.len());
    &PACKED[begin..begins.next().unwrap_or(PACKED.len())]
}

macro_rules! packed {
    ($name:literal) => {
        Object { kind: ObjectKind::Function, name: $name, text: Text::Packed }
    };
}

macro_rules! made {
    ($module:ident::$name:ident) => {
        Object { kind: ObjectKind::Function, name: stringify!($name), text: Text::Made($module::$name) }
    };
}

macro_rules! procedure {
    ($name:literal) => {
        Object {
            kind: ObjectKind::Procedure,
            name: $name,
            text: Text::File(include_str!(concat!("../../schema/procedures/", $name, ".sql"))),
        }
    };
}

macro_rules! view {
    ($name:literal) => {
        Object {
            kind: ObjectKind::View,
            name: $name,
            text: Text::File(include_str!(concat!("../../schema/views/", $name, ".sql"))),
        }
    };
}

/// All of them. A start removes what was installed and is not in this list.
pub(crate) const OBJECTS: &[Object] = &[
    // Arithmetic of counters.
    view!("run_visible"),
    view!("job_rank"),
    function!("claims_overlap"),
    view!("barred_nodes"),
    view!("moved_times"),
    function!("is_barred"),
    function!("counter_increase"),
    function!("counter_rate"),
    function!("stored_total"),
    function!("at_most_one"),
    made!(rules::row_rules_default),
    made!(rules::default_gap),
    made!(rules::minutely_gap),
    view!("rank_contests"),
    function!("of_counted"),
    function!("is_device_contested"),
    function!("fabric_port_of"),
    function!("instance_name"),
    function!("instances_named"),
    function!("row_rules_of_senders"),
    function!("row_rules_of"),
    function!("row_gap"),
    // What is packed.
    packed!("packed_rows"),
    packed!("packed_numbers"),
    packed!("packed_bytes"),
    packed!("packed_shares"),
    packed!("packed_time"),
    packed!("packed_stream"),
    packed!("packed_integers"),
    packed!("packed_texts"),
    packed!("packed_beside"),
    packed!("packed_part"),
    packed!("packed_place"),
    packed!("packed_link"),
    packed!("packed_link_rows"),
    packed!("packed_span"),
    made!(readings::ib_port_hours),
    made!(readings::host_port_hours),
    made!(readings::nvlink_hours),
    made!(readings::gpu_pcie_hours),
    made!(readings::ib_port_readings),
    made!(readings::host_port_readings),
    made!(readings::nvlink_readings),
    made!(readings::gpu_pcie_readings),
    // The fabric.
    view!("ib_port_named"),
    view!("ib_link_named"),
    view!("ib_port_lane_values"),
    function!("ib_port_rates"),
    view!("ib_port_minutes_named"),
    // Ports of hosts.
    function!("host_port_rates"),
    view!("host_port_minutes_named"),
    // GPUs.
    function!("gpu_source_rank"),
    view!("nvlink_link_counters"),
    made!(readings::nvlink_link_readings),
    function!("nvlink_rates"),
    function!("nvlink_metrics_id"),
    function!("nvlink_metrics_between"),
    view!("nvlink_link_minutes"),
    function!("gpu_pcie_rates"),
    function!("gpu_pm_before"),
    function!("gpu_pm_rates"),
    function!("gpu_metric_rates"),
    // Jobs.
    function!("job_state"),
    function!("jobs_running"),
    function!("job_ranks_counted"),
    function!("job_reported_at"),
    function!("packed_job_ranks"),
    function!("job_final_ranks"),
    function!("job_final_operations"),
    function!("job_final_cells"),
    function!("job_final_pairs"),
    function!("job_final_account"),
    function!("job_rows_gone"),
    function!("job_ranks"),
    view!("job_summary"),
    function!("contributor_label"),
    view!("link_contributors"),
    function!("link_minute_shares"),
    function!("link_contributor_minutes"),
    function!("job_span"),
    function!("mpi_packed_cells"),
    function!("rank_newest_cells"),
    view!("contested_ranks"),
    function!("mpi_packed_round"),
    function!("mpi_packed_calls"),
    function!("mpi_packed_account"),
    function!("mpi_overflow_cells"),
    function!("mpi_op_cells"),
    function!("mpi_node_op_cells"),
    view!("mpi_op_rows"),
    view!("mpi_op_series"),
    function!("mpi_op_series_between"),
    view!("mpi_peer_rows"),
    view!("mpi_traffic_rows"),
    function!("mpi_peer_cells"),
    function!("mpi_region_cells"),
    function!("mpi_path_cells"),
    function!("mpi_traffic_cells"),
    function!("job_op_cells"),
    view!("mpi_op_cell_totals"),
    view!("mpi_op_totals"),
    view!("mpi_open_calls"),
    view!("mpi_peer_totals"),
    view!("mpi_region_totals"),
    view!("mpi_path_totals"),
    view!("mpi_traffic_totals"),
    function!("job_rank_totals"),
    view!("mpi_rank_totals"),
    view!("mpi_rank_account"),
    view!("mpi_node_account"),
    function!("job_ranks_as_of"),
    function!("job_as_of"),
    function!("job_rank_times"),
    function!("job_rank_sums"),
    function!("job_node_cells"),
    function!("job_sums"),
    function!("job_cells"),
    view!("mpi_messages"),
    view!("job_rank_ports"),
    view!("job_rank_gpus"),
    function!("job_links"),
    // Throughline itself.
    view!("source_coverage"),
    function!("coverage_rounds"),
    view!("self_stats"),
    function!("self_stat_newest"),
    view!("rejected_records"),
    function!("upkeep_time"),
    function!("expiry_time"),
    function!("carry_query_of_rows"),
    function!("carry_query_of_cells"),
    function!("carry_query_of_peers"),
    function!("carry_query"),
    function!("carry_totals"),
    function!("try_lock_chunks"),
    function!("try_lock_chunk"),
    function!("is_backup_running"),
    function!("expire_table"),
    function!("expire_names"),
    function!("next_columns"),
    procedure!("expire"),
    function!("minutes_noticed"),
    function!("link_shares_noticed"),
    function!("export_noticed"),
    view!("event_named"),
    view!("nvlink_domain"),
    // Tables of OSU INAM.
    view!("intra_node_topo"),
    view!("nvlink_metrics"),
    view!("pvar_table"),
];

/// Where the object of that kind and name is in [`OBJECTS`].
pub(crate) fn position(kind: ObjectKind, name: &str) -> Option<usize> {
    OBJECTS.iter().position(|object| object.kind == kind && object.name == name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed_once_and_defines_what_its_name_says() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
        let mut files = Vec::new();
        for kind in [ObjectKind::Function, ObjectKind::Procedure, ObjectKind::View] {
            for entry in std::fs::read_dir(root.join(format!("{}s", kind.name()))).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                if name == "packed" {
                    continue;
                }
                let sql = OBJECTS[position(kind, &name).unwrap()].sql();
                let keyword = kind.name().to_uppercase();
                assert_eq!(sql.matches("CREATE ").count(), 1, "{name}: one object a file");
                let schema = OBJECTS[position(kind, &name).unwrap()].schema();
                assert!(
                    sql.contains(&format!("CREATE OR REPLACE {keyword} {schema}.{name}")),
                    "{name}: CREATE"
                );
                assert!(
                    sql.contains(&format!("COMMENT ON {keyword} {schema}.{name} IS")),
                    "{name}: a comment"
                );
                files.push(name);
            }
        }
        files.sort_unstable();
        let in_files = OBJECTS.iter().filter(|object| matches!(object.text, Text::File(_)));
        let mut names: Vec<&str> = in_files.map(|object| object.name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
        let packed: Vec<&Object> =
            OBJECTS.iter().filter(|object| matches!(object.text, Text::Packed)).collect();
        assert_eq!(PACKED.matches("CREATE ").count(), packed.len());
        for object in packed {
            let (sql, name) = (object.sql(), object.name);
            assert!(sql.starts_with(&format!("CREATE OR REPLACE FUNCTION internal.{name}(")), "{name}");
            assert!(sql.contains(&format!("COMMENT ON FUNCTION internal.{name} IS")), "{name}: a comment");
        }
    }
}
