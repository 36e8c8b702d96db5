//! What can be asked of the command, and its help.

use bytesize::ByteSize;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::{ffi::OsString, path::PathBuf, time::Duration};

const EXIT_CODES: &str = "\
Exit codes:
  0  good
  1  damage was found, or nothing complete where a revision was asked for
  2  wrong usage
  3  not a space, or one of a newer format
  4  refused: I/O error, no permission, no room, in use by a job";

const EXAMPLES: &str = "\
Examples:
  mainstay ls /scratch/me/space              what there is to go back to
  mainstay show /scratch/me/space --phases   the newest revision, and what it took
  mainstay verify /scratch/me/space          reads every block
  mainstay advise /scratch/me/space          how large a pool is worth having
  mainstay checkpoint /scratch/me/space      has the job that runs there save itself now
  mainstay export /scratch/me/space out      copies it into .npy files
  mainstay view /scratch/me/space --hdf5 out.h5   shows it to tools that read HDF5, in place
  mainstay hold /scratch/me/space            has it stay, until it is released
  mainstay prune /scratch/me/space --keep-last 3
  mainstay reserve /scratch/me/space --ranks 64 --per-rank 20MiB
  mainstay run --restarts 5 -- mpiexec -n 64 ./simulation input.toml";

/// Looks into spaces and after them, and starts a job again that failed.
///
/// A space is the directory that a parallel program saves itself to. Looking into it needs no MPI and
/// no right to write, and may be done while a job is saving there.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, arg_required_else_help = true)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Ls(Ls),
    Show(Show),
    Verify(Verify),
    Advise(Advise),
    Checkpoint(Checkpoint),
    Export(Export),
    View(View),
    Hold(Hold),
    Release(Release),
    Prune(Prune),
    Reserve(Reserve),
    Grow(Grow),
    Salvage(Salvage),
    Run(Run),
    Config(Config),
    Completions(Completions),
    Man(Man),
}

/// Lists the revisions of a space, newest first
///
/// `newest` is the revision that a job started now goes on from; `complete` ones are older; of an
/// `incomplete` one not every shard was found: it is being saved, or the job that saved it died.
/// `perceived` is the longest that a rank's program waited (t2-t1), `durable` the longest until a
/// rank's data was on the medium (t3-t1).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Ls {
    #[command(flatten)]
    pub space: Space,
}

/// Shows what a space is, and what a revision consists of
///
/// Of the newest complete revision, unless another one is asked for.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay show /scratch/me/space
  mainstay show /scratch/me/space --revision 12 --phases
  mainstay show /scratch/me/space --json | jq '.revision.shard_list[].items[].name'

{EXIT_CODES}"))]
pub struct Show {
    #[command(flatten)]
    pub space: Space,
    /// The revision of this number in place of the newest complete one
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
    /// Also where the time went, by rank, node and size of pieces and writes
    #[arg(long)]
    pub phases: bool,
    /// In place of the revision: where each rank's portion lies, and where its next checkpoint goes
    #[arg(long, conflicts_with_all = ["revision", "phases"])]
    pub table: bool,
}

/// Reads every block and says what is damaged
///
/// Of all complete revisions, unless one is asked for. Each block is compared with its hash, read
/// past the cache where the file system allows it. A revision that a running job lets go meanwhile
/// is not damaged.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Verify {
    #[command(flatten)]
    pub space: Space,
    /// Only the revision of this number
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
}

/// Says how large a pool is worth having
///
/// From what the newest complete revision took that was staged through a pool: how fast each node copied
/// into the pool, and how fast that was written. A pool that holds what is not yet written while it is
/// copied hides the writing; a larger one gains nothing.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay advise /scratch/me/space
  mainstay advise /scratch/me/space --json | jq -r .setting

{EXIT_CODES}"))]
pub struct Advise {
    #[command(flatten)]
    pub space: Space,
}

/// Has the job that runs on a space save itself now, and go on
///
/// At its next safe point, where the program calls mainstay_due. Waits until the revision is complete.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Checkpoint {
    #[command(flatten)]
    pub space: Space,
    /// How long to wait ("90 s", "5 min")
    #[arg(long, value_name = "TIME", default_value = "1 min", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// Copies the items of a revision into files that other tools read
///
/// Of the newest complete revision, unless another is asked for: each item becomes DIR/shard-R/NAME.npy,
/// or .raw. Every block is verified, and no file appears before all are. Beside a job at work the
/// revision is held meanwhile, where that is allowed.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay export /scratch/me/space out
  mainstay export /scratch/me/space out --revision 12 --shard 0 --item temperature
  python3 -c 'import numpy; print(numpy.load(\"out/shard-0/temperature.npy\").shape)'

