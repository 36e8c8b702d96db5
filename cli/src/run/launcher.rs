//! The launcher in the command of a job: its kind, its options, and the words that tell it where to start how many
//! ranks.

use super::{
    in_job::InJob,
    kind::{Kind, NO_WORDS, TWO_WORDS, counts, places, which_mpi},
    nodes::{Choice, HOST, Share},
};
use crate::exit::Failure;
use std::{env, ffi::OsString, path::Path};

/// The side that places the ranks on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    ByUs,
    ByCommand,
}

/// A parsed command.
#[derive(Debug)]
pub struct Launcher {
    pub kind: Kind,
    /// The words up to the launcher's name.
    head: Vec<OsString>,
    /// Its options without the number of ranks, and the program.
    tail: Vec<OsString>,
    /// The number of ranks in the command.
    pub ranks: Option<u32>,
    /// The version of Open MPI, if known.
    pub version: Option<(u32, String)>,
    /// The ranks go on by themselves after a failure.
    pub in_job: Option<InJob>,
}

/// The changes to the launcher's command for a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Variables for its environment.
    pub variables: Vec<(&'static str, String)>,
    pub command: Vec<OsString>,
}

impl Launcher {
    /// Parses the `command`; `placed`: the side that places its ranks.
    pub fn find(command: &[OsString], placed: Placed) -> Result<Launcher, Failure> {
        let Some((end, kind)) = end_of_head(command) else {
            let known = "mpiexec, mpirun, prterun or srun";
            return Err(Failure::usage(match placed {
                Placed::ByUs => format!("the command names no launcher that accepts nodes: {known}"),
                Placed::ByCommand => format!("the command names no known launcher: {known}"),
            }));
        };
        let (kind, version) = kind.map_or_else(|| which_mpi(&command[end - 1]), |kind| Ok((kind, None)))?;
        let Tail { words: tail, ranks, .. } = without_ranks(kind, &command[end..], placed)?;
        Ok(Launcher { kind, head: command[..end].to_vec(), tail, ranks, version, in_job: None })
    }

    /// The spare ranks, which wait for a failure.
    fn spares(&self) -> u32 {
        self.in_job.as_ref().map_or(0, |in_job| in_job.spares)
    }

    /// The command, with additions for ranks that go on after a failure. Fails if spares cannot be added.
    pub fn words_as_placed(&self) -> Result<Words, Failure> {
        let (mut variables, mut options) = (Vec::new(), Vec::new());
        match self.ranks {
            Some(ranks) => options.extend(["-n".to_owned(), ranks.saturating_add(self.spares()).to_string()]),
            None if self.spares() > 0 => {
                return Err(Failure::usage("the command gives no number of ranks (-n) to add --spares to".to_owned()));
            }
            None => {}
        }
        if self.in_job.is_some() {
            variables.extend(more_than_slots());
        }
        Ok(self.with(variables, options))
    }

