//! Where a file of a job is written: a new one that appears when it is whole, or standard output.

use anyhow::Context;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use throughline_daemon::Failure;

/// An output that is complete or not there.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<Target>,
    file: Option<UnfinishedFile>,
}

#[derive(Debug)]
enum Target {
    File(File),
    Stdout(io::Stdout),
}

/// A file that goes away unless it is finished.
#[derive(Debug)]
struct UnfinishedFile {
    temporary: PathBuf,
    wanted: PathBuf,
    is_finished: bool,
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // Whatever ended the writing is what the user reads.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

impl Output {
    /// Opens it. The file itself is only replaced by [`Output::finish`].
    ///
    /// # Errors
    /// 64 when it is there and may not be overwritten; what the system says otherwise.
    pub fn new(path: &Path, may_overwrite: bool) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self { out: BufWriter::new(Target::Stdout(io::stdout())), file: None });
        }
        let shown = path.display();
        if path.is_dir() {
            return Err(Failure::usage(format!("{shown} is a folder: name a file in it")).into());
        }
        if path.exists() && !may_overwrite {
            let message =
                format!("{shown} is there already: name another file, or overwrite it with --force");
            return Err(Failure::usage(message).into());
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).map_err(|error| {
            Failure::from_io(format!("creating {shown}"), &error, "name another file with -o")
        })?;
        let wanted = path.to_owned();
        let file_state = UnfinishedFile { temporary, wanted, is_finished: false };
        Ok(Self { out: BufWriter::with_capacity(1 << 18, Target::File(file)), file: Some(file_state) })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// The last bytes can't be written, or the place can't be taken.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.out.flush().context("writing the file")?;
        if let Some(file) = &mut self.file {
            let to = file.wanted.display().to_string();
            std::fs::rename(&file.temporary, &file.wanted).with_context(|| format!("writing {to}"))?;
            file.is_finished = true;
        }
        Ok(())
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_daemon::ExitStatus;

    #[test]
    fn a_file_appears_when_it_is_whole_and_is_never_overwritten_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let mut first = Output::new(&path, false).unwrap();
        first.write_all(b"half").unwrap();
        drop(first);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut whole = Output::new(&path, false).unwrap();
        whole.write_all(b"whole").unwrap();
        assert!(!path.exists());
        whole.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        let refused = Output::new(&path, false).unwrap_err();
        assert!(refused.to_string().contains("--force"), "{refused}");
        assert_eq!(refused.downcast::<Failure>().unwrap().status, ExitStatus::Usage);
        let mut again = Output::new(&path, true).unwrap();
        again.write_all(b"new").unwrap();
        again.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(Output::new(folder.path(), true).unwrap_err().to_string().contains("folder"));
        assert!(Output::new(&folder.path().join("no/such"), true).is_err());
    }
}
