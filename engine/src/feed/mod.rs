//! Levels that lag behind: a shard that was published on the nearest level is read there, verified, and saved again; or
//! it came from the rank that has it there, and is verified and published here.
//!
//! What must hold: blocks alone are read, which stay in place meanwhile, never chunks that others wait for; a level
//! that fails harms neither the nearest one nor the others.

mod arrived;

pub(crate) use arrived::Arrived;

use crate::{
    capture::{Contents, Led, LogPlaces, Size, differing},
    commit::Kept,
    error::{Error, Result},
    ground::{Instant, spawn},
    place::{Intent, Shard, Site, StagingTime, Writer},
    restore::{HashRows, base_of, joined_rows, pour, pour_blocks},
    space::{
        Portion,
        format::{BLOCK, BLOCK_BYTES, Entry, Manifest, PhaseRecord},
    },
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
};

/// The thread that feeds one of the farther levels, one shard after the other. It never calls the group.
#[derive(Debug)]
pub(crate) struct Feeder {
    /// `None` once the thread is asked to end.
    queue: Option<Sender<Feed>>,
    thread: Option<JoinHandle<()>>,
}

/// What a copy is made of.
#[derive(Debug)]
pub(crate) enum Source {
    /// A shard under way, which is copied once it is published on its nearest level.
    UnderWay(Arc<Shard>),
    Published(Portion, Arc<Kept>),
}

/// A copy on the way to another level.
#[derive(Debug)]
struct Feed {
    copy: Arc<Shard>,
    from: From,
}

#[derive(Debug)]
enum From {
    Level(Source),
    Rank(Box<Arrived>),
}

impl Source {
    /// How much room the copy needs, at most. For a shard under way that was known before.
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
                Shard::new(
                    Intent { key, shards, shard, size, outputs, started },
                    vec![(Writer::Here, site)],
                    None,
                    phases,
                )
            }
        }
    }

    /// Whether the source has come to its end: published or failed.
    pub(crate) fn is_ended(&self) -> bool {
        match self {
            Source::UnderWay(shard) => shard.poll().is_some(),
            Source::Published(..) => true,
        }
    }

    /// Whether the source can be copied, as far as that is known.
    pub(crate) fn has_not_failed(&self) -> bool {
        match self {
            Source::UnderWay(shard) => !matches!(shard.poll(), Some(Err(_))),
            Source::Published(..) => true,
        }
    }

    /// How many shards the revision has, and what the checkpoint took.
    pub(crate) fn described(&self) -> (u32, PhaseRecord) {
        match self {
            Source::UnderWay(shard) => shard.described(),
            Source::Published(_, kept) => (kept.entry.shards, kept.entry.phases),
        }
    }

    /// Where the source lies, and its manifest, once it is published.
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
    pub(crate) fn start() -> Result<Feeder> {
        let (queue, work) = unbounded();
        let thread = spawn("mainstay-feed".to_owned(), move || run(&work))?;
        Ok(Feeder { queue: Some(queue), thread: Some(thread) })
    }

    /// Has `source`, of at most `size`, saved also at `site`, once it is published. The blocks of the source must stay
    /// until the shard that this returns has come to its end.
    pub(crate) fn feed(&self, source: Source, size: Size, site: Site) -> Result<Arc<Shard>> {
        let copy = source.copy_for(size, site)?;
        self.send(Feed { copy: copy.clone(), from: From::Level(source) });
        Ok(copy)
    }

    /// Has `copy` published, all of which has come from another rank.
    pub(crate) fn finish(&self, copy: Arc<Shard>, arrived: Arrived) {
        self.send(Feed { copy, from: From::Rank(Box::new(arrived)) });
    }

    fn send(&self, feed: Feed) {
        let copy = feed.copy.clone();
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(feed).is_ok());
        if !sent {
            copy.abandon(0, ended());
        }
    }
}