{EXIT_CODES}"))]
pub struct Export {
    #[command(flatten)]
    pub space: Space,
    /// Where the files go; made if it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The revision of this number in place of the newest complete one
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
    /// Only the shard of this rank; may be given several times
    #[arg(long = "shard", value_name = "R")]
    pub shards: Vec<u32>,
    /// Only the item of this name; may be given several times
    #[arg(long = "item", value_name = "NAME")]
    pub items: Vec<String>,
    /// npy: with a header that numpy reads; raw: the bytes alone, as of streams in any case
    #[arg(long, value_enum, default_value_t = Format::Npy)]
    pub format: Format,
    /// Replaces files that are there already
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Npy,
    Raw,
}

/// Shows a revision to tools that read HDF5, in place
///
/// Of the newest complete revision, unless another is asked for. FILE is a small HDF5 file whose datasets point
/// into the space: one for each item, /shard/0003/NAME, and one for each array that the shards share, /NAME.
/// All is verified before the file appears; what is damaged later is not seen through it. The revision is held
/// until it is released, or for so long as --for says.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay view /scratch/me/space --hdf5 out.h5
  h5dump -d /shard/0003/temperature out.h5
  mainstay view /scratch/me/space --revision 12 --hdf5 out.h5 --copy

{EXIT_CODES}"))]
pub struct View {
    #[command(flatten)]
    pub space: Space,
    /// The file to write; its folder is made if it is missing
    #[arg(long, value_name = "FILE")]
    pub hdf5: PathBuf,
    /// The revision of this number in place of the newest complete one
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
    /// Copies the items: the file needs neither the space nor a hold
    #[arg(long, conflicts_with_all = ["relative", "no_verify", "no_hold", "time"])]
    pub copy: bool,
    /// Names the space as seen from the file's folder, so that both can be moved together; tools then need
    /// HDF5_EXTFILE_PREFIX='${ORIGIN}' in their environment
    #[arg(long)]
    pub relative: bool,
    /// Does not read what the file points to
    #[arg(long)]
    pub no_verify: bool,
    /// Does not hold the revision: a job that lets go of it overwrites what the file shows
    #[arg(long, conflicts_with = "time")]
    pub no_hold: bool,
    /// The hold ends by itself after so long a time: 90s, 30m, 12h, 7d, 2w
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time: Option<Duration>,
    /// Replaces a file that is there already
    #[arg(long)]
    pub force: bool,
}

/// Has a revision stay, whatever the job keeps, until it is released
///
/// The newest complete one, unless another is asked for. Where no job has the space open, that counts at
/// once. A job at work takes it on at its next checkpoint: `hold` waits for that for a while, and says
/// whether it counts. A hold that would leave no room for the next checkpoint is refused.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay hold /scratch/me/space --note 'before the change of grid'
  mainstay hold /scratch/me/space --revision 12 --for 7d

{EXIT_CODES}"))]
pub struct Hold {
    #[command(flatten)]
    pub space: Space,
    /// The revision of this number in place of the newest complete one
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
    /// Who holds it, or why; `ls` and `show` print it
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = note)]
    pub note: String,
    /// The hold ends by itself after so long a time: 90s, 30m, 12h, 7d, 2w
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time: Option<Duration>,
    /// How long to wait for a job at work to take it on
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub wait: Duration,
}

fn note(text: &str) -> Result<String, String> {
    match mainstay_engine::space::format::is_note(text) {
        true => Ok(text.to_owned()),
        false => Err("it is longer than 512 bytes or has control characters".to_owned()),
    }
}

/// Lets a revision go that was held
///
/// All its holds end. It goes when the job next needs its place, or with `mainstay prune`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Release {
    #[command(flatten)]
    pub space: Space,
    /// The number of the revision
    #[arg(value_name = "N", required_unless_present = "all", conflicts_with = "all")]
    pub revision: Option<u64>,
    /// Every revision that is held
    #[arg(long)]
    pub all: bool,
}

/// Lets go of revisions that nobody wants
///
/// A revision stays if any rule names it, if it is held, or if it is the newest complete one. Incomplete
/// ones go if they are older than that. Refused while a job has the space open.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("rule").required(true).multiple(true))]
#[command(after_help = format!("\
Examples:
  mainstay prune /scratch/me/space --keep-last 3
  mainstay prune /scratch/me/space --keep-last 2 --keep-every 10 --older-than 7d --dry-run

