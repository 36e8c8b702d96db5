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
    let compiler = cc::Build::new().opt_level(2).get_compiler();
    let mut command: Command = compiler.to_command();
    command.args(["-shared", "-nostdlib", "-fPIC", "-fno-stack-protector", "-fvisibility=hidden", "-I../capi/ranks"]);
    command.args(["-Wl,--version-script=src/x86_64/vdso.map", "-Wl,-soname,linux-vdso.so.1", "-Wl,--hash-style=both"]);
    command
        .args([
            "-Wl,-z,norelro",
            "-Wl,-T,src/x86_64/vdso.ld",
            "-fno-asynchronous-unwind-tables",
            "-fno-jump-tables",
            "-Wl,--build-id=none",
            "src/x86_64/vdso.c",
            "-o",
        ])
        .arg(&image);
    let status = command.status().expect("a C compiler");
    assert!(status.success(), "the image with the clocks does not compile");
}
