//! Variables, as models with a training signature have them: what the inference reads are parameters.

use std::borrow::Cow;

use crate::error::{NodeResult, WarningKind, invalid};
use crate::limits;
use crate::tflite::ops::Call;
use crate::tflite::schema::Type;
use crate::tflite::translator::Value;

/// A variable's name within the file.
pub(crate) fn key(container: &str, name: &str) -> String {
    if container.is_empty() { name.to_string() } else { format!("{container}/{name}") }
}

pub(super) fn handle(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let key = key(&call.option_string(0)?, &call.option_string(1)?);
    let tensor = call.result(0)?;
    call.t.values.insert(tensor, Value::Handle(key));
    Ok(())
}

pub(super) fn read(call: &mut Call<'_, '_>) -> NodeResult<()> {
    let Value::Handle(key) = call.value(0)? else {
        return Err(invalid!("operand 0 is no variable"));
    };
    let tensor = call.result(0)?;
    let dims = call.t.subgraph.tensors[tensor].dims.clone();
    let root = match call.t.variables.get(&key) {
        Some(&root) => root,
        None => {
            // The file's values are elsewhere, such as in a checkpoint that `restore` reads.
            let ty = call.t.subgraph.tensors[tensor].ty;
            let count = limits::count(&dims).ok_or_else(|| invalid!("`{key}` is too large"))?;
            if ty != Type::Float32 {
                return Err(invalid!("variable `{key}` is {} and has no value", ty.name()));
            }
            call.t.spend_empty(count)?;
            let zeros = Cow::Owned(vec![0; 4 * count]);
            let Value::Stored { root, .. } = call.t.root(&key, ty, dims.clone(), None, zeros)?
            else {
                return Err(invalid!("`{key}` is no variable"));
            };
            call.t.variables.insert(key.clone(), root);
            call.t.empty_variables.push(key);
            root
        }
    };
    let found = &call.t.roots[root].dims;
    if *found != dims {
        return Err(invalid!("a variable of {found:?} is read as {dims:?}"));
    }
    let permutation = (0..dims.len()).collect();
    call.t.values.insert(tensor, Value::Stored { root, permutation });
    Ok(())
}

/// Says which variables have no values.
pub(crate) fn say_empty(t: &mut crate::tflite::translator::Translator<'_>) {
    let names = std::mem::take(&mut t.empty_variables);
    if let Some(first) = names.first() {
        let message = format!(
            "the file has no values for {} variable(s), the first `{first}`: they are zeros; `--init random` draws them, \
             `--weights` takes them from a file",
            names.len()
        );
        t.warn(WarningKind::Empty, message);
    }
}
