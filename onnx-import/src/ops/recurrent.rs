//! LSTM, GRU and RNN, unrolled: a copy of the cell for each step of a sequence whose length is known.

use trainc_ir::ops::{
    Add, Concat, MatMul, Mul, ProductRole, Relu, Reshape, Sigmoid, Sub, Tanh, Transpose,
};
use trainc_ir::{Op, ValueId};

use crate::call::{Bound, Call, is_zero};
use crate::error::{NodeResult, invalid, unsupported};

/// Longest sequence that is unrolled.
const MOST_STEPS: usize = 512;

/// What all three share.
struct Layer {
    steps: usize,
    batch: usize,
    hidden: usize,
    /// Whether each direction runs backwards.
    directions: Vec<bool>,
    /// Names of activations, one direction after the other.
    activations: Vec<String>,
    clip: Option<f32>,
    /// Whether examples come before steps.
    examples_first: bool,
    /// `[steps, batch, input]`.
    x: ValueId,
}

/// The operands of one direction, each without its first axis.
struct Weights {
    /// Products of all steps with the input weights: `[steps, batch, gates * hidden]`.
    inputs: ValueId,
    /// `[gates * hidden, hidden]`.
    recurrent: ValueId,
    /// Biases of inputs and of the state, `[gates * hidden]` each.
    biases: Option<[ValueId; 2]>,
}

fn product() -> MatMul {
    MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward }
}

impl Layer {
    fn read(call: &mut Call<'_, '_>, gates: usize, activations: &[&str]) -> NodeResult<Layer> {
        let mut x = call.f32(0)?;
        if call.shape(x).len() != 3 {
            return Err(invalid!("an operand of shape {:?}, not three dimensions", call.shape(x)));
        }
        let examples_first = call.flag("layout", false)?;
        if examples_first {
            x = call.add(Transpose { permutation: vec![1, 0, 2] }, &[x], "by_step")?;
        }
        let dims = call.shape(x);
        let [steps, batch, input] = [dims[0], dims[1], dims[2]];
        if steps > MOST_STEPS {
            return Err(unsupported(
                "operand `X`",
                format!("{steps} steps to unroll"),
                format!("at most {MOST_STEPS}: export the model for shorter sequences"),
            ));
        }
        let directions = match call.string("direction", "forward")? {
            "forward" => vec![false],
            "reverse" => vec![true],
            "bidirectional" => vec![false, true],
            other => return Err(invalid!("`direction` is `{other}`")),
        };
        let weights = call.dims(2)?;
        let hidden = weights.get(2).copied().unwrap_or(0);
        let given = call.int("hidden_size", hidden as i64)?;
        let rows = gates * hidden;
        let expected =
            [(1, vec![directions.len(), rows, input]), (2, vec![directions.len(), rows, hidden])];
        for (i, expected) in expected {
            if call.dims(i)? != expected || given != hidden as i64 {
                let found = call.dims(i)?;
                return Err(invalid!(
                    "{} is of shape {found:?}, not {expected:?}",
                    call.operand_name(i)
                ));
            }
        }
        if call.given(4) {
            let known = call.known(4)?;
            let whole = known
                .is_some_and(|k| k.ints().is_some_and(|v| v.iter().all(|&n| n == steps as i64)));
            if !whole {
                return Err(unsupported(
                    "operand `sequence_lens`",
                    "lengths that differ or are computed at run time",
                    format!(
                        "absent, or {steps} for all: pad sequences at the front, or mask the results"
                    ),
                ));
            }
        }
        let names = strings(call, "activations");
        let activations: Vec<String> = match names.is_empty() {
            true => {
                directions.iter().flat_map(|_| activations.iter().map(|a| a.to_string())).collect()
            }
            false if names.len() == activations.len() * directions.len() => names,
            false => return Err(invalid!("{} activations", names.len())),
        };
        for name in ["activation_alpha", "activation_beta"] {
            if call.floats(name)?.is_some_and(|values| !values.is_empty()) {
                return Err(unsupported(format!("attribute `{name}`"), "is given", "none"));
            }
        }
        let clip = call.has("clip").then(|| call.float("clip", 0.0)).transpose()?;
        Ok(Layer { steps, batch, hidden, directions, activations, clip, examples_first, x })
    }

