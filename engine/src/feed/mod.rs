//! Feeds levels that lag behind. A shard that was published on the nearest level is read there, verified, and saved
//! again. Or it comes from the rank that has it, and is verified and published here.
//!
//! Invariant: only blocks are read, which stay in place meanwhile; chunks that others wait for are not used. A failing
//! level harms neither the nearest one nor the others.

mod arrived;

pub(crate) use arrived::{Arrived, Landing, Older};

use crate::{
    capture::{Contents, Delta, LogPlaces, Size, differing_or_sparse},
    commit::Kept,
    error::{Error, Result},
    ground::{Instant, Thread, each_at_once, receive, spawn},
    place::{Shard, ShardSpec, Site, StagingTime},
    restore::{HashRows, base_of, joined_rows, pour, pour_blocks},
    space::{
        Portion,
        format::{BLOCK, BLOCK_BYTES, Entry, Manifest, PhaseRecord},
    },
};
use crossbeam_channel::{Receiver, SendError, Sender, unbounded};
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

const THREAD: &str = "mainstay-feed";

/// The thread that feeds one of the farther levels, one shard after the other. It never calls the group.
#[derive(Debug)]
pub(crate) struct Feeder {
    /// `None` without a thread, and once the thread is asked to end.
    queue: Option<Sender<Feed>>,
    thread: Option<Thread<()>>,
}

/// The source of a copy.
#[derive(Debug)]
pub(crate) enum Source {
    /// A shard in progress; it is copied once it is published on its nearest level.
    UnderWay(Arc<Shard>),
    Published(Portion, Arc<Kept>),
}

/// A task for a copy on its way to another level.
#[derive(Debug)]
enum Feed {
    /// Save it from its source.
    Copy(Arc<Shard>, Source),
    /// Add a piece from another rank at this place in the log, unless the copy is cancelled.
    Piece(Weak<Shard>, u64, Landing),
    /// Publish it; all of it has arrived from another rank.
    Publish(Arc<Shard>, Box<Arrived>),
}

impl Source {
    /// The room that the copy needs, at most. For a shard in progress this was known before.
    pub(crate) fn size(&self) -> Result<Size> {
        match self {
            Source::UnderWay(shard) => Ok(shard.size().clone()),
            Source::Published(portion, kept) => portion.read_manifest(&kept.entry).map(size_of),
        }
    }

    /// The copy for `site`, still empty.
    fn copy_for(&self, size: Size, site: Site) -> Result<Arc<Shard>> {
        match self {
            Source::UnderWay(shard) => shard.copy_for(&size, site),
            Source::Published(_, kept) => {
                let (key, Entry { shards, shard, phases, .. }) = (kept.key(), kept.entry.clone());
                // The outputs were synced before the source was published.
                let (outputs, started) = (Vec::new(), Instant::now());
                Shard::new(ShardSpec { key, shards, shard, size, outputs, started }, vec![site], None, phases)
            }
        }
    }

    /// Whether the source has ended: published or failed.
    pub(crate) fn is_ended(&self) -> bool {
        match self {
            Source::UnderWay(shard) => shard.poll().is_some(),
            Source::Published(..) => true,
        }
    }

    /// Whether the source can be copied, as far as known.
    pub(crate) fn has_not_failed(&self) -> bool {
        match self {
            Source::UnderWay(shard) => !matches!(shard.poll(), Some(Err(_))),
            Source::Published(..) => true,
        }
    }

    /// The number of shards of the revision, and the times of the checkpoint.
    pub(crate) fn described(&self) -> (u32, PhaseRecord) {
        match self {
            Source::UnderWay(shard) => shard.described(),
            Source::Published(_, kept) => (kept.entry.shards, kept.entry.phases),
        }
    }

    /// The portion and manifest of the source, once it is published.
    pub(crate) fn published(&self) -> Result<(Portion, Manifest)> {
        match self {
            Source::UnderWay(shard) => {
                shard.wait()?;
                shard.published()
            }
            Source::Published(portion, kept) => Ok((portion.clone(), portion.read_manifest(&kept.entry)?)),
        }
    }
}

impl Feeder {
    /// Up to `threads` threads process pieces that arrive together.
    pub(crate) fn start(threads: usize) -> Result<Feeder> {
        let (queue, work) = unbounded();
        let thread = spawn(THREAD.to_owned(), move || run(&work, threads))?;
        Ok(Feeder { queue: Some(queue), thread: Some(thread) })
    }

    /// The same without a thread: each task is done before the call returns.
    pub(crate) fn without_thread() -> Feeder {
        Feeder { queue: None, thread: None }
    }

    /// Saves `source`, of at most `size`, at `site` too, once it is published. The blocks of the source must stay until
    /// the returned shard has ended.
    pub(crate) fn feed(&self, source: Source, size: Size, site: Site) -> Result<Arc<Shard>> {
        let copy = source.copy_for(size, site)?;
        self.send(Feed::Copy(copy.clone(), source));
        Ok(copy)
    }

    /// Adds a piece of `copy` from another rank, at `at` in its log. A copy that the caller drops is cancelled.
    pub(crate) fn take(&self, copy: &Arc<Shard>, at: u64, landed: Landing) {
        self.send(Feed::Piece(Arc::downgrade(copy), at, landed));
    }

    /// Publishes `copy`. All its pieces have arrived from another rank and were added in order.
    pub(crate) fn finish(&self, copy: Arc<Shard>, arrived: Arrived) {
        self.send(Feed::Publish(copy, Box::new(arrived)));
    }

    fn send(&self, feed: Feed) {
        match &self.queue {
            None => feed.run(),
            Some(queue) => {
                if let Err(SendError(feed)) = queue.send(feed) {
                    feed.fail(ended());
                }
            }
        }
    }
}

