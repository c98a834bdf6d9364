//! Products that take their batch in parts: a C function that calls the product's kernel for each part, and then that of what
//! follows, on all sums ([`trainc_ir::batch_split`]).

use trainc_ir::batch_split::{
    ByImages, Estimate, Holds, LocalMemory, MicroBatch, Splitting, choose,
};
use trainc_ir::implementation::{Cost, Implementation, Selection, Signature, SplitOutcome, Ways};
use trainc_ir::loops::{BufferParameter, Role};
use trainc_ir::names::identifier;
use trainc_ir::program::Kernel;
use trainc_ir::target::TargetDescription;
use trainc_ir::types::Element;
use trainc_ir::{Scale, Tensor, TensorType};

use crate::kernel::{CKernel, Emitted, Piece, in_c, take};
use crate::layout::Lines;
use crate::loops::element_type;

/// What a C target tells of itself.
pub struct Machine<'t> {
    /// Its name for its device, and its alignment.
    pub description: &'t TargetDescription,
    /// Its memory.
    pub local: Option<LocalMemory>,
    /// How it runs a kernel whole.
    pub select: &'t dyn Fn(&Signature<'_>) -> Selection,
    /// Where working memory of so many bytes is that a launch has at a place.
    pub working_memory: fn(&str, usize) -> String,
}

/// What an addition of two sums costs: a load, an addition and a store, in part as vectors.
const ADDITION: u64 = 2;

/// Working memory that lies where the launch has it.
#[must_use]
pub fn in_place(place: &str, _bytes: usize) -> String {
    place.to_string()
}

impl Machine<'_> {
    /// How it runs a kernel, a product in parts of its batch where that is asked for and suits.
    #[must_use]
    pub fn select(&self, signature: &Signature<'_>, splitting: &Splitting) -> Selection {
        let whole = (self.select)(signature);
        if splitting.micro_batch == MicroBatch::Off {
            return whole;
        }
        let Some(found) = ByImages::of(signature) else { return whole };
        let images = signature.inputs.first().and_then(|ty| ty.shape.first().copied());
        let outcome = |micro_batch, reason| SplitOutcome {
            device: self.description.devices[0],
            images: images.unwrap_or(0),
            micro_batch,
            reason,
        };
        let unit = self.description.cost_unit;
        let chosen = found.and_then(|product| {
            let estimate = self.whole(signature, &product, &whole);
            choose(splitting, self.local, unit, product.images(), estimate, |micro_batch| {
                let split = Split::new(self, signature, &product, micro_batch)?;
                Ok((split.estimate(self.holds(), &product, &estimate), split))
            })
        });
        match chosen {
            Ok((micro_batch, split, reason)) => {
                let splits = vec![outcome(Some(micro_batch), reason)];
                take(Ways::default(), split).with_splits(splits)
            }
            Err(reason) => whole.with_splits(vec![outcome(None, reason)]),
        }
    }

    fn holds(&self) -> Holds {
        self.local.map_or(Holds::Everything, |local| local.holds)
    }

    fn whole(
        &self,
        signature: &Signature<'_>,
        product: &ByImages<'_>,
        selection: &Selection,
    ) -> Estimate {
        let bytes =
            |types: &[&TensorType]| types.iter().map(|ty| ty.element_bytes()).sum::<usize>();
        let tensors = bytes(signature.inputs) + bytes(signature.outputs);
        let scratch = selection.scratch_bytes();
        let constant = bytes(&product.inputs[product.sliced..])
            + if product.summed { product.sums.element_bytes() } else { 0 };
        Estimate {
            cost: selection.cost(),
            local_bytes: match self.holds() {
                Holds::Everything => tensors + scratch,
                Holds::WorkingMemory => scratch,
            },
            fixed_bytes: constant,
            moved_bytes: tensors + 2 * scratch,
        }
    }
}

/// A product in parts of its batch.
#[derive(Debug)]
struct Split {
    images: usize,
    micro_batch: usize,
    /// Operands that are parts.
    sliced: usize,
    /// Whether sums of parts are added.
    summed: bool,
    sums: TensorType,
    /// The product of a part.
    part: Kernel,
    /// What follows, of all sums.
    rest: Option<Kernel>,
    working_memory: fn(&str, usize) -> String,
    alignment: usize,
}

