//! The manifest of a generation: a hash of each block of 4 KiB, to find damage. docs/format.md has its bytes.

use crate::{
    copy::{PIECE, blocks},
    file::open_plain,
    stage::Id,
};
use mainstay_format::{BLOCK, HASH_BYTES, Hashing, hash};
use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::SystemTime,
};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout,
    little_endian::{U32, U64},
};

const MAGIC: [u8; 8] = *b"MSTYFILE";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = size_of::<Header>() as u64;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    block_bytes: U32,
    bytes: U64,
    id: U64,
}

const _: () = assert!(size_of::<Header>() == 32);

/// Writes the manifest of the staged file `id` of `bytes` bytes, modified at that time, to `path`, durably.
pub fn write(path: &Path, id: Id, bytes: u64, modified: SystemTime, hashes: &[u8]) -> io::Result<()> {
    assert_eq!(hashes.len() as u64, blocks(bytes) * HASH_BYTES as u64, "a hash for each block");
    let header = Header {
        magic: MAGIC,
        version: VERSION.into(),
        block_bytes: (BLOCK as u32).into(),
        bytes: bytes.into(),
        id: id.number().into(),
    };
    let mut sum = Hashing::default();
    sum.add(header.as_bytes());
    sum.add(hashes);
    let mut file = File::create(path)?;
    file.write_all(header.as_bytes())?;
    file.write_all(hashes)?;
    file.write_all(&sum.hash())?;
    file.set_modified(modified)?;
    file.sync_all()
}

/// An open manifest with a good length, bounds and checksum.
pub struct Manifest {
    file: File,
    bytes: u64,
    id: u64,
}

impl Manifest {
    /// Opens the manifest at `path`. Reads it in pieces: a wrong length in it must not take more memory.
    pub fn open(path: &Path) -> io::Result<Manifest> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its manifest is damaged");
        let file = open_plain(path)?;
        let found = file.metadata()?;
        let mut header = Header::read_from_bytes(&[0; size_of::<Header>()]).map_err(|_| damaged())?;
        file.read_exact_at(header.as_mut_bytes(), 0).map_err(|_| damaged())?;
        let bytes = header.bytes.get();
        let sums = blocks(bytes).checked_mul(HASH_BYTES as u64).ok_or_else(damaged)?;
        let end = sums.checked_add(HEADER_BYTES).ok_or_else(damaged)?;
        // A sparse file may claim any length with few blocks on the disk.
        let is_sparse = found.blocks().saturating_mul(512) + (1 << 20) < found.len();
        let is_known = header.magic == MAGIC && header.version == VERSION && header.block_bytes == BLOCK as u32;
        if !is_known || is_sparse || !found.is_file() || found.len() != end + HASH_BYTES as u64 {
            return Err(damaged());
        }
        let (mut sum, mut at) = (Hashing::default(), 0);
        let mut piece = vec![0; PIECE.min(end as usize)];
        while at < end {
            let piece = &mut piece[..(end - at).min(PIECE as u64) as usize];
            file.read_exact_at(piece, at)?;
            sum.add(piece);
            at += piece.len() as u64;
        }
        let mut stored = [0; HASH_BYTES];
        file.read_exact_at(&mut stored, end)?;
        if stored != sum.hash() {
            return Err(damaged());
        }
        Ok(Manifest { file, bytes, id: header.id.get() })
    }

    /// Whether this is the manifest of the staged file `id`.
    pub fn is_of(&self, id: Id) -> bool {
        self.id == id.number()
    }

    /// The time of its file's last modification by Mainstay, or by a program that changed no byte.
    pub fn modified(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    pub fn set_modified(&self, modified: SystemTime) -> io::Result<()> {
        self.file.set_modified(modified)
    }

    /// Compares the file with the hashes. `false`: it is damaged.
    pub fn fits(&self, file: &File) -> io::Result<bool> {
        let found = file.metadata()?;
        if !found.is_file() || found.len() != self.bytes {
            return Ok(false);
        }
        let mut piece = vec![0; PIECE.min(self.bytes as usize)];
        let mut at = 0;
        while at < self.bytes {
            let piece = &mut piece[..(self.bytes - at).min(PIECE as u64) as usize];
            match file.read_exact_at(piece, at) {
                // The medium has lost these bytes, or a program is changing the file.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EIO) | None) => return Ok(false),
                read => read?,
            }
            let mut hashes = vec![0; blocks(piece.len() as u64) as usize * HASH_BYTES];
            self.file.read_exact_at(&mut hashes, HEADER_BYTES + at / BLOCK as u64 * HASH_BYTES as u64)?;
            let same = piece.chunks(BLOCK).zip(hashes.chunks(HASH_BYTES)).all(|(block, sum)| hash(block) == *sum);
            if !same {
                return Ok(false);
            }
            at += piece.len() as u64;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy;
    use std::fs;

    #[test]
    fn a_flipped_bit_in_the_file_or_in_the_manifest_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (path, manifest) = (folder.path().join("file"), folder.path().join("hashes"));
        for bytes in [0_usize, 1, 4096, 4097, 100_000] {
            let content: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
            fs::write(&path, &content).unwrap();
            let file = File::open(&path).unwrap();
            let hashes = copy::hash_all(&file, bytes as u64).unwrap();
            write(&manifest, Id::after(None, 1), bytes as u64, SystemTime::now(), &hashes).unwrap();
            assert!(Manifest::open(&manifest).unwrap().fits(&file).unwrap());
            for at in [0, bytes / 2, bytes.saturating_sub(1)].into_iter().filter(|at| *at < bytes) {
                let mut flipped = content.clone();
                flipped[at] ^= 4;
                fs::write(&path, flipped).unwrap();
                assert!(!Manifest::open(&manifest).unwrap().fits(&File::open(&path).unwrap()).unwrap(), "{bytes} {at}");
            }
            let whole = fs::read(&manifest).unwrap();
            for at in 0..whole.len().min(200) {
                let mut flipped = whole.clone();
                flipped[at] ^= 1;
                fs::write(&manifest, flipped).unwrap();
                assert!(Manifest::open(&manifest).is_err(), "{bytes} {at}");
            }
            for cut in [0, 5, whole.len() - 1] {
                fs::write(&manifest, &whole[..cut]).unwrap();
                assert!(Manifest::open(&manifest).is_err());
            }
        }
    }

    #[test]
    fn a_sparse_manifest_of_great_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hashes");
        write(&path, Id::after(None, 1), 0, SystemTime::now(), &[]).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let bytes: u64 = 1 << 50;
        file.write_all_at(&bytes.to_le_bytes(), 16).unwrap();
        file.set_len(HEADER_BYTES + blocks(bytes) * 16 + 16).unwrap();
        assert!(Manifest::open(&path).is_err());
    }
}
