//! Settings: the file, the environment, their order, and the messages about wrong ones.

use mainstay_engine::{
    Capture, Choice, Compress, Config, DiskLost, ErrorKind, Exchange, KEYS, LevelPlace, MemoryAfter, PoolHeld,
    Predictor, Recovery, Resolved, Result, Session, Source, Stage, Stagger, Start, Surroundings, Track, Value,
    WhenBusy,
    device::Allocate,
    group::{Group, ThreadGroup},
    space::Per,
};
use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A working directory, and an environment.
struct Place {
    folder: TempDir,
    surroundings: Surroundings,
}

impl Place {
    fn new() -> Place {
        let folder = TempDir::new().unwrap();
        let surroundings = Surroundings { directory: folder.path().to_owned(), ..Surroundings::default() };
        Place { folder, surroundings }
    }

    fn with_file(text: impl AsRef<[u8]>) -> Place {
        let place = Place::new();
        fs::write(place.file(), text).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("mainstay.toml")
    }

    fn set(mut self, variable: &str, value: impl Into<OsString>) -> Place {
        self.surroundings.variables.insert(variable.to_owned(), value.into());
        self
    }

    fn resolve(&self, choice: &Choice) -> Result<Resolved> {
        Config::resolve_in(choice, &self.surroundings)
    }

    fn config(&self) -> Config {
        self.resolve(&Choice::default()).unwrap_or_else(|e| panic!("{e}")).config
    }

    /// The message, which contains all of `says`; {file} stands for the file's path.
    #[track_caller]
    fn refuses(&self, says: &[&str]) -> String {
        let error = self.resolve(&Choice::default()).err().expect("it was taken");
        let message = error.to_string();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{message}");
        for says in says {
            let says = says.replace("{file}", self.file().to_str().unwrap());
            assert!(message.contains(&says), "{says:?} is not in {message:?}");
        }
        assert!(message.len() < 1000, "{} bytes of message", message.len());
        message
    }
}

#[test]
fn a_table_of_another_part_is_left_to_that_part() {
    let place = Place::with_file("keep = 3\n[files]\nmatch = ['a*', 'b']\nkeep = 0x10\nstage = '/dev/shm/x'\n");
    assert_eq!(place.config().keep, 3);
    let lines = place.surroundings.table("files").unwrap();
    let lines: Vec<_> = lines.iter().map(|line| (&*line.key, line.values.join(" "), &*line.place)).collect();
    let at = |key: &str, line: usize| format!("{key} in {}, line {line}", place.file().display());
    let places = [at("match", 3), at("keep", 4), at("stage", 5)];
    let expected = [("match", "a* b"), ("keep", "16"), ("stage", "/dev/shm/x")];
    let expected = expected.iter().zip(&places).map(|((key, value), place)| (*key, (*value).to_owned(), &**place));
    assert_eq!(lines, expected.collect::<Vec<_>>());
    assert_eq!(Place::new().surroundings.table("files").unwrap(), []);
    for wrong in ["[files]\nkeep = 1.5", "[files]\nkeep = true", "files.keep.x = 1", "[files]\nmatch = [['a']]"] {
        let error = Place::with_file(wrong).surroundings.table("files").unwrap_err();
        assert!(error.to_string().contains("it takes a text, a number, or a list of texts"), "{error}");
    }
    assert!(Place::with_file("[file]\nkeep = 1").surroundings.table("files").is_err());
    Place::with_file("files = 3").refuses(&["files in {file}, line 1", "no such setting"]);
}

#[test]
fn nothing_given_means_defaults() {
    let resolved = Place::new().resolve(&Choice::default()).unwrap();
    assert_eq!(resolved.config, Config::default());
    assert!(resolved.settings.iter().all(|setting| setting.source == Source::Default));
    let names: Vec<_> = resolved.settings.iter().map(|setting| setting.key.name).collect();
    assert_eq!(names, KEYS.iter().map(|key| key.name).collect::<Vec<_>>());
}

