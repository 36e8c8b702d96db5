//! The failure domain of this rank's node: the name of the rack or switch with which it fails. It comes from
//! `MAINSTAY_DOMAIN`, from a file with the domain of each host, or from Slurm; the first source that knows it counts.
//! The file's contents are not trusted until all of it was read.
//!
//! `MAINSTAY_DOMAIN_FILE` names the file. Its lines have two words: a host, by its full or its short name, and the
//! host's domain. `#` begins a comment, and empty lines do not count. The domain of a host that is not in the file is
//! unknown.

use crate::{
    error::{Error, Result},
    ground::{
        files::{Open, read_from},
        kernel_text,
    },
    printable::{is_seen, printable, printable_path},
};
use std::{collections::BTreeMap, ffi::OsString, io, path::Path};

const DOMAIN: &str = "MAINSTAY_DOMAIN";
const DOMAIN_FILE: &str = "MAINSTAY_DOMAIN_FILE";
const SLURM_PATH: &str = "SLURM_TOPOLOGY_ADDR";
const SLURM_PATTERN: &str = "SLURM_TOPOLOGY_ADDR_PATTERN";

const FILE_BYTES_MAX: u64 = 16 << 20;
const NAME_BYTES_MAX: usize = 255;

/// The domain of this rank's node; `None` if no source knows it. `variable`: reads an environment variable. `host`: the
/// name of this node. `InvalidArgument`, with the variable or the line: the user's setting cannot be read, or is not a
/// domain.
pub fn failure_domain(variable: impl Fn(&str) -> Option<OsString>, host: &str) -> Result<Option<String>> {
    // An empty variable counts as not set.
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(name) = given(DOMAIN) {
        let name = name.to_str().unwrap_or("\0");
        return check(name, "a domain").map(|()| Some(name.to_owned())).map_err(|why| Error::argument(DOMAIN, why));
    }
    if let Some(path) = given(DOMAIN_FILE) {
        let domain = DomainFile::read(Path::new(&path))?.domain_of(host).map(str::to_owned);
        if domain.is_some() {
            return Ok(domain);
        }
    }
    let text = |name| given(name).and_then(|value| value.into_string().ok());
    Ok(text(SLURM_PATH).zip(text(SLURM_PATTERN)).and_then(|(path, pattern)| switch(&path, &pattern)))
}

/// The kernel's name of this node; empty if it has none.
pub fn host_name() -> String {
    kernel_text("/proc/sys/kernel/hostname").map_or_else(|_| String::new(), |name| name.trim().to_owned())
}

/// The switch of a node, with the switches above it: `core.rack7` for `core.rack7.n12` with the pattern
/// `switch.switch.node`. The pattern gives the number of names, because a node's name may have dots, and some clusters
/// have no topology. The user did not write these, so an invalid path only means that the switch is unknown.
fn switch(path: &str, pattern: &str) -> Option<String> {
    let switches = pattern.strip_suffix(".node")?.split('.').count();
    let names: Vec<&str> = path.splitn(switches + 1, '.').collect();
    // A level without a switch of its own has no name.
    let named: Vec<&str> = names.get(..switches)?.iter().copied().filter(|name| !name.is_empty()).collect();
    let switch = named.join(".");
    let is_named = names.len() > switches && check(&switch, "a switch").is_ok();
    is_named.then_some(switch)
}

/// The domains of hosts.
#[derive(Debug, Default)]
struct DomainFile {
    /// The domain of each host, by the host's name in lower case.
    hosts: BTreeMap<String, String>,
    /// The domain by the part of the host's name before the first dot; `None` if hosts with this short name are in
    /// several.
    short: BTreeMap<String, Option<String>>,
}

