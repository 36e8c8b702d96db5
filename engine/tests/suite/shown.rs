//! This engine reads and writes the small space that docs/format.md shows field by field: its fields are at the offsets
//! in the tables of that page. `WRITE_SHOWN=1` writes it anew.

use mainstay_engine::{Config, Region, Session, Stage, group::Solo, space::format::ElementType};
use std::{collections::BTreeMap, env, fmt::Write, fs, ops::Range, os::unix::fs::PermissionsExt, path::Path};
use tempfile::TempDir;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format.md");
const TITLE: &str = "## A small space, field by field";
const STEP: u64 = 0x0102_0304_0506_0708;

/// These fields differ in each new space: random values, times, durations, and hashes of them.
const OTHERS: [&str; 10] = [" id", "hash", "when", "t1", "t2", "t3", "phase 3", "nanoseconds", "waiting", "copying"];

/// One field that is not zero.
#[derive(Debug, Clone, PartialEq)]
struct Field {
    at: usize,
    bytes: Vec<u8>,
    name: String,
}

/// The tables of the page, by section and subject: rows of offset, length and name.
type Tables = BTreeMap<String, Vec<(usize, usize, String)>>;

fn tables(page: &str) -> Tables {
    let (mut tables, mut section, mut of) = (Tables::new(), "", String::new());
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.split([',', ':']).next().unwrap();
        }
        let cells: Vec<_> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        match cells[..] {
            ["offset", "bytes", title] => of = format!("{section}{}", title.strip_prefix("field").unwrap()),
            [at, bytes, ref text @ ..] if !text.is_empty() => {
                if let (Ok(at), Ok(bytes)) = (at.parse(), bytes.parse()) {
                    // "R: runs" is the name of a count.
                    let from = text[0].find(": ").filter(|at| *at == 1).map_or(0, |at| at + 2);
                    let end = text[0][from..].find([':', ';', ',', '(']).map_or(text[0].len(), |end| from + end);
                    let name = text[0][..end].trim().to_owned();
                    tables.entry(of.clone()).or_default().push((at, bytes, name));
                }
            }
            _ => {}
        }
    }
    tables
}

/// A layout file, and the fields that were found so far.
struct Reading<'a> {
    tables: &'a Tables,
    image: &'a [u8],
    shown: Vec<(String, Vec<Field>)>,
}

