//! Why a job has no matrix: what its own answers say of it, and nothing that they don't. Pure.

use crate::text::{bytes, count, thousands};
use throughline_api::jobs::{JobDetail, Operation};

/// Worlds of more ranks have no pairs (`TL_WORLD_LIMIT` of the shim).
const WORLD_MAX: u32 = 1 << 20;

/// For people.
pub fn reason(kind: &str, job: &JobDetail) -> String {
    let key = &job.job.job_key;
    match kind {
        "wire" => format!("no wire matrix of {key}: {}; --kind logical is there without", no_messages(job)),
        _ => format!("no traffic between ranks of {key}: {}", nothing_sent(job)),
    }
}

fn setting<'a>(job: &'a JobDetail, name: &str) -> Option<&'a str> {
    job.settings.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
}

fn no_messages(job: &JobDetail) -> String {
    if let Some(because) = setting(job, "wire") {
        return format!("it was requested, but {because}");
    }
    if let Some(layers) = setting(job, "pml") {
        return format!(
            "it was requested, but the setting pml = {layers} leaves out Open MPI's monitoring layer"
        );
    }
    "ranks record it only with [mpi] wire = true in agent.toml, or THROUGHLINE_WIRE=1 for a program, on Open MPI 4.1 and 5.0".to_owned()
}

fn nothing_sent(job: &JobDetail) -> String {
    let moves = |one: &&Operation| !one.operation.starts_with("file_");
    let sums = job.operations.iter().filter(moves).fold((0_u64, 0_u64), |sum, one| {
        (sum.0.saturating_add(one.bytes), sum.1.saturating_add(one.received_bytes.unwrap_or(0)))
    });
    if let Some(functions) = setting(job, "pmpi_tool") {
        return format!(
            "a tool of PMPI is linked into the program, and calls of its own {functions} are not counted"
        );
    }
    let is_running = job.job.end_ms.is_none();
    let Some(most) = job.operations.iter().max_by_key(|one| one.calls) else {
        return format!("no call of its ranks is known{}", if is_running { " yet" } else { "" });
    };
    if sums == (0, 0) {
        return format!(
            "its calls had no data for other ranks; most were {} ({})",
            most.operation,
            thousands(most.calls)
        );
    }
    let moved = match sums {
        (0, received) => format!("{} received", bytes(received)),
        (sent, _) => format!("{} sent", bytes(sent)),
    };
    match job.job.world_size.and_then(|size| u32::try_from(size).ok()) {
        Some(size) if size > WORLD_MAX => {
            format!("{moved}, but a world of {} has no pairs", count(size.into(), "rank"))
        }
        _ if is_running => format!(
            "{moved}, and its pairs are to come: each rank's with its next row, those below [mpi] peer_bytes_min of agent.toml at \
             its end"
        ),
        _ => format!(
            "{moved}, none of it reported for a pair of its own MPI_COMM_WORLD: messages to spawned or connected programs are in no \
             matrix"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::Setting;

    fn job(operations: &[(&str, u64, u64, Option<u64>)]) -> JobDetail {
        let mut job = JobDetail::default();
        job.job.job_key = "slurm:7".into();
        job.operations = (operations.iter())
            .map(|(name, calls, bytes, received_bytes)| Operation {
                operation: (*name).to_owned(),
                calls: *calls,
                bytes: *bytes,
                received_bytes: *received_bytes,
                ..Operation::default()
            })
            .collect();
        job
    }

    #[test]
    fn the_reason_is_what_the_job_says() {
        let text = |job: &JobDetail| reason("logical", job);
        assert_eq!(text(&job(&[])), "no traffic between ranks of slurm:7: no call of its ranks is known yet");
        let files = job(&[("file_write", 3, 4096, None), ("wait", 2000, 0, None)]);
        assert!(
            text(&files).ends_with("had no data for other ranks; most were wait (2,000)"),
            "{}",
            text(&files)
        );
        let mut sent = job(&[("send", 9, 2048, None)]);
        assert!(text(&sent).contains("2.0 kB sent, and its pairs are to come"), "{}", text(&sent));
        sent.job.end_ms = Some(1);
        assert!(text(&sent).contains("spawned or connected programs"), "{}", text(&sent));
        sent.job.world_size = Some(2_000_000);
        assert!(text(&sent).ends_with("a world of 2,000,000 ranks has no pairs"), "{}", text(&sent));
        sent.settings.push(Setting { name: "pmpi_tool".into(), value: "MPI_Send".into() });
        assert!(text(&sent).contains("its own MPI_Send are not counted"), "{}", text(&sent));
    }

    #[test]
    fn a_wire_matrix_lacks_for_the_reason_that_ranks_report() {
        let mut job = job(&[]);
        assert!(reason("wire", &job).contains("only with [mpi] wire = true"));
        job.settings.push(Setting { name: "wire".into(), value: "a session came before MPI_Init".into() });
        assert_eq!(
            reason("wire", &job),
            "no wire matrix of slurm:7: it was requested, but a session came before MPI_Init; --kind logical is there without"
        );
    }
}
