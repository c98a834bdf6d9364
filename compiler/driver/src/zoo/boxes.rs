//! Boxes from the map that `yolov2-tiny-binary` gives.

/// Widths and heights of the anchors in cells: those of darknet's `yolov2-tiny-voc`.
pub const ANCHORS: [[f32; 2]; 5] =
    [[1.08, 1.19], [3.42, 4.41], [6.63, 11.38], [9.42, 5.11], [16.62, 10.52]];

/// An object that was found. Places and sizes are parts of the picture's width and height.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// Middle: from the left, from the top.
    pub middle: [f32; 2],
    /// Width and height.
    pub size: [f32; 2],
    /// The class.
    pub class: usize,
    /// Objectness times the class's share.
    pub score: f32,
}

impl Found {
    /// Left, top, right and bottom.
    pub fn corners(&self) -> [f32; 4] {
        let [x, y] = self.middle;
        let [width, height] = self.size.map(|side| side / 2.0);
        [x - width, y - height, x + width, y + height]
    }

    /// The area that two boxes share, of the area that they cover together.
    pub fn overlap(&self, other: &Found) -> f32 {
        let (a, b) = (self.corners(), other.corners());
        let side = |low: usize| (a[low + 2].min(b[low + 2]) - a[low].max(b[low])).max(0.0);
        let shared = side(0) * side(1);
        let area = |found: &Found| found.size[0] * found.size[1];
        shared / (area(self) + area(other) - shared)
    }
}

/// The boxes of one picture whose score is at least `least`, the best first; of two of a class that overlap by more than
/// `most` the worse is left out.
///
/// `map` is `[5 * (5 + classes), height, width]`, as the model gives it: for each anchor x, y, width, height, objectness and the
/// classes' scores (Redmon, Farhadi: "YOLO9000", 2017, section 2: the middle is a sigmoid within the cell, the size the anchor's
/// times an exponential, the score a sigmoid times a softmax). `None` if it has another number of elements.
pub fn boxes(
    map: &[f32],
    [classes, height, width]: [usize; 3],
    least: f32,
    most: f32,
) -> Option<Vec<Found>> {
    let cells = height * width;
    if classes == 0 || map.len() != ANCHORS.len() * (5 + classes) * cells {
        return None;
    }
    let mut all = Vec::new();
    for (anchor, own) in ANCHORS.iter().zip(map.chunks_exact((5 + classes) * cells)) {
        for cell in 0..cells {
            let at = |channel: usize| own[channel * cells + cell];
            let scores: Vec<f32> = (0..classes).map(|class| at(5 + class)).collect();
            let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = scores.iter().map(|score| (score - largest).exp()).sum();
            let class = scores.iter().position(|score| *score == largest)?;
            let score = sigmoid(at(4)) / sum;
            if score < least {
                continue;
            }
            let sides = [width as f32, height as f32];
            let corner = [cell % width, cell / width];
            let middle = [0, 1].map(|axis| (corner[axis] as f32 + sigmoid(at(axis))) / sides[axis]);
            let size = [0, 1].map(|axis| anchor[axis] * at(2 + axis).exp() / sides[axis]);
            all.push(Found { middle, size, class, score });
        }
    }
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut kept: Vec<Found> = Vec::new();
    for found in all {
        if kept.iter().all(|best| best.class != found.class || best.overlap(&found) <= most) {
            kept.push(found);
        }
    }
    Some(kept)
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of 2x3 cells and two classes, with nothing in it but what `cells` sets: anchor, row, column, its seven numbers.
    fn map(cells: &[(usize, usize, usize, [f32; 7])]) -> Vec<f32> {
        let mut map = vec![0.0; 5 * 7 * 6];
        for anchor in 0..5 {
            map[(anchor * 7 + 4) * 6..][..6].fill(-20.0);
        }
        for (anchor, row, column, numbers) in cells {
            for (channel, number) in numbers.iter().enumerate() {
                map[(anchor * 7 + channel) * 6 + row * 3 + column] = *number;
            }
        }
        map
    }

    fn near(a: f32, b: f32) -> bool {
        (a - b).abs() < 1e-6
    }

    /// By hand: a sigmoid of ln 3 is 3/4, of 0 a half; a softmax of 0 and ln 3 is 1/4 and 3/4.
    #[test]
    fn a_box_by_hand() {
        let ln3 = 3f32.ln();
        let map = map(&[(1, 1, 2, [ln3, 0.0, 2f32.ln(), 0.0, ln3, 0.0, ln3])]);
        let found = boxes(&map, [2, 2, 3], 0.5, 0.5).expect("a map");
        let [one] = found[..] else { panic!("{found:?}") };
        assert_eq!(one.class, 1);
        assert!(near(one.score, 0.75 * 0.75), "{one:?}");
        assert!(near(one.middle[0], 2.75 / 3.0) && near(one.middle[1], 1.5 / 2.0), "{one:?}");
        assert!(near(one.size[0], 2.0 * 3.42 / 3.0) && near(one.size[1], 4.41 / 2.0), "{one:?}");
        assert_eq!(boxes(&map, [2, 2, 3], 0.57, 0.5).expect("a map").len(), 0);
        assert_eq!(boxes(&map, [3, 2, 3], 0.5, 0.5), None);
    }

    /// Two boxes of a class in one place count once, of two classes or in two places twice.
    #[test]
    fn the_worse_of_two_is_left_out() {
        let at = |column, x, objectness: f32, class: usize| {
            let mut numbers = [x, 0.0, 0.0, 0.0, objectness, 0.0, 0.0];
            numbers[5 + class] = 9.0;
            (0, 0, column, numbers)
        };
        let scores = |cells: &[_]| -> Vec<(usize, f32)> {
            let found = boxes(&map(cells), [2, 2, 3], 0.3, 0.5).expect("a map");
            found.iter().map(|one| (one.class, (one.middle[0] * 3.0).round())).collect()
        };
        // Neighbouring cells, both near the border between them.
        let (left, right) = (at(0, 6.0, 2.0, 0), at(1, -6.0, 3.0, 0));
        assert_eq!(scores(&[left, right]), [(0, 1.0)]);
        assert_eq!(scores(&[left, at(1, -6.0, 3.0, 1)]), [(1, 1.0), (0, 1.0)]);
        assert_eq!(scores(&[at(0, -6.0, 2.0, 0), right]), [(0, 1.0), (0, 0.0)]);
    }
}
