//! Training steps of networks: the arena stays close to the largest sum of live buffers.

use trainc_ir::attributes::F32;
use trainc_ir::graph::{InputRole, ValueId};
use trainc_ir::ops::{
    Add, AvgPool2d, BatchNorm, BatchStatistics, Concat, Conv2d, MatMul, MaxPool2d, ProductRole,
    ReduceMean, Relu, Reshape,
};
use trainc_ir::{Graph, Tensor, TensorType};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::plan::{PlanEntry, PlanOptions, PlanReport, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::translate;

use crate::support::{Generic, Random, difference, node};

/// A network under construction.
struct Network {
    graph: Graph,
    /// Where weights come from; zeros if there is nothing to compute.
    random: Option<Random>,
    norm: bool,
}

impl Network {
    fn new(name: &str, norm: bool) -> Network {
        Network { graph: Graph::new(name), random: None, norm }
    }

    fn input(&mut self, shape: [usize; 4]) -> ValueId {
        self.graph.add_input("x", TensorType::f32(shape), InputRole::Data)
    }

    fn parameter(&mut self, kind: &str, shape: &[usize]) -> ValueId {
        let ty = TensorType::f32(shape);
        let tensor = match &mut self.random {
            Some(random) => random.tensor(&ty),
            None => Tensor::zeros(&ty),
        };
        let name = format!("layer{}.{kind}", self.graph.nodes().len());
        self.graph.add_parameter(name, tensor, true)
    }

    fn conv(&mut self, x: ValueId, channels: usize, kernel: [usize; 2], stride: usize) -> ValueId {
        let from = self.graph.ty(x).shape[1];
        let w = self.parameter("weight", &[channels, from, kernel[0], kernel[1]]);
        let pads = [kernel[0] / 2, kernel[1] / 2, kernel[0] / 2, kernel[1] / 2];
        let op = Conv2d { strides: [stride; 2], pads, dilations: [1, 1], groups: 1 };
        let y = node(&mut self.graph, op, &[x, w]);
        if !self.norm {
            let bias = self.parameter("bias", &[channels]);
            let bias =
                node(&mut self.graph, Reshape { shape: [1, channels, 1, 1].into() }, &[bias]);
            return node(&mut self.graph, Add {}, &[y, bias]);
        }
        let statistics =
            self.graph.add(BatchStatistics {}, &[y], "statistics").expect("four dimensions");
        let scale = self.parameter("scale", &[channels]);
        let bias = self.parameter("bias", &[channels]);
        let op = BatchNorm { epsilon: F32::new(1e-5), batch: true };
        node(&mut self.graph, op, &[y, scale, bias, statistics[0], statistics[1]])
    }

    fn relu(&mut self, x: ValueId) -> ValueId {
        node(&mut self.graph, Relu {}, &[x])
    }

    fn conv_relu(&mut self, x: ValueId, channels: usize, kernel: usize, stride: usize) -> ValueId {
        let y = self.conv(x, channels, [kernel; 2], stride);
        self.relu(y)
    }

    fn max_pool(&mut self, x: ValueId, kernel: usize, stride: usize, pad: usize) -> ValueId {
        let op = MaxPool2d {
            kernel: [kernel; 2],
            strides: [stride; 2],
            pads: [pad; 4],
            dilations: [1, 1],
            ceil: false,
        };
        node(&mut self.graph, op, &[x])
    }

    fn average_pool(&mut self, x: ValueId) -> ValueId {
        let op = AvgPool2d {
            kernel: [3, 3],
            strides: [1, 1],
            pads: [1; 4],
            ceil: false,
            count_include_pad: true,
        };
        node(&mut self.graph, op, &[x])
    }

    fn flatten(&mut self, x: ValueId) -> ValueId {
        let shape = &self.graph.ty(x).shape;
        let shape = [shape[0], shape.count() / shape[0]].into();
        node(&mut self.graph, Reshape { shape }, &[x])
    }

    fn linear(&mut self, x: ValueId, count: usize) -> ValueId {
        let from = self.graph.ty(x).shape[1];
        let w = self.parameter("weight", &[count, from]);
        let b = self.parameter("bias", &[count]);
        let op = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
        let y = node(&mut self.graph, op, &[x, w]);
        node(&mut self.graph, Add {}, &[y, b])
    }

    fn mean(&mut self, x: ValueId) -> ValueId {
        node(&mut self.graph, ReduceMean { axes: vec![2, 3], keep_dims: false }, &[x])
    }

    fn concat(&mut self, parts: &[ValueId]) -> ValueId {
        node(&mut self.graph, Concat { axis: 1 }, parts)
    }

    /// The model and its training graph.
    fn finish(mut self, logits: ValueId) -> (Graph, Graph) {
        self.graph.add_output("logits", logits);
        let train = training_graph(&self.graph, None).expect("a training graph");
        (train, self.graph)
    }
}

fn lenet(batch: usize, size: usize) -> (Graph, Graph) {
    let mut n = Network::new("lenet", false);
    n.random = (size < 20).then(|| Random::new(3));
    let mut x = n.input([batch, 1, size, size]);
    for channels in [6, 16] {
        x = n.conv_relu(x, channels, 5, 1);
        x = n.max_pool(x, 2, 2, 0);
    }
    x = n.flatten(x);
    for count in [120, 84] {
        x = n.linear(x, count);
        x = n.relu(x);
    }
    let logits = n.linear(x, 10);
    n.finish(logits)
}

fn vgg11(batch: usize, size: usize) -> (Graph, Graph) {
    let mut n = Network::new("vgg11", false);
    let mut x = n.input([batch, 3, size, size]);
    for stage in [&[64][..], &[128], &[256, 256], &[512, 512], &[512, 512]] {
        for &channels in stage {
            x = n.conv_relu(x, channels, 3, 1);
        }
        x = n.max_pool(x, 2, 2, 0);
    }
    x = n.flatten(x);
    for count in [4096, 4096] {
        x = n.linear(x, count);
        x = n.relu(x);
    }
    let logits = n.linear(x, 10);
    n.finish(logits)
}

fn resnet18(batch: usize, size: usize, stem: bool) -> (Graph, Graph) {
    let mut n = Network::new("resnet18", true);
    let mut x = n.input([batch, 3, size, size]);
    x = n.conv_relu(x, 64, if stem { 7 } else { 3 }, if stem { 2 } else { 1 });
    if stem {
        x = n.max_pool(x, 3, 2, 1);
    }
    for (stage, channels) in [64, 128, 256, 512].into_iter().enumerate() {
        for block in 0..2 {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let y = n.conv_relu(x, channels, 3, stride);
            let y = n.conv(y, channels, [3; 2], 1);
            let skip = if stride == 2 { n.conv(x, channels, [1; 2], 2) } else { x };
            let sum = node(&mut n.graph, Add {}, &[y, skip]);
            x = n.relu(sum);
        }
    }
    x = n.mean(x);
    let logits = n.linear(x, 1000);
    n.finish(logits)
}

/// Many modules of four branches, as in InceptionV3.
fn inception(batch: usize) -> (Graph, Graph) {
    let mut n = Network::new("inception", true);
    let mut x = n.input([batch, 3, 147, 147]);
    x = n.conv_relu(x, 32, 3, 2);
    x = n.conv_relu(x, 64, 3, 1);
    x = n.max_pool(x, 3, 2, 1);
    for (modules, width) in [(3, 64), (5, 128), (3, 192)] {
        for _ in 0..modules {
            let a = n.conv_relu(x, width, 1, 1);
            let b = n.conv_relu(x, width / 2, 1, 1);
            let b = n.conv(b, width, [1, 7], 1);
            let b = n.relu(b);
            let b = n.conv(b, width, [7, 1], 1);
            let b = n.relu(b);
            let c = n.conv_relu(x, width / 2, 1, 1);
            let c = n.conv_relu(c, width, 3, 1);
            let c = n.conv_relu(c, width, 3, 1);
            let d = n.average_pool(x);
            let d = n.conv_relu(d, width, 1, 1);
            x = n.concat(&[a, b, c, d]);
        }
        x = n.max_pool(x, 3, 2, 1);
    }
    x = n.mean(x);
    let logits = n.linear(x, 1000);
    n.finish(logits)
}

fn report(name: &str, (train, infer): &(Graph, Graph)) -> PlanReport {
    let entries =
        [PlanEntry { name: "train_step", graph: train }, PlanEntry { name: "infer", graph: infer }];
    let start = std::time::Instant::now();
    let (program, report) = plan(name, &entries, &Generic::new(), &PlanOptions::default())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    println!(
        "{name}: {} nodes, {:?}, {:?}\n{:#?}",
        train.nodes().len(),
        start.elapsed(),
        program.memory,
        report.entries
    );
    report
}

fn within(report: &PlanReport, percent: usize) {
    for entry in &report.entries {
        assert!(
            entry.peak_bytes * 100 <= entry.lower_bound_bytes * percent,
            "{}: {} bytes, lower bound {}",
            entry.name,
            entry.peak_bytes,
            entry.lower_bound_bytes
        );
    }
}

#[test]
fn lenet_stays_close_to_the_lower_bound() {
    within(&report("lenet", &lenet(64, 28)), 102);
}

#[test]
fn vgg11_stays_close_to_the_lower_bound() {
    within(&report("vgg11", &vgg11(16, 32)), 102);
    within(&report("vgg11-224", &vgg11(2, 224)), 102);
}

#[test]
fn resnet18_stays_close_to_the_lower_bound() {
    within(&report("resnet18", &resnet18(16, 32, false)), 102);
    within(&report("resnet18-224", &resnet18(2, 224, true)), 102);
}

#[test]
fn inception_stays_close_to_the_lower_bound() {
    within(&report("inception", &inception(2)), 105);
}

/// The same under NITI, whose products give i32 that are rescaled to i8.
fn niti((train, infer): &(Graph, Graph)) -> (Graph, Graph) {
    let algorithm = Algorithm::built_in("niti").expect("built in");
    let lower = |graph: &Graph| {
        let (lowered, _) = translate(graph, &algorithm).unwrap_or_else(|e| panic!("{e}"));
        lowered
    };
    (lower(train), lower(infer))
}

#[test]
fn niti_lenet_stays_close_to_the_lower_bound() {
    within(&report("lenet-niti", &niti(&lenet(64, 28))), 102);
}

#[test]
fn niti_lenet_trains_to_the_same_bits() {
    let graphs = niti(&lenet(2, 12));
    let entries = [
        PlanEntry { name: "train_step", graph: &graphs.0 },
        PlanEntry { name: "infer", graph: &graphs.1 },
    ];
    let options = PlanOptions::default();
    let (program, _) = plan("lenet", &entries, &Generic::new(), &options).expect("a plan");
    assert_eq!(difference(&program, &entries, 3, &mut Random::new(4)), None);
}

/// A small LeNet, trained for some steps by the program and by the graph.
#[test]
fn lenet_trains_to_the_same_bits() {
    let graphs = lenet(2, 12);
    let entries = [
        PlanEntry { name: "train_step", graph: &graphs.0 },
        PlanEntry { name: "infer", graph: &graphs.1 },
    ];
    let options = PlanOptions::default();
    let (program, _) = plan("lenet", &entries, &Generic::new(), &options).expect("a plan");
    assert_eq!(difference(&program, &entries, 2, &mut Random::new(4)), None);
}
