//! Steps of collective operations between two groups: even and odd ranks. Each sends to the other group only.

use super::collectives::{Forms, NOBODY_KNOWS, Part, forms};
use super::generator::*;
use super::language::{Arg, Statement};

fn to_all(member: &Member, bytes: impl Fn(usize) -> u64) -> Vec<(usize, u64)> {
    (0..member.partners().len()).map(|rank| (rank, bytes(rank))).collect()
}

/// The root is the first of the even ranks' group; the group of the root takes no part else.
fn is_root(member: &Member) -> bool {
    member.rank == ROOT && is_in_roots_group(member)
}

fn is_in_roots_group(member: &Member) -> bool {
    member.world().is_multiple_of(2)
}

/// Has no part in what goes from the root or to it, and its count and type mean nothing.
fn stands_by(member: &Member) -> bool {
    is_in_roots_group(member) && !is_root(member)
}

const ROOT: usize = 0;

/// Operations to the root or from it.
fn rooted(g: &mut Generator, size: Size) {
    let bytes = size.bytes(0);
    let (count, kind) = (Arg::Elements(size.a), Arg::Type(size.kind));
    let (root, comm) = (Arg::RootBetween, Arg::Comm(BETWEEN));
    let list = [Arg::In, count.clone(), kind.clone(), root.clone(), comm.clone()];
    forms(g, ["Bcast", "Ibcast", "Bcast_init"], true, BETWEEN, &list, |member| {
        let sends = is_root(member);
        Part {
            class: if stands_by(member) { 0 } else { bytes },
            bytes: if sends { bytes } else { 0 },
            to: if sends { to_all(member, |_| bytes) } else { vec![] },
        }
    });
    let list = [Arg::Out, count.clone(), kind.clone(), Arg::In, count, kind, root, comm];
    forms(g, ["Gather", "Igather", "Gather_init"], true, BETWEEN, &list, |member| {
        let bytes = if is_in_roots_group(member) { 0 } else { bytes };
        Part { class: bytes, bytes, to: if is_in_roots_group(member) { vec![] } else { vec![(ROOT, bytes)] } }
    });
    forms(g, ["Scatter", "Iscatter", "Scatter_init"], true, BETWEEN, &list, |member| {
        if is_root(member) {
            let all = bytes * member.partners().len() as u64;
            return Part { class: bytes, bytes: all, to: to_all(member, |_| bytes) };
        }
        Part { class: if is_in_roots_group(member) { 0 } else { bytes }, bytes: 0, to: vec![] }
    });
}

fn sums(g: &mut Generator) {
    let size = g.summable();
    let bytes = size.bytes(0);
    let list = |count: Arg, more: &[Arg]| {
        let mut list = vec![Arg::Out, Arg::In, count, Arg::Type(size.kind), Arg::Name("MPI_SUM")];
        list.extend_from_slice(more);
        list.push(Arg::Comm(BETWEEN));
        list
    };
    let count = Arg::Elements(size.a);
    let everyone: Forms = ["Allreduce", "Iallreduce", "Allreduce_init"];
    forms(g, everyone, true, BETWEEN, &list(count.clone(), &[]), |member| Part {
        class: bytes,
        bytes,
        to: to_all(member, |_| bytes),
    });
    let to_root: Forms = ["Reduce", "Ireduce", "Reduce_init"];
    forms(g, to_root, true, BETWEEN, &list(count, &[Arg::RootBetween]), |member| {
        let sends = !is_in_roots_group(member);
        Part {
            class: if stands_by(member) { 0 } else { bytes },
            bytes: if sends { bytes } else { 0 },
            to: if sends { vec![(ROOT, bytes)] } else { vec![] },
        }
    });
}

