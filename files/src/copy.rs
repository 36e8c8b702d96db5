//! Copies a staged file to its target past the page cache, by several threads, and hashes its blocks on the way.

use mainstay_format::{BLOCK, HASH_BYTES, hash};
use rustix::{
    fs::{OFlags, SeekFrom, seek},
    io::Errno,
};
use std::{
    fs::{File, OpenOptions},
    io, iter,
    num::NonZero,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// Bytes that a thread moves at a time.
pub const PIECE: usize = 4 << 20;
/// More threads gain nothing on one disk, and take processors from the program.
const THREADS_MAX: usize = 4;

/// Number of blocks in `bytes` bytes. The last may be shorter.
pub fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK as u64)
}

/// The hashes of all blocks of `file`.
pub fn hash_all(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    walk(bytes, |at, piece| file.read_exact_at(piece, at))
}

/// A file with more parts than this counts as one part.
const PARTS_MAX: usize = 4096;

/// The parts of a file between its holes, in their order.
pub fn parts(file: &File) -> io::Result<Vec<Range<u64>>> {
    let found = file.metadata()?;
    let bytes = found.len();
    let all = || iter::once(0..bytes).collect();
    if found.blocks() * 512 >= bytes {
        return Ok(all());
    }
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < bytes && parts.len() <= PARTS_MAX {
        let begin = match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            // The file system has no holes.
            Err(_) => return Ok(all()),
            Ok(begin) => begin,
        };
        at = seek(file, SeekFrom::Hole(begin))?.min(bytes);
        parts.push(begin..at);
    }
    Ok(if parts.len() > PARTS_MAX { all() } else { parts })
}

/// The ranges of `piece`, which begins at `at`, that lie in `parts`.
fn of_piece(parts: &[Range<u64>], at: u64, piece: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let end = at + piece.len() as u64;
    let first = parts.partition_point(|part| part.end <= at);
    let inside = parts[first..].iter().take_while(move |part| part.start < end);
    inside.map(move |part| (part.start.max(at) - at) as usize..(part.end.min(end) - at) as usize)
}

fn write_parts(to: &File, parts: &[Range<u64>], at: u64, piece: &[u8]) -> io::Result<()> {
    of_piece(parts, at, piece).try_for_each(|part| to.write_all_at(&piece[part.clone()], at + part.start as u64))
}

/// Copies `bytes` bytes of `from` to the file at `to`, syncs it, and returns the hashes of all blocks. The room of `to` is
/// set aside already. The holes of `from` stay holes.
pub fn carry(from: &File, to: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let cached = OpenOptions::new().write(true).open(to)?;
    // Some file systems have no direct writes.
    let direct = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(to).ok();
    let parts = parts(from)?;
    let hashes = walk(bytes, |at, piece| {
        from.read_exact_at(piece, at)?;
        let is_whole = of_piece(&parts, at, piece).next() == Some(0..piece.len());
        let is_aligned = is_whole && piece.len().is_multiple_of(BLOCK);
        match direct.as_ref().filter(|_| is_aligned).map(|direct| direct.write_all_at(piece, at)) {
            Some(Err(error)) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
            Some(Ok(())) => Ok(()),
            // The last bytes of the file, a piece with holes, or a file system with other rules.
            _ => write_parts(&cached, &parts, at, piece),
        }
    })?;
    cached.set_len(bytes)?;
    // Syncing one descriptor is enough: both are one file to the kernel.
    cached.sync_all()?;
    Ok(hashes)
}

/// Copies `from` to `to`, an empty file in memory. Holes stay holes.
pub fn fill(from: &File, to: &File) -> io::Result<()> {
    let bytes = from.metadata()?.len();
    let parts = parts(from)?;
    walk(bytes, |at, piece| {
        from.read_exact_at(piece, at)?;
        write_parts(to, &parts, at, piece)
    })?;
    to.set_len(bytes)
}

/// Calls `fill` in several threads, for each piece of a file, and hashes the bytes.
fn walk(bytes: u64, fill: impl Fn(u64, &mut [u8]) -> io::Result<()> + Sync) -> io::Result<Vec<u8>> {
    let next = AtomicU64::new(0);
    let pieces = bytes.div_ceil(PIECE as u64);
    let work = || -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut buffer = Aligned::new();
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= pieces {
                return Ok(done);
            }
            let from = at * PIECE as u64;
            let piece = buffer.first((bytes - from).min(PIECE as u64) as usize);
            fill(from, piece)?;
            done.push((at, piece.chunks(BLOCK).flat_map(hash).collect()));
        }
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(THREADS_MAX).min(pieces as usize).max(1);
    let mut parts = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut parts = work();
        for other in others {
            let other = other.join().unwrap_or_else(|_| Err(io::Error::other("a thread that copies has ended")));
            parts = parts.and_then(|mut parts| {
                parts.extend(other?);
                Ok(parts)
            });
        }
        parts
    })?;
    parts.sort_unstable_by_key(|(at, _)| *at);
    let hashes: Vec<u8> = parts.into_iter().flat_map(|(_, hashes)| hashes).collect();
    debug_assert_eq!(hashes.len() as u64, blocks(bytes) * HASH_BYTES as u64);
    Ok(hashes)
}

/// A buffer that begins at a multiple of a block: direct writes need that.
struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
}

impl Aligned {
    fn new() -> Aligned {
        let bytes = vec![0; PIECE + BLOCK];
        let begin = bytes.as_ptr().align_offset(BLOCK);
        Aligned { bytes, begin }
    }

    fn first(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_copy_has_the_same_bytes_and_hashes_whatever_its_length() {
        let (memory, disk) = (tempfile::tempdir_in("/dev/shm").unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (memory.path().join("from"), disk.path().join("to"));
        for bytes in [0, 1, BLOCK - 1, BLOCK, 3 * PIECE, 3 * PIECE + BLOCK + 5] {
            let content: Vec<u8> = (0..bytes).map(|at| ((at * 2_654_435_761) >> 7) as u8).collect();
            fs::write(&from, &content).unwrap();
            fs::write(&to, b"longer than nothing").unwrap();
            let hashes = carry(&File::open(&from).unwrap(), &to, bytes as u64).unwrap();
            assert!(fs::read(&to).unwrap() == content, "{bytes}");
            let expected: Vec<u8> = content.chunks(BLOCK).flat_map(hash).collect();
            assert!(hashes == expected, "{bytes}");
        }
    }

    #[test]
    fn holes_stay_holes_and_each_byte_has_its_place() {
        let (memory, disk) = (tempfile::tempdir_in("/dev/shm").unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (memory.path().join("from"), disk.path().join("to"));
        let file = File::create(&from).unwrap();
        file.set_len((4 * PIECE + 5) as u64).unwrap();
        for (at, bytes) in [(PIECE - 3, BLOCK), (2 * PIECE, PIECE), (4 * PIECE + 2, 3)] {
            file.write_all_at(&vec![7; bytes], at as u64).unwrap();
        }
        fs::write(&to, b"").unwrap();
        let content = fs::read(&from).unwrap();
        let hashes = carry(&File::open(&from).unwrap(), &to, content.len() as u64).unwrap();
        assert!(fs::read(&to).unwrap() == content);
        assert!(hashes == content.chunks(BLOCK).flat_map(hash).collect::<Vec<u8>>());
        assert!(fs::metadata(&to).unwrap().blocks() * 512 < 2 * PIECE as u64);
    }
}