impl Reading<'_> {
    fn number(&self, at: usize, bytes: usize) -> usize {
        self.image[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    }

    fn group(&mut self, title: impl Into<String>) {
        self.shown.push((title.into(), Vec::new()));
    }

    fn field(&mut self, at: usize, bytes: usize, name: impl Into<String>) {
        let (name, number) = (name.into(), if bytes <= 8 { self.number(at, bytes) } else { 0 });
        let bytes = self.image[at..at + bytes].to_vec();
        if bytes.iter().all(|byte| *byte == 0) {
            return;
        }
        let name =
            match std::str::from_utf8(&bytes).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic())) {
                Some(text) if !name.starts_with('`') => format!("{name}: {text:?}"),
                None if number > 0 => format!("{name}: {number}"),
                _ => name,
            };
        self.shown.last_mut().unwrap().1.push(Field { at, bytes, name });
    }

    /// The fields of a record at `at`, from the table.
    fn table(&mut self, of: &str, at: usize) {
        let rows = self.tables.get(of).unwrap_or_else(|| panic!("no table {of:?} in {:?}", self.tables.keys()));
        for (offset, bytes, name) in rows {
            self.field(at + offset, *bytes, name);
        }
    }

    fn layout(&mut self) {
        self.group("the header");
        self.table("The header", 0);
        self.group("the portion table");
        self.table("The header of a portion", 4096);
        let (portion, stride) = (self.number(4096 + 8, 8), self.number(72, 8));
        let slots = [0, 1].map(|index| portion + index * stride);
        for (index, at) in slots.into_iter().enumerate() {
            self.group(format!("slot {index}"));
            self.table("A slot", at);
        }
        let catalogues = slots.map(|slot| portion + self.number(slot + 72, 8));
        for (index, catalogue) in catalogues.into_iter().enumerate() {
            self.group(format!("the catalogue of slot {index}"));
            self.field(catalogue, 8, "`MSTYCATL`");
            self.field(catalogue + 8, 4, "version");
            self.field(catalogue + 12, 4, "entries");
            self.table("A catalogue", catalogue + 16);
        }
        self.manifest(portion, portion + self.number(catalogues[0] + 16 + 56, 8));
    }

    fn manifest(&mut self, portion: usize, manifest: usize) {
        self.group("the manifest");
        self.table("A manifest of the head", manifest);
        let [runs, items, extents, numbers, names] = [16, 24, 32, 40, 48].map(|at| self.number(manifest + at, 8));
        let notes = self.number(manifest + 56, 4);
        assert_eq!((runs, items, notes, self.number(manifest + 60, 4)), (1, 1, 1, 0));
        let run = manifest + 64;
        for (offset, bytes, name) in
            [(0, 8, "first block"), (8, 8, "blocks"), (16, 8, "offset of the run's row"), (32, 16, "hash of that row")]
        {
            self.field(run + offset, bytes, name);
        }
        self.table("A manifest of an item", run + 48);
        let extent = run + 48 + 56;
        self.field(extent, 8, "offset of the extent in the portion");
        self.field(extent + 8, 8, "bytes of the extent");
        let mut at = extent + 16 * extents;
        self.field(at, 8 * numbers, "its shape");
        at += 8 * numbers;
        self.field(at, names, "names");
        at += names;
        let texts = [0, 4].map(|offset| self.number(at + offset, if offset == 0 { 2 } else { 4 }));
        self.field(at, 2, "bytes of the note's name");
        self.field(at + 4, 4, "bytes of its value");
        self.field(at + 8, texts[0], "name of the note");
        self.field(at + 8 + texts[0], texts[1], "value of the note");
        let profile = at + 8 + texts[0] + texts[1];
        for (offset, bytes, name) in self.tables["A manifest of the profile"].clone() {
            match bytes {
                240 => (0..30).for_each(|index| {
                    let what = ["how many", "their bytes", "nanoseconds that they took"][index % 3];
                    let text = format!("{name} of class {}: {what}", index / 3);
                    self.field(profile + offset + 8 * index, 8, text);
                }),
                _ => self.field(profile + offset, bytes, name),
            }
        }
        self.group("the item's bytes, and the row of the hash of their block");
        self.field(portion + self.number(extent, 8), self.number(extent + 8, 8), "the item's bytes");
        self.field(portion + self.number(run + 16, 8), 16, "hash of the first block of the run");
    }
}

/// The field as the page shows it: its offset, its bytes, its name, and its value if it is a number.
fn line(field: &Field) -> String {
    let mut text = String::new();
    for (index, bytes) in field.bytes.chunks(16).enumerate() {
        let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = if index == 0 { &*field.name } else { "" };
        let row = format!("{:08x}  {:<47}  {name}", field.at + 16 * index, hex.join(" "));
        writeln!(text, "{}", row.trim_end()).unwrap();
    }
    text
}

/// The opposite of `line`, for many lines.
fn parsed(block: &str) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for row in block
        .lines()
        .filter(|row| row.starts_with(|digit: char| digit.is_ascii_hexdigit()) && row.get(8..10) == Some("  "))
    {
        let at = usize::from_str_radix(&row[..8], 16).unwrap();
        let hex = row[10..].get(..47).unwrap_or(&row[10..]);
        let bytes: Vec<u8> = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let name = row.get(59..).unwrap_or_default().to_owned();
        match fields.last_mut().filter(|_| name.is_empty()) {
            Some(field) => field.bytes.extend(bytes),
            None => fields.push(Field { at, bytes, name }),
        }
    }
    fields
}

fn protect(session: &mut Session, step: &mut [u64; 1]) {
    // SAFETY: it lives until the session is closed.
    #[allow(unsafe_code)]
    let region = unsafe { Region::array("step", step.as_mut_ptr().cast(), ElementType::U64, &[1]) };
    session.protect(region.unwrap()).unwrap();
}

