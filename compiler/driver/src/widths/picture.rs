//! Widths as a picture: for each tensor a bar of the shares of its blocks, and a map of them.

use std::fmt::Write;

use trainc_data::escape;

use super::{WIDTHS, WidthMap};

/// Width of the words, the bars and the maps.
const COLUMNS: [f64; 3] = [420.0, 180.0, 500.0];
/// Most cells of a map; beyond, a cell is the mean of neighbours.
const CELLS: [usize; 2] = [24, 100];
/// Height of a row of cells, and between tensors.
const CELL: f64 = 5.0;
const GAP: f64 = 22.0;
const TOP: f64 = 64.0;

/// A map for each tensor, its first axis downwards and its second to the right; further axes, taps or pixels, are in the mean of a cell.
pub fn svg(title: &str, maps: &[WidthMap]) -> String {
    let cells: Vec<Cells> = maps.iter().map(Cells::of).collect();
    let height = |cells: &Cells| (cells.rows as f64 * CELL).max(12.0) + GAP;
    let all = TOP + cells.iter().map(height).sum::<f64>();
    let width: f64 = COLUMNS.iter().sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {all}\" width=\"{width}\" height=\"{all}\" \
         font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"8\" y=\"22\" font-size=\"16\" font-weight=\"600\">{}</text>\n",
        escape(title)
    );
    for (i, bits) in WIDTHS.iter().enumerate() {
        let x = 8.0 + i as f64 * 64.0;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{}\" stroke=\"#999\" stroke-width=\"0.5\"/>\
             <text x=\"{}\" y=\"44\">{bits} bits</text>",
            colour(f64::from(*bits)),
            x + 16.0
        );
    }
    let mut y = TOP;
    for (map, cells) in maps.iter().zip(&cells) {
        let _ = writeln!(
            out,
            "<text x=\"8\" y=\"{:.1}\">{}: {:.2} bits, {}</text>",
            y + 10.0,
            escape(&map.name),
            map.mean_bits,
            cost(map)
        );
        let mut x = COLUMNS[0];
        for (bits, share) in WIDTHS.iter().zip(map.shares()) {
            let wide = share * (COLUMNS[1] - 16.0);
            if wide > 0.0 {
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"12\" fill=\"{}\"><title>{:.1} % of {bits} bits\
                     </title></rect>",
                    colour(f64::from(*bits)),
                    100.0 * share
                );
            }
            x += wide;
        }
        cells.draw(&mut out, [COLUMNS[0] + COLUMNS[1], y]);
        y += height(cells);
    }
    out.push_str("</svg>\n");
    out
}

/// What a tensor's products cost.
fn cost(map: &WidthMap) -> String {
    match map.macs {
        0 => "in no product".to_string(),
        macs => format!("{:.1} % of 8 by 8", 100.0 * map.bit_serial_macs / macs as f64),
    }
}

/// A tensor's blocks as a table of mean bits.
struct Cells {
    rows: usize,
    columns: usize,
    means: Vec<f64>,
}

impl Cells {
    fn of(map: &WidthMap) -> Cells {
        let [down, right] = [0, 1].map(|axis| map.grid.get(axis).copied().unwrap_or(1));
        let (rows, columns) = (down.clamp(1, CELLS[0]), right.clamp(1, CELLS[1]));
        let inner = (map.bits.len() / (down * right).max(1)).max(1);
        let mut sums = vec![(0.0, 0.0); rows * columns];
        for (i, bits) in map.bits.iter().enumerate() {
            let (row, column) = (i / inner / right, i / inner % right);
            let (sum, count) = &mut sums[row * rows / down * columns + column * columns / right];
            *sum += f64::from(*bits);
            *count += 1.0;
        }
        Cells {
            rows,
            columns,
            means: sums.iter().map(|(sum, count)| sum / f64::max(*count, 1.0)).collect(),
        }
    }

    fn draw(&self, out: &mut String, [left, top]: [f64; 2]) {
        let wide = ((COLUMNS[2] - 16.0) / self.columns as f64).min(2.0 * CELL);
        for row in 0..self.rows {
            let cells = &self.means[row * self.columns..(row + 1) * self.columns];
            let mut column = 0;
            while column < cells.len() {
                // Neighbours that look alike are one rectangle.
                let fill = colour(cells[column]);
                let same = cells[column..].iter().take_while(|mean| colour(**mean) == fill).count();
                let _ = writeln!(
                    out,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{CELL}\" fill=\"{fill}\"/>",
                    left + column as f64 * wide,
                    top + row as f64 * CELL,
                    same as f64 * wide
                );
                column += same;
            }
        }
    }
}

/// White for no bits to dark blue for eight.
fn colour(bits: f64) -> String {
    let share = (bits / 8.0).clamp(0.0, 1.0);
    let mix = |from: f64, to: f64| (from + (to - from) * share).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(245.0, 0.0), mix(245.0, 60.0), mix(240.0, 140.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means by hand: of two taps, and of neighbours where there are more blocks than cells.
    #[test]
    fn cells() {
        let map = |grid: &[usize], bits: Vec<u32>| WidthMap {
            name: "w".into(),
            grid: grid.to_vec(),
            bits,
            mean_bits: 0.0,
            macs: 0,
            bit_serial_macs: 0.0,
        };
        let taps = Cells::of(&map(&[1, 2, 2], vec![2, 4, 8, 8]));
        assert_eq!((taps.rows, taps.columns, &taps.means[..]), (1, 2, &[3.0, 8.0][..]));
        let many = Cells::of(&map(&[48, 1], (0..48).map(|i| 4 * (i % 2)).collect()));
        assert_eq!((many.rows, many.columns), (24, 1));
        assert!(many.means.iter().all(|mean| *mean == 2.0), "{:?}", many.means);
        assert_eq!(map(&[1, 4], vec![0, 2, 2, 8]).shares(), [0.25, 0.5, 0.0, 0.0, 0.25]);
    }
}
