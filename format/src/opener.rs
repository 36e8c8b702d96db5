//! The opener of a space: a block of the lock file, overwritten by each process that locks the space. A damaged block
//! counts as missing.

use super::{
    BLOCK, VERSION,
    hash::{is_sealed, sealed},
    text::{text_field, text_of},
};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

const MAGIC: [u8; 8] = *b"MSTYOPEN";
const HOST_BYTES_MAX: usize = 256;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OpenerRecord {
    magic: [u8; 8],
    version: U32,
    process: U32,
    since_unix_ns: U64,
    host_bytes: U32,
    host: [u8; HOST_BYTES_MAX],
    reserved: [u8; 3796],
    hash: [u8; 16],
}

const _: () = assert!(size_of::<OpenerRecord>() == BLOCK);

/// The process that has a space open: rank 0 of a job, or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    pub host: String,
    pub process: u32,
    pub since_unix_ns: u64,
}

impl Opener {
    pub fn build(&self) -> [u8; BLOCK] {
        let (host_bytes, host) = text_field(&self.host);
        let record = OpenerRecord {
            magic: MAGIC,
            version: VERSION.into(),
            process: self.process.into(),
            since_unix_ns: self.since_unix_ns.into(),
            host_bytes: host_bytes.into(),
            host,
            reserved: [0; 3796],
            hash: [0; 16],
        };
        sealed(zerocopy::transmute!(record))
    }

    pub fn parse(block: &[u8; BLOCK]) -> Option<Opener> {
        let record: &OpenerRecord = zerocopy::transmute_ref!(block);
        let whole = record.magic == MAGIC && is_sealed(block) && record.version.get() <= VERSION;
        let host = text_of(record.host_bytes.get(), &record.host).filter(|_| whole)?;
        Some(Opener { host, process: record.process.get(), since_unix_ns: record.since_unix_ns.get() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opener_is_read_as_written_and_not_otherwise() {
        let opener = Opener { host: "n1.example".to_owned(), process: 7, since_unix_ns: 12 };
        assert_eq!(Opener::parse(&opener.build()), Some(opener.clone()));
        for at in [0, 9, 13, 24, 30, 300, 4095] {
            let mut block = opener.build();
            block[at] ^= 1;
            assert_eq!(Opener::parse(&block), None, "byte {at}");
        }
        assert_eq!(Opener::parse(&[0; BLOCK]), None);
    }
}
