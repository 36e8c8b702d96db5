//! Plans of messages.

use fastrand::Rng;
use mainstay_ranks::played::{BYTES_MAX, Envelope, MESSAGES_MAX};

#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed of the schedule, too.
    pub seed: u64,
    pub ranks: u32,
    /// A rank begins a phase when its messages of the one before are complete.
    pub phases: Vec<Phase>,
    /// Each round has hosts of its own. Those of the last round finish.
    pub rounds: Vec<Round>,
}

#[derive(Debug, Clone)]
pub struct Phase {
    pub messages: Vec<Planned>,
    /// How each rank receives.
    pub styles: Vec<Style>,
}

#[derive(Debug, Clone, Copy)]
pub struct Planned {
    pub from: u32,
    pub to: u32,
    pub tag: i32,
    pub bytes: usize,
    pub is_synchronous: bool,
}

/// All receives of a rank in a phase have one style, so that none takes a message that another one needs.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub any_source: bool,
    pub any_tag: bool,
}

#[derive(Debug, Clone)]
pub struct Round {
    pub hosts: usize,
    /// The host of each rank.
    pub places: Vec<u32>,
    pub events: Vec<Event>,
    /// The host that dies, and the message of its own in which it dies.
    pub dies: Option<(usize, u64)>,
}

#[derive(Debug, Clone)]
pub enum Event {
    Save,
    /// Each rank goes to a host.
    Move(Vec<(u32, u32)>),
}

/// A call of a rank. Messages have their numbers in the phase.
#[derive(Debug, Clone, Copy)]
pub enum Call {
    Send(usize),
    Receive {
        /// One of the messages that fit.
        of: usize,
        room: usize,
        /// First looks for it by a matched probe.
        probes: bool,
    },
    /// Starts to receive a message that nobody sends, and takes that back.
    Withdraw,
}

impl Plan {
    /// The plan with this seed.
    pub fn of(seed: u64) -> Plan {
        let random = &mut Rng::with_seed(seed);
        let ranks = random.u32(1..=6);
        let phases = (0..random.usize(1..=6)).map(|_| phase(ranks, random)).collect();
        let mut rounds: Vec<Round> = (0..random.usize(1..=5)).map(|_| round(ranks, random)).collect();
        rounds.last_mut().expect("a round").dies = None;
        Plan { seed, ranks, phases, rounds }
    }

    /// The calls of a rank in a phase.
    pub fn calls(&self, phase: usize, rank: u32) -> Vec<Call> {
        let random = &mut Rng::with_seed(self.seed ^ ((phase as u64) << 32) ^ (u64::from(rank) << 48));
        let mut calls = Vec::new();
        for (index, planned) in self.phases[phase].messages.iter().enumerate() {
            if planned.from == rank {
                calls.push(Call::Send(index));
            }
            if planned.to == rank {
                let room = if random.u8(0..8) == 0 { random.usize(8..200) } else { BYTES_MAX };
                calls.push(Call::Receive { of: index, room, probes: random.u8(0..4) == 0 });
            }
        }
        if random.bool() {
            calls.push(Call::Withdraw);
        }
        assert!(calls.len() <= MESSAGES_MAX, "too many messages for a rank");
        random.shuffle(&mut calls);
        calls
    }

    /// The label by which the receiver of this message takes it.
    pub fn envelope(&self, phase: usize, of: usize) -> Envelope {
        let Phase { messages, styles } = &self.phases[phase];
        let Planned { from, to, tag, .. } = messages[of];
        let Style { any_source, any_tag } = styles[to as usize];
        let (peer, tag) = (Some(from).filter(|_| !any_source), Some(tag).filter(|_| !any_tag));
        Envelope { peer, tag, context: phase as u32 }
    }

    /// Whether a receive with this envelope may take the message.
    pub fn fits(&self, envelope: Envelope, phase: usize, index: usize) -> bool {
        let Planned { from, tag, .. } = self.phases[phase].messages[index];
        envelope.context == phase as u32
            && envelope.peer.is_none_or(|peer| peer == from)
            && envelope.tag.is_none_or(|of| of == tag)
    }

    /// The bytes of a message. The first ones say which it is.
    pub fn bytes(&self, phase: usize, index: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.phases[phase].messages[index].bytes];
        Rng::with_seed(self.seed ^ ((phase as u64) << 40) ^ index as u64).fill(&mut bytes);
        bytes[..4].copy_from_slice(&(phase as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(index as u32).to_le_bytes());
        bytes
    }
}

fn phase(ranks: u32, random: &mut Rng) -> Phase {
    let styles = (0..ranks).map(|_| Style { any_source: random.bool(), any_tag: random.bool() }).collect();
    let tags = random.i32(1..3);
    let planned = |random: &mut Rng| {
        // Most messages are small.
        let bytes_max = (BYTES_MAX - 8) >> random.u8(0..6);
        Planned {
            from: random.u32(0..ranks),
            to: random.u32(0..ranks),
            tag: random.i32(0..tags),
            bytes: 8 + random.usize(0..bytes_max),
            is_synchronous: random.u8(0..6) == 0,
        }
    };
    let count = random.usize(0..MESSAGES_MAX / 2 - 1);
    Phase { messages: (0..count).map(|_| planned(random)).collect(), styles }
}

fn round(ranks: u32, random: &mut Rng) -> Round {
    let hosts = random.usize(1..=4);
    let place = |random: &mut Rng| random.u32(0..hosts as u32);
    let places = (0..ranks).map(|_| place(random)).collect();
    let event = |random: &mut Rng| match random.u8(0..2) {
        0 => Event::Save,
        _ => {
            let moving = (0..ranks).filter(|_| random.bool()).collect::<Vec<_>>();
            Event::Move(moving.into_iter().map(|rank| (rank, place(random))).collect())
        }
    };
    let events = (0..random.usize(0..10)).map(|_| event(random)).collect();
    let dies = (random.u8(0..4) > 0).then(|| (random.usize(0..hosts), random.u64(1..50)));
    Round { hosts, places, events, dies }
}
