//! Restart files of programs that are not changed: `files`.

use clap::{Args, Parser, Subcommand};
use std::{ffi::OsString, path::PathBuf};

/// Protect the restart files that a program writes by itself: always whole, verified, with older ones kept
///
/// You do not change the program, and its files stay where it puts them. It writes each file that matches into memory of
/// the node. After it closes the file, Mainstay hashes the file, copies it to its folder and syncs it. Then one step gives
/// it the name, so the name always stands for one whole file. If the program is killed while it writes, the previous file
/// stays. If it is killed after it has closed the file, the next `mainstay files` on that node, `mainstay run`, or `mainstay
/// salvage DIR` completes the new file.
///
/// Mainstay verifies a file when the program opens it. If the file is damaged, the program gets the newest undamaged
/// generation: an older file of that name. Mainstay leaves logs alone, files that a program appends to.
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
  75   the program returned 0, but a file is torn or could not be saved, and the program has not written it again
  2    wrong usage, or a wrong line of mainstay.toml; the program was not started
  4    the stage cannot be used, or a part of Mainstay is missing; the program was not started
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
    /// Files that get their names together, one for each rank: "{}.base {}.*". {} stands for the name of the set, and *
    /// for the rank
    #[arg(long = "set", value_name = "PATTERNS")]
    pub sets: Vec<String>,
    /// Number of ranks in a set. Default: the number that the launcher reports
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// Fail to open a damaged file, in place of an older generation
    #[arg(long, value_name = "WAY")]
    pub damaged: Option<Damaged>,
    /// The close of a file that the program has synced waits until it is durable. Default: it returns at once
    #[arg(long, value_name = "WAY")]
    pub fsync: Option<Fsync>,
    /// Protect the files of static programs and programs in Go, too: the kernel stops each call that names a file, and
    /// Mainstay answers it. Each such call takes longer. Default: a library in the program
    #[arg(long, value_name = "WAY")]
    pub catch: Option<Catch>,
    /// Most bytes of the node's memory for files. The program writes a file that does not fit to its folder.
    /// Default: a quarter of the free memory
    #[arg(long, value_name = "BYTES", value_parser = super::size)]
    pub room: Option<u64>,
    /// The folder in memory for files that have no name yet. Default: /dev/shm/mainstay-files-USER
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
    /// List the protected files in a folder, with their generations, and files that have no name yet
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
