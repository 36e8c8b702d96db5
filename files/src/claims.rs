//! Claims: the node of a job that writes a file. They are in the target's file system, for the helpers of other nodes.
//!
//! ```text
//! .mainstay/claims/NAME/JOB    "NODE ID KIND STATE"
//! ```
//! Only jobs on several nodes make them. Invariants:
//! - A job has at most one claim of a name. It is made in one step, before the file gets bytes.
//! - A helper publishes a file of such a job only while the claim is its node's. Another job that claims the name drops
//!   the claim, so an older file never replaces a newer one.

use crate::{
    file::{BESIDE, Named, check_beside, short},
    stage::{Id, Stage, names},
    writing::drop_writing,
};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Tries to make a claim. Another helper may remove the folder of a name between two calls.
const TRIES: u32 = 16;
const CLAIM_BYTES_MAX: u64 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The stage of the helper that made the claim.
    pub node: String,
    pub id: Id,
    /// All nodes of the job write one file, by MPI-IO.
    pub is_shared: bool,
    pub state: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Open,
    /// Complete, but without its name yet.
    Whole,
    Torn,
}

const PROGRESS: [(Progress, &str); 3] =
    [(Progress::Open, "open"), (Progress::Whole, "whole"), (Progress::Torn, "torn")];

impl Claim {
    fn to_text(&self) -> String {
        let state = PROGRESS.iter().find(|(state, _)| *state == self.state).map_or("", |(_, word)| word);
        format!("{} {} {} {state}\n", self.node, self.id, if self.is_shared { "shared" } else { "own" })
    }

    fn from_text(text: &str) -> Option<Claim> {
        let words: Vec<&str> = text.strip_suffix('\n')?.split(' ').collect();
        let [node, id, kind, state] = words[..] else { return None };
        Some(Claim {
            node: node.to_owned(),
            id: Id::from_text(id)?,
            is_shared: kind == "shared",
            state: PROGRESS.iter().find(|(_, word)| *word == state)?.0,
        })
    }
}

/// A name of this node's stage that no other node has.
pub fn node(stage: &Stage) -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let found = fs::metadata(stage.path())?;
    Ok(format!("{}.{:x}.{:x}", boot.trim_end(), found.dev(), found.ino()))
}

fn folder(named: &Named) -> PathBuf {
    named.folder.join(BESIDE).join("claims").join(short(named.name()))
}

/// The claim of a job. `None`: there is none, or its text has another form.
pub fn find(named: &Named, job: &str) -> Option<Claim> {
    read(&folder(named).join(job))
}

fn read(path: &Path) -> Option<Claim> {
    let is_short = fs::symlink_metadata(path).ok()?.len() <= CLAIM_BYTES_MAX;
    is_short.then(|| Claim::from_text(&fs::read_to_string(path).ok()?)).flatten()
}

/// Makes the claim of a job, and drops those of other jobs. `false`: the job has one already.
pub fn make(named: &Named, job: &str, claim: &Claim) -> io::Result<bool> {
    check_beside(&named.folder)?;
    let folder = folder(named);
    for _ in 0..TRIES {
        fs::create_dir_all(&folder)?;
        match link(&folder, job, claim) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The new file may have kept the folder while another helper released its claim.
                let _ = fs::remove_dir(&folder);
                return Ok(false);
            }
            made => {
                made?;
                drop_others(named, &folder, job);
                return Ok(true);
            }
        }
    }
    Err(io::Error::other("the folder of claims is removed again and again"))
}

/// Writes a claim in one step: another helper reads the whole text, or finds no claim.
fn link(folder: &Path, job: &str, claim: &Claim) -> io::Result<()> {
    let new = folder.join(format!(".{}", claim.id));
    fs::write(&new, claim.to_text())?;
    let linked = fs::hard_link(&new, folder.join(job));
    let _ = fs::remove_file(&new);
    linked
}

/// Drops the claims of earlier jobs: a job has ended, or must not write the name any more.
fn drop_others(named: &Named, folder: &Path, job: &str) {
    for other in names(folder).unwrap_or_default() {
        if other != job && !other.starts_with('.') {
            let claim = read(&folder.join(&other));
            let _ = fs::remove_file(folder.join(&other));
            if let Some(claim) = claim {
                drop_writing(&named.folder, claim.id);
            }
        }
    }
}

