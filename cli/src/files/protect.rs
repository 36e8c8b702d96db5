//! Runs a program with the preload library, and waits at its end until its files are durable.

use super::{
    failure::of_stage,
    kernel::{self, Ended, run_caught},
    launched::Launched,
    leaving,
    table::completed,
};
use crate::{
    arguments::{Catch, FileOptions, ProtectFiles},
    exit::{Exit, Failure, say},
    ranks::{Installed, in_path},
    signals::Signals,
};
use clap::ValueEnum;
use mainstay_engine::printable_path;
use mainstay_files::{Finished, JOB_VARIABLE, Member, Options, Program, Stage, Wanted, program};
use nix::{
    sys::{
        resource::{Resource, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use signal_hook::low_level::emulate_default_handler;
use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

/// The program returned 0, but a file is not saved. EX_TEMPFAIL of sysexits.h.
const NOT_SAVED: u8 = 75;
const CANNOT_START: u8 = 126;
/// Generations to keep.
const KEEP: u32 = 2;
const NOT_FOUND: u8 = 127;

pub fn protect(wanted: &ProtectFiles) -> Result<ExitCode, Failure> {
    let Some((name, arguments)) = wanted.command.split_first() else {
        return Err(Failure::usage("the program comes after --: mainstay files --match 'restart.*' -- ./program"));
    };
    let (matches, given) = completed(&wanted.matches, &wanted.options)?;
    if matches.is_empty() {
        return Err(Failure::usage("no file is protected without a pattern: --match 'restart.*'"));
    }
    let mut options = options(&given, wanted.job.as_deref())?;
    let (matches, exclude) = (absolute(&matches), absolute(&given.exclude));
    check_text(&matches, "--match")?;
    check_text(&exclude, "--exclude")?;
    let wanted = given;
    let by_kernel = wanted.catch == Some(Catch::Kernel);
    if let Err(code) = check_program(name, by_kernel) {
        return Ok(ExitCode::from(code));
    }
    let library = if by_kernel { None } else { Some(library()?) };
    let stage = Stage::make(wanted.stage.as_deref());
    let stage = stage.map_err(|e| {
        let failure = of_stage(&wanted.stage.clone().unwrap_or_else(Stage::usual), &e);
        Failure { message: format!("{}; name a folder of your own with --stage", failure.message), ..failure }
    })?;
    let path = stage.path().to_owned();
    let own = env::current_exe().map_err(|e| of_stage(&path, &e))?;
    // The helper completes the files of killed jobs before the program reads them.
    let member = Member::join(stage.clone(), &own, &options.job).map_err(|e| of_stage(&path, &e))?;
    options.member = member.name().to_owned();
    let mut command = Command::new(name);
    command.args(arguments).env(JOB_VARIABLE, &options.job);
    let status = if let Some(library) = library {
        command.env("LD_PRELOAD", preload(&library));
        command.env("MAINSTAY_FILES_STAGE", &path).env("MAINSTAY_FILES_COMMAND", &own);
        command.env("MAINSTAY_FILES_MATCH", matches.join("\n"));
        command.env("MAINSTAY_FILES_EXCLUDE", exclude.join("\n"));
        command.env("MAINSTAY_FILES_OPTIONS", options.to_text());
        run(&mut command)
    } else {
        match run_caught(command, &member, &Wanted { stage, matches, exclude, options, say }, run) {
            Ended::Run(status) => status,
            Ended::NotCaught(reason) => return Ok(ExitCode::from(not_caught(Path::new(name), &reason))),
        }
    };
    let killed_by = status.as_ref().ok().and_then(ExitStatusExt::signal);
    let code = match status {
        Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8,
        Err(error) => {
            say(&format!("{} cannot be started: {error}; check the name and PATH", printable_path(Path::new(name))));
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_START }
        }
    };
    // After a failure this process ends at once: other ranks wait for its end.
    let open = if code == 0 { leaving::wait(&member).unwrap_or_default() } else { Vec::new() };
    let finished = member.finish(code != 0).unwrap_or_else(|error| {
        let files = "files that are on their way may not be saved";
        let failures =
            vec![format!("{}; {files}; run `mainstay salvage DIR` for their folder", of_stage(&path, &error).message)];
        Finished { failures, ..Finished::default() }
    });
    finished.failures.iter().chain(&finished.remarks).for_each(|line| say(line));
    if let Some(signal) = killed_by
        && Launched::here().ranks > 0
    {
        end_by(signal);
    }
    let is_short = code == 0 && !(finished.failures.is_empty() && open.is_empty());
    Ok(ExitCode::from(if is_short { NOT_SAVED } else { code }))
}

/// Ends this process as its program has ended. Hydra ends a job if a signal has ended a rank, but lets it go on if a rank
/// returned 137: the others would wait for the killed rank forever.
fn end_by(signal: i32) {
    // A core file of this process would replace the program's.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let Ok(signal) = Signal::try_from(signal) else { return };
    let _ = emulate_default_handler(signal as i32);
    let _ = kill(Pid::this(), signal);
}

/// Runs the program, and passes on signals: a launcher or a user sends them to this process.
fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let mut signals = Signals::catch()?;
    let mut child = command.spawn()?;
    // The number belongs to the program until `try_wait` has seen its end.
    let program = Pid::from_raw(child.id() as i32);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        for caught in signals.wait(None) {
            if !caught.from_terminal && caught.signal != Signal::SIGCHLD {
                let _ = kill(program, caught.signal);
            }
        }
    }
}

