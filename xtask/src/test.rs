//! `cargo xtask test`: builds every test program of the workspace and runs several of them side by side.
//!
//! `cargo test` runs one test program after the other, and most of them wait: for a database to start, for a daemon's
//! next reading, for the ranks of an MPI program. Here as many run at once as keep the processors busy, those that took
//! longest first. The output of a program is a file of its own, and is printed if the program fails. There are no
//! documentation tests: with their set of features cargo would compile all dependencies once more.
//!
//! A test that fails beside others runs once more, alone. If it passes then it is listed as unsteady at the end, with the
//! output of its failure: a defect of the test or of what it tests, but not of the change at hand.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde_json::Value;

/// Where the output of each program goes, and how long each took.
const FOLDER: &str = "target/test-programs";

/// The durations of the last run, in seconds, by program.
const DURATIONS: &str = "durations";

/// Programs at once on each processor. Three kept two cores busy; more did not end sooner, and lengthened those that
/// compute.
const PROGRAMS_PER_PROCESSOR: usize = 2;

/// Seconds of the programs that dominate, on two cores: for a first run, which has no durations of its own.
const LONG: &[(&str, f64)] = &[
    ("throughline-mpit-bridge all", 1000.0),
    ("throughline-cli pages", 400.0),
    ("throughline-cli all", 270.0),
    ("throughline-dashboard-check all", 210.0),
    ("throughline-fabric all", 200.0),
    ("throughline-demo all", 150.0),
    ("throughline-agent all", 150.0),
    ("throughline-store all", 120.0),
    ("throughline-weeks short", 120.0),
];

/// The same of all others.
const SHORT: f64 = 10.0;

/// The most lines of a failed program's output that are printed when it fails.
const LINES_PRINTED: usize = 200;

/// The same at the end, for readers of the last lines only.
const LINES_REPEATED: usize = 60;

/// The most tests of a program that run once more: where more fail, it isn't the company of others.
const TESTS_REPEATED: usize = 5;

/// Options of `test`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only programs whose name (`package target`) contains this text
    filter: Option<String>,
    /// Only this package; can be repeated
    #[arg(short, long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Programs at once [default: two for each processor]
    #[arg(long)]
    jobs: Option<usize>,
}

/// A test program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    /// The package and the target, such as `throughline-store all`.
    name: String,
    executable: PathBuf,
    /// The folder of the package, in which cargo runs its tests.
    folder: PathBuf,
}

/// How a program ended.
struct Outcome {
    name: String,
    passed: bool,
    duration: Duration,
    /// What it and the processes that it waited for took of processors.
    processor: Duration,
    /// The harness' own counts, such as `12 passed; 0 failed; 1 ignored`.
    counts: String,
    log: PathBuf,
    /// Tests that failed beside others and passed alone.
    unsteady: Vec<String>,
}

/// Runs the tests; exit status 1 where one failed.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let built = Instant::now();
    let mut programs = build(&arguments.packages)?;
    println!("built {} test programs in {:.0} s", programs.len(), built.elapsed().as_secs_f64());
    if let Some(filter) = &arguments.filter {
        programs.retain(|program| program.name.contains(filter.as_str()));
        if programs.is_empty() {
            bail!("no test program has '{filter}' in its name");
        }
    }
    std::fs::create_dir_all(FOLDER).with_context(|| format!("making {FOLDER}"))?;
    let durations = Path::new(FOLDER).join(DURATIONS);
    let measured = std::fs::read_to_string(&durations).unwrap_or_default();
    let mut measured = parse_durations(&measured);
    // The last is taken first.
    programs.sort_by(|one, other| expected(one, &measured).total_cmp(&expected(other, &measured)));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(processors * PROGRAMS_PER_PROCESSOR).max(1);

    let begin = Instant::now();
    let mut outcomes = run_all(&programs, jobs)?;
    for outcome in outcomes.iter_mut().filter(|outcome| !outcome.passed) {
        if let Some(program) = programs.iter().find(|program| program.name == outcome.name) {
            run_again(program, outcome)?;
        }
    }
    let elapsed = begin.elapsed();
    measured.extend(outcomes.iter().map(|outcome| (outcome.name.clone(), outcome.duration.as_secs_f64())));
    let text: String = measured.iter().map(|(name, seconds)| format!("{seconds:.1} {name}\n")).collect();
    std::fs::write(&durations, text).with_context(|| format!("writing {}", durations.display()))?;
    summary(&outcomes, elapsed, jobs)
}

