//! Calls of inference that run side by side on the host, as evaluation makes them, beside calls one by one of a program of its own: the
//! same bits for any number of threads, before and after training steps.

use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_host::{CallBytes, HostError, HostProgram};
use trainc_ir::program::{Argument, Program, buffer_bytes};
use trainc_ir::random::RunContext;

/// Bytes of an entry's operands: numbers from -1 to 1, or classes, drawn at random.
fn drawn(program: &Program, arguments: &[Argument], number: u32) -> Vec<Vec<u8>> {
    let run = RunContext { seed: 7, step: number };
    let of = |(stream, argument): (u32, &Argument)| -> Vec<u8> {
        let ty = &program.buffer(argument.buffer).ty;
        let word = |element: u32| match (run.draw(stream, element), ty.is_f32()) {
            (bits, true) => (bits as i32 as f32 / 2_147_483_648.0).to_le_bytes(),
            (bits, false) => (bits % 10).to_le_bytes(),
        };
        (0..buffer_bytes(ty) as u32 / 4).flat_map(word).collect()
    };
    (0..).zip(arguments).map(of).collect()
}

#[test]
fn calls_side_by_side_are_calls_one_by_one() {
    for model in ["lenet5", "resnet8", "mobilenetv2"] {
        let mut spec = ZooSpec::new(model).expect("in the zoo");
        if model == "mobilenetv2" {
            (spec.width, spec.input) = ("0.25".parse().expect("a width"), [3, 32, 32]);
        }
        let bytes = build(&spec).expect("the zoo builds");
        let source = ModelSource::Bytes { name: model.to_string(), bytes };
        let config = Config { algorithm: "niti".into(), batch: Some(4), ..Config::default() };
        let session = Session::new(&source, &config, Entries::TrainAndInfer);
        let session = session.expect("the model compiles");
        let program = session.program();
        let compile = || HostProgram::compile(program).expect("the program compiles");
        let (mut alone, mut together) = (compile(), compile());
        let [train, infer] = ["train_step", "infer"].map(|name| {
            (alone.entry(name).expect("it is there"), program.entry(name).expect("it is there"))
        });
        for (step, threads) in (0..).zip([1, 2, 3]) {
            trainc_host::kernels::set_threads(threads);
            let run = RunContext { seed: 1, step };
            let image = |number| drawn(program, &infer.1.inputs, 10 * step + number);
            let images: Vec<_> = (0..9).map(image).collect();
            let result = || drawn(program, &infer.1.outputs, 0);
            let mut expected: Vec<_> = images.iter().map(|_| result()).collect();
            for (image, result) in images.iter().zip(&mut expected) {
                let mut call = call(image, result);
                alone.run_raw(infer.0, &call.inputs, &mut call.outputs, &run).expect("it runs");
            }
            let mut found: Vec<_> = images.iter().map(|_| result()).collect();
            let mut calls: Vec<_> =
                images.iter().zip(&mut found).map(|(image, result)| call(image, result)).collect();
            together.run_several(infer.0, &mut calls, &run).expect("they run");
            assert_eq!(expected, found, "{model} on {threads} threads");
            assert_ne!(expected[0], expected[1], "{model}: results depend on the image");

            let batch = drawn(program, &train.1.inputs, 10 * step + 9);
            let mut loss = drawn(program, &train.1.outputs, 0);
            for host in [&mut alone, &mut together] {
                let mut call = call(&batch, &mut loss);
                host.run_raw(train.0, &call.inputs, &mut call.outputs, &run).expect("it runs");
            }
            let refused = together.run_several(train.0, &mut [call(&batch, &mut loss)], &run);
            assert!(
                matches!(refused, Err(HostError::Argument(why)) if why.contains("changes the state"))
            );
        }
    }
}

fn call<'a>(inputs: &'a [Vec<u8>], outputs: &'a mut [Vec<u8>]) -> CallBytes<'a> {
    CallBytes {
        inputs: inputs.iter().map(Vec::as_slice).collect(),
        outputs: outputs.iter_mut().map(Vec::as_mut_slice).collect(),
    }
}
