use trainc_driver::{config::*, model::*, session::*, train::*};
fn main() -> anyhow::Result<()> {
    let a: Vec<String> = std::env::args().collect();
    let config = Config {
        algorithm: a[2].clone(),
        batch: Some(64),
        epochs: a[4].parse()?,
        init: if a.get(5).is_some() { WeightSource::Random } else { WeightSource::Model },
        ..Config::default()
    };
    let s = Session::new(
        &ModelSource::File(a[1].clone().into()),
        &config,
        Entries::TrainAndInfer,
        Depth::Planned,
    )?;
    println!("{:?} {:?}", s.times, s.warnings);
    println!("{:?}", s.planned.as_ref().unwrap().1);
    println!("{:?}", s.program()?.memory);
    let data = trainc_data::Dataset::open(std::path::Path::new(&a[3]))?;
    let t0 = std::time::Instant::now();
    let mut t = Trainer::new(s, &data)?;
    println!("jit {:?}", t0.elapsed());
    let t0 = std::time::Instant::now();
    while let Some(r) = t.epoch(&data, &mut |_| {})? {
        println!("{r:?} {:?}", t0.elapsed());
    }
    Ok(())
}
