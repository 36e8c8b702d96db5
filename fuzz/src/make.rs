//! Makes the kept inputs: Mainstay saves, and each part of its files becomes an input of the target that reads it.

use crate::{
    image::image,
    patches::draw,
    program::{Memory, config},
    scratch::scratch,
    targets::{pool, space},
};
use mainstay_engine::{
    Capture, Compress, Config, LevelPlace, Session, SpaceSurvey, Stage, fuzzing,
    group::Solo,
    predict::{Moment, Writer, Written},
    tend,
};
use mainstay_format::{
    BLOCK, Catalogue, CheckpointAnswer, Codec, Emptied, Entry, HOLDS, Header, HoldAnswer, HoldAnswers, Item, Lineage,
    Manifest, Slot, hash,
};
use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

type Done = Result<(), Box<dyn std::error::Error>>;

/// The number of kept lists of patches for each file.
const PATCHED: u64 = 8;
/// Tries to stop a job between t2 and t3.
const TRIES: usize = 200;

/// Writes all kept inputs below `folder`. Inputs that did harm before stay.
pub fn make(folder: &Path) -> Done {
    // The record of a rank has its working directory, which must be the same on each machine.
    env::set_current_dir("/")?;
    let keep = |target: &str, name: &str, bytes: &[u8]| {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    of_space(folder, &keep)?;
    of_levels(&keep)?;
    of_pool(folder, &keep)?;
    of_programs(&keep)?;
    of_messages(&keep)?;
    of_files(&keep)
}

/// Keeps an input: its target, its name, and its bytes.
type Keep<'a> = &'a dyn Fn(&str, &str, &[u8]) -> io::Result<()>;

/// The list of patches with this seed.
fn patches(seed: u64) -> Vec<u8> {
    draw(&mut fastrand::Rng::with_seed(seed))
}

/// The only layout of a space.
fn layout_of(space: &Path) -> io::Result<Vec<u8>> {
    let mut paths = fs::read_dir(space)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "mainstay"));
    fs::read(paths.first().ok_or(io::ErrorKind::NotFound)?)
}

/// A space with two revisions, an output, a hold and a request.
fn of_space(folder: &Path, keep: Keep) -> Done {
    let (space, mut memory) = (scratch("made"), Memory::new(20));
    fs::create_dir_all(scratch("made-pools"))?;
    let config = Config { capture: Capture::Incremental, compress: Compress::Zstd, ..config() };
    let mut session = Session::open(Box::new(Solo), &space, config)?;
    memory.protect(&mut session)?;
    session.note("step", "7")?;
    let output = scratch("output");
    fs::write(&output, "a line\n")?;
    session.protect_output(&output)?;
    session.checkpoint()?;
    session.wait()?;
    memory.0[1][5000] ^= 1;
    session.note("step", "8")?;
    session.checkpoint()?;
    session.wait()?;
    session.close()?;
    let key = SpaceSurvey::open(&space)?.newest().ok_or("nothing was saved")?.key;
    tend::hold(&space, key, "a plot", 0, Duration::ZERO)?;
    tend::Request::evacuate(&space, "n1")?;
    let file = layout_of(&space)?;
    fs::write(folder.join(space::IMAGE), image(&file))?;
    for target in ["space", "job"] {
        keep(target, "saved", &[])?;
        (0..PATCHED).try_for_each(|seed| keep(target, &format!("patched-{seed}"), &patches(seed)))?;
    }
    keep_parts(&file, keep)?;
    keep_words(&space, keep)?;
    keep("journal", "one-level", &fs::read(space.join("journal"))?)?;
    Ok(())
}

