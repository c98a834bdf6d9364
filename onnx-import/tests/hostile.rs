//! Damaged files: every truncation and many bit flips of small models give a model or an error, never a panic, and
//! in little memory.

mod common;
#[path = "common/memory.rs"]
mod memory;

use common::*;
use trainc_onnx_import::proto::{TensorProto, data_type};
use trainc_onnx_import::{ImportOptions, check_bytes, import_bytes};

/// Most memory the whole of these tests may take, in KiB.
const MEMORY: u64 = 400 << 10;

/// A small generator (Marsaglia's xorshift64), so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Models of this crate and small PyTorch exports.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut models = vec![("net".to_string(), net().bytes())];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/pytorch");
    for name in ["preactivation_ts14_aliased", "pooling_ts17_train", "mobile_dyn18_unoptimized"] {
        let path = folder.join(format!("{name}.onnx"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        models.push((name.to_string(), bytes));
    }
    let folder = folder.join("../brevitas");
    for name in ["bipolar_trunc", "affine"] {
        let path = folder.join(format!("{name}.onnx"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        models.push((name.to_string(), bytes));
    }
    models.push(("packed".to_string(), packed().bytes()));
    models
}

/// Four- and two-bit weights, and QONNX's operators with bits and scales in every form.
fn packed() -> Model {
    let bits = |name: &str, dtype: i32, dims: &[i64], raw: &[u8]| TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: dtype,
        raw_data: Some(raw.to_vec()),
        ..TensorProto::default()
    };
    model(25)
        .input("x", &[-1, 3])
        .tensor(bits("w", data_type::INT4, &[3, 3], &[0x21, 0x43, 0xf5, 0x07, 0x08]))
        .tensor(bits("v", data_type::UINT2, &[3, 3], &[0xe4, 0x1b, 0x02]))
        .floats("scale", &[3], &[0.5, 0.25, 0.125])
        .floats("one", &[], &[1.0])
        .floats("two", &[1], &[4.0])
        .floats("none", &[], &[0.0])
        .ints("eight", &[], &[8])
        .node_with("DequantizeLinear", &["w", "scale"], &["wf"], vec![int("axis", 1)])
        .node("DequantizeLinear", &["v", "one"], &["vf"])
        .node("MatMul", &["x", "wf"], &["a"])
        .node("MatMul", &["a", "vf"], &["b"])
        .qonnx(
            "Quant",
            &["b", "scale", "none", "eight"],
            &["c"],
            vec![int("signed", 1), int("narrow", 0)],
        )
        .qonnx("BipolarQuant", &["c", "two"], &["d"], vec![])
        .qonnx("Trunc", &["d", "one", "none", "eight", "two", "two"], &["e"], vec![])
        .qonnx("Trunc", &["e", "one", "none", "eight", "two"], &["y"], vec![])
        .output("y")
}

fn import(bytes: &[u8]) -> bool {
    let options = ImportOptions { batch: Some(3), training: true, ..ImportOptions::default() };
    let zeros = |at: &trainc_onnx_import::ExternalLocation| match at.length {
        0..=4096 => Ok(vec![0; at.length as usize]),
        _ => Err("too long".to_string()),
    };
    match import_bytes(bytes, &zeros, &options) {
        Ok(_) => true,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            false
        }
    }
}

#[test]
fn truncated_models() {
    for (name, bytes) in corpus() {
        assert!(import(&bytes), "{name}");
        // All short prefixes, then every few bytes.
        let mut length = 0;
        while length < bytes.len() {
            import(&bytes[..length]);
            length += 1 + length / 256;
        }
        // Most prefixes end within a message; none of those may import.
        assert!(!import(&bytes[..bytes.len() / 2]), "{name}");
    }
    memory::stays_below(MEMORY);
}

#[test]
fn flipped_bits() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (name, bytes) in corpus() {
        let mut imported = 0;
        for _ in 0..4000 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.below(4) {
                let bit = random.below(8 * damaged.len());
                damaged[bit / 8] ^= 1 << (bit % 8);
            }
            imported += usize::from(import(&damaged));
        }
        // Flips in weights leave a model; if all imported, nothing was checked.
        assert!(imported < 4000, "{name}");
    }
    memory::stays_below(MEMORY);
}

#[test]
fn bytes_replaced_by_extremes() {
    let mut random = Random(0x0123_4567_89ab_cdef);
    for (_, bytes) in corpus() {
        for _ in 0..2000 {
            let mut damaged = bytes.clone();
            let at = random.below(damaged.len());
            let run = 1 + random.below(9);
            let value = [0x00, 0xff, 0x7f, 0x80, 0x01][random.below(5)];
            let end = (at + run).min(damaged.len());
            damaged[at..end].fill(value);
            import(&damaged);
        }
    }
    memory::stays_below(MEMORY);
}

/// Attributes and small integers take extreme values in a well-formed file.
#[test]
fn extreme_attributes_and_dimensions() {
    let mut random = Random(77);
    let extremes = [
        i64::MIN,
        i64::MIN + 1,
        -(1 << 31),
        -2,
        -1,
        0,
        1,
        2,
        3,
        1 << 20,
        1 << 31,
        1 << 40,
        i64::MAX,
    ];
    for (_, bytes) in corpus() {
        let model = <trainc_onnx_import::proto::ModelProto as prost::Message>::decode(&*bytes)
            .expect("a model");
        for _ in 0..1500 {
            let mut changed = model.clone();
            let graph = changed.graph.as_mut().expect("a graph");
            let extreme = extremes[random.below(extremes.len())];
            match random.below(4) {
                0 => {
                    let n = random.below(graph.node.len());
                    for attribute in &mut graph.node[n].attribute {
                        attribute.i = attribute.i.map(|_| extreme);
                        if !attribute.ints.is_empty() {
                            let i = random.below(attribute.ints.len());
                            attribute.ints[i] = extreme;
                        }
                    }
                }
                1 => {
                    let n = random.below(graph.initializer.len());
                    let tensor = &mut graph.initializer[n];
                    if tensor.data_type == 7 {
                        tensor.raw_data = tensor
                            .raw_data
                            .as_ref()
                            .map(|raw| raw.chunks(8).flat_map(|_| extreme.to_le_bytes()).collect());
                    }
                }
                2 => {
                    let n = random.below(graph.node.len());
                    let inputs = graph.node[n].input.len();
                    if inputs > 0 {
                        // Another value of the graph in its place.
                        let m = random.below(graph.node.len());
                        let other = graph.node[m].output[0].clone();
                        graph.node[n].input[random.below(inputs)] = other;
                    }
                }
                _ => {
                    let n = random.below(graph.node.len());
                    let m = random.below(graph.node.len());
                    graph.node[n].op_type = graph.node[m].op_type.clone();
                }
            }
            let bytes = prost::Message::encode_to_vec(&changed);
            import(&bytes);
            check_bytes(&bytes, &no_files);
        }
    }
    memory::stays_below(MEMORY);
}
