//! What lies in a stretch of memory, as `/proc/self/maps` tells it, and whether all that writes to it can be seen.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    ops::Range,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Memory of this process alone.
    Anonymous,
    /// A private view of a file, some pages of which are still those of the file.
    OfFile,
}

/// The first of `ranges` that has bytes in a shared mapping, and which mapping that is.
pub(super) fn first_shared(ranges: &[Range<usize>]) -> io::Result<Option<(usize, String)>> {
    first_shared_in(BufReader::new(File::open("/proc/self/maps")?), ranges)
}

fn first_shared_in(maps: impl BufRead, ranges: &[Range<usize>]) -> io::Result<Option<(usize, String)>> {
    let mut shared = Vec::new();
    for line in maps.split(b'\n') {
        let line = line?;
        if let Some(mapping) = Mapping::read(&String::from_utf8_lossy(&line)).filter(Mapping::is_shared) {
            shared.push((mapping.pages.clone(), mapping.shared_by_others()));
        }
    }
    // The kernel lists mappings in order, and none overlap.
    let of = |range: &Range<usize>| {
        let (pages, why) = shared.get(shared.partition_point(|(pages, _)| pages.end <= range.start))?;
        (!range.is_empty() && pages.start < range.end).then(|| why.clone())
    };
    Ok(ranges.iter().enumerate().find_map(|(index, range)| Some((index, of(range)?))))
}

/// Which parts of `ranges` lie in private memory that is no file's, each with the number of its range.
pub(super) fn anonymous_parts(ranges: &[Range<usize>]) -> io::Result<Vec<(usize, Range<usize>)>> {
    let mut anonymous = Vec::new();
    for line in BufReader::new(File::open("/proc/self/maps")?).split(b'\n') {
        let line = line?;
        let mapping =
            Mapping::read(&String::from_utf8_lossy(&line)).filter(Mapping::is_anonymous).map(|found| found.pages);
        anonymous.extend(mapping);
    }
    let parts = |(index, range): (usize, &Range<usize>)| {
        let first = anonymous.partition_point(|pages| pages.end <= range.start);
        let within = anonymous[first..].iter().take_while(|pages| pages.start < range.end);
        let parts = within.map(|pages| (index, pages.start.max(range.start)..pages.end.min(range.end)));
        parts.collect::<Vec<_>>()
    };
    Ok(ranges.iter().enumerate().filter(|(_, range)| !range.is_empty()).flat_map(parts).collect())
}

/// All that is mapped at one instant, in order: which pages, and what lies there; an error says why changes of it cannot be
/// seen.
pub(super) struct Mappings(Vec<(Range<usize>, Result<Kind, String>)>);

impl Mappings {
    pub(super) fn now() -> Result<Mappings, String> {
        let maps = File::open("/proc/self/maps").map_err(|e| format!("/proc/self/maps: {e}"))?;
        Mappings::read(BufReader::new(maps))
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

    /// What lies in all of `pages`; an error says why changes of it cannot be seen.
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
    fn what_has_a_byte_in_a_shared_mapping_is_found() {
        let first = |ranges: &[Range<usize>]| {
            let found = first_shared_in(MAPS.as_bytes(), ranges).unwrap();
            found.map(|(index, why)| (index, why.contains("/dev/shm/one object"), why.contains("/dev/zero")))
        };
        let own = 0x405000..0x40a000;
        assert_eq!(first(&[own.clone(), 0x7f0000003000..0x7f0000004000, 0x600000..0x700000]), None);
        assert_eq!(first(&[own.clone(), 0x7f0000001fff..0x7f0000002000]), Some((1, true, false)));
        assert_eq!(first(&[0x7f0000002fff..0x7f0000003001, own.clone()]), Some((0, false, true)));
        assert_eq!(first(std::slice::from_ref(&(0x600000..0x7f0000000001))), Some((0, true, false)));
        assert_eq!(first(&[0x7f0000001000..0x7f0000001000, own]), None);
    }
}
