//! One shard of one revision on its way from t1 to t3. It is staged once, in the coordinates of its log. Each of its
//! targets gives the log a place of its own.

use super::{ShardSpec, Site, ending::TargetOutcome, hashes::Hashes, pacing::Pace, target::Target};
use crate::{
    capture::{Base, Contents, Marked, Size},
    commit::{Kept, RevisionKey},
    device::Mapped,
    error::{Error, Failure, Result},
    ground::{Instant, Once, lock},
    pool::{Chunk, RankRecord, SealedPlan, TARGETS_MAX},
    space::{
        Portion,
        format::{BLOCK, BLOCK_BYTES, HASH_BYTES, Hash, Manifest, PhaseRecord, hash, hash_blocks},
    },
};
use std::{
    os::unix::ffi::OsStrExt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A shard up to this size is small.
const SMALL_BYTES: u64 = 64 << 10;

/// The program's time for staging.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StagingTime {
    pub(crate) buffer_wait: Duration,
    pub(crate) copy: Duration,
    pub(crate) chunks: u64,
}

/// The base of this shard, if the next shard is to share blocks with this one.
#[derive(Debug)]
struct PreviousBase {
    /// Dropped once the shard is published.
    base: Mutex<Option<Arc<Base>>>,
    is_indexed: bool,
}

#[derive(Debug)]
pub(crate) struct Shard {
    pub(super) intent: ShardSpec,
    /// Nearest first.
    pub(super) targets: Vec<Target>,
    pub(super) hashes: Hashes,
    pub(super) pace: Pace,
    segments: AtomicU32,
    /// The contents of the log; set once it is fully staged.
    contents: OnceLock<Contents>,
    /// The base of the shard, if the next one is to share blocks with it.
    before: OnceLock<PreviousBase>,
    /// The shard as a base in its nearest target, once it is published there.
    base: OnceLock<Arc<Base>>,
    /// Why the shard cannot be saved in any target. Single targets can fail in addition.
    failure: OnceLock<Error>,
    outputs_synced: Once<Result<()>>,
    /// Times that are the same for all targets.
    phases: Mutex<PhaseRecord>,
    /// A bit for each target that has ended.
    pub(super) ended: AtomicU32,
    /// How many blocks were hashed; counted only for assertions.
    hashed_blocks: AtomicU64,
}

impl StagingTime {
    fn noted_in(self, phases: PhaseRecord) -> PhaseRecord {
        PhaseRecord {
            buffer_wait_ns: self.buffer_wait.as_nanos() as u64,
            copy_ns: self.copy.as_nanos() as u64,
            chunks: self.chunks,
            ..phases
        }
    }
}

impl Shard {
    /// Makes a shard for at most `TARGETS_MAX` targets at `sites`, nearest first. `record`: the record from which another
    /// process can complete the shard, and the length of its segments. `phases`: the times known at t1.
    pub(crate) fn new(
        intent: ShardSpec,
        sites: Vec<Site>,
        record: Option<(&mut RankRecord, u64)>,
        phases: PhaseRecord,
    ) -> Result<Arc<Shard>> {
        assert!(!sites.is_empty(), "a shard without a target");
        let bytes = intent.size.hash_bytes();
        // Data that is staged in place is staged run by run.
        let cuts = sites.iter().map(|site| site.allocation.data.len().saturating_sub(1)).max().unwrap_or(0);
        let hashes = Hashes::new(&intent, record, cuts)?.ok_or_else(|| sites[0].portion.out_of_memory(bytes))?;
        let targets: Vec<Target> = sites.into_iter().map(Target::new).collect();
        assert!(targets.len() <= TARGETS_MAX, "a shard for {} targets", targets.len());
        Ok(Arc::new(Shard {
            pace: Pace::new(intent.started),
            intent,
            targets,
            hashes,
            segments: AtomicU32::new(0),
            contents: OnceLock::new(),
            before: OnceLock::new(),
            base: OnceLock::new(),
            failure: OnceLock::new(),
            outputs_synced: Once::default(),
            phases: Mutex::new(phases),
            ended: AtomicU32::new(0),
            hashed_blocks: AtomicU64::new(0),
        }))
    }

    pub(super) fn nearest(&self) -> &Site {
        &self.targets[0].site
    }

    fn endings(&self) -> impl Iterator<Item = &TargetOutcome> {
        self.targets.iter().map(|target| &target.ending)
    }

    pub(crate) fn key(&self) -> RevisionKey {
        self.intent.key
    }

    pub(super) fn tag(&self) -> u32 {
        self.intent.tag()
    }

    pub(crate) fn started(&self) -> Instant {
        self.intent.started
    }

