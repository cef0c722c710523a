//! One poll of 8 GPUs with 18 links each, and the frame that reports it, allocate nothing in the steady state.
//!
//! A program of its own with one test: every allocation of the process is counted.
#![allow(clippy::unwrap_used, missing_docs)]
#![allow(unsafe_code)] // an allocator that counts, and the environment of a process with one thread

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

#[path = "all"]
mod all {
    pub mod bench;
}

use throughline_doubles::nvml::SCENARIO_VARIABLE;
use throughline_gpu::Reader;
use throughline_gpu::frame::{Body, Frame, FrameWriter, Poll};
use throughline_gpu::nvml::{Library, NvmlOptions, NvmlReader};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Polls until every family of fields has had its turn, and buffers their size.
const WARM: u32 = 30;

#[test]
fn a_poll_allocates_nothing() {
    for (scenario, options) in [
        ("hgx-h200", NvmlOptions { unfold_pcie: true, gpm: false }),
        ("hgx-h200", NvmlOptions::default()),
        ("gb200-nvl", NvmlOptions { unfold_pcie: false, gpm: true }),
        ("power9-v100", NvmlOptions::default()),
    ] {
        let path = format!("{}/scenarios/{scenario}.scenario", env!("CARGO_MANIFEST_DIR"));
        // SAFETY: the only thread that reads or writes the environment is this one.
        unsafe { std::env::set_var(SCENARIO_VARIABLE, path) };
        // Each opens a library of its own, which the loader keeps apart by its path.
        let library = all::bench::double().join("libnvidia-ml.so.1");
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("libnvidia-ml.so.1");
        std::fs::copy(library, &copy).unwrap();
        let library = Library::open(&copy).unwrap();
        let session = library.start().unwrap();
        let mut reader = NvmlReader::new(&session, options);
        reader.survey().unwrap();
        let mut writer = FrameWriter::new(std::io::sink());
        let mut frame = Frame { body: Some(Body::Poll(Poll::default())) };
        let mut poll = || {
            let Some(Body::Poll(poll)) = &mut frame.body else { unreachable!() };
            reader.poll(poll);
            writer.write(&frame).unwrap();
        };
        (0..WARM).for_each(|_| poll());
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..100).for_each(|_| poll());
        let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(made, 0, "{scenario} {options:?}: 100 polls allocate {made} times");
    }
}
