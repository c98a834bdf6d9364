//! Whole texts: graphs one after another, and the data of tensors that stand in them as hashes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::EQUAL_ELEMENTS_LIMIT;
use super::cursor::{Cursor, Span, SyntaxError};
use super::parse;
use super::print::content_hash;
use crate::graph::Graph;
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::tensor_bytes::tensor_from_bytes;
use crate::types::{Element, Scale, TensorType};
use crate::verify::Subject;

/// Deepest nesting of brackets: attributes that hold operations are read recursively.
const NESTING_LIMIT: usize = 64;

/// Where a text defines what a graph holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    pub(super) nodes: Vec<Span>,
    pub(super) values: Vec<Span>,
    pub(super) outputs: Vec<Span>,
    pub(super) updates: Vec<Span>,
}

impl Places {
    /// A node's operation, a value's label, the whole of an output or update; `None` for one of another graph.
    pub fn of(&self, subject: Subject) -> Option<Span> {
        let (list, position) = match subject {
            Subject::Node(id) => (&self.nodes, id.index()),
            Subject::Value(id) => (&self.values, id.index()),
            Subject::Output(i) => (&self.outputs, i),
            Subject::Update(i) => (&self.updates, i),
        };
        list.get(position).copied()
    }
}

/// A graph as a text has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The graph.
    pub graph: Graph,
    /// Where the text defines its parts.
    pub places: Places,
    /// How many tensors were drawn, for the text has only their hashes.
    pub drawn: usize,
}

/// Tensors that stand as hashes.
pub(super) trait Tensors {
    /// The tensor of that hash and type, or why there is none.
    fn find(&self, hash: u64, ty: &TensorType) -> Result<Arc<Tensor>, String>;
}

/// The caller's tensors.
struct Given<'b>(&'b dyn Fn(u64) -> Option<Arc<Tensor>>);

impl Tensors for Given<'_> {
    fn find(&self, hash: u64, ty: &TensorType) -> Result<Arc<Tensor>, String> {
        let tensor =
            (self.0)(hash).ok_or_else(|| format!("no tensor with hash {hash:#x} is at hand"))?;
        checked(tensor, hash, ty)
    }
}

fn checked(tensor: Arc<Tensor>, hash: u64, ty: &TensorType) -> Result<Arc<Tensor>, String> {
    if tensor.ty() != ty {
        Err(format!("the tensor {hash:#x} is {}, here {ty}", tensor.ty()))
    } else if content_hash(&tensor) != hash {
        Err(format!("the tensor found for {hash:#x} has another hash"))
    } else {
        Ok(tensor)
    }
}

/// The text's own tensors; those that it lacks are drawn.
struct Own<'a> {
    data: BTreeMap<u64, Cursor<'a>>,
    found: RefCell<BTreeMap<u64, Arc<Tensor>>>,
    drawn: RefCell<usize>,
}

impl Tensors for Own<'_> {
    fn find(&self, hash: u64, ty: &TensorType) -> Result<Arc<Tensor>, String> {
        if let Some(tensor) = self.found.borrow().get(&hash).filter(|t| t.ty() == ty) {
            return Ok(tensor.clone());
        }
        let tensor = match self.data.get(&hash) {
            Some(data) => {
                let bytes = hexadecimal(&mut data.clone()).map_err(|e| e.message)?;
                let tensor = tensor_from_bytes(ty, &bytes)
                    .ok_or_else(|| format!("the data of {hash:#x} are not those of a {ty}"))?;
                checked(Arc::new(tensor), hash, ty)?
            }
            None if ty.count() > EQUAL_ELEMENTS_LIMIT => {
                return Err(format!(
                    "the text lacks the data of {hash:#x}, and no more than 2^24 elements are drawn in their place"
                ));
            }
            None => {
                *self.drawn.borrow_mut() += 1;
                Arc::new(drawn(hash, ty))
            }
        };
        self.found.borrow_mut().insert(hash, tensor.clone());
        Ok(tensor)
    }
}

/// A tensor in the place of one whose hash alone is known: FP32 of two and more dimensions uniform within one over the
/// root of the elements of a row, of fewer dimensions from 1/2 to 3/2 (gains, variances); integers of up to 8 bits
/// uniform, wider ones 0. Exponents give the largest element a size of about 1.
fn drawn(hash: u64, ty: &TensorType) -> Tensor {
    let run = RunContext { seed: hash, step: 0 };
    let unit = |i: usize| f64::from(run.draw(u32::MAX, i as u32)) / f64::from(u32::MAX);
    let bits = ty.element.bits() as i32;
    let scale = match ty.scale {
        Scale::None => ScaleData::None,
        Scale::Exponent => ScaleData::Exponent(1 - bits),
    };
    if ty.element == Element::F32 {
        let row = ty.shape.iter().skip(1).product::<usize>().max(1);
        let bound = 1.0 / (row as f64).sqrt();
        let value = |i: usize| match ty.shape.rank() {
            0 | 1 => (0.5 + unit(i)) as f32,
            _ => ((2.0 * unit(i) - 1.0) * bound) as f32,
        };
        return Tensor::new(ty.clone(), Data::F32((0..ty.count()).map(value).collect()), scale);
    }
    let (low, high) = match ty.element.integer_range() {
        Some((low, high)) if bits <= 8 => (low, high),
        _ => (0, 0),
    };
    let value = |i: usize| low + (unit(i) * (high - low) as f64) as i64;
    Tensor::from_i64(ty, &(0..ty.count()).map(value).collect::<Vec<_>>(), scale)
}