    /// Writing such a shard costs more processor time than copying it.
    pub(crate) fn is_small(&self) -> bool {
        self.size().bytes() <= SMALL_BYTES
    }

    pub(crate) fn size(&self) -> &Size {
        &self.intent.size
    }

    pub(crate) fn phases(&self) -> PhaseRecord {
        *lock(&self.phases)
    }

    /// The contents of the staged shard. An error before t2.
    pub(crate) fn contents(&self) -> Result<&Contents> {
        self.contents.get().ok_or_else(|| Error::Internal { what: "published before t2".to_owned() })
    }

    /// The next shard will share blocks with this one, which shares blocks with `before`. `is_indexed`: it can be
    /// outlined.
    pub(crate) fn is_base(&self, before: Option<Arc<Base>>, is_indexed: bool) {
        let _ = self.before.set(PreviousBase { base: Mutex::new(before), is_indexed });
    }

    /// The base of the shard, until it is published.
    pub(super) fn before(&self) -> Option<Arc<Base>> {
        self.before.get().and_then(|before| lock(&before.base).clone())
    }

    /// Drops the base of the shard, which is large: not on the program's thread.
    pub(super) fn forget_before(&self) {
        self.before.get().iter().for_each(|before| drop(lock(&before.base).take()));
    }

    /// The base with the index that the next shard will need, so that it can be made in advance.
    pub(super) fn indexed(&self) -> Option<Arc<Base>> {
        self.before.get().filter(|before| before.is_indexed).and_then(|_| self.base())
    }

    /// The base for the next shard, once this rank has published this one.
    pub(crate) fn base(&self) -> Option<Arc<Base>> {
        self.base.get().cloned()
    }

    /// Notes the shard's blocks in a target with this manifest: its own rows of hashes are in the portion from
    /// `rows_at` on.
    pub(super) fn note_base(&self, manifest: &Manifest, rows_at: u64, rows: &[u8]) {
        if self.before.get().is_none() {
            return;
        }
        let before = self.before();
        let mut all = Vec::new();
        for run in &manifest.runs {
            let own = run.hashes_at.checked_sub(rows_at).map(|at| at as usize);
            let own = own.and_then(|at| rows.get(at..at + run.blocks as usize * HASH_BYTES));
            let shared = || before.as_ref().and_then(|before| before.hashes(run.first_block..run.stretch().end()));
            let is_shared = before.as_ref().is_some_and(|before| before.number(run.first_block).is_some());
            match if is_shared { shared() } else { own } {
                Some(row) => all.extend_from_slice(row),
                None => return,
            }
        }
        if let Some(base) = Base::new(manifest, all) {
            let _ = self.base.set(Arc::new(base));
        }
    }

    /// The same shard, of `size`, for `site` alone, with nothing written yet: its bytes are read from this one's target.
    pub(crate) fn copy_for(&self, size: &Size, site: Site) -> Result<Arc<Shard>> {
        let ShardSpec { key, shards, shard, outputs, started, .. } = &self.intent;
        // This shard's outputs are synced before it is published.
        let outputs = outputs.iter().map(|output| Marked::synced(output.path().to_owned())).collect();
        let size = Size::measured(size.blocks());
        let intent = ShardSpec { key: *key, shards: *shards, shard: *shard, size, outputs, started: *started };
        Shard::new(intent, vec![site], None, self.phases())
    }

    /// The shard's number among those of the revision.
    pub(crate) fn number(&self) -> u32 {
        self.intent.shard
    }

    /// Number of shards of the revision, and the checkpoint's times so far.
    pub(crate) fn described(&self) -> (u32, PhaseRecord) {
        (self.intent.shards, self.phases())
    }

    /// Maps `bytes` bytes of the log, starting at `at`, in place in the only target, to be filled; fewer if not all are
    /// adjacent there. Fails if they cannot be mapped. Writes the roots that free the blocks first.
    pub(crate) fn map(&self, at: u64, bytes: u64) -> Result<Mapped> {
        match &self.targets[..] {
            [target] => target.map(at, bytes),
            targets => Err(Error::Internal { what: format!("a shard for {} targets is mapped", targets.len()) }),
        }
    }

    /// The hash of the hashes of the first `blocks` blocks, which must not change any more.
    pub(crate) fn hash_of_hashes(&self, blocks: u64) -> Hash {
        self.with_rows(blocks, hash)
    }

    /// Calls `read` with the hashes of the first `blocks` blocks, which must not change any more.
    pub(crate) fn with_rows<T>(&self, blocks: u64, read: impl FnOnce(&[u8]) -> T) -> T {
        self.hashes.read(blocks * HASH_BYTES as u64, read)
    }

