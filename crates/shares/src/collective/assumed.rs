//! The algorithm that a library takes by its own decision: an assumption, where nobody observed it.
//!
//! Open MPI's rules are those of the component `tuned` in 4.1 and 5.0 (ompi/mca/coll/tuned/coll_tuned_decision_fixed.c),
//! MPICH's those of 4.x (maint/tuning/coll/mpir/generic.json). Both look at the number of ranks and at bytes. A predefined,
//! commutative operation and contiguous data are taken for granted.

mod gather_tables;
mod tables;

use super::plan::Plan;
use super::{Call, Operation};
use gather_tables::{ALLGATHER, ALLGATHERV, GATHER, SCATTER};
use tables::{ALLREDUCE, ALLTOALL, ALLTOALLV, BARRIER, BCAST, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK};

/// Before MPICH's names, as some of Open MPI's are the same and mean another shape.
pub(super) const MPICH_PREFIX: &str = "mpich:";

/// A library whose decisions are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// Open MPI 4.1 and 5.0, by its component `tuned`.
    OpenMpi,
    /// MPICH 4.0 and later, where each node has one rank. With several, it first works within nodes.
    Mpich,
}

impl Library {
    /// The name by which [`super::layout`] knows an algorithm that the agent reports of this library.
    #[must_use]
    pub fn algorithm(self, reported: &str) -> String {
        match self {
            Self::OpenMpi => reported.to_owned(),
            Self::Mpich => format!("{}{reported}", MPICH_PREFIX),
        }
    }

    /// By what MPI_Get_library_version reports; `None` for libraries and versions with other rules.
    #[must_use]
    pub fn of_description(text: &str) -> Option<Self> {
        let version = |start: &str| -> Option<(u32, u32)> {
            let mut numbers = text.split_once(start)?.1.trim_start().split(|of: char| !of.is_ascii_digit());
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        };
        match (version("Open MPI v"), version("MPICH Version:")) {
            (Some((4, 1..) | (5, _)), _) => Some(Self::OpenMpi),
            (_, Some((4.., _))) => Some(Self::Mpich),
            _ => None,
        }
    }
}

fn mpich(operation: Operation, plan: &Plan) -> &'static str {
    let (n, power) = (plan.n, plan.n.is_power_of_two());
    // Fewer elements than ranks that take part in halving.
    let is_short = plan.elements() < 1 << n.ilog2();
    match operation {
        Operation::Bcast if n < 8 || plan.whole() <= 12_288 => "mpich:binomial",
        Operation::Bcast if power && plan.whole() <= 524_288 => "mpich:scatter_recursive_doubling_allgather",
        Operation::Bcast => "mpich:scatter_ring_allgather",
        Operation::Allreduce if plan.block(0) <= 8 || is_short => "mpich:recursive_doubling",
        Operation::Allreduce => "mpich:reduce_scatter_allgather",
        Operation::Reduce if plan.whole() <= 2048 || is_short => "mpich:binomial",
        Operation::Reduce => "mpich:reduce_scatter_gather",
        Operation::Allgather | Operation::Allgatherv => match plan.total() {
            ..524_288 if power => "mpich:recursive_doubling",
            ..81_920 => "mpich:brucks",
            _ => "mpich:ring",
        },
        Operation::ReduceScatter | Operation::ReduceScatterBlock if plan.total() < 524_288 => {
            "mpich:recursive_halving"
        }
        Operation::ReduceScatter | Operation::ReduceScatterBlock => "mpich:pairwise",
        Operation::Gather | Operation::Scatter => "mpich:binomial",
        Operation::Gatherv | Operation::Scatterv => "mpich:linear",
        Operation::Scan | Operation::Exscan => "mpich:recursive_doubling",
        Operation::Barrier => "mpich:k_dissemination",
        Operation::Alltoall if n >= 8 && plan.block(0) <= 256 => "mpich:brucks",
        Operation::Alltoall if plan.block(0) > 32_768 => "mpich:pairwise",
        Operation::Alltoall | Operation::Alltoallv => "mpich:scattered",
    }
}