impl Drop for Feeder {
    /// Waits for the copies that have been handed over.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Publishes `copy`, all of which has come from another rank, before it returns.
pub(crate) fn finish_now(copy: &Shard, arrived: Arrived) {
    match arrived.put_into(copy) {
        Ok(()) => copy.commit(0),
        Err(error) => copy.abandon(0, error),
    }
}

fn run(work: &Receiver<Feed>) {
    for Feed { copy, from } in work {
        let fed = || match from {
            From::Level(source) => copy_all(&source, &copy),
            From::Rank(arrived) => arrived.put_into(&copy),
        };
        // A bug in here must end neither the program nor the wait for this revision.
        let fed = catch_unwind(AssertUnwindSafe(|| fed().map(|()| copy.commit(0))));
        if let Err(error) = fed.unwrap_or_else(|_| Err(ended())) {
            copy.abandon(0, error);
        }
    }
}

fn ended() -> Error {
    Error::Internal { what: "the thread that feeds a level has ended, or panicked".to_owned() }
}

fn copy_all(source: &Source, copy: &Shard) -> Result<()> {
    let (portion, manifest) = source.published()?;
    copy_published(&portion, &manifest, copy, true, &|_| ())
}

/// How much room a copy of the shard with this `manifest` needs, at most.
pub(crate) fn size_of(manifest: Manifest) -> Size {
    let Manifest { runs, items, annex, .. } = manifest;
    let blocks: u64 = runs.iter().map(|run| run.blocks).sum();
    Size::of_items(items, annex).at_least(blocks * BLOCK_BYTES)
}

/// Has `copy` written, and not published, with what the shard with this `manifest` has in `portion`; an error of writing is
/// the copy's own failure, too. `lasts`: blocks of older revisions are shared only if a whole shard finds room after this
/// one. `carried` is told how many more bytes were taken over.
pub(crate) fn copy_published(
    portion: &Portion,
    manifest: &Manifest,
    copy: &Shard,
    lasts: bool,
    carried: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let log = LogPlaces::of(&manifest.runs);
    let (contents, carry) = (Contents::of(manifest.clone()), |at: u64, bytes: &[u8]| {
        // The first failure is the copy's; what is read after it is dropped.
        if !copy.has_failed()
            && let Err(error) = copy.carry(at, bytes)
        {
            copy.fail(error);
        }
        carried(bytes.len() as u64);
    });
    let contents = match led_to(portion, manifest, &contents, copy, lasts) {
        Some((carried, led)) => {
            let wanted = log.in_portion(&carried);
            let rows = &mut HashRows::new(manifest.runs.len());
            pour_blocks(portion, manifest, rows, &wanted, &|at, bytes| {
                each_together(&led, log.of_byte(at), bytes, carry);
            })?;
            led.contents
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

/// Which blocks of the log are carried, where the copy leads to an older revision for all others; `None`: all are. What
/// cannot be read there is carried.
fn led_to(
    portion: &Portion,
    manifest: &Manifest,
    contents: &Contents,
    copy: &Shard,
    lasts: bool,
) -> Option<(Vec<Range<u64>>, Led)> {
    let (there, kept) = copy.older(None)?;
    let old = base_of(&there, &kept.entry).ok()??;
    let rows = joined_rows(portion, manifest).ok()?;
    let carried = differing(contents, &rows, &old)?;
    let led = Led::new(contents, &carried, &old).filter(|led| !led.shared.is_empty())?;
    copy.lead(&led, lasts).ok()?.then_some((carried, led))
}

/// Gives `carry` the blocks from `at` on, all of them carried, in stretches that lie together.
fn each_together(led: &Led, at: u64, bytes: &[u8], carry: impl Fn(u64, &[u8])) {
    let mut from = 0;
    while let Some(place) = led.place(at + from as u64).filter(|_| from < bytes.len()) {
        let mut to = from + BLOCK;
        while to < bytes.len() && led.place(at + to as u64) == Some(place + (to - from) as u64) {
            to += BLOCK;
        }
        carry(place, &bytes[from..to]);
        from = to;
    }
}
