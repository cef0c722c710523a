//! Compares the committed bindings with NVIDIA's headers of several releases: every size, offset and value, by a C
//! program that is compiled against them. pip downloads the headers; without it the test says that it was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use throughline_prefix::Prefix;

const CUPTI: &str = include_str!("../../src/cupti.rs");
const CUDA: &str = include_str!("../../src/cuda.rs");
const SIZES: &str = include_str!("../../src/sizes.rs");

/// A number that the bindings state: what C calls it, and its value.
type Stated = (String, i64);

/// A release's packages and where they keep their headers.
struct Release {
    cupti: (&'static str, &'static str, &'static str),
    cuda: (&'static str, &'static str, &'static str),
    api_version: u32,
}

const CUDA_12: (&str, &str, &str) = ("nvidia-cuda-runtime-cu12", "12.9.79", "cuda_runtime");
const CUDA_13: (&str, &str, &str) = ("nvidia-cuda-runtime", "13.0.96", "cu13");
const V12_6: Release =
    Release { cupti: ("nvidia-cuda-cupti-cu12", "12.6.80", "cuda_cupti"), cuda: CUDA_12, api_version: 24 };
const V12_9: Release =
    Release { cupti: ("nvidia-cuda-cupti-cu12", "12.9.79", "cuda_cupti"), cuda: CUDA_12, api_version: 28 };
const V13_0: Release =
    Release { cupti: ("nvidia-cuda-cupti", "13.0.85", "cu13"), cuda: CUDA_13, api_version: 130_001 };
const V13_1: Release =
    Release { cupti: ("nvidia-cuda-cupti", "13.1.115", "cu13"), cuda: CUDA_13, api_version: 130_101 };

/// One line for each item: rustfmt breaks long ones.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn c_type(name: &str) -> String {
    if name.ends_with("_st") { format!("struct {name}") } else { name.to_owned() }
}

/// What bindgen's own checks say of structures: `["Size of T"][size_of::<T>() - 48usize]`.
fn layouts(text: &str) -> Vec<Stated> {
    let number = |rest: &str| {
        let value = rest.split_once(" - ").unwrap().1.split_once("usize").unwrap().0;
        value.parse::<i64>().unwrap()
    };
    let text = joined(text);
    let sizes = text.split("[\"Size of ").skip(1).map(|rest| {
        let (name, rest) = rest.split_once('"').unwrap();
        (format!("sizeof({})", c_type(name)), number(rest))
    });
    let offsets = text.split("[\"Offset of field: ").skip(1).map(|rest| {
        let (place, rest) = rest.split_once('"').unwrap();
        let (name, field) = place.split_once("::").unwrap();
        (format!("offsetof({}, {field})", c_type(name)), number(rest))
    });
    sizes.chain(offsets).collect()
}

/// `pub const NAME: Type = 26;`
fn values(text: &str) -> Vec<Stated> {
    let text = joined(text);
    let constants = text.split("pub const ").skip(1);
    let value = |rest: &str| {
        let (name, rest) = rest.split_once(':')?;
        let value = rest.split_once(" = ")?.1.split_once(';')?.0;
        Some((name.to_owned(), value.parse().ok()?))
    };
    constants.filter_map(value).collect()
}

/// The `structSize` of each parameter structure in a release.
fn struct_sizes(api_version: u32) -> Vec<Stated> {
    let text = joined(SIZES);
    let structs = text.split("impl Params for ").skip(1);
    structs
        .map(|rest| {
            let (name, rest) = rest.split_once(' ').unwrap();
            let list = rest.split_once("&[").unwrap().1.split_once(']').unwrap().0;
            let pairs = list.split('(').skip(1).map(|pair| {
                let (from, size) = pair.split_once(')').unwrap().0.split_once(", ").unwrap();
                (from.replace('_', "").parse::<u32>().unwrap(), size.parse::<i64>().unwrap())
            });
            let size = pairs.filter(|(from, _)| *from <= api_version).last().unwrap().1;
            (format!("{name}_STRUCT_SIZE"), size)
        })
        .collect()
}

fn headers(prefix: &Prefix, package: (&str, &str, &str)) -> Option<PathBuf> {
    let (name, version, folder) = package;
    match prefix.wheel(name, version) {
        Ok(wheel) => Some(wheel.join("nvidia").join(folder).join("include")),
        Err(error) => {
            throughline_test_support::skipped(error);
            None
        }
    }
}

/// What a C compiler makes of the same expressions; `None` where the headers can't be had.
fn in_c(release: &Release, stated: &[Stated]) -> Option<Vec<i64>> {
    let prefix = Prefix::locate().unwrap();
    let (cupti, cuda) = (headers(&prefix, release.cupti)?, headers(&prefix, release.cuda)?);
    let mut program = String::from(
        "#include <stdio.h>\n#include <stdbool.h>\n#include <stddef.h>\n#include <cuda.h>\n#include \
         <cupti_version.h>\n#include <cupti_target.h>\n#include <cupti_profiler_target.h>\n#include \
         <cupti_profiler_host.h>\n#include <cupti_pmsampling.h>\n#include <cupti_events.h>\n#include \
         <cupti_metrics.h>\nint main(void) {\nprintf(\"%lld\\n\", (long long)CUPTI_API_VERSION);\n",
    );
    for (expression, _) in stated {
        program.push_str(&format!("printf(\"%lld\\n\", (long long)({expression}));\n"));
    }
    program.push_str("return 0; }\n");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // cupti_profiler_host.h includes this C++ header for nothing.
    std::fs::write(at("string"), "").unwrap();
    std::fs::write(at("probe.c"), program).unwrap();
    let include = |path: &Path| format!("-I{}", path.display());
    let mut compiler = Command::new("cc");
    compiler.args([folder.path(), &cupti, &cuda].map(include)).arg("-o").arg(at("probe")).arg(at("probe.c"));
    let compiled = compiler.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let reported = Command::new(at("probe")).output().unwrap();
    Some(String::from_utf8(reported.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect())
}

fn compare(release: &Release, mut stated: Vec<Stated>) {
    let Some(theirs) = in_c(release, &stated) else { return };
    stated.insert(0, ("CUPTI_API_VERSION".to_owned(), release.api_version.into()));
    assert_eq!(stated.len(), theirs.len());
    for ((expression, ours), theirs) in stated.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "{expression} in {} {}", release.cupti.0, release.cupti.1);
    }
}