/// What one group sums up is scattered in the other, which alone knows in which parts. Both have as many elements.
fn scattered_sums(g: &mut Generator) {
    const SHARED_BY_ANY: i64 = 12; // 1 to 4 members
    let kind = g.summable().kind;
    let (each, shift) = (g.random.between(1, BLOCK / 5), g.random.between(0, 3));
    let (all, total) = (each * SHARED_BY_ANY, bytes(kind, each * SHARED_BY_ANY));
    let list = |count| [Arg::Out, Arg::In, count, Arg::Type(kind), Arg::Name("MPI_SUM"), Arg::Comm(BETWEEN)];
    let blocks: Forms = ["Reduce_scatter_block", "Ireduce_scatter_block", "Reduce_scatter_block_init"];
    forms(g, blocks, true, BETWEEN, &list(Arg::ShareBetween(all)), |member| {
        let block = total / member.partners().len() as u64;
        Part { class: block, bytes: total, to: to_all(member, |_| block) }
    });
    g.then(Statement::Shares("rc", all, shift));
    let vectors: Forms = ["Reduce_scatter", "Ireduce_scatter", "Reduce_scatter_init"];
    forms(g, vectors, true, BETWEEN, &list(Arg::Numbers("rc")), |member| Part {
        class: total / member.partners().len() as u64,
        bytes: total,
        to: vec![(NOBODY_KNOWS, 0); member.partners().len()],
    });
}

/// Everyone to everyone in the other group.
fn everyone(g: &mut Generator, size: Size) {
    let bytes = size.bytes(0);
    let (count, kind, comm) = (Arg::Elements(size.a), Arg::Type(size.kind), Arg::Comm(BETWEEN));
    forms(
        g,
        ["Barrier", "Ibarrier", "Barrier_init"],
        false,
        BETWEEN,
        std::slice::from_ref(&comm),
        |member| Part { class: 0, bytes: 0, to: to_all(member, |_| 0) },
    );
    let list = [Arg::Out, count.clone(), kind.clone(), Arg::In, count, kind, comm];
    forms(g, ["Allgather", "Iallgather", "Allgather_init"], true, BETWEEN, &list, |member| Part {
        class: bytes,
        bytes,
        to: to_all(member, |_| bytes),
    });
    forms(g, ["Alltoall", "Ialltoall", "Alltoall_init"], true, BETWEEN, &list, |member| Part {
        class: bytes,
        bytes: bytes * member.partners().len() as u64,
        to: to_all(member, |_| bytes),
    });
}

/// A block of its own size for each member: `a + b * sender + c * receiver` elements.
fn vectors(g: &mut Generator) {
    let kind = g.listed().kind;
    let [a, b, c] = [g.random.between(0, BLOCK - 160), g.random.between(0, 10), g.random.between(0, 10)];
    let block = move |from: usize, to: usize| bytes(kind, a + b * int(from) + c * int(to));
    for (name, numbers) in
        [("sc", [a, b, c]), ("rc", [a, c, b]), ("sd", [0, 0, BLOCK]), ("rd", [0, 0, BLOCK])]
    {
        g.then(Statement::Fill(name, BETWEEN, None, numbers));
    }
    let [sc, sd, rc, rd] = ["sc", "sd", "rc", "rd"].map(Arg::Numbers);
    let t = Arg::Type(kind);
    let list = [Arg::Out, sc, sd, t.clone(), Arg::In, rc.clone(), rd.clone(), t.clone(), Arg::Comm(BETWEEN)];
    forms(g, ["Alltoallv", "Ialltoallv", "Alltoallv_init"], true, BETWEEN, &list, |member| {
        let there = member.partners().len();
        let total: u64 = (0..there).map(|to| block(member.rank, to)).sum();
        Part { class: total / there as u64, bytes: total, to: to_all(member, |to| block(member.rank, to)) }
    });
    g.then(Statement::Fill("rc", BETWEEN, None, [a, 0, b]));
    let count = Arg::Affine(BETWEEN, a, b);
    let list = [Arg::Out, count, t.clone(), Arg::In, rc, rd, t, Arg::Comm(BETWEEN)];
    forms(g, ["Allgatherv", "Iallgatherv", "Allgatherv_init"], true, BETWEEN, &list, |member| {
        let bytes = bytes(kind, a + b * int(member.rank));
        Part { class: bytes, bytes, to: to_all(member, |_| bytes) }
    });
}

pub fn all(g: &mut Generator) {
    let size = Size { b: 0, ..g.scheduled() };
    rooted(g, size);
    everyone(g, size);
    sums(g);
    scattered_sums(g);
    vectors(g);
    g.end_step(BETWEEN);
}
