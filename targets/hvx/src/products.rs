//! Which kernels of a program are products of 8-bit integers that [`kernels`](crate::kernels) has, and their glue: a C
//! function that packs weights, calls the assembly and sets the exponent.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use trainc_c::product::{DUE, kept_shift};
use trainc_ir::implementation::Signature;
use trainc_ir::numeric::Rounding;
use trainc_ir::product::{self, Convolution, Narrowing, Numbers, Pass};
use trainc_ir::{Element, Op};

use crate::bands::{self, Bands, Slices};
use crate::glue::{Glue, Printed, packing};
use crate::kernels::{
    Axis, DataObject, DotProduct, Kernel, OuterUpdate, PlaneGradient, PlaneProduct, RowFinish,
    RowProduct, Span, StaticShift, SumProduct, WeightGradient, WeightStrides, WindowProduct,
    convolution, static_convolution,
};
use crate::machine::{Function, MachineError};
use crate::parts;
use crate::select::SelectError;

/// A product with its finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// A sum over windows.
    Windows {
        product: WindowProduct,
        /// Of the weights, operand 1.
        strides: WeightStrides,
        finish: Rounded,
        bands: Option<Bands>,
    },
    /// A sum over windows at stride 1, positions side by side.
    Planes {
        product: PlaneProduct,
        /// Of the weights, operand 1.
        strides: WeightStrides,
        /// Most bits of a result's magnitude, and its lower clamp.
        bits: u8,
        low: i8,
    },
    /// A gradient of weights.
    Gradient {
        gradient: WeightGradient,
        /// Which operand is the forward pass's, and which the error.
        operands: [usize; 2],
        /// Known ahead; otherwise by a run-time width: operand 2.
        shift: Option<StaticShift>,
        bands: Option<Bands>,
    },
    /// Rows times rows.
    Dots {
        product: DotProduct,
        /// Most bits of a result's magnitude, and its lower clamp.
        bits: u8,
        low: i8,
    },
    /// A product of matrices, columns side by side.
    Rows {
        product: RowProduct,
        finish: RowFinish,
        /// As of a gradient; of a product, its operands in order.
        operands: [usize; 2],
    },
    /// A gradient of weights by a run-time width that is subtracted from them.
    Update {
        update: OuterUpdate,
        /// As of a gradient.
        operands: [usize; 2],
    },
    /// A gradient of weights by a run-time width, positions side by side.
    PlaneGradient {
        gradient: PlaneGradient,
        /// As of the other gradient.
        operands: [usize; 2],
    },
    /// One of those that are brought to a width, or, where a step does not look at it, shifted by what operand 2 keeps.
    Kept {
        product: Box<Product>,
        /// Most bits of a result's magnitude.
        bits: u8,
    },
    /// Sums that are not rounded, of any pass.
    Sums {
        product: SumProduct,
        /// What stands for the maps, and what for the weights.
        operands: [usize; 2],
    },
    /// Sums over windows that are not rounded, positions side by side.
    PlaneSums {
        product: PlaneProduct,
        /// Of the weights, operand 1.
        strides: WeightStrides,
    },
    /// A gradient of weights that is not rounded, positions side by side.
    PlaneGradientSums {
        gradient: PlaneGradient,
        /// As of the other gradient.
        operands: [usize; 2],
    },
    /// A gradient of weights that is not rounded.
    GradientSums {
        gradient: WeightGradient,
        /// As of the other gradient.
        operands: [usize; 2],
    },
}

/// What sums over windows are shifted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounded {
    /// What brings them to a width.
    Requantize { bits: u8, low: i8 },
    /// A number known ahead.
    Shift(StaticShift),
}

