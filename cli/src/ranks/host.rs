//! The host program in the command of a job: it stands before the user's program, and runs several ranks of that.

use super::{alone, cache, installed::Installed};
use crate::{
    arguments,
    exit::{Failure, say},
    run::{launcher, outside},
    text,
};
use mainstay_engine::{count, printable_path};
use mainstay_ranks::{Abi, Inspected, inspect};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const SOURCE: &str = "mainstay_ranks.c";
const PROGRAM: &str = "mainstay-ranks";
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const COMPILE_LIMIT: Duration = Duration::from_secs(300);

/// A job whose ranks lie in slots.
pub struct Hosted {
    /// The user's command, with the host program before the program.
    pub command: Vec<OsString>,
    pub found: Found,
}

/// What is known of the job before it starts.
pub struct Found {
    program: OsString,
    inspected: Inspected,
    /// `None`: as many as the launcher starts processes.
    ranks: Option<u32>,
}

/// The job with --virtual; refuses a program that cannot run in slots.
pub fn hosted(wanted: &arguments::Run, ranks: u32) -> Result<Hosted, Failure> {
    let [space] = &wanted.spaces[..] else {
        return Err(Failure::usage("--virtual saves all ranks to one space; give --space once"));
    };
    let installed = Installed::find()?;
    let parts = launcher::parts(&wanted.command)?;
    let at = parts.map_or(0, |parts| parts.program);
    let program = &wanted.command[at..];
    if program.is_empty() {
        return Err(Failure::usage("the launcher of the command is given no program"));
    }
    let given = (ranks > 0).then_some(ranks);
    let processes = parts.map_or(Some(1), |parts| wanted.ranks.or(parts.processes));
    let ranks = given.or(processes);
    let inspected = inspect(program, ranks.unwrap_or(1) as usize).map_err(alone::failure)?;
    let found = Found { program: program[0].clone(), inspected, ranks };
    let mut words = wanted.command[..at].to_vec();
    if let Some(every) = wanted.every {
        // Not every launcher passes variables on to other machines.
        words.extend(["env".into(), format!("MAINSTAY_EVERY_SECONDS={}", every.as_secs_f64()).into()]);
    }
    match parts {
        Some(parts) => words.push(host_program(&wanted.command[parts.launcher], &installed)?.into()),
        None => words.extend([installed.command.clone().into(), "host-ranks".into()]),
    }
    if let Some(ranks) = given {
        words.extend(["--virtual".into(), ranks.to_string().into()]);
    }
    words.extend(["--space".into(), space.into(), "--library".into(), installed.libraries.into(), "--".into()]);
    words.extend_from_slice(program);
    Ok(Hosted { command: words, found })
}

pub fn tell_what_was_found(found: &Found) {
    let abi = match found.inspected.abi {
        Abi::Mpich => "built for MPICH's ABI",
        Abi::Standard => "built for the standard ABI of MPI 5",
        Abi::Unknown => "linked to no MPI",
    };
    let ranks = found.ranks.map_or("as many ranks as processes".to_owned(), |ranks| count(ranks.into(), "rank"));
    let room = text::bytes(found.inspected.slot_bytes);
    say(&format!("{}: {abi}; {ranks} in slots of {room}", printable_path(Path::new(&found.program))));
}

/// The host program for the MPI of the launcher, compiled on first use.
fn host_program(launcher: &OsStr, installed: &Installed) -> Result<PathBuf, Failure> {
    let mpicc = mpicc(launcher)?;
    let asked = |option: &str| {
        let answer = outside::ask(Command::new(&mpicc).arg(option), ANSWER_LIMIT);
        answer.map_or_else(|_| String::new(), |answer| answer.output)
    };
    let (shown, version) = (asked("-show"), asked("--version"));
    let source = installed.share.join(SOURCE);
    let mut read = vec![source.clone()];
    let headers = fs::read_dir(&installed.host_headers).into_iter().flatten().flatten().map(|entry| entry.path());
    read.extend(headers.filter(|path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("mainstay") && name.ends_with(".h")
    }));
    read[1..].sort();
    let unreadable = |e| Failure::refused(format!("{} cannot be read: {e}", printable_path(&source)));
    let texts = read.iter().map(fs::read).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    let own = env!("CARGO_PKG_VERSION");
    let mut parts = vec![
        own.as_bytes(),
        mpicc.as_os_str().as_bytes(),
        shown.as_bytes(),
        version.as_bytes(),
        installed.host_library.as_os_str().as_bytes(),
    ];
    parts.extend(texts.iter().map(Vec::as_slice));
    let folder = cache::once(&cache::name("host", &parts), |folder| compile(&mpicc, &source, installed, folder))?;
    Ok(folder.join(PROGRAM))
}

fn compile(mpicc: &Path, source: &Path, installed: &Installed, folder: &Path) -> Result<(), Failure> {
    let library = &installed.host_library;
    let mut command = Command::new(mpicc);
    command.args(["-O2", "-I"]).arg(&installed.host_headers).arg(source).arg("-L").arg(library);
    command.args(["-lmainstay", "-Xlinker", "-rpath", "-Xlinker"]).arg(library).arg("-o").arg(folder.join(PROGRAM));
    let failed = |why: String| {
        let (mpicc, source) = (printable_path(mpicc), printable_path(source));
        Failure::refused(format!("{mpicc} cannot compile the host program {source}: {why}"))
    };
    let answer = outside::ask(&mut command, COMPILE_LIMIT).map_err(|e| failed(e.to_string()))?;
    if !answer.is_good() {
        return Err(failed(answer.why(COMPILE_LIMIT)));
    }
    Ok(())
}

/// The mpicc of the launcher's MPI: the one beside it, else that in MPICC, else the first in PATH.
fn mpicc(launcher: &OsStr) -> Result<PathBuf, Failure> {
    let beside = in_path(launcher).and_then(|launcher| {
        let name = launcher.file_name()?.to_str()?;
        // mpiexec.openmpi has its mpicc.openmpi.
        let suffix = name.find('.').map_or("", |at| &name[at..]);
        let real = launcher.canonicalize().ok();
        [Some(&launcher), real.as_ref()].into_iter().flatten().find_map(|launcher| {
            let names = [format!("mpicc{suffix}"), "mpicc".to_owned()];
            names.map(|name| launcher.with_file_name(name)).into_iter().find(|path| path.is_file())
        })
    });
    let set = || env::var_os("MPICC").filter(|set| !set.is_empty()).and_then(|set| in_path(&set));
    beside.or_else(set).or_else(|| in_path(OsStr::new("mpicc"))).ok_or_else(|| {
        Failure::usage(format!(
            "there is no mpicc beside {}, in MPICC or in PATH: name that of the launcher's MPI in MPICC; the host \
             program for ranks is compiled with it",
            Path::new(launcher).display()
        ))
    })
}

/// The file that a shell would start.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok().filter(|path| path.is_file());
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}
