//! `cargo xtask cupti`: writes the bindings of `crates/cupti-sys` from NVIDIA's headers.
//!
//! Headers and libclang come from the Python Package Index through pip and lie in the prefix; only declarations
//! of the allow-lists below are written, without the headers' comments. `--check` writes nothing and compares.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Args;
use throughline_prefix::Prefix;

/// Where the bindings lie.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/cupti-sys/src");
/// A libclang for bindgen, so that no compiler of that size need be installed.
const LIBCLANG: (&str, &str) = ("libclang", "18.1.1");
/// Where bindgen looks for it.
const LIBCLANG_VARIABLE: &str = "LIBCLANG_PATH";
/// The packages that the bindings are made from: CUPTI, and CUDA for `cuda.h`. CUDA 12 has the Metric API.
const BINDINGS: Release = Release { cupti: ("nvidia-cuda-cupti-cu12", "12.9.79"), cuda: CUDA_12 };
const CUDA_12: (&str, &str) = ("nvidia-cuda-runtime-cu12", "12.9.79");
const CUDA_13: (&str, &str) = ("nvidia-cuda-runtime", "13.0.96");
/// The releases with different sizes of parameter structures, oldest first.
const RELEASES: [Release; 5] = [
    Release { cupti: ("nvidia-cuda-cupti-cu12", "12.6.80"), cuda: CUDA_12 },
    Release { cupti: ("nvidia-cuda-cupti-cu12", "12.8.90"), cuda: CUDA_12 },
    BINDINGS,
    Release { cupti: ("nvidia-cuda-cupti", "13.0.85"), cuda: CUDA_13 },
    Release { cupti: ("nvidia-cuda-cupti", "13.1.115"), cuda: CUDA_13 },
];

/// Functions of libcupti.
const CUPTI_FUNCTIONS: [&str; 8] = [
    "cuptiGet(Version|ResultString)",
    "cupti(DeviceGetChipName|ProfilerInitialize|ProfilerDeInitialize|SetEventCollectionMode)",
    "cuptiProfilerHost(Initialize|Deinitialize|GetSupportedChips|ConfigAddMetrics|GetConfigImageSize|GetConfigImage)",
    "cuptiProfilerHost(GetNumOfPasses|EvaluateToGpuValues|GetBaseMetrics|GetSubMetrics)",
    "cuptiPmSampling(SetConfig|Enable|Disable|Start|Stop|DecodeData|GetCounterAvailability|GetCounterDataSize)",
    "cuptiPmSampling(CounterDataImageInitialize|GetCounterDataInfo|CounterDataGetSampleInfo)",
    "cuptiMetric(GetIdFromName|CreateEventGroupSets|GetNumEvents|EnumEvents|GetValue)",
    "cuptiEventGroup(SetAttribute|GetAttribute|ReadAllEvents|SetEnable|SetDisable|SetsDestroy)",
];
/// Functions of libcuda.
const CUDA_FUNCTIONS: [&str; 2] = [
    "cu(Init|DriverGetVersion|DeviceGetCount|DeviceGet|DeviceGetUuid_v2|DeviceGetName|DeviceGetPCIBusId)",
    "cu(DeviceGetAttribute|CtxCreate_v2|CtxDestroy_v2|CtxSetCurrent)",
];
/// Types of `cuda.h`, which the bindings of libcupti take from those of libcuda.
const CUDA_TYPES: &str = "CU(context|device|result|ctx_st|device_v1)|cudaError_enum";

/// Packages that belong together, each with its version.
struct Release {
    cupti: (&'static str, &'static str),
    cuda: (&'static str, &'static str),
}

/// The task's arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Write nothing; fail where what is committed is not what the headers give.
    #[arg(long)]
    check: bool,
}

