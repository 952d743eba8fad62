//! Text formats of metrics: OpenMetrics 1.0, and the older text format 0.0.4 for clients that do
//! not ask for OpenMetrics.
//!
//! The formats differ in the names of counters: the family `requests` of OpenMetrics, whose samples
//! are called `requests_total`, is the family `requests_total` of the older format.

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

    /// Converts metrics to this format. `text` is in the OpenMetrics format, without exemplars and
    /// timestamps.
    pub fn convert(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Plain => plain(&text),
        }
    }
}

/// Converts from OpenMetrics.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            out.extend([line, "\n"]);
            continue;
        };
        let (keyword, rest) = comment.split_once(' ').unwrap_or((comment, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match keyword {
            // The name in it depends on the type, which follows.
            "HELP" => help = rest,
            "TYPE" => {
                let (suffix, kind) = match rest {
                    "counter" => ("_total", rest),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    _ => ("", rest),
                };
                out.extend(["# HELP ", name, suffix, " ", help, "\n"]);
                out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
                help = "";
            }
            // Units, and the end mark.
            _ => {}
        }
    }
    out
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
    fn counters_and_infos_have_the_names_of_their_samples() {
        let open = "# HELP a Reads.\n# TYPE a counter\na_total{b=\"# EOF\"} 1\n# HELP c_bytes Size.\n\
            # TYPE c_bytes gauge\n# UNIT c_bytes bytes\nc_bytes 2.0\n# HELP d Version.\n\
            # TYPE d info\nd_info{version=\"1\"} 1\n# HELP e None.\n# TYPE e counter\n# EOF\n";
        let plain = "# HELP a_total Reads.\n# TYPE a_total counter\na_total{b=\"# EOF\"} 1\n\
            # HELP c_bytes Size.\n# TYPE c_bytes gauge\nc_bytes 2.0\n# HELP d_info Version.\n\
            # TYPE d_info gauge\nd_info{version=\"1\"} 1\n# HELP e_total None.\n\
            # TYPE e_total counter\n";
        assert_eq!(MetricsFormat::Plain.convert(open.into()), plain);
        assert_eq!(MetricsFormat::OpenMetrics.convert(open.into()), open);
    }
}