impl Product {
    /// The product with its finish that a kernel is; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<Product, String>> {
        let product = product::Product::of(signature.ops(), signature.inputs, |_| true)?;
        Some(product.and_then(|product| match product.numbers {
            Numbers::Unsigned if product.finish.is_none() => Product::new(signature, &product),
            _ => Product::new(signature, &product.of_bytes()?),
        }))
    }

    fn new(signature: &Signature<'_>, product: &product::Product) -> Result<Product, String> {
        let c = product.convolution()?;
        if c.groups > 1 {
            return Err("its channels lie in groups".into());
        }
        match &signature.ops()[product.ops..] {
            [] => {}
            [Op::SaturatingSubtractFrom(_)] => return Product::update(&c, product.narrowing()),
            _ => return Err("more than the rounding of its sums follows".into()),
        }
        let windows = |finish| Product::windows(&c, finish);
        let gradient = |shift| Product::gradient(&c, shift);
        let result = match (product.narrowing(), c.pass) {
            (None, _) => return Product::sums(&c, product.numbers == Numbers::Unsigned),
            (Some(Narrowing::Requantize { bits, rounding, low }), Pass::Forward | Pass::Error) => {
                match rounding {
                    Rounding::HalfAway => windows(Rounded::Requantize { bits, low })?,
                    other => return Err(format!("it rounds by {other:?}")),
                }
            }
            (
                Some(Narrowing::Adaptive { bits, rounding: Rounding::HalfAway, low }),
                Pass::Forward | Pass::Error,
            ) => {
                let product = Box::new(windows(Rounded::Requantize { bits, low })?);
                Product::Kept { product, bits }
            }
            (Some(Narrowing::Gradient { rounding }), Pass::Gradient) => match rounding {
                Rounding::PseudoStochastic => gradient(None)?,
                other => return Err(format!("it rounds by {other:?}")),
            },
            (Some(Narrowing::Shift { amount, rounding }), pass) => {
                let shift = StaticShift { amount, rounding };
                match pass {
                    Pass::Gradient => gradient(Some(shift))?,
                    Pass::Forward | Pass::Error => windows(Rounded::Shift(shift))?,
                }
            }
            (Some(_), _) => return Err("another finish goes with such sums".into()),
        };
        let depth = match result.unkept() {
            Product::Kept { .. } => 0,
            Product::Windows { product, .. } => product.depth(),
            Product::Planes { product, .. } => product.depth(),
            Product::Gradient { gradient, .. } => gradient.depth(),
            Product::PlaneGradient { gradient, .. } => gradient.depth(),
            Product::Rows { product, .. } => product.depth,
            Product::Dots { product, .. } => product.channels,
            Product::Update { .. } => 1,
            Product::Sums { product, .. } => product.product.depth(),
            Product::PlaneSums { product, .. } => product.depth(),
            Product::PlaneGradientSums { gradient, .. } => gradient.depth(),
            Product::GradientSums { gradient, .. } => gradient.depth(),
        };
        if result.shift().is_some_and(|shift| !shift.is_supported(depth)) {
            return Err("its shift is too wide for the sums".into());
        }
        Ok(result)
    }

    /// Sums that stay as they are.
    ///
    /// # Errors
    /// Why loops serve.
    pub(crate) fn sums(c: &Convolution, unsigned: bool) -> Result<Product, String> {
        if unsigned && c.swapped {
            return Err("what takes the error's place is u8".into());
        }
        let operands = c.operands();
        let mut reason = "its sums, panels or tables are too large";
        let mut all: Vec<Product> = Vec::new();
        let windows = match c.pass {
            Pass::Gradient => {
                let [vertical, horizontal] = &Span::of(c);
                all.extend(PlaneGradient::new(c).ok().map(|gradient| {
                    let gradient = gradient.of_unsigned(unsigned);
                    Product::PlaneGradientSums { gradient, operands }
                }));
                let size = [c.images, c.channels, c.outputs];
                let gradient = WeightGradient::wide(size, [vertical, horizontal]);
                let gradient = gradient.of_unsigned(unsigned);
                if gradient.has_sums_kernel() {
                    all.push(Product::GradientSums { gradient, operands });
                }
                SumProduct::gradient(size, Span::of(c))
            }
            Pass::Forward | Pass::Error => {
                let ([channels, features], axes, strides) = sides(c);
                all.extend(PlaneProduct::new(c).ok().map(|product| {
                    let product = PlaneProduct { unsigned, ..product };
                    Product::PlaneSums { product, strides }
                }));
                let product = WindowProduct::new(c.images, channels, features, axes);
                product.map(|product| SumProduct::natural(product, strides))
            }
        };
        match windows {
            Ok(sums) => {
                let product = WindowProduct { unsigned, ..sums.product };
                all.push(Product::Sums { product: SumProduct { product, ..sums }, operands });
            }
            Err(why) => reason = why,
        }
        all.into_iter().min_by_key(Glue::packets).ok_or_else(|| reason.into())
    }

    fn windows(c: &Convolution, finish: Rounded) -> Result<Product, String> {
        let ([channels, features], axes, strides) = sides(c);
        let [_, columns] = axes.clone();
        let planes = match finish {
            Rounded::Requantize { bits, low } => PlaneProduct::new(c).ok().map(|product| {
                (product.packets(&strides), Product::Planes { product, strides, bits, low })
            }),
            Rounded::Shift(_) => None,
        };
        let product = match (WindowProduct::new(c.images, channels, features, axes), &planes) {
            (Ok(product), _) => product,
            (Err(_), Some((_, planes))) => return Ok(planes.clone()),
            (Err(reason), None) => return Err(reason.into()),
        };
        let banded = |bands: &Bands| {
            let rows = match c.pass {
                Pass::Error => bands.vertical.error(),
                _ => bands.vertical.forward(),
            };
            WindowProduct::new(c.images * bands.count, channels, features, [rows, columns]).ok()
        };
        let packets = |product: &WindowProduct| product.launch_packets(&strides);
        let (product, bands) = bands::better(c, product, banded, packets);
        let most = packets(&product) + bands.as_ref().map_or(0, Bands::packets);
        if let (Rounded::Requantize { bits, low }, Some(rows)) = (finish, rows(c)) {
            let finish = RowFinish::Requantize { bits, low };
            if rows.packets(finish) < most {
                return Ok(Product::Rows { product: rows, finish, operands: [0, 1] });
            }
        }
        if let (Rounded::Requantize { bits, low }, Some(product)) = (finish, dots(c))
            && product.packets() < most
        {
            return Ok(Product::Dots { product, bits, low });
        }
        if let Some((packets, planes)) = planes
            && packets < most
        {
            return Ok(planes);
        }
        Ok(Product::Windows { product, strides, finish, bands })
    }

    fn gradient(c: &Convolution, shift: Option<StaticShift>) -> Result<Product, String> {
        let [vertical, horizontal] = &Span::of(c);
        let operands = c.operands();
        let planes = match shift {
            None => PlaneGradient::new(c).ok(),
            Some(_) => None,
        };
        let of = |images, vertical: &Span| {
            WeightGradient::of(images, c.channels, c.outputs, [vertical, horizontal])
        };
        let gradient = of(c.images, vertical).ok_or("its sums, panels or tables are too large")?;
        let banded = |bands: &Bands| of(c.images * bands.count, &bands.vertical);
        let packets = WeightGradient::launch_packets;
        let (gradient, bands) = bands::better(c, gradient, banded, packets);
        let most = packets(&gradient) + bands.as_ref().map_or(0, Bands::packets);
        let finish = RowFinish::Gradient;
        if let (None, Some(rows)) = (shift, rows(c))
            && rows.packets(finish) < most
        {
            return Ok(Product::Rows { product: rows, finish, operands });
        }
        if let Some(planes) = planes
            && planes.packets() < most
        {
            return Ok(Product::PlaneGradient { gradient: planes, operands });
        }
        Ok(Product::Gradient { gradient, operands, shift, bands })
    }

    fn update(c: &Convolution, narrowing: Option<Narrowing>) -> Result<Product, String> {
        let rounding = Rounding::PseudoStochastic;
        if narrowing != Some(Narrowing::Gradient { rounding }) {
            return Err("another gradient is subtracted from its weights".into());
        }
        let update = outer(c).ok_or("a gradient of more than one product a weight has sums")?;
        Ok(Product::Update { update, operands: c.operands() })
    }

    /// The product that is rounded by a kept shift; else itself.
    fn unkept(&self) -> &Product {
        match self {
            Product::Kept { product, .. } => product,
            product => product,
        }
    }

    /// The phase of the kernel that returns the bits of the sums' magnitudes.
    fn magnitude_phase(&self) -> usize {
        match self {
            Product::Planes { .. } | Product::Dots { .. } => 1,
            Product::Rows { .. } => 2,
            _ => 3,
        }
    }

    fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        match self {
            Product::Kept { product, .. } => {
                product.kernel(name)?.with_kept_width(product.magnitude_phase())
            }
            Product::Windows { product, finish, .. } => match *finish {
                Rounded::Requantize { bits, low } => convolution(name, product, bits, low),
                Rounded::Shift(shift) => static_convolution(name, product, shift),
            },
            Product::Planes { product, bits, low, .. } => product.kernel(name, *bits, *low),
            Product::Gradient { gradient, shift: Some(shift), .. } => {
                gradient.static_kernel(name, *shift)
            }
            Product::Gradient { gradient, .. } => gradient.kernel(name),
            Product::PlaneGradient { gradient, .. } => gradient.kernel(name),
            Product::Rows { product, finish, .. } => product.kernel(name, *finish),
            Product::Update { update, .. } => update.kernel(name),
            Product::Dots { product, bits, low } => product.kernel(name, *bits, *low),
            Product::Sums { product, .. } => product.kernel(name),
            Product::PlaneSums { product, .. } => product.sums_kernel(name),
            Product::PlaneGradientSums { gradient, .. } => gradient.sums_kernel(name),
            Product::GradientSums { gradient, .. } => gradient.sums_kernel(name),
        }
    }

    /// The shift, if it is known ahead.
    fn shift(&self) -> Option<StaticShift> {
        match self {
            Product::Windows { finish: Rounded::Shift(shift), .. } => Some(*shift),
            Product::Windows { .. }
            | Product::Planes { .. }
            | Product::Rows { .. }
            | Product::Dots { .. }
            | Product::Kept { .. }
            | Product::Sums { .. }
            | Product::PlaneSums { .. }
            | Product::PlaneGradientSums { .. }
            | Product::GradientSums { .. }
            | Product::Update { .. }
            | Product::PlaneGradient { .. } => None,
            Product::Gradient { shift, .. } => *shift,
        }
    }

    fn bands(&self) -> Option<&Bands> {
        match self {
            Product::Windows { bands, .. } | Product::Gradient { bands, .. } => bands.as_ref(),
            Product::Kept { product, .. } => product.bands(),
            Product::Planes { .. }
            | Product::Dots { .. }
            | Product::Rows { .. }
            | Product::Sums { .. }
            | Product::PlaneSums { .. }
            | Product::PlaneGradientSums { .. }
            | Product::GradientSums { .. }
            | Product::Update { .. }
            | Product::PlaneGradient { .. } => None,
        }
    }

    /// Where the working memory holds, behind packed weights, bands of the operand, then those of the result or the
    /// other operand, and at last the kernel's own part.
    fn places(&self) -> [usize; 3] {
        let weights = match self {
            Product::Windows { product, .. } => product.weight_bytes().next_multiple_of(128),
            Product::Planes { product, .. } | Product::PlaneSums { product, .. } => {
                product.weight_bytes()
            }
            Product::Sums { product, .. } => product.product.weight_bytes().next_multiple_of(128),
            Product::Kept { product, .. } => return product.places(),
            Product::Gradient { .. }
            | Product::Dots { .. }
            | Product::Rows { .. }
            | Product::Update { .. }
            | Product::PlaneGradientSums { .. }
            | Product::GradientSums { .. }
            | Product::PlaneGradient { .. } => 0,
        };
        // Packing reads up to 127 bytes beyond an operand.
        let size = |slices: &Slices| (slices.bytes() + 127).next_multiple_of(128);
        let [operand, divided] =
            self.bands().map_or([0, 0], |b| [size(&b.operand), size(&b.divided)]);
        [weights, weights + operand, weights + operand + divided]
    }

    /// Declares the bands and divides the operand `x` and, of a gradient, the error.
    fn split(&self, bands: &Bands, x: usize, error: Option<usize>) -> String {
        let [operand, divided, _] = self.places();
        let mut text = String::new();
        for (name, slices) in [("operand", &bands.operand), ("divided", &bands.divided)] {
            let fields = slices.fields();
            let _ = writeln!(
                text,
                "    static const struct trainc_hvx_bands {name} =\n        {fields};"
            );
        }
        for (name, x, at) in [("operand", Some(x), operand), ("divided", error, divided)] {
            if let Some(x) = x {
                let to = format!("(int8_t *)scratch + {at}");
                let _ = writeln!(text, "    trainc_hvx_split(&{name}, x{x}, {to});");
            }
        }
        text
    }
}