#[test]
fn a_file_sets_every_key() {
    let text = r#"
        keep = 3
        capture = "incremental-snapshot"
        compress = "zstd"
        track = "hashes"
        audit = 3
        predictor = "phase"
        infrequent_seconds = "20 ms"
        stagger = "off"
        oracle = "/traced"
        snapshot_bytes = "16 MiB"
        stage = "direct"
        pool_bytes = "1 GiB"        # sizes and times may have units
        chunk_bytes = 1048576
        pool_held = "checkpoint"
        small_bytes = 0
        threshold_bytes = "256 KiB"
        buffer_bytes = "1 MiB"
        flush_seconds = "50 ms"
        io_threads = 4
        portion_bytes = 0x40000000
        shard_bytes = "20 MiB"
        per = "node"
        allocate = "sparse"
        stripe_count = 4
        stripe_bytes = "1 MiB"
        pool_directory = "/tmp"
        memory = "auto"
        memory_keep = 2
        memory_copies = 3
        memory_after = "kept"
        disk = "/scratch"
        disk_every = 3
        disk_keep = 4
        disk_copies = 2
        disk_lost = "accepted"
        exchange = "blocking"
        pfs_every = 0
        start = "fresh"
        recovery = "replace"
        spares = 2
        every_steps = 1_000
        every_seconds = "10 min"
        mtbf_seconds = 86400
        agree_seconds = 0.5
        when_busy = "now"
        checkpoint_signal = "USR1"
        trace = "/tmp/traces"
        tick_seconds = "10 ms"
    "#;
    let place = Place::with_file(text);
    let resolved = place.resolve(&Choice::default()).unwrap();
    let config = &resolved.config;
    assert_eq!((config.keep, config.stage, config.io_threads), (3, Stage::Direct, 4));
    assert_eq!((config.pool_bytes, config.chunk_bytes, config.portion_bytes), (Some(1 << 30), Some(1 << 20), 1 << 30));
    assert_eq!((config.pool_held, config.small_bytes), (PoolHeld::Checkpoint, 0));
    assert_eq!((config.threshold_bytes, config.buffer_bytes), (Some(256 << 10), 1 << 20));
    assert_eq!(config.flush_every, Duration::from_millis(50));
    assert_eq!((config.shard_bytes, config.per, config.allocate), (20 << 20, Per::Node, Allocate::Sparse));
    assert_eq!((config.stripe_count, config.stripe_bytes), (4, 1 << 20));
    assert_eq!((config.pool_directory.to_str(), config.every_steps), (Some("/tmp"), 1000));
    assert_eq!((config.every, config.mtbf), (Duration::from_secs(600), Duration::from_secs(86_400)));
    assert_eq!((config.capture, config.track, config.audit), (Capture::IncrementalSnapshot, Track::Hashes, 3));
    assert_eq!((config.compress, config.predictor, config.stagger), (Compress::Zstd, Predictor::Phase, Stagger::Off));
    assert_eq!((config.when_busy, config.infrequent_after), (WhenBusy::Now, Duration::from_millis(20)));
    assert_eq!(config.oracle.as_deref(), Some(Path::new("/traced")));
    assert_eq!(config.snapshot_bytes, Some(16 << 20));
    assert_eq!((config.start, config.recovery, config.spares), (Start::Fresh, Recovery::Replace, 2));
    assert_eq!((&config.memory, &config.disk), (&LevelPlace::Auto, &LevelPlace::At("/scratch".into())));
    assert_eq!((config.memory_keep, config.memory_after), (2, MemoryAfter::Kept));
    assert_eq!((config.disk_every, config.disk_keep, config.pfs_every), (3, 4, 0));
    assert_eq!((config.memory_copies, config.disk_copies, config.exchange), (3, 2, Exchange::Blocking));
    assert_eq!(config.disk_lost, DiskLost::Accepted);
    assert_eq!(config.agree_every, Duration::from_millis(500));
    assert_eq!(config.checkpoint_signal.map(|signal| signal.name()), Some("USR1"));
    assert_eq!(config.trace.as_deref(), Some(Path::new("/tmp/traces")));
    assert_eq!(config.tick_every, Duration::from_millis(10));
    for (at, setting) in resolved.settings.iter().enumerate() {
        assert_eq!(setting.source, Source::File { path: place.file(), line: at + 2 }, "{}", setting.key.name);
    }
}

#[test]
fn the_program_goes_before_the_environment_that_before_the_file_that_before_the_default() {
    let place = Place::with_file("keep = 2\nio_threads = 2\nevery_steps = 2\n")
        .set("MAINSTAY_KEEP", "3")
        .set("MAINSTAY_IO_THREADS", "3")
        .set("MAINSTAY_EVERY_STEPS", "");
    let resolved = place.resolve(&Choice { keep: Some(4), ..Choice::default() }).unwrap();
    let config = &resolved.config;
    assert_eq!((config.keep, config.io_threads, config.every_steps, config.chunk_bytes), (4, 3, 2, None));
    let source = |name| resolved.settings.iter().find(|setting| setting.key.name == name).unwrap().source.to_string();
    assert_eq!(source("keep"), "program");
    assert_eq!(source("io_threads"), "MAINSTAY_IO_THREADS");
    assert_eq!(source("every_steps"), format!("{}, line 3", place.file().display()));
    assert_eq!(source("chunk_bytes"), "default");
}

