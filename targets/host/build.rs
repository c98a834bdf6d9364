//! Compiles the vector kernels as one object, which artifacts of this target hold.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(trainc_archive)");
    let out = PathBuf::from(variable("OUT_DIR"));
    let mut sources = vec![PathBuf::from("archive/lib.rs")];
    let kernels = fs::read_dir("src/kernels").expect("the kernels' folder");
    sources.extend(kernels.map(|entry| entry.expect("an entry of the kernels' folder").path()));
    sources.sort();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=archive");
    println!("cargo::rerun-if-changed=src/kernels");
    // Words that describe a launch mean something to the kernels of the same sources only.
    let symbol = format!("trainc_host_launch_{:016x}", hash(&sources));
    println!("cargo::rustc-env=TRAINC_HOST_LAUNCH={symbol}");
    let archive = out.join("libtrainc_host.a");
    let status = Command::new(variable("RUSTC"))
        .args(["--edition", "2024", "--crate-type", "staticlib", "--crate-name", "trainc_host"])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "lto=fat"])
        .args(["-C", "codegen-units=1", "-C", "relocation-model=pic", "-C", "strip=debuginfo"])
        .args(["--cfg", "trainc_archive", "--target", &variable("TARGET")])
        .args(["--cap-lints", "allow", "-o"])
        .arg(&archive)
        .arg("archive/lib.rs")
        .env("TRAINC_HOST_LAUNCH", &symbol)
        .status()
        .expect("rustc runs");
    assert!(status.success(), "rustc does not compile the kernels");
    let object = out.join("trainc_kernels.o");
    fs::write(&object, member(&fs::read(&archive).expect("the library"), &symbol)).expect("writes");
    println!("cargo::rustc-env=TRAINC_HOST_KERNELS_OBJECT={}", object.display());
}

/// The member of a library that defines the kernels; all else they need of the language is in it, too.
fn member<'a>(library: &'a [u8], symbol: &str) -> &'a [u8] {
    const MAGIC: &[u8] = b"!<arch>\n";
    const HEADER: usize = 60;
    let mut rest = library.strip_prefix(MAGIC).expect("a library");
    while rest.len() > HEADER {
        let (header, behind) = rest.split_at(HEADER);
        let size = str::from_utf8(&header[48..58]).expect("a size").trim();
        let size: usize = size.parse().expect("a size");
        let (contents, behind) = behind.split_at(size);
        // The table of symbols has the symbol, too; members' names may begin so.
        let table = header.starts_with(b"/ ") || header.starts_with(b"//");
        if !table && contents.windows(symbol.len()).any(|bytes| bytes == symbol.as_bytes()) {
            return contents;
        }
        rest = &behind[size % 2..];
    }
    panic!("no member of the library defines {symbol}")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Of the files' contents in order (FNV-1a).
fn hash(sources: &[impl AsRef<Path>]) -> u64 {
    let bytes = sources.iter().flat_map(|path| fs::read(path).expect("a source of the kernels"));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
