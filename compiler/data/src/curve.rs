//! Training curves as an SVG file: the loss above, the test accuracy below, over a common epoch axis.
//!
//! The text is a function of the series alone: no logarithm or power from a system's library takes part, and all
//! coordinates have one decimal.

use std::fmt::Write;

use crate::axis::{Axis, decimal};
use crate::svg::{COLOURS, escape, line};

/// One line of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend. Series of one name share a colour across panels.
    pub name: String,
    /// (epoch, value), by ascending epoch. A point that is not finite, or beyond 1e300, interrupts the line.
    pub points: Vec<(f64, f64)>,
}

/// What a chart shows; [`TrainingChart::to_svg`] draws it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainingChart {
    /// The headline.
    pub title: String,
    /// The loss of each run.
    pub loss: Vec<Series>,
    /// The test accuracy of each run, in percent.
    pub accuracy: Vec<Series>,
}

const WIDTH: f64 = 800.0;
const LEFT: f64 = 64.0;
/// Room for the last values beside the lines' ends.
const RIGHT: f64 = 72.0;
const PLOT_RIGHT: f64 = WIDTH - RIGHT;
const PANEL_HEIGHT: f64 = 200.0;
/// Between the panels: the lower one's caption.
const PANEL_GAP: f64 = 36.0;
/// Below the lower panel: tick labels and the axis's name.
const FOOT: f64 = 52.0;
const LEGEND_ROW: f64 = 20.0;
/// More points than this are a line without dots.
const DOT_LIMIT: usize = 40;
/// The least distance of two last values.
const LABEL_DISTANCE: f64 = 13.0;
impl TrainingChart {
    /// The chart as an SVG document.
    pub fn to_svg(&self) -> String {
        let names = self.names();
        let (legend, legend_rows) = legend(&names);
        let top = 44.0 + LEGEND_ROW * legend_rows as f64 + 26.0;
        let height = top + 2.0 * PANEL_HEIGHT + PANEL_GAP + FOOT;
        let epochs = epochs_axis(self.loss.iter().chain(&self.accuracy));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" \
             font-size=\"12\" fill=\"#333\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        let title = escape(&self.title);
        line(&mut svg, format_args!("<title>{title}</title>"));
        line(
            &mut svg,
            format_args!(
                "<text x=\"{LEFT}\" y=\"30\" font-size=\"16\" font-weight=\"600\">{title}</text>"
            ),
        );
        svg.push_str(&legend);
        let panels = [
            Panel {
                caption: "Loss",
                series: &self.loss,
                values: loss_axis(&self.loss),
                top,
                decimals: 3,
                unit: "",
            },
            Panel {
                caption: "Test accuracy (%)",
                series: &self.accuracy,
                values: accuracy_axis(&self.accuracy),
                top: top + PANEL_HEIGHT + PANEL_GAP,
                decimals: 2,
                unit: " %",
            },
        ];
        for (index, panel) in panels.iter().enumerate() {
            panel.draw(&mut svg, &epochs, &names, index == 1);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// All series' names, each once, in order of appearance; a name's place gives its colour.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for series in self.loss.iter().chain(&self.accuracy) {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        names
    }
}

fn colour(names: &[&str], name: &str) -> &'static str {
    let index = names.iter().position(|known| *known == name).unwrap_or(0);
    COLOURS[index % COLOURS.len()]
}

