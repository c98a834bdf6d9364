//! Runs Hexagon functions on a memory image under `qemu-hexagon`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::target::loop_scratch;
use trainc_ir::tensor_bytes::element_bytes;
use trainc_ir::{RunContext, Tensor};

/// A fresh folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hvx_select").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Runs a tool in a folder.
pub(crate) fn tool(folder: &Path, name: &str, arguments: &[&str]) {
    let output = Command::new(name).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|e| {
        panic!("these tests need `{name}` (Debian: llvm-19, clang-19, lld-19, qemu-user): {e}")
    });
    assert!(
        output.status.success(),
        "{name} {} in {}:\n{}",
        arguments.join(" "),
        folder.display(),
        String::from_utf8_lossy(&output.stderr[..output.stderr.len().min(4000)])
    );
}

/// Assembles a file for a version of the architecture.
pub(crate) fn assemble(folder: &Path, source: &str, object: &str, version: u32) {
    let cpu = format!("-mcpu=hexagonv{version}");
    let attributes = format!("-mattr=+hvxv{version},+hvx-length128b");
    let arguments = ["-triple=hexagon", &cpu, &attributes, "-filetype=obj", source, "-o", object];
    tool(folder, "llvm-mc-19", &arguments);
}

/// Runs a Hexagon program on some bytes.
pub(crate) fn execute(folder: &Path, program: &str, input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("qemu-hexagon")
        .args(["-cpu", "v67", program])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("these tests need `qemu-hexagon` (Debian: qemu-user): {e}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    let _ = writer.join();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {}\n{errors}", output.status);
    output.stdout
}

/// The start of a program: reads `image`, calls `run`, writes `image` and the packets that `run` took.
pub(crate) const START: &str = r#"
	.text
	.globl	_start
	.p2align 4