/// What `cargo test` would run. Programs and benches are built, too, with the same features: tests start them.
fn build(packages: &[String]) -> anyhow::Result<Vec<Program>> {
    let mut selection: Vec<_> = packages.iter().flat_map(|package| ["-p", package]).collect();
    if selection.is_empty() {
        selection.push("--workspace");
    }
    let output = Command::new(cargo())
        .args(["build", "--all-targets", "--message-format=json-render-diagnostics"])
        .args(selection)
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo build --all-targets")?;
    if !output.status.success() {
        bail!("the tests do not compile");
    }
    let mut programs: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect();
    programs.sort_by(|one, other| one.executable.cmp(&other.executable));
    programs.dedup();
    for program in programs.iter().filter(|program| program.name.ends_with(" (lib)")) {
        if let Some(file) = documentation_test(&program.folder.join("src")) {
            bail!("{}: a documentation test, which nothing runs: make it a test", file.display());
        }
    }
    Ok(programs)
}

/// A source below the folder with a documentation test.
fn documentation_test(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files.map(|file| file.path()).find_map(|path| {
        if path.is_dir() {
            return documentation_test(&path);
        }
        let is_source = path.extension() == Some("rs".as_ref());
        (is_source && std::fs::read_to_string(&path).is_ok_and(|text| has_example(&text))).then_some(path)
    })
}

fn has_example(source: &str) -> bool {
    let fences = source.lines().map(str::trim_start).filter_map(|line| {
        let line = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        line.trim_start().strip_prefix("```")
    });
    // rustdoc compiles what has no language, Rust, or one of its own words.
    let compiled = ["rust", "no_run", "should_panic", "compile_fail", "edition"];
    fences
        .step_by(2)
        .any(|language| language.is_empty() || compiled.iter().any(|word| language.starts_with(word)))
}

fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// The test program of one of cargo's messages.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // `path+file:///folder/crates/store#throughline-store@0.1.0`, or `…/crates/store#0.1.0` where folder and name agree.
    let (path, package) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = package.split_once('@').map_or_else(|| path.rsplit('/').next(), |(name, _)| Some(name))?;
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    if kind == "bench" {
        return None;
    }
    let target = if kind == "test" { target.to_owned() } else { format!("{target} ({kind})") };
    Some(Program {
        name: format!("{package} {target}"),
        executable: message["executable"].as_str()?.into(),
        folder,
    })
}

fn parse_durations(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(seconds, name)| Some((name.to_owned(), seconds.parse().ok()?))).collect()
}

/// Seconds that a program will take, as far as that is known.
fn expected(program: &Program, measured: &BTreeMap<String, f64>) -> f64 {
    let long = LONG.iter().find(|(name, _)| *name == program.name).map(|(_, seconds)| *seconds);
    measured.get(&program.name).copied().or(long).unwrap_or(SHORT)
}

fn run_all(programs: &[Program], jobs: usize) -> anyhow::Result<Vec<Outcome>> {
    let waiting = Mutex::new(programs.iter().collect::<Vec<_>>());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let worker = || -> anyhow::Result<()> {
            loop {
                let Some(program) = waiting.lock().ok().and_then(|mut waiting| waiting.pop()) else {
                    return Ok(());
                };
                let outcome = run_one(program)?;
                report(&outcome);
                if let Ok(mut done) = done.lock() {
                    done.push(outcome);
                }
            }
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
    })?;
    Ok(done.into_inner().unwrap_or_default())
}

