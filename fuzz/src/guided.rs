//! A target under libFuzzer, which looks for inputs that reach new code: docs/decisions/0045-fuzzing.md.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mainstay_fuzz::{Judge, Scratch, targets};
use std::{env, process, sync::OnceLock};

fuzz_target!(|bytes: &[u8]| {
    static JUDGE: OnceLock<(Judge, Scratch)> = OnceLock::new();
    let (judge, _) = JUDGE.get_or_init(|| {
        let name = env::var("MAINSTAY_FUZZ_TARGET").unwrap_or_default();
        let target = targets::all().find(|target| target.name == name);
        let scratch = Scratch::make().expect("a folder in memory");
        (Judge::of(target.expect("MAINSTAY_FUZZ_TARGET names a target")), scratch)
    });
    if let Err(fault) = judge.judge(0, bytes) {
        eprintln!("{fault}");
        process::abort();
    }
});