/// Writes or compares the three files.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let prefix = Prefix::locate()?;
    if std::env::var_os(LIBCLANG_VARIABLE).is_none() {
        // bindgen looks for libclang by this variable alone.
        let libclang = prefix.wheel(LIBCLANG.0, LIBCLANG.1)?;
        let libclang = libclang.join(format!("{}-{}.data/platlib/clang/native", LIBCLANG.0, LIBCLANG.1));
        let mut again = Command::new(std::env::current_exe()?);
        again.arg("cupti").args(arguments.check.then_some("--check")).env(LIBCLANG_VARIABLE, libclang);
        return Ok(if again.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for (name, text) in generate(&prefix)? {
        let path = Path::new(FOLDER).join(name);
        if arguments.check {
            let committed =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            ensure!(
                committed == text,
                "{} is not what the headers give; run cargo xtask cupti",
                path.display()
            );
        } else {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The files with their texts.
fn generate(prefix: &Prefix) -> anyhow::Result<Vec<(&'static str, String)>> {
    let folders = Folders::of(prefix, &BINDINGS)?;
    let cuda = bindings(&folders, "Cuda", "#include <cuda.h>", &CUDA_FUNCTIONS, None)?;
    let headers = "#include <cupti_version.h>\n#include <cupti_target.h>\n#include <cupti_profiler_target.h>\n\
                   #include <cupti_profiler_host.h>\n#include <cupti_pmsampling.h>\n#include <cupti_events.h>\n\
                   #include <cupti_metrics.h>\n";
    let cupti = bindings(&folders, "Cupti", headers, &CUPTI_FUNCTIONS, Some(CUDA_TYPES))?;
    let sizes = sizes(prefix, &cupti)?;
    Ok(vec![("cuda.rs", cuda), ("cupti.rs", cupti), ("sizes.rs", sizes)])
}

/// Where the headers of a release lie.
struct Folders {
    cupti: PathBuf,
    cuda: PathBuf,
    /// With an empty file named `string`: `cupti_profiler_host.h` includes that C++ header for nothing.
    shadow: PathBuf,
}

impl Folders {
    fn of(prefix: &Prefix, release: &Release) -> anyhow::Result<Self> {
        let include = |(name, version): (&str, &str), folders: &[&str]| -> anyhow::Result<PathBuf> {
            let wheel = prefix.wheel(name, version)?;
            let mut found = folders.iter().map(|folder| wheel.join("nvidia").join(folder).join("include"));
            found.find(|path| path.is_dir()).with_context(|| format!("{name} {version} has no headers"))
        };
        let shadow = prefix.root().join("wheels/.shadow");
        fs::create_dir_all(&shadow)?;
        fs::write(shadow.join("string"), "")?;
        Ok(Self {
            cupti: include(release.cupti, &["cuda_cupti", "cu13"])?,
            cuda: include(release.cuda, &["cuda_runtime", "cu13"])?,
            shadow,
        })
    }

    fn arguments(&self) -> [String; 3] {
        [&self.shadow, &self.cupti, &self.cuda].map(|folder| format!("-I{}", folder.display()))
    }
}

/// The bindings of one library as Rust.
fn bindings(
    folders: &Folders,
    library: &str,
    headers: &str,
    functions: &[&str],
    elsewhere: Option<&str>,
) -> anyhow::Result<String> {
    let compiler = Command::new("cc").arg("-print-file-name=include").output().context("running cc")?;
    let builtin = String::from_utf8(compiler.stdout)?;
    let mut builder = bindgen::Builder::default()
        .header_contents("wanted.h", headers)
        .clang_args(folders.arguments())
        .clang_arg(format!("-isystem{}", builtin.trim()))
        .generate_comments(false)
        .prepend_enum_name(false)
        .layout_tests(true)
        .dynamic_library_name(library)
        .dynamic_link_require_all(false)
        .disable_header_comment()
        .formatter(bindgen::Formatter::None);
    for function in functions {
        builder = builder.allowlist_function(function);
    }
    if let Some(types) = elsewhere {
        builder = builder.blocklist_type(types).raw_line("use crate::cuda::{CUcontext, CUdevice};");
    }
    format_rust(&open_by_us(&builder.generate().context("bindgen")?.to_string())?)
}

/// Adapts bindgen's loader to the present libloading, whose names are text, and leaves the opening to the crate.
fn open_by_us(text: &str) -> anyhow::Result<String> {
    let begin = text.find("pub unsafe fn new <").or_else(|| text.find("pub unsafe fn new<"));
    let end = text.find("pub unsafe fn from_library");
    let (Some(begin), Some(end)) = (begin, end) else { bail!("bindgen writes another loader than it did") };
    let text = format!("{}{}", &text[..begin], &text[end..]);
    ensure!(text.contains("\\0\")"), "bindgen looks functions up in another way than it did");
    Ok(text.replace("get (b\"", "get(b\"").replace("get(b\"", "get(\"").replace("\\0\")", "\")"))
}

/// The text as rustfmt has it in this repository.
fn format_rust(text: &str) -> anyhow::Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../rustfmt.toml")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("running rustfmt")?;
    rustfmt.stdin.take().context("rustfmt's input")?.write_all(text.as_bytes())?;
    let output = rustfmt.wait_with_output()?;
    ensure!(output.status.success(), "rustfmt refuses what bindgen wrote");
    Ok(String::from_utf8(output.stdout)?)
}

/// The value that `structSize` must have in each parameter structure, by the release from which it holds.
fn sizes(prefix: &Prefix, bindings: &str) -> anyhow::Result<String> {
    let struct_of = |line: &str| {
        let name = line.strip_prefix("pub struct ")?.strip_suffix(" {")?;
        name.ends_with("_Params").then(|| name.to_owned())
    };
    let structs: Vec<String> = bindings.lines().filter_map(struct_of).collect();
    ensure!(!structs.is_empty(), "no parameter structure in the bindings");
    let mut table: Vec<Vec<(u32, usize)>> = vec![Vec::new(); structs.len()];
    for release in &RELEASES {
        let (version, sizes) = sizes_of(&Folders::of(prefix, release)?, &structs)?;
        for (known, size) in table.iter_mut().zip(sizes) {
            if known.last().is_none_or(|(_, last)| *last != size) {
                known.push((version, size));
            }
        }
    }
    let mut text = String::from("use crate::Params;\nuse crate::cupti::*;\n");
    for (name, known) in structs.iter().zip(table) {
        writeln!(text, "\nimpl Params for {name} {{ const SIZES: &'static [(u32, usize)] = &{known:?};")?;
        writeln!(text, "fn set_size(&mut self, size: usize) {{ self.structSize = size; }} }}")?;
    }
    format_rust(&text)
}

/// `CUPTI_API_VERSION` and the sizes in one release, printed by a program of a C compiler.
fn sizes_of(folders: &Folders, structs: &[String]) -> anyhow::Result<(u32, Vec<usize>)> {
    let mut program = String::from(
        "#include <stdio.h>\n#include <stdbool.h>\n#include <cupti_version.h>\n#include <cupti_target.h>\n\
         #include <cupti_profiler_target.h>\n#include <cupti_profiler_host.h>\n#include <cupti_pmsampling.h>\n\
         int main(void) {\nprintf(\"%d\\n\", CUPTI_API_VERSION);\n",
    );
    for name in structs {
        writeln!(program, "printf(\"%zu\\n\", (size_t){name}_STRUCT_SIZE);")?;
    }
    program.push_str("return 0; }\n");
    let folder = std::env::temp_dir().join(format!("throughline-cupti-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("sizes.c"), program)?;
    let mut compiler = Command::new("cc");
    compiler.args(folders.arguments()).arg("-o").arg(folder.join("sizes")).arg(folder.join("sizes.c"));
    ensure!(compiler.status().context("running cc")?.success(), "cc refuses the headers");
    let output = Command::new(folder.join("sizes")).output()?;
    fs::remove_dir_all(&folder)?;
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.lines();
    let version = numbers.next().context("no version")?.parse()?;
    Ok((version, numbers.map(str::parse).collect::<Result<_, _>>()?))
}
