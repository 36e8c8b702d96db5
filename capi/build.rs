//! Programs are linked to the interface's version, the first number of the library's, not to one build of it.

fn main() {
    let version = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo tells it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmainstay.so.{version}");
    println!("cargo:rerun-if-changed=build.rs");
}
