//! Results of windows from vectors of positions to planes without padding.

use super::depthwise::Sweep;
use super::depthwise_pack::step;
use super::kernel::DataObject;
use super::pool::{VECTOR, gather, number, store, table};
use super::support::loop_over;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Where vectors go. They are stored whole, in the order of memory; those that would leave the result go to working
/// memory first.
pub(super) struct Target {
    y: Register,
    end: Register,
    count: usize,
    /// The last address for a whole vector.
    last: Register,
    /// From addresses behind that to working memory.
    distance: Register,
    object: Object,
}

impl Target {
    /// `end` is three vectors of working memory for a result of so many bytes.
    pub(super) fn new(
        b: &mut Builder,
        y: Register,
        end: Register,
        count: usize,
        object: Object,
    ) -> Self {
        let last = b.emit(Opcode::AddImmediate, (y, number(count) - number(VECTOR)));
        let distance = b.emit(Opcode::Sub, (end, last));
        Target { y, end, count, last, distance, object }
    }

    pub(super) fn store(&self, b: &mut Builder, address: Register, vector: Register) {
        let behind = b.emit(Opcode::CompareGtU, (address, self.last));
        let moved = b.emit(Opcode::Add, (address, self.distance));
        let address = b.emit(Opcode::Mux, (behind, moved, address));
        b.store(Opcode::StoreVUnaligned, (address, 0, vector), self.object);
    }

    /// Moves what lies in working memory, from the first place of the result from which a vector would leave it.
    pub(super) fn finish(&self, b: &mut Builder, first: Option<usize>) {
        let Some(first) = first else { return };
        let offset = number(first) - (number(self.count) - number(VECTOR));
        let address = b.emit(Opcode::AddImmediate, (self.end, offset));
        let rest = b.load(Opcode::LoadVUnaligned, (address, 0), self.object);
        store(b, self.y, self.object, first..self.count, rest);
    }
}

impl Sweep {
    fn result_plane(&self) -> usize {
        self.vertical.output * self.horizontal.output
    }

    /// `void order(bytes, result, end)`, and the table that it reads. `end` is three vectors of working memory.
    pub(super) fn order(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts bytes in the order image, channel, row, column.");
        let (bytes, y, end) = (b.parameter(0), b.parameter(1), b.parameter(2));
        let (source, object, constant) = (b.object("bytes"), b.object("y"), b.object("table"));
        let tile = self.tile();
        let networks: Vec<[u8; VECTOR]> = (0..tile.images)
            .map(|image| gather(&self.places(image)).unwrap_or([0; VECTOR]))
            .collect();
        let words = networks.iter().flat_map(|n| table("", [n]).words).collect();
        let table = DataObject { symbol: format!("{name}_table"), words };
        let count = self.results();
        let target = Target::new(&mut b, y, end, count, object);
        let networks = b.address(&table.symbol, 0);
        let plane = b.copy(y);
        // One image: a network, and the bytes of its first channel.
        let image = |b: &mut Builder, network: Register, from: Register| {
            let network = b.load(Opcode::LoadV, (network, 0), constant);
            let from = b.copy(from);
            loop_over(b, self.channels, "channels", |b| {
                self.order_plane(b, from, plane, network, source, &target);
                step(b, from, from, self.vectors() * VECTOR);
                step(b, plane, plane, self.result_plane());
            });
        };
        let from = b.copy(bytes);
        if tile.images == 1 {
            loop_over(&mut b, self.images, "images", |b| {
                image(b, networks, from);
                step(b, from, from, self.vectors_of_image() * VECTOR);
            });
        } else {
            loop_over(&mut b, self.images / tile.images, "vectors of images", |b| {
                let network = b.copy(networks);
                loop_over(b, tile.images, "images of a vector", |b| {
                    image(b, network, from);
                    step(b, network, network, VECTOR);
                });
                step(b, from, from, VECTOR);
            });
            let rest = self.images % tile.images;
            // The last vector holds images of the one before again.
            step(&mut b, networks, networks, (tile.images - rest) * VECTOR);
            loop_over(&mut b, rest, "images of the last vector", |b| {
                image(b, networks, from);
                step(b, networks, networks, VECTOR);
            });
        }
        target.finish(&mut b, self.first_behind());
        Ok((b.finish(None)?, table))
    }

    fn order_plane(
        &self,
        b: &mut Builder,
        from: Register,
        plane: Register,
        network: Register,
        source: Object,
        target: &Target,
    ) {
        let tile = self.tile();
        let count = if tile.images == 1 { self.vectors_of_image() } else { 1 };
        if count == 1 {
            let vector = b.load(Opcode::LoadV, (from, 0), source);
            let vector = b.emit(Opcode::Vrdelta, (vector, network));
            target.store(b, plane, vector);
            return;
        }
        let (from, at) = (b.copy(from), b.copy(plane));
        let row = self.horizontal.output;
        let last = (self.vertical.output - tile.rows) * row;
        let end = b.emit(Opcode::AddImmediate, (plane, number(last)));
        loop_over(b, count, "vectors of a plane", |b| {
            let vector = b.load(Opcode::LoadVNext, (from, 1), source);
            let vector = b.emit(Opcode::Vrdelta, (vector, network));
            target.store(b, at, vector);
            let next = b.emit(Opcode::AddImmediate, (at, number(tile.rows * row)));
            b.emit_to(at, Opcode::MinU, (next, end));
        });
    }

    /// The first place from which a vector would leave the result, if any would.
    fn first_behind(&self) -> Option<usize> {
        let (count, plane) = (self.results(), self.result_plane());
        let rows = self.tile().rows;
        let starts = |plane_start: usize| {
            (0..self.vertical.output).step_by(rows).map(move |row| {
                let row = row.min(self.vertical.output - rows);
                plane_start + row * self.horizontal.output
            })
        };
        let planes = (0..count / plane).rev().map(|p| p * plane);
        // Planes that end within the last vector, and the one before.
        let near = planes.take_while(|start| start + plane + VECTOR > count);
        near.flat_map(starts).filter(|at| at + VECTOR > count).min()
    }
}
