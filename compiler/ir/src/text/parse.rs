//! Reading graphs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::EQUAL_ELEMENTS_LIMIT;
use super::cursor::{Cursor, Span, SyntaxError};
use super::module::{Places, Tensors};
use super::print::role_word;
use crate::attributes::{Attribute, F32};
use crate::graph::{Definition, Graph, InputRole, ValueId};
use crate::ops::OpKind;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, Shape, TensorType};

/// Most elements of a written type: keeps sizes within an index's range.
const ELEMENTS_LIMIT: usize = 1 << 40;
/// Reads a tensor type, such as `i8<2^e>[4,10]`.
///
/// # Errors
/// If the text is not a type, or its number of elements exceeds 2^40.
pub fn parse_type(cursor: &mut Cursor<'_>) -> Result<TensorType, SyntaxError> {
    let at = cursor.clone();
    let element = Element::parse(cursor)?;
    let scale = if cursor.accept("<") { scale(cursor)? } else { Scale::None };
    let shape = Shape::parse(cursor)?;
    let count = shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim.max(1)));
    if count.is_none_or(|n| n > ELEMENTS_LIMIT) {
        return Err(at.error("a tensor of more than 2^40 elements"));
    }
    Ok(TensorType { shape, element, scale })
}

fn scale(cursor: &mut Cursor<'_>) -> Result<Scale, SyntaxError> {
    cursor.expect("2^e")?;
    cursor.expect(">")?;
    Ok(Scale::Exponent)
}

/// A result as written, before it is defined.
struct Written<'a> {
    at: Cursor<'a>,
    label: &'a str,
    name: Option<String>,
    type_at: Span,
    ty: TensorType,
}

/// Reads the definitions of one graph.
struct Reader<'a, 'b> {
    graph: Graph,
    places: Places,
    labels: BTreeMap<&'a str, ValueId>,
    tensors: &'b dyn Tensors,
}

/// Reads a graph from its word `graph` on.
pub(super) fn graph(
    cursor: &mut Cursor<'_>,
    tensors: &dyn Tensors,
) -> Result<(Graph, Places), SyntaxError> {
    cursor.expect("graph")?;
    cursor.expect("@")?;
    let name = match cursor.peek() {
        Some('"') => cursor.string()?,
        _ => cursor.word()?.to_string(),
    };
    let (graph, places) = (Graph::new(name), Places::default());
    let mut reader = Reader { graph, places, labels: BTreeMap::new(), tensors };
    cursor.expect("{")?;
    while !cursor.accept("}") {
        reader.line(cursor)?;
    }
    Ok((reader.graph, reader.places))
}

