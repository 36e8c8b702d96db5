//! The settings of a session.

use crate::{
    argument::{bytes_of, null},
    error::{Status, guard},
};
use mainstay_engine::{Choice, Config, Error, Value};
use std::{
    ffi::{OsStr, c_char},
    os::unix::ffi::OsStrExt,
};

/// Path of bytes out of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum StageCode {
    /// Set by mainstay.toml or the environment; default: the pool.
    Default = 0,
    /// Into a pool of chunks, which I/O threads write.
    Pool,
    /// The calling thread writes, without a buffer: the baseline.
    Direct,
    /// Each rank gathers small pieces; medium ones go to a buffer of the node; large ones are written directly.
    Node,
    /// Each rank gathers pieces in its own buffer, which the calling thread writes; large pieces are written
    /// directly.
    Rank,
}

/// Action of a running job when ranks fail: the result of mainstay_recovery_settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum RecoveryCode {
    /// None: the job must be restarted.
    Off = 1,
    /// Other processes take their places and numbers: spares, or newly started processes.
    Replace,
    /// The job goes on with fewer ranks.
    Shrink,
}

/// Bytes for the settings of mainstay_set.
pub const SETTINGS_BYTES: usize = 4096;

/// Settings of the program. Begin with MAINSTAY_OPTIONS_INIT. 0 leaves a setting to the environment or mainstay.toml,
/// and otherwise to the default given here. mainstay_set takes all other settings.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Options {
    /// sizeof(mainstay_options); MAINSTAY_OPTIONS_INIT sets it.
    pub size: usize,
    /// Complete revisions to keep, at least. A space has room for two more than the number it was made for. Default:
    /// 1.
    pub keep: u32,
    /// A mainstay_stage. Default: MAINSTAY_STAGE_POOL.
    pub stage: u32,
    /// Bytes of the pool that the ranks of a node share. With room for their shards and one chunk more for each, a
    /// checkpoint costs the program one copy. Default: the size of the shards, up to a quarter of the free memory and
    /// half of pool_directory.
    pub pool_bytes: u64,
    /// A checkpoint is due after this number of steps. Default: not by steps.
    pub every_steps: u64,
    /// A checkpoint is due after this number of seconds. Default: not by time.
    pub every_seconds: f64,
    /// Hints, a line `name=value` each: striping_factor, striping_unit and cb_nodes as in MPI-IO, and mainstay_
    /// before the name of any setting. Mainstay ignores other hints. Hints go before all other options. Default: none.
    /// Read during the opening call.
    pub hints: *const c_char,
    /// Only mainstay_set writes here.
    pub settings: [c_char; SETTINGS_BYTES],
}

/// Sets any setting of the guide's table, such as "memory" to "auto" or "mtbf_seconds" to "1 day"; the value is
/// written as in the environment. Overrides the field of the same name; a later call for the same key replaces an
/// earlier one. Local.
///
/// MAINSTAY_INVALID_ARGUMENT: there is no such setting, it does not take this value, or the options have more than
/// MAINSTAY_SETTINGS_BYTES bytes of settings. The options then stay as they were.
///
/// # Safety
/// `options` is null or points to a `mainstay_options`; `key` and `value` are null or end with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_set(options: *mut Options, key: *const c_char, value: *const c_char) -> Status {
    guard(|| {
        // SAFETY: as the caller promised.
        let (key, value) = unsafe { (bytes_of(key, "key")?, bytes_of(value, "value")?) };
        Options::check(options)?;
        // SAFETY: not null, and the size is that of the struct.
        unsafe { &mut *options }.set(key, value)
    })
}

impl Options {
    /// The settings in force if the program passed `options`.
    ///
    /// # Safety
    /// `options` is null, or points to as many bytes as its `size` says if that is the size of `Options`; its `hints`
    /// are null or end with a zero byte.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn config(options: *const Options) -> Result<Config, Error> {
        let choice = if options.is_null() {
            Choice::default()
        } else {
            Options::check(options)?;
            // SAFETY: not null, and the size is that of the struct; the rest is the caller's promise.
            unsafe { (*options).choice()? }
        };
        Ok(Config::resolve(&choice)?.config)
    }

    /// Refuses options of another version, and those that no initialiser has set.
    #[allow(unsafe_code)]
    fn check(options: *const Options) -> Result<(), Error> {
        if options.is_null() {
            return Err(null("options"));
        }
        // SAFETY: every version begins with its size.
        let size = unsafe { (&raw const (*options).size).read() };
        if size == size_of::<Options>() {
            return Ok(());
        }
        let why = format!(
            "size {size} is not that of this library's; begin with MAINSTAY_OPTIONS_INIT, and compile with this \
             library's mainstay.h"
        );
        Err(Error::argument("options", why))
    }

    /// # Safety
    /// `hints` are null or end with a zero byte.
    #[allow(unsafe_code)]
    unsafe fn choice(&self) -> Result<Choice, Error> {
        let mut choice = Choice::default();
        // A program that sets a number below zero is refused with that number: no setting takes one so large.
        let numbers = [
            ("keep", i128::from(self.keep.cast_signed())),
            ("pool_bytes", self.pool_bytes.cast_signed().into()),
            ("every_steps", self.every_steps.cast_signed().into()),
        ];
        for (key, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
            choice.set(key, Value::Integer(number))?;
        }
        if self.every_seconds != 0.0 {
            choice.set("every_seconds", Value::Float(self.every_seconds))?;
        }
        if let Some(stage) = stage_of(self.stage)? {
            choice.set("stage", Value::Text(stage))?;
        }
        for (key, value) in self.pairs() {
            choice.set(&String::from_utf8_lossy(&key), Value::Word(OsStr::from_bytes(&value)))?;
        }
        if !self.hints.is_null() {
            // SAFETY: as the caller promised.
            let hints = String::from_utf8_lossy(unsafe { bytes_of(self.hints, "hints") }?);
            for (name, value) in hints.lines().filter_map(|line| line.split_once('=')) {
                choice.hint(name, value)?;
            }
        }
        Ok(choice)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        Choice::default().set(&String::from_utf8_lossy(key), Value::Word(OsStr::from_bytes(value)))?;
        let others = self.pairs().into_iter().filter(|(known, _)| known != key);
        let pairs: Vec<_> = others.chain([(key.to_vec(), value.to_vec())]).collect();
        let bytes: Vec<_> = pairs.iter().flat_map(|(key, value)| [key, &[0][..], value, &[0]].concat()).collect();
        if bytes.len() > SETTINGS_BYTES {
            let why = format!("more than {SETTINGS_BYTES} bytes of settings; put some into mainstay.toml");
            return Err(Error::argument(String::from_utf8_lossy(key), why));
        }
        self.settings.fill(0);
        for (place, byte) in self.settings.iter_mut().zip(bytes) {
            *place = c_char::from_ne_bytes([byte]);
        }
        Ok(())
    }

    /// The keys and values of `set`: each text ends with a zero byte, and a key without a byte ends the list.
    fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let bytes = self.settings.map(|byte| byte.to_ne_bytes()[0]);
        let mut texts = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec);
        std::iter::from_fn(|| {
            let key = texts.next().filter(|key| !key.is_empty())?;
            Some((key, texts.next()?))
        })
        .collect()
    }
}