impl Split {
    /// # Errors
    /// Where parts of tensors are not aligned as tensors are.
    fn new(
        machine: &Machine<'_>,
        signature: &Signature<'_>,
        product: &ByImages<'_>,
        micro_batch: usize,
    ) -> Result<Split, String> {
        let alignment = machine.description.alignment;
        let inputs = product.sliced_inputs(micro_batch);
        let sums = product.sliced_sums(micro_batch);
        let besides = (!product.summed).then_some(&sums);
        for ty in inputs[..product.sliced].iter().chain(besides) {
            let bits = ty.count() * ty.element.bits() as usize;
            if !bits.is_multiple_of(8 * alignment) {
                return Err(format!(
                    "parts of {micro_batch} would not begin at multiples of {alignment} bytes ({ty})"
                ));
            }
        }
        let kernel = |op, inputs: Vec<TensorType>, outputs: Vec<TensorType>| {
            Kernel::new("", op, inputs, outputs, |own| {
                (machine.select)(&Signature { memory: signature.memory, ..*own })
            })
        };
        let part = kernel(product.product.clone(), inputs, vec![sums]);
        let rest = product.rest.clone().map(|op| {
            let further = signature.inputs[product.inputs.len()..].iter().map(|&ty| ty.clone());
            let inputs = std::iter::once(product.sums.clone()).chain(further).collect();
            kernel(op, inputs, signature.outputs.iter().map(|&ty| ty.clone()).collect())
        });
        Ok(Split {
            images: product.images(),
            micro_batch,
            sliced: product.sliced,
            summed: product.summed,
            sums: product.sums.clone(),
            part,
            rest,
            working_memory: machine.working_memory,
            alignment,
        })
    }

    fn estimate(&self, holds: Holds, product: &ByImages<'_>, whole: &Estimate) -> Estimate {
        let sums = self.sums.element_bytes();
        let inputs: usize = self.part.inputs.iter().map(TensorType::element_bytes).sum();
        let own = self.part.scratch_bytes();
        let local_bytes = match holds {
            Holds::Everything => inputs + self.part.outputs[0].element_bytes() + own,
            Holds::WorkingMemory => own,
        };
        let all: usize = product.inputs.iter().map(|ty| ty.element_bytes()).sum();
        let results = self.rest.iter().flat_map(|rest| &rest.outputs);
        let results: usize = results.map(TensorType::element_bytes).sum();
        let moved_bytes = all + 2 * sums + results;
        Estimate { cost: self.cost(), local_bytes, moved_bytes, ..*whole }
    }

    fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        std::iter::once(&self.part).chain(&self.rest)
    }

    /// Offsets in the working memory of a part's sums and of the kernels' own, and the bytes of that.
    fn places(&self) -> [usize; 3] {
        let sums = self.sums.element_bytes().next_multiple_of(self.alignment);
        let part = if self.rest.is_some() { sums } else { 0 };
        let own = part + if self.summed { sums } else { 0 };
        [part, own, self.kernels().map(Kernel::scratch_bytes).max().unwrap_or(0)]
    }

    fn print(&self, name: &str, kernel: &Kernel, arranged: bool) -> Result<Emitted, String> {
        let names = [format!("{name}_part"), format!("{name}_rest")];
        let mut out = Lines::default();
        let mut pieces: Vec<Piece> = Vec::new();
        for (kernel, name) in self.kernels().zip(&names) {
            let own = in_c(kernel)?;
            let is_product = std::ptr::eq(kernel, &self.part);
            let emitted = match arranged && is_product {
                true => own.emit_arranged(name, kernel),
                false => own.emit(name, kernel),
            }?;
            out.raw(&emitted.text);
            out.line("");
            for piece in emitted.pieces {
                if !pieces.contains(&piece) {
                    pieces.push(piece);
                }
            }
        }
        self.caller(name, &names, kernel, &mut out);
        Ok(Emitted { text: out.finish(), pieces })
    }

    /// The function that calls both.
    fn caller(&self, name: &str, [part, rest]: &[String; 2], kernel: &Kernel, out: &mut Lines) {
        let own = buffers(kernel);
        let scratch = self.scratch_bytes() > 0;
        let mut parameters: Vec<String> = own.iter().map(parameter).collect();
        parameters.extend(scratch.then(|| "uint8_t *scratch".to_string()));
        let named = |role: Role| {
            let found = own.iter().find(|b| b.role == role);
            found.map_or_else(String::new, |b| identifier(&b.name))
        };
        let (images, micro_batch) = (self.images, self.micro_batch);
        let what = match self.summed {
            true => "whose sums are added",
            false => "whose sums lie beside each other",
        };
        out.comment(&[format!("{images} images, {micro_batch} at a time, {what}.")]);
        out.open_function(&format!("static void {name}({})", parameters.join(", ")));
        let element = element_type(self.sums.element);
        let [of_part, of_kernels, bytes] = self.places();
        let place = |offset: usize| match offset {
            0 => "scratch".to_string(),
            offset => format!("(scratch + {offset})"),
        };
        let mut sums = named(Role::Output(0));
        let mut exponent = named(Role::OutputScale(0));
        if self.rest.is_some() {
            out.line(&format!("{element} *const sums = ({element} *)(void *)scratch;"));
            sums = "sums".into();
            if self.sums.scale == Scale::Exponent {
                out.line("int32_t exponent = 0;");
                exponent = "&exponent".into();
            }
        }
        if self.summed {
            let place = place(of_part);
            out.line(&format!("{element} *const part = ({element} *)(void *){place};"));
        }
        if bytes > 0 {
            let place = (self.working_memory)(&place(of_kernels), bytes);
            out.line(&format!("uint8_t *const working = {place};"));
        }
        let call = |function: &str, kernel: &Kernel, of: &dyn Fn(&Role) -> String| {
            let mut arguments: Vec<String> = buffers(kernel).iter().map(|b| of(&b.role)).collect();
            arguments.extend((kernel.scratch_bytes() > 0).then(|| "working".to_string()));
            format!("{function}({});", arguments.join(", "))
        };
        // Of a result or operand that is a part: how many of its C elements an image has.
        let stride = |ty: &TensorType| {
            let bytes = ty.element_bytes() / self.micro_batch;
            bytes / (ty.element.bits() as usize).div_ceil(8)
        };
        let product = |image: &str, sums: &str| {
            call(part, &self.part, &|role| match *role {
                Role::Input(i) if i < self.sliced && !image.is_empty() => {
                    let stride = stride(&self.part.inputs[i]);
                    format!("{} + {image} * {stride}", named(Role::Input(i)))
                }
                Role::Output(_) => sums.to_string(),
                Role::OutputScale(_) => exponent.clone(),
                ref role => named(role.clone()),
            })
        };
        let (first, loops) = match self.summed {
            true => (self.micro_batch, "part".to_string()),
            false => (0, format!("{sums} + image * {}", stride(&self.part.outputs[0]))),
        };
        if self.summed {
            out.line(&product("", &sums));
        }
        let next = match self.micro_batch {
            1 => "image++".to_string(),
            micro_batch => format!("image += {micro_batch}"),
        };
        out.open(&format!("for (size_t image = {first}; image < {images}; {next}) {{"));
        out.line(&product("image", &loops));
        if self.summed {
            out.open(&format!("for (size_t i = 0; i < {}; i++) {{", self.sums.count()));
            out.line(&format!("{sums}[i] = (int32_t)((uint32_t){sums}[i] + (uint32_t)part[i]);"));
            out.close("}");
        }
        out.close("}");
        if let Some(kernel) = &self.rest {
            let operands = self.part.inputs.len();
            out.line(&call(rest, kernel, &|role| match *role {
                Role::Input(0) => "sums".into(),
                Role::InputScale(0) => exponent.clone(),
                Role::Input(i) => named(Role::Input(i + operands - 1)),
                Role::InputScale(i) => named(Role::InputScale(i + operands - 1)),
                ref role => named(role.clone()),
            }));
        }
        out.close("}");
    }
}

