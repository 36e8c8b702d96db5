//! The mappings in a stretch of memory, from `/proc/self/maps`, and whether Mainstay can see all writes to them.

use crate::{error::Error, ground::files};
use std::{
    fs,
    io::{self, BufRead, BufReader},
    ops::Range,
    path::Path,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Memory of this process alone.
    Anonymous,
    /// A private view of a file. Some of its pages may still be the file's.
    OfFile,
}

/// The `ranges` with bytes that a cloned process lacks or may see changed, and the reason.
pub(super) fn uncloned(ranges: &[Range<usize>]) -> io::Result<Vec<(usize, String)>> {
    uncloned_in(maps()?, &fs::read_link("/proc/self/exe").unwrap_or_default(), ranges)
}

fn uncloned_in(maps: impl BufRead, program: &Path, ranges: &[Range<usize>]) -> io::Result<Vec<(usize, String)>> {
    let mut uncloned = Vec::new();
    for line in maps.split(b'\n') {
        let line = line?;
        let mapping = Mapping::read(&String::from_utf8_lossy(&line)).and_then(|found| found.uncloned(program));
        uncloned.extend(mapping);
    }
    // The kernel lists mappings in order and without overlaps.
    let of = |range: &Range<usize>| {
        let (pages, why) = uncloned.get(uncloned.partition_point(|(pages, _)| pages.end <= range.start))?;
        (!range.is_empty() && pages.start < range.end).then(|| why.clone())
    };
    Ok(ranges.iter().enumerate().filter_map(|(index, range)| Some((index, of(range)?))).collect())
}

/// The parts of `ranges` in private anonymous memory, each with the number of its range.
pub(super) fn anonymous_parts(ranges: &[Range<usize>]) -> io::Result<Vec<Part>> {
    let mut anonymous = Vec::new();
    for line in maps()?.split(b'\n') {
        let line = line?;
        let mapping =
            Mapping::read(&String::from_utf8_lossy(&line)).filter(Mapping::is_anonymous).map(|found| found.pages);
        anonymous.extend(mapping);
    }
    Ok(within(ranges, &anonymous))
}

/// Memory with missing pages that the program fills through a userfaultfd. The cost of the search grows with the memory
/// in use.
pub(super) fn filled_when_missing(ranges: &[Range<usize>]) -> io::Result<Vec<Part>> {
    filled_when_missing_in(BufReader::new(files::kernel_file("/proc/self/smaps")?), ranges)
}

fn filled_when_missing_in(smaps: impl BufRead, ranges: &[Range<usize>]) -> io::Result<Vec<Part>> {
    let (mut filled, mut pages) = (Vec::new(), 0..0);
    for line in smaps.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            filled.extend(flags.split_whitespace().any(|flag| flag == "um").then(|| pages.clone()));
        } else if let Some(found) = Mapping::read(&line) {
            pages = found.pages;
        }
    }
    Ok(within(ranges, &filled))
}

/// All mappings: pages, and the name of the mapped file, if any.
pub(super) fn named() -> io::Result<Vec<(Range<usize>, String)>> {
    named_in(maps()?)
}

fn named_in(maps: impl BufRead) -> io::Result<Vec<(Range<usize>, String)>> {
    let mut all: Vec<(Range<usize>, String)> = Vec::new();
    for line in maps.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let Some(mapping) = Mapping::read(&line) else { continue };
        let pages = mapping.pages.clone();
        // Only the last part of the path: runs in two directories have two copies. Shared mappings get a new name in
        // each run.
        let is_file = mapping.inode != "0" && !mapping.is_shared();
        let name = if is_file { mapping.path.rsplit('/').next().unwrap_or_default() } else { "" };
        match all.last_mut() {
            Some((before, last)) if last == name && before.end == pages.start => before.end = pages.end,
            _ => all.push((pages, name.to_owned())),
        }
    }
    Ok(all)
}

/// The number of a range, and addresses in it.
type Part = (usize, Range<usize>);

/// The parts of `ranges` inside `mappings`, which ascend.
fn within(ranges: &[Range<usize>], mappings: &[Range<usize>]) -> Vec<Part> {
    let parts = |(index, range): (usize, &Range<usize>)| {
        let first = mappings.partition_point(|pages| pages.end <= range.start);
        let within = mappings[first..].iter().take_while(|pages| pages.start < range.end);
        let parts = within.map(|pages| (index, pages.start.max(range.start)..pages.end.min(range.end)));
        parts.collect::<Vec<_>>()
    };
    ranges.iter().enumerate().filter(|(_, range)| !range.is_empty()).flat_map(parts).collect()
}

