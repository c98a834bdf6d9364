//! Sums of narrow integers with their output stage: additions of two values, and sums over windows, channels last: four
//! channels at a time.

use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::ops::IntegerSumPool2d;
use trainc_ir::program::Kernel;
use trainc_ir::{Element, Op, TensorType};

use super::convolution::{Stage, bits, is_known, is_signed};
use super::direct;
use super::packed::{lane, load, offset, store};
use super::stage::Clamp;
use super::text::Text;
use super::window::Windows;

/// Channels at a time.
const LANES: usize = 4;

#[derive(Debug)]
enum Head {
    /// Factors and elements of the two operands, and the number of places.
    Add {
        factors: [i32; 2],
        elements: [Element; 2],
        places: usize,
    },
    Pool {
        op: IntegerSumPool2d,
        windows: Windows,
        element: Element,
    },
}

/// An addition or a sum pool.
#[derive(Debug)]
pub(crate) struct Sum {
    head: Head,
    stage: Stage,
    channels: usize,
    y: Element,
    results: usize,
}

impl Sum {
    /// The name for readers.
    pub(crate) const NAME: &str = "sums of four channels";

    /// The sum that a kernel is, alone or with one output stage; `None` if it is none of plain integers.
    ///
    /// # Errors
    /// Why there is no kernel for it.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Sum, String>> {
        let (head, rest) = signature.ops().split_first()?;
        let operands = match head {
            Op::IntegerAdd(_) => 2,
            Op::IntegerSumPool2d(_) => 1,
            _ => return None,
        };
        let (x, y) = (*signature.inputs.first()?, *signature.outputs.first()?);
        Some(Sum::new(head, rest, signature.inputs, operands, [x, y]))
    }

    fn new(
        head: &Op,
        rest: &[Op],
        inputs: &[&TensorType],
        operands: usize,
        [x, y]: [&TensorType; 2],
    ) -> Result<Sum, String> {
        let further = inputs.get(operands..).filter(|_| rest.len() < 2);
        let stage = further.and_then(|further| Stage::of(rest.first(), further));
        let stage = stage.ok_or("more than an output stage follows")?;
        if !inputs[..operands].iter().all(|ty| is_known(ty.element)) {
            return Err("its operands are wider than a byte".into());
        }
        let mut channels = x.shape.dims().last().copied().unwrap_or(1);
        let large = || "its offsets exceed 32 bits".to_string();
        let head = match head {
            Op::IntegerAdd(add) => {
                if stage == Stage::Sums {
                    channels = LANES;
                }
                if x.count() == 0 || x.count() >= 1 << 28 {
                    return Err(large());
                }
                if !x.count().is_multiple_of(channels) {
                    return Err("its elements fill no words".into());
                }
                let elements = [x.element, inputs[1].element];
                Head::Add { factors: add.factors, elements, places: x.count() / channels }
            }
            Op::IntegerSumPool2d(op) => {
                let windows = Windows::new([op.kernel, op.strides], op.pads, [x, y]);
                let windows = windows.ok_or_else(large)?;
                Head::Pool { op: op.clone(), windows, element: x.element }
            }
            _ => return Err("it is no sum".into()),
        };
        if !is_known(y.element) && y.element != Element::I32 {
            return Err(format!("its result is {}", y.element));
        }
        if !channels.is_multiple_of(LANES) {
            return Err("its channels are no multiple of 4".into());
        }
        Ok(Sum { head, stage, channels, y: y.element, results: y.count() })
    }

    /// Bytes of `channels` elements.
    fn place(&self, element: Element) -> usize {
        self.channels * bits(element) / 8
    }

    fn functions(&self, name: &str, kernel: &Kernel) -> String {
        let mut out = Text::default();
        let (body, count) = match &self.head {
            Head::Add { places, .. } => ("places", *places),
            Head::Pool { windows, .. } => ("rows", windows.batch * windows.output[0]),
        };
        let what =
            if body == "rows" { "Rows begin..end of all images" } else { "Places begin..end" };
        out.line(format!("/* {what} of `{name}`. */"));
        out.line(format!("static void {name}_{body}(void *context, int32_t begin, int32_t end)"));
        out.open("{");
        out.line("const struct trainc_mixed_work *const work = context;");
        let operands = match &self.stage {
            Stage::Sums => &[][..],
            Stage::Threshold { flips: false, .. } => &["first"],
            _ => &["first", "second"],
        };
        for operand in operands {
            out.line(format!(
                "const int32_t *const {operand} = (const int32_t *)(const void *)work->{operand};"
            ));
        }
        match &self.head {
            Head::Add { factors, elements, .. } => self.add(*factors, *elements, &mut out),
            Head::Pool { op, windows, element } => self.pool(op, windows, *element, &mut out),
        }
        out.close();
        out.line("");
        out.line(direct::prototype(name, kernel, false));
        out.open("{");
        out.line("struct trainc_mixed_work all = {0};");
        let heads: &[&str] = if body == "rows" { &["x"] } else { &["x", "other"] };
        for (i, field) in heads.iter().chain(operands).enumerate() {
            out.line(format!("all.{field} = (const uint8_t *)x{i};"));
        }
        out.line("all.y = (uint8_t *)y0;");
        out.line(format!("TRAINC_PARALLEL_FOR(&all, {count}, {name}_{body});"));
        out.close();
        out.finish()
    }

    /// Four channels of all places, then the next four: their stage's operands stay in registers.
    fn add(&self, factors: [i32; 2], elements: [Element; 2], out: &mut Text) {
        let used: Vec<usize> = (0..2).filter(|&i| factors[i] != 0).collect();
        let all = [("a", "x", elements[0]), ("b", "other", elements[1])];
        for &i in used.iter().filter(|&&i| factors[i] != 1) {
            let (name, factor) = (all[i].0, factors[i] as u32);
            out.line(format!("const uint32_t {name}_factor = UINT32_C({factor:#010x});"));
        }
        out.open(format!(
            "for (int32_t channel = 0; channel < {}; channel += {LANES}) {{",
            self.channels
        ));
        self.stage_operands(out);
        let from = |element: Element| {
            format!("begin * {} + {}", self.place(element), offset("channel", element))
        };
        for &i in &used {
            let (name, field, element) = all[i];
            out.line(format!("const uint8_t *{name} = work->{field} + {};", from(element)));
        }
        out.line(format!("uint8_t *y = work->y + {};", from(self.y)));
        out.open("for (int32_t place = begin; place < end; place++) {");
        for &i in &used {
            let (name, _, element) = all[i];
            let word = load(name, LANES * bits(element) / 8);
            out.line(format!("const uint32_t word_{name} = {word};"));
        }
        for i in 0..LANES {
            let lanes = used.iter().map(|&operand| {
                let (name, _, element) = all[operand];
                format!("{name}{i} = {}", lane(&format!("word_{name}"), element, i))
            });
            let lanes: Vec<String> = lanes.collect();
            if !lanes.is_empty() {
                out.line(format!("const uint32_t {};", lanes.join(", ")));
            }
            let mut sum = String::from("0");
            for (n, &operand) in used.iter().enumerate() {
                let name = all[operand].0;
                sum = match (n, factors[operand]) {
                    (0, 1) => format!("{name}{i}"),
                    (0, _) => format!("{name}{i} * {name}_factor"),
                    (_, 1) => format!("{sum} + {name}{i}"),
                    _ => format!("trainc_xpulp_mac({sum}, {name}{i}, {name}_factor)"),
                };
            }
            out.line(format!("const uint32_t sum{i} = {sum};"));
        }
        self.results("y", out);
        for &i in &used {
            let (name, _, element) = all[i];
            out.line(format!("{name} += {};", self.place(element)));
        }
        out.line(format!("y += {};", self.place(self.y)));
        out.close();
        out.close();
    }

    fn pool(&self, op: &IntegerSumPool2d, windows: &Windows, element: Element, out: &mut Text) {
        let bytes = self.place(element);
        windows.open([bytes, self.place(self.y)], out);
        let padded = op.padding != 0 && op.pads != [0; 4];
        if padded {
            out.line("/* What the places outside add. */");
            out.line(format!(
                "const uint32_t outside = (uint32_t)({} - (row_end - row_start) * (column_end - column_start)) * UINT32_C({:#x});",
                windows.taps(),
                op.padding as u32
            ));
        }
        out.open(format!(
            "for (int32_t channel = 0; channel < {}; channel += {LANES}) {{",
            self.channels
        ));
        let first = if padded { "outside" } else { "0" };
        let sums: Vec<String> = (0..LANES).map(|i| format!("sum{i} = {first}")).collect();
        out.line(format!("uint32_t {};", sums.join(", ")));
        windows.open_window(bytes, &offset("channel", element), out);
        out.line(format!("const uint32_t word = {};", load("at", LANES * bits(element) / 8)));
        for i in 0..LANES {
            if bits(element) == 8 {
                // A product with a single 1 adds one byte.
                let dot = if is_signed(element) { "sdotsp_b" } else { "sdotup_b" };
                let one = format!("UINT32_C({:#x})", 1u32 << (8 * i));
                out.line(format!("sum{i} = trainc_xpulp_{dot}(sum{i}, word, {one});"));
            } else {
                out.line(format!("sum{i} += {};", lane("word", element, i)));
            }
        }
        windows.close_window(bytes, out);
        self.stage_operands(out);
        out.line(format!("uint8_t *const to = y + {};", offset("channel", self.y)));
        self.results("to", out);
        out.close();
        out.close();
        out.close();
    }

    /// Declares the stage's operands of four channels.
    fn stage_operands(&self, out: &mut Text) {
        let vector = |name: &str, from: &str, out: &mut Text| {
            let one = |i: usize| match i {
                0 => format!("{name}0 = {from}[channel]"),
                _ => format!("{name}{i} = {from}[channel + {i}]"),
            };
            let all: Vec<String> = (0..LANES).map(one).collect();
            out.line(format!("const int32_t {};", all.join(", ")));
        };
        match &self.stage {
            Stage::Sums => {}
            Stage::ScaleShift(_) => {
                vector("scale", "first", out);
                vector("offset", "second", out);
            }
            Stage::Threshold { levels, flips, .. } => {
                out.line(format!("const int32_t *const rows = first + channel * {levels};"));
                if *flips {
                    vector("flip", "second", out);
                }
            }
        }
    }

    /// Makes results of `sum0` to `sum3`, and stores them at a place.
    fn results(&self, place: &str, out: &mut Text) {
        let width = bits(self.y);
        for i in 0..LANES {
            let value = match &self.stage {
                Stage::Sums => break,
                Stage::ScaleShift(s) => {
                    let shifted =
                        format!("trainc_mixed_shifted(sum{i}, scale{i}, offset{i}, {})", s.shift);
                    match Clamp::new(s.low, s.high) {
                        Clamp::Signed(n) => format!("trainc_xpulp_clip({shifted}, {n})"),
                        Clamp::Unsigned(n) => format!("trainc_xpulp_clipu({shifted}, {n})"),
                        Clamp::Between(low, high) => format!(
                            "trainc_xpulp_min(trainc_xpulp_max({shifted}, UINT32_C({:#x})), UINT32_C({:#x}))",
                            low as u32, high as u32
                        ),
                    }
                }
                Stage::Threshold { threshold, levels, flips } => {
                    let flip = if *flips { format!(" ^ flip{i}") } else { String::new() };
                    let rows = match i * levels {
                        0 => "rows".to_string(),
                        first => format!("rows + {first}"),
                    };
                    let count = match levels {
                        3 | 15 => {
                            format!("trainc_mixed_threshold{levels}((int32_t)sum{i}{flip}, {rows})")
                        }
                        _ => format!(
                            "(uint32_t)trainc_mixed_threshold((int32_t)sum{i}{flip}, {rows}, {levels})"
                        ),
                    };
                    match threshold.low {
                        0 => count,
                        low => format!("{count} + UINT32_C({:#x})", low as u32),
                    }
                }
            };
            out.line(format!("const uint32_t value{i} = {value};"));
        }
        match width {
            32 => {
                for i in 0..LANES {
                    out.line(format!("trainc_xpulp_store({place} + {}, sum{i});", 4 * i));
                }
            }
            8 => {
                out.line("const uint32_t low = trainc_xpulp_packlo_b(0, value1, value0);");
                out.line(store(place, "trainc_xpulp_packhi_b(low, value3, value2)", 4));
            }
            _ => {
                out.line("uint32_t packed = value0;");
                for i in 1..LANES {
                    out.line(format!(
                        "packed = trainc_xpulp_insert(packed, value{i}, {width}, {});",
                        i * width
                    ));
                }
                out.line(store(place, "packed", LANES * width / 8));
            }
        }
    }

    /// Cycles of a result's output stage.
    fn stage_cycles(&self) -> u64 {
        match &self.stage {
            Stage::Sums => 1,
            Stage::ScaleShift(_) => 5,
            Stage::Threshold { levels, .. } => 6 * u64::from(usize::BITS - levels.leading_zeros()),
        }
    }
}

impl Implementation for Sum {
    fn name(&self) -> &'static str {
        Sum::NAME
    }

    fn cost(&self) -> Cost {
        let of_sum = match &self.head {
            Head::Add { .. } => 6,
            Head::Pool { windows, element, .. } => {
                let taps = windows.taps() as u64;
                if bits(*element) == 8 { taps * 3 / 2 + 4 } else { taps * 5 / 2 + 2 }
            }
        };
        Cost::new(self.results as u64 * (of_sum + self.stage_cycles()))
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Sum {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        Ok(self.functions(name, kernel).into())
    }
}