{EXIT_CODES}"))]
pub struct Prune {
    #[command(flatten)]
    pub space: Space,
    /// The K newest complete revisions stay
    #[arg(long, value_name = "K", group = "rule", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_last: Option<u64>,
    /// Complete revisions whose number is a multiple of M stay
    #[arg(long, value_name = "M", group = "rule", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_every: Option<u64>,
    /// Only what was saved longer ago goes: 90s, 30m, 12h, 7d, 2w
    #[arg(long, value_name = "AGE", group = "rule", value_parser = humantime::parse_duration)]
    pub older_than: Option<Duration>,
    /// Only says what would go
    #[arg(long)]
    pub dry_run: bool,
}

/// Reserves a space before the first checkpoint
///
/// With room for keep+2 revisions in each rank's portion, as the first checkpoint of a job makes it. A job of
/// as many ranks finds it there. What is not given here is taken from the settings (mainstay.toml and the
/// environment). Tells what the file system really granted.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay reserve /scratch/me/space --ranks 64 --per-rank 20MiB --keep 1
  mainstay reserve /scratch/me/space --sizes 20MiB,30MiB,20MiB
  mainstay reserve /scratch/me/space --like /scratch/me/earlier --per node --ranks-per-node 16
  mainstay reserve /cephfs/me/space --ranks 64 --per-rank 20MiB --stripe-count 4 --stripe-size 1MiB

{EXIT_CODES}"))]
pub struct Reserve {
    #[command(flatten)]
    pub space: Space,
    #[command(flatten)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub placing: Placing,
}

/// Gives a space more bytes a rank, or more ranks
///
/// A new layout beside the one that is there: the next job goes on from the old one's newest revision and saves
/// into the new one, and the old one goes once nothing in it is kept or held. Refused while a job has the space
/// open.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay grow /scratch/me/space --per-rank 40MiB
  mainstay grow /scratch/me/space --ranks 128

{EXIT_CODES}"))]
pub struct Grow {
    #[command(flatten)]
    pub space: Space,
    #[command(flatten)]
    pub sizes: Sizes,
    #[command(flatten)]
    pub placing: Placing,
}

/// How large the shards are going to be.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("state").multiple(false))]
pub struct Sizes {
    /// Ranks of the job
    #[arg(long, value_name = "N", value_parser = ranks)]
    pub ranks: Option<usize>,
    /// Bytes that each rank saves ("20MiB")
    #[arg(long, value_name = "SIZE", group = "state", value_parser = size)]
    pub per_rank: Option<u64>,
    /// As large, rank by rank, as the newest complete revision of this space
    #[arg(long, value_name = "SPACE", group = "state")]
    pub like: Option<PathBuf>,
    /// Bytes that each rank saves, from rank 0 on
    #[arg(long, value_name = "SIZE,...", group = "state", value_delimiter = ',', value_parser = size)]
    pub sizes: Option<Vec<u64>>,
    /// The same from a file, apart by white space or commas
    #[arg(long, value_name = "FILE", group = "state")]
    pub sizes_from: Option<PathBuf>,
    /// So many bytes of each rank are written in pieces (mainstay_begin), whose list takes room
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub pieces: u64,
}

/// Where it lies, and how hard it is promised: settings.
#[derive(Debug, Args)]
pub struct Placing {
    /// Complete revisions that are kept: there is room for two more
    #[arg(long, value_name = "K")]
    pub keep: Option<String>,
    /// Which ranks share a file; auto: those of a node on CephFS, else all
    #[arg(long, value_parser = ["auto", "app", "node", "rank"])]
    pub per: Option<String>,
    /// Ranks of a node, consecutive ones: needed for one file a node
    #[arg(long, value_name = "K", value_parser = ranks)]
    pub ranks_per_node: Option<usize>,
    /// How hard the room is promised: not at all, by blocks set aside, by zeros that are written
    #[arg(long, value_parser = ["sparse", "blocks", "zero"])]
    pub allocate: Option<String>,
    /// CephFS and Lustre: over how many servers a file is striped
    #[arg(long, value_name = "N")]
    pub stripe_count: Option<String>,
    /// CephFS and Lustre: bytes of a stripe, on which portions begin ("1MiB")
    #[arg(long, value_name = "SIZE")]
    pub stripe_size: Option<String>,
}

/// "20MiB", or a number of bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let size = text.trim().parse::<ByteSize>();
    size.map(|size| size.as_u64()).map_err(|_| format!("{text:?} is no size, such as 20MiB or 20971520"))
}

