//! The list of nodes: a list of hosts, or the answer of a batch system.

use crate::{exit::Failure, given::text_of, outside};
use mainstay_engine::printable_path;
use std::{collections::BTreeMap, env, path::PathBuf, process::Command, time::Duration};

/// How long a batch system may take to answer.
const LIMIT: Duration = Duration::from_secs(30);
/// Size limit of a list of hosts.
const LIST_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Number of ranks for the node.
    pub slots: u32,
}

/// Source of the list; it is read again before each start.
pub enum Source {
    Given(Vec<Node>),
    File(PathBuf),
    Slurm,
}

impl Source {
    pub fn read(&self) -> Result<Vec<Node>, Failure> {
        match self {
            Source::Given(nodes) => Ok(nodes.clone()),
            Source::File(path) => {
                let text = text_of(path, LIST_BYTES_MAX).and_then(|text| of_file(&text));
                text.map_err(|why| {
                    Failure::usage(format!("the host list {} cannot be used: {why}", printable_path(path)))
                })
            }
            Source::Slurm => slurm().map_err(|why| {
                Failure::refused(format!("Slurm does not report the nodes of the job: {why}; give --hosts"))
            }),
        }
    }
}

/// "n1:2,n2": names, with a number of slots, or one.
pub fn of_words(text: &str) -> Result<Vec<Node>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let nodes = parts.map(|part| match part.split_once(':') {
        Some((name, slots)) => node(name, slots),
        None => node(part, "1"),
    });
    joined(nodes.collect::<Result<_, _>>()?)
}

/// A line for each host, as for Open MPI ("n1 slots=2") or MPICH ("n1:2"); `#` begins a comment.
fn of_file(text: &str) -> Result<Vec<Node>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty());
    let nodes = lines.map(|line| {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        let slots = words.find_map(|word| word.strip_prefix("slots="));
        match (first.split_once(':'), slots) {
            (Some((name, slots)), None) => node(name, slots),
            (_, slots) => node(first, slots.unwrap_or("1")),
        }
    });
    joined(nodes.collect::<Result<_, _>>()?)
}

fn node(name: &str, slots: &str) -> Result<Node, String> {
    // Names become words of commands.
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    match slots.parse() {
        _ if !is_name(name) => Err(format!("{name:?} is no name of a host")),
        Ok(slots @ 1..) => Ok(Node { name: name.to_owned(), slots }),
        _ => Err(format!("{name} has {slots:?} slots; give a whole number from 1 on")),
    }
}

/// If a host is named several times, its slots are added.
fn joined(nodes: Vec<Node>) -> Result<Vec<Node>, String> {
    let mut all: Vec<Node> = Vec::new();
    for node in nodes {
        match all.iter_mut().find(|known| known.name == node.name) {
            Some(known) => known.slots = known.slots.saturating_add(node.slots),
            None => all.push(node),
        }
    }
    if all.is_empty() { Err("it names no host".to_owned()) } else { Ok(all) }
}

/// The present nodes of the allocation: with `--no-kill` it goes on without failed nodes.
fn slurm() -> Result<Vec<Node>, String> {
    let variable = |name: &str| env::var(name).map_err(|_| format!("{name} is not set, so this is not inside a job"));
    let (job, first) = (variable("SLURM_JOB_ID")?, names(&variable("SLURM_JOB_NODELIST")?)?);
    let slots = repeated(&variable("SLURM_TASKS_PER_NODE")?)?;
    let slots: BTreeMap<&str, u32> = first.iter().map(String::as_str).zip(slots.iter().copied()).collect();
    let now = names(tell(Command::new("squeue").args(["-h", "-j", &job, "-o", "%N"]))?.trim())?;
    let nodes = now.iter().map(|name| node(name, &slots.get(name.as_str()).copied().unwrap_or(1).to_string()));
    joined(nodes.collect::<Result<_, _>>()?)
}

/// Slurm's "n[1-3,7]", one by one.
fn names(list: &str) -> Result<Vec<String>, String> {
    let told = tell(Command::new("scontrol").args(["show", "hostnames", list]))?;
    Ok(told.lines().map(|line| line.trim().to_owned()).collect())
}

/// Slurm's "2(x3),1": 2, 2, 2, 1.
fn repeated(text: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (number, times) = part.trim_end_matches(')').split_once("(x").unwrap_or((part, "1"));
        let (Ok(number), Ok(times)) = (number.parse::<u32>(), times.parse::<u16>()) else {
            return Err(format!("SLURM_TASKS_PER_NODE is {text:?}"));
        };
        all.extend((0..times).map(|_| number));
    }
    Ok(all)
}

fn tell(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match outside::ask(command, LIMIT) {
        Ok(answer) if answer.is_good() => Ok(answer.output),
        Ok(answer) => Err(format!("{name}: {}", answer.why(LIMIT))),
        Err(error) => Err(format!("{name} cannot be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(nodes: Result<Vec<Node>, String>) -> String {
        let nodes = nodes.map(|all| all.iter().map(|node| format!("{}:{}", node.name, node.slots)).collect::<Vec<_>>());
        nodes.map_or_else(|why| why, |nodes| nodes.join(" "))
    }

    #[test]
    fn lists_of_both_kinds_are_read() {
        assert_eq!(text(of_words("n1:2, n2,n1,node-3.site:16")), "n1:3 n2:1 node-3.site:16");
        let file = "# a comment\nn1 slots=2 max-slots=4\n\nn2:4 # of MPICH\nn3\n";
        assert_eq!(text(of_file(file)), "n1:2 n2:4 n3:1");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for (given, said) in [
            ("n1:two", "n1 has \"two\" slots"),
            ("n1:0", "n1 has \"0\" slots"),
            ("-x", "\"-x\" is no name of a host"),
            ("n1;reboot", "\"n1;reboot\" is no name of a host"),
            (" , ", "it names no host"),
        ] {
            assert!(text(of_words(given)).contains(said), "{given}: {}", text(of_words(given)));
        }
    }

    #[test]
    fn what_batch_systems_say_is_read() {
        assert_eq!(repeated("2(x3),1").unwrap(), [2, 2, 2, 1]);
        assert!(repeated("many").is_err());
    }
}
