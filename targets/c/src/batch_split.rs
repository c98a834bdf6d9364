//! Products that take their batch in parts: a C function that calls the product's kernel for each part, and then that of what
//! follows, on all sums ([`trainc_ir::batch_split`]).

use trainc_ir::batch_split::{
    Along, ByParts, Choice, Estimate, Holds, LocalMemory, MicroBatch, Part, Splitting, choose,
};
use trainc_ir::implementation::{Cost, Implementation, Selection, Signature, SplitOutcome, Ways};
use trainc_ir::loops::{BufferParameter, Role};
use trainc_ir::names::identifier;
use trainc_ir::program::Kernel;
use trainc_ir::target::TargetDescription;
use trainc_ir::types::Element;
use trainc_ir::{Scale, Tensor, TensorType};

use crate::kernel::{CKernel, Emitted, Piece, in_c, lower, take};
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
        let Some(found) = ByParts::of(signature) else { return whole };
        let all = found.as_ref().ok().map(|product| product.whole);
        let outcome = |part: Option<Part>, reason| SplitOutcome {
            device: self.description.devices[0],
            whole: all.map_or_else(|| "all".to_string(), |all| all.words(all)),
            part: part.zip(all).map(|(part, all)| part.words(all)),
            reason,
        };
        let unit = self.description.cost_unit;
        let chosen = found.and_then(|product| {
            let unsplit = self.unsplit(signature, &whole);
            let parts = product.parts();
            choose(splitting, self.local, unit, (product.whole, &parts), unsplit, |part| {
                let split = Split::new(self, signature, &product, part)?;
                Ok((split.estimate(self.holds(), &product), split))
            })
        });
        match chosen {
            Ok(Choice { part, made, reason }) => {
                take(Ways::default(), made).with_splits(vec![outcome(Some(part), reason)])
            }
            Err(reason) => whole.with_splits(vec![outcome(None, reason)]),
        }
    }

    fn holds(&self) -> Holds {
        self.local.map_or(Holds::Everything, |local| local.holds)
    }

    fn unsplit(&self, signature: &Signature<'_>, selection: &Selection) -> Estimate {
        let tensors = signature.inputs.iter().chain(signature.outputs);
        let tensors: usize = tensors.map(|ty| ty.element_bytes()).sum();
        let scratch = selection.scratch_bytes();
        Estimate {
            cost: selection.cost(),
            local_bytes: match self.holds() {
                Holds::Everything => tensors + scratch,
                Holds::WorkingMemory => scratch,
            },
            moved_bytes: tensors + 2 * scratch,
        }
    }
}

/// A loop over parts.
#[derive(Clone, Copy, Debug)]
struct Loop {
    /// Its variable.
    name: &'static str,
    /// Of one part, of all.
    step: usize,
    end: usize,
    /// Whether results of its parts are summed: the inner loop, then.
    summed: bool,
}