/// The blocks by which processes talk to a job.
fn keep_words(space: &Path, keep: Keep) -> Done {
    let lock = fs::read(space.join("lock"))?;
    keep("words", "lock-1", first_block_with(&lock, b"MSTYREQU").ok_or("no request")?)?;
    keep("words", "lock-2", first_block_with(&lock, b"MSTYOPEN").ok_or("no opener")?)?;
    let lineage = Lineage { number: 3, id: [4; 16] };
    let emptied = Emptied::Moved { objects: 12, copies: 3, copies_stay: 1 };
    keep("words", "moved", &CheckpointAnswer { ticket: [7; 16], lineage, number: 9, emptied }.build())?;
    let emptied = Emptied::Refused("it is the only node".to_owned());
    keep("words", "refused", &CheckpointAnswer { ticket: [7; 16], lineage, number: 9, emptied }.build())?;
    let list = vec![([1; 16], HoldAnswer::Counts), ([2; 16], HoldAnswer::NoRoom)];
    keep("words", "held", &HoldAnswers { lineage, list }.build())?;
    Ok(())
}

fn first_block_with<'a>(file: &'a [u8], magic: &[u8]) -> Option<&'a [u8]> {
    file.chunks_exact(BLOCK).find(|block| block.starts_with(magic))
}

/// The parts of a layout, each for the target that reads it alone.
fn keep_parts(file: &[u8], keep: Keep) -> Done {
    let block: &[u8; BLOCK] = file.first_chunk().ok_or("no header")?;
    let table = Header::table_bytes(block).map_err(|why| format!("{why:?}"))?;
    keep("header", "saved", &file[..BLOCK + table])?;
    let header = Header::parse(block, &file[BLOCK..][..table]).map_err(|why| format!("{why:?}"))?;
    let holds = &file[header.holds_at as usize..][..(HOLDS + 1) * BLOCK];
    keep("words", "hold", first_block_with(holds, b"MSTYHOLD").ok_or("no hold")?)?;
    let place = header.portions[0];
    let portion = &file[place.at as usize..][..place.bytes as usize];
    let slot = portion[header.slot_stride as usize..].first_chunk::<BLOCK>().ok_or("no slot")?;
    keep("slot", "saved", slot)?;
    let slot = Slot::parse(slot, header.layout_id, 0, place.bytes).map_err(|why| format!("{why:?}"))?;
    let catalogue = &portion[slot.catalogue_at as usize..][..slot.catalogue_bytes as usize];
    keep("catalogue", "saved", catalogue)?;
    let catalogue = Catalogue::parse(catalogue, &hash(catalogue), place.bytes).map_err(|why| format!("{why:?}"))?;
    let mut long = Manifest::default();
    for Entry { number, manifest_at, manifest_bytes, .. } in catalogue.entries {
        let manifest = &portion[manifest_at as usize..][..manifest_bytes as usize];
        keep("manifest", &format!("revision-{number}"), manifest)?;
        let manifest = fuzzing::manifest(manifest, place.bytes).map_err(|why| format!("{why:?}"))?;
        for frame in manifest.frames.iter().take(1) {
            let room = frame.room();
            let stored = &portion[room.first as usize * BLOCK..][..frame.stored_blocks as usize * BLOCK];
            keep("frame", &format!("revision-{number}"), stored)?;
        }
        long = manifest.clone();
        let words = fuzzing::copy_words(&manifest, place.bytes)?;
        keep("contents", &format!("revision-{number}"), &fuzzing::contents_of(manifest))?;
        for (word, bytes) in words.iter().enumerate() {
            keep("copies", &format!("revision-{number}-{word}"), bytes)?;
        }
    }
    // A long manifest is stored compressed.
    let one = Item { bytes: 0, extents: Vec::new(), ..long.items[0].clone() };
    long.items.extend((0..700).map(|number| Item { name: format!("cell {number}"), ..one.clone() }));
    keep("manifest", "packed", &fuzzing::stored_manifest(&long))?;
    let numbers: Vec<u8> = (0..3 * BLOCK).map(|at| (at / 700) as u8).collect();
    keep("frame", "lz4", &fuzzing::stored_frame(Codec::Lz4, &numbers).ok_or("no frame")?)?;
    let long = Memory::new(1).0[0][..2000].iter().flat_map(|byte| [*byte, 0, 0, 0, 0, 0, 0, 0]).collect::<Vec<_>>();
    keep("frame", "zstd", &fuzzing::stored_frame(Codec::Zstd, &long[..3 * BLOCK]).ok_or("no frame")?)?;
    Ok(())
}

