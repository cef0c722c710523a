//! The generator: random steps, written as statements and reckoned in the model at once.

use super::language::{Arg, Language, Statement};
use super::model::Model;
use super::program::Library;
use std::collections::BTreeSet;

/// Elements of any one block; buffers hold as many of each datatype for 8 ranks.
pub const BLOCK: i64 = 300;
/// Communicators of the program: all ranks; reversed; odd and even ranks, reversed; all but the last rank; a line
/// with neighbours; a graph with edges to the next two ranks; a ring as a graph; between even and odd ranks, each group
/// reversed, if there is more than one.
pub const WORLD: usize = 0;
pub const PLAIN: [usize; 4] = [0, 1, 2, 3];
pub const OWN_HALF: usize = 2;
pub const LINE: usize = 4;
pub const GRAPH: usize = 5;
pub const RING: usize = 6;
pub const BETWEEN: usize = 7;
/// Datatypes: byte, integer, double, 3 x 2 integers out of 5, 7 bytes. Sums are made of the second and third.
pub const TYPE_BYTES: [u64; 5] = [1, 4, 8, 24, 7];

/// Numbers that repeat with the seed (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.next() % u64::try_from(high - low + 1).unwrap()).unwrap()
    }

    pub fn chance(&mut self) -> bool {
        self.between(0, 1) == 1
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.between(0, i64::try_from(list.len()).unwrap() - 1)).unwrap()]
    }
}

/// A size that depends on the rank: `a + b * rank` elements of a datatype.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub kind: usize,
    pub a: i64,
    pub b: i64,
}

impl Size {
    pub fn bytes(self, rank: usize) -> u64 {
        bytes(self.kind, self.a + self.b * int(rank))
    }

    pub fn count(self, comm: usize) -> Arg {
        if self.b == 0 { Arg::Elements(self.a) } else { Arg::Affine(comm, self.a, self.b) }
    }
}

pub fn bytes(kind: usize, count: i64) -> u64 {
    TYPE_BYTES[kind] * u64::try_from(count).unwrap()
}

pub fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap()
}

/// One member of a communicator: its group's world ranks, and its place among them; of an intercommunicator also the
/// other group's.
#[derive(Clone, Debug)]
pub struct Member {
    pub group: Vec<usize>,
    pub rank: usize,
    pub remote: Option<Vec<usize>>,
}

impl Member {
    pub fn world(&self) -> usize {
        self.group[self.rank]
    }

    pub fn size(&self) -> usize {
        self.group.len()
    }

    /// World ranks of those that it can send to.
    pub fn partners(&self) -> &[usize] {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// World rank of the member so many places after it (or before).
    pub fn after(&self, shift: i64) -> usize {
        self.group[self.place(shift)]
    }

    pub fn place(&self, shift: i64) -> usize {
        let size = int(self.size());
        usize::try_from((int(self.rank) + shift).rem_euclid(size)).unwrap()
    }
}

pub struct Generator {
    pub random: Random,
    pub model: Model,
    /// What only the first thread of each rank does.
    pub once: Model,
    pub ranks: usize,
    pub library: Library,
    pub language: Language,
    /// Large-count forms are called.
    pub large: bool,
    /// Datatypes to be used.
    pub kinds: &'static [usize],
    /// Functions called, as written, with `_c` where in the large-count form.
    pub called: BTreeSet<String>,
    /// Functions that are not, as the library fails in them.
    pub left_out: BTreeSet<String>,
    pub body: Vec<Statement>,
    pub(super) step: Vec<Statement>,
}

impl Generator {
    pub fn new(seed: u64, ranks: usize, language: Language, library: Library) -> Self {
        Self {
            random: Random::new(seed),
            model: Model::new(ranks),
            once: Model::new(ranks),
            ranks,
            library,
            language,
            large: library.large && [Language::C, Language::Fortran2008].contains(&language),
            kinds: &[0, 1, 2, 3, 4],
            called: BTreeSet::new(),
            left_out: BTreeSet::new(),
            body: Vec::new(),
            step: Vec::new(),
        }
    }

    /// The members of a communicator, in the order of world ranks.
    pub fn members(&self, comm: usize) -> Vec<Member> {
        let all: Vec<usize> = (0..self.ranks).collect();
        let reversed: Vec<usize> = (0..self.ranks).rev().collect();
        let halves: [Vec<usize>; 2] =
            [0, 1].map(|odd| reversed.iter().copied().filter(|rank| rank % 2 == odd).collect());
        if comm == BETWEEN {
            let [even, odd] = &halves;
            let of_group = |group: &Vec<usize>, remote: &Vec<usize>| {
                let member = |rank| Member { group: group.clone(), rank, remote: Some(remote.clone()) };
                (0..if remote.is_empty() { 0 } else { group.len() }).map(member).collect::<Vec<_>>()
            };
            return [of_group(even, odd), of_group(odd, even)].concat();
        }
        let groups: Vec<Vec<usize>> = match comm {
            1 => vec![reversed],
            2 => halves.to_vec(),
            3 if self.ranks > 1 => vec![all[..self.ranks - 1].to_vec()],
            _ => vec![all],
        };
        let of_group = |group: &Vec<usize>| {
            let member = |rank| Member { group: group.clone(), rank, remote: None };
            (0..group.len()).map(member).collect::<Vec<_>>()
        };
        groups.iter().flat_map(of_group).collect()
    }

