//! Steps of point-to-point operations: each member sends to the member some places after it.

use super::generator::*;
use super::language::{Arg, Language, Statement};

const TAG: i64 = 5;
const UNUSED_TAG: i64 = 77;
/// Partitions of a partitioned message: one, a range of two, a list of two.
const PARTITIONS: i64 = 5;

/// What one exchange is made of.
#[derive(Clone, Copy)]
struct Exchange {
    comm: usize,
    shift: i64,
    size: Size,
}

impl Exchange {
    fn random(g: &mut Generator) -> Self {
        Self { comm: g.plain_comm(), shift: g.random.between(0, 7), size: g.size() }
    }

    /// With a type without holes: MPICH 4.0 crashes in some operations with others, also without the shim.
    fn whole(g: &mut Generator) -> Self {
        Self { size: g.whole(), ..Self::random(g) }
    }

    fn send(&self) -> Vec<Arg> {
        let to = Arg::After(self.comm, self.shift);
        vec![
            Arg::Out,
            self.size.count(self.comm),
            Arg::Type(self.size.kind),
            to,
            Arg::Int(TAG),
            Arg::Comm(self.comm),
        ]
    }

    /// From whom; written so that it is not negative for up to 8 ranks.
    fn source(&self) -> Arg {
        Arg::After(self.comm, 840 - self.shift)
    }

    fn receive(&self) -> Vec<Arg> {
        let (count, kind) = (Arg::Elements(BLOCK), Arg::Type(self.size.kind));
        vec![Arg::In, count, kind, self.source(), Arg::Int(TAG), Arg::Comm(self.comm)]
    }

    fn with(mut list: Vec<Arg>, more: Arg) -> Vec<Arg> {
        list.push(more);
        list
    }

    fn sent(&self, g: &mut Generator, operation: &str) {
        for member in g.members(self.comm) {
            let bytes = self.size.bytes(member.rank);
            g.model.call(member.world(), operation, bytes, bytes);
            g.model.message(member.world(), member.after(self.shift), bytes);
        }
    }

    /// A call in the class of the buffer, and what came.
    fn got(&self, g: &mut Generator, operation: &str, offered: i64) {
        for member in g.members(self.comm) {
            let offered = bytes(self.size.kind, offered);
            let from = member.place(840 - self.shift);
            g.model.call(member.world(), operation, offered, 0);
            g.model.received(member.world(), operation, offered, self.size.bytes(from));
        }
    }

    fn irecv(&self, g: &mut Generator, request: usize) {
        g.emit("Irecv", true, Self::with(self.receive(), Arg::Request(request)));
        self.got(g, "irecv", BLOCK);
    }

    fn isend(&self, g: &mut Generator, request: usize) {
        g.emit("Isend", true, Self::with(self.send(), Arg::Request(request)));
        self.sent(g, "isend");
    }
}

fn sends(g: &mut Generator) {
    for (name, ready) in [("Send", false), ("Bsend", false), ("Ssend", false), ("Rsend", true)] {
        let x = Exchange::random(g);
        x.irecv(g, 0);
        if ready {
            g.barrier(x.comm);
        }
        g.emit(name, true, x.send());
        x.sent(g, name);
        g.complete(x.comm, 1);
        g.end_step(x.comm);
    }
    for (name, ready) in [("Isend", false), ("Ibsend", false), ("Issend", false), ("Irsend", true)] {
        let x = Exchange::random(g);
        x.irecv(g, 0);
        if ready {
            g.barrier(x.comm);
        }
        g.emit(name, true, Exchange::with(x.send(), Arg::Request(1)));
        x.sent(g, name);
        g.complete(x.comm, 2);
        g.end_step(x.comm);
    }
}