fn run_one(program: &Program) -> anyhow::Result<Outcome> {
    let log = log(program, "");
    let begin = Instant::now();
    let (passed, processor) = run_with(program, &[], &log)?;
    let counts = counts(&read(&log)?);
    let (name, duration) = (program.name.clone(), begin.elapsed());
    Ok(Outcome { name, passed, duration, processor, counts, log, unsteady: Vec::new() })
}

/// Runs the tests of a program that failed once more, with nothing beside them.
fn run_again(program: &Program, outcome: &mut Outcome) -> anyhow::Result<()> {
    let failed = failures(&read(&outcome.log)?);
    if failed.is_empty() || failed.len() > TESTS_REPEATED {
        return Ok(());
    }
    println!("once more, alone: {}: {}", outcome.name, failed.join(", "));
    let exact = ["--exact".to_owned(), "--test-threads=1".to_owned()];
    let arguments: Vec<_> = failed.iter().cloned().chain(exact).collect();
    if run_with(program, &arguments, &log(program, "-again"))?.0 {
        (outcome.passed, outcome.unsteady) = (true, failed);
    }
    Ok(())
}

/// The file of a program's output.
fn log(program: &Program, suffix: &str) -> PathBuf {
    let file_name: String =
        program.name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
    Path::new(FOLDER).join(format!("{file_name}{suffix}.log"))
}