fn maps() -> io::Result<impl BufRead> {
    files::kernel_file("/proc/self/maps").map(BufReader::new)
}

/// All mappings at one instant, in order: pages and kind. An error says why changes to them cannot be seen.
pub(super) struct Mappings(Vec<(Range<usize>, Result<Kind, String>)>);

impl Mappings {
    pub(super) fn now() -> Result<Mappings, String> {
        Mappings::read(maps().map_err(|e| format!("/proc/self/maps: {e}"))?)
    }

    fn read(maps: impl BufRead) -> Result<Mappings, String> {
        let read = |line: io::Result<Vec<u8>>| {
            let line = line.map_err(|e| format!("/proc/self/maps: {e}"))?;
            let line = String::from_utf8_lossy(&line);
            let mapping = Mapping::read(&line).ok_or_else(|| format!("/proc/self/maps has {line:?}"))?;
            Ok((mapping.pages.clone(), mapping.kind()))
        };
        maps.split(b'\n').map(read).collect::<Result<_, _>>().map(Mappings)
    }

    /// The kind of all of `pages`; an error says why changes to them cannot be seen.
    pub(super) fn kind_of(&self, pages: &Range<usize>) -> Result<Kind, String> {
        let (mut kind, mut at) = (Kind::Anonymous, pages.start);
        for (mapped, found) in &self.0[self.0.partition_point(|(mapped, _)| mapped.end <= at)..] {
            if mapped.start > at {
                break;
            }
            if found.clone()? == Kind::OfFile {
                kind = Kind::OfFile;
            }
            at = mapped.end;
            if at >= pages.end {
                return Ok(kind);
            }
        }
        Err(format!("nothing is mapped at {at:#x}"))
    }
}

/// An error if the program cannot write all `bytes` bytes at `address`, which it passed as the argument `name` to be
/// filled. If the system does not say, no error.
pub fn check_writable(name: &'static str, address: usize, bytes: usize) -> crate::error::Result<()> {
    let lacking = Writable::now().ok().and_then(|writable| writable.lacking(&(address..address.saturating_add(bytes))));
    lacking.map_or(Ok(()), |(pages, why)| {
        let why = format!("{why} at {:#x}, and cannot be filled; give memory that the program may write", pages.start);
        Err(Error::argument(name, why))
    })
}

/// All mappings at one instant, in order, and whether the program may write them.
pub(super) struct Writable(Vec<(Range<usize>, bool)>);

impl Writable {
    pub(super) fn now() -> io::Result<Writable> {
        Writable::read(maps()?)
    }

    fn read(maps: impl BufRead) -> io::Result<Writable> {
        let mut all: Vec<(Range<usize>, bool)> = Vec::new();
        for line in maps.split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            let Some(Mapping { mut pages, permissions, path, .. }) = Mapping::read(&line) else { continue };
            if path == "[stack]" {
                // The stack: the kernel lets it grow down as it is written.
                pages.start = all.last().map_or(0, |(before, _)| before.end);
            }
            all.push((pages, permissions.as_bytes().get(1) == Some(&b'w')));
        }
        Ok(Writable(all))
    }

    /// The first part of `range` that the program cannot write, and why.
    pub(super) fn lacking(&self, range: &Range<usize>) -> Option<(Range<usize>, &'static str)> {
        let mut at = range.start;
        for (pages, is_writable) in &self.0[self.0.partition_point(|(pages, _)| pages.end <= at)..] {
            if at >= range.end || pages.start > at {
                break;
            }
            if !is_writable {
                return Some((at..pages.end.min(range.end), "it is read-only"));
            }
            at = pages.end;
        }
        let next = self.0[self.0.partition_point(|(pages, _)| pages.start <= at)..].first();
        let end = next.map_or(range.end, |(pages, _)| pages.start.min(range.end));
        (at < range.end).then_some((at..end, "nothing is mapped there"))
    }
}

/// A line of `maps`: `start-end perms offset device inode   path`.
struct Mapping<'a> {
    pages: Range<usize>,
    permissions: &'a str,
    inode: &'a str,
    path: &'a str,
}