fn receives(g: &mut Generator) {
    let x = Exchange::random(g);
    x.isend(g, 0);
    let status = g.status(0);
    g.emit("Recv", true, Exchange::with(x.receive(), status));
    x.got(g, "recv", BLOCK);
    g.complete(x.comm, 1);
    g.end_step(x.comm);

    let x = Exchange::random(g);
    let place = || vec![x.source(), Arg::Int(TAG), Arg::Comm(x.comm)];
    let kind = Arg::Type(x.size.kind);
    x.isend(g, 0);
    let mut probe = place();
    let status = g.status(0);
    probe.extend([Arg::Set("message"), status]);
    g.emit("Mprobe", false, probe);
    g.timed(x.comm, "Mprobe", 1);
    let status = g.status(0);
    g.emit("Mrecv", true, vec![Arg::In, Arg::Elements(BLOCK), kind.clone(), Arg::Set("message"), status]);
    x.got(g, "mrecv", BLOCK);
    g.complete(x.comm, 1);
    g.end_step(x.comm);

    x.isend(g, 0);
    let status = g.status(0);
    g.emit("Probe", false, Exchange::with(place(), status));
    g.timed(x.comm, "Probe", 1);
    let status = g.status(0);
    let mut probe = Exchange::with(place(), Arg::Set("flag"));
    probe.push(status);
    g.emit("Iprobe", false, probe);
    g.timed(x.comm, "Iprobe", 1);
    let mut probe = place();
    let status = g.status(0);
    probe.extend([Arg::Set("flag"), Arg::Set("message"), status]);
    g.emit("Improbe", false, probe);
    g.then(Statement::Expect("flag", 1));
    g.timed(x.comm, "Improbe", 1);
    g.emit("Imrecv", true, vec![Arg::In, Arg::Elements(BLOCK), kind, Arg::Set("message"), Arg::Request(1)]);
    x.got(g, "imrecv", BLOCK);
    g.complete(x.comm, 2);
    g.end_step(x.comm);
}

/// In the first round these come first of all: in MPICH 4.0 a request that served another operation before may
/// hold garbage for an error, which MPI_Sendrecv_replace returns, also without the shim.
pub fn first(g: &mut Generator) {
    both_ways(g, &["Sendrecv_replace", "Sendrecv_replace"]);
}