/// The word of a `StageCode`; none for 0.
fn stage_of(code: u32) -> Result<Option<&'static str>, Error> {
    match code {
        0 => Ok(None),
        1 => Ok(Some("pool")),
        2 => Ok(Some("direct")),
        3 => Ok(Some("node")),
        4 => Ok(Some("rank")),
        _ => {
            let why = format!(
                "{code} is none of its values, it takes MAINSTAY_STAGE_POOL, MAINSTAY_STAGE_DIRECT, \
                 MAINSTAY_STAGE_NODE or MAINSTAY_STAGE_RANK"
            );
            Err(Error::argument("stage", why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_given() -> Options {
        // SAFETY: numbers, and a pointer that may be null.
        #[allow(unsafe_code)]
        Options { size: size_of::<Options>(), ..unsafe { std::mem::zeroed() } }
    }

    fn choice_of(options: &Options) -> Result<Choice, Error> {
        // SAFETY: there are no hints.
        #[allow(unsafe_code)]
        unsafe {
            options.choice()
        }
    }

    #[test]
    fn stage_codes_are_those_of_the_header() {
        let header = include_str!("../include/mainstay.h");
        let (body, _) = header.split_once("} mainstay_stage;").unwrap();
        let (_, body) = body.rsplit_once("typedef enum {").unwrap();
        let found: Vec<_> = body.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_').collect();
        for code in 1..=4 {
            let name = format!("MAINSTAY_STAGE_{}", stage_of(code).unwrap().unwrap().to_uppercase());
            assert!(found.contains(&&*name), "{name}: {body}");
        }
        let message = stage_of(9).unwrap_err().to_string();
        assert!(message.starts_with("stage: 9 is none of its values"), "{message}");
    }

    #[test]
    fn a_number_below_zero_is_refused_with_its_sign() {
        let negative = [
            Options { keep: (-1_i32).cast_unsigned(), ..nothing_given() },
            Options { every_steps: (-1_i64).cast_unsigned(), ..nothing_given() },
        ];
        for (given, key) in negative.into_iter().zip(["keep", "every_steps"]) {
            let error = choice_of(&given).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}: ")) && error.contains("-1"), "{error}");
        }
    }

    #[test]
    fn a_later_setting_replaces_an_earlier_one_and_the_field() {
        let mut given = Options { pool_bytes: 1 << 20, keep: 2, stage: 2, ..nothing_given() };
        for (key, value) in [("keep", "3"), ("flush_seconds", "500 ms"), ("keep", "4"), ("disk", "/line\nbreak")] {
            given.set(key.as_bytes(), value.as_bytes()).unwrap();
        }
        let mut expected = Choice::default();
        let values = [
            ("pool_bytes", Value::Integer(1 << 20)),
            ("stage", Value::Text("direct")),
            ("keep", Value::Integer(4)),
            ("flush_seconds", Value::Float(0.5)),
            ("disk", Value::Word(OsStr::new("/line\nbreak"))),
        ];
        for (key, value) in values {
            expected.set(key, value).unwrap();
        }
        assert_eq!(choice_of(&given).unwrap(), expected);
    }

    #[test]
    fn a_refused_setting_changes_nothing() {
        let mut given = nothing_given();
        given.set(b"keep", b"3").unwrap();
        let long = "/x".repeat(SETTINGS_BYTES / 2);
        for (key, value, says) in [
            ("kep", "3", "did you mean keep?"),
            ("keep", "three", "takes 1 to 1000"),
            ("disk", &long, "more than 4096 bytes of settings; put some into mainstay.toml"),
        ] {
            let error = given.set(key.as_bytes(), value.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(given.pairs(), [(b"keep".to_vec(), b"3".to_vec())]);
    }

    #[test]
    fn settings_without_their_last_zero_byte_are_read_to_the_end_of_the_struct() {
        let mut given = nothing_given();
        given.settings.fill(c_char::from_ne_bytes(*b"k"));
        assert!(given.pairs().is_empty());
    }
}
