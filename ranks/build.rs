//! Compiles the image with the clocks of a rank, which the library contains.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=src/x86_64/vdso.c");
    println!("cargo:rerun-if-changed=src/x86_64/vdso.map");
    println!("cargo:rerun-if-changed=src/x86_64/vdso.ld");
    println!("cargo:rerun-if-changed=../capi/ranks/gate.h");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return;
    }
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    let image = Path::new(&folder).join("vdso.so");
    // Two steps: a compiler that brings its own C library has no headers for a program without one.
    let mut built = cc::Build::new();
    built.opt_level(2).include("../capi/ranks").file("src/x86_64/vdso.c");
    for flag in ["-fno-stack-protector", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables", "-fno-jump-tables"] {
        built.flag(flag);
    }
    let objects = built.compile_intermediates();
    let mut command: Command = built.get_compiler().to_command();
    command.args(["-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,-z,norelro", "-Wl,--hash-style=both"]);
    command.args(["-Wl,--version-script=src/x86_64/vdso.map", "-Wl,-soname,linux-vdso.so.1"]);
    command.args(["-Wl,-T,src/x86_64/vdso.ld", "-o"]).arg(&image).args(&objects);
    let status = command.status().expect("a C compiler");
    assert!(status.success(), "the image with the clocks does not compile");
}