impl Product {
    /// The type of the operand's elements, where sums stay as they are.
    fn element(&self) -> &'static str {
        let unsigned = match self {
            Product::Sums { product, .. } => product.product.unsigned,
            Product::PlaneSums { product, .. } => product.unsigned,
            Product::PlaneGradientSums { gradient, .. } => gradient.is_unsigned(),
            Product::GradientSums { gradient, .. } => gradient.unsigned,
            _ => false,
        };
        if unsigned { "uint8_t" } else { "int8_t" }
    }

    /// The C function of sums that stay as they are, of packed weights.
    fn packed_sums(&self, name: &str, own: &str, head: &str, [x, w]: [usize; 2]) -> String {
        let (element, [.., own_at]) = (self.element(), self.places());
        let pack = format!("{name}_pack_weights");
        let packed = format!("{pack}(x{w}, packed, scratch + {own_at})");
        let packed = self.packed().map_or(String::new(), |of| packing(name, of, &packed));
        format!(
            "void {pack}(const int8_t *weights, uint8_t *packed, uint8_t *scratch);\n\
             void {own}(const {element} *x, const uint8_t *weights, int32_t *y,\n    \
             uint8_t *scratch);\n\n\
             {head}\n{{\n{packed}    \
             {own}(x{x}, packed, y0, scratch + {own_at});\n    \
             y0_exponent[0] = trainc_add32(x0_exponent[0], x1_exponent[0]);\n}}\n"
        )
    }
}