impl Mapping<'_> {
    fn read(line: &str) -> Option<Mapping<'_>> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let pages = address(start)?..address(end)?;
        let permissions = fields.next()?;
        let inode = fields.nth(2)?;
        Some(Mapping { pages, permissions, inode, path: fields.next().unwrap_or_default().trim_start() })
    }

    fn is_shared(&self) -> bool {
        self.permissions.ends_with('s')
    }

    fn is_anonymous(&self) -> bool {
        !self.is_shared() && self.inode == "0"
    }

    /// The reason why a clone lacks this mapping's bytes or may see them change. `program`: the running file, which
    /// nobody can write meanwhile.
    fn uncloned(&self, program: &Path) -> Option<(Range<usize>, String)> {
        let why = if self.is_shared() {
            self.shared_by_others()
        } else if !self.is_anonymous() && Path::new(self.path) != program {
            // Until they are written, its pages are the file's. They vanish if the file is cut off.
            format!("it is a view of a file, {}, and may change with that", self.path)
        } else if !self.permissions.starts_with('r') {
            "it may not be read (mprotect), and no handler of the program's runs in a clone".to_owned()
        } else {
            return None;
        };
        Some((self.pages.clone(), why))
    }

    fn shared_by_others(&self) -> String {
        let named = if self.path.is_empty() { String::new() } else { format!(" of {}", self.path) };
        format!("it is a shared mapping{named}, which others may write to unseen")
    }

    fn kind(&self) -> Result<Kind, String> {
        let path = self.path;
        if path.starts_with("/anon_hugepage") || path.starts_with("/dev/hugepages/") {
            return Err("it is made of huge pages that were set aside (hugetlbfs)".to_owned());
        }
        if path.starts_with("/dev/") && !["/dev/shm/", "/dev/zero"].iter().any(|plain| path.starts_with(plain)) {
            return Err(format!("it is the memory of a device, {path}, which writes to it unseen"));
        }
        if self.is_shared() {
            return Err(self.shared_by_others());
        }
        match (self.inode, path) {
            ("0", "" | "[heap]" | "[stack]") => Ok(Kind::Anonymous),
            ("0", _) if path.starts_with("[anon:") => Ok(Kind::Anonymous),
            ("0", _) => Err(format!("it is the kernel's, {path}")),
            _ => Ok(Kind::OfFile),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00402000 r-xp 00000000 fd:01 77    /usr/bin/program with a space
00402000-00405000 rw-p 00002000 fd:01 77    /usr/bin/program with a space
00405000-00409000 rw-p 00000000 00:00 0 
00409000-0040a000 rw-p 00000000 00:00 0     [heap]
7f0000000000-7f0000002000 rw-s 00000000 00:17 5    /dev/shm/one object
7f0000002000-7f0000003000 rw-s 00000000 00:01 6    /dev/zero (deleted)
7f0000003000-7f0000004000 rw-p 00000000 00:06 7    /dev/nvidia0
7f0000004000-7f0000204000 rw-p 00000000 00:0f 8    /anon_hugepage (deleted)
7f0000204000-7f0000205000 rw-p 00000000 00:00 0    [anon:glibc: malloc]
7f0000400000-7f0000500000 ---p 00000000 00:00 0 
7ffffffde000-7ffffffdf000 r--p 00000000 00:00 0    [vvar]
";

    #[track_caller]
    fn is(pages: Range<usize>, said: Result<Kind, &str>) {
        let kind = Mappings::read(MAPS.as_bytes()).unwrap().kind_of(&pages);
        assert!(
            kind == said.map_err(str::to_owned) || kind.is_err_and(|why| said.is_err_and(|part| why.contains(part)))
        );
    }

    #[test]
    fn memory_is_told_by_what_is_mapped_there() {
        is(0x405000..0x406000, Ok(Kind::Anonymous));
        is(0x405000..0x40a000, Ok(Kind::Anonymous));
        is(0x404000..0x406000, Ok(Kind::OfFile));
        is(0x7f0000204000..0x7f0000205000, Ok(Kind::Anonymous));
        is(0x409000..0x40b000, Err("nothing is mapped at 0x40a000"));
        is(0x300000..0x401000, Err("nothing is mapped at 0x300000"));
        is(0x7ffffffdf000..0x7ffffffe0000, Err("nothing is mapped"));
        is(0x7f0000000000..0x7f0000001000, Err("a shared mapping of /dev/shm/one object"));
        is(0x7f0000002000..0x7f0000003000, Err("a shared mapping of /dev/zero (deleted)"));
        is(0x7f0000003000..0x7f0000004000, Err("the memory of a device, /dev/nvidia0"));
        is(0x7f0000004000..0x7f0000204000, Err("hugetlbfs"));
        is(0x7ffffffde000..0x7ffffffdf000, Err("the kernel's, [vvar]"));
    }

    #[test]
    fn memory_that_cannot_be_written_is_found_with_its_addresses() {
        let stack = "7ffffffd0000-7ffffffde000 rw-p 00000000 00:00 0    [stack]\n";
        let maps = MAPS.replace("7ffffffde000-", &format!("{stack}7ffffffde000-"));
        let writable = Writable::read(maps.as_bytes()).unwrap();
        let lacking = |range: Range<usize>| writable.lacking(&range).map(|(pages, why)| (pages.start, pages.end, why));
        let (nothing, read_only) = ("nothing is mapped there", "it is read-only");
        assert_eq!(lacking(0x402000..0x40a000), None);
        assert_eq!(lacking(0x401000..0x403000), Some((0x401000, 0x402000, read_only)));
        assert_eq!(lacking(0x408fff..0x40b000), Some((0x40a000, 0x40b000, nothing)));
        assert_eq!(lacking(0x300000..0x500000), Some((0x300000, 0x400000, nothing)));
        assert_eq!(lacking(0x7f0000400ff0..0x7f0000401000), Some((0x7f0000400ff0, 0x7f0000401000, read_only)));
        // It grows.
        assert_eq!(lacking(0x7fffff000000..0x7ffffffde000), None);
        assert_eq!(lacking(0x7fffffff0000..0x7fffffff1000), Some((0x7fffffff0000, 0x7fffffff1000, nothing)));
        assert_eq!(lacking(0x300000..0x300000), None);
    }

    #[test]
    fn what_has_a_byte_that_a_clone_lacks_is_found() {
        let program = Path::new("/usr/bin/program with a space");
        let found = |ranges: &[Range<usize>]| uncloned_in(MAPS.as_bytes(), program, ranges).unwrap();
        #[track_caller]
        fn is(found: &[(usize, String)], number: usize, why: &str) {
            assert!(found.len() == 1 && found[0].0 == number && found[0].1.contains(why), "{found:?}");
        }
        let own = 0x402000..0x40a000;
        assert_eq!(found(&[own.clone(), 0x7f0000204000..0x7f0000205000, 0x600000..0x700000]), []);
        is(&found(&[own.clone(), 0x7f0000001fff..0x7f0000002000]), 1, "a shared mapping of /dev/shm/one object");
        is(&found(&[0x7f0000002fff..0x7f0000003001, own.clone()]), 0, "a shared mapping of /dev/zero");
        is(&found(std::slice::from_ref(&(0x600000..0x7f0000000001))), 0, "/dev/shm/one object");
        assert_eq!(found(&[0x7f0000001000..0x7f0000001000, own.clone()]), []);
        is(&found(&[own.clone(), 0x7f0000003000..0x7f0000004000]), 1, "a view of a file, /dev/nvidia0,");
        is(&found(&[own.clone(), 0x7f0000400000..0x7f0000400001]), 1, "may not be read");
        let two = found(&[0x7f0000400000..0x7f0000400001, own, 0x7f0000000000..0x7f0000000001]);
        assert_eq!(two.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn files_have_names_and_other_memory_has_none() {
        let named = named_in(MAPS.as_bytes()).unwrap();
        let named: Vec<_> = named.iter().map(|(pages, name)| (pages.start, pages.end, name.as_str())).collect();
        let [program, unnamed] = ["program with a space", ""];
        assert_eq!(named[..2], [(0x400000, 0x405000, program), (0x405000, 0x40a000, unnamed)]);
        let rest = [
            (0x7f0000000000, 0x7f0000003000, unnamed),
            (0x7f0000003000, 0x7f0000004000, "nvidia0"),
            (0x7f0000004000, 0x7f0000204000, "anon_hugepage (deleted)"),
            (0x7f0000204000, 0x7f0000205000, unnamed),
            (0x7f0000400000, 0x7f0000500000, unnamed),
            (0x7ffffffde000, 0x7ffffffdf000, unnamed),
        ];
        assert_eq!(named[2..], rest);
    }

    #[test]
    fn memory_that_somebody_fills_is_found() {
        let smaps = "\
7f0000000000-7f0000002000 rw-p 00000000 00:00 0 
Size:                  8 kB
VmFlags: rd wr mr mw me uw ac 
7f0000002000-7f0000005000 rw-p 00000000 00:00 0 
Size:                 12 kB
VmFlags: rd wr mr mw me um ac 
";
        let found = filled_when_missing_in(smaps.as_bytes(), &[0..10, 0x7f0000001000..0x7f0000003000]).unwrap();
        assert_eq!(found, [(1, 0x7f0000002000..0x7f0000003000)]);
    }
}
