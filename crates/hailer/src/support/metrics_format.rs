//! Metrics as text, in OpenMetrics 1.0 or in the older text format 0.0.4 for clients that do not ask
//! for OpenMetrics.
//!
//! The formats differ in the names of counters: the family `requests` of OpenMetrics, whose samples
//! are called `requests_total`, is the family `requests_total` of the older format.
//!
//! Values in, text out; no I/O. The crate `prometheus-client` writes only OpenMetrics, and collects
//! values that change; ours are copied at the time of a request.

use std::fmt::Write;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Text format 0.0.4 of Prometheus.
    Plain,
}

impl MetricsFormat {
    /// Returns the format that a client wants, by the values of its `Accept` headers.
    pub fn accepted<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut open, mut plain) = (0.0_f32, 0.0_f32);
        for range in headers.into_iter().flat_map(|header| header.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0, None);
            for part in parts {
                match part.split_once('=') {
                    Some(("q", text)) => quality = text.parse().unwrap_or(0.0),
                    Some(("version", text)) => version = Some(text.trim_matches('"')),
                    _ => {}
                }
            }
            match (&*kind, version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => open = open.max(quality),
                ("text/plain", None | Some("0.0.4")) => plain = plain.max(quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain {
            Self::OpenMetrics
        } else {
            Self::Plain
        }
    }

    /// Returns the value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows. Its samples are called `NAME_total`.
    Counter,
    /// A number that can fall.
    Gauge,
    /// Text in labels; the value is always 1. Its samples are called `NAME_info`.
    Info,
}

/// A metric of a `T`: kind, name without prefix and suffix, help, and its value. `None` leaves the
/// sample out.
pub type Metric<T> = (
    MetricKind,
    &'static str,
    &'static str,
    fn(&T) -> Option<f64>,
);

/// Names and values of the labels of a sample.
pub type MetricLabels<'a> = [(&'a str, &'a str)];

/// A page of metrics in one format.
#[derive(Debug)]
pub struct MetricsPage {
    format: MetricsFormat,
    /// Begin of all names, such as `hailer_serve`.
    pub prefix: &'static str,
    text: String,
}

/// A metric on a page, to which samples are added.
#[derive(Debug)]
pub struct MetricFamily<'a> {
    page: &'a mut MetricsPage,
    /// Name of the samples.
    name: String,
}

impl MetricsPage {
    /// Creates an empty page. `prefix` begins all names.
    pub fn new(format: MetricsFormat, prefix: &'static str) -> Self {
        Self {
            format,
            prefix,
            text: String::new(),
        }
    }

    /// Begins a metric. `help` is one line without quotes and backslashes.
    pub fn family(&mut self, kind: MetricKind, name: &str, help: &str) -> MetricFamily<'_> {
        let family = format!("{}_{name}", self.prefix);
        let (suffix, word) = match kind {
            MetricKind::Counter => ("_total", "counter"),
            MetricKind::Gauge => ("", "gauge"),
            MetricKind::Info => ("_info", "info"),
        };
        let name = format!("{family}{suffix}");
        let (family, word) = match (self.format, kind) {
            (MetricsFormat::OpenMetrics, _) => (&family, word),
            (MetricsFormat::Plain, MetricKind::Info) => (&name, "gauge"),
            (MetricsFormat::Plain, _) => (&name, word),
        };
        let text = &mut self.text;
        text.extend(["# HELP ", family, " ", help, "\n"]);
        text.extend(["# TYPE ", family, " ", word, "\n"]);
        MetricFamily { page: self, name }
    }

    /// Adds metrics, each with a sample for each of the `subjects`.
    pub fn add<T>(&mut self, metrics: &[Metric<T>], subjects: &[(Vec<(&str, &str)>, &T)]) {
        for (kind, name, help, value) in metrics {
            let mut family = self.family(*kind, name, help);
            for (labels, subject) in subjects {
                if let Some(value) = value(subject) {
                    family.sample(labels, value);
                }
            }
        }
    }

    /// Returns the whole page.
    pub fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }
}