impl DomainFile {
    fn read(path: &Path) -> Result<DomainFile> {
        let wrong = |why: String| Error::argument(printable_path(path), why);
        let bytes = bytes_of(path).map_err(|e| wrong(format!("the domains of hosts cannot be read: {e}")))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(wrong("it is larger than 16 MiB: is this the file of hosts and domains?".to_owned()));
        }
        let mut file = DomainFile::default();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            file.add(line)
                .map_err(|why| Error::argument(format!("{}, line {}", printable_path(path), index + 1), why))?;
        }
        Ok(file)
    }

    fn add(&mut self, line: &[u8]) -> std::result::Result<(), String> {
        let text =
            std::str::from_utf8(line).map_err(|_| "a byte that is not UTF-8; save the file as UTF-8".to_owned())?;
        let text = text.split('#').next().unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let Some(host) = words.next() else { return Ok(()) };
        check(host, "a host")?;
        let (Some(domain), None) = (words.next(), words.next()) else {
            return Err("a line must have two words: a host and its domain".to_owned());
        };
        check(domain, "a domain")?;
        let host = host.to_lowercase();
        if self.hosts.get(&host).is_some_and(|other| other != domain) {
            return Err(format!("{} is there a second time, with another domain", shown(&host)));
        }
        let one = self.short.entry(short(&host).to_owned()).or_insert_with(|| Some(domain.to_owned()));
        *one = one.take().filter(|other| other == domain);
        self.hosts.insert(host, domain.to_owned());
        Ok(())
    }

    /// Looks a host up by its full name, or by the short one if the file or the host has only that.
    fn domain_of(&self, host: &str) -> Option<&str> {
        let host = host.to_lowercase();
        let exact = self.hosts.get(&host).or_else(|| self.hosts.get(short(&host)));
        let short = || if host.contains('.') { None } else { self.short.get(&host)?.as_ref() };
        exact.or_else(short).map(String::as_str)
    }
}

fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or_default()
}

/// The bytes of the file, at most one more than the limit.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    read_from(Open::to_read().through_links().file(path)?, FILE_BYTES_MAX + 1)
}

fn check(name: &str, what: &str) -> std::result::Result<(), String> {
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(|c| is_seen(c) && !c.is_whitespace());
    let why =
        || format!("\"{}\" is not a name of {what}: give one word of at most {NAME_BYTES_MAX} bytes", shown(name));
    if is_good { Ok(()) } else { Err(why()) }
}