    /// The operands of a direction.
    fn weights(
        &self,
        call: &mut Call<'_, '_>,
        direction: usize,
        gates: usize,
    ) -> NodeResult<Weights> {
        let rows = gates * self.hidden;
        let w = part(call, 1, direction)?;
        let recurrent = part(call, 2, direction)?;
        let inputs = call.add(product(), &[self.x, w], "inputs")?;
        let biases = match call.given(3) && !call.known(3)?.is_some_and(|b| is_zero(&b)) {
            false => None,
            true => {
                if call.dims(3)? != [self.directions.len(), 2 * rows] {
                    return Err(invalid!("biases of shape {:?}", call.dims(3)?));
                }
                let both = part(call, 3, direction)?;
                Some([columns(call, both, 0, rows)?, columns(call, both, rows, rows)?])
            }
        };
        Ok(Weights { inputs, recurrent, biases })
    }

    /// The steps in the direction's order.
    fn order(&self, backwards: bool) -> Vec<usize> {
        if backwards { (0..self.steps).rev().collect() } else { (0..self.steps).collect() }
    }

    /// The initial state that an operand gives, `[batch, hidden]`; none for zeros.
    fn initial(
        &self,
        call: &mut Call<'_, '_>,
        i: usize,
        direction: usize,
    ) -> NodeResult<Option<ValueId>> {
        if !call.given(i) || call.known(i)?.is_some_and(|known| is_zero(&known)) {
            return Ok(None);
        }
        let mut expected = vec![self.directions.len(), self.batch, self.hidden];
        if self.examples_first {
            expected.swap(0, 1);
        }
        if call.dims(i)? != expected {
            return Err(invalid!("{} is not of shape {expected:?}", call.operand_name(i)));
        }
        let value = call.f32(i)?;
        let axis = usize::from(self.examples_first);
        let (mut starts, mut lengths) = (vec![0; 3], expected);
        (starts[axis], lengths[axis]) = (direction, 1);
        let state = call.boxed(&value.into(), starts, lengths, vec![1; 3], "initial")?;
        let state = call.reshaped(&state, vec![self.batch, self.hidden])?;
        call.lower(&state, "the state").map(Some)
    }

    /// Activation `i` of a direction, on values that are clipped before.
    fn activate(
        &self,
        call: &mut Call<'_, '_>,
        (direction, i): (usize, usize),
        x: ValueId,
        suffix: &str,
    ) -> NodeResult<ValueId> {
        let mut x = x;
        if let Some(clip) = self.clip {
            let op = trainc_ir::ops::Clip { min: (-clip).into(), max: clip.into() };
            x = call.add(op, &[x], "clipped")?;
        }
        let each = self.activations.len() / self.directions.len();
        let op: Op = match &*self.activations[direction * each + i] {
            "Sigmoid" => Sigmoid {}.into(),
            "Tanh" => Tanh {}.into(),
            "Relu" => Relu {}.into(),
            "Softsign" => return call.softsign(x, suffix),
            "Softplus" => return call.softplus(x, suffix),
            other => {
                return Err(unsupported(
                    "attribute `activations`",
                    format!("`{other}`"),
                    "Sigmoid, Tanh, Relu, Softsign, Softplus",
                ));
            }
        };
        call.add(op, &[x], suffix)
    }

    /// States `[batch, hidden]` of each direction as a final state `[directions, batch, hidden]`.
    fn last(&self, call: &mut Call<'_, '_>, states: &[ValueId]) -> NodeResult<Bound> {
        let axis = usize::from(self.examples_first);
        let mut shape = vec![self.batch, self.hidden];
        shape.insert(axis, 1);
        let mut parts = Vec::new();
        for &state in states {
            parts.push(call.add(Reshape { shape: shape.clone().into() }, &[state], "last")?);
        }
        joined(call, &parts, axis)
    }

