//! Writes the counter's wrappers from the installed mpi.h and compiles it. Must not run any MPI program.

use crate::header::{Function, functions};
use crate::rules::{bytes, hides_calls, is_persistent};
use anyhow::{Context, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which MPI library a header is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH and its like.
    Mpich,
}

/// What the installed header says.
pub struct Header {
    /// Whose it is.
    pub family: Family,
    /// The library's name and version.
    pub library: String,
    /// `MPI_VERSION` and `MPI_SUBVERSION`.
    pub version: (u32, u32),
    functions: Vec<Function>,
}

impl Header {
    /// Reads the header that a compiler wrapper finds.
    pub fn read(mpicc: &str) -> anyhow::Result<Self> {
        let preprocessed = |options: &[&str]| -> anyhow::Result<String> {
            let mut command = Command::new(mpicc);
            command.args(options).args(["-E", "-P", "-include", "mpi.h", "-x", "c", "/dev/null"]);
            let output = command.output().with_context(|| format!("{mpicc} cannot run: make deps"))?;
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.success(), "{mpicc} cannot read mpi.h: {complaint}");
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let macros = preprocessed(&["-dM"])?;
        let value = |name: &str| {
            let start = format!("#define {name} ");
            macros.lines().find_map(|line| line.strip_prefix(&start)).map(str::trim)
        };
        let number = |name| value(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let is_open = value("OMPI_MAJOR_VERSION").is_some();
        let part = |name| value(name).unwrap_or("?").trim_matches('"').to_owned();
        let library = if is_open {
            let parts = ["OMPI_MAJOR_VERSION", "OMPI_MINOR_VERSION", "OMPI_RELEASE_VERSION"].map(part);
            format!("Open MPI {}", parts.join("."))
        } else {
            format!("MPICH {}", part("MPICH_VERSION"))
        };
        let functions = functions(&preprocessed(&[])?);
        ensure!(!functions.is_empty(), "{mpicc}: its mpi.h declares no function with a twin PMPI_*");
        Ok(Self {
            family: if is_open { Family::OpenMpi } else { Family::Mpich },
            library,
            version: (number("MPI_VERSION"), number("MPI_SUBVERSION")),
            functions,
        })
    }

    /// Functions that the counter wraps.
    pub fn wrapped(&self) -> usize {
        self.functions.len()
    }

    /// Compiles the counter into a folder.
    pub fn make_counter(&self, mpicc: &str, folder: &Path) -> anyhow::Result<PathBuf> {
        let names: String = self.functions.iter().fold(String::new(), |mut text, function| {
            let _ = writeln!(text, "NAME({})", function.name);
            text
        });
        std::fs::write(folder.join("names.inc"), names)?;
        std::fs::write(folder.join("wrappers.inc"), self.functions.iter().map(wrapper).collect::<String>())?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/counter.c");
        let made = folder.join("libmpi-counter.so");
        let mut command = Command::new(mpicc);
        // Warnings are of functions that the standard deprecates: they are wrapped like others.
        command.args(["-shared", "-fPIC", "-O1", "-fexceptions", "-w", "-pthread", "-I"]).arg(folder);
        if self.functions.iter().any(|function| function.name == "Type_size_x") {
            command.arg("-DHAS_Type_size_x");
        }
        let output = command.arg("-o").arg(&made).arg(source).output()?;
        ensure!(output.status.success(), "the counter: {}", String::from_utf8_lossy(&output.stderr));
        Ok(made)
    }
}

/// One wrapper's text.
fn wrapper(function: &Function) -> String {
    let Function { name, returns, parameters } = function;
    let declared = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    let passed: Vec<_> = (0..parameters.len()).map(|at| format!("a{at}")).collect();
    let succeeded = if returns == "int" { " && result == MPI_SUCCESS" } else { "" };
    let (open, is_ours) = if hides_calls(name) {
        (
            "const int outermost __attribute__((cleanup(leave))) = enter(__builtin_frame_address(0));",
            "outermost",
        )
    } else {
        ("const int outermost = !is_within(__builtin_frame_address(0));", "outermost")
    };
    let Around { before, counted, after } = around(function);
    format!(
        "#undef MPI_{name}\n#undef PMPI_{name}\n{returns} MPI_{name}({declared}) {{\n    {open}\n{before}    \
         {returns} result = PMPI_{name}({});\n    if ({is_ours}{succeeded}) {{ {counted} }}\n{after}    return \
         result;\n}}\n",
        passed.join(", ")
    )
}

/// What stands around the call in a wrapper.
struct Around {
    before: String,
    counted: String,
    after: String,
}

fn around(function: &Function) -> Around {
    let name = &function.name;
    let last = function.parameters.len().saturating_sub(1);
    let plain = format!("add(F_{name}, {});", bytes(name));
    let (before, counted, after) = match name.as_str() {
        "Init" | "Init_thread" => (String::new(), format!("{plain} started(1);"), String::new()),
        "Session_init" => (String::new(), format!("{plain} started(0);"), String::new()),
        "Finalize" | "Session_finalize" => (String::new(), format!("{plain} finished();"), String::new()),
        "Request_free" => ("    request_freed(a0);\n".into(), plain, String::new()),
        "Start" => (
            "    MPI_Request *before = requests_before(1, a0);\n".into(),
            "requests_started(1, before, a0, F_Start);".into(),
            "    free(before);\n".into(),
        ),
        "Startall" => (
            "    MPI_Request *before = requests_before(a0, a1);\n".into(),
            "requests_started(a0, before, a1, F_Startall);".into(),
            "    free(before);\n".into(),
        ),
        _ if is_persistent(name) => {
            (String::new(), format!("request_made(*a{last}, F_{name}, {});", bytes(name)), String::new())
        }
        _ => (String::new(), plain, String::new()),
    };
    Around { before, counted, after }
}