/// The files beside the layouts. A space with levels before it has `levels`, `status` and `journal`.
fn of_levels(keep: Keep) -> Done {
    let (space, mut memory) = (scratch("made-levels"), Memory::new(2));
    let disk = scratch("made-disk");
    fs::create_dir_all(&disk)?;
    let config = Config { disk: LevelPlace::At(disk), ..config() };
    let mut session = Session::open(Box::new(Solo), &space, config)?;
    memory.protect(&mut session)?;
    for _ in 0..2 {
        session.checkpoint()?;
        session.wait()?;
    }
    session.close()?;
    for name in ["status", "journal", "levels"] {
        keep(name, "two-levels", &fs::read(space.join(name))?)?;
    }
    keep(
        "levels",
        "gone-back",
        format!("{}back = [[1, 1, 1]]\n", fs::read_to_string(space.join("levels"))?).as_bytes(),
    )?;
    let of_ranks = |ranks| format!("2 {:032x} {ranks}\n", 2);
    keep("salvaged", "two-ranges", [of_ranks("0 3"), of_ranks("5 5")].concat().as_bytes())?;
    keep("settings", "usual", SETTINGS.as_bytes())?;
    let environment = SETTINGS.lines().filter_map(|line| line.split_once(" = "));
    let environment = environment.map(|(key, value)| format!("{}={}\n", key.to_uppercase(), value.trim_matches('"')));
    keep("environment", "usual", environment.collect::<String>().as_bytes())?;
    let mut trace = Vec::new();
    let mut writer = Writer::new(&mut trace);
    for (at_us, moment) in
        [Moment::Iteration, Moment::Tick, Moment::Checkpoint, Moment::Iteration].into_iter().enumerate()
    {
        let stretches = (0..at_us as u64).map(|number| (4096 * number, number + 1)).collect();
        writer.write(&Written { moment, at_us: at_us as u64, resident: 77, stretches })?;
    }
    keep("trace", "four-records", &trace)?;
    Ok(())
}

const SETTINGS: &str = "keep = 3
capture = \"incremental\"
compress = \"lz4\"
pool_bytes = \"64 MiB\"
chunk_bytes = 1048576
every = \"10 min\"
checkpoint_signal = \"SIGUSR1\"

[files]
match = [\"restart*\", \"chk/*.h5\"]
keep = 2
";

/// Stages data as a job that is killed between t2 and t3, and keeps its files in `folder`. Ends the process.
pub fn stage(folder: &Path) -> Done {
    let (space, pools) = (folder.join("space"), folder.join("pools"));
    fs::create_dir_all(&pools)?;
    let mut memory = Memory::new(1);
    let config = Config { stage: Stage::Pool, pool_directory: pools.clone(), ..config() };
    let mut session = Session::open(Box::new(Solo), &space, config)?;
    memory.protect(&mut session)?;
    session.checkpoint()?;
    session.wait()?;
    memory.0[1].fill(5);
    session.checkpoint()?;
    let kept = folder.join("kept");
    fs::create_dir_all(&kept)?;
    for entry in fs::read_dir(pools)? {
        let path = entry?.path();
        let name = pool::IMAGES[usize::from(path.extension().is_some())];
        fs::write(kept.join(name), fs::read(path)?)?;
    }
    fs::write(kept.join(pool::IMAGES[2]), layout_of(&space)?)?;
    // SAFETY: nothing of this process is used any more. Without an unwinding the staged data stays, as after a kill.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(0)
    }
}

