//! Counts the messages of a model on the wire, before the structs are built: some take a hundred times the bytes of an
//! empty message.

use crate::error::ImportError;
use crate::limits::{MAX_DEPTH, MAX_MESSAGES};

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
