//! Steps of collective operations, in their blocking, immediate and persistent forms.

use super::generator::*;
use super::language::{Arg, Language, Statement};

/// What a member's call counts as: size class, bytes handed over, and bytes to each rank of the communicator, of the
/// other group where there are two.
pub struct Part {
    pub class: u64,
    pub bytes: u64,
    pub to: Vec<(usize, u64)>,
}

/// In place of a rank: a message whose receiver its sender can't know.
pub const NOBODY_KNOWS: usize = usize::MAX;

/// Names of the three forms.
pub type Forms = [&'static str; 3];

/// Makes the three forms, the persistent one started some times; `part` says what each member's call counts as.
pub fn forms(
    g: &mut Generator,
    names: Forms,
    counted: bool,
    comm: usize,
    arguments: &[Arg],
    part: impl Fn(&Member) -> Part,
) {
    let account = |g: &mut Generator, name: &str| {
        for member in g.members(comm) {
            let part = part(&member);
            g.model.call(member.world(), name, part.class, part.bytes);
            for (to, bytes) in part.to {
                match member.partners().get(to) {
                    Some(receiver) => g.model.message(member.world(), *receiver, bytes),
                    None => g.model.unknown += 1,
                }
            }
        }
    };
    let [blocking, immediate, persistent] = names;
    g.emit(blocking, counted, arguments.to_vec());
    account(g, blocking);
    if !g.frees_arrays(immediate, arguments) {
        let mut list = arguments.to_vec();
        list.push(Arg::Request(0));
        g.emit(immediate, counted, list);
        account(g, immediate);
        g.complete(comm, 1);
    }
    if g.library.newest {
        let mut list = arguments.to_vec();
        list.extend([Arg::Name("MPI_INFO_NULL"), Arg::Request(0)]);
        g.emit(persistent, counted, list);
        // MPICH 4.0's schedule of a scatter counts down in its own numbers what is left to send, and begins there when
        // it is started again: with 3 ranks or more it fails.
        let starts = if g.library.mpich && persistent == "Scatter_init" { 1 } else { g.random.between(1, 3) };
        for _ in 0..starts {
            g.start(1);
            account(g, persistent);
            g.complete_persistent(comm, 1);
        }
        g.free(comm, 1);
    }
}

fn others(member: &Member, bytes: impl Fn(usize) -> u64) -> Vec<(usize, u64)> {
    (0..member.size()).filter(|rank| *rank != member.rank).map(|rank| (rank, bytes(rank))).collect()
}

/// The root's rank in each communicator that has more than one member anywhere; 0 is in all of them.
const ROOT: usize = 0;

fn sums(g: &mut Generator) {
    let one = |bytes, to| Part { class: bytes, bytes, to };
    let tables: [(Forms, u8); 5] = [
        (["Allreduce", "Iallreduce", "Allreduce_init"], 0),
        (["Scan", "Iscan", "Scan_init"], 1),
        (["Exscan", "Iexscan", "Exscan_init"], 1),
        (["Reduce", "Ireduce", "Reduce_init"], 2),
        (["Reduce_scatter_block", "Ireduce_scatter_block", "Reduce_scatter_block_init"], 3),
    ];
    for (names, kind) in tables {
        let (comm, size) = (g.plain_comm(), g.summable());
        let in_place = kind == 0 && g.random.chance();
        let from = if in_place { Arg::InPlace } else { Arg::Out };
        let mut list = vec![from, Arg::In, Arg::Elements(size.a), Arg::Type(size.kind), Arg::Name("MPI_SUM")];
        if kind == 2 {
            list.push(Arg::Int(int(ROOT)));
        }
        list.push(Arg::Comm(comm));
        let bytes = size.bytes(0);
        forms(g, names, true, comm, &list, |member| match kind {
            0 => one(bytes, others(member, |_| bytes)),
            1 => one(bytes, (member.rank + 1..member.size()).map(|rank| (rank, bytes)).collect()),
            2 => one(bytes, if member.rank == ROOT { vec![] } else { vec![(ROOT, bytes)] }),
            _ => Part { class: bytes, bytes: bytes * member.size() as u64, to: others(member, |_| bytes) },
        });
        g.end_step(comm);
    }
    let (comm, size, step) = (g.plain_comm(), g.summable(), g.random.between(0, 20));
    g.then(Statement::Fill("rc", comm, None, [size.a.min(BLOCK - 160), 0, step]));
    let list =
        [Arg::Out, Arg::In, Arg::Numbers("rc"), Arg::Type(size.kind), Arg::Name("MPI_SUM"), Arg::Comm(comm)];
    let block = |rank: usize| bytes(size.kind, size.a.min(BLOCK - 160) + step * int(rank));
    forms(g, ["Reduce_scatter", "Ireduce_scatter", "Reduce_scatter_init"], true, comm, &list, |member| {
        let total: u64 = (0..member.size()).map(block).sum();
        Part { class: total / member.size() as u64, bytes: total, to: others(member, block) }
    });
    g.end_step(comm);
}

/// Operations whose blocks are all alike.
fn blocks(g: &mut Generator) {
    let comm = g.plain_comm();
    forms(g, ["Barrier", "Ibarrier", "Barrier_init"], false, comm, &[Arg::Comm(comm)], |member| Part {
        class: 0,
        bytes: 0,
        to: others(member, |_| 0),
    });
    g.end_step(comm);

    let (comm, size) = (g.plain_comm(), Size { b: 0, ..g.scheduled() });
    let bytes = size.bytes(0);
    let (count, kind, root) = (Arg::Elements(size.a), Arg::Type(size.kind), Arg::Int(int(ROOT)));
    let list = [Arg::In, count.clone(), kind.clone(), root.clone(), Arg::Comm(comm)];
    forms(g, ["Bcast", "Ibcast", "Bcast_init"], true, comm, &list, |member| {
        let sends = member.rank == ROOT;
        Part {
            class: bytes,
            bytes: if sends { bytes } else { 0 },
            to: if sends { others(member, |_| bytes) } else { vec![] },
        }
    });
    let block = [count.clone(), kind.clone()];
    let both = |from: Arg| {
        let mut list = vec![from];
        list.extend(block.clone());
        list.push(Arg::In);
        list.extend(block.clone());
        list
    };
    let mut rooted = both(Arg::Out);
    rooted.extend([root, Arg::Comm(comm)]);
    forms(g, ["Gather", "Igather", "Gather_init"], true, comm, &rooted, |member| Part {
        class: bytes,
        bytes,
        to: if member.rank == ROOT { vec![] } else { vec![(ROOT, bytes)] },
    });
    forms(g, ["Scatter", "Iscatter", "Scatter_init"], true, comm, &rooted, |member| {
        let sends = member.rank == ROOT;
        Part {
            class: bytes,
            bytes: if sends { bytes * member.size() as u64 } else { 0 },
            to: if sends { others(member, |_| bytes) } else { vec![] },
        }
    });
    let mut all = both(if g.random.chance() { Arg::InPlace } else { Arg::Out });
    all.push(Arg::Comm(comm));
    forms(g, ["Allgather", "Iallgather", "Allgather_init"], true, comm, &all, |member| Part {
        class: bytes,
        bytes,
        to: others(member, |_| bytes),
    });
    let mut all = both(Arg::Out);
    all.push(Arg::Comm(comm));
    forms(g, ["Alltoall", "Ialltoall", "Alltoall_init"], true, comm, &all, |member| Part {
        class: bytes,
        bytes: bytes * member.size() as u64,
        to: others(member, |_| bytes),
    });
    g.end_step(comm);
}

/// Operations with a block of its own size for each member: `a + b * sender + c * receiver` elements.
fn vectors(g: &mut Generator) {
    let (comm, kind) = (g.plain_comm(), g.listed().kind);
    let [a, b, c] = [g.random.between(0, BLOCK - 160), g.random.between(0, 10), g.random.between(0, 10)];
    let block = move |from: usize, to: usize| bytes(kind, a + b * int(from) + c * int(to));
    // What each sends to all, what it gets from all; gathers and scatters use the same with c or b being 0.
    let fill = |g: &mut Generator, b: i64, c: i64| {
        g.then(Statement::Fill("sc", comm, None, [a, b, c]));
        g.then(Statement::Fill("rc", comm, None, [a, c, b]));
        g.then(Statement::Fill("sd", comm, None, [0, 0, BLOCK]));
        g.then(Statement::Fill("rd", comm, None, [0, 0, BLOCK]));
    };
    let [sc, sd, rc, rd] = ["sc", "sd", "rc", "rd"].map(Arg::Numbers);
    let (t, root) = (Arg::Type(kind), Arg::Int(int(ROOT)));

    fill(g, b, c);
    let list = [
        Arg::Out,
        sc.clone(),
        sd.clone(),
        t.clone(),
        Arg::In,
        rc.clone(),
        rd.clone(),
        t.clone(),
        Arg::Comm(comm),
    ];
    let everyone = move |member: &Member| {
        let total: u64 = (0..member.size()).map(|to| block(member.rank, to)).sum();
        Part {
            class: total / member.size() as u64,
            bytes: total,
            to: others(member, |to| block(member.rank, to)),
        }
    };
    forms(g, ["Alltoallv", "Ialltoallv", "Alltoallv_init"], true, comm, &list, everyone);
    // Displacements of this one are bytes; none has more than 48 of them.
    g.then(Statement::Fill("sd", comm, None, [0, 0, 48 * BLOCK]));
    g.then(Statement::Fill("rd", comm, None, [0, 0, 48 * BLOCK]));
    let list = [
        Arg::Out,
        sc.clone(),
        sd.clone(),
        Arg::Name("many"),
        Arg::In,
        rc.clone(),
        rd.clone(),
        Arg::Name("many"),
        Arg::Comm(comm),
    ];
    g.then(Statement::Types(kind));
    forms(g, ["Alltoallw", "Ialltoallw", "Alltoallw_init"], true, comm, &list, everyone);

    let own = move |member: &Member| bytes(kind, a + b * int(member.rank));
    let count = Arg::Affine(comm, a, b);
    fill(g, b, 0);
    let list =
        [Arg::Out, count.clone(), t.clone(), Arg::In, rc.clone(), rd.clone(), t.clone(), Arg::Comm(comm)];
    forms(g, ["Allgatherv", "Iallgatherv", "Allgatherv_init"], true, comm, &list, |member| {
        let bytes = own(member);
        Part { class: bytes, bytes, to: others(member, |_| bytes) }
    });
    let list =
        [Arg::Out, count.clone(), t.clone(), Arg::In, rc, rd, t.clone(), root.clone(), Arg::Comm(comm)];
    forms(g, ["Gatherv", "Igatherv", "Gatherv_init"], true, comm, &list, |member| {
        let bytes = own(member);
        Part { class: bytes, bytes, to: if member.rank == ROOT { vec![] } else { vec![(ROOT, bytes)] } }
    });
    fill(g, 0, b);
    let list = [Arg::Out, sc, sd, t.clone(), Arg::In, count, t, root, Arg::Comm(comm)];
    forms(g, ["Scatterv", "Iscatterv", "Scatterv_init"], true, comm, &list, |member| {
        if member.rank != ROOT {
            return Part { class: own(member), bytes: 0, to: vec![] };
        }
        let of = |to: usize| bytes(kind, a + b * int(to));
        let total: u64 = (0..member.size()).map(of).sum();
        Part { class: total / member.size() as u64, bytes: total, to: others(member, of) }
    });
    g.end_step(comm);
}

fn neighbours(g: &mut Generator, comm: usize) {
    let size = Size { b: 0, ..g.listed() };
    let bytes = size.bytes(0);
    let (count, t) = (Arg::Elements(size.a), Arg::Type(size.kind));
    let lists: Vec<Vec<usize>> = g.members(comm).iter().map(|member| g.neighbours(comm, member)).collect();
    let to = |member: &Member| lists[member.rank].iter().map(|rank| (*rank, bytes)).collect::<Vec<_>>();
    let gathered = |member: &Member| Part { class: bytes, bytes, to: to(member) };
    let spread = |member: &Member| {
        let there = lists[member.rank].len() as u64;
        Part { class: bytes, bytes: bytes * there, to: to(member) }
    };
    // With no neighbour there is no mean of their blocks.
    let mean = |member: &Member| Part {
        class: if lists[member.rank].is_empty() { 0 } else { bytes },
        ..spread(member)
    };
    let plain = [Arg::Out, count.clone(), t.clone(), Arg::In, count.clone(), t.clone(), Arg::Comm(comm)];
    forms(
        g,
        ["Neighbor_allgather", "Ineighbor_allgather", "Neighbor_allgather_init"],
        true,
        comm,
        &plain,
        gathered,
    );
    forms(
        g,
        ["Neighbor_alltoall", "Ineighbor_alltoall", "Neighbor_alltoall_init"],
        true,
        comm,
        &plain,
        spread,
    );
    for (name, numbers) in
        [("sc", [size.a, 0, 0]), ("rc", [size.a, 0, 0]), ("sd", [0, 0, BLOCK]), ("rd", [0, 0, BLOCK])]
    {
        g.then(Statement::Fill(name, comm, Some(2), numbers));
    }
    let [sc, sd, rc, rd] = ["sc", "sd", "rc", "rd"].map(Arg::Numbers);
    let list = [Arg::Out, count, t.clone(), Arg::In, rc.clone(), rd.clone(), t.clone(), Arg::Comm(comm)];
    forms(
        g,
        ["Neighbor_allgatherv", "Ineighbor_allgatherv", "Neighbor_allgatherv_init"],
        true,
        comm,
        &list,
        gathered,
    );
    let list = [Arg::Out, sc.clone(), sd, t.clone(), Arg::In, rc.clone(), rd, t, Arg::Comm(comm)];
    forms(
        g,
        ["Neighbor_alltoallv", "Ineighbor_alltoallv", "Neighbor_alltoallv_init"],
        true,
        comm,
        &list,
        mean,
    );
    // MPICH 4.0's binding for mpi_f08 queries the neighbours as in a distributed graph, whatever it is. Open MPI's of
    // Fortran hand on as many datatypes as there are ranks; with one rank, its two neighbours are more.
    let queries_wrongly = g.library.mpich && g.language == Language::Fortran2008 && comm != GRAPH;
    let too_few = !g.library.mpich && g.language != Language::C && g.ranks == 1;
    if too_few {
        let names = ["neighbor_alltoallw", "ineighbor_alltoallw", "neighbor_alltoallw_init"];
        g.left_out.extend(names.map(str::to_owned));
    }
    if queries_wrongly || too_few {
        g.end_step(comm);
        return;
    }
    g.then(Statement::Fill("addresses", comm, Some(2), [0, 0, 48 * BLOCK]));
    g.then(Statement::Types(size.kind));
    let (places, many) = (Arg::Name("addresses"), Arg::Name("many"));
    let list = [Arg::Out, sc, places.clone(), many.clone(), Arg::In, rc, places, many, Arg::Comm(comm)];
    forms(
        g,
        ["Neighbor_alltoallw", "Ineighbor_alltoallw", "Neighbor_alltoallw_init"],
        true,
        comm,
        &list,
        mean,
    );
    g.end_step(comm);
}

pub fn all(g: &mut Generator) {
    sums(g);
    blocks(g);
    vectors(g);
    for comm in [LINE, GRAPH, RING] {
        neighbours(g, comm);
    }
}
