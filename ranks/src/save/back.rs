//! Brings ranks back from a revision, on any number of processes.

use super::{
    record::{JOB, JobRecord, foreign, pair_from_bytes, rank_of, record_name},
    regions::{name, region, saved_places},
};
use crate::{
    Error, Result,
    address::{Slot, Slots},
    memory,
    message::Mailbox,
    rank::{Rank, SavedPair, SavedRank, State},
    slot::{Program, Source},
    system::remove_second,
};
use mainstay_engine::Session;
use std::{collections::BTreeMap, os::fd::AsFd};

/// Brings back all that one process has of the job.
pub(crate) struct Back {
    pub slots: Slots,
    /// The process of each rank.
    pub places: Vec<u32>,
    pub ranks: Vec<(Rank, Mailbox)>,
}

/// Brings back the ranks of this process from the newest revision. `None`: the space has none, or that job has ended.
/// `wanted`: the number of ranks that the user asks for; 0: any. Collective, but for the agreement on an error.
pub(crate) fn bring_back(
    session: &mut Session,
    program: &Program,
    wanted: usize,
    (process, processes): (usize, usize),
) -> Result<Option<Back>> {
    if session.choose()?.is_none() {
        return Ok(None);
    }
    session.bring_shards(&[])?;
    let shards = session.shards()?.shard_count();
    let mut shard_of = BTreeMap::new();
    for shard in 0..shards {
        for item in session.shards()?.items(shard)? {
            if let Some(rank) = rank_of(&item.name) {
                shard_of.insert(rank, shard);
            }
        }
    }
    let places = places(&shard_of, shards as usize, processes);
    let mine: Vec<u32> = (0..places.len() as u32).filter(|rank| places[*rank as usize] as usize == process).collect();
    // Every process reads the record of the job, so one shard at least.
    let mut needed: Vec<u32> = mine.iter().filter_map(|rank| shard_of.get(rank).copied()).collect();
    needed.push(process as u32 % shards);
    needed.sort_unstable();
    needed.dedup();
    session.bring_shards(&needed)?;
    let job = JobRecord::from_bytes(&read_record(session, needed[0], JOB)?)?;
    if job.ranks == 0 {
        remove_second_names(session, shards, (process, processes))?;
        return Ok(None);
    }
    check(&job, &shard_of, program, wanted)?;
    let slots = Slots::of(job.ranks as usize)?;
    let mut ranks = Vec::new();
    for shard in needed {
        let here: Vec<u32> = mine.iter().copied().filter(|rank| shard_of.get(rank) == Some(&shard)).collect();
        ranks.extend(of_shard(session, shard, &here, slots, program)?);
    }
    ranks.sort_by_key(|(rank, _)| rank.number);
    Ok(Some(Back { slots, places, ranks }))
}

/// Removes the second names that a job which has ended could not remove any more. The processes share its shards.
/// Collective.
fn remove_second_names(session: &mut Session, shards: u32, (process, processes): (usize, usize)) -> Result<()> {
    let mine: Vec<u32> = (process as u32..shards).step_by(processes).collect();
    session.bring_shards(&mine)?;
    for shard in mine {
        let job = JobRecord::from_bytes(&read_record(session, shard, JOB)?)?;
        job.lost.iter().for_each(|path| remove_second(path));
    }
    Ok(())
}

/// The process of each rank: where it was, if the number of processes is the same; else in equal shares, in order.
fn places(shard_of: &BTreeMap<u32, u32>, shards: usize, processes: usize) -> Vec<u32> {
    let ranks = shard_of.len();
    let place = |rank: usize| match shard_of.get(&(rank as u32)) {
        Some(shard) if shards == processes => *shard,
        _ => (rank * processes / ranks) as u32,
    };
    (0..ranks).map(place).collect()
}

fn check(job: &JobRecord, shard_of: &BTreeMap<u32, u32>, program: &Program, wanted: usize) -> Result<()> {
    let ranks = job.ranks as usize;
    if !shard_of.keys().map(|rank| u64::from(*rank)).eq(0..job.ranks) {
        return Err(Error::Refused(format!("the revision does not have each of its {ranks} ranks once")));
    }
    if wanted != 0 && wanted != ranks {
        let advice = format!("go on with --virtual {ranks}, or name another space");
        return Err(Error::Refused(format!("the job in this space has {ranks} ranks, not {wanted}; {advice}")));
    }
    let mine = JobRecord::new(ranks, program);
    if mine.arguments != job.arguments {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').replace('\0', " ");
        let advice = "give the same, or name another space";
        let (saved, now) = (text(&job.arguments), text(&mine.arguments));
        return Err(Error::Refused(format!("the job in this space was started as `{saved}`, not `{now}`; {advice}")));
    }
    job.check_processor()
}

