//! The nodes of a start: the list is read again before each start, and nodes that do not answer are left out.

use super::{
    in_job::{self, InJob},
    kind::Kind,
    launcher::{self, Launcher, Words},
    nodes::{Node, Reach, Source, choose, of_words},
    watch::Watch,
};
use crate::{
    arguments,
    exit::{Failure, say},
    text::count,
};
use std::{collections::BTreeSet, env, fs, time::Duration};

/// Default time for a node to answer.
const REACH_LIMIT: Duration = Duration::from_secs(10);
/// Default interval of checks on the nodes of a job at work.
const LOOK_EVERY: Duration = Duration::from_secs(60);

pub struct Nodes {
    source: Source,
    spares: Vec<Node>,
    launcher: Launcher,
    /// Ranks of every start, unless fewer are allowed.
    ranks: u32,
    /// Least number of ranks, if the nodes have too few slots.
    enough: u32,
    reach: Reach,
    look_every: Option<Duration>,
    /// The nodes of the last start, in the order of its ranks.
    used: Vec<String>,
}

/// The plan of the next start.
pub struct Start {
    pub words: Words,
    /// Including spare ranks.
    pub ranks: u32,
    /// A node of the last start does not answer.
    pub lost: bool,
}

impl Nodes {
    /// `None` if the command itself places its ranks.
    pub fn of(wanted: &arguments::Run) -> Result<Option<Nodes>, Failure> {
        let Some(source) = source(wanted)? else { return Ok(None) };
        let (_, spares) = in_job::spares(wanted)?;
        let spares =
            spares.into_iter().map(|text| of_words(text).map_err(of("--spares"))).collect::<Result<Vec<_>, _>>()?;
        let spares = spares.concat();
        let mut launcher = Launcher::find(&wanted.command, launcher::Placed::ByUs)?;
        launcher.in_job = InJob::of(wanted, Ok((launcher.kind, launcher.version.as_ref())))?;
        let ranks = match (wanted.ranks, launcher.ranks) {
            (Some(wanted), Some(said)) if wanted != said => {
                return Err(Failure::usage(format!(
                    "--ranks {wanted} conflicts with {said} in the command; leave one of them out"
                )));
            }
            (Some(ranks), _) | (None, Some(ranks)) => ranks,
            // One rank for each slot, as in the launchers.
            (None, None) => source.read()?.iter().fold(0, |sum: u32, node| sum.saturating_add(node.slots)),
        };
        let enough = wanted.ranks_at_least.unwrap_or(ranks);
        if enough > ranks {
            return Err(Failure::usage(format!(
                "--ranks-at-least {enough} is more than the {} of a start",
                count(ranks.into(), "rank")
            )));
        }
        let [ranks, enough] = [ranks, enough].map(|ranks| launcher.with_spares(ranks));
        let in_slurm = matches!(source, Source::Slurm);
        let command = wanted.reach.clone().unwrap_or_else(|| launcher.reach(in_slurm));
        // Slurm would count each check as one more step of the job, and checks by itself.
        let looks_itself = wanted.reach.is_none() && (in_slurm || launcher.kind == Kind::Srun);
        let look_every = wanted.look_every.or((!looks_itself).then_some(LOOK_EVERY)).filter(|every| !every.is_zero());
        let here = if wanted.reach.is_some() { Vec::new() } else { names_of_this_machine() };
        let reach = Reach { command, limit: wanted.reach_limit.unwrap_or(REACH_LIMIT), here };
        Ok(Some(Nodes { source, spares, launcher, ranks, enough, reach, look_every, used: Vec::new() }))
    }

    /// Places the ranks of the next start; fails if no node answers.
    pub fn place(&mut self) -> Result<Start, Failure> {
        let listed = self.source.read()?;
        // A node of the last start that is in no list any more is gone, and is not checked.
        let names: Vec<String> = listed.iter().chain(&self.spares).map(|node| node.name.clone()).collect();
        let names: Vec<String> = BTreeSet::from_iter(names).into_iter().collect();
        let told = self.reach.ask(&names);
        let silent = names.iter().zip(&told).filter_map(|(name, why)| Some((name, why.as_ref()?)));
        let silent: Vec<(&String, &String)> = silent.collect();
        for (name, why) in &silent {
            say(&format!("{name} does not answer and is left out: {why}"));
        }
        let answers =
            |name: &str| names.iter().any(|known| known == name) && silent.iter().all(|(known, _)| *known != name);
        let spares = self.spares.iter().filter(|spare| listed.iter().all(|node| node.name != spare.name));
        let there = listed.iter().chain(spares).filter(|node| answers(&node.name));
        let slots = there.fold(0, |sum: u32, node| sum.saturating_add(node.slots));
        let ranks = self.ranks.min(slots.max(self.enough));
        let choice = choose(&self.used, &listed, &self.spares, answers, ranks);
        if choice.shares.is_empty() {
            return Err(Failure::refused(format!("no node answers ({})", self.reach.command)));
        }
        for (lost, spare) in &choice.moves {
            say(&format!("{spare} replaces {lost}"));
        }
        if ranks < self.ranks {
            say(&format!(
                "{} start instead of {}, because the nodes that answer have {}",
                count(ranks.into(), "rank"),
                self.ranks,
                count(slots.into(), "slot")
            ));
        }
        if choice.slots() < ranks {
            say(&format!("{ranks} ranks share {}: several to a core", count(choice.slots().into(), "slot")));
        }
        let lost = self.used.iter().any(|name| !answers(name));
        self.used = choice.shares.iter().map(|share| share.name.clone()).collect();
        Ok(Start { words: self.launcher.words(&choice, ranks), ranks, lost })
    }

    /// True if the ranks go on by themselves after a failure.
    pub fn is_in_job(&self) -> bool {
        self.launcher.in_job.is_some()
    }

    /// A node of the last start that no longer answers, with the reason.
    pub fn silent(&self) -> Option<(String, String)> {
        let told = self.reach.ask(&self.used);
        self.used.iter().zip(told).find_map(|(name, why)| Some((name.clone(), why?)))
    }

    pub fn watch(&self) -> Option<Watch> {
        let every = self.look_every?;
        Some(Watch { reach: self.reach.clone(), every, nodes: self.used.clone() })
    }
}

fn source(wanted: &arguments::Run) -> Result<Option<Source>, Failure> {
    Ok(match (&wanted.hosts, &wanted.hostfile, wanted.nodes_from) {
        (Some(text), ..) => Some(Source::Given(of_words(text).map_err(of("--hosts"))?)),
        (_, Some(path), _) => Some(Source::File(path.clone())),
        (_, _, Some(arguments::NodesFrom::Slurm)) => Some(Source::Slurm),
        _ => None,
    })
}

fn of(option: &'static str) -> impl Fn(String) -> Failure {
    move |why| Failure::usage(format!("{option}: {why}"))
}

fn names_of_this_machine() -> Vec<String> {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let short = own.split('.').next().unwrap_or("").to_owned();
    ["localhost".to_owned(), own, short].into_iter().chain(env::var("SLURMD_NODENAME")).collect()
}