/// The beginning of a name that may be long.
fn shown(name: &str) -> String {
    const SHOWN: usize = 40;
    let begin: String = name.chars().take(SHOWN).collect();
    let rest = if begin.len() < name.len() { "…" } else { "" };
    format!("{}{rest}", printable(&begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

    fn of(variables: &[(&str, &str)], host: &str) -> Result<Option<String>> {
        let given = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        failure_domain(given, host)
    }

    fn file(bytes: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        file
    }

    /// The domain of a host in a file of these bytes.
    fn said(bytes: impl AsRef<[u8]>, host: &str) -> Result<Option<String>> {
        let file = file(bytes);
        of(&[(DOMAIN_FILE, file.path().to_str().unwrap())], host)
    }

    fn refused(result: Result<Option<String>>, words: &[&str]) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(text.len() < 500 && text.chars().all(is_seen), "{text}");
    }

    #[test]
    fn the_nearest_word_counts() {
        let hosts = file("n1 rack1\n");
        let path = hosts.path().to_str().unwrap();
        let slurm = [(SLURM_PATH, "core.sw1.n1"), (SLURM_PATTERN, "switch.switch.node")];
        let all = |own, path| [(DOMAIN, own), (DOMAIN_FILE, path), slurm[0], slurm[1]];
        assert_eq!(of(&all("mine", path), "n1").unwrap().as_deref(), Some("mine"));
        assert_eq!(of(&all("", path), "n1").unwrap().as_deref(), Some("rack1"));
        assert_eq!(of(&all("", path), "n2").unwrap().as_deref(), Some("core.sw1"));
        assert_eq!(of(&all("", ""), "n1").unwrap().as_deref(), Some("core.sw1"));
        assert_eq!(of(&[], "n1").unwrap(), None);
    }

    #[test]
    fn slurm_names_the_switch_above_the_node() {
        let cases = [
            ("sh04.sh04-isw-16.sh04-16n05", "switch.switch.node", Some("sh04.sh04-isw-16")),
            (".ib-core.tors-r1pac16.gpu027", "switch.switch.switch.node", Some("ib-core.tors-r1pac16")),
            ("s[0-1].s4.tux1.cluster.org", "switch.switch.node", Some("s[0-1].s4")),
            // A cluster without a topology, and a node with dots in its name.
            ("localhost.localdomain", "node", None),
            ("pp208", "node", None),
            ("pp208", "switch.node", None),
            ("..n1", "switch.switch.node", None),
            ("a.b.c", "", None),
            ("a.b.c", ".node", Some("a")),
            ("", "switch.node", None),
            ("sw 1.n1", "switch.node", None),
            ("sw\u{1b}[31m.n1", "switch.node", None),
        ];
        for (path, pattern, expected) in cases {
            let domain = of(&[(SLURM_PATH, path), (SLURM_PATTERN, pattern)], "n1").unwrap();
            assert_eq!(domain.as_deref(), expected, "{path} {pattern}");
        }
        assert_eq!(of(&[(SLURM_PATH, "sw1.n1")], "n1").unwrap(), None);
        let long = "s".repeat(1 << 20);
        assert_eq!(of(&[(SLURM_PATH, &format!("{long}.n1")), (SLURM_PATTERN, "switch.node")], "n1").unwrap(), None);
        assert_eq!(of(&[(SLURM_PATH, &".".repeat(1 << 20)), (SLURM_PATTERN, ".node")], "n1").unwrap(), None);
    }

    #[test]
    fn a_domain_of_its_own_is_one_word() {
        assert_eq!(of(&[(DOMAIN, "rack-7/α")], "n1").unwrap().as_deref(), Some("rack-7/α"));
        for name in ["two words", "a\n", "\u{1b}[31m", "\u{202e}abc", &"x".repeat(256), &"x".repeat(1 << 20)] {
            refused(of(&[(DOMAIN, name)], "n1"), &[DOMAIN]);
        }
        let bytes = |_: &str| Some(OsStr::from_bytes(b"rack\xff").to_owned());
        refused(failure_domain(bytes, "n1"), &[DOMAIN]);
    }

    #[test]
    fn a_file_tells_by_host() {
        let text =
            "# racks\n\n  n1\track1 # the first\r\nN2.cluster.org rack2\nn3.a.org rackA\nn3.b.org rackB\nn1 rack1";
        let cases = [
            ("n1", Some("rack1")),
            ("N1.cluster.org", Some("rack1")),
            ("n2", Some("rack2")),
            ("n2.cluster.org", Some("rack2")),
            ("n2.elsewhere.org", None),
            ("n3.b.org", Some("rackB")),
            ("n3", None),
            ("n4", None),
            ("", None),
        ];
        for (host, domain) in cases {
            assert_eq!(said(text, host).unwrap().as_deref(), domain, "{host}");
        }
        assert_eq!(said("", "n1").unwrap(), None);
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        refused(said("n1 rack1\nn2\n", "n1"), &["line 2", "two words"]);
        refused(said("n1 rack 1\n", "n1"), &["line 1", "two words"]);
        refused(said("n1 a\nN1 b\n", "n1"), &["line 2", "second time"]);
        refused(said(b"n1 a\n\nn2 \xff\xfe\n", "n1"), &["line 3", "UTF-8"]);
        refused(said("n1 \u{1b}[31mred\n", "n1"), &["line 1", "\\u{1b}"]);
        refused(said("n1\0 rack\n", "n1"), &["line 1", "a host"]);
        refused(said(format!("n1 {}\n", "x".repeat(1 << 20)), "n1"), &["line 1", "…"]);
        refused(said(vec![b'#'; FILE_BYTES_MAX as usize + 1], "n1"), &["16 MiB"]);
        refused(said(vec![0; 4096], "n1"), &["line 1"]);
        refused(of(&[(DOMAIN_FILE, "/nonexistent/hosts")], "n1"), &["/nonexistent/hosts", "cannot be read"]);
        refused(of(&[(DOMAIN_FILE, "/")], "n1"), &["not a regular file"]);
        refused(of(&[(DOMAIN_FILE, "/dev/zero")], "n1"), &["not a regular file"]);
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_holds_nobody_up() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("hosts");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        refused(of(&[(DOMAIN_FILE, pipe.to_str().unwrap())], "n1"), &["not a regular file"]);
    }

    #[test]
    fn noise_is_never_a_panic() {
        let mut rng = fastrand::Rng::with_seed(16);
        let words: [&[u8]; 10] = [b"n1", b" ", b"\n", b"rack", b"#", b".", b"\xc3", b"\0", b"\t", "é".as_bytes()];
        for _ in 0..2000 {
            let mut file = DomainFile::default();
            let bytes: Vec<u8> =
                (0..rng.usize(0..40)).flat_map(|_| words[rng.usize(0..words.len())].to_vec()).collect();
            bytes.split(|byte| *byte == b'\n').for_each(|line| drop(file.add(line)));
            file.domain_of("n1");
            let text = String::from_utf8_lossy(&bytes);
            switch(&text, "switch.node");
            switch("a.b.c", &text);
        }
    }

    #[test]
    fn this_host_has_a_name() {
        assert!(!host_name().is_empty() && !host_name().ends_with('\n'));
    }
}