impl Glue for Product {
    const NAME: &str = "window products";

    fn packets(&self) -> u64 {
        let bands = self.bands().map_or(0, Bands::packets);
        let packets = match self {
            Product::Kept { product, .. } => return Glue::packets(&**product),
            Product::Planes { product, strides, .. } => product.packets(strides),
            Product::PlaneGradient { gradient, .. } => gradient.packets(),
            Product::Rows { product, finish, .. } => product.packets(*finish),
            Product::Dots { product, .. } => product.packets(),
            Product::Update { update, .. } => update.packets(),
            // More than with the rounding that may follow, so that the two stay one kernel.
            Product::Sums { product, .. } => product.packets(),
            Product::PlaneSums { product, strides } => product.sums_packets(strides),
            Product::PlaneGradientSums { gradient, .. } => gradient.sums_packets(),
            Product::GradientSums { gradient, .. } => gradient.sums_packets(),
            Product::Windows { product, strides, .. } => product.launch_packets(strides),
            Product::Gradient { gradient, .. } => gradient.launch_packets(),
        };
        (packets + bands) as u64
    }

    fn aligned_elements(&self) -> &'static [Element] {
        match self.unkept() {
            Product::Sums { .. }
            | Product::PlaneSums { .. }
            | Product::PlaneGradientSums { .. }
            | Product::GradientSums { .. } => &[Element::I8, Element::U8, Element::I32],
            _ => &[Element::I8],
        }
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        let packing = match self.unkept() {
            Product::Planes { product, .. } | Product::PlaneSums { product, .. } => {
                product.packing_bytes()
            }
            Product::Windows { product, strides, .. } => product.packing_bytes(strides),
            Product::Sums { product, .. } => product.product.packing_bytes(&product.weights),
            _ => 0,
        };
        Ok(self.places()[2] + self.kernel("kernel")?.scratch_bytes.max(packing))
    }

    fn packed(&self) -> Option<(usize, usize)> {
        match self.unkept() {
            Product::Windows { .. } | Product::Planes { .. } | Product::PlaneSums { .. } => {
                Some((1, self.places()[0]))
            }
            Product::Sums { operands: [_, w], .. } => Some((*w, self.places()[0])),
            _ => None,
        }
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
        let own = format!("{name}_product");
        let mut kernel = self.kernel(&own)?;
        let mut functions: Vec<Function> = kernel.functions().cloned().collect();
        let (entry, mut source) = parts::entry(&kernel, self.packets())?;
        functions.push(entry);
        let (result, exponent) = match self.shift() {
            Some(StaticShift { amount, .. }) => ("void", format!("{amount}")),
            None => ("int32_t", "shift".to_string()),
        };
        let set = if self.shift().is_some() { "" } else { "const int32_t shift =\n        " };
        let exponent = format!(
            "y0_exponent[0] = trainc_add32(trainc_add32(x0_exponent[0], x1_exponent[0]), {exponent});"
        );
        let [operand_at, divided_at, own_at] = self.places();
        let place = |at: usize| format!("(int8_t *)scratch + {at}");
        // The width that is kept, as the bits of a magnitude.
        let (width, kept, keep) = match self {
            Product::Kept { bits, .. } => (
                " uint32_t width,\n   ",
                ", width",
                format!(
                    "    const uint32_t kept = (uint32_t)({});\n    \
                     const uint32_t width = {DUE} ? 0 : UINT32_C(1) << (kept + {});\n",
                    kept_shift(*bits),
                    bits - 1
                ),
            ),
            _ => ("", "", String::new()),
        };
        let packed = |pack: &str| self.packed().map_or(String::new(), |of| packing(name, of, pack));
        match self.unkept() {
            Product::Kept { .. } => {}
            Product::Windows { product, strides, bands, .. } => {
                let (split, x, y, join) = match bands {
                    None => (String::new(), "x0".to_string(), "y0".to_string(), String::new()),
                    Some(bands) => (
                        self.split(bands, 0, None),
                        place(operand_at),
                        place(divided_at),
                        format!("trainc_hvx_join(&divided, {}, y0);\n    ", place(divided_at)),
                    ),
                };
                let pack = format!("{name}_pack_weights");
                let (function, table) = product.pack_weights(&pack, strides)?;
                functions.push(function);
                kernel.data.extend(table);
                let packed = packed(&format!("{pack}(x1, packed, scratch + {own_at})"));
                let _ = write!(
                    source,
                    "void {pack}(const int8_t *weights, uint8_t *packed, uint8_t *scratch);\n\
                     {result} {own}(const int8_t *x, const uint8_t *weights, int8_t *y,\n   {width} uint8_t *scratch);\n\n\
                     {head}\n{{\n{keep}{split}{packed}    \
                     {set}{own}({x}, packed, {y}{kept}, scratch + {own_at});\n    \
                     {join}{exponent}\n}}\n"
                );
            }
            Product::Sums { product: SumProduct { product, weights, .. }, operands } => {
                let pack = format!("{name}_pack_weights");
                let (function, table) = product.pack_weights(&pack, weights)?;
                functions.push(function);
                kernel.data.extend(table);
                source.push_str(&self.packed_sums(name, &own, head, *operands));
            }
            Product::PlaneSums { product, strides } => {
                let pack = format!("{name}_pack_weights");
                let (function, table) = product.pack_weights(&pack, strides)?;
                functions.push(function);
                kernel.data.extend(table);
                source.push_str(&self.packed_sums(name, &own, head, [0, 1]));
            }
            Product::PlaneGradientSums { operands: [x, dy], .. }
            | Product::GradientSums { operands: [x, dy], .. } => {
                let element = self.element();
                let _ = write!(
                    source,
                    "void {own}(const {element} *x, const int8_t *dy, int32_t *dw,\n    \
                     uint8_t *scratch);\n\n\
                     {head}\n{{\n    {own}(x{x}, x{dy}, y0, scratch);\n    \
                     y0_exponent[0] = trainc_add32(x0_exponent[0], x1_exponent[0]);\n}}\n"
                );
            }
            Product::Planes { product, strides, .. } => {
                let pack = format!("{name}_pack_weights");
                let (function, table) = product.pack_weights(&pack, strides)?;
                functions.push(function);
                kernel.data.extend(table);
                let packed = packed(&format!("{pack}(x1, packed, scratch + {own_at})"));
                let _ = write!(
                    source,
                    "void {pack}(const int8_t *weights, uint8_t *packed, uint8_t *scratch);\n\
                     {result} {own}(const int8_t *x, const uint8_t *weights, int8_t *y,\n   {width} uint8_t *scratch);\n\n\
                     {head}\n{{\n{keep}{packed}    \
                     {set}{own}(x0, packed, y0{kept}, scratch + {own_at});\n    \
                     {exponent}\n}}\n"
                );
            }
            Product::Dots { .. } | Product::Rows { finish: RowFinish::Requantize { .. }, .. } => {
                let _ = write!(
                    source,
                    "{result} {own}(const int8_t *x, const int8_t *weights, int8_t *y,\n   {width} uint8_t *scratch);\n\n\
                     {head}\n{{\n{keep}    {set}{own}(x0, x1, y0{kept}, scratch);\n    {exponent}\n}}\n"
                );
            }
            Product::Update { operands: [x, dy], .. } => {
                let _ = write!(
                    source,
                    "{result} {own}(const int8_t *x, const int8_t *dy, const int32_t *bits,\n    \
                     const int8_t *w, int8_t *y, uint8_t *scratch);\n\n\
                     {head}\n{{\n    (void){own}(x{x}, x{dy}, x2, x3, y0, scratch);\n    \
                     y0_exponent[0] = x3_exponent[0];\n}}\n"
                );
            }
            Product::Rows { operands: [x, dy], .. }
            | Product::PlaneGradient { operands: [x, dy], .. } => {
                let _ = write!(
                    source,
                    "{result} {own}(const int8_t *x, const int8_t *dy, const int32_t *bits,\n    \
                     int8_t *dw, uint8_t *scratch);\n\n\
                     {head}\n{{\n    {set}{own}(x{x}, x{dy}, x2, y0, scratch);\n    {exponent}\n}}\n"
                );
            }
            Product::Gradient { operands: [x, dy], shift, bands, .. } => {
                let (split, x, dy, own_place) = match bands {
                    None => (String::new(), format!("x{x}"), format!("x{dy}"), "scratch".into()),
                    Some(bands) => (
                        self.split(bands, *x, Some(*dy)),
                        place(operand_at),
                        place(divided_at),
                        format!("scratch + {own_at}"),
                    ),
                };
                let (bits, width) = match shift {
                    Some(_) => ("", ""),
                    None => (" const int32_t *bits,\n   ", " x2,"),
                };
                let _ = write!(
                    source,
                    "{result} {own}(const int8_t *x, const int8_t *dy,{bits} \
                     int8_t *dw, uint8_t *scratch);\n\n\
                     {head}\n{{\n{split}    \
                     {set}{own}({x}, {dy},{width} y0, {own_place});\n    \
                     {exponent}\n}}\n"
                );
            }
        }
        let tables = kernel.data.iter().map(DataObject::assembly).collect();
        Ok(Printed { functions, tables, source, routines: BTreeSet::new() })
    }
}

