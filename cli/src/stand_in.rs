//! `mainstay stand-in`: a library with the functions of another checkpoint library, compiled for the user's MPI.

use crate::{
    arguments::{Library, StandIn},
    exit::{Exit, Failure, say},
    output, outside,
    ranks::{Installed, in_path},
};
use mainstay_engine::printable_path;
use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const COMPILE_LIMIT: Duration = Duration::from_secs(300);
/// The source that all of them share.
const COMMON: &str = "../stand_in.c";
/// VeloC's programs start it; here threads of the program do its work.
const NO_BACKEND: &str = "#!/bin/sh\n# VeloC's backend. Mainstay needs none.\nexit 0\n";

/// A library to make.
struct Product {
    /// For the linker.
    name: &'static str,
    /// In C.
    sources: &'static [&'static str],
    /// Another product that it is linked to.
    needs: Option<&'static str>,
    /// A module in Fortran.
    module: Option<&'static str>,
}

impl Library {
    /// The folder of the sources.
    fn folder(self) -> &'static str {
        match self {
            Library::Veloc => "veloc",
            Library::Scr => "scr",
            Library::Fti => "fti",
        }
    }

    fn products(self) -> &'static [Product] {
        const VELOC: &[&str] = &["veloc.c", "settings.c", "regions.c", "spaces.c", "saving.c", "restoring.c", COMMON];
        const SCR: &[&str] = &["scr.c", "parameters.c", "paths.c", "restarts.c", "datasets.c", "times.c", COMMON];
        const FTI: &[&str] = &["fti.c", "settings.c", "variables.c", "saving.c", "subsets.c", COMMON];
        const OF_C: Product = Product { name: "", sources: &[], needs: None, module: None };
        match self {
            Library::Veloc => &[Product { name: "veloc-client", sources: VELOC, ..OF_C }],
            Library::Scr => &[
                Product { name: "scr", sources: SCR, ..OF_C },
                Product { name: "scrf", sources: &["scrf.c"], needs: Some("scr"), ..OF_C },
            ],
            Library::Fti => &[
                Product { name: "fti", sources: FTI, ..OF_C },
                Product { name: "fti_f90", sources: &["fortran.c"], needs: Some("fti"), module: Some("fti.f90") },
            ],
        }
    }
}

pub fn make(wanted: &StandIn) -> Result<Exit, Failure> {
    let installed = Installed::find()?;
    let mpicc = mpicc()?;
    let (library, into) = (wanted.library, &wanted.into);
    let sources = installed.stand_ins.join(library.folder());
    let failed = |e: io::Error| Failure::refused(format!("{} cannot be written: {e}", printable_path(into)));
    copy_headers(&sources.join("include"), &into.join("include")).map_err(failed)?;
    fs::create_dir_all(into.join("lib")).map_err(failed)?;
    let folders = [into.join("include"), into.join("lib")].map(|folder| folder.canonicalize().map_err(failed));
    let [headers, libraries] = folders;
    let job = Job { mpicc, sources, installed, headers: headers?, libraries: libraries? };
    let mut made = Vec::new();
    for product in library.products() {
        match (product.module, fortran_compiler()) {
            (Some(_), None) => say("there is no Fortran compiler, and no library for Fortran: name one in FC"),
            (Some(module), Some(compiler)) => {
                let object = job.compile_module(&compiler, module)?;
                made.push(job.compile(product, &[object.into(), "-lgfortran".into()])?);
            }
            (None, _) => made.push(job.compile(product, &[])?),
        }
    }
    if library == Library::Veloc {
        write_backend(&into.join("bin")).map_err(failed)?;
    }
    output::text(&told(library, &job, into, &made))?;
    Ok(Exit::Good)
}

