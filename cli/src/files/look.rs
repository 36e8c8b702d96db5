//! `mainstay files ls`, `verify`, `restore`.

use crate::{
    arguments::FilesIn,
    document,
    exit::{Exit, Failure},
    output,
    text::{self, Align},
    time,
};
use mainstay_engine::printable_path;
use mainstay_files::{Generation, NamedFile, Stage, StagedFile, Verdict, list, staged_in};
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::SystemTime,
};

pub fn ls(wanted: &FilesIn) -> Result<Exit, Failure> {
    let (files, staged) = found_any(&wanted.folder)?;
    if wanted.json {
        output::json(&document::ProtectedFiles::of(&files, &staged, |_, _| None))?;
        return Ok(Exit::Good);
    }
    output::text(&table(&files, &staged, |_, generation| place(generation)))?;
    Ok(Exit::Good)
}

/// The page of `mainstay status` for a folder with protected files. `None`: it has none.
pub fn status(folder: &Path, json: bool) -> Result<Option<Exit>, Failure> {
    let Ok((files, staged)) = found(folder) else { return Ok(None) };
    if files.is_empty() && staged.is_empty() {
        return Ok(None);
    }
    let failures: Vec<String> = staged.iter().filter_map(|file| file.failure.clone()).collect();
    if json {
        output::json(&document::ProtectedFiles::of(&files, &staged, |_, _| None))?;
    } else {
        output::alarms(&failures)?;
        output::text(&table(&files, &staged, |_, generation| place(generation)))?;
    }
    Ok(Some(if failures.is_empty() { Exit::Good } else { Exit::StepError }))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

pub fn verify(wanted: &FilesIn) -> Result<Exit, Failure> {
    let (files, staged) = found_any(&wanted.folder)?;
    let mut is_damaged = false;
    let mut judged = |file: &NamedFile, generation: &Generation| {
        let verdict = mainstay_files::verify(&wanted.folder, &file.name, generation.number);
        is_damaged |= verdict == Verdict::Damaged;
        verdict
    };
    if wanted.json {
        output::json(&document::ProtectedFiles::of(&files, &[], |file, generation| {
            Some(judged(file, generation) == Verdict::Good)
        }))?;
    } else {
        let page = table(&files, &staged, |file, generation| {
            let verdict = match judged(file, generation) {
                Verdict::Good => "good",
                Verdict::Damaged => "DAMAGED",
                Verdict::Changed => "changed by another program",
            };
            match place(generation) {
                place if place.is_empty() => verdict.to_owned(),
                place => format!("{verdict}, {place}"),
            }
        });
        output::text(&page)?;
    }
    Ok(if is_damaged { Exit::Lost } else { Exit::Good })
}

pub fn restore(folder: &Path, file: &OsStr) -> Result<Exit, Failure> {
    let (name, number) = split(file);
    let (files, _) = found_any(folder)?;
    let shown = printable_path(&folder.join(&name));
    let Some(found) = files.iter().find(|one| one.name == name) else {
        return Err(Failure::lost(format!(
            "{shown} has no generations; `mainstay files ls {}` lists the files that have some",
            printable_path(folder)
        )));
    };
    let verify = |number| mainstay_files::verify(folder, &name, number) == Verdict::Good;
    let older = || found.generations.iter().find(|one| !one.is_current && verify(one.number)).map(|one| one.number);
    let Some(number) = number.or_else(older) else {
        return Err(Failure::lost(format!("{shown} has no older undamaged generation; {}", how_to_list(folder))));
    };
    mainstay_files::restore(folder, &name, number).map_err(|e| {
        Failure::lost(format!("{shown} stays as it is: generation {number}: {e}; {}", how_to_list(folder)))
    })?;
    output::text(&format!("{shown} is generation {number} now\n"))?;
    Ok(Exit::Good)
}

fn how_to_list(folder: &Path) -> String {
    format!("`mainstay files verify {}` lists the undamaged ones", printable_path(folder))
}

/// "restart.1@7".
fn split(file: &OsStr) -> (OsString, Option<u64>) {
    let bytes = file.as_bytes();
    let number = bytes.iter().rposition(|byte| *byte == b'@').and_then(|at| {
        let number = std::str::from_utf8(&bytes[at + 1..]).ok()?.parse().ok()?;
        Some((OsStr::from_bytes(&bytes[..at]).to_owned(), Some(number)))
    });
    number.unwrap_or_else(|| (file.to_owned(), None))
}

/// The protected files of a folder, and its files on this node that have no name yet.
fn found(folder: &Path) -> Result<(Vec<NamedFile>, Vec<StagedFile>), Failure> {
    let files = list(folder).map_err(|e| unreadable(folder, &e))?;
    let staged = Stage::find().and_then(|stage| staged_in(&stage, folder).ok()).unwrap_or_default();
    Ok((files, staged))
}

/// As `found`, but a folder without such files is an error, as a directory that is no space.
fn found_any(folder: &Path) -> Result<(Vec<NamedFile>, Vec<StagedFile>), Failure> {
    let (files, staged) = found(folder)?;
    if files.is_empty() && staged.is_empty() {
        // A missing folder `.mainstay` is no error there.
        fs::read_dir(folder).map_err(|e| unreadable(folder, &e))?;
        let message = format!(
            "no protected files in {}: a program must write and close one under `mainstay files`",
            printable_path(folder)
        );
        return Err(Failure { exit: Exit::NotASpace, message });
    }
    Ok((files, staged))
}

fn unreadable(folder: &Path, error: &io::Error) -> Failure {
    let is_none = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let exit = if is_none { Exit::NotASpace } else { Exit::System };
    Failure { exit, message: format!("{} cannot be read: {error}", printable_path(folder)) }
}

/// The form in which the tables take times.
fn unix_ns(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

fn place(generation: &Generation) -> String {
    if generation.is_current { "under its name".to_owned() } else { String::new() }
}

fn table(
    files: &[NamedFile],
    staged: &[StagedFile],
    mut state: impl FnMut(&NamedFile, &Generation) -> String,
) -> String {
    let columns = [
        ("file", Align::Left),
        ("generation", Align::Right),
        ("size", Align::Right),
        ("written", Align::Left),
        ("", Align::Left),
    ];
    let mut rows = Vec::new();
    let stating = |name: String, state: &str| vec![name, String::new(), String::new(), String::new(), state.to_owned()];
    for file in staged {
        let state = match (&file.failure, file.is_whole) {
            (Some(_), _) => "NOT SAVED",
            (None, true) => "closed, not under its name yet",
            (None, false) => "being written",
        };
        rows.push(stating(name_of(&file.path), state));
    }
    for file in files {
        let name = file.name.to_string_lossy().into_owned();
        if file.is_foreign {
            rows.push(stating(name.clone(), "under its name: a file that was not written with `mainstay files`"));
        }
        for generation in &file.generations {
            rows.push(vec![
                name.clone(),
                generation.number.to_string(),
                text::bytes(generation.bytes),
                time::when(unix_ns(generation.modified)),
                state(file, generation),
            ]);
        }
    }
    text::table(&columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_stands_after_the_last_at() {
        let split = |file: &str| split(OsStr::new(file));
        assert_eq!(split("restart.1@7"), ("restart.1".into(), Some(7)));
        assert_eq!(split("a@b@7"), ("a@b".into(), Some(7)));
        assert_eq!(split("restart@x"), ("restart@x".into(), None));
        assert_eq!(split("restart"), ("restart".into(), None));
    }
}
