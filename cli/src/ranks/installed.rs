//! The files for ranks in slots, for stand-ins and for `mainstay files` that were installed together with this command, as `mainstay config` finds its own.

use crate::exit::{Exit, Failure};
use mainstay_engine::printable_path;
use std::{
    env,
    path::{Path, PathBuf},
};

pub struct Installed {
    /// This command.
    pub command: PathBuf,
    /// The folders `mpich` and `standard`, each with an MPI library.
    pub libraries: PathBuf,
    /// The folder of mpi.h.
    pub headers: PathBuf,
    /// MPI for Fortran, and the source of the host program.
    pub share: PathBuf,
    /// The folders of mainstay.h and libmainstay.so, for the host program.
    pub host_headers: PathBuf,
    pub host_library: PathBuf,
    /// The sources of the libraries that stand in for others.
    pub stand_ins: PathBuf,
    /// The library that `mainstay files` loads into programs.
    pub files: PathBuf,
}

impl Installed {
    pub fn find() -> Result<Installed, Failure> {
        let failed = |message| Failure { exit: Exit::System, message };
        let command = env::current_exe().and_then(|path| path.canonicalize());
        let command = command.map_err(|e| failed(format!("the path of this command is unknown: {e}")))?;
        let folder = command.parent().unwrap_or(Path::new("/"));
        let prefix = folder.parent().unwrap_or(Path::new("/"));
        [Installed::below(prefix, &command), Installed::as_built(folder, &command)]
            .into_iter()
            .find(|one| one.libraries.join("mpich/libmpi.so.12").exists())
            .ok_or_else(|| {
                failed(format!(
                    "there is no lib/mainstay/ranks in {}: this command ({}) was not installed together with the MPI \
                     library for ranks; use an installed one (`make install`)",
                    printable_path(prefix),
                    printable_path(&command)
                ))
            })
    }

    fn below(prefix: &Path, command: &Path) -> Installed {
        Installed {
            command: command.to_owned(),
            libraries: prefix.join("lib/mainstay/ranks"),
            headers: prefix.join("include/mainstay/ranks"),
            share: prefix.join("share/mainstay/ranks"),
            host_headers: prefix.join("include"),
            host_library: prefix.join("lib"),
            stand_ins: prefix.join("share/mainstay/stand_ins"),
            files: prefix.join("lib/mainstay/files/libmainstay_files.so"),
        }
    }

    /// Beside the command that `make build` has built.
    fn as_built(folder: &Path, command: &Path) -> Installed {
        let ranks = folder.join("ranks");
        Installed {
            command: command.to_owned(),
            headers: ranks.join("include"),
            share: ranks.join("share"),
            host_headers: ranks.join("host"),
            host_library: folder.to_owned(),
            stand_ins: folder.join("stand_ins"),
            files: folder.join("files/libmainstay_files.so"),
            libraries: ranks,
        }
    }
}
