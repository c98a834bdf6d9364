//! Elementwise functions by tables of 256 bytes (`support/trainc_neon_lookup.h`), in place of loops that look up one code at a time.

use trainc_c::text::Text;
use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;
use trainc_ir::types::Element;

use crate::level::Level;
use crate::products::parts::{PARTS, Parts, own};

/// Codes of a round.
const ROUND: usize = 64;
/// Rounds that are worth a part of their own.
const PART: usize = 1 << 8;
/// Instructions of a call, of a round, of 16 codes behind the last, and of a code behind these.
const CALL: u64 = 30;
const CODES: u64 = 40;
const SIXTEEN: u64 = 13;
const CODE: u64 = 6;

/// A `lookup`.
#[derive(Debug)]
pub(crate) struct Lookup {
    count: usize,
    /// Of entries and of codes.
    entries: Element,
    codes: Element,
}

impl Lookup {
    /// The name for readers.
    pub(crate) const NAME: &str = "tables of bytes";

    /// The lookup that a kernel is; `None` if it is something else, or too small.
    pub(crate) fn of(level: Level, signature: &Signature<'_>) -> Option<Lookup> {
        let [Op::Lookup(_)] = signature.ops() else { return None };
        let &[table, x] = signature.inputs else { return None };
        let count = x.count();
        let fits = level != Level::Armv7 && (ROUND / 4..1 << 30).contains(&count);
        fits.then_some(Lookup { count, entries: table.element, codes: x.element })
    }

    fn rounds(&self) -> usize {
        self.count.div_ceil(ROUND)
    }

    /// How many parts of rounds may run at a time.
    fn parts(&self) -> usize {
        (self.rounds() / PART).clamp(1, PARTS)
    }
}

impl Implementation for Lookup {
    fn name(&self) -> &'static str {
        Lookup::NAME
    }

    fn cost(&self) -> Cost {
        let [rounds, rest] = [self.count / ROUND, self.count % ROUND].map(|n| n as u64);
        Cost::new(CALL + CODES * rounds + SIXTEEN * (rest / 16) + CODE * (rest % 16))
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Lookup {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let Lookup { count, entries, codes } = *self;
        let entry = if entries == Element::U8 { "uint8_t *" } else { "int8_t *" };
        let [table, code] = [entries, codes].map(|element| match element {
            Element::U8 => "const uint8_t *",
            _ => "const int8_t *",
        });
        let signed = i32::from(codes != Element::U8);
        let all = self.parts();
        let mut parts = Parts::new(name);
        let mut out = Text::default();
        out.long(format!(
            "static void {name}({table}x0, const int32_t *x0_exponent, {code}x1, const int32_t *x1_exponent, {entry}y0, int32_t *y0_exponent)"
        ));
        out.open("{");
        out.line("(void)x1_exponent;");
        out.line("y0_exponent[0] = x0_exponent[0];");
        let call = |first: &str, count: &str| {
            format!(
                "trainc_lookups((const uint8_t *)x0, (const uint8_t *)x1{first}, {count}, {signed}, (uint8_t *)y0{first});"
            )
        };
        if all == 1 {
            out.long(call("", &count.to_string()));
        } else {
            let taken = [own(table, "x0"), own(code, "x1"), own(entry, "y0")];
            let rounds = self.rounds();
            parts.run(&mut out, all, &taken, |out| {
                out.line(format!("const int32_t first = begin * {rounds} / {all} * {ROUND};"));
                out.long(format!(
                    "const int32_t last = trainc_minimum32(end * {rounds} / {all} * {ROUND}, {count});"
                ));
                out.long(call(" + first", "last - first"));
            });
        }
        out.close();
        Ok(Emitted::from(parts.finish() + &out.finish()))
    }
}