/// Reads `{ hexadecimal digits }`; white space stands between bytes.
fn hexadecimal(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, SyntaxError> {
    let mut bytes = Vec::new();
    cursor.expect("{")?;
    while !cursor.accept("}") {
        let at = cursor.clone();
        let word = cursor.word()?.as_bytes();
        let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
        let pair = |pair: &[u8; 2]| Some(16 * digit(pair[0])? + digit(pair[1])?);
        let (pairs, rest) = word.as_chunks::<2>();
        let word: Option<Vec<u8>> = pairs.iter().map(pair).collect();
        match word {
            Some(word) if rest.is_empty() => bytes.extend(word),
            _ => return Err(at.error("expected bytes of two hexadecimal digits")),
        }
    }
    Ok(bytes)
}

/// The lookup for texts without hashes: it knows no tensor.
pub fn no_blobs(_hash: u64) -> Option<Arc<Tensor>> {
    None
}

/// Reads the text form of one graph. `blobs` finds tensors that stand as hashes.
///
/// # Errors
/// If the text does not follow the grammar (see [`crate::text`]), names an unknown operation, label or hash, applies
/// an operation to operands that it does not take, or states another type than the inferred one.
pub fn parse_graph(
    text: &str,
    blobs: &dyn Fn(u64) -> Option<Arc<Tensor>>,
) -> Result<Graph, SyntaxError> {
    blocks(text)?;
    let mut cursor = Cursor::new(text);
    let (graph, _) = parse::graph(&mut cursor, &Given(blobs))?;
    if cursor.at_end() { Ok(graph) } else { Err(cursor.error("expected the end")) }
}

/// Reads a text of graphs and data. A tensor whose hash has no data in the text is drawn, by its hash: the same at each
/// reading, yet another tensor.
///
/// # Errors
/// As [`parse_graph`]; also if the text holds no graph.
pub fn parse_graphs(text: &str) -> Result<Vec<Parsed>, SyntaxError> {
    let mut ends = blocks(text)?.into_iter();
    let mut cursor = Cursor::new(text);
    let (mut starts, mut data) = (Vec::new(), BTreeMap::new());
    while !cursor.at_end() {
        let at = cursor.clone();
        match cursor.word() {
            Ok("graph") => starts.push(at),
            Ok("data") => {
                let at = cursor.clone();
                let hash = cursor.word()?.strip_prefix("0x");
                let hash = hash.and_then(|hex| u64::from_str_radix(hex, 16).ok());
                let hash = hash.ok_or_else(|| at.error("expected a hash such as `0x01ab`"))?;
                // The check of hashes tells wrong data; here only their form.
                hexadecimal(&mut cursor.clone())?;
                data.insert(hash, cursor.clone());
            }
            _ => return Err(at.error("expected `graph` or `data`")),
        }
        let Some(end) = ends.next() else { break };
        cursor.go_to(end);
    }
    if starts.is_empty() {
        return Err(cursor.error("expected `graph`"));
    }
    let own = Own { data, found: RefCell::default(), drawn: RefCell::default() };
    let mut graphs = Vec::new();
    for mut start in starts {
        own.drawn.replace(0);
        let (graph, places) = parse::graph(&mut start, &own)?;
        graphs.push(Parsed { graph, places, drawn: own.drawn.take() });
    }
    Ok(graphs)
}

/// The ends of a text's outermost braces. Strings and comments do not count.
///
/// # Errors
/// If brackets nest too deeply.
fn blocks(text: &str) -> Result<Vec<usize>, SyntaxError> {
    let mut depth = 0usize;
    let mut ends = Vec::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && c == '}' {
                    ends.push(i + 1);
                }
            }
            ';' => drop(chars.find(|(_, c)| *c == '\n')),
            '"' => {
                while let Some((_, c)) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => drop(chars.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if depth > NESTING_LIMIT {
            let span = Span { start: i, end: i + 1 };
            return Err(span.error(text, format!("brackets nest deeper than {NESTING_LIMIT}")));
        }
    }
    Ok(ends)
}
