//! Elementwise functions by tables: the assembly that looks codes up, and the C function that sets the exponent.

use std::collections::BTreeSet;

use trainc_ir::implementation::Signature;
use trainc_ir::{Element, Op};

use crate::glue::{Glue, Printed};
use crate::kernels::ByteTable;
use crate::kernels::lookup::LOOKUPS;
use crate::machine::MachineError;
use crate::select::SelectError;

/// Packets of a call, with the masked store of its last codes.
const CALL: u64 = 40;

/// A `lookup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableLookup(ByteTable);

impl TableLookup {
    /// The lookup that a kernel is; `None` if it is none.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<TableLookup, String>> {
        let Signature { op, inputs, .. } = *signature;
        let Op::Lookup(_) = op else { return None };
        let codes = inputs.get(1)?;
        let table = ByteTable { codes: codes.count(), signed: codes.element == Element::I8 };
        let few = || "its codes are less than half a vector".to_string();
        Some(table.is_supported().then_some(TableLookup(table)).ok_or_else(few))
    }
}

impl Glue for TableLookup {
    const NAME: &str = "lookups";

    fn packets(&self) -> u64 {
        CALL + (self.0.vectors() * (LOOKUPS + 1)) as u64
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(0)
    }

    fn aligned_elements(&self) -> &'static [Element] {
        &[Element::I8, Element::U8]
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
        let own = format!("{name}_lookup");
        let function = self.0.function(&own)?;
        let source = format!(
            "void {own}(const void *entries, const void *codes, void *results);\n\n{head}\n{{\n    {own}(x0, x1, y0);\n    \
             y0_exponent[0] = x0_exponent[0];\n}}\n"
        );
        Ok(Printed {
            functions: vec![function],
            tables: String::new(),
            source,
            routines: BTreeSet::new(),
        })
    }
}