#[test]
fn a_program_can_set_what_is_the_default_anyway() {
    let place = Place::with_file(
        "stage = 'direct'\nchunk_bytes = 65536\nthreshold_bytes = 65536\ncheckpoint_signal = 'USR1'\n",
    );
    let choice = Choice {
        stage: Some(Stage::Pool),
        chunk_bytes: Some(None),
        threshold_bytes: Some(None),
        checkpoint_signal: Some(None),
        ..Choice::default()
    };
    assert_eq!(place.resolve(&choice).unwrap().config, Config::default());
}

#[test]
fn a_file_may_lie_elsewhere() {
    let elsewhere = TempDir::new().unwrap();
    let named = elsewhere.path().join("settings");
    fs::write(&named, "keep = 5").unwrap();
    let place = Place::with_file("keep = 2").set("MAINSTAY_CONFIG", &named);
    assert_eq!(place.config().keep, 5);
    fs::write(place.folder.path().join("other.toml"), "keep = 6").unwrap();
    assert_eq!(place.set("MAINSTAY_CONFIG", "other.toml").config().keep, 6);
    // An empty variable counts as unset.
    assert_eq!(Place::with_file("keep = 2").set("MAINSTAY_CONFIG", "").config().keep, 2);
}

#[test]
fn the_environment_takes_what_the_file_takes() {
    let place = Place::new()
        .set("MAINSTAY_POOL_BYTES", "1 GiB")
        .set("MAINSTAY_STAGE", "node")
        .set("MAINSTAY_POOL_HELD", "checkpoint")
        .set("MAINSTAY_CHUNK_BYTES", " auto ")
        .set("MAINSTAY_THRESHOLD_BYTES", " auto ")
        .set("MAINSTAY_BUFFER_BYTES", "8192")
        .set("MAINSTAY_FLUSH_SECONDS", "0.25")
        .set("MAINSTAY_EVERY_SECONDS", "1h 30m")
        .set("MAINSTAY_AGREE_SECONDS", "0.25")
        .set("MAINSTAY_CHECKPOINT_SIGNAL", "SIGUSR2")
        .set("MAINSTAY_POOL_DIRECTORY", OsString::from_vec(b"/tmp/\xff".to_vec()));
    let config = place.config();
    assert_eq!((config.pool_bytes, config.stage), (Some(1 << 30), Stage::Node));
    assert_eq!((config.pool_held, config.chunk_bytes, config.threshold_bytes), (PoolHeld::Checkpoint, None, None));
    assert_eq!((config.buffer_bytes, config.flush_every), (8192, Duration::from_millis(250)));
    assert_eq!((config.every, config.agree_every), (Duration::from_secs(5400), Duration::from_millis(250)));
    assert_eq!(config.checkpoint_signal.map(|signal| signal.name()), Some("USR2"));
    assert_eq!(config.pool_directory.into_os_string().into_vec(), b"/tmp/\xff");
}