    /// Ranks within the communicator that a member's neighbourhood collectives send to, in their order.
    pub fn neighbours(&self, comm: usize, member: &Member) -> Vec<usize> {
        match comm {
            LINE => {
                let below = member.rank.checked_sub(1);
                let above = Some(member.rank + 1).filter(|rank| *rank < member.size());
                below.into_iter().chain(above).collect()
            }
            GRAPH => vec![member.place(1), member.place(2)],
            _ => vec![member.place(-1), member.place(1)],
        }
    }

    /// Whether a function with counts has a large-count form in this language. MPI-IO has none in the mpi_f08 of
    /// MPICH 4.0, and in that of 4.2.1 all of them fail ("Internal MPI error").
    pub fn has_large(&self, name: &str) -> bool {
        self.language == Language::C || !name.to_lowercase().starts_with("file_")
    }

    /// Open MPI 5.0's Fortran bindings of immediate collectives with arrays of counts take these for copies of their own,
    /// and free them when the request is complete: the caller's arrays, and the program ends with "invalid pointer".
    pub fn frees_arrays(&mut self, name: &str, arguments: &[Arg]) -> bool {
        let with_arrays = arguments.iter().any(|argument| matches!(argument, Arg::Numbers(_)));
        let bad = with_arrays && self.library.open_mpi_5 && self.language != Language::C;
        if bad {
            self.left_out.insert(name.to_lowercase());
        }
        bad
    }

    /// A function; `counted` ones are called in their large-count form now and then.
    pub fn emit(&mut self, name: &'static str, counted: bool, arguments: Vec<Arg>) {
        let chance = self.random.chance();
        let due = self.called.contains(name) && !self.called.contains(&format!("{name}_c"));
        let large =
            counted && self.large && self.has_large(name) && (due || (chance && self.called.contains(name)));
        self.called.insert(if large { format!("{name}_c") } else { name.to_owned() });
        self.step.push(Statement::Call(name, large, arguments));
    }

    pub fn then(&mut self, statement: Statement) {
        self.step.push(statement);
    }

    /// Steps that are no other thread's: made once, while the others wait.
    pub fn alone(&mut self, steps: impl FnOnce(&mut Self)) {
        let body = std::mem::take(&mut self.body);
        std::mem::swap(&mut self.model, &mut self.once);
        steps(self);
        std::mem::swap(&mut self.model, &mut self.once);
        let inner = std::mem::replace(&mut self.body, body);
        self.body.push(Statement::Alone(inner));
    }

    /// Ends a step that only members of a communicator take.
    pub fn end_step(&mut self, comm: usize) {
        let step = std::mem::take(&mut self.step);
        self.body.push(Statement::If(comm, step));
    }

    pub fn size(&mut self) -> Size {
        let kind = self.random.of(self.kinds);
        Size { kind, a: self.random.between(0, BLOCK - 80), b: self.random.between(0, 10) }
    }

    /// A size of a type for what MPICH makes by schedules: collectives that are not blocking, MPI_Isendrecv. MPICH 4.0
    /// takes hold of a derived type once for each, and lets go of it twice (mended by its commit "mpid/sched: fix
    /// datatype reference counting in isendrecv"), so that it is gone before it is freed.
    pub fn scheduled(&mut self) -> Size {
        let size = self.size();
        if self.library.mpich { Size { kind: self.random.of(&[0, 1, 2]), ..size } } else { size }
    }

    /// A size of a type for MPI_Ialltoallw and its like, and what is made beside them. Open MPI 4.1's Fortran binding
    /// hands over an array of types that it frees at once, in which derived ones are looked for at completion.
    pub fn listed(&mut self) -> Size {
        let size = self.scheduled();
        let bad = self.language != Language::C && !self.library.mpich;
        if bad { Size { kind: self.random.of(&[0, 1, 2]), ..size } } else { size }
    }

    /// A size of a type without holes.
    pub fn whole(&mut self) -> Size {
        Size { kind: self.random.of(&[0, 1, 2, 4]), ..self.size() }
    }

    /// A size of a type that sums are made of.
    pub fn summable(&mut self) -> Size {
        Size { kind: self.random.of(&[1, 2]), a: self.random.between(0, BLOCK), b: 0 }
    }

