//! Random loop kernels against their evaluation, bit for bit.

use std::fmt::Write as _;

use trainc_ir::{RunContext, Tensor};
use trainc_tests::random_kernels::random_kernel;

use crate::operations::{CASES, kernel_source};
use crate::parallel::REVERSED;
use crate::support::{SANITIZED, cc, execute, folder, runtime, write};

#[test]
fn random_kernels() {
    let run = RunContext::default();
    let (mut source, mut main) = (CASES.to_string(), String::from("int main(void)\n{\n"));
    for n in 0..150 {
        let random = random_kernel(n);
        let operands: Vec<&Tensor> = random.operands.iter().collect();
        let (kernel, outputs) = (&random.kernel, &random.outputs);
        let meaning = trainc_ir::loops::evaluate::run(kernel, &operands, outputs, &run);
        source.push_str(&kernel_source(n, "random", kernel, &operands, &meaning, &run));
        let _ = writeln!(main, "    case_{n}();");
    }
    let folder = folder("random");
    runtime(&folder);
    write(&folder, "main.c", format!("{source}{main}    return failures != 0;\n}}\n"));
    // Warnings of comparisons without sense would be right here.
    let mut flags = vec!["-std=c99", "-Wconversion", "-Werror", "-ffp-contract=off"];
    flags.extend(SANITIZED);
    let forwards = [&flags[..], &["main.c", "trainc_rt.c", "-o", "random"]].concat();
    cc(&folder, &forwards);
    execute(&folder, "random", &[]);
    write(&folder, "reversed.h", REVERSED);
    let hook = "-DTRAINC_HOOKS=\"reversed.h\"";
    let backwards = [&flags[..], &[hook, "main.c", "trainc_rt.c", "-o", "reversed"]].concat();
    cc(&folder, &backwards);
    execute(&folder, "reversed", &[]);
}
