//! Bounds on what a file may claim, so that a hostile one costs little memory and time.
//!
//! Everything allocated is in proportion to bytes that are really there: element counts are compared with the
//! data before anything is allocated, folded constants are capped, and the number of messages is counted on the
//! wire before the structs (some of which take a hundred times the bytes of an empty message) are built.

use crate::error::ImportError;

/// Largest model file: the wire format's own limit.
pub const MAX_FILE_BYTES: u64 = 1 << 31;
/// Most messages (nodes, attributes, tensors, dimensions, ...) in a model.
pub const MAX_MESSAGES: usize = 1 << 19;
/// Deepest nesting of messages.
pub const MAX_DEPTH: usize = 24;
/// Most nodes of a graph.
pub const MAX_NODES: usize = 1 << 17;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 16;
/// Most elements of a tensor.
pub const MAX_ELEMENTS: usize = (1 << 31) - 1;
/// Most elements of a tensor computed while importing (shapes, masks).
pub const MAX_FOLDED: usize = 1 << 22;
/// Most elements computed while importing, all together.
pub const MAX_FOLDED_TOTAL: usize = 1 << 26;
/// Most elements of parameters that an exporter merged and that are made separate.
pub const MAX_COPIED: usize = 1 << 27;
/// Largest window, stride, padding or dilation.
pub const MAX_WINDOW: i64 = 1 << 20;

/// What a length-delimited field holds, as far as counting needs to know.
#[derive(Clone, Copy, PartialEq)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    ValueInfo,
    Type,
    TensorType,
    Sparse,
    Shape,
    Function,
    Training,
    /// Has no messages inside.
    Leaf,
}

impl Message {
    /// What field `number` of this message holds; `None` if not a message.
    fn field(self, number: u64) -> Option<Message> {
        use Message::*;
        Some(match (self, number) {
            (Model, 7) => Graph,
            (Model, 8 | 14) => Leaf,
            (Model, 20) => Training,
            (Model, 25) => Function,
            (Graph, 1) => Node,
            (Graph, 5) => Tensor,
            (Graph, 11..=13) => ValueInfo,
            (Graph, 15) => Sparse,
            (Graph, 16) => Leaf,
            (Sparse, 1) => Tensor,
            (Node, 5) => Attribute,
            (Attribute, 5 | 10) => Tensor,
            (Attribute, 6 | 11) => Graph,
            (Tensor, 13) => Leaf,
            (ValueInfo, 2) => Type,
            (Type, 1) => TensorType,
            (TensorType, 2) => Shape,
            (Shape, 1) => Leaf,
            (Function, 7) => Node,
            (Function, 9) => Leaf,
            (Function, 11) => Attribute,
            (Training, 1 | 2) => Graph,
            _ => return None,
        })
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for i in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Counts the messages of a model without building them.
///
/// # Errors
/// If there are too many, or they are nested too deep. Malformed bytes are left to the decoder.
pub(crate) fn check_messages(model: &[u8]) -> Result<(), ImportError> {
    let mut count = 0usize;
    // A list of spans to visit instead of recursion.
    let mut spans: Vec<(&[u8], Message, usize)> = vec![(model, Message::Model, 0)];
    while let Some((mut bytes, message, depth)) = spans.pop() {
        if depth > MAX_DEPTH {
            return Err(ImportError::limit(format!(
                "messages nested deeper than {MAX_DEPTH} levels"
            )));
        }
        while !bytes.is_empty() {
            let Some(key) = varint(&mut bytes) else { break };
            let length = match key & 7 {
                0 => match varint(&mut bytes) {
                    Some(_) => continue,
                    None => break,
                },
                1 => 8,
                5 => 4,
                2 => match varint(&mut bytes) {
                    Some(length) => length,
                    None => break,
                },
                // Groups do not occur in ONNX; the decoder judges them.
                _ => break,
            };
            let Some((span, rest)) =
                usize::try_from(length).ok().and_then(|n| bytes.split_at_checked(n))
            else {
                break;
            };
            bytes = rest;
            if key & 7 == 2
                && let Some(inner) = message.field(key >> 3)
            {
                count += 1;
                if count > MAX_MESSAGES {
                    return Err(ImportError::limit(format!(
                        "more than {MAX_MESSAGES} nodes, attributes and other messages"
                    )));
                }
                if inner != Message::Leaf {
                    spans.push((span, inner, depth + 1));
                }
            }
        }
    }
    Ok(())
}

/// Checks dimensions from a file and gives them with their product.
///
/// # Errors
/// In words, if one is negative, or there are too many dimensions or elements.
pub(crate) fn dimensions(dims: &[i64]) -> Result<(Vec<usize>, usize), String> {
    if dims.len() > MAX_RANK {
        return Err(format!("{} dimensions, at most {MAX_RANK} are supported", dims.len()));
    }
    let sizes: Vec<usize> = dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| format!("dimension of size {d}")))
        .collect::<Result<_, _>>()?;
    match count(&sizes) {
        Some(count) => Ok((sizes, count)),
        None => Err(format!("shape {dims:?} has more than {MAX_ELEMENTS} elements")),
    }
}

/// The product of dimensions, if it is at most [`MAX_ELEMENTS`]. A zero does not hide a huge product.
pub(crate) fn count(dims: &[usize]) -> Option<usize> {
    let nonzero = dims.iter().filter(|&&d| d != 0).try_fold(1usize, |n, &d| n.checked_mul(d))?;
    if nonzero > MAX_ELEMENTS {
        return None;
    }
    Some(if dims.contains(&0) { 0 } else { nonzero })
}
