//! The unit files: hardened as far as `systemd-analyze security` measures it, bounded, and started in an order without a
//! cycle.

use std::path::{Path, PathBuf};
use std::process::Command;

fn check(folder: &Path) -> (i32, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/check-units.sh");
    let output = Command::new(script).arg(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd")
}

/// What the check makes of the units with one of them changed.
fn changed(name: &str, change: impl Fn(&str) -> String) -> (i32, String) {
    let folder = std::env::temp_dir().join(format!("throughline-units-{}-{name}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    for unit in std::fs::read_dir(units()).unwrap().map(|entry| entry.unwrap()) {
        let text = std::fs::read_to_string(unit.path()).unwrap();
        let is_changed = unit.file_name() == name;
        let text = if is_changed { change(&text) } else { text };
        std::fs::write(folder.join(unit.file_name()), text).unwrap();
    }
    let result = check(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    result
}

#[test]
fn each_unit_is_hardened_bounded_and_in_order() {
    let (status, report) = check(&units());
    assert_eq!(status, 0, "{report}");
    // The script itself reports what it skips, and fails in continuous integration.
    if report.contains("SKIPPED") {
        return;
    }
    assert_eq!(report.matches("Overall exposure level").count(), 3, "{report}");
    assert!(
        report.contains("No cycle and no unknown key in: run-throughline-mpi.sock.last.mount"),
        "{report}"
    );

    // The check finds a lack: without the hardening a unit does not pass.
    let (status, report) = changed("throughline-serve.service", |text| {
        let soft: Vec<&str> = text.lines().filter(|line| !line.starts_with("Protect")).collect();
        soft.join("\n").replace("CapabilityBoundingSet=\n", "CapabilityBoundingSet=~CAP_SYS_TIME\n")
    });
    assert_eq!(status, 2, "{report}");
    assert!(report.contains("above the threshold"), "{report}");
    // A mount is before local-fs.target unless it says otherwise.
    let (status, report) = changed("run-throughline-mpi.sock.last.mount", |text| {
        text.replace("DefaultDependencies=no", "DefaultDependencies=yes")
    });
    assert_eq!(status, 2, "{report}");
    assert!(report.contains("ordering cycle"), "{report}");
    let (status, report) =
        changed("throughline-fabric.service", |text| text.replace("TasksMax=256", "TasksMax=256\nTaskMax=9"));
    assert_eq!(status, 2, "{report}");
    assert!(report.contains("Unknown key") && report.contains("TaskMax"), "{report}");
}
