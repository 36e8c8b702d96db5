//! Support for a job that goes on by itself when ranks fail: launcher options, spare ranks, and the settings of its
//! ranks.

use super::kind::Kind;
use crate::{
    arguments::{self, Recovery},
    exit::{Failure, say},
};
use mainstay_engine::{Choice, Config};
use std::time::Duration;

/// The first Open MPI that survives the failure of ranks.
const OPEN_MPI_MIN: u32 = 5;
/// A rank is heard this many times in the time after which it counts as failed.
const BEATS: f64 = 5.0;

/// The kind of a launcher, and its version, if known.
type Started<'a> = (Kind, Option<&'a (u32, String)>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InJob {
    pub recovery: Recovery,
    /// Spare ranks that are started in addition to the ranks of the command.
    pub spares: u32,
    /// Spare ranks among those of the command, from a setting.
    pub spares_set: u32,
    pub heartbeat: Option<Duration>,
}

impl InJob {
    /// The requested recovery, if the `launcher` starts an MPI that supports it; otherwise an error. `launcher`: the
    /// kind of the command's launcher, with the version of Open MPI, or the reason that there is none.
    pub fn of(wanted: &arguments::Run, launcher: Result<Started<'_>, String>) -> Result<Option<InJob>, Failure> {
        let (spares, _) = spares(wanted)?;
        if !wanted.in_job {
            return Ok(None);
        }
        let why = match launcher {
            Ok(launcher) => why_not(launcher),
            Err(why) => Some(why),
        };
        if let Some(why) = why {
            say(&format!(
                "the job cannot go on by itself when ranks fail: {why}; after a failure it is started again instead"
            ));
            return Ok(None);
        }
        // Everything else comes from the settings, as the ranks will read them. The ranks report wrong settings.
        let set = Config::resolve(&Choice::default()).ok().map(|resolved| resolved.config);
        let recovery = wanted.recovery.unwrap_or_else(|| Recovery::set(set.as_ref()));
        if recovery == Recovery::Shrink && spares > 0 {
            let which =
                if wanted.recovery.is_some() { "--recovery shrink" } else { "the setting recovery = \"shrink\"" };
            let why = format!("{which} goes on with fewer ranks and needs no spare ranks; leave --spares out");
            return Err(Failure::usage(why));
        }
        let spares_set = set.map_or(0, |set| set.spares);
        Ok(Some(InJob { recovery, spares, spares_set, heartbeat: wanted.heartbeat }))
    }

    /// The settings of the ranks.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let recovery = match self.recovery {
            Recovery::Replace => "replace",
            Recovery::Shrink => "shrink",
        };
        let spares = if self.spares > 0 { self.spares } else { self.spares_set };
        vec![(RECOVERY, recovery.to_owned()), (SPARES, spares.to_string())]
    }

    /// The further options that Open MPI needs.
    pub fn options(&self) -> Vec<String> {
        // Without the second one, ranks may wait in MPI_Finalize for a failed rank.
        let mut options: Vec<String> =
            ["--with-ft", "ulfm", "--mca", "async_mpi_finalize", "1"].map(String::from).into();
        if let Some(time) = self.heartbeat {
            let (time, period) = (time.as_secs_f64(), time.as_secs_f64() / BEATS);
            // In a thread of its own: otherwise a rank that computes for long counts as dead.
            let set = [
                ("mpi_ft_detector", "true".to_owned()),
                ("mpi_ft_detector_thread", "true".to_owned()),
                ("mpi_ft_detector_period", period.to_string()),
                ("mpi_ft_detector_timeout", time.to_string()),
            ];
            options.extend(set.into_iter().flat_map(|(name, value)| ["--mca".to_owned(), name.to_owned(), value]));
        }
        // Ranks on other nodes do not inherit them.
        options.extend([RECOVERY, SPARES].iter().flat_map(|name| ["-x".to_owned(), (*name).to_owned()]));
        options
    }
}

impl Recovery {
    /// As the settings say.
    fn set(config: Option<&Config>) -> Recovery {
        match config.map(|config| config.recovery) {
            Some(mainstay_engine::Recovery::Shrink) => Recovery::Shrink,
            Some(mainstay_engine::Recovery::Replace | mainstay_engine::Recovery::Off) | None => Recovery::Replace,
        }
    }
}

const RECOVERY: &str = "MAINSTAY_RECOVERY";
const SPARES: &str = "MAINSTAY_SPARES";

/// The reason that the ranks of a launcher cannot go on after a failure.
fn why_not(launcher: Started<'_>) -> Option<String> {
    let open_mpi = format!("Open MPI can, from {OPEN_MPI_MIN}.0 on, with its own mpiexec");
    match launcher {
        (Kind::OpenMpi, Some((major, version))) if *major < OPEN_MPI_MIN => {
            Some(format!("Open MPI {version} ends it; {open_mpi}"))
        }
        (Kind::OpenMpi, _) => None,
        (Kind::Mpich, _) => Some(format!("MPICH ends it; {open_mpi}")),
        (Kind::Srun, _) => Some(format!("srun ends it; {open_mpi}")),
    }
}

/// The number of spare ranks, and the lists of spare nodes.
pub fn spares(wanted: &arguments::Run) -> Result<(u32, Vec<&str>), Failure> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (numbers, nodes): (Vec<&str>, Vec<&str>) = wanted.spares.iter().map(String::as_str).partition(is_number);
    let ranks = match numbers[..] {
        [] => 0,
        [number] if wanted.in_job => {
            number.parse().map_err(|_| Failure::usage(format!("--spares {number}: too many")))?
        }
        [number] => {
            let why = format!(
                "--spares {number} is a number of spare ranks, which needs --in-job; for spare nodes, give their names"
            );
            return Err(Failure::usage(why));
        }
        [..] => return Err(Failure::usage("--spares has two numbers; give one")),
    };
    if !nodes.is_empty() && wanted.hosts.is_none() && wanted.hostfile.is_none() && wanted.nodes_from.is_none() {
        return Err(Failure::usage(
            "--spares names nodes that replace others: give those with --hosts, --hostfile or --nodes-from",
        ));
    }
    Ok((ranks, nodes))
}