_start:
	{ r29 = and(r29,#-128) }
	{ r0 = #63 }
	call	.Ltransfer
	.word	0x6a14c000|16
	call	run
	.word	0x6a14c000|17
	{ r1 = ##packets; r0 = sub(r17,r16) }
	{ memw(r1+#0) = r0 }
	{ r0 = #64 }
	call	.Ltransfer
	{ r1 = ##packets; r2 = #4 }
	{ r0 = #1; r6 = #64 }
	trap0(#1)
	{ r0 = #0; r6 = #94 }
	trap0(#1)
.Ltransfer:
	{ r7 = r0; r8 = ##image }
	{ r9 = ##image_end }
.Lmore:
	{ r2 = sub(r9,r8); r1 = r8 }
	{ p0 = cmp.gt(r2,#0); r6 = r7 }
	{ if (!p0) jumpr r31 }
	{ r0 = add(r7,#-63) }
	trap0(#1)
	{ p0 = cmp.gt(r0,#0); r8 = add(r8,r0) }
	{ if (p0) jump .Lmore }
	{ r0 = #111; r6 = #94 }
	trap0(#1)
	.bss
	.balign 4
packets:
	.space 4
"#;

/// Memory in which kernels run: what it holds before, and what it must hold after.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) before: Vec<u8>,
    pub(crate) after: Vec<u8>,
    /// Ranges of working memory, of which nothing is expected.
    scratch: Vec<std::ops::Range<usize>>,
    /// Ranges in those of which something is expected.
    results: Vec<std::ops::Range<usize>>,
    /// Ranges of floats, of which a number that is none has no expected bits.
    floats: Vec<std::ops::Range<usize>>,
    /// What lies at an offset.
    names: Vec<(usize, String)>,
    /// Calls of functions with addresses.
    calls: String,
}

const FILL: u8 = 0xa5;

impl Image {
    /// A buffer, what it holds before and must hold after: its offset.
    pub(crate) fn place(
        &mut self,
        name: &str,
        before: Option<&[u8]>,
        after: Option<&[u8]>,
        size: usize,
    ) -> usize {
        // What lies between buffers must stay.
        let gap = self.before.len().next_multiple_of(128) + 128;
        self.before.resize(gap, FILL);
        self.after.resize(gap, FILL);
        self.names.push((gap, name.to_string()));
        match before {
            Some(bytes) => self.before.extend(bytes),
            None => self.before.resize(gap + size, FILL),
        }
        let now = self.before[gap..].to_vec();
        self.after.extend(after.map_or(now, <[u8]>::to_vec));
        assert_eq!(self.before.len(), self.after.len(), "{name}");
        gap
    }

    /// Working memory, of which nothing is expected: its offset.
    pub(crate) fn reserve(&mut self, name: &str, size: usize) -> usize {
        let at = self.place(name, None, None, size);
        self.scratch.push(at..at + size);
        at
    }

    /// What working memory must hold at an offset.
    pub(crate) fn expect(&mut self, at: usize, bytes: &[u8]) {
        self.after[at..at + bytes.len()].copy_from_slice(bytes);
        self.results.push(at..at + bytes.len());
    }

    /// Bytes behind the last buffer of which nothing is expected.
    pub(crate) fn reserve_behind(&mut self, size: usize) {
        let at = self.before.len();
        self.before.resize(at + size, FILL);
        self.after.resize(at + size, FILL);
        self.scratch.push(at..at + size);
    }

    /// A call with registers that hold these words.
    pub(crate) fn call(&mut self, function: &str, arguments: &[String]) {
        let more = arguments.len().saturating_sub(6);
        let bytes = (4 * more).next_multiple_of(8);
        if more > 0 {
            let _ = writeln!(self.calls, "\t{{ r29 = add(r29,#-{bytes}) }}");
        }
        for (i, argument) in arguments.iter().enumerate() {
            let register = if i < 6 { i } else { 7 };
            let _ = writeln!(self.calls, "\t{{ r{register} = ##{argument} }}");
            if i >= 6 {
                let _ = writeln!(self.calls, "\t{{ memw(r29+#{}) = r7 }}", 4 * (i - 6));
            }
        }
        let _ = writeln!(self.calls, "\tcall\t{function}");
        if more > 0 {
            let _ = writeln!(self.calls, "\t{{ r29 = add(r29,#{bytes}) }}");
        }
    }

    /// Buffers of a kernel, and its call.
    pub(crate) fn kernel(
        &mut self,
        name: &str,
        what: &str,
        kernel: &LoopKernel,
        operands: &[&Tensor],
        meaning: &[Tensor],
        run: &RunContext,
    ) {
        let words = [run.seed as u32, (run.seed >> 32) as u32, run.step];
        let mut arguments = Vec::new();
        for b in &kernel.buffers {
            let size = b.element.bytes(b.count);
            let name = format!("{what}: {}", b.name);
            let is_float = b.element == trainc_ir::Element::F32;
            let at = match b.role {
                Role::Input(k) => self.place(&name, Some(&element_bytes(operands[k])), None, size),
                Role::InputScale(k) => {
                    self.place(&name, Some(&operands[k].exponent().to_le_bytes()), None, size)
                }
                Role::RunContext => {
                    let words: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                    self.place(&name, Some(&words), None, size)
                }
                Role::Output(k) => self.place(&name, None, Some(&element_bytes(&meaning[k])), size),
                Role::OutputScale(k) => {
                    self.place(&name, None, Some(&meaning[k].exponent().to_le_bytes()), size)
                }
                Role::Scratch => continue,
            };
            if is_float {
                self.floats.push(at..at + size);
            }
            arguments.push(format!("image+{at}"));
        }
        if kernel.buffers.iter().any(|b| b.role == Role::Scratch) {
            let size = loop_scratch(kernel).1;
            let at = self.reserve(&format!("{what}: scratch"), size);
            arguments.push(format!("image+{at}"));
        }
        self.call(name, &arguments);
    }

    /// The rest of the program: `run`, and the image.
    pub(crate) fn source(&self) -> String {
        let bytes = self.before.len();
        format!(
            "\t.text\n\t.globl run\n\t.p2align 4\nrun:\n\t{{ allocframe(#0) }}\n{}\t{{ deallocframe }}\n\t{{ jumpr r31 }}\n\
             \t.bss\n\t.balign 128\n\t.globl image\nimage:\n\t.space {bytes}\n\t.globl image_end\nimage_end:\n",
            self.calls
        )
    }

    /// Runs a program on the image: the packets that it took.
    ///
    /// # Panics
    /// If a byte differs from what is expected.
    pub(crate) fn check(&self, folder: &Path, program: &str) -> u32 {
        let found = execute(folder, program, &self.before);
        let (found, packets) = found.split_at(found.len() - 4);
        assert_eq!(found.len(), self.after.len(), "{program}");
        let mut failures = Vec::new();
        let mut last = usize::MAX;
        for at in 0..found.len() {
            let holds = |ranges: &[std::ops::Range<usize>]| ranges.iter().any(|r| r.contains(&at));
            if found[at] == self.after[at] || holds(&self.scratch) && !holds(&self.results) {
                continue;
            }
            if let Some(floats) = self.floats.iter().find(|r| r.contains(&at)) {
                let word = floats.start + (at - floats.start) / 4 * 4;
                let float = |bytes: &[u8]| {
                    f32::from_le_bytes(bytes[word..word + 4].try_into().expect("4 bytes"))
                };
                if float(found).is_nan() && float(&self.after).is_nan() {
                    continue;
                }
            }
            let place = self.names.partition_point(|(start, _)| *start <= at).wrapping_sub(1);
            if place != last {
                last = place;
                let (start, name) =
                    self.names.get(place).map_or((0, "the start"), |(s, n)| (*s, n.as_str()));
                let (found, expected) = (found[at], self.after[at]);
                failures
                    .push(format!("{name}: byte {} is {found}, expected {expected}", at - start));
            }
        }
        let count = failures.len();
        failures.truncate(20);
        assert!(count == 0, "{program}: {count} buffers differ\n{}", failures.join("\n"));
        u32::from_le_bytes(packets.try_into().expect("4 bytes"))
    }
}
