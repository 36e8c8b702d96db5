//! The records of a shard: `job` describes the job, and each rank has a record with everything about it except the bytes
//! of its memory.

use crate::{Error, Result, rank::SavedPair, slot::Program};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;

/// The record of the job. Only shards of ranks have it.
pub(super) const JOB: &str = "job";

/// Changes with the records, with a rank's stack at the gate, and with the structures of the gate.
const VERSION: u8 = 3;
const MAGIC: [u8; 8] = *b"mainrank";

/// The name of a rank's record.
pub(super) fn record_name(rank: u32) -> String {
    format!("v{rank}")
}

/// The rank whose record has this name.
pub(super) fn rank_of(name: &str) -> Option<u32> {
    name.strip_prefix('v')?.parse().ok()
}

/// The facts about the job that all processes share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// The number of ranks; 0: the job has ended.
    pub ranks: u64,
    /// The program and its arguments, each ended by NUL.
    #[serde(with = "serde_bytes")]
    pub arguments: Vec<u8>,
    /// The features of the processor: the C library of a rank has chosen its functions by them.
    processor: [u64; 3],
    /// If the job has ended: files of this process's ranks that may still have a second name.
    pub lost: Vec<Vec<u8>>,
}

impl JobRecord {
    pub fn new(ranks: usize, program: &Program) -> JobRecord {
        let arguments = program.arguments.iter().flat_map(|one| [one.as_bytes(), b"\0"].concat()).collect();
        JobRecord { ranks: ranks as u64, arguments, processor: processor(), lost: Vec::new() }
    }

    /// The record of a job that has ended.
    pub fn of_end(program: &Program, lost: Vec<Vec<u8>>) -> JobRecord {
        JobRecord { lost, ..JobRecord::new(0, program) }
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = [&MAGIC[..], &[VERSION]].concat();
        bytes.extend(encoded(self)?);
        Ok(bytes)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<JobRecord> {
        let rest = bytes.strip_prefix(&MAGIC[..]).ok_or_else(foreign)?;
        match rest.split_first() {
            Some((&VERSION, rest)) => postcard::from_bytes(rest).map_err(|_| foreign()),
            _ => Err(Error::Refused(
                "the ranks were saved by another version of Mainstay; go on with that, or name another space"
                    .to_owned(),
            )),
        }
    }

    /// Refuses a processor on which the ranks could not go on.
    pub fn check_processor(&self) -> Result<()> {
        if self.processor == processor() {
            return Ok(());
        }
        let advice =
            "go on on the same kind of machine, or start with GLIBC_TUNABLES=glibc.cpu.hwcaps=... that both have";
        Err(Error::Refused(format!("this processor has other features than the one that saved the ranks; {advice}")))
    }
}

pub(super) fn foreign() -> Error {
    Error::Refused("the space holds revisions that are not of ranks in slots; name another space".to_owned())
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| Error::Refused(format!("a record of ranks: {error}")))
}

pub(crate) fn pair_to_bytes(pair: &SavedPair) -> Result<Vec<u8>> {
    encoded(pair)
}

pub(crate) fn pair_from_bytes(bytes: &[u8]) -> Result<SavedPair> {
    postcard::from_bytes(bytes).map_err(|error| Error::Refused(format!("the record of a rank cannot be read: {error}")))
}

/// The features that the dynamic loader and the C library look at.
fn processor() -> [u64; 3] {
    use std::arch::x86_64::__cpuid_count;
    let (basic, extended) = (__cpuid_count(1, 0), __cpuid_count(7, 0));
    // Without the bits for features that the kernel has switched on.
    const SWITCHED: u32 = 1 << 27;
    const PROTECTION_KEYS: u32 = 1 << 4;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [pair(basic.ecx & !SWITCHED, basic.edx), pair(extended.ebx, extended.ecx & !PROTECTION_KEYS), extended.edx.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_another_processor_are_refused() {
        let mut record = JobRecord { ranks: 1, arguments: Vec::new(), processor: processor(), lost: Vec::new() };
        assert!(record.check_processor().is_ok());
        record.processor[1] ^= 1 << 5;
        let again = JobRecord::from_bytes(&record.to_bytes().unwrap()).unwrap();
        let Err(Error::Refused(why)) = again.check_processor() else { panic!("{again:?}") };
        assert!(why.contains("this processor has other features than the one that saved the ranks"), "{why}");
    }
}
