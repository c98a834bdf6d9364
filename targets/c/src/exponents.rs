//! Exponents lie behind their elements: a kernel that a program launches gets one pointer for both, and finds the exponent there.

use trainc_ir::loops::{BufferParameter, Role};
use trainc_ir::program::{Kernel, scale_offset};

use crate::kernel::lower;
use crate::layout::Lines;

/// A kernel's function as a program launches it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KernelFunction {
    /// Its name.
    pub(crate) name: String,
    /// Whether it finds exponents behind the elements; else each is an argument of its own.
    pub(crate) finds_exponents: bool,
}

impl KernelFunction {
    /// Whether a buffer of its kernel is among its arguments, working memory apart.
    pub(crate) fn takes(&self, role: &Role) -> bool {
        match role {
            Role::Scratch => false,
            Role::InputScale(_) | Role::OutputScale(_) => !self.finds_exponents,
            Role::Input(_) | Role::Output(_) | Role::RunContext => true,
        }
    }
}

/// A parameter as it is printed: `const int8_t *x0`.
struct Parameter<'t> {
    text: &'t str,
    name: &'t str,
}

impl<'t> Parameter<'t> {
    /// One that is a pointer.
    fn of(text: &'t str) -> Option<Parameter<'t>> {
        let text = text.trim();
        Some(Parameter { text, name: text.rsplit_once('*')?.1 })
    }

    /// What it points to.
    fn pointee(&self) -> &'t str {
        self.text[..self.text.len() - self.name.len()].trim_end_matches(['*', ' '])
    }
}

/// The text of a kernel's function with one parameter for elements and exponent, in place of one for each. `None` where it has no
/// exponents, or is no function of this text with a parameter for each buffer.
pub(crate) fn found_behind(text: &str, name: &str, kernel: &Kernel) -> Option<String> {
    let lowered = lower(kernel);
    let buffers: Vec<&BufferParameter> =
        lowered.buffers.iter().filter(|buffer| buffer.role != Role::Scratch).collect();
    let head = format!("static void {name}(");
    let start = text.find(&head).filter(|&at| at == 0 || text[..at].ends_with('\n'))?;
    let (parameters, body) = text[start + head.len()..].split_once(")\n{\n")?;
    let parameters: Vec<Parameter<'_>> =
        parameters.split(',').map(Parameter::of).collect::<Option<_>>()?;
    if !(buffers.len()..=buffers.len() + 1).contains(&parameters.len()) {
        return None;
    }
    let elements = |of: &Role| {
        let at = buffers.iter().position(|buffer| buffer.role == *of)?;
        Some(parameters[at].name)
    };
    let (mut kept, mut exponents, mut finds) = (Vec::new(), Vec::new(), false);
    for (at, parameter) in parameters.iter().enumerate() {
        let (elements, ty) = match buffers.get(at).map(|buffer| &buffer.role) {
            Some(&Role::InputScale(i)) => (elements(&Role::Input(i))?, &kernel.inputs[i]),
            Some(&Role::OutputScale(i)) => (elements(&Role::Output(i))?, &kernel.outputs[i]),
            _ => {
                kept.push(parameter.text);
                continue;
            }
        };
        // Structures of arguments have room for an element at least.
        if ty.count() == 0 {
            return None;
        }
        finds = true;
        if !mentions(body, parameter.name) {
            continue;
        }
        let pointee = parameter.pointee();
        let constant = if pointee.starts_with("const ") { "const " } else { "" };
        let bytes = match ty.element.bits() {
            ..=8 => elements.to_string(),
            _ => format!("({constant}uint8_t *){elements}"),
        };
        exponents.push(format!(
            "{pointee} *const {} = ({pointee} *)({constant}void *)({bytes} + {});",
            parameter.name,
            scale_offset(ty)
        ));
    }
    if !finds {
        return None;
    }
    let mut lines = Lines::of(text.len());
    lines.raw(&text[..start]);
    lines.open_function(&format!("{head}{})", kept.join(", ")));
    exponents.iter().for_each(|line| lines.line(line));
    lines.raw(body);
    Some(lines.finish())
}

/// Whether C names something so.
fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
}