impl<'a> Reader<'a, '_> {
    fn line(&mut self, cursor: &mut Cursor<'a>) -> Result<(), SyntaxError> {
        if cursor.peek() == Some('%') {
            return self.definition(cursor);
        }
        let at = cursor.clone();
        match cursor.word() {
            Ok("output") => {
                let name = cursor.string()?;
                let value = self.operand(cursor)?;
                self.graph.add_output(name, value);
                self.places.outputs.push(at.span_to(cursor));
            }
            Ok("update") => {
                let operand = cursor.clone();
                let parameter = self.operand(cursor)?;
                let Definition::Parameter(parameter) = self.graph.value(parameter).definition
                else {
                    return Err(operand.error("only a parameter can be updated"));
                };
                cursor.expect("=")?;
                let value = self.operand(cursor)?;
                self.graph.add_update(parameter, value);
                self.places.updates.push(at.span_to(cursor));
            }
            _ => return Err(at.error("expected a definition (`%`), `output`, `update` or `}`")),
        }
        Ok(())
    }

    fn operand(&self, cursor: &mut Cursor<'a>) -> Result<ValueId, SyntaxError> {
        let at = cursor.clone();
        cursor.expect("%")?;
        let label = cursor.word()?;
        let id = self.labels.get(label).copied();
        id.ok_or_else(|| at.error(format!("`%{label}` is not defined before")))
    }

    fn written(&self, cursor: &mut Cursor<'a>) -> Result<Written<'a>, SyntaxError> {
        let at = cursor.clone();
        cursor.expect("%")?;
        let label = cursor.word()?;
        let name = if cursor.peek() == Some('"') { Some(cursor.string()?) } else { None };
        cursor.expect(":")?;
        let before = cursor.clone();
        let ty = parse_type(cursor)?;
        Ok(Written { at, label, name, type_at: before.span_to(cursor), ty })
    }

    fn define(&mut self, written: &Written<'a>, id: ValueId) -> Result<(), SyntaxError> {
        self.places.values.push(written.at.token());
        match self.labels.insert(written.label, id) {
            None => Ok(()),
            Some(_) => Err(written.at.error(format!("`%{}` is defined twice", written.label))),
        }
    }

    fn definition(&mut self, cursor: &mut Cursor<'a>) -> Result<(), SyntaxError> {
        let mut results = vec![self.written(cursor)?];
        while cursor.accept(",") {
            results.push(self.written(cursor)?);
        }
        cursor.expect("=")?;
        let at = cursor.clone();
        let word = cursor.word()?;
        if !matches!(word, "input" | "parameter" | "constant") {
            return self.node(cursor, &at, word, &results);
        }
        let [written] = &results[..] else {
            return Err(at.error(format!("`{word}` defines one value, here {}", results.len())));
        };
        if written.name.is_some() {
            return Err(written.at.error(format!("the name follows the word `{word}`")));
        }
        let name = cursor.string()?;
        let ty = &written.ty;
        let id = match word {
            "input" => {
                let role = attribute(cursor, "{", "role", |cursor| {
                    let at = cursor.clone();
                    let word = cursor.word()?;
                    [
                        InputRole::Data,
                        InputRole::Labels,
                        InputRole::LearningRate,
                        InputRole::Scheduled,
                    ]
                    .into_iter()
                    .find(|&role| role_word(role) == word)
                    .ok_or_else(|| at.error(format!("unknown role `{word}`")))
                })?;
                cursor.expect("}")?;
                self.graph.add_input(name, ty.clone(), role)
            }
            "parameter" => {
                let trainable = attribute(cursor, "{", "trainable", bool::parse)?;
                let initial = attribute(cursor, ",", "initial", |cursor| self.dense(cursor, ty))?;
                cursor.expect("}")?;
                self.graph.add_parameter(name, initial, trainable)
            }
            _ => {
                let tensor = self.dense(cursor, ty)?;
                self.graph.add_constant(name, tensor)
            }
        };
        self.define(written, id)
    }

    fn node(
        &mut self,
        cursor: &mut Cursor<'a>,
        at: &Cursor<'a>,
        word: &str,
        results: &[Written<'a>],
    ) -> Result<(), SyntaxError> {
        let kind = OpKind::named(word).map_err(|message| at.error(message))?;
        let mut operands = Vec::new();
        if cursor.peek() == Some('%') {
            operands.push(self.operand(cursor)?);
            while cursor.accept(",") {
                operands.push(self.operand(cursor)?);
            }
        }
        let op = kind.parse_attributes(cursor)?;
        let name = if cursor.peek() == Some('"') { cursor.string()? } else { String::new() };
        self.places.nodes.push(at.token());
        let defined = self.graph.add(op, &operands, name).map_err(|e| at.error(e.to_string()))?;
        if defined.len() != results.len() {
            let (defined, written) = (defined.len(), results.len());
            let message = format!("`{word}` has {defined} result(s), here {written}");
            return Err(at.error(message));
        }
        for (written, id) in results.iter().zip(defined) {
            let inferred = self.graph.ty(id);
            if inferred != &written.ty {
                let message = format!("`{word}` gives {inferred} here, not {}", written.ty);
                return Err(written.type_at.error(cursor.text(), message));
            }
            self.define(written, id)?;
            if let Some(name) = &written.name {
                self.graph.set_name(id, name);
            }
        }
        Ok(())
    }

    fn dense(&self, cursor: &mut Cursor<'a>, ty: &TensorType) -> Result<Arc<Tensor>, SyntaxError> {
        cursor.expect("dense")?;
        cursor.expect("<")?;
        let at = cursor.clone();
        if cursor.accept("blob") {
            let tensor = self.blob(cursor, &at, ty)?;
            cursor.expect(">")?;
            return Ok(tensor);
        }
        let tensor = if ty.element == Element::F32 {
            let values = elements(cursor, ty.count(), F32::parse)?;
            let data = Data::F32(values.into_iter().map(F32::get).collect());
            Tensor::new(ty.clone(), data, self.scale_data(cursor, ty)?)
        } else {
            let (low, high) = ty.element.integer_range().unwrap_or((0, 255));
            let values = elements(cursor, ty.count(), |cursor| {
                let at = cursor.clone();
                let value: i64 = cursor.parse_number()?;
                if (low..=high).contains(&value) {
                    Ok(value)
                } else {
                    Err(at.error(format!("{value} is not of type {}", ty.element)))
                }
            })?;
            Tensor::from_i64(ty, &values, self.scale_data(cursor, ty)?)
        };
        cursor.expect(">")?;
        Ok(Arc::new(tensor))
    }

    fn scale_data(
        &self,
        cursor: &mut Cursor<'a>,
        ty: &TensorType,
    ) -> Result<ScaleData, SyntaxError> {
        match ty.scale {
            Scale::None => Ok(ScaleData::None),
            Scale::Exponent => {
                attribute(cursor, ",", "exponent", i32::parse).map(ScaleData::Exponent)
            }
        }
    }

    /// The rest of `blob 0x<hash> of <count> elements`.
    fn blob(
        &self,
        cursor: &mut Cursor<'a>,
        at: &Cursor<'a>,
        ty: &TensorType,
    ) -> Result<Arc<Tensor>, SyntaxError> {
        let text = cursor.word()?;
        let hash = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let hash = hash.ok_or_else(|| at.error("expected a hash such as `0x0123456789abcdef`"))?;
        cursor.expect("of")?;
        let count: usize = cursor.parse_number()?;
        cursor.expect("elements")?;
        if count != ty.count() {
            return Err(at.error(format!("{ty} has {} elements, here {count}", ty.count())));
        }
        self.tensors.find(hash, ty).map_err(|message| at.error(message))
    }
}

/// Reads `<before> <name>=<value>`.
fn attribute<'a, T>(
    cursor: &mut Cursor<'a>,
    before: &str,
    name: &str,
    value: impl FnOnce(&mut Cursor<'a>) -> Result<T, SyntaxError>,
) -> Result<T, SyntaxError> {
    cursor.expect(before)?;
    cursor.expect(name)?;
    cursor.expect("=")?;
    value(cursor)
}

/// Reads a list of `count` elements, or one that stands for all.
fn elements<'a, T: Clone>(
    cursor: &mut Cursor<'a>,
    count: usize,
    mut element: impl FnMut(&mut Cursor<'a>) -> Result<T, SyntaxError>,
) -> Result<Vec<T>, SyntaxError> {
    let at = cursor.clone();
    if !cursor.accept("[") {
        let value = element(cursor)?;
        if count > EQUAL_ELEMENTS_LIMIT {
            let message = format!("one number stands for {count} elements, at most 2^24");
            return Err(at.error(message));
        }
        return Ok(vec![value; count]);
    }
    let mut values = Vec::new();
    while !cursor.accept("]") {
        if !values.is_empty() {
            cursor.expect(",")?;
        }
        values.push(element(cursor)?);
    }
    if values.len() == count {
        Ok(values)
    } else {
        Err(at.error(format!("expected {count} elements, here {}", values.len())))
    }
}