fn config() -> Config {
    Config { stage: Stage::Direct, portion_bytes: 1 << 20, ..Config::default() }
}

/// The only layout file of `space`: its name and bytes.
fn layout_of(space: &Path) -> (String, Vec<u8>) {
    let names = fs::read_dir(space).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.into_iter().find(|name| name.starts_with("layout-")).unwrap();
    let image = fs::read(space.join(&name)).unwrap();
    (name, image)
}

fn section(page: &str) -> Range<usize> {
    let from = page.find(TITLE).expect("no such section");
    let end = page[from + TITLE.len()..].find("\n## ").map_or(page.len(), |end| from + TITLE.len() + end + 1);
    from..end
}

#[test]
fn the_space_that_the_page_shows_is_read_and_written_so() {
    let page = fs::read_to_string(PAGE).unwrap();
    let tables = tables(&page);
    let made = TempDir::new().unwrap();
    let mut step = [STEP];
    let mut session = Session::open(Box::new(Solo), made.path(), config()).unwrap();
    protect(&mut session, &mut step);
    session.note("case", "small").unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
    let (name, image) = layout_of(made.path());
    let mut reading = Reading { tables: &tables, image: &image, shown: Vec::new() };
    reading.layout();

    let mut block = format!("{name}, {} bytes; all else is zero\n", image.len());
    for (title, fields) in &reading.shown {
        write!(block, "\n{title}\n{}", fields.iter().map(line).collect::<String>()).unwrap();
    }
    let written = page[section(&page)].to_owned();
    let (_, shown) = written.split_once("```\n").unwrap();
    let (shown, rest) = shown.split_once("```\n").unwrap();
    if env::var_os("WRITE_SHOWN").is_some() {
        let anew = written.replace(&format!("```\n{shown}```\n{rest}"), &format!("```\n{block}```\n{rest}"));
        return fs::write(PAGE, page.replace(&written, &anew)).unwrap();
    }

    // This engine writes the same fields in the same places, with the same bytes except for random values.
    let mine = parsed(&block);
    let all: Vec<Field> = reading.shown.iter().flat_map(|(_, fields)| fields.clone()).collect();
    assert_eq!(mine, all, "a line is not read as it was written");
    let page_has = parsed(shown);
    let is_same = |field: &&Field| !OTHERS.iter().any(|other| field.name.contains(other));
    let (mut mine, mut on_page) = (mine.iter().filter(is_same), page_has.iter().filter(is_same));
    while let (Some(line), other) | (None, other @ Some(line)) = (mine.next(), on_page.next()) {
        let anew = "docs/format.md shows another space than this engine writes: WRITE_SHOWN=1 writes it anew";
        assert_eq!(Some(line), other, "{anew}");
    }
    // No byte of the file is left out.
    let mut left = image.clone();
    all.iter().for_each(|field| left[field.at..field.at + field.bytes.len()].fill(0));
    assert_eq!(left.iter().position(|byte| *byte != 0).map(|at| format!("{at:08x} is in no table")), None);

    // This engine reads it: every hash matches, and the saved data comes back.
    let (name, bytes) = shown.split_once(", ").unwrap();
    let mut image = vec![0; bytes.split(' ').next().unwrap().parse().unwrap()];
    page_has.iter().for_each(|field| image[field.at..field.at + field.bytes.len()].copy_from_slice(&field.bytes));
    let space = TempDir::new().unwrap();
    fs::write(space.path().join(name), image).unwrap();
    fs::set_permissions(space.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
    let mut session = Session::open(Box::new(Solo), space.path(), config()).unwrap();
    let mut back = [0];
    protect(&mut session, &mut back);
    let restored = session.restore().unwrap().unwrap();
    session.close().unwrap();
    assert_eq!((restored.revision, restored.skipped.len(), back), (1, 0, [STEP]));
    assert_eq!(restored.notes["case"], "small");
}
