//! Programs are linked to the interface's version, not to one build of the library.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmainstay.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