    /// States of each direction, by step, as `[steps, directions, batch, hidden]`.
    fn all(&self, call: &mut Call<'_, '_>, states: &[Vec<ValueId>]) -> NodeResult<Bound> {
        let (step, direction) = if self.examples_first { (1, 2) } else { (0, 1) };
        let mut shape = vec![1, 1, self.batch, self.hidden];
        if self.examples_first {
            shape = vec![self.batch, 1, 1, self.hidden];
        }
        let mut sides = Vec::new();
        for states in states {
            let mut parts = Vec::new();
            for &state in states {
                parts.push(call.add(Reshape { shape: shape.clone().into() }, &[state], "step")?);
            }
            let side = joined(call, &parts, step)?;
            sides.push(call.lower(&side, "the states")?);
        }
        joined(call, &sides, direction)
    }

    /// The results: all states where they are used, the last ones.
    fn results(
        &self,
        call: &mut Call<'_, '_>,
        states: &[Vec<ValueId>],
        last: &[Vec<ValueId>],
    ) -> NodeResult<Vec<Bound>> {
        let mut results = vec![match call.uses_output(0) {
            true => self.all(call, states)?,
            false => Bound::Poison,
        }];
        for (i, last) in last.iter().enumerate() {
            results.push(match call.uses_output(i + 1) {
                true => self.last(call, last)?,
                false => Bound::Poison,
            });
        }
        Ok(results)
    }
}

