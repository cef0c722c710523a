//! Steps of MPI-IO, in one file of all ranks that is as long as FILE_BYTES.

use super::generator::*;
use super::language::Arg;

pub const FILE_BYTES: i64 = 8 << 20;
const TAIL: i64 = 10;
/// Each rank's part: what all write together must not overlap.
const OWN_BYTES: i64 = 1 << 16;

/// A counted operation on the file: `at` with an offset.
fn arguments(size: Size, at: bool, buffer: Arg, last: Option<Arg>) -> Vec<Arg> {
    let mut list = vec![Arg::File];
    if at {
        list.push(Arg::Offset(2 << 20, OWN_BYTES));
    }
    list.extend([buffer, size.count(WORLD), Arg::Type(size.kind)]);
    list.extend(last);
    list
}

fn written(g: &mut Generator, name: &str, size: Size) {
    for member in g.members(WORLD) {
        let bytes = size.bytes(member.rank);
        g.model.call(member.world(), name, bytes, bytes);
    }
}

fn read(g: &mut Generator, name: &str, size: Size) {
    for member in g.members(WORLD) {
        let bytes = size.bytes(member.rank);
        g.model.call(member.world(), name, bytes, 0);
        g.model.received(member.world(), name, bytes, bytes);
    }
}

fn blocking(g: &mut Generator) {
    let names = [
        ("File_write", "File_read", false),
        ("File_write_all", "File_read_all", false),
        ("File_write_at", "File_read_at", true),
        ("File_write_at_all", "File_read_at_all", true),
        ("File_write_shared", "File_read_shared", false),
        ("File_write_ordered", "File_read_ordered", false),
    ];
    for (write, other, at) in names {
        let size = g.whole();
        let status = g.status(0);
        g.emit(write, true, arguments(size, at, Arg::Out, Some(status)));
        written(g, write, size);
        let status = g.status(0);
        g.emit(other, true, arguments(size, at, Arg::In, Some(status)));
        read(g, other, size);
        g.end_step(WORLD);
    }
}

fn immediate(g: &mut Generator) {
    let names = [
        ("File_iwrite", "File_iread", false),
        ("File_iwrite_all", "File_iread_all", false),
        ("File_iwrite_at", "File_iread_at", true),
        ("File_iwrite_at_all", "File_iread_at_all", true),
        ("File_iwrite_shared", "File_iread_shared", false),
    ];
    for (write, other, at) in names {
        let size = g.whole();
        g.emit(write, true, arguments(size, at, Arg::Out, Some(Arg::Request(0))));
        written(g, write, size);
        g.complete_file();
        g.emit(other, true, arguments(size, at, Arg::In, Some(Arg::Request(0))));
        read(g, other, size);
        g.complete_file();
        g.end_step(WORLD);
    }
}

fn split(g: &mut Generator) {
    let names = [
        ["File_write_all_begin", "File_write_all_end", "File_read_all_begin", "File_read_all_end"],
        [
            "File_write_at_all_begin",
            "File_write_at_all_end",
            "File_read_at_all_begin",
            "File_read_at_all_end",
        ],
        [
            "File_write_ordered_begin",
            "File_write_ordered_end",
            "File_read_ordered_begin",
            "File_read_ordered_end",
        ],
    ];
    for [write, written_end, other, other_end] in names {
        let (size, at) = (g.whole(), write.contains("_at_"));
        g.emit(write, true, arguments(size, at, Arg::Out, None));
        written(g, write, size);
        let status = g.status(0);
        g.emit(written_end, false, vec![Arg::File, Arg::Out, status]);
        g.timed(WORLD, written_end, 1);
        g.emit(other, true, arguments(size, at, Arg::In, None));
        let status = g.status(0);
        g.emit(other_end, false, vec![Arg::File, Arg::In, status]);
        for member in g.members(WORLD) {
            let bytes = size.bytes(member.rank);
            g.model.call(member.world(), other, bytes, 0);
            g.model.timed(member.world(), other_end, 1);
            g.model.received(member.world(), other_end, 0, bytes);
        }
        g.end_step(WORLD);
    }
}

/// Through a view: each rank's part in pieces of two integers with three between them.
fn views(g: &mut Generator) {
    let view = |g: &mut Generator, from: Arg, element: usize, pieces: usize| {
        let list = vec![
            Arg::File,
            from,
            Arg::Type(element),
            Arg::Type(pieces),
            Arg::Name("\"native\""),
            Arg::Name("MPI_INFO_NULL"),
        ];
        g.emit("File_set_view", false, list);
    };
    view(g, Arg::Offset(2 << 20, OWN_BYTES), 1, 3);
    for (write, other) in [("File_write", "File_read"), ("File_write_all", "File_read_all")] {
        let size = Size { kind: 1, ..g.whole() };
        for (name, buffer) in [(write, Arg::Out), (other, Arg::In)] {
            let status = g.status(0);
            g.emit("File_seek", false, vec![Arg::File, Arg::Offset(0, 0), Arg::Name("MPI_SEEK_SET")]);
            g.emit(name, true, arguments(size, false, buffer, Some(status)));
        }
        written(g, write, size);
        read(g, other, size);
    }
    view(g, Arg::Offset(0, 0), 0, 0);
    g.end_step(WORLD);
}

pub fn all(g: &mut Generator) {
    let alone = |name: &'static str, more: Vec<Arg>, g: &mut Generator| {
        g.emit(name, false, more);
        g.timed(WORLD, name, 1);
    };
    let open =
        vec![Arg::Comm(WORLD), Arg::FileName, Arg::Name("mode"), Arg::Name("MPI_INFO_NULL"), Arg::FileSet];
    alone("File_open", open, g);
    alone("File_set_size", vec![Arg::File, Arg::Offset(FILE_BYTES, 0)], g);
    alone("File_preallocate", vec![Arg::File, Arg::Offset(1 << 16, 0)], g);
    g.emit("File_seek", false, vec![Arg::File, Arg::Offset(4 << 20, OWN_BYTES), Arg::Name("MPI_SEEK_SET")]);
    g.end_step(WORLD);
    blocking(g);
    immediate(g);
    split(g);
    views(g);
    // The file ends within what is requested.
    let offset = Arg::Offset(FILE_BYTES - TAIL, 0);
    let status = g.status(0);
    alone("File_sync", vec![Arg::File], g);
    g.emit(
        "File_read_at",
        true,
        vec![Arg::File, offset, Arg::In, Arg::Elements(BLOCK), Arg::Type(0), status],
    );
    for member in g.members(WORLD) {
        g.model.call(member.world(), "File_read_at", bytes(0, BLOCK), 0);
        g.model.received(member.world(), "File_read_at", bytes(0, BLOCK), bytes(0, TAIL));
    }
    g.barrier(WORLD);
    alone("File_close", vec![Arg::FileSet], g);
    g.end_step(WORLD);
}