/// Channels and features, the axes and the strides of the weights of a sum over windows.
pub(crate) fn sides(c: &Convolution) -> ([usize; 2], [Axis; 2], WeightStrides) {
    let taps = c.tap_count();
    let [vertical, horizontal] = Span::of(c);
    match c.pass {
        Pass::Error => (
            [c.outputs, c.channels],
            [vertical.error(), horizontal.error()],
            WeightStrides { feature: taps, channel: c.channels * taps, tap: 1 },
        ),
        _ => (
            [c.channels, c.outputs],
            [vertical.forward(), horizontal.forward()],
            WeightStrides { feature: c.channels * taps, channel: taps, tap: 1 },
        ),
    }
}

/// A fully connected layer as rows times rows.
fn dots(c: &Convolution) -> Option<DotProduct> {
    let one = c.plane() == 1 && c.places() == 1 && c.tap_count() == 1;
    if !one || c.pass != Pass::Forward {
        return None;
    }
    let (images, channels, features) = (c.images, c.channels, c.outputs);
    let product = DotProduct { images, channels, features };
    product.is_supported().then_some(product)
}

/// A gradient of a fully connected layer as a product of matrices.
fn rows(c: &Convolution) -> Option<RowProduct> {
    if c.plane() != 1 || c.places() != 1 || c.tap_count() != 1 {
        return None;
    }
    let (rows, depth, across) = match c.pass {
        Pass::Forward => return None,
        Pass::Error => (c.images, c.outputs, false),
        Pass::Gradient => (c.outputs, c.images, true),
    };
    let product = RowProduct { rows, depth, columns: c.channels, across };
    product.is_supported().then_some(product)
}

/// An update of a fully connected layer's weights by one image.
fn outer(c: &Convolution) -> Option<OuterUpdate> {
    let one = c.plane() == 1 && c.places() == 1 && c.tap_count() == 1 && c.images == 1;
    if !one || c.pass != Pass::Gradient {
        return None;
    }
    let update = OuterUpdate { rows: c.outputs, columns: c.channels };
    update.is_supported().then_some(update)
}