/// Texts of an attribute.
fn strings(call: &Call<'_, '_>, name: &'static str) -> Vec<String> {
    if !call.has(name) {
        return Vec::new();
    }
    let found = call.node.attribute.iter().find(|a| a.name == name);
    let texts = found.map(|a| a.strings.as_slice()).unwrap_or_default();
    texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

/// Entry `direction` of an operand's first axis.
fn part(call: &mut Call<'_, '_>, i: usize, direction: usize) -> NodeResult<ValueId> {
    let whole = call.f32(i)?;
    let dims = call.shape(whole);
    let (mut starts, mut lengths) = (vec![0; dims.len()], dims.clone());
    (starts[0], lengths[0]) = (direction, 1);
    let steps = vec![1; dims.len()];
    let part =
        call.boxed(&whole.into(), starts, lengths, steps, &format!("direction{direction}"))?;
    let part = call.reshaped(&part, dims[1..].to_vec())?;
    call.lower(&part, "the operand")
}

/// Consecutive entries of the last axis.
fn columns(
    call: &mut Call<'_, '_>,
    x: ValueId,
    start: usize,
    length: usize,
) -> NodeResult<ValueId> {
    span(call, x, call.shape(x).len() - 1, start, length)
}

/// Consecutive entries of an axis.
fn span(
    call: &mut Call<'_, '_>,
    x: ValueId,
    axis: usize,
    start: usize,
    length: usize,
) -> NodeResult<ValueId> {
    let mut lengths = call.shape(x);
    let mut starts = vec![0; lengths.len()];
    (starts[axis], lengths[axis]) = (start, length);
    let steps = vec![1; lengths.len()];
    let part = call.boxed(&x.into(), starts, lengths, steps, "gate")?;
    call.lower(&part, "the operand")
}

fn joined(call: &mut Call<'_, '_>, parts: &[ValueId], axis: usize) -> NodeResult<Bound> {
    match parts {
        [only] => Ok((*only).into()),
        _ => Ok(call.add(Concat { axis }, parts, "joined")?.into()),
    }
}

/// Row `step` of the inputs' products, `[batch, gates * hidden]`.
fn row(call: &mut Call<'_, '_>, inputs: ValueId, step: usize) -> NodeResult<ValueId> {
    let dims = call.shape(inputs);
    let row = span(call, inputs, 0, step, 1)?;
    let row = call.reshaped(&row.into(), dims[1..].to_vec())?;
    call.lower(&row, "the operand")
}

/// Both biases in the products of the inputs, where they only ever are a sum.
fn with_both(call: &mut Call<'_, '_>, weights: &Weights) -> NodeResult<ValueId> {
    let Some([input, state]) = weights.biases else { return Ok(weights.inputs) };
    let bias = call.add(Add {}, &[input, state], "bias")?;
    call.add(Add {}, &[weights.inputs, bias], "biased")
}

/// Inputs of all gates and what the state adds to them.
fn with_state(
    call: &mut Call<'_, '_>,
    gates: ValueId,
    state: Option<ValueId>,
    recurrent: ValueId,
) -> NodeResult<ValueId> {
    let Some(state) = state else { return Ok(gates) };
    let more = call.add(product(), &[state, recurrent], "recurrent")?;
    call.add(Add {}, &[gates, more], "gates")
}

pub(crate) fn rnn(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let layer = Layer::read(call, 1, &["Tanh"])?;
    let (mut all, mut last) = (Vec::new(), Vec::new());
    for (d, &backwards) in layer.directions.iter().enumerate() {
        let weights = layer.weights(call, d, 1)?;
        let inputs = with_both(call, &weights)?;
        let mut state = layer.initial(call, 5, d)?;
        let mut states = Vec::new();
        for step in layer.order(backwards) {
            let gates = row(call, inputs, step)?;
            let sum = with_state(call, gates, state, weights.recurrent)?;
            let next = layer.activate(call, (d, 0), sum, "state")?;
            state = Some(next);
            states.push(next);
        }
        collect(&mut all, &mut last, states, backwards);
    }
    layer.results(call, &all, &[last])
}

/// Keeps a direction's states: by step, and the last that was computed.
fn collect(
    all: &mut Vec<Vec<ValueId>>,
    last: &mut Vec<ValueId>,
    mut states: Vec<ValueId>,
    backwards: bool,
) {
    last.extend(states.last());
    if backwards {
        states.reverse();
    }
    all.push(states);
}

pub(crate) fn lstm(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    if call.flag("input_forget", false)? {
        return Err(unsupported("attribute `input_forget`", "is 1", "0"));
    }
    let layer = Layer::read(call, 4, &["Sigmoid", "Tanh", "Tanh"])?;
    let hidden = layer.hidden;
    let (mut all, mut last, mut last_cells) = (Vec::new(), Vec::new(), Vec::new());
    for (d, &backwards) in layer.directions.iter().enumerate() {
        let weights = layer.weights(call, d, 4)?;
        let inputs = with_both(call, &weights)?;
        // Peepholes of the input, output and forget gates.
        let peepholes = match call.given(7) && !call.known(7)?.is_some_and(|p| is_zero(&p)) {
            false => None,
            true => {
                let all = part(call, 7, d)?;
                let mut each = Vec::new();
                for i in 0..3 {
                    each.push(columns(call, all, i * hidden, hidden)?);
                }
                Some(each)
            }
        };
        let mut state = layer.initial(call, 5, d)?;
        let mut cell = layer.initial(call, 6, d)?;
        let mut states = Vec::new();
        for step in layer.order(backwards) {
            let gates = row(call, inputs, step)?;
            let gates = with_state(call, gates, state, weights.recurrent)?;
            let gate = |call: &mut Call<'_, '_>, i: usize, cell: Option<ValueId>| {
                let gate = columns(call, gates, i * hidden, hidden)?;
                match (&peepholes, cell) {
                    (Some(peepholes), Some(cell)) => {
                        let seen = call.add(Mul {}, &[cell, peepholes[i]], "peephole")?;
                        call.add(Add {}, &[gate, seen], "gate")
                    }
                    _ => Ok(gate),
                }
            };
            let input = gate(call, 0, cell)?;
            let input = layer.activate(call, (d, 0), input, "input")?;
            let candidate = gate(call, 3, None)?;
            let candidate = layer.activate(call, (d, 1), candidate, "candidate")?;
            let mut next = call.add(Mul {}, &[input, candidate], "taken")?;
            if let Some(cell) = cell {
                let forget = gate(call, 2, Some(cell))?;
                let forget = layer.activate(call, (d, 0), forget, "forget")?;
                let kept = call.add(Mul {}, &[forget, cell], "kept")?;
                next = call.add(Add {}, &[kept, next], "cell")?;
            }
            let output = gate(call, 1, Some(next))?;
            let output = layer.activate(call, (d, 0), output, "output")?;
            let shown = layer.activate_unclipped(call, (d, 2), next)?;
            let h = call.add(Mul {}, &[output, shown], "state")?;
            (state, cell) = (Some(h), Some(next));
            states.push(h);
        }
        last_cells.extend(cell);
        collect(&mut all, &mut last, states, backwards);
    }
    layer.results(call, &all, &[last, last_cells])
}

impl Layer {
    /// The activation of a cell's content, which is no gate's sum and is not clipped.
    fn activate_unclipped(
        &self,
        call: &mut Call<'_, '_>,
        which: (usize, usize),
        x: ValueId,
    ) -> NodeResult<ValueId> {
        let open = Layer {
            clip: None,
            directions: self.directions.clone(),
            activations: self.activations.clone(),
            ..*self
        };
        open.activate(call, which, x, "shown")
    }
}

pub(crate) fn gru(call: &mut Call<'_, '_>) -> NodeResult<Vec<Bound>> {
    let before_reset = call.flag("linear_before_reset", false)?;
    let layer = Layer::read(call, 3, &["Sigmoid", "Tanh"])?;
    let hidden = layer.hidden;
    let (mut all, mut last) = (Vec::new(), Vec::new());
    for (d, &backwards) in layer.directions.iter().enumerate() {
        let weights = layer.weights(call, d, 3)?;
        let mut inputs = weights.inputs;
        let mut hidden_bias = None;
        if let Some([input, state]) = weights.biases {
            inputs = call.add(Add {}, &[inputs, input], "biased")?;
            // The biases of the update and reset gates are a sum; that of the candidate may be reset.
            let gates = columns(call, state, 0, 2 * hidden)?;
            let candidate = columns(call, state, 2 * hidden, hidden)?;
            hidden_bias = Some((gates, candidate));
        }
        let gate_weights = span(call, weights.recurrent, 0, 0, 2 * hidden)?;
        let candidate_weights = span(call, weights.recurrent, 0, 2 * hidden, hidden)?;
        let mut state = layer.initial(call, 5, d)?;
        let mut states = Vec::new();
        for step in layer.order(backwards) {
            let all = row(call, inputs, step)?;
            let mut gates = columns(call, all, 0, 2 * hidden)?;
            if let Some((bias, _)) = hidden_bias {
                gates = call.add(Add {}, &[gates, bias], "biased")?;
            }
            let gates = with_state(call, gates, state, gate_weights)?;
            let gates = layer.activate(call, (d, 0), gates, "gates")?;
            let update = columns(call, gates, 0, hidden)?;
            let reset = columns(call, gates, hidden, hidden)?;
            let mut candidate = columns(call, all, 2 * hidden, hidden)?;
            let mut seen = None;
            if before_reset {
                if let Some(state) = state {
                    seen = Some(call.add(product(), &[state, candidate_weights], "recurrent")?);
                }
                if let Some((_, bias)) = hidden_bias {
                    seen = Some(match seen {
                        Some(seen) => call.add(Add {}, &[seen, bias], "recurrent_biased")?,
                        None => bias,
                    });
                }
                if let Some(value) = seen {
                    seen = Some(call.add(Mul {}, &[reset, value], "reset")?);
                }
            } else {
                if let Some(state) = state {
                    let kept = call.add(Mul {}, &[reset, state], "reset")?;
                    seen = Some(call.add(product(), &[kept, candidate_weights], "recurrent")?);
                }
                if let Some((_, bias)) = hidden_bias {
                    candidate = call.add(Add {}, &[candidate, bias], "candidate_biased")?;
                }
            }
            if let Some(seen) = seen {
                candidate = call.add(Add {}, &[candidate, seen], "candidate_sum")?;
            }
            let candidate = layer.activate(call, (d, 1), candidate, "candidate")?;
            // (1 - z) * candidate + z * state.
            let unit = call.scalar(1.0);
            let open = call.add(Sub {}, &[unit, update], "open")?;
            let mut next = call.add(Mul {}, &[open, candidate], "taken")?;
            if let Some(state) = state {
                let kept = call.add(Mul {}, &[update, state], "kept")?;
                next = call.add(Add {}, &[next, kept], "state")?;
            }
            state = Some(next);
            states.push(next);
        }
        collect(&mut all, &mut last, states, backwards);
    }
    layer.results(call, &all, &[last])
}