    /// The shard's place in its nearest target, once it is published there.
    pub(crate) fn kept(&self) -> Result<(Portion, Arc<Kept>)> {
        let Site { portion, ledger, .. } = self.nearest();
        let kept = lock(ledger).found().into_iter().find(|kept| kept.key() == self.key());
        let gone = || Error::Internal { what: "a shard is read that no root leads to".to_owned() };
        Ok((portion.clone(), kept.ok_or_else(gone)?))
    }

    /// The shard's place in its nearest target, and its manifest, once it is published there.
    pub(crate) fn published(&self) -> Result<(Portion, Manifest)> {
        let (portion, kept) = self.kept()?;
        let manifest = portion.read_manifest(&kept.entry)?;
        Ok((portion, manifest))
    }

    /// Bytes of all items; 0 before t2.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.contents.get().map_or(0, Contents::item_bytes)
    }

    /// Why the shard cannot be saved anywhere: the first failure, or that of the nearest target if all targets have
    /// failed. `None` if it can be saved.
    pub(crate) fn failure(&self) -> Option<&Error> {
        let of_all = || self.endings().map(TargetOutcome::failure).collect::<Option<Vec<_>>>();
        self.failure.get().or_else(|| of_all().map(|failures| failures[0]))
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some() || self.endings().all(|ending| ending.failure().is_some())
    }

    pub(crate) fn fail(&self, error: Error) {
        // The first failure is the cause of later ones.
        let _ = self.failure.set(error);
    }

    /// Why the shard cannot be saved in target number `target`; `None` if it can.
    pub(super) fn failure_of(&self, target: usize) -> Option<&Error> {
        self.failure_in(&self.targets[target].ending)
    }

    pub(super) fn failure_in<'a>(&'a self, ending: &'a TargetOutcome) -> Option<&'a Error> {
        ending.failure().or_else(|| self.failure.get())
    }

    pub(super) fn fail_target(&self, target: usize, error: Error) {
        self.targets[target].ending.fail(error);
    }

    pub(crate) fn set_copying(&self, copying: bool) {
        self.pace.set_copying(copying);
    }

    /// The program has nothing more to copy: all is staged, or a snapshot copies the rest.
    pub(crate) fn note_gone_on(&self) {
        self.pace.note_gone_on();
    }

    /// Notes the staged contents, and the times except t2; called before the stager ends its part.
    pub(crate) fn note_staged(&self, staged: StagingTime, contents: Contents) {
        {
            let mut phases = lock(&self.phases);
            *phases = staged.noted_in(*phases);
        }
        let _ = self.contents.set(contents);
        self.note_gone_on();
    }

    /// Notes t2, and the time since the last byte was staged (phase 3).
    pub(crate) fn note_resumed(&self, resume: Duration) {
        self.resumed(resume, &mut lock(&self.phases));
    }

    pub(super) fn resumed(&self, resume: Duration, phases: &mut PhaseRecord) {
        phases.resume_ns = resume.as_nanos() as u64;
        phases.perceived_ns = self.started().elapsed().as_nanos() as u64;
    }

    /// Fails unless `bytes` more bytes of the log, starting at `end`, have room.
    pub(crate) fn has_room(&self, end: u64, bytes: u64) -> Result<()> {
        let size = self.size();
        if end.checked_add(bytes).is_some_and(|end| end <= size.bytes()) {
            return Ok(());
        }
        Err(Error::argument(
            "begin",
            format!("it announced {} bytes in pieces, and wrote more; announce the full number", size.announced),
        ))
    }

    /// Records that `chunk` will hold `bytes` bytes of the log, starting at `offset`; returns the number of this
    /// segment.
    pub(super) fn place(&self, chunk: &Chunk, offset: u64, bytes: u64) -> u32 {
        let segment = self.segments.fetch_add(1, Ordering::Relaxed);
        if let Some(record) = self.hashes.record() {
            record.place(segment, offset, bytes, chunk.index());
        }
        segment
    }

    /// Records that the only target holds `bytes` bytes of the log, starting at `offset`, in their own blocks; returns
    /// the number of this segment.
    pub(super) fn place_in_target(&self, offset: u64, bytes: u64) -> u32 {
        self.targets.iter().for_each(|target| target.note_in_place(bytes));
        let segment = self.segments.fetch_add(1, Ordering::Relaxed);
        if let Some(record) = self.hashes.record() {
            record.place_in_target(segment, offset, bytes);
            record.written(segment, 0);
        }
        segment
    }

    /// Records that target number `target` has a segment, before the chunk is reused.
    pub(super) fn segment_written(&self, segment: u32, target: usize) {
        self.hashes.record().inspect(|record| record.written(segment, target));
    }

    pub(super) fn segment_hashed(&self, segment: u32) {
        self.hashes.record().inspect(|record| record.hashed(segment));
    }

    /// Hashes and writes whole blocks of the log, starting at `offset`, if any target is written here.
    pub(crate) fn carry(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.targets.is_empty() {
            return Ok(());
        }
        self.hash(offset, bytes);
        self.write(offset, bytes)
    }

    /// Writes the hashes of whole blocks of the log, starting at `offset`, into their row.
    pub(crate) fn hash(&self, offset: u64, bytes: &[u8]) {
        let mut hashes = vec![0; bytes.len() / BLOCK * HASH_BYTES];
        hash_blocks(bytes, &mut hashes);
        self.hashes.write(offset / BLOCK_BYTES * HASH_BYTES as u64, &hashes);
        if cfg!(debug_assertions) {
            self.hashed_blocks.fetch_add((bytes.len() / BLOCK) as u64, Ordering::AcqRel);
        }
    }

    pub(super) fn hashed_blocks(&self) -> u64 {
        self.hashed_blocks.load(Ordering::Acquire)
    }

    /// Writes `bytes` of the log, starting at `offset`, to all targets that are written here. An error means that no
    /// target is left to save the shard.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        for (index, target) in self.targets.iter().enumerate().filter(|(_, target)| target.ending.failure().is_none()) {
            target.write(offset, bytes).unwrap_or_else(|error| self.fail_target(index, error));
        }
        self.failure().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Syncs the output files: the revision records their lengths, so they must be that long once it exists.
    pub(crate) fn sync_outputs(&self) -> Result<()> {
        self.outputs_synced.get_or_init(|| self.intent.outputs.iter().try_for_each(Marked::sync))
    }

    pub(super) fn outputs_are_synced(&self) -> bool {
        matches!(self.outputs_synced.get(), Some(Ok(())))
    }

    /// At t2, or once a snapshot is copied: from here on another process can complete the shard if this one dies. If
    /// memory beside the pool is short, nothing is sealed: the shard is still saved, but is lost if this process dies.
    pub(crate) fn seal(&self, contents: &Contents, staged: StagingTime) {
        let Some(record) = self.hashes.record() else { return };
        let ShardSpec { key, shards, shard, outputs, started, .. } = &self.intent;
        let phases = self.phases();
        // After a snapshot the program has already gone on.
        let now = || started.elapsed().as_nanos() as u64;
        let perceived_ns = if phases.perceived_ns > 0 { phases.perceived_ns } else { now() };
        let sealed = SealedPlan {
            key: *key,
            shards: *shards,
            shard: *shard,
            contents: contents.encode(),
            outputs: outputs.iter().map(|output| output.path().as_os_str().as_bytes().to_vec()).collect(),
            phases: staged.noted_in(PhaseRecord { perceived_ns, ..phases }),
            targets: self.targets.iter().map(Target::sealed).collect(),
        };
        // No process completes a target that has failed already.
        let failed = |target: &usize| self.failure_of(*target).is_some();
        (0..self.targets.len()).filter(failed).for_each(|target| record.target_ended(target));
        let _ = record.seal(&sealed);
    }

    pub(super) fn not_saved(&self, error: Error) -> Error {
        match error {
            // The whole space is out of use, not only this revision.
            Error::SyncFailed { .. } | Error::Fenced { .. } => error,
            // From a nearer level, which supplied the data of this one.
            Error::NotSaved { revision, .. } if revision == self.key().number => error,
            _ => Error::NotSaved { revision: self.key().number, failure: Failure::cause(&error) },
        }
    }

    /// Waits for t3 in all targets, or for their failures. Returns the first failure, or the times of the nearest target.
    pub(crate) fn wait(&self) -> Result<PhaseRecord> {
        let ended: Vec<_> = self.endings().map(TargetOutcome::wait).collect();
        Ok(ended.into_iter().collect::<Result<Vec<_>>>()?[0])
    }

    /// The outcome of the shard, without waiting: `None` as long as a target has not ended.
    pub(crate) fn poll(&self) -> Option<Result<()>> {
        let ended: Option<Vec<_>> = self.endings().map(TargetOutcome::poll).collect();
        ended.map(|ended| ended.into_iter().try_for_each(|ended| ended.map(drop)))
    }

    pub(crate) fn out_of_memory(&self, bytes: u64) -> Error {
        self.nearest().portion.out_of_memory(bytes)
    }
}
