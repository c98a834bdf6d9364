//! The firmware learns the digits, and its checkpoints hold.

mod common;

use common::{accuracy, learner, train};
use trainc_data::Dataset;
use trainc_firmware::digits::{
    BATCH, CHECKPOINT_BYTES, SCHEDULE, STATE_BYTES, STATE_TENSORS, Status, learning_rate,
};

#[test]
fn it_learns_to_read_digits() {
    let data = Dataset::digits();
    let mut learner = learner(0);
    let before = accuracy(&mut learner, &data.test);
    let loss = train(&mut learner, &data, 0, 10);
    let after = accuracy(&mut learner, &data.test);
    assert!(before < 0.3, "{before} without training");
    assert!(after > 0.93, "{after} after training");
    assert!(loss.is_finite(), "{loss}");
    assert_eq!(learner.steps(), 10 * (data.train.len() / BATCH) as u32);
}

#[test]
fn a_checkpoint_continues_to_the_same_weights() {
    let data = Dataset::digits();
    let mut whole = learner(3);
    train(&mut whole, &data, 3, 1);
    let mut checkpoint = [0; CHECKPOINT_BYTES];
    whole.save(&mut checkpoint);
    let mut other = learner(3);
    assert_eq!(other.resume(&checkpoint), Ok(()));
    assert_eq!(other.steps(), whole.steps());
    train(&mut whole, &data, 4, 1);
    train(&mut other, &data, 4, 1);
    assert!(whole.state().as_bytes() == other.state().as_bytes());
    // The steps changed the weights.
    let last = STATE_TENSORS[STATE_TENSORS.len() - 1];
    let bytes = last.offset..last.offset + last.shape.iter().product::<usize>();
    assert!(
        whole.state().as_bytes()[bytes.clone()]
            != checkpoint[CHECKPOINT_BYTES - STATE_BYTES..][bytes]
    );
}

#[test]
fn what_is_no_checkpoint_of_this_model_is_refused() {
    let mut learner = learner(0);
    let mut good = [0; CHECKPOINT_BYTES];
    learner.save(&mut good);
    let before = learner.state().as_bytes().to_vec();
    let changed = |at: usize| {
        let mut bytes = good;
        bytes[at] ^= 0x40;
        bytes
    };
    assert_eq!(learner.resume(&good[..CHECKPOINT_BYTES - 1]), Err(Status::WrongSize));
    assert_eq!(learner.resume(&[]), Err(Status::WrongSize));
    assert_eq!(learner.resume(&changed(0)), Err(Status::WrongFormat));
    assert_eq!(learner.resume(&changed(4)), Err(Status::WrongFormat));
    assert_eq!(learner.resume(&changed(8)), Err(Status::WrongModel));
    assert_eq!(learner.resume(&changed(CHECKPOINT_BYTES - 1)), Err(Status::Damaged));
    assert_eq!(learner.state().as_bytes(), before);
    assert_eq!(Status::Damaged.to_string(), "the checkpoint is damaged");
    assert_eq!(learner.resume(&good), Ok(()));
}

/// The integers of `learning_rate` give what a quotient of doubles gives, by which training on a desk goes.
#[test]
fn the_schedule_divides_trainings_of_any_length() {
    let trainings = (0..300).chain((1..1_000).map(|i| i * 4_294_967)).chain([u32::MAX]);
    for steps in trainings {
        let places = SCHEDULE.map(|(from, _)| (from * f64::from(steps)) as u32);
        for step in places.iter().flat_map(|p| p.saturating_sub(2)..=p.saturating_add(2)) {
            let done = f64::from(step) / f64::from(steps.max(1));
            let reached = SCHEDULE.iter().rev().find(|(from, _)| *from <= done);
            assert_eq!(Some(learning_rate(step, steps)), reached.map(|r| r.1), "{step} of {steps}");
        }
    }
}
