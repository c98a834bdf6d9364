//! What a training step costs as another target plans it: `bench_planned` beside `bench`.

use trainc_driver::bench::{BenchOptions, Subject, bench, bench_planned};
use trainc_driver::config::Config;
use trainc_driver::model::ModelSource;
use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::target::Target;
use trainc_neon::{DOTPROD, NEON};

#[test]
fn a_step_is_counted_as_a_target_plans_it() {
    let bytes = build(&ZooSpec::new("digits").expect("in the zoo")).expect("a model");
    let source = ModelSource::Bytes { name: "digits".into(), bytes };
    let target = "neon+dotprod".to_string();
    let config = Config { target, algorithm: "niti".into(), batch: Some(4), ..Config::default() };
    let options = BenchOptions::default();
    let planned = |target: &'static dyn Target| {
        bench_planned((&source, &config), target, &options).expect("counts")
    };
    let (usual, _) =
        bench(&Subject::Model(&source, &config), &options, &mut |_| {}).expect("counts");
    let (own, _) = planned(&DOTPROD);
    assert_eq!((own.units, &own.launches), (usual.units, &usual.launches));
    // Without products of four bytes at once.
    let (other, program) = planned(&NEON);
    assert_eq!((other.macs, other.unit), (usual.macs, usual.unit));
    assert!(other.units > usual.units, "{} beside {}", other.units, usual.units);
    let named = |name: &str| program.kernels.iter().any(|kernel| kernel.name == name);
    assert!(other.launches.iter().all(|launch| named(&launch.kernel)));
}