fn of_pool(folder: &Path, keep: Keep) -> Done {
    // Mostly a real disk, whose syncs take long enough for the job to stop between t2 and t3.
    let disk = tempfile::TempDir::new_in("/tmp")?;
    for number in 0..TRIES {
        let staged = disk.path().join(number.to_string());
        fs::create_dir_all(&staged)?;
        // The killed process leaves its folder behind.
        Command::new(env::current_exe()?).arg("--stage").arg(&staged).env("TMPDIR", &staged).status()?;
        let files = pool::IMAGES.map(|name| fs::read(staged.join("kept").join(name)).unwrap_or_default());
        if pool::is_staged(&files) {
            for (name, file) in pool::IMAGES.into_iter().zip(&files) {
                fs::write(folder.join(name), image(file))?;
            }
            for which in [0, 1, 2] {
                keep("pool", &format!("staged-{which}"), &[which])?;
                let patched = |seed| [&[which][..], &patches(seed)].concat();
                (0..PATCHED).try_for_each(|seed| keep("pool", &format!("patched-{which}-{seed}"), &patched(seed)))?;
            }
            return Ok(());
        }
    }
    Err("no job was stopped between t2 and t3".into())
}

const PROGRAM: &str =
    "int step = 3, *at = &step; static double field[9]; int main(void) { return *at + (int)field[1]; }\n";

fn of_programs(keep: Keep) -> Done {
    let (source, program) = (scratch("program.c"), scratch("made-program"));
    fs::write(&source, PROGRAM)?;
    let compile = |options: &[&str]| Command::new("cc").args(options).arg(&source).arg("-o").arg(&program).status();
    for (name, options) in [
        ("plain", &["-O1", "-pie", "-fPIE", "-Wl,-z,noseparate-code"][..]),
        ("packed", &["-O1", "-pie", "-fPIE", "-Wl,-z,noseparate-code,-z,pack-relative-relocs", "-Wl,--build-id=none"]),
    ] {
        assert!(compile(options)?.success(), "a compiler of C is needed");
        let bytes = fs::read(&program)?;
        keep("variables", name, &bytes)?;
        if name == "plain" {
            keep("program", name, &bytes)?;
            keep("preloaded", name, &bytes)?;
        }
    }
    let arguments: Vec<OsString> = vec![program.into(), "input".into()];
    keep("rank-job", "two-ranks", &mainstay_ranks::fuzzing::job_of(&arguments)?)?;
    keep("rank-record", "new", &mainstay_ranks::fuzzing::rank_of(&arguments)?)?;
    Ok(())
}

fn of_messages(keep: Keep) -> Done {
    use mainstay_objects::fuzzing;
    keep("failures", "damage", &mainstay_engine::fuzzing::failure_of("the shard is damaged")?)?;
    keep("object-results", "sum", &fuzzing::contributions(&[1.5, f64::INFINITY])?)?;
    keep("object-messages", "three", &fuzzing::messages_of(&[b"one", b"", b"to all"])?)?;
    keep("object-moves", "one", &fuzzing::leaving(b"contents")?)?;
    keep("object-index", "two", &fuzzing::index_of(&["cell", "particle"])?)?;
    let messages = mainstay_ranks::fuzzing::messages_of(b"body");
    let with_length = |message: &Vec<u8>| [&(message.len() as u16).to_le_bytes()[..], message].concat();
    keep("host-messages", "each-kind", &messages.iter().flat_map(with_length).collect::<Vec<_>>())?;
    Ok(())
}

fn of_files(keep: Keep) -> Done {
    let folder = "/tmp\x001\x002\0restart\0";
    for (name, request) in [
        ("write", format!("write\0{folder}tc\0keep=3\njob=a\nset={{}}.*\n\0")),
        ("rename", format!("rename\0{folder}{folder}1\0")),
        ("closed", "closed\x000000000000010001\x001\x000\0".to_owned()),
        ("answer", "ok\x001\0torn\0a remark\0".to_owned()),
    ] {
        keep("file-requests", name, request.as_bytes())?;
    }
    keep("file-records", "led", format!("{folder}2\x003\0keep=3\njob=a\n").as_bytes())?;
    keep("file-records", "holders", b"12 17 18 20 1 2 3")?;
    let (path, file) = (scratch("made-hashes"), scratch("made-restart"));
    fs::write(&file, [7; crate::targets::FILE_BYTES])?;
    mainstay_files::fuzzing::write_manifest(&path, &File::open(file)?)?;
    keep("file-manifest", "three-blocks", &fs::read(path)?)?;
    Ok(())
}
