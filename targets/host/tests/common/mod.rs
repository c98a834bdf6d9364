//! What the tests of this crate share: running one loop kernel by Cranelift beside the reference evaluation.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod models;
pub(crate) mod program;

use trainc_host::LoopFunction;
use trainc_host::divided::sections;
use trainc_ir::loops::{self, LoopKernel, Role};
use trainc_ir::tensor_bytes::{element_bytes, unpacked_elements};
use trainc_ir::{Data, Element, RunContext, ScaleData, Tensor, TensorType};

/// A small generator of test data (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) % n as u64) as usize
    }

    /// A value that is extreme now and then.
    pub(crate) fn integer(&mut self) -> i32 {
        match self.below(6) {
            0 => [0, 1, -1, i32::MIN, i32::MAX, 127, -128, 255][self.below(8)],
            1 => self.next() as i32,
            _ => (self.next() as i32) >> (8 + self.below(20)),
        }
    }

    /// A float that is special now and then.
    pub(crate) fn float(&mut self) -> f32 {
        match self.below(8) {
            0 => [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, 3e9, -3e9]
                [self.below(8)],
            1 => f32::from_bits(self.next() as u32 & 0x7f7f_ffff),
            _ => (self.next() as i32 >> 8) as f32 / 65536.0,
        }
    }

    /// A tensor of a type without scale or with a shared exponent.
    pub(crate) fn tensor(&mut self, ty: &TensorType) -> Tensor {
        let scale = match Tensor::zeros(ty).scale() {
            ScaleData::Exponent(_) => ScaleData::Exponent(self.below(20) as i32 - 12),
            other => *other,
        };
        if ty.element == Element::F32 {
            let data = Data::F32((0..ty.count()).map(|_| self.float()).collect());
            return Tensor::new(ty.clone(), data, scale);
        }
        let values: Vec<i64> = (0..ty.count()).map(|_| i64::from(self.integer())).collect();
        Tensor::from_i64(ty, &values, scale)
    }
}

/// Runs a kernel by Cranelift, as [`loops::evaluate::run`] does by interpretation.
pub(crate) fn run_compiled(
    kernel: &LoopKernel,
    inputs: &[&Tensor],
    outputs: &[TensorType],
    run: &RunContext,
) -> Vec<Tensor> {
    let function = LoopFunction::compile(kernel).expect("the kernel compiles");
    let mut buffers = buffers(kernel, inputs, run);
    function.run(&mut buffers).expect("the buffers fit");
    results(kernel, &buffers, outputs)
}

/// As [`run_compiled`], in sections, each in ranges of its rounds, the last first. How many of them are divided, too.
pub(crate) fn run_divided(
    kernel: &LoopKernel,
    inputs: &[&Tensor],
    outputs: &[TensorType],
    run: &RunContext,
) -> (Vec<Tensor>, usize) {
    let sections = sections(kernel, 1);
    let whole = &sections[0];
    let shared = whole.kernel.buffers.len() - usize::from(whole.rounds.is_some());
    let mut own = buffers(&whole.kernel, inputs, run);
    own.truncate(shared);
    for section in &sections {
        let function = LoopFunction::compile(&section.kernel).expect("the section compiles");
        let Some(rounds) = section.rounds else {
            function.run(&mut own).expect("the buffers fit");
            continue;
        };
        let cuts = [0, rounds / 3, rounds / 3, rounds - rounds / 4, rounds];
        for range in cuts.windows(2).rev() {
            own.push(range.iter().flat_map(|round| round.to_le_bytes()).collect());
            function.run(&mut own).expect("the buffers fit");
            own.pop();
        }
    }
    let divided = sections.iter().filter(|section| section.rounds.is_some()).count();
    (results(&whole.kernel, &own, outputs), divided)
}

/// What a kernel finds in its buffers.
fn buffers(kernel: &LoopKernel, inputs: &[&Tensor], run: &RunContext) -> Vec<Vec<u8>> {
    kernel
        .buffers
        .iter()
        .map(|b| match b.role {
            Role::Input(i) => element_bytes(inputs[i]),
            Role::InputScale(i) => inputs[i].exponent().to_le_bytes().to_vec(),
            Role::RunContext => [run.seed as u32, (run.seed >> 32) as u32, run.step]
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect(),
            // What a kernel must write before it reads.
            _ => vec![0xa5; b.element.bytes(b.count)],
        })
        .collect()
}

/// What it leaves there.
fn results(kernel: &LoopKernel, buffers: &[Vec<u8>], outputs: &[TensorType]) -> Vec<Tensor> {
    let of_role = |role: Role| kernel.buffers.iter().position(|b| b.role == role);
    outputs
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let data = of_role(Role::Output(i)).expect("a buffer for each result");
            let data = unpacked_elements(ty, &buffers[data]);
            let scale = match of_role(Role::OutputScale(i)) {
                Some(b) => ScaleData::Exponent(i32::from_le_bytes(
                    buffers[b][..].try_into().expect("four bytes"),
                )),
                None => ScaleData::None,
            };
            Tensor::new(ty.clone(), data, scale)
        })
        .collect()
}

/// Panics unless compiled code and evaluation agree in every bit.
pub(crate) fn check_kernel(
    place: &str,
    kernel: &LoopKernel,
    inputs: &[&Tensor],
    outputs: &[TensorType],
    run: &RunContext,
) {
    let expected = loops::evaluate::run(kernel, inputs, outputs, run);
    let found = run_compiled(kernel, inputs, outputs, run);
    for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert!(
            expected.bits_equal(found),
            "{place}: result {i} differs at {:?}\nexpected {expected:?}\nfound {found:?}",
            expected.first_difference(found)
        );
    }
}