fn read(log: &Path) -> anyhow::Result<String> {
    let output = std::fs::read(log).with_context(|| format!("reading {}", log.display()))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Whether it passed, and its processor time.
fn run_with(program: &Program, arguments: &[String], log: &Path) -> anyhow::Result<(bool, Duration)> {
    let file = File::create(log).with_context(|| format!("making {}", log.display()))?;
    let mut child = Command::new(&program.executable)
        .args(arguments)
        .current_dir(&program.folder)
        .env("CARGO", cargo())
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .stderr(file.try_clone().context("sharing the log")?)
        .stdout(file)
        .spawn()
        .with_context(|| format!("running {}", program.executable.display()))?;
    // The kernel still has the times of a process that has ended and that nobody has waited for.
    let id = Pid::from_raw(child.id().try_into().context("a process id")?);
    waitid(Id::Pid(id), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).context("waiting for a test program")?;
    let processor = std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
    let processor = processor.and_then(|stat| processor_time(&stat)).unwrap_or_default();
    Ok((child.wait().context("waiting for a test program")?.success(), processor))
}

/// The processor time of a process and of its children that have ended, from `/proc/PID/stat` (proc_pid_stat(5)).
fn processor_time(stat: &str) -> Option<Duration> {
    // The name, in brackets, may have blanks. Behind it comes field 3; 14 to 17 are times in clock ticks.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: Option<u64> =
        fields.split(' ').skip(14 - 3).take(4).map(|field| field.parse::<u64>().ok()).sum();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(Duration::from_secs_f64(ticks? as f64 / per_second as f64))
}

/// The names in the harness' last list of failures; none where it ended before that.
fn failures(output: &str) -> Vec<String> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

/// The counts in the last line of the test harness.
fn counts(output: &str) -> String {
    let line = output.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    let counts = line.and_then(|line| line.split_once(". ")).map(|(_, counts)| counts);
    let parts = counts.into_iter().flat_map(|counts| counts.split("; ").take(3));
    parts.filter(|part| !part.starts_with("0 ")).collect::<Vec<_>>().join(", ")
}

fn report(outcome: &Outcome) {
    let word = if outcome.passed { "ok    " } else { "FAILED" };
    let (seconds, processor) = (outcome.duration.as_secs_f64(), outcome.processor.as_secs_f64());
    println!("{word} {seconds:6.1} s {processor:6.1} s of processors  {}  {}", outcome.name, outcome.counts);
    if !outcome.passed {
        print_last(outcome, LINES_PRINTED);
    }
}

/// The last lines of its output.
fn print_last(outcome: &Outcome, most: usize) {
    let output = read(&outcome.log).unwrap_or_default();
    let lines: Vec<_> = output.lines().collect();
    let first = lines.len().saturating_sub(most);
    println!("{}\n(all of it: {})", lines[first..].join("\n"), outcome.log.display());
}

fn summary(outcomes: &[Outcome], elapsed: Duration, jobs: usize) -> anyhow::Result<ExitCode> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("reading the processor time of the tests")?;
    let minutes = (usage.user_time().tv_sec() + usage.system_time().tv_sec()) as f64 / 60.0;
    let sum: Duration = outcomes.iter().map(|outcome| outcome.duration).sum();
    println!(
        "{} test programs, {jobs} at once, took {:.1} minutes ({:.1} one after the other; {minutes:.1} of processors, \
         with the build)",
        outcomes.len(),
        elapsed.as_secs_f64() / 60.0,
        sum.as_secs_f64() / 60.0,
    );
    for outcome in outcomes.iter().filter(|outcome| !outcome.passed || !outcome.unsteady.is_empty()) {
        println!("the last lines of {}:", outcome.name);
        print_last(outcome, LINES_REPEATED);
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.unsteady.is_empty()) {
        let tests = outcome.unsteady.join(", ");
        println!("UNSTEADY: {}: {tests}: failed beside others, passed alone; to be mended", outcome.name);
    }
    let failed: Vec<_> =
        outcomes.iter().filter(|outcome| !outcome.passed).map(|outcome| &*outcome.name).collect();
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("FAILED: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages_of_cargo() {
        let message = |id: &str, kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/top/crates/x/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"all"}},"profile":{{"test":{test}}},"executable":"/target/all-1"}}"#
            )
        };
        let found = program(&message("path+file:///top/crates/x#our-x@0.1.0", "test", true)).unwrap();
        let wanted = |name: &str| Program {
            name: name.into(),
            executable: "/target/all-1".into(),
            folder: "/top/crates/x".into(),
        };
        assert_eq!(found, wanted("our-x all"));
        let found = program(&message("path+file:///top/crates/x#0.1.0", "lib", true)).unwrap();
        assert_eq!(found, wanted("x all (lib)"));
        assert_eq!(program(&message("path+file:///top/crates/x#0.1.0", "lib", false)), None);
        assert_eq!(program("   Compiling x"), None);
    }

    #[test]
    fn counts_and_durations_are_read_back() {
        let output =
            "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\n";
        assert_eq!(counts(output), "2 passed, 1 ignored");
        assert_eq!(counts("killed"), "");
        let measured = parse_durations("12.5 our-x all\nnonsense\n");
        let one = Program { name: "our-x all".into(), executable: PathBuf::new(), folder: PathBuf::new() };
        assert!((expected(&one, &measured) - 12.5).abs() < 0.01 && measured.len() == 1);
    }

    #[test]
    fn the_failed_tests_of_a_program_are_found() {
        let output = "failures:\n\n---- a::b stdout ----\nwrong\n\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED.";
        assert_eq!(failures(output), ["a::b", "c"]);
        assert_eq!(failures("signal: 11"), [""; 0]);
    }

    #[test]
    fn the_processor_time_of_a_process_is_read() {
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(processor_time(&own).is_some());
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 99 0 0 0 100 20 3 0 20 0 1 0";
        let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap();
        let wanted = 123.0 / ticks as f64;
        assert!((processor_time(line).unwrap().as_secs_f64() - wanted).abs() < 1e-6);
        assert_eq!(processor_time("7 (a)"), None);
    }

    #[test]
    fn documentation_tests_are_found() {
        assert!(has_example("/// Text.\n/// ```\n/// f();\n/// ```\n"));
        assert!(has_example("//! ```text\n//! a\n//! ```\n//! ```no_run\n//! f();\n//! ```\n"));
        assert!(!has_example("//! ```text\n//! a\n//! ```\nfn f() {}\n// ```\n"));
    }
}
