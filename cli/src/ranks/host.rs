//! The host program for the MPI of a launcher.

use super::{cache, installed::Installed};
use crate::{exit::Failure, outside};
use mainstay_engine::printable_path;
use std::{
    env,
    ffi::OsStr,
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

/// The host program for the MPI of the launcher, compiled on first use.
pub fn host_program(launcher: &OsStr, installed: &Installed) -> Result<PathBuf, Failure> {
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
pub fn in_path(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok().filter(|path| path.is_file());
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}