/// The algorithm that `library` takes for a call by its own decision, as [`super::layout`] knows it.
#[must_use]
pub fn assumed(library: Library, operation: Operation, call: &Call) -> Option<&'static str> {
    if call.ranks < 2 || call.root >= call.ranks {
        return None;
    }
    Some(by_plan(library, operation, &Plan::new(call)))
}

/// The same for the nonblocking or persistent form of an operation: Open MPI's by its component libnbc. An operation that is
/// in place has the other form's algorithm there for allreduce, which nobody knows here.
#[must_use]
pub fn assumed_nonblocking(library: Library, operation: Operation, call: &Call) -> Option<&'static str> {
    if call.ranks < 2 || call.root >= call.ranks {
        return None;
    }
    let plan = Plan::new(call);
    let has_halves = plan.elements() >= 1 << plan.n.ilog2();
    Some(match (library, operation) {
        (Library::OpenMpi, _) => super::libnbc::assumed(operation, &plan),
        // MPICH's schedules have the blocking ones' shapes, and the same rules but for this one.
        (Library::Mpich, Operation::Allreduce) if plan.block(0) > 2048 && has_halves => {
            "mpich:reduce_scatter_allgather"
        }
        (Library::Mpich, Operation::Allreduce) => "mpich:recursive_doubling",
        (Library::Mpich, _) => mpich(operation, &plan),
    })
}

pub(super) fn by_plan(library: Library, operation: Operation, plan: &Plan) -> &'static str {
    match library {
        Library::OpenMpi => open_mpi(operation, plan),
        Library::Mpich => mpich(operation, plan),
    }
}

fn open_mpi(operation: Operation, plan: &Plan) -> &'static str {
    let (table, bytes) = match operation {
        Operation::Allgather => (ALLGATHER, plan.block(0)),
        Operation::Allgatherv => (ALLGATHERV, plan.total() / u64::from(plan.n)),
        Operation::Allreduce => (ALLREDUCE, plan.block(0)),
        Operation::Alltoall => (ALLTOALL, plan.block(0)),
        Operation::Alltoallv => (ALLTOALLV, 0),
        Operation::Barrier => (BARRIER, 0),
        Operation::Bcast => (BCAST, plan.whole()),
        Operation::Gather => (GATHER, plan.block(0)),
        Operation::Reduce => (REDUCE, plan.whole()),
        Operation::ReduceScatter => (REDUCE_SCATTER, plan.total()),
        Operation::ReduceScatterBlock => (REDUCE_SCATTER_BLOCK, plan.block(0)),
        Operation::Scatter => (SCATTER, plan.block(0)),
        // The component `basic` has one algorithm for these.
        Operation::Exscan | Operation::Scan | Operation::Gatherv | Operation::Scatterv => return "linear",
    };
    let sizes = table.iter().find(|(ranks, _)| plan.n < *ranks).map_or(&[][..], |(_, sizes)| sizes);
    sizes.iter().find(|(below, _)| bytes < *below).map_or("basic_linear", |(_, algorithm)| algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_descriptions() {
        let of = Library::of_description;
        assert_eq!(of("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), Some(Library::OpenMpi));
        assert_eq!(of("Open MPI v5.0.7, package: x"), Some(Library::OpenMpi));
        assert_eq!(of("Open MPI v4.0.3"), None);
        assert_eq!(of("MPICH Version:\t4.0.2\nMPICH Release date:"), Some(Library::Mpich));
        assert_eq!(of("MPICH Version:      3.3a2"), None);
        assert_eq!(of("Intel(R) MPI Library 2021.9"), None);
    }

    #[test]
    fn each_call_has_an_algorithm_with_a_model() {
        use super::super::{NAMES, layout};
        for library in [Library::OpenMpi, Library::Mpich] {
            for (_, operation) in NAMES {
                for ranks in (2..40).chain([64, 100, 128, 300]) {
                    for bytes in [0, 1, 8, 300, 5000, 70_000, 1 << 20, 1 << 23] {
                        let call = Call::even(ranks, 0, bytes);
                        for of in [assumed, assumed_nonblocking] {
                            let algorithm = of(library, operation, &call).unwrap();
                            let made = layout(operation, algorithm, &call);
                            assert!(made.is_ok(), "{library:?} {operation:?} {algorithm} {ranks} {bytes}");
                        }
                    }
                }
            }
        }
    }
}