fn ranks(text: &str) -> Result<usize, String> {
    const RANKS_MAX: usize = 1 << 24;
    let ranks = text.parse().ok().filter(|ranks| (1..=RANKS_MAX).contains(ranks));
    ranks.ok_or_else(|| format!("it takes 1 to {RANKS_MAX}"))
}

/// Completes what killed jobs had staged and not yet written
///
/// From the pools in this machine's memory, as the next start of each job does by itself: of SPACE, or of
/// all spaces. A shard whose space went on without it is lost, and so is one with a byte missing; a space
/// that a job has open is left to it. Pools that hold nothing more are removed.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay salvage                       all that this user's jobs left on this machine
  mainstay salvage /scratch/me/space     of one space
  mainstay salvage --clean               and removes what nobody can claim

{EXIT_CODES}"))]
pub struct Salvage {
    /// The directory that a session was opened on
    #[arg(value_name = "SPACE")]
    pub space: Option<PathBuf>,
    /// Removes also pools that are damaged, hold nothing, or whose space is not there
    #[arg(long)]
    pub clean: bool,
    /// Where the pools are, if not where pool_directory says
    #[arg(long, value_name = "DIR")]
    pub pool_directory: Option<PathBuf>,
    /// One JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Space {
    /// The directory that a session was opened on
    #[arg(value_name = "SPACE")]
    pub path: PathBuf,
    /// One JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Runs a job, and starts it again after a failure
///
/// The job is started anew from the newest complete revision: its own restore finds it. Input and
/// output are passed through, and signals are passed on. A job that fails twice with no new complete
/// revision in between is given up, and one that ends after SIGINT, SIGTERM, SIGHUP or SIGQUIT is
/// not started again.
///
/// A job whose program calls mainstay_due is asked for a last checkpoint before SIGTERM is passed on, and
/// before the time limit; a second SIGTERM ends it at once. SIGUSR1 asks for a checkpoint and lets the job
/// go on: batch systems send it as a warning.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay run --restarts 5 -- mpiexec -n 64 ./simulation input.toml
  mainstay run --time-limit 2h --margin 2min -- mpiexec -n 64 ./simulation input.toml
  mainstay run --space /scratch/me/space -- mpiexec --host n1,n2 ./simulation

Exit codes:
  that of the job's last run; 128 + N if signal N ended it
  2    wrong usage
  4    the system refused something else
  126  the job's program could not be started
  127  the job's program was not found")]
pub struct Run {
    /// How often the job is started again, at most
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub restarts: u32,
    /// The space that the job saves to; may be given several times. Needed only where rank 0 runs on
    /// another machine than this: otherwise the job tells
    #[arg(long = "space", value_name = "SPACE")]
    pub spaces: Vec<PathBuf>,
    /// The job is asked to end before it has run for so long in all, after a last checkpoint ("90 min")
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time_limit: Option<Duration>,
    /// How long before the time limit that is, and how long a last checkpoint may take; 1 min, but half of
    /// the time limit at most
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub margin: Option<Duration>,
    /// The job: a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Shows the settings in force and where each comes from, or how to compile with Mainstay
///
/// The settings are those of a program that sets none itself and is started in this directory with
/// this environment: a variable MAINSTAY_<KEY> goes before the file mainstay.toml (or the one that
/// MAINSTAY_CONFIG names), and that before the default. With --cflags or --libs it prints what a C or
/// C++ compiler needs to know instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay config
  MAINSTAY_KEEP=3 mainstay config --json
  mpicc app.c $(mainstay config --cflags --libs) -o app

Exit codes:
  0  good
  2  wrong usage, or a setting that is wrong: the message says which and where
  4  the system refused, or there is no header or library beside this command")]
pub struct Config {
    /// One JSON document instead of a table
    #[arg(long, conflicts_with_all = ["cflags", "libs", "prefix"])]
    pub json: bool,
    /// Flags for the compiler: where mainstay.h is
    #[arg(long)]
    pub cflags: bool,
    /// Flags for the linker: where the library is
    #[arg(long)]
    pub libs: bool,
    /// The directory that Mainstay was installed to
    #[arg(long)]
    pub prefix: bool,
}

/// Writes the completions for a shell
///
/// `make install` puts those of bash, zsh and fish where these shells look for them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(mainstay completions bash)")]
pub struct Completions {
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Writes the manual page, or with DIR one for each command
///
/// `make install` puts them where `man` looks for them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay man | man -l -
  mainstay man ~/.local/share/man/man1")]
pub struct Man {
    /// The directory for the pages, made if it is missing; they are overwritten
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
