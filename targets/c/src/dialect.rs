//! What a target adds to portable C: how its programs are named, built and described.

use trainc_ir::program::{Buffer, Kernel, Program};
use trainc_ir::target::Target;

/// A file that the kernels of a dialect need; headers are included before the first kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupportFile {
    /// Name in the artifact's folder, ending in `.h` or `.c`.
    pub name: String,
    /// Contents.
    pub contents: String,
}

/// What a README tells.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The program.
    pub program: &'a Program,
    /// Start of all names.
    pub prefix: &'a str,
    /// Start of all macros.
    pub macros: &'a str,
    /// C sources.
    pub sources: &'a [String],
    /// Exported functions.
    pub functions: &'a [String],
}

/// Which C a dialect is and what builds it, in words of the README.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Language {
    /// Such as `portable C99`.
    pub name: &'static str,
    /// Such as `any C compiler for a little-endian machine`.
    pub built_with: &'static str,
    /// A compiler's command, such as `cc`.
    pub compiler: &'static str,
}

/// A target whose programs are C, with kernels that are [`CKernel`](crate::CKernel)s.
pub trait Dialect: Target {
    /// Flags for the compiler beside those that portable C needs, such as `-O3`.
    fn flags(&self) -> &'static [&'static str] {
        &["-O2"]
    }

    /// What a kernel's function is called, before a number makes it unique; `prefix` is the program's. Functions of other
    /// files share one name space with those of other programs.
    fn kernel_name(&self, _prefix: &str, kernel: &Kernel) -> String {
        kernel.name.clone()
    }

    /// An attribute of the array of constants, such as a larger alignment.
    fn constants_attribute(&self) -> &'static str {
        ""
    }

    /// Who owns which memory, for the header.
    fn memory(&self, prefix: &str) -> String {
        format!(
            "The caller owns all memory: an arena (working memory, contents need not survive a call) and a state \
             (weights and statistics, set up by {prefix}_init and kept between calls), both aligned. Nothing \
             allocates and nothing is global but constants, so calls on different arenas and states may run at \
             the same time."
        )
    }

    /// Functions of its artifacts beside those of all: what each does, and its declaration without an end.
    fn services(&self, _prefix: &str) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Whether its example runs under an operating system, with a C library.
    fn hosted(&self) -> bool {
        true
    }

    /// Which C it is, for readers.
    fn language(&self) -> Language {
        Language {
            name: "portable C99",
            built_with: "any C compiler for a little-endian machine",
            compiler: "cc",
        }
    }

    /// README.md in the place of the one for C compilers.
    fn readme(&self, _facts: &Facts<'_>) -> Option<String> {
        None
    }

    /// What the kernels need beside `trainc_rt.h`.
    fn support(&self) -> Vec<SupportFile> {
        Vec::new()
    }

    /// Lines of a source between the declarations of its arrays and its kernels; `constants` is the array of constants, if the
    /// program has some.
    fn declarations(&self, _program: &Program, _constants: Option<&str>) -> Vec<String> {
        Vec::new()
    }

    /// Statements around what a call computes.
    fn around(&self) -> Option<[&'static str; 2]> {
        None
    }

    /// A statement before a launch that is about to read so many bytes.
    fn fetch(&self, _address: &str, _bytes: usize) -> Option<String> {
        None
    }

    /// Where a launch's working memory of so many bytes is that the program has there.
    fn working_memory(&self, place: String, _bytes: usize) -> String {
        place
    }

    /// A header more where a kernel computes with floats.
    fn floats(&self) -> Option<SupportFile> {
        None
    }

    /// The support that a program takes.
    fn support_of(&self, program: &Program) -> Vec<SupportFile> {
        let float = |buffer: &Buffer| buffer.ty.is_f32();
        let floats = self.floats().filter(|_| program.buffers.iter().any(float));
        self.support().into_iter().chain(floats).collect()
    }
}