/// The legend and its number of rows.
fn legend(names: &[&str]) -> (String, usize) {
    let mut svg = String::new();
    let (mut x, mut row) = (LEFT, 0);
    for name in names {
        // Text is not measured; 7.2 is a wide average of a 12-pixel font.
        let width = 24.0 + 7.2 * name.chars().count() as f64 + 20.0;
        if x > LEFT && x + width > WIDTH {
            (x, row) = (LEFT, row + 1);
        }
        let y = 54.0 + LEGEND_ROW * row as f64;
        line(
            &mut svg,
            format_args!(
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{}\" \
                 stroke-width=\"3\" stroke-linecap=\"round\"/>",
                y - 4.0,
                x + 16.0,
                y - 4.0,
                colour(names, name)
            ),
        );
        line(
            &mut svg,
            format_args!("<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 24.0, escape(name)),
        );
        x += width;
    }
    (svg, if names.is_empty() { 0 } else { row + 1 })
}

struct Panel<'a> {
    caption: &'static str,
    series: &'a [Series],
    values: Axis,
    top: f64,
    decimals: usize,
    unit: &'static str,
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String, epochs: &Axis, names: &[&str], is_last: bool) {
        let bottom = self.top + PANEL_HEIGHT;
        let x_of = |epoch| LEFT + epochs.fraction(epoch) * (PLOT_RIGHT - LEFT);
        let y_of = |value| bottom - self.values.fraction(value) * PANEL_HEIGHT;
        line(
            svg,
            format_args!(
                "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
                self.top - 10.0,
                self.caption
            ),
        );
        for tick in &self.values.ticks {
            let y = y_of(tick.value);
            line(
                svg,
                format_args!(
                    "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{PLOT_RIGHT}\" y2=\"{y:.1}\" \
                     stroke=\"#e4e4e4\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" \
                     fill=\"#666\">{}</text>",
                    LEFT - 8.0,
                    y + 4.0,
                    tick.label
                ),
            );
        }
        line(
            svg,
            format_args!(
                "<line x1=\"{LEFT}\" y1=\"{bottom:.1}\" x2=\"{PLOT_RIGHT}\" y2=\"{bottom:.1}\" \
                 stroke=\"#888\"/>"
            ),
        );
        for tick in &epochs.ticks {
            let x = x_of(tick.value);
            line(
                svg,
                format_args!(
                    "<line x1=\"{x:.1}\" y1=\"{bottom:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#888\"/>",
                    bottom + 4.0
                ),
            );
            if is_last {
                line(
                    svg,
                    format_args!(
                        "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{}</text>",
                        bottom + 19.0,
                        tick.label
                    ),
                );
            }
        }
        if is_last {
            line(
                svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">Epoch</text>",
                    (LEFT + PLOT_RIGHT) / 2.0,
                    bottom + 39.0
                ),
            );
        }
        for series in self.series {
            draw_series(svg, series, colour(names, &series.name), &x_of, &y_of);
        }
        self.draw_last_values(svg, names, &y_of);
    }

    /// The last value of each series beside the plot, moved apart where they would overlap.
    fn draw_last_values(&self, svg: &mut String, names: &[&str], y_of: &dyn Fn(f64) -> f64) {
        let mut labels: Vec<(f64, String, &str)> = self
            .series
            .iter()
            .filter_map(|series| {
                let (_, value) = *drawable(&series.points).last()?;
                let text = format!("{}{}", decimal(value, self.decimals), self.unit);
                Some((y_of(value), text, colour(names, &series.name)))
            })
            .collect();
        labels.sort_by(|left, right| left.0.total_cmp(&right.0));
        for index in 1..labels.len() {
            labels[index].0 = labels[index].0.max(labels[index - 1].0 + LABEL_DISTANCE);
        }
        // Those pushed below the panel push back up.
        let mut lowest = self.top + PANEL_HEIGHT;
        for label in labels.iter_mut().rev() {
            label.0 = label.0.min(lowest);
            lowest = label.0 - LABEL_DISTANCE;
        }
        for (y, text, colour) in labels {
            line(
                svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{text}</text>",
                    PLOT_RIGHT + 8.0,
                    y + 4.0
                ),
            );
        }
    }
}

/// Numbers that can be drawn; the bound keeps the arithmetic on axes from overflowing.
fn is_drawable(&(epoch, value): &(f64, f64)) -> bool {
    epoch.abs() < 1e300 && value.abs() < 1e300
}

fn drawable(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.iter().copied().filter(is_drawable).collect()
}

fn draw_series(
    svg: &mut String,
    series: &Series,
    colour: &str,
    x_of: &dyn Fn(f64) -> f64,
    y_of: &dyn Fn(f64) -> f64,
) {
    let mut path = String::new();
    let mut command = 'M';
    for point in &series.points {
        if !is_drawable(point) {
            command = 'M';
            continue;
        }
        let &(epoch, value) = point;
        // Writing to a string cannot fail.
        let _ = write!(path, "{command}{:.1} {:.1}", x_of(epoch), y_of(value));
        command = 'L';
    }
    if path.is_empty() {
        return;
    }
    line(
        svg,
        format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\"/>"
        ),
    );
    let points = drawable(&series.points);
    if points.len() <= DOT_LIMIT {
        for (epoch, value) in points {
            line(
                svg,
                format_args!(
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.8\" fill=\"{colour}\" stroke=\"#fff\"/>",
                    x_of(epoch),
                    y_of(value)
                ),
            );
        }
    }
}

/// From the first epoch to the last, with ticks at round numbers between.
fn epochs_axis<'a>(series: impl Iterator<Item = &'a Series>) -> Axis {
    let points: Vec<_> = series.flat_map(|series| drawable(&series.points)).collect();
    let whole = points.iter().all(|(epoch, _)| epoch.fract() == 0.0);
    Axis::of_epochs(points.iter().map(|(epoch, _)| *epoch), whole)
}

/// From 0, or from below the lowest loss where that is far from 0, to above the highest.
fn loss_axis(series: &[Series]) -> Axis {
    Axis::of_values(values(series), 0.6)
}

/// Like the loss's, but at most 100.
fn accuracy_axis(series: &[Series]) -> Axis {
    Axis::of_percentages(values(series))
}