fn buffers(kernel: &Kernel) -> Vec<BufferParameter> {
    let lowered = kernel.op.lower(&kernel.input_types(), &kernel.output_types());
    lowered.buffers.into_iter().filter(|b| b.role != Role::Scratch).collect()
}

fn parameter(buffer: &BufferParameter) -> String {
    let constant = match buffer.role {
        Role::Input(_) | Role::InputScale(_) | Role::RunContext => "const ",
        _ => "",
    };
    format!("{constant}{} *{}", element_type(buffer.element), identifier(&buffer.name))
}

impl Implementation for Split {
    fn name(&self) -> &'static str {
        "products by micro-batches"
    }

    fn cost(&self) -> Cost {
        let parts = (self.images / self.micro_batch) as u64;
        let times = |cost: Cost, n: u64| match cost.cycles() {
            Some(cycles) => Cost::new(cycles.saturating_mul(n)),
            None => Cost::INFEASIBLE,
        };
        let added = if self.summed { (parts - 1) * self.sums.count() as u64 * ADDITION } else { 0 };
        let rest = self.rest.as_ref().map_or(Cost::ZERO, |rest| rest.selection.cost());
        times(self.part.selection.cost(), parts) + Cost::new(added) + rest
    }

    fn scratch_bytes(&self) -> usize {
        let [_, own, bytes] = self.places();
        own + bytes
    }

    fn aligned_elements(&self) -> &'static [Element] {
        let mut all = self.kernels().map(|kernel| kernel.selection.aligned_elements());
        all.find(|elements| !elements.is_empty()).unwrap_or(&[])
    }

    fn scalar_loops(&self) -> Vec<String> {
        self.kernels().flat_map(|kernel| kernel.selection.scalar_loops()).collect()
    }
}

impl CKernel for Split {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        self.print(name, kernel, false)
    }

    fn arranged(&self, operand: usize, value: &Tensor) -> Option<Vec<u8>> {
        let whole = self.sliced..self.part.inputs.len();
        whole.contains(&operand).then(|| in_c(&self.part).ok()?.arranged(operand, value))?
    }

    fn emit_arranged(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        self.print(name, kernel, true)
    }

    fn packed(&self) -> Option<(usize, usize)> {
        in_c(&self.part).ok()?.packed().filter(|(operand, _)| *operand >= self.sliced)
    }

    fn places_working_memory(&self) -> bool {
        true
    }
}