fn both_ways(g: &mut Generator, names: &[&'static str]) {
    for name in names {
        let replace = name.ends_with("replace");
        let mut x = if replace { Exchange::whole(g) } else { Exchange::random(g) };
        if name.starts_with('I') {
            x.size = g.scheduled();
        }
        if replace {
            x.size.b = 0;
        }
        let comm = Arg::Comm(x.comm);
        let (kind, tag) = (Arg::Type(x.size.kind), Arg::Int(TAG));
        let (to, from) = (Arg::After(x.comm, x.shift), x.source());
        let mut arguments = if replace {
            vec![Arg::In, x.size.count(x.comm), kind, to, tag.clone(), from, tag, comm]
        } else {
            let mut list = vec![Arg::Out, x.size.count(x.comm), kind.clone(), to, tag.clone()];
            list.extend([Arg::In, Arg::Elements(BLOCK), kind, from, tag, comm]);
            list
        };
        let immediate = name.starts_with('I');
        arguments.push(if immediate { Arg::Request(0) } else { g.status(0) });
        g.emit(name, true, arguments);
        for member in g.members(x.comm) {
            let bytes = x.size.bytes(member.rank);
            g.model.call(member.world(), name, bytes, bytes);
            g.model.message(member.world(), member.after(x.shift), bytes);
            // MPICH never writes the statuses of the immediate ones.
            if !(name.starts_with('I') && g.library.mpich) {
                g.model.received(member.world(), name, bytes, x.size.bytes(member.place(840 - x.shift)));
            }
        }
        if immediate {
            g.complete(x.comm, 1);
        }
        g.end_step(x.comm);
    }
}

fn persistent(g: &mut Generator) {
    for name in ["Send_init", "Bsend_init", "Ssend_init", "Rsend_init"] {
        let x = Exchange::whole(g);
        g.emit("Recv_init", true, Exchange::with(x.receive(), Arg::Request(0)));
        g.emit(name, true, Exchange::with(x.send(), Arg::Request(1)));
        // MPICH 4.0 reads garbage for the size of one of these when it is started, also without the shim.
        let starts = if g.library.mpich && name == "Bsend_init" { 0 } else { g.random.between(1, 4) };
        for _ in 0..starts {
            if name == "Rsend_init" {
                g.emit("Start", false, vec![Arg::Request(0)]);
                g.barrier(x.comm);
                g.emit("Start", false, vec![Arg::Request(1)]);
            } else {
                g.start(2);
            }
            x.got(g, "recv_init", BLOCK);
            x.sent(g, name);
            g.complete_persistent(x.comm, 2);
        }
        g.free(x.comm, 2);
        g.end_step(x.comm);
    }
}

fn partitioned(g: &mut Generator) {
    let mut x = Exchange::whole(g);
    x.size = Size { a: g.random.between(1, 40), b: 0, ..x.size };
    let part = |buffer, other| {
        let sizes = [Arg::Int(PARTITIONS), Arg::Count(x.size.a), Arg::Type(x.size.kind)];
        let mut list = vec![buffer];
        list.extend(sizes);
        list.extend([other, Arg::Int(TAG), Arg::Comm(x.comm), Arg::Name("MPI_INFO_NULL")]);
        list
    };
    g.emit("Psend_init", false, Exchange::with(part(Arg::Out, Arg::After(x.comm, x.shift)), Arg::Request(0)));
    g.emit("Precv_init", false, Exchange::with(part(Arg::In, x.source()), Arg::Request(1)));
    let whole = Exchange { size: Size { a: PARTITIONS * x.size.a, ..x.size }, ..x };
    for _ in 0..2 {
        g.start(2);
        g.emit("Pready", false, vec![Arg::Int(0), Arg::RequestValue(0)]);
        g.emit("Pready_range", false, vec![Arg::Int(1), Arg::Int(2), Arg::RequestValue(0)]);
        g.then(Statement::Fill("parts", x.comm, Some(2), [3, 0, 1]));
        g.emit("Pready_list", false, vec![Arg::Int(2), Arg::Name("parts"), Arg::RequestValue(0)]);
        g.emit("Parrived", false, vec![Arg::RequestValue(1), Arg::Int(0), Arg::Set("arrived")]);
        for name in ["Pready", "Pready_range", "Pready_list", "Parrived"] {
            g.timed(x.comm, name, 1);
        }
        g.complete_persistent(x.comm, 2);
        whole.sent(g, "psend_init");
        whole.got(g, "precv_init", whole.size.a);
    }
    g.free(x.comm, 2);
    g.end_step(x.comm);
}

/// Nobody as partner; a receive that is given up; a request that is let go.
fn oddities(g: &mut Generator) {
    let x = Exchange::random(g);
    let nobody = |mut list: Vec<Arg>| {
        list[3] = Arg::Name("MPI_PROC_NULL");
        list
    };
    g.emit("Send", true, nobody(x.send()));
    g.timed(x.comm, "Send", 1);
    let status = g.status(0);
    g.emit("Recv", true, Exchange::with(nobody(x.receive()), status));
    let mut given_up = x.receive();
    given_up[4] = Arg::Int(UNUSED_TAG);
    g.emit("Irecv", true, Exchange::with(given_up, Arg::Request(0)));
    g.emit("Cancel", false, vec![Arg::Request(0)]);
    g.timed(x.comm, "Cancel", 1);
    g.complete(x.comm, 1);
    for member in g.members(x.comm) {
        g.model.call(member.world(), "recv", bytes(x.size.kind, BLOCK), 0);
        g.model.call(member.world(), "irecv", bytes(x.size.kind, BLOCK), 0);
    }
    g.end_step(x.comm);

    x.irecv(g, 1);
    x.isend(g, 0);
    g.free(x.comm, 1);
    g.emit("Wait", false, vec![Arg::Request(1), Arg::Name("MPI_STATUS_IGNORE")]);
    g.timed(x.comm, "Wait", 1);
    g.end_step(x.comm);
}

/// A request of the program's own among others: its completion is a call, and nothing has come. In C alone, whose
/// functions need no interfaces.
fn generalized(g: &mut Generator) {
    let x = Exchange::random(g);
    x.irecv(g, 0);
    let functions = ["query", "let_go", "give_up", "NULL"].map(Arg::Name);
    g.emit("Grequest_start", false, Exchange::with(functions.to_vec(), Arg::Request(1)));
    x.isend(g, 2);
    g.emit("Grequest_complete", false, vec![Arg::RequestValue(1)]);
    g.complete(x.comm, 3);
    g.end_step(x.comm);
}

pub fn all(g: &mut Generator) {
    sends(g);
    receives(g);
    both_ways(
        g,
        if g.library.newest { &["Sendrecv", "Isendrecv", "Isendrecv_replace"] } else { &["Sendrecv"] },
    );
    persistent(g);
    oddities(g);
    if g.language == Language::C {
        generalized(g);
    }
    if g.library.newest {
        partitioned(g);
    }
}

/// Each way of completing, once at least.
pub fn completions(g: &mut Generator) {
    for way in ["Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome"] {
        let x = Exchange::random(g);
        let sends_only = way == "Testall" && g.library.mpich;
        for pair in 0..3 {
            if sends_only {
                x.isend(g, pair);
                g.emit("Recv", true, Exchange::with(x.receive(), Arg::Name("MPI_STATUS_IGNORE")));
                x.got(g, "recv", BLOCK);
            } else {
                x.irecv(g, 2 * pair);
                x.isend(g, 2 * pair + 1);
            }
        }
        g.complete_by(x.comm, if sends_only { 3 } else { 6 }, way);
        g.end_step(x.comm);
    }
}
