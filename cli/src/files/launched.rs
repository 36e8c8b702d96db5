//! The facts that a launcher gives each of its processes: ranks, nodes, and the job's name.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    iter::successors,
};

/// Scripts may stand between a rank and its launcher.
const PARENTS_MAX: usize = 8;

pub struct Launched {
    /// 0: unknown.
    pub ranks: u32,
    pub nodes: u32,
    /// `None`: the launcher gives no name that all nodes have.
    pub name: Option<String>,
}

impl Launched {
    /// From the variables of Open MPI, MPICH's Hydra, PMIx and Slurm.
    pub fn here() -> Launched {
        let number = |names: &[&str]| names.iter().find_map(|name| env::var(name).ok()?.parse::<u32>().ok());
        let ranks = number(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"]).unwrap_or(0);
        let on_node = number(&["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]);
        // mpiexec in an allocation starts its daemons by srun: then the step is that of the daemons.
        let nodes = on_node
            .filter(|count| *count > 0)
            .map(|count| ranks.div_ceil(count))
            .or_else(|| number(&["SLURM_STEP_NUM_NODES"]))
            .unwrap_or(1);
        Launched { ranks, nodes: nodes.max(1), name: name().map(|name| short(&name)) }
    }

    /// The name of the job: the same for all processes that the launcher starts on this node, and another at each start.
    /// `sets`: the patterns of sets.
    pub fn job(&self, given: Option<&str>, sets: &[String]) -> String {
        let named = || Some(format!("{}{}", given?, env::var("MAINSTAY_RUN_STARTED").unwrap_or_default()));
        let unknown = || if sets.is_empty() { own_job() } else { job_of_sets(sets) };
        // A shell in an allocation is a launched process, too, and its commands inherit the name.
        let launched = self.name.clone().filter(|_| self.ranks > 1 || self.nodes > 1);
        short(&launched.or_else(named).unwrap_or_else(unknown))
    }
}

/// A name that all processes of this start share, and no other start has.
fn name() -> Option<String> {
    let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    given("PMIX_NAMESPACE").or_else(|| given("PRTE_LAUNCHED_NAMESPACE")).or_else(control_port).or_else(|| {
        // Without a step, several starts of a batch job have the same name.
        Some(format!("{}.{}", given("SLURM_JOB_ID")?, given("SLURM_STEP_ID")?))
    })
}

/// Hydra gives its processes no name for the job. Its proxy on each node has the address of mpiexec, HOST:PORT.
fn control_port() -> Option<String> {
    env::var_os("PMI_RANK")?;
    let parents = successors(Some(nix::unistd::getppid().as_raw()), |pid| stat(*pid).get(1)?.parse().ok());
    parents.take(PARENTS_MAX).take_while(|pid| *pid > 1).find_map(|pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = command.split(|byte| *byte == 0);
        words.find(|word| *word == b"--control-port")?;
        String::from_utf8(words.next()?.to_vec()).ok()
    })
}

/// This process alone.
pub fn own_job() -> String {
    process(nix::unistd::getpid().as_raw())
}

/// The name of a job with sets under an unknown launcher or a script. It starts all processes of a node from one process,
/// in one folder.
fn job_of_sets(sets: &[String]) -> String {
    let mut hasher = DefaultHasher::new();
    (sets, env::current_dir().ok()).hash(&mut hasher);
    format!("{:08x}{}", hasher.finish() as u32, process(nix::unistd::getppid().as_raw()))
}

/// A name of a process. Its number may be used again later.
fn process(pid: i32) -> String {
    format!("{pid}{}", stat(pid).get(19).map_or("", String::as_str))
}

/// The state of a process, and the fields after it.
fn stat(pid: i32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit(')').next().unwrap_or("").split_whitespace().map(str::to_owned).collect()
}

fn short(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).rev().take(32).collect()
}
