//! A host: plays the ranks that it has, carries their messages, saves them, and moves them.

use super::{
    plan::{Event, Plan, Round},
    player::{Player, Trouble},
    run::{Job, Saved},
};
use crate::{
    group::{SimulatedGroup, count_message},
    lock::locked,
};
use mainstay_engine::{Error, group::Group};
use mainstay_ranks::{Wire, played};
use std::{collections::BTreeMap, rc::Rc};

/// The words that hosts send each other.
mod word {
    /// An event begins. The value is its number.
    pub const EVENT: u64 = 1;
    pub const RANK_ENDED: u64 = 2;
    pub const END: u64 = 3;
}

/// Messages between hosts by the simulated group.
struct GroupWire(Rc<SimulatedGroup>);

impl Wire for GroupWire {
    fn process(&self) -> usize {
        self.0.rank()
    }

    fn processes(&self) -> usize {
        self.0.size()
    }

    fn send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), Error> {
        count_message();
        self.0.send_copy(to, [head, body].concat())
    }

    fn receive(&mut self, takes: &mut dyn FnMut(usize, &[u8])) -> Result<bool, Error> {
        let taken = self.0.take_any()?;
        Ok(taken.map(|(from, bytes)| takes(from, &bytes)).is_some())
    }

    fn sum(&mut self, words: &mut [u64]) -> Result<(), Error> {
        let mine: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        words.fill(0);
        for told in self.0.all_gather(&mine)? {
            let told = told.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            words.iter_mut().zip(told).for_each(|(word, more)| *word = word.wrapping_add(more));
        }
        Ok(())
    }
}

pub(super) struct Host<'a> {
    job: &'a Job,
    plan: &'a Plan,
    round: &'a Round,
    group: Rc<SimulatedGroup>,
    host: played::Host,
    /// The ranks that are here.
    players: BTreeMap<u32, Player>,
    /// Events of this round so far.
    events: usize,
    /// Ranks that have ended, as host 0 knows.
    ended: u32,
}

impl Host<'_> {
    /// Works until all ranks have ended.
    pub fn work(job: &Job, round: usize, group: SimulatedGroup) -> Result<(), Trouble> {
        let (plan, round, group) = (&job.plan, &job.plan.rounds[round], Rc::new(group));
        let host = played::Host::new(Box::new(GroupWire(group.clone())), round.places.clone())?;
        let (players, events, ended) = Default::default();
        let mut host = Host { job, plan, round, group, host, players, events, ended };
        host.begin()?;
        while !host.turn()? {}
        Ok(host.host.drain()?)
    }

    /// Begins the ranks that are placed here, or brings them back.
    fn begin(&mut self) -> Result<(), Trouble> {
        let me = self.host.process() as u32;
        let saved = locked(&self.job.latest).clone();
        for rank in (0..self.plan.ranks).filter(|rank| self.round.places[*rank as usize] == me) {
            let mut player = match saved.as_ref().and_then(|saved| saved.get(&rank)) {
                Some((player, bytes)) => {
                    self.host.bring_back(bytes)?;
                    player.clone()
                }
                None => {
                    self.host.begin(rank)?;
                    Player::new(rank)
                }
            };
            player.is_told = false;
            self.players.insert(rank, player);
        }
        Ok(())
    }

    /// Lets each rank play, and takes messages. True: the job has ended.
    fn turn(&mut self) -> Result<bool, Trouble> {
        let mut has_run = false;
        for (rank, player) in &mut self.players {
            let calls = self.job.cluster.draw(|random| random.usize(1..6));
            has_run |= player.play(self.plan, &mut self.host, calls)?;
            has_run |= self.host.has_news(*rank);
            if player.has_ended(self.plan) && !std::mem::replace(&mut player.is_told, true) {
                self.host.tell(0, word::RANK_ENDED, 0)?;
            }
        }
        let news = self.host.poll()?;
        let words = self.host.words();
        let has_words = !words.is_empty();
        for (word, value) in words {
            match word {
                word::EVENT => self.event(value as usize)?,
                word::RANK_ENDED => self.ended += 1,
                _ => return Ok(true),
            }
        }
        if self.host.process() == 0 {
            if self.ended == self.plan.ranks {
                self.tell_all(word::END, 0)?;
                return Ok(true);
            }
            if self.events < self.round.events.len() && self.job.cluster.draw(|random| random.u8(0..3)) == 0 {
                self.tell_all(word::EVENT, self.events as u64)?;
                self.event(self.events)?;
                return Ok(false);
            }
        }
        if !has_run && !news && !has_words {
            self.group.wait_for_any();
        }
        Ok(false)
    }

    fn tell_all(&mut self, word: u64, value: u64) -> Result<(), Trouble> {
        Ok((1..self.host.processes()).try_for_each(|process| self.host.tell(process, word, value))?)
    }

    /// Saves the ranks or moves them. Collective.
    fn event(&mut self, number: usize) -> Result<(), Trouble> {
        self.events = number + 1;
        self.host.drain()?;
        match &self.round.events[number] {
            Event::Save => self.save(number),
            Event::Move(moves) => self.move_ranks(moves),
        }
    }

    fn save(&mut self, number: usize) -> Result<(), Trouble> {
        for (rank, player) in &self.players {
            let saved = (player.clone(), self.host.saved(*rank)?);
            let mut saving = locked(&self.job.saving);
            let all: &mut Saved = saving.entry(number).or_default();
            all.insert(*rank, saved);
            if all.len() == self.plan.ranks as usize {
                *locked(&self.job.latest) = Some(all.clone());
                locked(&self.job.judge).acknowledged += 1;
            }
        }
        Ok(())
    }

    fn move_ranks(&mut self, moves: &[(u32, u32)]) -> Result<(), Trouble> {
        let me = self.host.process() as u32;
        for (rank, to) in moves {
            if *to != me
                && let Some(player) = self.players.remove(rank)
            {
                locked(&self.job.moving).insert(*rank, player);
            }
        }
        self.host.move_ranks(moves)?;
        for (rank, _) in moves.iter().filter(|(_, to)| *to == me) {
            if let Some(player) = locked(&self.job.moving).remove(rank) {
                self.players.insert(*rank, player);
            }
        }
        Ok(())
    }
}