/// A product in parts.
#[derive(Debug)]
struct Split {
    /// The inner one last.
    loops: Vec<Loop>,
    /// C elements of each operand and of the result from one to the next, a loop each.
    strides: Vec<Vec<usize>>,
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
        product: &ByParts<'_>,
        part: Part,
    ) -> Result<Split, String> {
        let alignment = machine.description.alignment;
        let along = product.loops(part);
        let loops: Vec<Loop> = along
            .iter()
            .map(|&along| {
                let (name, step, end) = match along {
                    Along::Images => ("image", part.images, product.whole.images),
                    Along::Features => ("feature", part.features, product.whole.features),
                };
                Loop { name, step, end, summed: product.is_summed(along) }
            })
            .collect();
        let operands = product.inputs.iter().copied().zip(&product.operands);
        let tensors = operands.chain([(&product.sums, &product.result)]);
        let mut strides = Vec::new();
        for (ty, axes) in tensors {
            let of = along.iter().map(|&along| ByParts::stride(ty, *axes, along));
            let of: Vec<usize> = of.collect();
            let bits = ty.element.bits() as usize;
            for (stride, Loop { name, step, .. }) in of.iter().zip(&loops) {
                if !(stride * step * bits).is_multiple_of(8 * alignment) {
                    return Err(format!(
                        "parts of {step} {name}s of {ty} would not begin at multiples of {alignment} bytes"
                    ));
                }
            }
            // Of C elements, several of which are in a byte where they are narrow: images then are whole bytes.
            strides
                .push(of.iter().map(|stride| stride * bits / bits.next_multiple_of(8)).collect());
        }
        let kernel = |op, inputs: Vec<TensorType>, outputs: Vec<TensorType>| {
            Kernel::new("", op, inputs, outputs, |own| {
                (machine.select)(&Signature { memory: signature.memory, ..*own })
            })
        };
        let inputs = product.inputs_of(part);
        let of_part = kernel(product.product.clone(), inputs, vec![product.sums_of(part)]);
        let rest = product.rest.clone().map(|op| {
            let further = signature.inputs[product.inputs.len()..].iter().map(|&ty| ty.clone());
            let inputs = std::iter::once(product.sums.clone()).chain(further).collect();
            kernel(op, inputs, signature.outputs.iter().map(|&ty| ty.clone()).collect())
        });
        Ok(Split {
            loops,
            strides,
            sums: product.sums.clone(),
            part: of_part,
            rest,
            working_memory: machine.working_memory,
            alignment,
        })
    }

    fn summed(&self) -> Option<&Loop> {
        self.loops.last().filter(|inner| inner.summed)
    }

    fn estimate(&self, holds: Holds, product: &ByParts<'_>) -> Estimate {
        let bytes =
            |types: &[TensorType]| types.iter().map(TensorType::element_bytes).sum::<usize>();
        let sums = self.sums.element_bytes();
        let of_part = bytes(&self.part.outputs);
        let own = self.part.scratch_bytes();
        let local_bytes = match holds {
            // Sums beside those that they are added to.
            Holds::Everything => {
                let added = if self.summed().is_some() { of_part } else { 0 };
                bytes(&self.part.inputs) + of_part + added + own
            }
            Holds::WorkingMemory => own,
        };
        // Of each operand, what the loop changes that it does not go along: all of it again.
        let again = |strides: &Vec<usize>| match (&strides[..], &self.loops[..]) {
            (&[_, 0], _) | (&[0], _) => 1,
            (&[0, _], &[outer, _]) => outer.end / outer.step,
            _ => 1,
        };
        let operands = product.inputs.iter().zip(&self.strides);
        let read: usize = operands.map(|(ty, strides)| ty.element_bytes() * again(strides)).sum();
        let results = self.rest.iter().map(|rest| bytes(&rest.outputs)).sum::<usize>();
        Estimate { cost: self.cost(), local_bytes, moved_bytes: read + 2 * sums + results }
    }

    /// Whether every part takes all of an operand of the product.
    fn is_whole(&self, operand: usize) -> bool {
        operand < self.part.inputs.len() && self.strides[operand].iter().all(|&stride| stride == 0)
    }

    fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        std::iter::once(&self.part).chain(&self.rest)
    }

    /// Offsets in the working memory of a part's sums and of the kernels' own, and the bytes of that.
    fn places(&self) -> [usize; 3] {
        let aligned = |ty: &TensorType| ty.element_bytes().next_multiple_of(self.alignment);
        let part = if self.rest.is_some() { aligned(&self.sums) } else { 0 };
        let own = part + if self.summed().is_some() { aligned(&self.part.outputs[0]) } else { 0 };
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
        let mut parameters: Vec<String> = own.iter().map(parameter).collect();
        parameters.extend((self.scratch_bytes() > 0).then(|| "uint8_t *scratch".to_string()));
        let named = |role: Role| {
            let found = own.iter().find(|b| b.role == role);
            found.map_or_else(String::new, |b| identifier(&b.name))
        };
        let sizes = self.loops.iter().map(|l| format!("{} of {} {}s", l.step, l.end, l.name));
        let sizes = sizes.collect::<Vec<_>>().join(", ");
        let what = match self.summed() {
            Some(_) => "added",
            None => "beside each other",
        };
        out.comment(&[format!("In parts of {sizes}, whose sums are {what}.")]);
        out.open_function(&format!("static void {name}({})", parameters.join(", ")));
        let element = element_type(self.sums.element);
        let [of_part, of_kernels, bytes] = self.places();
        let place = |offset: usize| match offset {
            0 => "scratch".to_string(),
            offset => format!("scratch + {offset}"),
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
        if self.summed().is_some() {
            let place = place(of_part);
            out.line(&format!("{element} *const part = ({element} *)(void *)({place});"));
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
        // Where a part of a tensor begins, inside of so many loops.
        let at = |base: &str, tensor: usize, inside: usize| {
            let mut place = base.to_string();
            for (stride, own) in self.strides[tensor].iter().zip(&self.loops).take(inside) {
                match stride {
                    0 => {}
                    1 => place.push_str(&format!(" + {}", own.name)),
                    _ => place.push_str(&format!(" + {} * {stride}", own.name)),
                }
            }
            place
        };
        let product = |inside: usize, sums: &str| {
            call(part, &self.part, &|role| match *role {
                Role::Input(i) => at(&named(Role::Input(i)), i, inside),
                Role::Output(_) => sums.to_string(),
                Role::OutputScale(_) => exponent.clone(),
                ref role => named(role.clone()),
            })
        };
        let open = |own: &Loop, first: usize, out: &mut Lines| {
            let Loop { name, step, end, .. } = own;
            let next = if *step == 1 { format!("{name}++") } else { format!("{name} += {step}") };
            out.open(&format!("for (size_t {name} = {first}; {name} < {end}; {next}) {{"));
        };
        let (all, result) = (self.loops.len(), self.part.inputs.len());
        let outer = all - usize::from(self.summed().is_some());
        for own in &self.loops[..outer] {
            open(own, 0, out);
        }
        match self.summed() {
            None => out.line(&product(all, &at(&sums, result, all))),
            Some(inner) => {
                let total = at(&sums, result, outer);
                out.line(&product(outer, &total));
                open(inner, inner.step, out);
                out.line(&product(all, "part"));
                let count = self.part.outputs[0].count();
                out.open(&format!("for (size_t i = 0; i < {count}; i++) {{"));
                let total = if outer == 0 { total } else { format!("({total})") };
                out.line(&format!(
                    "{total}[i] = (int32_t)((uint32_t){total}[i] + (uint32_t)part[i]);"
                ));
                out.close("}");
                out.close("}");
            }
        }
        for _ in 0..outer {
            out.close("}");
        }
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
    let lowered = lower(kernel);
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
        let parts: usize = self.loops.iter().map(|own| own.end / own.step).product();
        let times = |cost: Cost, n: usize| match cost.cycles() {
            Some(cycles) => Cost::new(cycles.saturating_mul(n as u64)),
            None => Cost::INFEASIBLE,
        };
        let added = self.summed().map_or(0, |own| (own.end / own.step - 1) * self.sums.count());
        let rest = self.rest.as_ref().map_or(Cost::ZERO, |rest| rest.selection.cost());
        let added = Cost::new((added as u64).saturating_mul(ADDITION));
        times(self.part.selection.cost(), parts) + added + rest
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
        self.is_whole(operand).then(|| in_c(&self.part).ok()?.arranged(operand, value))?
    }

    fn emit_arranged(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        self.print(name, kernel, true)
    }

    fn packed(&self) -> Option<(usize, usize)> {
        in_c(&self.part).ok()?.packed().filter(|(operand, _)| self.is_whole(*operand))
    }

    fn places_working_memory(&self) -> bool {
        true
    }
}
