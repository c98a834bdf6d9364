//! The text form of graphs: [`Printer`] writes it, [`parse_graph`] reads it back to an equal graph.
//!
//! ```text
//! graph @lenet {
//!   %0: f32[4,1,28,28] = input "x" {role=data}
//!   %1: f32[6,1,5,5] = parameter "conv1.weight" {trainable=true, initial=dense<[0.5, -1.0, ...]>}
//!   %2: f32[] = constant "one" dense<1.0>
//!   %3: f32[4,6,24,24] = conv2d %0, %1 {strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1], groups=1} "conv1"
//!   %4: f32[6], %5: f32[6] = batch_statistics %3 "bn1"
//!   %6 "features": f32[4,6,24,24] = relu %3 "relu1"
//!   output "logits" %6
//!   update %1 = %3 ; "conv1.weight"
//! }
//! ```
//!
//! Grammar (white space and `;` comments to the end of the line separate tokens; lines have no meaning):
//!
//! ```text
//! text       = { graph | data }
//! graph      = "graph" "@" (word | string) "{" { definition | output | update } "}"
//! data       = "data" hash "{" { two hexadecimal digits } "}"
//! definition = result { "," result } "=" (input | parameter | constant | node)
//! result     = "%" label [string] ":" type            the string: a name other than the default
//! input      = "input" string "{" "role" "=" ("data" | "labels" | "learning_rate" | "scheduled") "}"
//! parameter  = "parameter" string "{" "trainable" "=" bool "," "initial" "=" dense "}"
//! constant   = "constant" string dense
//! node       = operation ["%" label { "," "%" label }] [attributes] [string]     the string: the node's name
//! attributes = "{" name "=" value { "," name "=" value } "}"    all of the operation's, in its order
//! output     = "output" string "%" label
//! update     = "update" "%" label "=" "%" label       a parameter, and its value after the step
//! type       = element ["<" scale ">"] "[" [number { "," number }] "]"
//! element    = "f32" | "i2" | "i4" | "i8" | "i16" | "i32" | "u2" | "u4" | "u8" | "u16" | "u32" | "b1"
//! scale      = "2^e"
//! dense      = "dense" "<" elements [scale data] ">" | "dense" "<" "blob" hash "of" number "elements" ">"
//! elements   = "[" [number { "," number }] "]" | number                one number: all elements are equal
//! scale data = "," "exponent" "=" number                                         with a shared exponent
//! ```
//!
//! A label is a word (letters, digits, `_`), defined once and before its uses; the printer numbers them. A result's
//! default name is its node's name, followed by `.` and its position if the node has several results. Integers are
//! decimal; floats are the shortest decimals that read back, `inf`, `-inf`, and
//! `nan` with eight hexadecimal digits of bits. A string is quoted, with `\"`, `\\`, `\n` and `\u{..}` escapes.
//!
//! A printed tensor of more elements than [`Printer::inline_limit`] stands as its [`content_hash`]
//! (`0x` and 16 hexadecimal digits). [`Printer::with_data`] puts the bytes of such tensors after the graph
//! ([`mod@crate::tensor_bytes`]); [`parse_graphs`] reads them there, or draws a tensor where they are missing; [`parse_graph`]
//! takes a lookup.
//!
//! Reading infers all types again and refuses a text whose written types differ.

pub mod cursor;
mod module;
pub mod nearest;
mod parse;
mod print;

pub use module::{Parsed, Places, no_blobs, parse_graph, parse_graphs};
pub use parse::parse_type;
pub use print::{Printer, content_hash};

/// Most elements a tensor of equal elements may have in the text form, so that a short text cannot ask for
/// arbitrary memory. Larger ones are printed in full (or by hash).
const EQUAL_ELEMENTS_LIMIT: usize = 1 << 24;
