//! Statements of the generated program, and how they are written in C and in Fortran.

use super::generator::OWN_HALF;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    /// `include 'mpif.h'`.
    Fortran77,
    /// `use mpi`.
    Fortran90,
    /// `use mpi_f08`.
    Fortran2008,
}

/// An argument of an MPI function.
#[derive(Clone, Debug)]
pub enum Arg {
    /// The buffer that is sent, received into, shared by a window.
    Out,
    In,
    InPlace,
    /// A name that both languages have.
    Name(&'static str),
    /// A variable that the function sets.
    Set(&'static str),
    Int(i64),
    /// A number of elements.
    Elements(i64),
    /// The same: `a + b * own rank` in communicator `comm`.
    Affine(usize, i64, i64),
    /// The root of a collective between two groups: rank 0 of the even ones.
    RootBetween,
    /// So many elements, divided by the size of the own one of the two groups.
    ShareBetween(i64),
    /// Rank of the member so many places after the own one.
    After(usize, i64),
    /// A number of type MPI_Aint, MPI_Offset, MPI_Count.
    Aint(i64),
    /// `a + b * own rank`.
    Offset(i64, i64),
    Count(i64),
    Type(usize),
    /// Array of counts or displacements, which in large-count forms has other elements.
    Numbers(&'static str),
    Comm(usize),
    Window(usize),
    Group(usize),
    File,
    FileSet,
    FileName,
    /// Addresses of requests, their array, one by value.
    Request(usize),
    Requests,
    RequestValue(usize),
    Status(usize),
    Statuses,
}

#[derive(Clone, Debug)]
pub enum Statement {
    /// A function without its `MPI_`; whether in its large-count form.
    Call(&'static str, bool, Vec<Arg>),
    /// `array[i] = a + b * own rank + c * i` for the members i of a communicator, or for so many.
    Fill(&'static str, usize, Option<usize>, [i64; 3]),
    /// The array holds the shares of so many elements for the members of the own one of two groups; the first one's is by
    /// so many smaller, the last one's larger.
    Shares(&'static str, i64, i64),
    /// The array `many` holds this datatype for each member.
    Types(usize),
    /// Waits until this many requests are complete, without completing them.
    Ready(usize),
    /// Ends everything unless the variable is as it is to be.
    Expect(&'static str, i64),
    /// Repeats MPI_Win_test until it says yes, counting calls.
    TestWindow(usize),
    /// Only the first thread of a rank, while the others wait.
    Alone(Vec<Statement>),
    /// Only in members of a communicator.
    If(usize, Vec<Statement>),
}

fn number(value: i64, suffix: &str) -> String {
    format!("{value}_{suffix}")
}

impl Arg {
    fn c(&self, large: bool) -> String {
        match self {
            Self::Out => "x->out".into(),
            Self::In => "x->in".into(),
            Self::InPlace => "MPI_IN_PLACE".into(),
            Self::Name(name) => (*name).into(),
            Self::Set(name) => format!("&{name}"),
            Self::Int(value) | Self::Elements(value) | Self::Aint(value) | Self::Count(value) => {
                value.to_string()
            }
            Self::Offset(a, b) => format!("{a} + {b} * x->rank[0]"),
            Self::Affine(comm, a, b) => format!("({a} + {b} * x->rank[{comm}])"),
            Self::RootBetween => "x->root_between".into(),
            Self::ShareBetween(all) => format!("{all} / x->size[{OWN_HALF}]"),
            Self::After(comm, shift) => format!("(x->rank[{comm}] + {shift}) % x->size[{comm}]"),
            Self::Type(index) => format!("types[{index}]"),
            Self::Numbers(name) if large => format!("{name}_c"),
            Self::Numbers(name) => (*name).into(),
            Self::Comm(index) => format!("x->comm[{index}]"),
            Self::Window(index) => format!("x->window[{index}]"),
            Self::Group(index) => format!("x->group[{index}]"),
            Self::File => "x->file".into(),
            Self::FileSet => "&x->file".into(),
            Self::FileName => "x->name".into(),
            Self::Request(index) => format!("&requests[{index}]"),
            Self::Requests => "requests".into(),
            Self::RequestValue(index) => format!("requests[{index}]"),
            Self::Status(index) => format!("&statuses[{index}]"),
            Self::Statuses => "statuses".into(),
        }
    }

    fn fortran(&self, language: Language, large: bool) -> String {
        match self {
            Self::Out => "out(1,t)".into(),
            Self::In => "in(1,t)".into(),
            Self::InPlace => "MPI_IN_PLACE".into(),
            Self::Numbers(name) if large => format!("{name}_c"),
            Self::Name(name) | Self::Set(name) | Self::Numbers(name) => (*name).into(),
            Self::Elements(value) if large => number(*value, "MPI_COUNT_KIND"),
            Self::Int(value) | Self::Elements(value) => value.to_string(),
            Self::Affine(comm, a, b) if large => {
                format!("int({a}+({b})*ranks({},t),MPI_COUNT_KIND)", comm + 1)
            }
            Self::Affine(comm, a, b) => format!("{a}+({b})*ranks({},t)", comm + 1),
            Self::RootBetween => "root_between".into(),
            Self::ShareBetween(all) if large => {
                format!("int({all}/sizes({},t),MPI_COUNT_KIND)", OWN_HALF + 1)
            }
            Self::ShareBetween(all) => format!("{all}/sizes({},t)", OWN_HALF + 1),
            Self::After(comm, shift) => format!("mod(ranks({0},t)+{shift},sizes({0},t))", comm + 1),
            Self::Aint(value) => number(*value, "MPI_ADDRESS_KIND"),
            Self::Offset(a, b) => {
                let kind = "MPI_OFFSET_KIND";
                format!("{} + {}*ranks(1,t)", number(*a, kind), number(*b, kind))
            }
            Self::Count(value) => number(*value, "MPI_COUNT_KIND"),
            Self::Type(index) => format!("types({})", index + 1),
            Self::Comm(index) => format!("comms({},t)", index + 1),
            Self::Window(index) => format!("windows({},t)", index + 1),
            Self::Group(index) => format!("groups({},t)", index + 1),
            Self::File | Self::FileSet => "files(t)".into(),
            Self::FileName => "trim(names(t))".into(),
            Self::Request(index) | Self::RequestValue(index) => format!("requests({})", index + 1),
            Self::Requests => "requests".into(),
            Self::Status(index) if language != Language::Fortran2008 => format!("statuses(:,{})", index + 1),
            Self::Status(index) => format!("statuses({})", index + 1),
            Self::Statuses => "statuses".into(),
        }
    }
}

/// Writes statements in C.
pub fn c(statements: &[Statement], text: &mut String) {
    for statement in statements {
        match statement {
            Statement::Call(name, large, arguments) => {
                let list: Vec<_> = arguments.iter().map(|argument| argument.c(*large)).collect();
                let suffix = if *large { "_c" } else { "" };
                writeln!(text, "check(MPI_{name}{suffix}({}));", list.join(", ")).unwrap();
            }
            Statement::Fill(name, comm, count, [a, b, c]) => {
                let count = count.map_or(format!("x->size[{comm}]"), |count| count.to_string());
                writeln!(
                    text,
                    "for (int i = 0; i < {count}; i++) {name}_c[i] = {name}[i] = {a} + {b} * x->rank[{comm}] + {c} * i;"
                )
                .unwrap();
            }
            Statement::Shares(name, all, shift) => {
                let own = format!("x->size[{OWN_HALF}]");
                writeln!(
                    text,
                    "for (int i = 0; i < {own}; i++) {name}_c[i] = {name}[i] = \
                     {all} / {own} - (i == 0) * {shift} + (i == {own} - 1) * {shift};"
                )
                .unwrap();
            }
            Statement::Alone(inner) => {
                text.push_str("pthread_barrier_wait(&meeting);\nif (x == contexts) {\n");
                c(inner, text);
                text.push_str("}\npthread_barrier_wait(&meeting);\n");
            }
            Statement::Types(kind) => {
                writeln!(text, "for (int i = 0; i < RANKS_MAX; i++) many[i] = types[{kind}];").unwrap();
            }
            Statement::Ready(count) => {
                writeln!(text, "for (int i = 0; i < {count}; i++) ready(requests[i]);").unwrap();
            }
            Statement::Expect(name, value) => writeln!(text, "expect({name}, {value}, __LINE__);").unwrap(),
            Statement::TestWindow(window) => {
                writeln!(
                    text,
                    "do {{ check(MPI_Win_test(x->window[{window}], &flag)); tests++; }} while (!flag);"
                )
                .unwrap();
            }
            Statement::If(comm, inner) => {
                writeln!(text, "if (x->comm[{comm}] != MPI_COMM_NULL) {{").unwrap();
                c(inner, text);
                text.push_str("}\n");
            }
        }
    }
}

/// Writes statements in Fortran. Lines are continued, as 132 characters are the most that compilers must read.
pub fn fortran(language: Language, statements: &[Statement], text: &mut String) {
    for statement in statements {
        match statement {
            // The kind of its counts reports the large-count form.
            Statement::Call(name, large, arguments) => {
                let mut list: Vec<_> =
                    arguments.iter().map(|argument| argument.fortran(language, *large)).collect();
                list.push("ierr".into());
                writeln!(text, "call MPI_{name}( &\n {})", list.join(", &\n ")).unwrap();
            }
            Statement::Fill(name, comm, count, [a, b, c]) => {
                let count = count.map_or(format!("sizes({},t)", comm + 1), |count| count.to_string());
                let value = format!("{a}+({b})*ranks({},t)+({c})*(i-1)", comm + 1);
                writeln!(text, "do i = 1, {count}\n {name}(i) = {value}").unwrap();
                if ["sc", "rc", "sd", "rd"].contains(name) {
                    writeln!(text, " {name}_c(i) = {value}").unwrap();
                }
                text.push_str("end do\n");
            }
            Statement::Shares(name, all, shift) => {
                let own = format!("sizes({},t)", OWN_HALF + 1);
                writeln!(
                    text,
                    "{name}(1:{own}) = {all}/{own}\n{name}(1) = {name}(1) - {shift}\n\
                     {name}({own}) = {name}({own}) + {shift}\n{name}_c(1:{own}) = {name}(1:{own})"
                )
                .unwrap();
            }
            Statement::Alone(inner) => fortran(language, inner, text),
            Statement::Types(kind) => writeln!(text, "many = types({})", kind + 1).unwrap(),
            Statement::Ready(count) => {
                writeln!(text, "do i = 1, {count}\n call ready(requests(i))\nend do").unwrap();
            }
            Statement::Expect("flag", value) => {
                let wrong = if *value == 0 { "flag" } else { ".not. flag" };
                writeln!(text, "if ({wrong}) call wrong('flag')").unwrap();
            }
            Statement::Expect(name, value) => {
                writeln!(text, "if ({name} /= {value}) call wrong('{name}')").unwrap();
            }
            Statement::TestWindow(window) => {
                writeln!(
                    text,
                    "flag = .false.\ndo while (.not. flag)\n call MPI_Win_test(windows({},t), flag, ierr)\n \
                     tests = tests + 1\nend do",
                    window + 1
                )
                .unwrap();
            }
            Statement::If(comm, inner) => {
                writeln!(text, "if (comms({},t) /= MPI_COMM_NULL) then", comm + 1).unwrap();
                fortran(language, inner, text);
                text.push_str("end if\n");
            }
        }
    }
}