/// Replaces the claim of the job.
pub fn replace(named: &Named, job: &str, claim: &Claim) -> io::Result<()> {
    let folder = folder(named);
    let new = folder.join(format!(".{}", claim.id));
    fs::write(&new, claim.to_text())?;
    fs::rename(new, folder.join(job))
}

/// Changes the state of the claim, if it is that of `id`.
pub fn set_progress(named: &Named, job: &str, id: Id, state: Progress) {
    if let Some(claim) = find(named, job).filter(|claim| claim.id == id) {
        let _ = replace(named, job, &Claim { state, ..claim });
    }
}

/// Gives the claim back to an older file of this node, which is on its way to the name, if it is that of `id`.
pub fn give_back(named: &Named, job: &str, id: Id, older: Id) {
    if let Some(claim) = find(named, job).filter(|claim| claim.id == id) {
        let _ = replace(named, job, &Claim { id: older, state: Progress::Whole, ..claim });
    }
}

/// Removes the claim, if it is that of `id`.
pub fn release(named: &Named, job: &str, id: Id) {
    let folder = folder(named);
    if find(named, job).is_some_and(|claim| claim.id == id) {
        let _ = fs::remove_file(folder.join(job));
    }
    // A helper may have been killed between these two.
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn claim(node: &str) -> Claim {
        Claim { node: node.to_owned(), id: Id::after(None, 1), is_shared: true, state: Progress::Open }
    }

    #[test]
    fn a_job_has_one_claim_of_a_name_and_drops_those_of_other_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let named = Named::in_folder(folder.path(), OsStr::new("restart.1")).unwrap();
        let one = claim("one");
        let two = Claim { id: Id::after(Some(one.id), 1), ..claim("two") };
        assert!(make(&named, "a", &one).unwrap());
        assert!(!make(&named, "a", &two).unwrap());
        assert_eq!(find(&named, "a"), Some(one.clone()));
        set_progress(&named, "a", one.id, Progress::Torn);
        assert_eq!(find(&named, "a").unwrap().state, Progress::Torn);
        assert!(make(&named, "b", &two).unwrap());
        give_back(&named, "b", one.id, two.id);
        assert_eq!(find(&named, "b"), Some(two.clone()));
        let newer = Id::after(Some(two.id), 1);
        replace(&named, "b", &Claim { id: newer, ..two.clone() }).unwrap();
        give_back(&named, "b", newer, two.id);
        assert_eq!(find(&named, "b"), Some(Claim { state: Progress::Whole, ..two.clone() }));
        assert_eq!(find(&named, "a"), None);
        release(&named, "b", Id::after(Some(two.id), 1));
        assert!(find(&named, "b").is_some());
        release(&named, "b", two.id);
        assert_eq!(names(&folder.path().join(".mainstay/claims")).unwrap(), Vec::<String>::new());
        // A helper was killed after it had removed the claim.
        fs::create_dir(super::folder(&named)).unwrap();
        release(&named, "b", two.id);
        assert_eq!(names(&folder.path().join(".mainstay/claims")).unwrap(), Vec::<String>::new());
    }

    /// Story: the folder of a name stayed if one helper released its claim while another one tried to make its own.
    #[test]
    fn nothing_stays_of_claims_that_come_and_go_at_a_time() {
        const HELPERS: usize = 3;
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let all = std::sync::Barrier::new(HELPERS);
        std::thread::scope(|scope| {
            for node in 0..HELPERS {
                let (folder, all) = (folder.path(), &all);
                scope.spawn(move || {
                    for turn in 0..2000 {
                        let named = Named::in_folder(folder, OsStr::new(&format!("restart.{turn}"))).unwrap();
                        let claim = Claim { id: Id::after(None, node as u16), ..claim("node") };
                        all.wait();
                        // One that always meets the others between two steps gives up with an error.
                        if make(&named, "a", &claim).unwrap_or(false) {
                            release(&named, "a", claim.id);
                        }
                    }
                });
            }
        });
        assert_eq!(names(&folder.path().join(".mainstay/claims")).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_strange_claim_is_none() {
        for text in ["", "x", "a b c d\n", "a 0123456789abcdef shared\n", "a 0123456789abcdef shared shut\n"] {
            assert_eq!(Claim::from_text(text), None, "{text}");
        }
        assert_eq!(Claim::from_text(&claim("n").to_text()).unwrap().node, "n");
    }
}