fn read_record(session: &mut Session, shard: u32, name: &str) -> Result<Vec<u8>> {
    let reader = session.shards()?;
    let item = reader.item(shard, name).map_err(|_| foreign())?;
    let mut into = vec![0; item.bytes as usize];
    let got = reader.read(shard, name, 0, &mut into)?;
    into.truncate(got);
    Ok(into)
}

/// Brings back some ranks of a shard: their memory in one pass over the shard, then their files.
fn of_shard(
    session: &mut Session,
    shard: u32,
    ranks: &[u32],
    slots: Slots,
    program: &Program,
) -> Result<Vec<(Rank, Mailbox)>> {
    let mut pairs = Vec::new();
    let mut regions = Vec::new();
    for rank in ranks {
        let pair = pair_from_bytes(&read_record(session, shard, &record_name(*rank))?)?;
        let slot = slots.slot(*rank as usize);
        check_fits(&pair, *rank, slots)?;
        if !matches!(pair.rank.state, State::Ended(_)) {
            pair.rank.system.mapped.must_begin_with(&program.path, &program.file)?;
            map_areas(slot, &pair.rank)?;
            for (start, part) in saved_places(slot, &pair.rank) {
                regions.push(region(&name(*rank, slot.base, start), &part)?);
            }
        }
        pairs.push(pair);
    }
    session.shards()?.fill(shard, &regions)?;
    pairs
        .into_iter()
        .map(|mut pair| {
            let slot = slots.slot(pair.rank.number as usize);
            if !matches!(pair.rank.state, State::Ended(_)) {
                protect_areas(slot, &pair.rank)?;
            }
            pair.rank.system.take_back_files();
            Ok((Rank::bring_back(slot, pair.rank)?, Mailbox::bring_back(pair.mailbox)))
        })
        .collect()
}

/// Refuses the record of another rank, and one with memory outside the slot or messages of ranks that do not exist.
pub(crate) fn check_fits(pair: &SavedPair, rank: u32, slots: Slots) -> Result<()> {
    let SavedPair { rank: saved, mailbox } = pair;
    let is_its = saved.number == rank && (rank as usize) < slots.ranks && mailbox.is_of(slots.ranks);
    let has = |slot: Slot| saved.system.areas.iter().all(|(start, area)| slot.has(start, area.bytes));
    match is_its && has(slots.slot(rank as usize)) {
        true => Ok(()),
        false => Err(Error::Refused(format!("the record of rank {rank} does not fit its slot"))),
    }
}

/// Maps the areas of a rank, writable.
pub(crate) fn map_areas(slot: Slot, rank: &SavedRank) -> Result<()> {
    const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
    let system = &rank.system;
    let needed = system.areas.iter().filter_map(|(_, area)| match area.source {
        Source::File { file, .. } => Some(file),
        Source::Memory => None,
    });
    let files = system.mapped.open(needed)?;
    for (start, area) in system.areas.iter() {
        let range = start..start + area.bytes;
        let wrong = |error| Error::system(format_args!("rank {}: its memory at 0x{start:x}", rank.number), error);
        match &area.source {
            Source::Memory => memory::map(slot, &range, BOTH, None).map_err(wrong)?,
            Source::File { file, offset } => {
                let file = files.get(file).ok_or_else(|| wrong(std::io::Error::from_raw_os_error(libc::EBADF)))?;
                memory::map(slot, &range, area.protection, Some((file.as_fd(), *offset))).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

/// Gives the areas of a rank their protection again.
pub(crate) fn protect_areas(slot: Slot, rank: &SavedRank) -> Result<()> {
    for (start, area) in rank.system.areas.iter().filter(|(_, area)| area.source == Source::Memory) {
        memory::protect(slot, &(start..start + area.bytes), area.protection)
            .map_err(|error| Error::system(format_args!("rank {}: its memory at 0x{start:x}", rank.number), error))?;
    }
    Ok(())
}
