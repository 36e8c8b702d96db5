//! The turns of the ranks of a process: each runs until it waits, has had its share, or ends.

use super::trap::{BY_SIGNAL, Trap, end_by, signal_name};
use crate::{
    Error, Result,
    gate::{Info, NODE_NAME_BYTES, call},
    memory,
    message::Post,
    rank::{Rank, State},
};
use mainstay_engine::say;
use std::{
    thread,
    time::{Duration, Instant},
};

/// A rank that always has something to do makes this many calls before the next one runs.
const CALLS_MAX: usize = 64;
/// The rounds without work in which the host looks again at once, and those in which it gives up its core only.
const EAGER_ROUNDS: u32 = 200;
const PATIENT_ROUNDS: u32 = 2000;
const REST: Duration = Duration::from_micros(50);

#[derive(Default)]
pub(super) struct Turns {
    idle_rounds: u32,
}

/// A round of turns.
pub(super) struct Round {
    /// The end of its last turn.
    pub end: Instant,
    /// A rank had a turn.
    pub has_run: bool,
    /// The exit codes of the ranks that ended.
    pub ended: Vec<i32>,
    /// A rank ended the job.
    pub aborted: Option<i32>,
}

/// The next step of a rank after its call.
enum Next {
    GoOn,
    LetOthers,
    End(i32),
    Abort(i32),
}

impl Turns {
    /// Lets every rank that can run have a turn.
    pub fn run(&mut self, ranks: &mut [Rank], post: &mut Post, trap: &mut Trap) -> Result<Round> {
        let mut round = Round { end: Instant::now(), has_run: false, ended: Vec::new(), aborted: None };
        for rank in ranks {
            if rank.state == State::Waiting && post.mailbox(rank.number).has_news() {
                rank.state = State::Ready;
            }
            if rank.state != State::Ready {
                continue;
            }
            round.turn(rank, post, trap)?;
            // The clock takes a third of the time of a short turn. So the end of one turn is the start of the next.
            let start = std::mem::replace(&mut round.end, Instant::now());
            rank.busy += round.end - start;
            if round.aborted.is_some() {
                break;
            }
        }
        Ok(round)
    }

    /// Waits a little if nothing happened. Ends a job in which nothing can happen any more.
    pub fn rest(&mut self, worked: bool, ranks: &[Rank], processes: usize) -> Result<()> {
        if worked {
            self.idle_rounds = 0;
            return Ok(());
        }
        if processes == 1
            && ranks.iter().all(|rank| rank.state != State::Ready)
            && ranks.iter().any(|rank| !rank.has_ended())
        {
            let waiting: Vec<String> =
                ranks.iter().filter(|rank| !rank.has_ended()).map(|rank| rank.number.to_string()).collect();
            let advice = "a message that they receive was never sent";
            return Err(Error::Refused(format!("all ranks wait for each other ({}): {advice}", waiting.join(", "))));
        }
        self.idle_rounds = self.idle_rounds.saturating_add(1);
        match self.idle_rounds {
            0..EAGER_ROUNDS => std::hint::spin_loop(),
            EAGER_ROUNDS..PATIENT_ROUNDS => thread::yield_now(),
            _ => thread::sleep(REST),
        }
        Ok(())
    }
}

impl Round {
    /// Runs a rank until it waits, has had its share, or ends.
    fn turn(&mut self, rank: &mut Rank, post: &mut Post, trap: &mut Trap) -> Result<()> {
        self.has_run = true;
        for _ in 0..CALLS_MAX {
            let (call, argument) = trap.run(rank);
            match answer(rank, post, call, argument)? {
                Next::GoOn => {}
                Next::LetOthers => break,
                Next::End(code) => {
                    rank.end(code)?;
                    match rank.is_missed(code) {
                        Some(code) => self.aborted = Some(code),
                        None => self.ended.push(code),
                    }
                    break;
                }
                Next::Abort(code) => {
                    self.aborted = Some(code);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Answers a call of the gate.
fn answer(rank: &mut Rank, post: &mut Post, number: i64, argument: u64) -> Result<Next> {
    let (me, address) = (rank.number, argument as usize);
    match number {
        call::SEND => post.send(me, address)?,
        call::RECEIVE => post.receive(me, address)?,
        call::PROBE => post.probe(me, address, false)?,
        call::TAKE => post.probe(me, address, true)?,
        call::RECEIVE_TAKEN => post.receive_taken(me, address)?,
        call::WITHDRAW => rank.registers.result = post.withdraw(me, address).into(),
        call::WAIT => {
            let mailbox = post.mailbox(me);
            let has_news = mailbox.has_news();
            mailbox.see();
            if !has_news {
                rank.state = State::Waiting;
                return Ok(Next::LetOthers);
            }
        }
        call::YIELD => return Ok(Next::LetOthers),
        call::INFO => {
            rank.has_begun = true;
            let info = info(rank, post);
            memory::put(rank.system.slot, address, &info)
                .map_err(|error| Error::system("the facts about a rank", error))?;
        }
        call::LEAVE => rank.has_left = true,
        call::ABORT => return Ok(Next::Abort(argument as i32)),
        call::REFUSE => {
            let text = memory::string(rank.system.slot, address).unwrap_or_default();
            return Err(Error::Refused(format!("rank {me}: {}", String::from_utf8_lossy(&text))));
        }
        call::EXIT if argument & BY_SIGNAL != 0 => {
            let signal = (argument & !BY_SIGNAL) as i32;
            say(&format!("rank {me} ended by {}", signal_name(signal)));
            end_by(signal)
        }
        call::EXIT => return Ok(Next::End(argument as i32)),
        _ => {
            return Err(Error::Refused(format!(
                "rank {me} made call {number} of the gate, which this version has not"
            )));
        }
    }
    Ok(Next::GoOn)
}

fn info(rank: &Rank, post: &Post) -> Info {
    let mut node_name = [0; NODE_NAME_BYTES];
    let name = rank.node.name.as_bytes();
    let bytes = name.len().min(NODE_NAME_BYTES - 1);
    node_name[..bytes].copy_from_slice(&name[..bytes]);
    let (number, ranks, node) = (rank.number as i32, post.slots().ranks as i32, rank.node.number as i32);
    Info { rank: number, ranks, node, reserved: 0, node_name }
}
