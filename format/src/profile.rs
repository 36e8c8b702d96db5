//! One rank's work in a checkpoint, as sizes of pieces and writes; the classes are those of paper 000, Figure 2.

use super::PoolBound;
use super::{Refusal, damaged, sections::Sections};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Classes of sizes.
pub const SIZE_CLASSES: usize = 10;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ClassRecord {
    count: U64,
    bytes: U64,
    time_ns: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ProfileRecord {
    node: U32,
    stage: u8,
    pool_bound: u8,
    keep: U16,
    pool_bytes: U64,
    chunk_bytes: U64,
    threshold_bytes: U64,
    pieces: [ClassRecord; SIZE_CLASSES],
    writes: [ClassRecord; SIZE_CLASSES],
}

const _: () = assert!(size_of::<ClassRecord>() == 24 && size_of::<ProfileRecord>() == 512);

/// Count, bytes and time of the pieces or writes in one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeClass {
    pub count: u64,
    pub bytes: u64,
    pub time_ns: u64,
}

impl SizeClass {
    /// Values may come from a file: additions saturate.
    fn add(&mut self, other: &SizeClass) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }
}

/// Pieces or writes by class of size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    pub classes: [SizeClass; SIZE_CLASSES],
}

impl Histogram {
    /// Each class has the sizes below its limit, from the previous limit on; the last class has no limit.
    pub const LIMITS: [u64; SIZE_CLASSES - 1] =
        [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20];

    /// The class of a size.
    pub fn class_of(bytes: u64) -> usize {
        Self::LIMITS.partition_point(|limit| *limit <= bytes)
    }

    /// Counts one piece or write.
    pub fn note(&mut self, bytes: u64, elapsed: Duration) {
        let time_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.classes[Self::class_of(bytes)].add(&SizeClass { count: 1, bytes, time_ns });
    }

    /// Counts pieces or writes that took `elapsed` together; each gets a share of the time by its bytes.
    pub fn note_together(&mut self, pieces: impl Iterator<Item = u64>, elapsed: Duration) {
        let mut together = Histogram::default();
        pieces.for_each(|bytes| together.note(bytes, Duration::ZERO));
        let all = u128::from(together.total().bytes).max(1);
        for class in &mut together.classes {
            let time_ns = elapsed.as_nanos().saturating_mul(class.bytes.into()) / all;
            class.time_ns = u64::try_from(time_ns).unwrap_or(u64::MAX);
        }
        self.add(&together);
    }

    pub fn add(&mut self, other: &Histogram) {
        self.classes.iter_mut().zip(&other.classes).for_each(|(class, more)| class.add(more));
    }

    /// The sum of all classes.
    pub fn total(&self) -> SizeClass {
        let mut total = SizeClass::default();
        self.classes.iter().for_each(|class| total.add(class));
        total
    }

    fn records(&self) -> [ClassRecord; SIZE_CLASSES] {
        self.classes.map(|class| ClassRecord {
            count: class.count.into(),
            bytes: class.bytes.into(),
            time_ns: class.time_ns.into(),
        })
    }

    fn of(records: &[ClassRecord; SIZE_CLASSES]) -> Histogram {
        let class = |r: ClassRecord| SizeClass { count: r.count.get(), bytes: r.bytes.get(), time_ns: r.time_ns.get() };
        Histogram { classes: records.map(class) }
    }
}

/// How the changed parts of the regions were found, if only those were written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundBy {
    /// Changes were not detected: everything was written.
    #[default]
    Nothing,
    Hashes,
    Pages,
}

impl FoundBy {
    const ALL: [(FoundBy, &'static str); 3] =
        [(FoundBy::Nothing, ""), (FoundBy::Hashes, "hashes"), (FoundBy::Pages, "pages")];

    /// Empty if everything was written.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A code of a newer build counts as unknown.
    fn of_code(code: u8) -> FoundBy {
        Self::ALL.get(usize::from(code)).map(|(found_by, _)| *found_by).unwrap_or_default()
    }
}

/// How the bytes of the regions were copied, if a snapshot was requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopiedBy {
    /// No snapshot was requested.
    #[default]
    Unasked,
    /// By the program before it went on: the state was small, or no snapshot could be taken.
    Program,
    /// By a clone of the program, while the program went on; memory that Mainstay allocated, under protection.
    Clone,
    /// Under write protection, while the program went on.
    Protection,
}

impl CopiedBy {
    const ALL: [(CopiedBy, &'static str); 4] = [
        (CopiedBy::Unasked, ""),
        (CopiedBy::Program, "program"),
        (CopiedBy::Clone, "clone"),
        (CopiedBy::Protection, "protection"),
    ];

    /// Empty if no snapshot was requested.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn of_code(code: u8) -> CopiedBy {
        Self::ALL[usize::from(code & 3)].0
    }
}

/// How one rank's part of a checkpoint was staged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The lowest rank on the node.
    pub node: u32,
    /// `Stage` as a number.
    pub stage: u8,
    /// How the changes were found.
    pub found_by: FoundBy,
    /// How the regions were copied.
    pub copied_by: CopiedBy,
    /// Number of complete revisions that the job kept; `None` in revisions of builds that did not record it.
    pub keep: Option<u16>,
    /// The pool of the node, and its chunks.
    pub pool_bytes: u64,
    pub chunk_bytes: u64,
    /// The limit that kept the pool from being larger.
    pub pool_bound: PoolBound,
    /// Size from which pieces bypassed the buffer; `None` for a stage without a threshold, and in revisions of builds
    /// that did not record it.
    pub threshold_bytes: Option<u64>,
    /// The program's data: its calls of `write`, and its regions.
    pub pieces: Histogram,
    /// Writes to the space before the shard was published.
    pub writes: Histogram,
}

