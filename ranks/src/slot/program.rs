//! The program that all ranks run, and the library that is its MPI.

use crate::{
    Error, Result,
    elf::{Executable, Needs},
};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// The folders with Mainstay's MPI for ranks, one for each ABI.
#[derive(Debug, Clone, Default)]
pub(crate) struct Library {
    pub mpich: PathBuf,
    pub standard: PathBuf,
}

impl Library {
    /// `folder` has a folder `mpich` and a folder `standard`.
    pub fn in_folder(folder: &Path) -> Library {
        Library { mpich: folder.join("mpich"), standard: folder.join("standard") }
    }
}

#[derive(Debug)]
pub(crate) struct Program {
    pub path: PathBuf,
    pub file: File,
    pub executable: Executable,
    pub loader_path: PathBuf,
    pub loader_file: File,
    pub loader: Executable,
    pub arguments: Vec<OsString>,
    pub environment: Vec<OsString>,
}

impl Program {
    /// Finds the program `arguments[0]` as a shell does, and checks that it can run in a slot.
    pub fn find(arguments: &[OsString], library: &Library) -> Result<Program> {
        let Some(name) = arguments.first() else { return Err(Error::Refused("no program is named".to_owned())) };
        let path = found(name).ok_or_else(|| Error::Refused(format!("{}: no such program", name.display())))?;
        let open = |path: &Path| File::open(path).map_err(|error| Error::system(path.display(), error));
        let file = open(&path)?;
        let executable = Executable::read(&file, &path)?;
        if executable.needs == Needs::OpenMpi {
            let why = "it was built for Open MPI; compile it with mainstay mpicc, mpicxx or mpifort";
            return Err(Error::Refused(format!("{}: {why}", path.display())));
        }
        let loader_path = PathBuf::from(OsString::from_vec(executable.must_be_dynamic(&path)?.to_vec()));
        let loader_file = open(&loader_path)?;
        let loader = Executable::read(&loader_file, &loader_path)?;
        let environment = environment(&executable, library);
        Ok(Program {
            path,
            file,
            executable,
            loader_path,
            loader_file,
            loader,
            arguments: arguments.to_vec(),
            environment,
        })
    }
}

fn found(name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file();
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok().filter(is_program);
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

/// The environment of the rank: that of the host, with the library first where the loader looks.
fn environment(executable: &Executable, library: &Library) -> Vec<OsString> {
    const MALLOC: &str =
        "glibc.malloc.trim_threshold=536870912:glibc.malloc.mmap_threshold=33554432:glibc.malloc.top_pad=1048576";
    let folders = match executable.needs {
        Needs::Standard => [&library.standard, &library.mpich],
        _ => [&library.mpich, &library.standard],
    };
    let mut path = env::join_paths(folders).unwrap_or_default();
    let mut all = Vec::new();
    let mut has_tunables = false;
    for (name, value) in env::vars_os() {
        match name.as_bytes() {
            b"LD_LIBRARY_PATH" if !value.is_empty() => {
                path.push(":");
                path.push(value);
                continue;
            }
            // These are for the host: they would take its calls, not the rank's.
            b"LD_LIBRARY_PATH" | b"LD_PRELOAD" => continue,
            b"GLIBC_TUNABLES" => has_tunables = true,
            _ => {}
        }
        all.push(pair(&name, &value));
    }
    all.push(pair(OsStr::new("LD_LIBRARY_PATH"), &path));
    // A trimmed heap costs a system call, and those are dear in a slot.
    if !has_tunables {
        all.push(pair(OsStr::new("GLIBC_TUNABLES"), OsStr::new(MALLOC)));
    }
    let preloaded = match executable.needs {
        Needs::Mpich if executable.has_rpath => Some(library.mpich.join("libmpi.so.12")),
        Needs::Standard if executable.has_rpath => Some(library.standard.join("libmpi_abi.so.1")),
        _ => None,
    };
    all.extend(preloaded.map(|file| pair(OsStr::new("LD_PRELOAD"), file.as_os_str())));
    all
}

fn pair(name: &OsStr, value: &OsStr) -> OsString {
    let mut text = name.to_owned();
    text.push("=");
    text.push(value);
    text
}