fn everything(release: &Release) -> Vec<Stated> {
    let mut stated = [layouts(CUPTI), values(CUPTI), layouts(CUDA)].concat();
    // CUDA's list of device attributes ends with their number, which each release raises.
    stated.extend(values(CUDA).into_iter().filter(|(name, _)| name != "CU_DEVICE_ATTRIBUTE_MAX"));
    stated.extend(struct_sizes(release.api_version));
    stated
}

#[test]
fn bindings_are_those_of_cuda_12_9() {
    let stated = everything(&V12_9);
    assert!(stated.len() > 400, "the bindings are not understood: {} numbers", stated.len());
    compare(&V12_9, stated);
}

#[test]
fn bindings_are_those_of_cuda_13_0() {
    compare(&V13_0, everything(&V13_0));
}

#[test]
fn bindings_are_those_of_cuda_13_1() {
    compare(&V13_1, everything(&V13_1));
}

#[test]
fn sizes_are_those_of_cuda_12_6() {
    // Its structures end earlier, so that offsets of what came later do not exist.
    let sizes = struct_sizes(V12_6.api_version);
    let set_config = sizes.iter().find(|(name, _)| name.contains("PmSampling_SetConfig")).unwrap();
    assert_eq!(set_config.1, 60);
    compare(&V12_6, sizes);
}