fn values(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| drawable(&series.points)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, values: &[f64]) -> Series {
        let points = values.iter().enumerate().map(|(epoch, &value)| (epoch as f64 + 1.0, value));
        Series { name: name.to_string(), points: points.collect() }
    }

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            labels(&Axis::rounded_out(0.0, 2.3)),
            ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]
        );
        assert_eq!(labels(&Axis::rounded_out(0.031, 0.044)), ["0.030", "0.035", "0.040", "0.045"]);
        assert_eq!(labels(&Axis::rounded_out(-3.0, 12.0)), ["-5", "0", "5", "10", "15"]);
        let accuracy = accuracy_axis(&[series("a", &[91.0, 98.7])]);
        assert_eq!(labels(&accuracy), ["90", "92", "94", "96", "98", "100"]);
        let epochs = epochs_axis([series("a", &[1.0, 2.0, 3.0])].iter());
        assert_eq!(labels(&epochs), ["1", "2", "3"]);
        let epochs = epochs_axis([series("a", &[0.0; 60])].iter());
        assert_eq!(labels(&epochs), ["10", "20", "30", "40", "50", "60"]);
    }

    #[test]
    fn points_lie_where_the_ticks_say() {
        let axis = loss_axis(&[series("a", &[2.0, 1.0])]);
        assert_eq!((axis.low, axis.high), (0.0, 2.0));
        assert_eq!(axis.fraction(0.5), 0.25);
        // The middle epoch of three, at half the loss's axis.
        let chart =
            TrainingChart { loss: vec![series("a", &[2.0, 1.0, 0.0])], ..TrainingChart::default() };
        let svg = chart.to_svg();
        let (left, right, top) = (64.0, 728.0, 90.0);
        let path = format!(
            "M{left:.1} {top:.1}L{:.1} {:.1}L{right:.1} {:.1}",
            (left + right) / 2.0,
            top + 100.0,
            top + 200.0
        );
        assert!(svg.contains(&path), "{path} in {svg}");
    }

    #[test]
    fn names_are_escaped_and_share_a_colour_across_panels() {
        let chart = TrainingChart {
            title: "<a & \"b\">\u{1}".into(),
            loss: vec![series("x<y", &[1.0]), series("z", &[1.0])],
            accuracy: vec![series("z", &[50.0])],
        };
        let svg = chart.to_svg();
        assert!(svg.contains("&lt;a &amp; &quot;b&quot;&gt; </text>"), "{svg}");
        assert!(svg.contains("x&lt;y") && !svg.contains("x<y"));
        assert!(svg.contains(&format!("fill=\"{}\">50.00 %", COLOURS[1])), "{svg}");
        assert_eq!(svg, chart.to_svg());
    }

    #[test]
    fn gaps_and_extremes_draw() {
        let values = [1.0, f64::NAN, 2.0, f64::INFINITY, 3.0];
        let chart = TrainingChart { loss: vec![series("a", &values)], ..TrainingChart::default() };
        let svg = chart.to_svg();
        assert_eq!(svg.matches('M').count(), 3, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
        for values in [
            vec![],
            vec![0.0],
            vec![5.0],
            vec![-5.0, -5.0],
            vec![f64::NAN],
            vec![f64::MAX, f64::MIN],
            vec![9e299, -9e299],
            vec![f64::MIN_POSITIVE, 0.0],
            vec![1e30, 1e-30],
            vec![1.0, 1.0 + f64::EPSILON],
        ] {
            let chart = TrainingChart {
                title: String::new(),
                loss: vec![series("a", &values)],
                accuracy: vec![series("a", &values)],
            };
            let svg = chart.to_svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{values:?}: {svg}");
            assert!(svg.len() < 20_000, "{values:?}");
        }
    }

    #[test]
    fn last_values_do_not_overlap() {
        // Six runs that end together, at the bottom of the panel and at its top.
        for end in [0.0, 1.9] {
            let runs = (0..6)
                .map(|run| series(&format!("run {run}"), &[2.0, 0.0, end + 0.01 * f64::from(run)]));
            let chart = TrainingChart { loss: runs.collect(), ..TrainingChart::default() };
            let svg = chart.to_svg();
            let height =
                |line: &str| line.split("y=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
            let mut heights: Vec<f64> = svg
                .lines()
                .filter(|line| line.starts_with("<text x=\"736.0\""))
                .map(|line| height(line).unwrap())
                .collect();
            assert_eq!(heights.len(), 6);
            heights.sort_by(f64::total_cmp);
            // The panel's edges, and 4 from a text's middle to its foot.
            assert!(heights[0] >= 90.0 + 4.0 && heights[5] <= 290.0 + 4.0, "{heights:?}");
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > 12.9), "{heights:?}");
        }
    }
}
