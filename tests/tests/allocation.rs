//! A training step on the host allocates nothing, whatever the algorithm: calls are counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, Session};
use trainc_driver::zoo::{ZooSpec, build};
use trainc_host::HostProgram;
use trainc_ir::program::buffer_bytes;
use trainc_ir::random::RunContext;

/// The system's, counted.
struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code, reason = "an allocator that counts")]
// SAFETY: all is left to the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steps_allocate_nothing() {
    // With several threads each one's working memory grows until it has had the largest part.
    trainc_host::kernels::set_threads(1);
    for (model, algorithm) in
        [("lenet5", "niti"), ("lenet5", "sbm"), ("resnet8", "niti"), ("resnet8", "fp32")]
    {
        let bytes = build(&ZooSpec::new(model).expect("in the zoo")).expect("the zoo builds");
        let source = ModelSource::Bytes { name: model.to_string(), bytes };
        let algorithm = algorithm.to_string();
        let config = Config { algorithm, batch: Some(4), ..Config::default() };
        let session = Session::new(&source, &config, Entries::TrainAndInfer);
        let session = session.expect("the model compiles");
        let program = session.program();
        let mut host = HostProgram::compile(program).expect("the program compiles");
        let entry = host.entry("train_step").expect("there is a training step");
        let declared = program.entry("train_step").expect("there is a training step");
        let words = |arguments: &[trainc_ir::program::Argument]| -> Vec<Vec<u32>> {
            let of = |a: &trainc_ir::program::Argument| buffer_bytes(&program.buffer(a.buffer).ty);
            arguments.iter().map(|a| vec![0; of(a) / 4]).collect()
        };
        let (inputs, mut outputs) = (words(&declared.inputs), words(&declared.outputs));
        let inputs: Vec<&[u8]> = inputs.iter().map(|words| bytes_of(words)).collect();
        let mut outputs: Vec<&mut [u8]> =
            outputs.iter_mut().map(|words| bytes_of_mut(words)).collect();
        for step in 0..4 {
            let before = CALLS.load(Ordering::Relaxed);
            let run = RunContext { seed: 1, step };
            host.run_raw(entry, &inputs, &mut outputs, &run).expect("the step runs");
            let calls = CALLS.load(Ordering::Relaxed) - before;
            // The first sets up what threads keep.
            assert!(step == 0 || calls == 0, "{model}: {calls} allocations in step {step}");
        }
    }
}

fn bytes_of(words: &[u32]) -> &[u8] {
    #[allow(unsafe_code, reason = "bytes that lie as words do")]
    // SAFETY: words are bytes.
    unsafe {
        std::slice::from_raw_parts(words.as_ptr().cast(), 4 * words.len())
    }
}

fn bytes_of_mut(words: &mut [u32]) -> &mut [u8] {
    #[allow(unsafe_code, reason = "bytes that lie as words do")]
    // SAFETY: words are bytes, and any bytes are words.
    unsafe {
        std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), 4 * words.len())
    }
}