    pub fn plain_comm(&mut self) -> usize {
        self.random.of(&PLAIN)
    }

    pub fn status(&mut self, index: usize) -> Arg {
        if self.random.chance() || self.library.mpich {
            Arg::Name("MPI_STATUS_IGNORE")
        } else {
            Arg::Status(index)
        }
    }

    fn statuses(&mut self) -> Arg {
        if self.random.chance() || self.library.mpich {
            Arg::Name("MPI_STATUSES_IGNORE")
        } else {
            Arg::Statuses
        }
    }

    /// A call of each member that hands over nothing.
    pub fn timed(&mut self, comm: usize, operation: &str, calls: u64) {
        for member in self.members(comm) {
            self.model.timed(member.world(), operation, calls);
        }
    }

    /// Completes the request of MPI-IO, the first. MPICH 4.0's MPI_Request_get_status never polls such a request
    /// (MPIR_Request_get_status_impl knows nothing of poll functions), so that it is never found to be ready: there
    /// only functions complete it that wait.
    pub fn complete_file(&mut self) {
        if self.library.mpich {
            let way = self.random.of(&["Wait", "Waitall", "Waitany", "Waitsome"]);
            self.complete_unready(WORLD, 1, way);
        } else {
            self.complete(WORLD, 1);
        }
    }

    /// Completes persistent requests that were started. MPICH, 4.2 to 5.0, takes MPI_Request_get_status of one that is
    /// ready for its completion: it is inactive afterwards, and no function completes it any more. So nobody queries there,
    /// and it is completed by what waits for all that it is given.
    pub fn complete_persistent(&mut self, comm: usize, count: usize) {
        if self.library.mpich && !self.library.mpich_4_0 {
            let way = self.random.of(&["Wait", "Waitall", "Waitany"]);
            self.complete_unready(comm, count, way);
        } else {
            self.complete(comm, count);
        }
    }

    /// Completes the first `count` requests by a random function. They are ready before, so that each function
    /// is called a known number of times.
    pub fn complete(&mut self, comm: usize, count: usize) {
        let way = self
            .random
            .of(&["Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome"]);
        let way = if way == "Testall" && self.library.mpich { "Waitall" } else { way };
        self.complete_by(comm, count, way);
    }

    pub fn complete_by(&mut self, comm: usize, count: usize, way: &'static str) {
        self.then(Statement::Ready(count));
        self.complete_unready(comm, count, way);
    }

    fn complete_unready(&mut self, comm: usize, count: usize, way: &'static str) {
        let number = Arg::Int(int(count));
        let one_by_one = matches!(way, "Wait" | "Waitany" | "Test" | "Testany");
        for index in 0..if one_by_one { count } else { 1 } {
            let status = self.status(index);
            let statuses = self.statuses();
            let arguments = match way {
                "Wait" => vec![Arg::Request(index), status],
                "Test" => vec![Arg::Request(index), Arg::Set("flag"), status],
                "Waitall" => vec![number.clone(), Arg::Requests, statuses],
                "Testall" => vec![number.clone(), Arg::Requests, Arg::Set("flag"), statuses],
                "Waitany" => vec![number.clone(), Arg::Requests, Arg::Set("which"), status],
                "Testany" => vec![number.clone(), Arg::Requests, Arg::Set("which"), Arg::Set("flag"), status],
                _ => vec![number.clone(), Arg::Requests, Arg::Set("done"), Arg::Name("indices"), statuses],
            };
            self.emit(way, false, arguments);
            match way {
                "Test" | "Testall" | "Testany" => self.then(Statement::Expect("flag", 1)),
                "Waitsome" | "Testsome" => self.then(Statement::Expect("done", int(count))),
                _ => {}
            }
        }
        self.timed(comm, way, if one_by_one { count as u64 } else { 1 });
    }

    /// Starts so many persistent requests, together or one by one.
    pub fn start(&mut self, count: usize) {
        let chance = self.random.chance();
        if !self.called.contains("Startall") || (chance && self.called.contains("Start")) {
            self.emit("Startall", false, vec![Arg::Int(int(count)), Arg::Requests]);
        } else {
            for index in 0..count {
                self.emit("Start", false, vec![Arg::Request(index)]);
            }
        }
    }

    pub fn free(&mut self, comm: usize, count: usize) {
        for index in 0..count {
            self.emit("Request_free", false, vec![Arg::Request(index)]);
        }
        self.timed(comm, "Request_free", count as u64);
    }

    pub fn barrier(&mut self, comm: usize) {
        self.emit("Barrier", false, vec![Arg::Comm(comm)]);
        for member in self.members(comm) {
            self.model.timed(member.world(), "Barrier", 1);
            for peer in (0..member.size()).filter(|peer| *peer != member.rank) {
                self.model.message(member.world(), member.group[peer], 0);
            }
        }
    }
}