#[test]
fn wrong_variables_are_named() {
    let wrong = [
        ("MAINSTAY_KEEP", "three", "\"three\" is no whole number, it takes 1 to 1000"),
        ("MAINSTAY_KEEP", "1001", "1001 is out of range, it takes 1 to 1000"),
        ("MAINSTAY_KEEP", "0", "0 is out of range"),
        ("MAINSTAY_MEMORY_COPIES", "5", "5 is out of range, it takes 1 to 4"),
        ("MAINSTAY_MEMORY_COPIES", "0", "0 is out of range"),
        ("MAINSTAY_DISK_COPIES", "5", "5 is out of range, it takes 1 to 4"),
        ("MAINSTAY_DISK_COPIES", "0", "0 is out of range"),
        ("MAINSTAY_DISK_LOST", "ignored", "it takes refused or accepted"),
        ("MAINSTAY_EXCHANGE", "later", "it takes background or blocking"),
        ("MAINSTAY_CAPTURE", "all", "it takes whole, incremental, snapshot or incremental-snapshot"),
        ("MAINSTAY_TRACK", "hash", "it takes auto, pages or hashes"),
        ("MAINSTAY_DISK", "local", "local is out of range, it takes off or a full path, as /local/run"),
        ("MAINSTAY_MEMORY", "local", "local is out of range, it takes off, auto or a full path, as /local/run"),
        ("MAINSTAY_AUDIT", "-1", "-1 is out of range, it takes 0 or more"),
        ("MAINSTAY_RECOVERY", "on", "it takes off, replace or shrink"),
        ("MAINSTAY_SPARES", "-1", "-1 is out of range, it takes 0 or more"),
        ("MAINSTAY_KEEP", "-1", "-1 is out of range"),
        ("MAINSTAY_STAGE", "Pool", "it takes pool, node, rank or direct"),
        ("MAINSTAY_CHUNK_BYTES", "6000", "6000 is out of range, it takes auto, or multiples of 4 KiB"),
        ("MAINSTAY_CHUNK_BYTES", "0", "0 is out of range"),
        ("MAINSTAY_CHUNK_BYTES", "Auto", "\"Auto\" is no size, it takes auto, or"),
        ("MAINSTAY_POOL_BYTES", "64 MeB", "no size"),
        ("MAINSTAY_POOL_HELD", "never", "it takes always or checkpoint"),
        ("MAINSTAY_SMALL_BYTES", "65537", "65537 is out of range, it takes 0 to 64 KiB"),
        ("MAINSTAY_SMALL_BYTES", "auto", "no size"),
        ("MAINSTAY_THRESHOLD_BYTES", "4095", "4095 is out of range, it takes auto, or 4 KiB to 1 GiB"),
        ("MAINSTAY_THRESHOLD_BYTES", "0", "0 is out of range"),
        ("MAINSTAY_THRESHOLD_BYTES", "1073741825", "1073741825 is out of range"),
        ("MAINSTAY_THRESHOLD_BYTES", "automatic", "\"automatic\" is no size, it takes auto, or"),
        ("MAINSTAY_BUFFER_BYTES", "6000", "6000 is out of range, it takes multiples of 4 KiB"),
        ("MAINSTAY_BUFFER_BYTES", "2 GiB", "2 GiB is out of range"),
        ("MAINSTAY_BUFFER_BYTES", "0", "0 is out of range"),
        ("MAINSTAY_FLUSH_SECONDS", "0", "0 is out of range, it takes 0.001 to 60"),
        ("MAINSTAY_FLUSH_SECONDS", "61", "61 is out of range"),
        ("MAINSTAY_FLUSH_SECONDS", "soon", "no time"),
        ("MAINSTAY_POOL_BYTES", "99999999 EiB", "out of range"),
        ("MAINSTAY_IO_THREADS", "65", "0 to 64"),
        ("MAINSTAY_PORTION_BYTES", "1", "1 MiB and more"),
        ("MAINSTAY_EVERY_STEPS", "1.5", "no whole number"),
        ("MAINSTAY_EVERY_SECONDS", "10 fortnights", "no time"),
        ("MAINSTAY_EVERY_SECONDS", "0.0001", "0.0001 is out of range"),
        ("MAINSTAY_MTBF_SECONDS", "inf", "out of range"),
        ("MAINSTAY_AGREE_SECONDS", "3601", "0 to 3600"),
        ("MAINSTAY_CHECKPOINT_SIGNAL", "KILL", "\"KILL\" cannot be caught, it takes the name of a signal"),
        ("MAINSTAY_CHECKPOINT_SIGNAL", "SEGV", "fault of the program"),
    ];
    for (variable, value, says) in wrong {
        let message = Place::new().set(variable, value).refuses(&[says]);
        assert!(message.starts_with(&format!("{variable}: ")), "{message}");
    }
    Place::new().set("MAINSTAY_KEEP", OsString::from_vec(vec![0xff])).refuses(&["MAINSTAY_KEEP: ", "no whole number"]);
    Place::new().set("MAINSTAY_STAGE", "x".repeat(100_000)).refuses(&["MAINSTAY_STAGE"]);
}

#[test]
fn a_wrong_value_is_told_also_where_another_place_goes_before() {
    let place = Place::with_file("\nkeep = 0").set("MAINSTAY_KEEP", "3");
    place.refuses(&["keep in {file}, line 2: 0 is out of range"]);
    let choice = Choice { keep: Some(3), ..Choice::default() };
    assert!(Place::new().set("MAINSTAY_KEEP", "0").resolve(&choice).is_err());
}

#[test]
fn what_a_program_sets_wrongly_is_told_by_the_key() {
    let choice = Choice { keep: Some(0), ..Choice::default() };
    let message = Place::new().resolve(&choice).err().unwrap().to_string();
    assert_eq!(message, "keep: 0 is out of range, it takes 1 to 1000");
    let mut choice = Choice::default();
    let message = choice.set("kep", Value::Integer(3)).unwrap_err().to_string();
    assert_eq!(message, "kep: there is no such setting; did you mean keep?");
    let message = choice.set("every_seconds", Value::Float(f64::NAN)).unwrap_err().to_string();
    assert!(message.starts_with("every_seconds: NaN is out of range, it takes 0, or"), "{message}");
    choice.set("every_seconds", Value::Float(2.5)).unwrap();
    assert_eq!(choice, Choice { every: Some(Duration::from_millis(2500)), ..Choice::default() });
}