/// The text for the user.
fn told(library: Library, job: &Job, into: &Path, made: &[String]) -> String {
    let (into, libraries) = (printable_path(into), printable_path(&job.libraries));
    format!(
        "{} in {libraries}, for the MPI of {}\nlink your program with -I {into}/include -L {libraries} -l{} \
         -Wl,-rpath,{libraries}\n",
        made.join(" and "),
        printable_path(&job.mpicc),
        library.products()[0].name,
    )
}

fn mpicc() -> Result<PathBuf, Failure> {
    let set = env::var_os("MPICC").filter(|set| !set.is_empty());
    let name = set.as_deref().unwrap_or(OsStr::new("mpicc"));
    in_path(name).ok_or_else(|| {
        let name = Path::new(name).display();
        Failure::usage(format!("there is no {name} in PATH: name your program's MPI compiler in MPICC"))
    })
}

fn copy_headers(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            copy_headers(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// The compiler in FC, or gfortran, if it is there.
fn fortran_compiler() -> Option<PathBuf> {
    let set = env::var_os("FC").filter(|set| !set.is_empty());
    in_path(set.as_deref().unwrap_or(OsStr::new("gfortran")))
}

/// The compilation of one stand-in.
struct Job {
    mpicc: PathBuf,
    sources: PathBuf,
    installed: Installed,
    headers: PathBuf,
    libraries: PathBuf,
}

impl Job {
    /// Compiles a library, linked with `more`. Returns the name of its file.
    fn compile(&self, product: &Product, more: &[OsString]) -> Result<String, Failure> {
        let name = format!("lib{}.so", product.name);
        // A running program keeps the library that it began with.
        let unfinished = self.libraries.join(format!(".{name}.new"));
        let mut command = Command::new(&self.mpicc);
        command.args(["-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-I"]);
        command.arg(&self.installed.host_headers);
        command.arg("-I").arg(&self.headers);
        command.args(product.sources.iter().map(|source| self.sources.join(source)));
        for folder in [&self.installed.host_library, &self.libraries] {
            command.arg("-L").arg(folder).args(["-Xlinker", "-rpath", "-Xlinker"]).arg(folder);
        }
        command
            .args(product.needs.map(|library| format!("-l{library}")))
            .args(more)
            .arg("-lmainstay")
            .arg("-o")
            .arg(&unfinished);
        let compiled = run(&mut command, &self.mpicc, &self.sources);
        let named = compiled.and_then(|()| {
            let why =
                |e: io::Error| Failure::refused(format!("{} cannot be written: {e}", printable_path(&unfinished)));
            fs::rename(&unfinished, self.libraries.join(&name)).map_err(why)
        });
        if named.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        named.map(|()| name)
    }

    /// Compiles a module in Fortran, whose file for `use` comes beside the headers. Returns the path of the object.
    fn compile_module(&self, compiler: &Path, module: &str) -> Result<PathBuf, Failure> {
        let (source, object) = (self.headers.join(module), self.libraries.join(module).with_extension("o"));
        let mut command = Command::new(compiler);
        command.args(["-O2", "-fPIC", "-c"]).arg(&source).arg("-o").arg(&object).current_dir(&self.headers);
        run(&mut command, compiler, &source).map(|()| object)
    }
}

fn run(command: &mut Command, compiler: &Path, sources: &Path) -> Result<(), Failure> {
    let failed = |why: String| {
        Failure::refused(format!("{} cannot compile {}: {why}", printable_path(compiler), printable_path(sources)))
    };
    let answer = outside::ask(command, COMPILE_LIMIT).map_err(|e| failed(e.to_string()))?;
    if answer.is_good() { Ok(()) } else { Err(failed(answer.why(COMPILE_LIMIT))) }
}

fn write_backend(folder: &Path) -> io::Result<()> {
    const EXECUTABLE: u32 = 0o755;
    let backend = folder.join("veloc-backend");
    fs::create_dir_all(folder)?;
    fs::write(&backend, NO_BACKEND)?;
    fs::set_permissions(&backend, fs::Permissions::from_mode(EXECUTABLE))
}
