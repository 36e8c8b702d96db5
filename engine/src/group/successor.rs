//! The command that starts the replacement of a failed process. The replacement begins with the environment of the
//! launcher, which may lack variables that only the ranks got, as by `mpiexec env A=b ./program`.
//!
//! Invariant: variables of only one process or node are not passed on.

use crate::ground::kernel_bytes;
use nix::unistd::getppid;
use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

const ENV: &str = "/usr/bin/env";
const OURS: &[u8] = b"MAINSTAY_";
/// Variables of a node or of a single start.
const OF_NODE: [&[u8]; 4] =
    [b"MAINSTAY_RUN_REPLACES", b"MAINSTAY_NODE", b"MAINSTAY_DOMAIN", b"MAINSTAY_POOL_DIRECTORY"];
/// Variables that launchers and shells set for each process.
const OF_LAUNCHER: [&[u8]; 5] = [b"OMPI_", b"OPAL_", b"PMIX_", b"PMI_", b"PRTE_"];
const OF_SHELL: [&[u8]; 4] = [b"_", b"PWD", b"OLDPWD", b"SHLVL"];

/// The words that start `command` as this process was started: with Mainstay's current variables, and with the
/// variables that this process got but its launcher lacks or has with another value. Without `env`, if there are none.
pub fn successor(command: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let now = env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let (given, launchers) = (environment("self"), environment(&getppid().to_string()));
    words(handed_on(now, given, &launchers), command)
}

/// `now`: the process's variables. `given`: those at its start. The replacement will itself set the variables that this
/// process has set since.
fn handed_on(
    now: impl IntoIterator<Item = Vec<u8>>,
    given: BTreeSet<Vec<u8>>,
    launchers: &BTreeSet<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let is_ours = |variable: &Vec<u8>| name_of(variable).starts_with(OURS);
    let is_of_ranks = |variable: &Vec<u8>| !launchers.is_empty() && !launchers.contains(variable);
    let ours = now.into_iter().filter(is_ours);
    let given = given.into_iter().filter(|variable| !is_ours(variable) && is_of_ranks(variable));
    ours.chain(given).filter(|variable| is_handed_on(name_of(variable))).collect()
}

fn words(variables: Vec<Vec<u8>>, command: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let command: Vec<OsString> = command.into_iter().collect();
    let mut words = Vec::new();
    if !variables.is_empty() {
        words.push(ENV.into());
        words.extend(variables.into_iter().map(OsString::from_vec));
        if command.first().is_some_and(|program| program.as_bytes().contains(&b'=')) {
            // `env` would take it for one more variable.
            words.extend(["/bin/sh", "-c", "exec \"$0\" \"$@\""].map(OsString::from));
        }
    }
    words.extend(command);
    words
}

fn is_handed_on(name: &[u8]) -> bool {
    // `env` would take such a name for an option.
    !name.is_empty()
        && !name.starts_with(b"-")
        && !OF_NODE.contains(&name)
        && !OF_SHELL.contains(&name)
        && !OF_LAUNCHER.iter().any(|prefix| name.starts_with(prefix))
}

/// The variables with which a process was started; none if the system does not say.
fn environment(process: &str) -> BTreeSet<Vec<u8>> {
    let all = kernel_bytes(format!("/proc/{process}/environ")).unwrap_or_default();
    all.split(|byte| *byte == 0).filter(|variable| variable.contains(&b'=')).map(<[u8]>::to_vec).collect()
}

fn name_of(variable: &[u8]) -> &[u8] {
    variable.split(|byte| *byte == b'=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run(words: &[OsString]) -> String {
        let said = Command::new(&words[0]).args(&words[1..]).env_clear().output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    }

    #[test]
    fn what_is_of_a_node_a_launcher_or_a_shell_is_not_handed_on() {
        for name in
            ["MAINSTAY_NODE", "MAINSTAY_RUN_REPLACES", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PWD", "_", "-i", ""]
        {
            assert!(!is_handed_on(name.as_bytes()), "{name}");
        }
        for name in ["MAINSTAY_KEEP", "MAINSTAY_DOMAIN_FILE", "A", "PWDS", "LD_LIBRARY_PATH"] {
            assert!(is_handed_on(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_program_gets_its_variables_and_its_words_as_they_are() {
        let variables = || vec![b"A=b c=d".to_vec(), b"B=".to_vec()];
        let shown = ["/bin/sh", "-c", "echo \"$A|${B-unset}|$*\"", "sh", "x=1", "y  z"].map(OsString::from);
        assert_eq!(run(&words(variables(), shown.clone())), "b c=d||x=1 y  z\n");
        assert_eq!(words(Vec::new(), shown.clone()), shown);
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a=b");
        std::os::unix::fs::symlink("/bin/sh", &odd).unwrap();
        let shown = [odd.into_os_string()].into_iter().chain(shown.into_iter().skip(1));
        assert_eq!(run(&words(variables(), shown)), "b c=d||x=1 y  z\n");
    }

    #[test]
    fn settings_and_what_the_launcher_has_not_are_handed_on() {
        let all = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<BTreeSet<_>>();
        let now = all(&["MAINSTAY_KEEP=3", "MAINSTAY_NODE=n1", "SET=later"]);
        let given = all(&["MAINSTAY_KEEP=2", "A=b", "LANG=C", "PMIX_RANK=0", "HOME=/home"]);
        let launchers = all(&["LANG=de", "HOME=/home"]);
        let found: BTreeSet<_> = handed_on(now.clone(), given.clone(), &launchers).into_iter().collect();
        assert_eq!(found, all(&["MAINSTAY_KEEP=3", "A=b", "LANG=C"]));
        // The variables of another user's launcher are unknown.
        assert_eq!(handed_on(now, given, &BTreeSet::new()), [b"MAINSTAY_KEEP=3"]);
        assert!(!environment("self").is_empty());
    }
}