fn options(wanted: &FileOptions, job: Option<&str>) -> Result<Options, Failure> {
    check_text(&wanted.sets, "--set")?;
    for set in &wanted.sets {
        let is_good = |word: &str| word.matches("{}").count() == 1 && word.matches('*').count() <= 1;
        if set.split_whitespace().next().is_none() || !set.split_whitespace().all(is_good) {
            return Err(Failure::usage(format!(
                "--set {set:?}: each word has one {{}} and at most one *: '{{}}.base {{}}.*'"
            )));
        }
    }
    let launched = Launched::here();
    let count = wanted.count.unwrap_or(launched.ranks);
    if count == 0 && wanted.sets.iter().any(|set| set.contains('*')) {
        return Err(Failure::usage("no launcher says how many files a set has: give --count N"));
    }
    if launched.nodes > 1 && launched.name.is_none() && job.is_none() {
        return Err(Failure::usage(
            "the launcher gives this job on several nodes no name: give --job NAME, the same on all nodes, and another at each start",
        ));
    }
    Ok(Options {
        keep: wanted.keep.unwrap_or(KEEP),
        damaged_fails: wanted.damaged.is_some(),
        sync_waits: wanted.fsync.is_some(),
        room_bytes: wanted.room,
        is_silent: wanted.catch == Some(Catch::Kernel),
        sets: wanted.sets.clone(),
        count,
        job: launched.job(job, &wanted.sets),
        nodes: launched.nodes,
        report: env::var_os("MAINSTAY_RUN_REPORT").map(PathBuf::from),
        member: String::new(),
    })
}

/// The patterns, completed for comparison with absolute paths, with and without symbolic links.
pub fn absolute(patterns: &[String]) -> Vec<String> {
    let here = env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_default();
    let is_relative = |pattern: &str| pattern.contains('/') && !pattern.starts_with(['/', '*']);
    let completed = patterns.iter().flat_map(|pattern| {
        let pattern = match is_relative(pattern) {
            true => format!("{}/{}", escaped(&here), pattern.trim_start_matches("./")),
            false => pattern.clone(),
        };
        let real = without_links(&pattern);
        [pattern].into_iter().chain(real)
    });
    completed.collect()
}

/// The pattern with the symbolic links in its first folders resolved, if any: those without special characters.
fn without_links(pattern: &str) -> Option<String> {
    let fixed = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
    let (folder, _) = fixed.rsplit_once('/').filter(|(folder, _)| folder.starts_with('/'))?;
    let mut is_escaped = false;
    let plain = folder.chars().filter(|character| {
        is_escaped = *character == '\\' && !is_escaped;
        !is_escaped
    });
    let real = fs::canonicalize(plain.collect::<String>()).ok()?.into_os_string().into_string().ok()?;
    let real = format!("{}{}", escaped(real.trim_end_matches('/')), &pattern[folder.len()..]);
    (real != pattern).then_some(real)
}

/// The text as a pattern that matches nothing else.
fn escaped(text: &str) -> String {
    let is_special = |character: char| matches!(character, '*' | '?' | '[' | '\\');
    text.chars().flat_map(|one| is_special(one).then_some('\\').into_iter().chain([one])).collect()
}