impl Profile {
    /// Names of the stages, by number.
    pub const STAGES: [&str; 4] = ["pool", "direct", "node", "rank"];
    /// Its bytes in a manifest.
    pub(super) const BYTES: u64 = size_of::<ProfileRecord>() as u64;

    pub fn stage_name(&self) -> &'static str {
        Self::STAGES.get(usize::from(self.stage)).copied().unwrap_or("unknown")
    }

    pub(super) fn build(&self) -> Vec<u8> {
        debug_assert!(usize::from(self.stage) < Self::STAGES.len(), "stage {} has no name", self.stage);
        let record = ProfileRecord {
            node: self.node.into(),
            stage: self.stage,
            pool_bound: self.pool_bound.code() | (self.found_by as u8) << 4 | (self.copied_by as u8) << 6,
            keep: self.keep.unwrap_or(0).into(),
            pool_bytes: self.pool_bytes.into(),
            chunk_bytes: self.chunk_bytes.into(),
            threshold_bytes: self.threshold_bytes.unwrap_or(0).into(),
            pieces: self.pieces.records(),
            writes: self.writes.records(),
        };
        record.as_bytes().to_vec()
    }

    /// Parses the next part of `sections`. The numbers are statistics: no value makes the shard unreadable.
    pub(super) fn parse(sections: &mut Sections<'_>) -> Result<Profile, Refusal> {
        let r: &ProfileRecord = sections.record()?;
        if usize::from(r.stage) >= Self::STAGES.len() {
            return damaged(format!("the profile names the unknown stage {}", r.stage));
        }
        Ok(Profile {
            node: r.node.get(),
            stage: r.stage,
            keep: Some(r.keep.get()).filter(|keep| *keep > 0),
            pool_bytes: r.pool_bytes.get(),
            chunk_bytes: r.chunk_bytes.get(),
            pool_bound: PoolBound::of_code(r.pool_bound & 0xf),
            found_by: FoundBy::of_code(r.pool_bound >> 4 & 3),
            copied_by: CopiedBy::of_code(r.pool_bound >> 6),
            threshold_bytes: Some(r.threshold_bytes.get()).filter(|bytes| *bytes > 0),
            pieces: Histogram::of(&r.pieces),
            writes: Histogram::of(&r.writes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_belongs_to_one_class() {
        let edges = [(0, 0), (63, 0), (64, 1), (255, 1), (256, 2), (4095, 3), (4096, 4), (65_535, 5), (65_536, 6)];
        let large = [((512 << 10) - 1, 7), (512 << 10, 8), ((1 << 20) - 1, 8), (1 << 20, 9), (u64::MAX, 9)];
        for (bytes, class) in edges.into_iter().chain(large) {
            assert_eq!(Histogram::class_of(bytes), class, "{bytes} bytes");
        }
    }

    #[test]
    fn what_is_noted_is_added_up() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.note(63, Duration::from_nanos(5));
        one.note(0, Duration::from_nanos(1));
        other.note(10, Duration::from_nanos(4));
        other.note(1 << 20, Duration::from_micros(3));
        one.add(&other);
        assert_eq!(one.classes[0], SizeClass { count: 3, bytes: 73, time_ns: 10 });
        assert_eq!(one.total(), SizeClass { count: 4, bytes: 73 + (1 << 20), time_ns: 3010 });
        one.note(u64::MAX, Duration::MAX);
        assert_eq!(one.total(), SizeClass { count: 5, bytes: u64::MAX, time_ns: u64::MAX });
    }

    #[test]
    fn how_it_was_captured_stands_beside_what_bounds_the_pool() {
        for ((found_by, _), (copied_by, _)) in FoundBy::ALL.into_iter().flat_map(|f| CopiedBy::ALL.map(|c| (f, c))) {
            let profile = Profile { found_by, copied_by, pool_bound: PoolBound::Directory, ..Profile::default() };
            let read = Profile::parse(&mut Sections::new(&profile.build(), "manifest")).unwrap();
            assert_eq!((read.found_by, read.copied_by, read.pool_bound), (found_by, copied_by, PoolBound::Directory));
        }
    }

    #[test]
    fn a_profile_of_an_unknown_stage_or_cut_short_is_refused() {
        let whole = Profile { node: 3, stage: 3, pool_bytes: u64::MAX, ..Profile::default() }.build();
        let parse = |bytes: &[u8]| Profile::parse(&mut Sections::new(bytes, "manifest"));
        assert_eq!(parse(&whole).unwrap().stage_name(), "rank");
        assert!(parse(&whole[..511]).is_err());
        let mut unknown = whole;
        unknown[4] = Profile::STAGES.len() as u8;
        assert!(matches!(parse(&unknown), Err(Refusal::Damaged(why)) if why.contains("stage 4")));
    }
}