#[test]
fn wrong_lines_of_a_file_are_named() {
    let wrong = [
        ("keep = 3\nkep = 3", "kep in {file}, line 2", "did you mean keep?"),
        ("\n\npool_size = 3", "pool_size in {file}, line 3", "did you mean pool_bytes?"),
        ("zzz = 1", "zzz in {file}, line 1", "`mainstay config` lists all"),
        ("'' = 1", " in {file}, line 1", "no such setting"),
        ("\"a\\nb\" = 1", "a\\nb in {file}, line 1", "no such setting"),
        ("keep = 3\n# more\nkeep = 4", "keep in {file}, line 3", "a second time"),
        ("keep = '3'", "keep in {file}, line 1", "\"3\" is no whole number, it takes 1 to 1000"),
        ("keep = 3.0", "keep in {file}, line 1", "3.0 is no whole number"),
        ("keep = true", "keep in {file}, line 1", "true is no whole number"),
        ("keep = [3]", "keep in {file}, line 1", "a list is no whole number"),
        ("keep = 1979-05-27", "keep in {file}, line 1", "a date or time of day is no whole number"),
        ("[keep]\nvalue = 3", "keep in {file}, line 1", "a table is no whole number"),
        ("keep.value = 3", "keep in {file}, line 1", "a table is no whole number"),
        ("keep = {value = 3}", "keep in {file}, line 1", "a table is no whole number"),
        (
            "[session]\nkeep = 3",
            "session in {file}, line 1",
            "no such setting, but a table; settings belong to no table; did you mean keep? Write keep = … before any [table]",
        ),
        ("[pool]\nbytes = 3", "pool in {file}, line 1", "Write pool_bytes = …"),
        (
            "[memory]\ncopies = 3",
            "memory in {file}, line 1",
            "a table; settings belong to no table; did you mean memory_copies? Write memory_copies = …",
        ),
        ("[levels.disk]\nkeep = 3", "levels in {file}, line 1", "Write disk_keep = …"),
        ("[tool]\nx = 3", "tool in {file}, line 1", "settings belong to no table; `mainstay config` lists all"),
        ("pool = '1 GiB'", "pool in {file}, line 1", "did you mean pool_bytes?"),
        ("mtbf = '1 h'", "mtbf in {file}, line 1", "did you mean mtbf_seconds?"),
        ("[[stage]]\n", "stage in {file}, line 1", "it takes pool, node, rank or direct"),
        ("keep = 1001", "keep in {file}, line 1", "1001 is out of range"),
        ("keep = 99999999999999999999999999999999999999999", "keep in {file}, line 1", "no whole number"),
        ("keep = 9999999999999999999999", "keep in {file}, line 1", "out of range"),
        ("every_seconds = nan", "every_seconds in {file}, line 1", "out of range"),
        ("every_seconds = -inf", "every_seconds in {file}, line 1", "out of range"),
        ("every_seconds = 1e-9", "every_seconds in {file}, line 1", "out of range"),
        ("every_seconds = true", "every_seconds in {file}, line 1", "true is no time"),
        ("pool_bytes = '64 MeB'", "pool_bytes in {file}, line 1", "no size"),
        ("pool_bytes = 4096.0", "pool_bytes in {file}, line 1", "no size"),
        ("pool_directory = ''", "pool_directory in {file}, line 1", "it takes a directory"),
        ("pool_directory = \"a\\u0000b\"", "pool_directory in {file}, line 1", "it takes a directory"),
        ("pool_directory = 3", "pool_directory in {file}, line 1", "3 is no path"),
        ("checkpoint_signal = 'STOP'", "checkpoint_signal in {file}, line 1", "cannot be caught"),
        ("checkpoint_signal = 10", "checkpoint_signal in {file}, line 1", "10 is no signal"),
        ("keep = 3\nstage = pool", "{file}, line 2", "no TOML"),
        ("keep = 3\nkeep", "{file}, line 2", "no TOML"),
        ("\n<xml/>", "{file}, line 2", "no TOML"),
        ("keep = \"3", "{file}, line 1", "no TOML"),
    ];
    for (text, place, why) in wrong {
        Place::with_file(text).refuses(&[place, why]);
    }
    let deep = "a = ".to_owned() + &"[".repeat(500_000);
    Place::with_file(deep).refuses(&["{file}, line 1"]);
    Place::with_file("k".repeat(500_000) + " = 1").refuses(&["{file}, line 1", "no such setting"]);
    Place::with_file(b"keep = 3\n# \xff\n").refuses(&["{file}, line 2: a byte that is not UTF-8"]);
    // The first error in the file is reported first.
    Place::with_file("zeta = 1\nalpha = 1").refuses(&["zeta in {file}, line 1"]);
}

