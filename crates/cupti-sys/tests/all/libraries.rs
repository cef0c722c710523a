//! Which libraries are taken and which are refused, on NVIDIA's own from the Python Package Index. A library that
//! crashes would take the tests with it: none that is refused may be called.

use std::path::{Path, PathBuf};

use cupti_sys::{OpenError, open_cuda, open_cupti};
use throughline_prefix::Prefix;

fn library(package: &str, version: &str, folder: &str, file: &str) -> Option<PathBuf> {
    match Prefix::locate().unwrap().wheel(package, version) {
        Ok(wheel) => Some(wheel.join("nvidia").join(folder).join("lib").join(file)),
        Err(error) => {
            throughline_test_support::skipped(error);
            None
        }
    }
}

#[test]
fn releases_that_work_are_opened_and_report_their_version() {
    let releases = [
        ("nvidia-cuda-cupti-cu12", "12.6.80", "cuda_cupti", "libcupti.so.12", 24),
        ("nvidia-cuda-cupti-cu12", "12.9.79", "cuda_cupti", "libcupti.so.12", 28),
        ("nvidia-cuda-cupti", "13.0.85", "cu13", "libcupti.so.13", 130_001),
    ];
    for (package, version, folder, file, expected) in releases {
        let Some(path) = library(package, version, folder, file) else { return };
        let (cupti, reported) = open_cupti(&path).unwrap();
        assert_eq!(reported, expected);
        assert!(cupti.cuptiPmSamplingEnable.is_ok() && cupti.cuptiProfilerHostInitialize.is_ok());
    }
}

#[test]
fn releases_that_crash_or_know_nothing_are_refused_with_the_reason() {
    for (version, release) in [("13.2.86", "13.2"), ("13.3.75", "13.3"), ("13.4.92", "13.4 or later")] {
        let Some(path) = library("nvidia-cuda-cupti", version, "cu13", "libcupti.so.13") else { return };
        let refused = open_cupti(&path).err().unwrap();
        assert!(
            matches!(&refused, OpenError::KnownBad { release: reported, .. } if *reported == release),
            "{refused}"
        );
        assert!(refused.to_string().contains("use CUPTI of CUDA 12.6 to 13.1"), "{refused}");
    }
}

#[test]
fn what_is_not_there_or_is_something_else_is_named() {
    let missing = open_cupti(Path::new("/nowhere/libcupti.so.13")).err().unwrap();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
    assert!(missing.to_string().contains("/nowhere/libcupti.so.13"), "{missing}");
    let other = open_cupti(Path::new("libm.so.6")).err().unwrap();
    assert!(matches!(other, OpenError::MissingSymbol { symbol: "cuptiGetVersion", .. }), "{other}");
    let other = open_cuda(Path::new("libm.so.6")).err().unwrap();
    assert!(matches!(other, OpenError::MissingSymbol { symbol: "cuInit", .. }), "{other}");
    let text = tempfile::NamedTempFile::new().unwrap();
    let refused = open_cuda(text.path()).err().unwrap();
    assert!(matches!(refused, OpenError::Refused { .. }), "{refused}");
}