impl MetricFamily<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: &MetricLabels<'_>, value: f64) {
        let text = &mut self.page.text;
        *text += &self.name;
        for (number, (name, value)) in labels.iter().enumerate() {
            let start = if number == 0 { "{" } else { "," };
            text.extend([start, name, "=\""]);
            for letter in value.chars() {
                match letter {
                    '\\' => *text += "\\\\",
                    '"' => *text += "\\\"",
                    '\n' => *text += "\\n",
                    _ => text.push(letter),
                }
            }
            text.push('"');
        }
        if !labels.is_empty() {
            text.push('}');
        }
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_format_that_they_accept() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
            version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, is_open) in [
            (&[][..], false),
            (&["*/*"], false),
            (&["text/html,*/*;q=0.8"], false),
            (&["application/openmetrics-text"], true),
            (
                &["Application/OpenMetrics-Text; version=\"1.0.0\"; q=0.2"],
                true,
            ),
            (&["application/openmetrics-text; version=0.0.1"], false),
            (&["application/openmetrics-text; version=2.0.0"], false),
            (&["application/openmetrics-text;q=0"], false),
            (&["application/openmetrics-text;q=x"], false),
            (&["text/plain", "application/openmetrics-text;q=0.5"], false),
            (&["text/plain;q=0.5", "application/openmetrics-text"], true),
            (
                &["text/plain;version=1.0.0, application/openmetrics-text"],
                true,
            ),
            (&[prometheus], true),
        ] {
            let format = MetricsFormat::accepted(accept.iter().copied());
            assert_eq!(format == MetricsFormat::OpenMetrics, is_open, "{accept:?}");
        }
    }

    #[test]
    fn both_formats_name_their_families() {
        let page = |format| {
            let mut page = MetricsPage::new(format, "x");
            let reads: [Metric<Option<f64>>; 2] = [
                (MetricKind::Counter, "a", "Reads.", |value| *value),
                (MetricKind::Gauge, "c_bytes", "Size.", |_| Some(2.5)),
            ];
            let subjects = [
                (vec![("b", "# EOF\n\"\\"), ("k", "")], &Some(1e15)),
                (vec![("b", "left out in a")], &None),
            ];
            page.add(&reads, &subjects);
            let mut family = page.family(MetricKind::Info, "d", "Version.");
            family.sample(&[("version", "1")], 1.0);
            page.family(MetricKind::Counter, "e", "None.")
                .sample(&[], 0.0);
            page.finish()
        };
        let a = "x_a_total{b=\"# EOF\\n\\\"\\\\\",k=\"\"} 1000000000000000\n";
        let c =
            "x_c_bytes{b=\"# EOF\\n\\\"\\\\\",k=\"\"} 2.5\nx_c_bytes{b=\"left out in a\"} 2.5\n";
        let d = "x_d_info{version=\"1\"} 1\n";
        let e = "x_e_total 0\n";
        assert_eq!(
            page(MetricsFormat::OpenMetrics),
            format!(
                "# HELP x_a Reads.\n# TYPE x_a counter\n{a}\
                # HELP x_c_bytes Size.\n# TYPE x_c_bytes gauge\n{c}\
                # HELP x_d Version.\n# TYPE x_d info\n{d}\
                # HELP x_e None.\n# TYPE x_e counter\n{e}# EOF\n"
            )
        );
        assert_eq!(
            page(MetricsFormat::Plain),
            format!(
                "# HELP x_a_total Reads.\n# TYPE x_a_total counter\n{a}\
                # HELP x_c_bytes Size.\n# TYPE x_c_bytes gauge\n{c}\
                # HELP x_d_info Version.\n# TYPE x_d_info gauge\n{d}\
                # HELP x_e_total None.\n# TYPE x_e_total counter\n{e}"
            )
        );
    }
}
