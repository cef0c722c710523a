//! Pages too large to be built for each scrape: cached compressed, sent as they are or as gzip.
//!
//! A response is the daemon's own metrics, made anew each time, and behind them a large part that changes at
//! known moments only. Both are pieces of one gzip member (RFC 1952): raw deflate that ends at a byte is put
//! together without compressing again, and the check sums are combined.

use crate::Format;
use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};
use std::sync::Arc;

/// Speed before size: a page is compressed once a sweep, within the time of a scrape.
const LEVEL: Compression = Compression::fast();
/// Room that is added to an output buffer at once.
const STEP_BYTES: usize = 64 << 10;
/// Gzip header: deflate, no name, no time, unknown system (RFC 1952, 2.3).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty last block with fixed codes (RFC 1951, 3.2.6), which ends a deflate stream.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Text as raw deflate that ends at a byte and is not the last block.
#[derive(Debug, Default)]
pub struct Piece {
    deflated: Vec<u8>,
    sum: Crc,
    text_bytes: usize,
}

/// A piece in the making: text goes in bit by bit and is never there as a whole.
#[derive(Debug)]
pub struct PieceWriter {
    compress: Compress,
    piece: Piece,
}

impl Default for PieceWriter {
    fn default() -> PieceWriter {
        PieceWriter { compress: Compress::new(LEVEL, false), piece: Piece::default() }
    }
}

impl PieceWriter {
    /// Appends text; best in parts of some kilobytes.
    pub fn push(&mut self, text: &str) {
        self.piece.sum.update(text.as_bytes());
        self.piece.text_bytes += text.len();
        self.deflate(text.as_bytes(), FlushCompress::None);
    }

    /// The piece.
    #[must_use]
    pub fn finish(mut self) -> Piece {
        self.deflate(&[], FlushCompress::Sync);
        self.piece.deflated.shrink_to_fit();
        self.piece
    }

    fn deflate(&mut self, mut rest: &[u8], flush: FlushCompress) {
        let deflated = &mut self.piece.deflated;
        loop {
            deflated.reserve(STEP_BYTES);
            let before = self.compress.total_in();
            // Into a growing buffer: without one there is no error to be had (zlib's Z_STREAM_ERROR is one of
            // parameters).
            let done = self.compress.compress_vec(rest, deflated, flush);
            rest = &rest[(self.compress.total_in() - before) as usize..];
            // A flush is complete when it leaves room in the output.
            if done.is_err() || rest.is_empty() && deflated.len() < deflated.capacity() {
                break;
            }
        }
    }
}

impl Piece {
    /// Compresses a text.
    #[must_use]
    pub fn new(text: &str) -> Piece {
        let mut writer = PieceWriter::default();
        writer.push(text);
        writer.finish()
    }

    /// Appends the text again.
    pub fn append_text(&self, text: &mut Vec<u8>) {
        text.reserve_exact(self.text_bytes + 1);
        let end = text.len() + self.text_bytes;
        let mut decompress = Decompress::new(false);
        let mut rest = self.deflated.as_slice();
        while text.len() < end {
            let (before, had) = (decompress.total_in(), text.len());
            text.reserve(1);
            let done = decompress.decompress_vec(rest, text, FlushDecompress::Sync);
            rest = &rest[(decompress.total_in() - before) as usize..];
            // What this module compressed comes back whole; a loop that does not move must end all the same.
            if !matches!(done, Ok(Status::Ok | Status::StreamEnd)) || text.len() == had && rest.is_empty() {
                break;
            }
        }
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.deflated.len()
    }

    /// Bytes of its text.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }
}

/// Pieces as one gzip member.
#[must_use]
pub fn gzip(pieces: &[&Piece]) -> Vec<u8> {
    let length: usize = pieces.iter().map(|piece| piece.deflated.len()).sum();
    let mut out = Vec::with_capacity(length + HEADER.len() + LAST_BLOCK.len() + 8);
    out.extend_from_slice(&HEADER);
    let mut sum = Crc::new();
    for piece in pieces {
        out.extend_from_slice(&piece.deflated);
        sum.combine(&piece.sum);
    }
    out.extend_from_slice(&LAST_BLOCK);
    out.extend_from_slice(&sum.sum().to_le_bytes());
    out.extend_from_slice(&sum.amount().to_le_bytes());
    out
}

/// What a scraper requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrape {
    /// The format that it reads.
    pub format: Format,
    /// Parameters of the query, decoded, in their order.
    pub query: Vec<(String, String)>,
}

/// A part of a page that is too large to be built for each scrape.
pub trait LargeMetrics: Send + Sync {
    /// The text that holds now: whole families, no end mark. The second value says whether the daemon's own
    /// metrics belong on the same page.
    ///
    /// # Errors
    /// Why the query can't be answered, for the scraper: status 400.
    fn render(&self, scrape: &Scrape) -> Result<(Arc<Piece>, bool), String>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn pieces_are_one_gzip_member() {
        let long: String = (0..200_000).map(|i| format!("series{{port=\"{}\"}} {i}\n", i % 40)).collect();
        let texts = ["a\nb\n", "", long.as_str(), "# EOF\n"];
        let pieces: Vec<Piece> = texts.iter().map(|text| Piece::new(text)).collect();
        for (piece, text) in pieces.iter().zip(texts) {
            let mut back = b"before ".to_vec();
            piece.append_text(&mut back);
            assert!(back == ["before ", text].concat().as_bytes());
        }
        let mut writer = PieceWriter::default();
        long.split_inclusive('\n').for_each(|line| writer.push(line));
        let (mut back, piece) = (Vec::new(), writer.finish());
        piece.append_text(&mut back);
        assert!(back == long.as_bytes() && piece.bytes() < long.len() / 5, "bit by bit");
        let packed = gzip(&pieces.iter().collect::<Vec<_>>());
        assert!(packed.len() < long.len() / 5);
        let mut text = String::new();
        // One member only: what does not belong to it would be left.
        let mut reader = flate2::read::GzDecoder::new(packed.as_slice());
        reader.read_to_string(&mut text).unwrap();
        assert!(text == texts.concat());
        assert!(reader.into_inner().is_empty());
    }
}
