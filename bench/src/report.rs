//! Output of the measurements: headings, medians, and verdicts against a target.

/// Prints the heading of a measurement.
pub(crate) fn heading(what: &str) {
    println!("\n== {what}");
}

/// Returns the median, or NaN if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Returns the lowest and the highest value, as text in parentheses.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> String {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let digits = if high >= 1_000.0 { 0 } else { 3 };
    format!("({low:.digits$} to {high:.digits$})")
}

/// Prints a verdict: the value should be at least `target`.
pub(crate) fn at_least(what: &str, value: f64, target: f64, more: &str) {
    let target_text = format!("at least {target}");
    verdict(what, value, value >= target, &target_text, more);
}

/// Prints a verdict: the value should be at most `target`.
pub(crate) fn at_most(what: &str, value: f64, target: f64, more: &str) {
    let target_text = format!("at most {target}");
    verdict(what, value, value <= target, &target_text, more);
}

fn verdict(what: &str, value: f64, passes: bool, target: &str, more: &str) {
    let verdict = if passes { "PASS" } else { "FAIL" };
    println!("{verdict}  {value:.3} {what} {more}; target: {target}");
}