    /// The whole command, with `options` of our own.
    fn with(&self, mut variables: Vec<(&'static str, String)>, options: Vec<String>) -> Words {
        let in_job = self.in_job.as_ref();
        variables.extend(in_job.map(InJob::variables).unwrap_or_default());
        let options = options.into_iter().chain(in_job.map(InJob::options).unwrap_or_default()).map(OsString::from);
        Words { variables, command: self.head.iter().cloned().chain(options).chain(self.tail.clone()).collect() }
    }

    /// Number of ranks to start for `ranks` at work.
    pub fn with_spares(&self, ranks: u32) -> u32 {
        ranks.saturating_add(self.spares())
    }

    /// The command that starts `ranks` ranks, including spares, on the nodes of `choice`.
    pub fn words(&self, choice: &Choice, ranks: u32) -> Words {
        let shares = &choice.shares;
        let is_crowded = choice.slots() < ranks;
        let listed = |shown: &dyn Fn(&Share) -> String| shares.iter().map(shown).collect::<Vec<_>>().join(",");
        let (names, with_ranks) =
            (listed(&|share| share.name.clone()), listed(&|share| format!("{}:{}", share.name, share.ranks)));
        let mut variables = Vec::new();
        let mut options = match self.kind {
            Kind::OpenMpi => {
                if is_crowded {
                    // As variables, so that options of the same kind in the command do not conflict.
                    variables.extend(CROWDED.iter().map(owned));
                }
                vec!["--host".to_owned(), with_ranks, "-n".to_owned(), ranks.to_string()]
            }
            Kind::Mpich => vec!["-hosts".to_owned(), with_ranks, "-n".to_owned(), ranks.to_string()],
            Kind::Srun => {
                let nodes = [format!("--nodes={}", shares.len()), format!("--nodelist={names}")];
                // Slurm counts the cores of a job with a lost node as in use until it has noticed the loss itself.
                [nodes.to_vec(), vec![format!("--ntasks={ranks}"), "--overlap".to_owned()]].concat()
            }
        };
        if self.kind == Kind::Srun && is_crowded {
            options.push("--overcommit".to_owned());
        }
        self.with(variables, options)
    }

    /// The shell line that checks if `{host}` answers, by the launcher's own remote shell.
    pub fn reach(&self, in_slurm: bool) -> String {
        let own_shell = match self.kind {
            Kind::Srun => None,
            Kind::OpenMpi => self.named(&["plm_ssh_agent", "plm_rsh_agent"]).or_else(|| {
                ["PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"].iter().find_map(|name| env::var(name).ok())
            }),
            Kind::Mpich => {
                self.named(&["-launcher-exec", "--launcher-exec"]).or_else(|| env::var("HYDRA_LAUNCHER_EXEC").ok())
            }
        };
        match own_shell {
            // Open MPI accepts several agents, and uses the first that exists.
            Some(agent) => format!("{} {HOST} true", agent.split(':').next().unwrap_or("ssh").trim()),
            None if in_slurm || self.kind == Kind::Srun => {
                format!("srun --overlap --nodes=1 --ntasks=1 --nodelist={HOST} --mpi=none true")
            }
            None => format!("ssh -o BatchMode=yes {HOST} true"),
        }
    }

    /// The word after the first of `names`.
    fn named(&self, names: &[&str]) -> Option<String> {
        let at = self.tail.iter().position(|word| names.iter().any(|name| word == name))?;
        Some(self.tail.get(at + 1)?.to_str()?.to_owned())
    }
}

/// The place after the launcher's name in the command, and its kind if the name tells it.
fn end_of_head(command: &[OsString]) -> Option<(usize, Option<Kind>)> {
    command.iter().enumerate().find_map(|(at, word)| {
        let name = Path::new(word).file_name()?.to_str()?;
        match name {
            "srun" => Some((at + 1, Some(Kind::Srun))),
            "prterun" | "orterun" => Some((at + 1, Some(Kind::OpenMpi))),
            _ if name.starts_with("mpiexec") || name.starts_with("mpirun") => Some((at + 1, None)),
            _ => None,
        }
    })
}

/// The parts of a command that starts processes of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The place of the launcher's name.
    pub launcher: usize,
    /// The place of the program. It is the length of the command if that names none.
    pub program: usize,
    /// The number of processes, if the launcher's options give it.
    pub processes: Option<u32>,
}

/// The parts of the command; `None` if it names no known launcher.
pub fn parts(command: &[OsString]) -> Result<Option<Parts>, Failure> {
    let Some((end, kind)) = end_of_head(command) else { return Ok(None) };
    let kind = kind.map_or_else(|| which_mpi(&command[end - 1]).map(|(kind, _)| kind), Ok)?;
    let found = without_ranks(kind, &command[end..], Placed::ByCommand)?;
    let separator = command.get(end + found.program).is_some_and(|word| word == "--");
    let program = end + found.program + usize::from(separator);
    Ok(Some(Parts { launcher: end - 1, program, processes: found.ranks }))
}