/// Refuses patterns with a line break: the library takes one pattern a line.
fn check_text(patterns: &[String], option: &str) -> Result<(), Failure> {
    match patterns.iter().find(|pattern| pattern.is_empty() || pattern.contains('\n')) {
        Some(pattern) => Err(Failure::usage(format!("{option} {pattern:?}: a pattern is one line of text"))),
        None => Ok(()),
    }
}

/// Refuses a program that cannot be caught, with a line.
fn check_program(name: &OsStr, by_kernel: bool) -> Result<(), u8> {
    if let Err(message) = kernel::check_not_nested(Path::new(name)) {
        say(&message);
        return Err(CANNOT_START);
    }
    let Some(path) = in_path(name) else { return Ok(()) };
    let reason = match program(&path) {
        Ok(Program::Static | Program::Go) if by_kernel => return Ok(()),
        Ok(Program::Static) => {
            "it is linked statically, so no library can catch its files. Link it dynamically, or give --catch kernel"
        }
        Ok(Program::Go) => "it calls the system by itself, as programs in Go do. Give --catch kernel",
        Ok(Program::Other) => {
            "it is a program for another system or of 32 bits. Build it for this system, and link it dynamically"
        }
        Ok(Program::SetUser) => {
            "it runs as another user, so the system loads no library of yours into it. Put it before `mainstay \
             files`, or run it without `mainstay files`"
        }
        _ => return Ok(()),
    };
    Err(not_caught(&path, reason))
}

fn not_caught(name: &Path, reason: &str) -> u8 {
    say(&format!("{} cannot be caught: {reason}", printable_path(name)));
    CANNOT_START
}

fn library() -> Result<PathBuf, Failure> {
    let installed = Installed::find()?;
    match installed.files.exists() {
        true => Ok(installed.files),
        false => Err(Failure {
            exit: Exit::System,
            message: format!("{} is missing; install Mainstay again", printable_path(&installed.files)),
        }),
    }
}

/// Our library comes first, so that other libraries see the calls that it passes on.
fn preload(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// The words that `mainstay run --files` puts before a program.
pub fn inserted(patterns: &[String], options: &FileOptions, job: &str) -> Result<Vec<OsString>, Failure> {
    let own = env::current_exe().and_then(fs::canonicalize);
    let own = own.map_err(|e| Failure::refused(format!("the path of this command is unknown: {e}")))?;
    let words = [own.into(), "files".into(), "--job".into(), job.into()];
    let mut words: Vec<OsString> = words.into();
    let mut add = |name: &str, value: &OsStr| words.extend([format!("--{name}").into(), value.to_owned()]);
    patterns.iter().for_each(|pattern| add("match", pattern.as_ref()));
    let FileOptions { exclude, keep, sets, count, damaged, fsync, catch, room, stage } = options;
    exclude.iter().for_each(|pattern| add("exclude", pattern.as_ref()));
    sets.iter().for_each(|set| add("set", set.as_ref()));
    let numbers = [("keep", keep.map(u64::from)), ("count", count.map(u64::from)), ("room", *room)];
    for (name, number) in numbers {
        number.iter().for_each(|number| add(name, number.to_string().as_ref()));
    }
    let ways = [("damaged", damaged.and_then(word)), ("fsync", fsync.and_then(word)), ("catch", catch.and_then(word))];
    for (name, way) in ways {
        way.iter().for_each(|way| add(name, way.as_ref()));
    }
    stage.iter().for_each(|stage| add("stage", stage.as_os_str()));
    words.push("--".into());
    Ok(words)
}

/// The word of a value on the command line.
fn word(way: impl ValueEnum) -> Option<String> {
    Some(way.to_possible_value()?.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_pattern_for_a_path_stands_with_and_without_links() {
        let folder = tempfile::tempdir().unwrap();
        let here = fs::canonicalize(folder.path()).unwrap().into_os_string().into_string().unwrap();
        fs::create_dir(format!("{here}/re[l")).unwrap();
        symlink("re[l", format!("{here}/out")).unwrap();
        let all = |pattern: &str| absolute(&[pattern.to_owned()]);
        let out = format!("{here}/out/restart.*");
        assert_eq!(all(&out), [out.clone(), format!("{here}/re\\[l/restart.*")]);
        for same in ["restart.*", "*/out/restart", &format!("{here}/re\\[l/x"), "/restart", "/no/such/folder/x"] {
            assert_eq!(all(same), [same]);
        }
    }
}
