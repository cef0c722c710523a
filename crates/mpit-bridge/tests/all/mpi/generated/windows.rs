//! Steps of one-sided operations, on windows of all ranks and of all ranks reversed.

use super::generator::*;
use super::language::{Arg, Statement};

struct Target {
    window: usize,
    shift: i64,
    size: Size,
}

impl Target {
    fn random(g: &mut Generator) -> Self {
        let size = g.summable();
        Self { window: g.random.of(&[0, 1]), shift: g.random.between(0, 7), size }
    }

    /// Windows 0 and 1 have the groups of communicators 0 and 1.
    fn rank(&self) -> Arg {
        Arg::After(self.window, self.shift)
    }

    fn arguments(&self, buffer: Arg, more: &[Arg]) -> Vec<Arg> {
        let (count, kind) = (Arg::Elements(self.size.a), Arg::Type(self.size.kind));
        let mut list = vec![buffer, count.clone(), kind.clone(), self.rank(), Arg::Aint(0), count, kind];
        list.extend_from_slice(more);
        list
    }

    fn getting(&self, op: &'static str, more: &[Arg]) -> Vec<Arg> {
        let (count, kind) = (Arg::Elements(self.size.a), Arg::Type(self.size.kind));
        let mut list = vec![Arg::Out, count.clone(), kind.clone(), Arg::In, count.clone(), kind.clone()];
        list.extend([self.rank(), Arg::Aint(0), count, kind, Arg::Name(op), Arg::Window(self.window)]);
        list.extend_from_slice(more);
        list
    }

    fn account(&self, g: &mut Generator, operation: &str, sent: u64, got: u64) {
        for member in g.members(self.window) {
            g.model.call(member.world(), operation, sent.max(got), sent);
            g.model.received(member.world(), operation, sent.max(got), got);
        }
    }

    fn messages(&self, g: &mut Generator, bytes: u64) {
        for member in g.members(self.window) {
            g.model.message(member.world(), member.after(self.shift), bytes);
        }
    }

    /// The target's memory comes to who reads it.
    fn reads(&self, g: &mut Generator, bytes: u64) {
        for member in g.members(self.window) {
            g.model.message(member.after(self.shift), member.world(), bytes);
        }
    }
}

fn timed(g: &mut Generator, name: &'static str, window: usize, before: Vec<Arg>) {
    let mut list = before;
    list.push(Arg::Window(window));
    g.emit(name, false, list);
    g.timed(window, name, 1);
}

fn put(g: &mut Generator, x: &Target) {
    let bytes = x.size.bytes(0);
    g.emit("Put", true, x.arguments(Arg::Out, &[Arg::Window(x.window)]));
    x.account(g, "Put", bytes, 0);
    x.messages(g, bytes);
}

/// Between fences; each operation in an epoch of its own, as they touch the same memory.
fn fences(g: &mut Generator) {
    let x = Target::random(g);
    let bytes = x.size.bytes(0);
    let fence = |g: &mut Generator| timed(g, "Win_fence", x.window, vec![Arg::Int(0)]);
    fence(g);
    put(g, &x);
    fence(g);
    g.emit("Get", true, x.arguments(Arg::In, &[Arg::Window(x.window)]));
    x.account(g, "Get", 0, bytes);
    x.reads(g, bytes);
    fence(g);
    g.emit("Accumulate", true, x.arguments(Arg::Out, &[Arg::Name("MPI_SUM"), Arg::Window(x.window)]));
    x.account(g, "Accumulate", bytes, 0);
    x.messages(g, bytes);
    fence(g);
    for op in ["MPI_SUM", "MPI_NO_OP"] {
        g.emit("Get_accumulate", true, x.getting(op, &[]));
        let sent = if op == "MPI_SUM" { bytes } else { 0 };
        x.account(g, "Get_accumulate", sent, bytes);
        x.reads(g, bytes);
        if op == "MPI_SUM" {
            x.messages(g, bytes);
        }
        fence(g);
    }
    g.end_step(WORLD);
}

fn groups(g: &mut Generator) {
    for test in [false, true] {
        let x = Target::random(g);
        timed(g, "Win_post", x.window, vec![Arg::Group(x.window), Arg::Int(0)]);
        timed(g, "Win_start", x.window, vec![Arg::Group(x.window), Arg::Int(0)]);
        put(g, &x);
        timed(g, "Win_complete", x.window, vec![]);
        if test {
            g.called.insert("Win_test".into());
            g.then(Statement::TestWindow(x.window));
        } else {
            timed(g, "Win_wait", x.window, vec![]);
        }
        g.end_step(WORLD);
    }
}

fn locks(g: &mut Generator) {
    let x = Target::random(g);
    let (window, bytes) = (x.window, x.size.bytes(0));
    timed(g, "Win_lock", window, vec![Arg::Name("MPI_LOCK_SHARED"), x.rank(), Arg::Int(0)]);
    put(g, &x);
    timed(g, "Win_flush_local", window, vec![x.rank()]);
    timed(g, "Win_flush", window, vec![x.rank()]);
    timed(g, "Win_unlock", window, vec![x.rank()]);
    g.barrier(WORLD);

    timed(g, "Win_lock_all", window, vec![Arg::Int(0)]);
    let win = Arg::Window(window);
    let sum = Arg::Name("MPI_SUM");
    g.emit("Rput", true, x.arguments(Arg::Out, &[win.clone(), Arg::Request(0)]));
    x.account(g, "Rput", bytes, 0);
    g.complete(window, 1);
    timed(g, "Win_flush_all", window, vec![]);
    g.emit("Rget", true, x.arguments(Arg::In, &[win.clone(), Arg::Request(0)]));
    x.account(g, "Rget", 0, bytes);
    g.complete(window, 1);
    g.emit("Raccumulate", true, x.arguments(Arg::Out, &[sum.clone(), win.clone(), Arg::Request(0)]));
    x.account(g, "Raccumulate", bytes, 0);
    g.emit("Rget_accumulate", true, x.getting("MPI_SUM", &[Arg::Request(1)]));
    x.account(g, "Rget_accumulate", bytes, bytes);
    g.complete(window, 2);
    let element = TYPE_BYTES[x.size.kind];
    let kind = Arg::Type(x.size.kind);
    g.emit("Fetch_and_op", false, vec![Arg::Out, Arg::In, kind, x.rank(), Arg::Aint(0), sum, win.clone()]);
    x.account(g, "Fetch_and_op", element, element);
    timed(g, "Win_flush_local_all", window, vec![]);
    g.emit(
        "Compare_and_swap",
        false,
        vec![Arg::Out, Arg::Out, Arg::In, Arg::Type(1), x.rank(), Arg::Aint(0), win],
    );
    x.account(g, "Compare_and_swap", TYPE_BYTES[1], TYPE_BYTES[1]);
    for sent in [bytes, bytes, bytes, element, TYPE_BYTES[1]] {
        x.messages(g, sent);
    }
    for read in [bytes, bytes, element, TYPE_BYTES[1]] {
        x.reads(g, read);
    }
    timed(g, "Win_sync", window, vec![]);
    timed(g, "Win_unlock_all", window, vec![]);
    g.barrier(WORLD);
    g.end_step(WORLD);
}

pub fn all(g: &mut Generator) {
    fences(g);
    groups(g);
    locks(g);
}