/// Options of Open MPI 5 and 4 for more ranks than slots, or cores: ranks are bound to no core, and yield while they
/// wait.
const CROWDED: [(&str, &str); 5] = [
    ("PRTE_MCA_rmaps_default_mapping_policy", "slot:OVERSUBSCRIBE"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// The subset that allows more ranks than slots and changes nothing else. Open MPI does not reuse the slot of a failed
/// process for its replacement.
fn more_than_slots() -> impl Iterator<Item = (&'static str, String)> {
    CROWDED.iter().filter(|(name, _)| name.contains("rmaps")).map(owned)
}

fn owned((name, value): &(&'static str, &str)) -> (&'static str, String) {
    (name, (*value).to_owned())
}

/// A short option and its value in one word: `-n4`.
fn attached(kind: Kind, word: &str) -> Option<(&str, Option<&str>)> {
    let is_short = kind == Kind::Srun && word.starts_with('-') && !word.starts_with("--");
    let (option, value) = word.split_at_checked(2).filter(|(_, value)| is_short && !value.is_empty())?;
    if NO_WORDS.contains(&option) {
        // In a word of several short options, the last may have its value in the next word.
        let has_none = |last: char| NO_WORDS.iter().any(|known| known[1..].chars().eq([last]));
        return value.chars().next_back().filter(|last| has_none(*last)).map(|_| (option, None));
    }
    Some((option, Some(value)))
}

/// The words after the launcher's name.
#[derive(Debug, PartialEq, Eq)]
struct Tail {
    /// All but the number of ranks.
    words: Vec<OsString>,
    /// The number of ranks, if the options give it.
    ranks: Option<u32>,
    /// The number of given words before the program, or before the `--` in front of it.
    program: usize,
}

fn without_ranks(kind: Kind, words: &[OsString], placed: Placed) -> Result<Tail, Failure> {
    if words.iter().any(|word| word == ":") {
        return Err(Failure::usage(match placed {
            Placed::ByUs => {
                "a job of several programs (`:`) cannot be given nodes; start it without --hosts".to_owned()
            }
            Placed::ByCommand => "it has several programs (`:`)".to_owned(),
        }));
    }
    let (mut kept, mut ranks, mut at) = (Vec::new(), None, 0);
    let mut may_be_value = false;
    while let Some(word) = words.get(at) {
        let text = word.to_string_lossy();
        let (option, value) = text.split_once('=').map_or((&*text, None), |(option, value)| (option, Some(value)));
        if !text.starts_with('-') && !may_be_value || text == "--" {
            break;
        }
        let (option, value) = attached(kind, &text).unwrap_or((option, value));
        if placed == Placed::ByUs && text.starts_with('-') && places(kind).contains(&option) {
            return Err(Failure::usage(format!(
                "the command itself places its ranks ({option}): leave that out, because mainstay run has the nodes"
            )));
        }
        may_be_value = false;
        if counts(kind).contains(&option) {
            let next = words.get(at + 1).map(|word| word.to_string_lossy().into_owned());
            let given = value.map(str::to_owned).or(next);
            let number = given.as_deref().and_then(|given| given.parse().ok()).filter(|number| *number > 0);
            ranks = Some(
                number.ok_or_else(|| Failure::usage(format!("{option} of the command is not followed by a number")))?,
            );
            at += if value.is_some() { 1 } else { 2 };
            continue;
        }
        let taken = if TWO_WORDS.contains(&option) { 3 } else { 1 };
        may_be_value = text.starts_with('-') && taken == 1 && value.is_none() && !NO_WORDS.contains(&option);
        kept.extend(words[at..].iter().take(taken).cloned());
        at += taken;
    }
    kept.extend(words.get(at..).unwrap_or(&[]).iter().cloned());
    Ok(Tail { words: kept, ranks, program: at.min(words.len()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Recovery;
    use std::time::Duration;

    fn split(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    /// The whole command for ranks on nodes, given as "n1:2" or, if slots and ranks differ, "n1:3/2".
    fn told(command: &str, nodes: &str) -> String {
        let shares = nodes.split_whitespace().map(|node| {
            let (name, ranks) = node.split_once(':').unwrap();
            let (ranks, slots) = ranks.split_once('/').unwrap_or((ranks, ranks));
            Share { name: name.to_owned(), ranks: ranks.parse().unwrap(), slots: slots.parse().unwrap() }
        });
        let choice = Choice { shares: shares.collect(), moves: Vec::new() };
        let ranks = choice.shares.iter().map(|share| share.ranks).sum();
        let words = Launcher::find(&split(command), Placed::ByUs).unwrap().words(&choice, ranks);
        let variables = words.variables.iter().map(|(name, value)| format!("{name}={value}"));
        let command = words.command.iter().map(|word| word.to_str().unwrap().to_owned());
        variables.chain(command).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn srun_is_told_the_nodes() {
        let command = "env A=b srun -n 4 --mpi=pmi2 ./program -n 5";
        assert_eq!(
            told(command, "n1:2 n2:2"),
            "env A=b srun --nodes=2 --nodelist=n1,n2 --ntasks=4 --overlap --mpi=pmi2 ./program -n 5"
        );
        assert_eq!(
            told("srun -n4 ./program", "n1:4/2"),
            "srun --nodes=1 --nodelist=n1 --ntasks=4 --overlap --overcommit ./program"
        );
        assert!(told("srun -pbatch program -n4", "n1:4/2").ends_with("-pbatch program -n4"));
        assert!(told("srun -lp batch -n 4 ./program", "n1:4/2").ends_with("-lp batch ./program"));
        for placed in ["srun -N2 -n4 ./program", "srun -n4 -wn1 ./program"] {
            let error = Launcher::find(&split(placed), Placed::ByUs).err().unwrap();
            assert!(error.message.contains("itself places its ranks (-"), "{}", error.message);
        }
    }

    #[test]
    fn open_mpi_is_told_the_nodes() {
        assert_eq!(
            told("prterun -n 4 --prtemca plm_ssh_agent rsh --bind-to core ./program -n 5", "n1:2 n2:2"),
            "prterun --host n1:2,n2:2 -n 4 --prtemca plm_ssh_agent rsh --bind-to core ./program -n 5"
        );
        let crowded = told("prterun ./program", "n1:3/2");
        assert!(crowded.starts_with("PRTE_MCA_rmaps_default_mapping_policy=slot:OVERSUBSCRIBE "), "{crowded}");
        assert!(crowded.ends_with(" OMPI_MCA_mpi_yield_when_idle=1 prterun --host n1:3 -n 3 ./program"), "{crowded}");
    }

    fn in_job(spares: u32, heartbeat: Option<Duration>) -> Option<InJob> {
        Some(InJob { recovery: Recovery::Replace, spares, spares_set: 0, heartbeat })
    }

    fn line(words: &Words) -> String {
        let variables = words.variables.iter().map(|(name, value)| format!("{name}={value}"));
        let command = words.command.iter().map(|word| word.to_str().unwrap().to_owned());
        variables.chain(command).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ranks_that_go_on_by_themselves_get_what_that_takes() {
        const ENDS: &str = "--with-ft ulfm --mca async_mpi_finalize 1 -x MAINSTAY_RECOVERY -x MAINSTAY_SPARES";
        let found = Launcher::find(&split("prterun --bind-to core -n 100000 ./a -n 5"), Placed::ByCommand).unwrap();
        let launcher = Launcher { in_job: in_job(2, None), ..found };
        assert_eq!(
            line(&launcher.words_as_placed().unwrap()),
            format!(
                "PRTE_MCA_rmaps_default_mapping_policy=slot:OVERSUBSCRIBE OMPI_MCA_rmaps_base_oversubscribe=1 \
                 MAINSTAY_RECOVERY=replace MAINSTAY_SPARES=2 prterun -n 100002 {ENDS} --bind-to core ./a -n 5"
            )
        );
        // Even if the ranks fit, because a replacement rank does not.
        let found = Launcher::find(&split("prterun -n 1 ./a"), Placed::ByCommand).unwrap();
        let launcher = Launcher { in_job: in_job(0, Some(Duration::from_secs(1))), ..found };
        let told = line(&launcher.words_as_placed().unwrap());
        let allowed = "PRTE_MCA_rmaps_default_mapping_policy=slot:OVERSUBSCRIBE OMPI_MCA_rmaps_base_oversubscribe=1";
        assert_eq!(
            told,
            format!(
                "{allowed} MAINSTAY_RECOVERY=replace MAINSTAY_SPARES=0 prterun -n 1 --with-ft ulfm --mca async_mpi_finalize 1 \
                 --mca mpi_ft_detector true --mca mpi_ft_detector_thread true --mca mpi_ft_detector_period 0.2 \
                 --mca mpi_ft_detector_timeout 1 -x MAINSTAY_RECOVERY -x MAINSTAY_SPARES ./a"
            )
        );
        let found = Launcher::find(&split("prterun ./a"), Placed::ByCommand).unwrap();
        let refused = Launcher { in_job: in_job(1, None), ..found }.words_as_placed().unwrap_err();
        assert!(refused.message.contains("no number of ranks"), "{refused:?}");
    }

    #[test]
    fn the_number_of_ranks_is_that_of_the_launcher_alone() {
        let found = |kind, text: &str| {
            let tail = without_ranks(kind, &split(text), Placed::ByUs).unwrap();
            (tail.words, tail.ranks)
        };
        assert_eq!(found(Kind::Mpich, "-launcher ssh -n 3 ./a -n 5"), (split("-launcher ssh ./a -n 5"), Some(3)));
        assert_eq!(found(Kind::Mpich, "-genv X 1 ./a -n 5"), (split("-genv X 1 ./a -n 5"), None));
        assert_eq!(found(Kind::OpenMpi, "--oversubscribe ./a -np 5"), (split("--oversubscribe ./a -np 5"), None));
        assert_eq!(
            found(Kind::OpenMpi, "-x A=1 --mca btl self,tcp -np 7 a"),
            (split("-x A=1 --mca btl self,tcp a"), Some(7))
        );
        assert_eq!(found(Kind::Srun, "--mpi=pmi2 --ntasks=2 a"), (split("--mpi=pmi2 a"), Some(2)));
        assert_eq!(found(Kind::Srun, "-- a -n 4"), (split("-- a -n 4"), None));
        for (kind, option) in [
            (Kind::Srun, "--exact"),
            (Kind::Srun, "--kill-on-bad-exit"),
            (Kind::OpenMpi, "--use-hwthread-cpus"),
            (Kind::OpenMpi, "--timestamp-output"),
        ] {
            let command = format!("{option} ./a -n 5");
            assert_eq!(found(kind, &command), (split(&command), None));
        }
    }

    #[test]
    fn the_program_comes_after_the_options_of_the_launcher() {
        let found = |text: &str| {
            let command = split(text);
            let parts = parts(&command).unwrap().unwrap();
            (command.get(parts.program).map(|word| word.to_str().unwrap().to_owned()), parts.processes)
        };
        let heat = Some("./heat".to_owned());
        assert_eq!(found("env A=b prterun -n 4 --bind-to core ./heat -n 5"), (heat.clone(), Some(4)));
        assert_eq!(found("prterun -x A=1 --mca btl self,tcp ./heat a"), (heat.clone(), None));
        assert_eq!(found("srun -n2 -- ./heat"), (heat.clone(), Some(2)));
        assert_eq!(found("srun -lp batch -n 4 ./heat"), (heat, Some(4)));
        assert_eq!(found("prterun -n 4"), (None, Some(4)));
        assert_eq!(parts(&split("./heat -n 4")).unwrap(), None);
    }

    #[test]
    fn what_only_one_can_say_is_refused() {
        let refused = |text: &str| Launcher::find(&split(text), Placed::ByUs).unwrap_err().message;
        assert!(refused("srun -w n3 -n 2 ./a").contains("places its ranks (-w)"));
        assert!(refused("prterun --host n1 ./a").contains("(--host)"));
        assert!(refused("prterun -n 2 ./a : -n 3 ./b").contains("several programs"));
        assert!(refused("prterun -n two ./a").contains("-n of the command"));
        assert!(refused("./program -n 5").contains("no launcher"));
        // The program's own options belong to the program.
        assert!(Launcher::find(&split("prterun -n 2 ./a --host x"), Placed::ByUs).is_ok());
    }

    #[test]
    fn nodes_are_asked_as_the_launcher_reaches_them() {
        let reach = |text: &str, in_slurm| Launcher::find(&split(text), Placed::ByUs).unwrap().reach(in_slurm);
        assert_eq!(reach("prterun --prtemca plm_ssh_agent /x/rsh ./a", true), "/x/rsh {host} true");
        assert_eq!(reach("prterun ./a", false), "ssh -o BatchMode=yes {host} true");
        assert!(reach("prterun ./a", true).starts_with("srun --overlap "));
        assert!(reach("srun ./a", false).contains("--nodelist={host}"));
    }
}
