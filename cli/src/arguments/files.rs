//! Restart files of programs that are not changed: `files`.

use clap::{Args, Parser, Subcommand};
use std::{ffi::OsString, path::PathBuf};

/// Protect the restart files that a program writes by itself: whole under their names, verified, kept
///
/// The program is not changed, and its files stay where it puts them. A file that matches is written to the memory of the
/// node. Once its program has closed it, Mainstay hashes it, copies it to its folder, syncs it, and gives it its name in
/// one step. So under its name there is always one whole file. If the program is killed while it writes, the file before
/// stays. If it is killed after it has closed the file, the next `mainstay files` on that node, `mainstay run`, or `mainstay
/// salvage DIR` completes the new file.
///
/// Mainstay verifies a file when the program opens it. If it is damaged, the program gets the newest older generation that
/// is not. Logs that a program appends to are never caught.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  mainstay files --match 'restart.*' --match '*.ckpt.h5' --keep 2 -- ./program
  mpiexec -n 64 mainstay files --match 'restart.*' --set '{}.base {}.*' -- lmp -in in.melt
  mainstay run --restarts 3 --files 'restart.*' -- mpiexec -n 64 lmp -in in.melt
  mainstay files ls DIR
  mainstay files restore DIR restart.1@7

Options that you leave out come from the table [files] of mainstay.toml: match = [\"restart.*\"], keep = 3.

Exit codes:
  75   the program returned 0, but a file could not be saved, or is not whole, and nothing has replaced it since
  2    wrong usage, or a wrong line of mainstay.toml; the program was not started
  4    the stage cannot be used, or Mainstay is not installed whole; the program was not started
  126  the program cannot be caught, or cannot be started
  127  the program was not found
  else the code of the program, or 128 + N if signal N ended it

Exit codes of ls, verify and restore:
  0    good
  1    verify: a generation is damaged; restore: no such generation, or a damaged one
  2    wrong usage
  3    the directory has no protected files, or is missing
  4    the directory cannot be read"
)]
pub struct Files {
    #[command(subcommand)]
    pub look: Option<LookAtFiles>,
    #[command(flatten)]
    pub protect: ProtectFiles,
}

#[derive(Debug, Clone, Args)]
pub struct ProtectFiles {
    /// Files to protect: a pattern for the name, or for the whole path if it has a slash; repeat for several
    #[arg(long = "match", value_name = "PATTERN")]
    pub matches: Vec<String>,
    #[command(flatten)]
    pub options: FileOptions,
    /// The name of the job, the same on all its nodes. `mainstay run` gives it
    #[arg(long, value_name = "NAME", hide = true)]
    pub job: Option<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The options of `files` and of `run --files`, and the keys of the table [files].
#[derive(Debug, Clone, Default, Args)]
pub struct FileOptions {
    /// Files to leave alone, though they match
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Generations of each file to keep, including the newest. Default: 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
    /// Files that become whole together, one for each rank: "{}.base {}.*". {} stands for the name of the set, and * for
    /// the rank
    #[arg(long = "set", value_name = "PATTERNS")]
    pub sets: Vec<String>,
    /// Number of files of a set that * stands for. Default: the number of ranks that the launcher reports
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// Fail to open a damaged file, in place of an older generation
    #[arg(long, value_name = "WAY")]
    pub damaged: Option<Damaged>,
    /// When a program has synced a file: return from its close once the file is durable. Default: at once
    #[arg(long, value_name = "WAY")]
    pub fsync: Option<Fsync>,
    /// Catch the files of any program, also of a static one or one in Go: the kernel stops each call that names a file, and
    /// Mainstay answers it. Each such call takes longer. Default: a library in the program
    #[arg(long, value_name = "WAY")]
    pub catch: Option<Catch>,
    /// Most bytes of the node's memory for files. A file for which there is no room is written to its folder at once.
    /// Default: a quarter of the free memory
    #[arg(long, value_name = "BYTES", value_parser = super::size)]
    pub room: Option<u64>,
    /// The folder in memory for files on their way. Default: /dev/shm/mainstay-files-USER
    #[arg(long, value_name = "DIR")]
    pub stage: Option<PathBuf>,
}

/// The table [files], as words of the command line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct FileTable {
    #[arg(long = "match", value_name = "PATTERN")]
    pub matches: Vec<String>,
    #[command(flatten)]
    pub options: FileOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Damaged {
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Fsync {
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Catch {
    Kernel,
}

#[derive(Debug, Subcommand)]
pub enum LookAtFiles {
    /// List the protected files in a folder, with their generations and those on their way
    Ls(FilesIn),
    /// Read every generation, and compare it with its hashes
    Verify(FilesIn),
    /// Put an older generation under its name: restart.1@7
    Restore {
        /// The folder of the file
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The file, and the number of the generation that `mainstay files ls` shows. Without a number: the newest that is
        /// undamaged and not under the name
        #[arg(value_name = "NAME[@GENERATION]")]
        file: OsString,
    },
}

#[derive(Debug, Args)]
pub struct FilesIn {
    /// The folder of the files
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The process that serves the programs of a node. `mainstay files` starts it
#[derive(Debug, Args)]
pub struct FilesHelper {
    pub stage: PathBuf,
}