#[test]
fn a_pool_smaller_than_two_chunks_names_both() {
    Place::with_file("chunk_bytes = '64 MiB'\npool_bytes = '64 MiB'")
        .refuses(&["pool_bytes in {file}, line 2, with chunk_bytes in {file}, line 1", "(128 MiB)"]);
    let place = Place::with_file("\nchunk_bytes = '64 MiB'").set("MAINSTAY_POOL_BYTES", "100 MiB");
    place.refuses(&["MAINSTAY_POOL_BYTES, with chunk_bytes in {file}, line 2: 100 MiB is out of range, it takes two"]);
    // An unset pool suits the chunks, and unset chunks suit the pool.
    assert_eq!(Place::with_file("chunk_bytes = '64 MiB'").config().pool_bytes, None);
    assert_eq!(Place::with_file("pool_bytes = 8192").config().pool_bytes, Some(8192));
}

#[test]
fn what_is_no_readable_file_is_refused() {
    let place = Place::new();
    fs::create_dir(place.file()).unwrap();
    place.refuses(&["{file}: ", "not a regular file"]);

    let place = Place::new();
    nix::unistd::mkfifo(&place.file(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    place.refuses(&["{file}: ", "not a regular file"]);

    let place = Place::new();
    symlink("/dev/zero", place.file()).unwrap();
    place.refuses(&["{file}: ", "not a regular file"]);

    let place = Place::new();
    symlink("nowhere", place.file()).unwrap();
    place.refuses(&["{file}: ", "cannot be read", "No such file"]);

    Place::with_file("#".repeat((1 << 20) + 1)).refuses(&["{file}: ", "larger than 1 MiB"]);
    assert_eq!(Place::with_file("#".repeat(1 << 20)).config(), Config::default());
    assert_eq!(Place::with_file("").config(), Config::default());
    assert_eq!(Place::with_file("\u{feff}keep = 2\r\n").config().keep, 2);

    // A file that is named must exist. Another file in the default place does not matter.
    let missing = Place::with_file("keep = 0").set("MAINSTAY_CONFIG", "missing.toml");
    missing.refuses(&["missing.toml: ", "cannot be read", "No such file"]);
    Place::new().set("MAINSTAY_CONFIG", "a\0b").refuses(&["cannot be read"]);
}

#[test]
fn variables_that_are_no_settings_are_found() {
    let place = Place::new()
        .set("MAINSTAY_PORT", "3")
        .set("MAINSTAY_OWN", "mine")
        .set("MAINSTAY_EMPTY", "")
        .set("MAINSTAY_CONFIG", "")
        .set("MAINSTAY_NODE", "a")
        .set("MAINSTAY_DOMAIN", "rack7")
        .set("MAINSTAY_DOMAIN_FILE", "/etc/domains")
        .set("MAINSTAY_RUN_REPORT", "/tmp/report")
        .set("MAINSTAY_KEEP", "3");
    assert_eq!(place.config().keep, 3);
    let found: Vec<(&str, Option<String>)> =
        place.surroundings.unknown().into_iter().map(|unknown| (unknown.name, unknown.nearest)).collect();
    assert_eq!(found, [("MAINSTAY_OWN", None), ("MAINSTAY_PORT", Some("MAINSTAY_PORTION_BYTES".to_owned()))]);
}

/// The variable had no effect, and the job ran without a checkpoint.
#[test]
fn a_variable_that_must_be_meant_as_a_setting_is_refused() {
    for (wrong, meant) in [
        ("EVERY_SECOND", "EVERY_SECONDS"),
        ("EVERY_STEP", "EVERY_STEPS"),
        ("EVREY_SECONDS", "EVERY_SECONDS"),
        ("EVERY", "EVERY_STEPS, MAINSTAY_EVERY_SECONDS, MAINSTAY_DISK_EVERY or MAINSTAY_PFS_EVERY"),
        ("every_seconds", "EVERY_SECONDS"),
        ("KEEPS", "KEEP"),
        ("POOL_SIZE", "POOL_BYTES"),
        ("POOL_DIR", "POOL_DIRECTORY"),
        ("POOL", "POOL_BYTES"),
        ("THREADS", "IO_THREADS"),
        ("MTBF", "MTBF_SECONDS"),
        ("CHECKPOINT_SIG", "CHECKPOINT_SIGNAL"),
        ("CONF", "CONFIG"),
        ("NODE_", "NODE"),
        ("DOMAINS", "DOMAIN"),
        ("DOMAIN_FILES", "DOMAIN_FILE"),
        ("DISK_COPY", "DISK_COPIES"),
    ] {
        let meant = format!("did you mean MAINSTAY_{meant}?");
        let variable = format!("MAINSTAY_{wrong}");
        Place::new().set(&variable, "1").refuses(&[&variable, "no such setting", &meant, "Unset it"]);
        assert_eq!(Place::new().set(&variable, "").config(), Config::default(), "an empty variable is none");
    }
}

/// Variables of module systems and other programs are not settings of Mainstay.
#[test]
fn variables_of_others_are_no_reason_to_refuse() {
    let names = "ROOT HOME DIR BASE PREFIX BIN LIB LIB64 LIBDIR LIBRARIES INC INCLUDE INCLUDE_DIR VERSION PATH MAN DOC SHARE \
                 SRC INSTALL INSTALL_DIR MODULE MODULEFILE MODULE_PATH MPI COMPILER ARCH DEBUG VERBOSE LOG LOGFILE LEVEL \
                 LICENSE CFLAGS LDFLAGS PKGCONFIG PYTHON_PATH CMAKE_DIR USER GROUP PROJECT PARTITION ACCOUNT QUEUE JOBID \
                 DATA TEST SEED SITE ENV HOST PORT NAME TITLE TYPE MODE SIZE TARGET BUILD RELEASE SCRATCH WORK";
    let names: Vec<String> = names.split_whitespace().map(|name| format!("MAINSTAY_{name}")).collect();
    let place = names.iter().fold(Place::new(), |place, name| place.set(name, "/opt"));
    assert_eq!(place.config(), Config::default());
    assert_eq!(place.surroundings.unknown().len(), names.len());
}

#[test]
fn ranks_with_different_settings_are_refused() {
    let small = Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() };
    let (second, seven) = (Duration::from_secs(1), Duration::from_secs(7));
    let different = [
        ("keep", "2", "1", Config { keep: 2, ..small.clone() }),
        ("capture", "incremental", "whole", Config { capture: Capture::Incremental, ..small.clone() }),
        ("compress", "lz4", "off", Config { compress: Compress::Lz4, ..small.clone() }),
        ("audit", "2", "0", Config { audit: 2, ..small.clone() }),
        ("predictor", "count", "off", Config { predictor: Predictor::Count, ..small.clone() }),
        ("infrequent_seconds", "7", "0", Config { infrequent_after: seven, ..small.clone() }),
        ("stagger", "off", "on", Config { stagger: Stagger::Off, ..small.clone() }),
        ("stage", "direct", "pool", Config { stage: Stage::Direct, ..small.clone() }),
        ("pool_bytes", "512 KiB", "256 KiB", Config { pool_bytes: Some(512 << 10), ..small.clone() }),
        ("chunk_bytes", "32 KiB", "64 KiB", Config { chunk_bytes: Some(32 << 10), ..small.clone() }),
        ("pool_held", "checkpoint", "always", Config { pool_held: PoolHeld::Checkpoint, ..small.clone() }),
        ("small_bytes", "1 KiB", "512", Config { small_bytes: 1 << 10, ..small.clone() }),
        ("threshold_bytes", "64 KiB", "auto", Config { threshold_bytes: Some(64 << 10), ..small.clone() }),
        ("buffer_bytes", "1 MiB", "4 MiB", Config { buffer_bytes: 1 << 20, ..small.clone() }),
        ("flush_seconds", "7", "0.1", Config { flush_every: seven, ..small.clone() }),
        ("per", "rank", "auto", Config { per: Per::Rank, ..small.clone() }),
        ("allocate", "zero", "blocks", Config { allocate: Allocate::Zero, ..small.clone() }),
        ("stripe_count", "4", "0", Config { stripe_count: 4, ..small.clone() }),
        ("stripe_bytes", "1 MiB", "0", Config { stripe_bytes: 1 << 20, ..small.clone() }),
        ("memory_keep", "2", "1", Config { memory_keep: 2, ..small.clone() }),
        ("memory_copies", "1", "2", Config { memory_copies: 1, ..small.clone() }),
        ("memory_after", "kept", "removed", Config { memory_after: MemoryAfter::Kept, ..small.clone() }),
        ("disk_every", "2", "1", Config { disk_every: 2, ..small.clone() }),
        ("disk_keep", "2", "1", Config { disk_keep: 2, ..small.clone() }),
        ("disk_copies", "2", "1", Config { disk_copies: 2, ..small.clone() }),
        ("disk_lost", "accepted", "refused", Config { disk_lost: DiskLost::Accepted, ..small.clone() }),
        ("exchange", "blocking", "background", Config { exchange: Exchange::Blocking, ..small.clone() }),
        ("pfs_every", "2", "1", Config { pfs_every: 2, ..small.clone() }),
        ("start", "fresh", "restored", Config { start: Start::Fresh, ..small.clone() }),
        ("recovery", "shrink", "off", Config { recovery: Recovery::Shrink, ..small.clone() }),
        ("spares", "2", "0", Config { spares: 2, ..small.clone() }),
        ("every_steps", "5", "0", Config { every_steps: 5, ..small.clone() }),
        ("every_seconds", "1", "0", Config { every: second, ..small.clone() }),
        ("mtbf_seconds", "1", "0", Config { mtbf: second, ..small.clone() }),
        ("agree_seconds", "0.5", "1", Config { agree_every: second / 2, ..small.clone() }),
        ("when_busy", "now", "later", Config { when_busy: WhenBusy::Now, ..small.clone() }),
    ];
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let open = |group: ThreadGroup, config: &Config| {
        let rank = group.rank();
        let opened = Session::open(Box::new(group), &folder.path().join("space"), config.clone());
        opened.map(|session| assert_eq!(session.rank(), rank))
    };
    let open_all = |odd: &Config| {
        thread::scope(|scope| {
            let threads: Vec<_> = ThreadGroup::new(3)
                .into_iter()
                .enumerate()
                .map(|(rank, group)| (if rank == 2 { odd } else { &small }, group))
                .map(|(config, group)| scope.spawn(move || open(group, config)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    };
    for (key, other, first, odd) in &different {
        for told in open_all(odd) {
            let error = told.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let expected = format!("{key}: rank 2 has {other} and rank 0 has {first}; give all ranks");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
    // The test tried every key that must be alike.
    let alike: Vec<_> = KEYS.iter().filter(|key| key.alike).map(|key| key.name).collect();
    assert_eq!(different.each_ref().map(|(key, ..)| *key).as_slice(), alike);
    // Settings of a single rank may differ.
    let own = Config { io_threads: 1, portion_bytes: 8 << 20, ..small.clone() };
    assert!(open_all(&own).iter().all(Result::is_ok));
}

#[test]
fn the_guide_has_the_table_as_the_code_has_it() {
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/src/settings.md")).unwrap();
    let row = |key: &mainstay_engine::Key| {
        let default = Some(key.default().to_string()).filter(|text| !text.is_empty()).unwrap_or("\"\"".to_owned());
        let alike = if key.alike { "yes" } else { "" };
        format!("| `{}` | {default} | {} | {} | {alike} |", key.name, key.takes, key.meaning)
    };
    let expected: Vec<String> = KEYS.iter().map(row).collect();
    let found: Vec<&str> = guide.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(found, expected, "the table of docs/guide/src/settings.md should be:\n{}\n", expected.join("\n"));
}

#[test]
fn the_guides_example_of_a_file_is_taken() {
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/src/settings.md")).unwrap();
    let example = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let resolved = Place::with_file(example).resolve(&Choice::default()).unwrap();
    assert!(resolved.settings.iter().filter(|setting| setting.source != Source::Default).count() >= 3);
}

#[test]
fn python_has_a_keyword_for_each_setting_and_one_for_hints() {
    let stub = include_str!("../../../python/mainstay/_engine.pyi");
    let (_, rest) = stub.split_once("def open(").unwrap();
    let keywords = rest.split(") -> Session").next().unwrap().split("*,").nth(1).unwrap();
    let keywords: Vec<_> = keywords.lines().filter_map(|line| line.trim().split_once(": ")).collect();
    let names: Vec<_> = keywords.iter().map(|(name, _)| *name).collect();
    let expected: Vec<_> = KEYS.iter().map(|key| key.name).chain(["hints"]).collect();
    assert_eq!(names, expected, "open in python/mainstay/_engine.pyi and the table of settings are not the same");
    for ((_, hint), key) in keywords.iter().zip(KEYS).filter(|((_, hint), _)| hint.starts_with("Literal")) {
        assert_eq!(hint.split('"').skip(1).step_by(2).collect::<Vec<_>>(), words(key.takes), "{}", key.name);
    }
}

/// "pool, node or direct" as a list.
fn words(takes: &str) -> Vec<&str> {
    takes.split(", ").flat_map(|word| word.split(" or ")).collect()
}