impl Drop for Feeder {
    /// Waits for the copies in the queue.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the tasks in order. Messages between two ranks come in bursts: pieces that are queued together are processed
/// together.
fn run(work: &Receiver<Feed>, threads: usize) {
    let mut next = None;
    while let Some(feed) = next.take().or_else(|| receive(work)) {
        let mut together = vec![feed];
        // The task behind the pieces may be their publication.
        while together[0].is_piece() && next.is_none() {
            match work.try_recv() {
                Ok(feed) if feed.is_piece() => together.push(feed),
                Ok(feed) => next = Some(feed),
                Err(_) => break,
            }
        }
        each_at_once(threads, THREAD, together, Feed::run);
    }
}

impl Feed {
    fn is_piece(&self) -> bool {
        matches!(self, Feed::Piece(..))
    }

    fn run(self) {
        match self {
            Feed::Copy(copy, source) => publish(&copy, || copy_all(&source, &copy)),
            Feed::Publish(copy, arrived) => publish(&copy, || arrived.check(&copy)),
            Feed::Piece(copy, at, landed) => {
                if let Some(copy) = copy.upgrade().filter(|copy| !copy.has_failed())
                    && let Err(error) = caught(|| landed.put_into(&copy, at))
                {
                    copy.fail(error);
                }
            }
        }
    }

    fn fail(self, error: Error) {
        match self {
            Feed::Copy(copy, _) | Feed::Publish(copy, _) => copy.abandon(0, error),
            Feed::Piece(copy, ..) => drop(copy.upgrade().inspect(|copy| copy.fail(error))),
        }
    }
}

/// Publishes `copy` once it is made ready.
fn publish(copy: &Shard, make_ready: impl FnOnce() -> Result<()>) {
    if let Err(error) = caught(|| make_ready().map(|()| copy.commit(0))) {
        copy.abandon(0, error);
    }
}

/// A bug in `work` must end neither the program nor the wait for this revision.
fn caught(work: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(ended()))
}

fn ended() -> Error {
    Error::Internal { what: "the thread that feeds a level has ended, or panicked".to_owned() }
}

fn copy_all(source: &Source, copy: &Shard) -> Result<()> {
    let (portion, manifest) = source.published()?;
    copy_published(&portion, &manifest, copy, true, &|_| ())
}

/// The room that a copy of the shard with this `manifest` needs, at most.
pub(crate) fn size_of(manifest: Manifest) -> Size {
    let Manifest { runs, items, annex, .. } = manifest;
    let blocks: u64 = runs.iter().map(|run| run.blocks).sum();
    Size::of_items(items, annex).at_least(blocks * BLOCK_BYTES)
}

/// Writes `copy`, without publishing it, from the shard with this `manifest` in `portion`. An error of writing is also
/// the copy's own failure. `lasts`: blocks of older revisions are shared only if a whole shard still fits after this
/// one. `carried` gets the number of further bytes saved.
pub(crate) fn copy_published(
    portion: &Portion,
    manifest: &Manifest,
    copy: &Shard,
    lasts: bool,
    carried: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let log = LogPlaces::of(&manifest.runs);
    let (contents, carry) = (Contents::of(manifest.clone()), |at: u64, bytes: &[u8]| {
        // The copy keeps its first failure; later reads are dropped.
        if !copy.has_failed()
            && let Err(error) = copy.carry(at, bytes)
        {
            copy.fail(error);
        }
        carried(bytes.len() as u64);
    });
    let contents = match delta_of(portion, manifest, &contents, copy, lasts) {
        Some((carried, delta)) => {
            let wanted = log.in_portion(&carried);
            let rows = &mut HashRows::new(manifest.runs.len());
            pour_blocks(portion, manifest, rows, &wanted, &|at, bytes| {
                each_together(&delta, log.of_byte(at), bytes, carry);
            })?;
            delta.contents
        }
        None => {
            pour(portion, manifest, &|at, bytes| carry(log.of_byte(at), bytes))?;
            contents
        }
    };
    if let Some(error) = copy.failure() {
        return Err(error.clone());
    }
    copy.note_staged(StagingTime::default(), contents);
    Ok(())
}

/// The blocks of the log to carry, if the copy shares all others with an older revision; `None`: all are carried.
/// Blocks that cannot be read there are carried.
fn delta_of(
    portion: &Portion,
    manifest: &Manifest,
    contents: &Contents,
    copy: &Shard,
    lasts: bool,
) -> Option<(Vec<Range<u64>>, Delta)> {
    let (there, kept) = copy.older(None)?;
    let old = base_of(&there, &kept.entry).ok()??;
    let rows = joined_rows(portion, manifest).ok()?;
    let carried = differing_or_sparse(contents, &rows, &old);
    let delta = Delta::new(contents, &carried, &old).filter(|delta| !delta.shared.is_empty())?;
    copy.lead(&delta, lasts).ok()?.then_some((carried, delta))
}

/// Calls `carry` with the blocks from `at` on in stretches that are adjacent; all of them are carried.
fn each_together(delta: &Delta, at: u64, bytes: &[u8], carry: impl Fn(u64, &[u8])) {
    let mut from = 0;
    while let Some(place) = delta.place(at + from as u64).filter(|_| from < bytes.len()) {
        let mut to = from + BLOCK;
        while to < bytes.len() && delta.place(at + to as u64) == Some(place + (to - from) as u64) {
            to += BLOCK;
        }
        carry(place, &bytes[from..to]);
        from = to;
    }
    debug_assert_eq!(from, bytes.len(), "a block is read that is not carried");
}
