//! Icons of servers as images in the terminal.
//!
//! The environment decides which form the terminal understands: the kitty graphics protocol, the
//! inline images of iTerm2, or sixel. Terminal multiplexers get none, because they swallow images.
//! Half blocks with colors work everywhere, but only on request.
//!
//! Icons come from strangers. Only images that decode completely, of at most 512 × 512 pixels, reach
//! the terminal.
//!
//! In: an icon, the kind of terminal. Out: escape sequences.
//!
//! May import: `hailer`.

use clap::ValueEnum;
use hailer::proto::model::Icon;
use std::fmt::Write as _;
use std::io::{self, Cursor, IsTerminal, Write};

/// Size of an icon in cells, which are about twice as high as wide.
const COLUMNS: usize = 8;
const ROWS: usize = 4;
/// Size of an icon made of half blocks, in cells. Each has two pixels.
const BLOCK_COLUMNS: usize = 16;
const BLOCK_ROWS: usize = 8;
/// Width and height of a sixel image, in pixels: [`ROWS`] rows in most terminals.
const SIXEL_PIXELS: usize = 64;
/// Levels of each primary color in a sixel image.
const SIXEL_LEVELS: usize = 6;
/// Longest piece of a kitty image, in bytes.
const KITTY_PIECE_BYTES: usize = 4_096;
/// Memory for decoding, in bytes: more than 512 × 512 pixels of 8 bytes need.
const MAX_DECODING_BYTES: usize = 4 << 20;

/// How icons are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IconMode {
    /// As an image if the terminal supports images
    Auto,
    /// As an image, or as half blocks if the terminal supports no images
    Always,
    /// In the kitty graphics protocol
    Kitty,
    /// As an inline image of iTerm2
    Iterm2,
    /// As a sixel image
    Sixel,
    /// As half blocks with colors
    Blocks,
    /// Not at all
    Never,
}

/// Form of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageForm {
    Kitty,
    Iterm2,
    Sixel,
    Blocks,
}

/// Writes an icon, if standard output is a terminal with colors and `mode` allows it.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn show(out: &mut impl Write, icon: &Icon, mode: IconMode) -> io::Result<()> {
    let stdout = io::stdout();
    // Without colors, the output stream would remove the image and leave its line.
    let has_colors = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
    if !stdout.is_terminal() || !has_colors {
        return Ok(());
    }
    let form = form(mode, |name| std::env::var(name).ok());
    match form.and_then(|form| draw(icon, form)) {
        Some(image) => writeln!(out, "{image}"),
        None => Ok(()),
    }
}

/// Returns the form for a terminal with these environment variables.
fn form(mode: IconMode, variable: impl Fn(&str) -> Option<String>) -> Option<ImageForm> {
    match mode {
        IconMode::Never => None,
        IconMode::Auto => supported(variable),
        IconMode::Always => Some(supported(variable).unwrap_or(ImageForm::Blocks)),
        IconMode::Kitty => Some(ImageForm::Kitty),
        IconMode::Iterm2 => Some(ImageForm::Iterm2),
        IconMode::Sixel => Some(ImageForm::Sixel),
        IconMode::Blocks => Some(ImageForm::Blocks),
    }
}

/// Returns the form that a terminal with these environment variables understands.
fn supported(variable: impl Fn(&str) -> Option<String>) -> Option<ImageForm> {
    let value = |name: &str| variable(name).unwrap_or_default();
    let is_set = |name: &str| !value(name).is_empty();
    let term = value("TERM");
    let program = value("TERM_PROGRAM");
    let is_multiplexer = ["TMUX", "STY", "ZELLIJ"].into_iter().any(is_set)
        || term.starts_with("screen")
        || term.starts_with("tmux");
    if is_multiplexer {
        return None;
    }
    let is_kitty = is_set("KITTY_WINDOW_ID")
        || ["xterm-kitty", "xterm-ghostty"].contains(&term.as_str())
        || program == "ghostty";
    let is_iterm = ["iTerm.app", "WezTerm", "mintty"].contains(&program.as_str())
        || value("LC_TERMINAL") == "iTerm2"
        || is_set("KONSOLE_VERSION");
    let is_sixel = ["foot", "mlterm", "contour", "yaft"]
        .into_iter()
        .any(|name| term.starts_with(name))
        || term.contains("sixel");
    if is_kitty {
        Some(ImageForm::Kitty)
    } else if is_iterm {
        Some(ImageForm::Iterm2)
    } else {
        is_sixel.then_some(ImageForm::Sixel)
    }
}

/// Returns the characters that draw an icon. `None` if it is no valid image.
fn draw(icon: &Icon, form: ImageForm) -> Option<String> {
    let image = Image::decode(icon)?;
    Some(match form {
        ImageForm::Kitty => kitty(icon),
        ImageForm::Iterm2 => iterm2(icon),
        ImageForm::Sixel => sixel(&image.scaled(SIXEL_PIXELS, SIXEL_PIXELS)),
        ImageForm::Blocks => blocks(&image.scaled(BLOCK_COLUMNS, 2 * BLOCK_ROWS)),
    })
}

/// Transmits and displays a PNG file. `q=2`: the terminal sends no answer, which would appear as
/// typed text.
fn kitty(icon: &Icon) -> String {
    let encoded = base64(icon);
    let mut text = String::with_capacity(encoded.len() + 256);
    let mut keys = format!("a=T,f=100,q=2,c={COLUMNS},r={ROWS},");
    let mut rest = encoded;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(KITTY_PIECE_BYTES));
        let has_more = u8::from(!after.is_empty());
        let _ = write!(text, "\x1b_G{keys}m={has_more};{piece}\x1b\\");
        if after.is_empty() {
            return text;
        }
        keys.clear();
        rest = after;
    }
}

fn iterm2(icon: &Icon) -> String {
    format!(
        "\x1b]1337;File=inline=1;size={};width={COLUMNS};height={ROWS};preserveAspectRatio=1:{}\x07",
        icon.to_png().len(),
        base64(icon)
    )
}

/// Returns the PNG file in base64.
fn base64(icon: &Icon) -> &str {
    let parts = icon.data_uri().split_once(',');
    parts.map_or("", |(_, text)| text)
}

/// Encodes an image in bands of six rows. Colors are rounded to 216, and transparent pixels are left
/// out.
fn sixel(image: &Image) -> String {
    let level = |value: u8| usize::from(value) * (SIXEL_LEVELS - 1) / 255;
    let color = |[r, g, b, a]: [u8; 4]| {
        (a >= 128).then(|| (level(r) * SIXEL_LEVELS + level(g)) * SIXEL_LEVELS + level(b))
    };
    let colors: Vec<Option<usize>> = image.pixels.iter().map(|pixel| color(*pixel)).collect();
    let mut text = format!("\x1bP0;1;0q\"1;1;{};{}", image.width, image.height());
    let mut used: Vec<usize> = colors.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    for color in &used {
        let percent = |level: usize| level * 100 / (SIXEL_LEVELS - 1);
        let red = percent(color / SIXEL_LEVELS / SIXEL_LEVELS);
        let green = percent(color / SIXEL_LEVELS % SIXEL_LEVELS);
        let blue = percent(color % SIXEL_LEVELS);
        let _ = write!(text, "#{color};2;{red};{green};{blue}");
    }
    for band in colors.chunks(6 * image.width) {
        for color in used.iter().filter(|color| band.contains(&Some(**color))) {
            let _ = write!(text, "#{color}");
            for column in 0..image.width {
                let rows = band.iter().skip(column).step_by(image.width);
                let bits = rows
                    .enumerate()
                    .map(|(row, found)| u8::from(*found == Some(*color)) << row);
                text.push(char::from(b'?' + bits.sum::<u8>()));
            }
            text.push('$');
        }
        text.push('-');
    }
    text + "\x1b\\"
}

/// Draws two pixels in each cell: the upper one as the color of the character `▀`, the lower one as
/// the background.
fn blocks(image: &Image) -> String {
    let mut lines = Vec::new();
    for pair in image.pixels.chunks(2 * image.width) {
        let (upper, lower) = pair.split_at(image.width.min(pair.len()));
        let mut line = String::from("  ");
        for (column, top) in upper.iter().enumerate() {
            let bottom = lower.get(column).copied().unwrap_or_default();
            let is_seen = |pixel: [u8; 4]| pixel[3] >= 128;
            let rgb = |[r, g, b, _]: [u8; 4]| format!("{r};{g};{b}");
            line += &match (is_seen(*top), is_seen(bottom)) {
                (true, true) => format!("\x1b[38;2;{};48;2;{}m▀", rgb(*top), rgb(bottom)),
                (true, false) => format!("\x1b[0;38;2;{}m▀", rgb(*top)),
                (false, true) => format!("\x1b[0;38;2;{}m▄", rgb(bottom)),
                (false, false) => "\x1b[0m ".into(),
            };
        }
        lines.push(line + "\x1b[0m");
    }
    lines.join("\n")
}

/// Pixels of an image, row by row: red, green, blue, opacity.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    width: usize,
    pixels: Vec<[u8; 4]>,
}

impl Image {
    /// Decodes an icon completely. `None` if it is damaged or too large.
    fn decode(icon: &Icon) -> Option<Self> {
        icon.image_size().ok()?;
        let limits = png::Limits {
            bytes: MAX_DECODING_BYTES,
        };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(icon.to_png()), limits);
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().ok()?;
        let mut bytes = vec![0; reader.output_buffer_size()?];
        let frame = reader.next_frame(&mut bytes).ok()?;
        bytes.truncate(frame.buffer_size());
        let pixel = |bytes: &[u8]| match *bytes {
            [gray] => [gray, gray, gray, 255],
            [gray, alpha] => [gray, gray, gray, alpha],
            [r, g, b] => [r, g, b, 255],
            [r, g, b, alpha] => [r, g, b, alpha],
            _ => [0; 4],
        };
        let image = Self {
            width: frame.width as usize,
            pixels: bytes
                .chunks_exact(frame.color_type.samples())
                .map(pixel)
                .collect(),
        };
        let is_whole = image.pixels.len() == image.width * frame.height as usize;
        is_whole.then_some(image)
    }

    fn height(&self) -> usize {
        self.pixels.len() / self.width.max(1)
    }

    /// Returns the image in another size. Each pixel is the mean of those that it covers.
    fn scaled(&self, width: usize, height: usize) -> Self {
        let span = |place: usize, of: usize, whole: usize| {
            let first = place * whole / of;
            first..((place + 1) * whole / of).max(first + 1)
        };
        let places = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
        let mean = |(row, column)| {
            let mut sum = [0_u32; 4];
            let mut count = 0;
            for y in span(row, height, self.height()) {
                for x in span(column, width, self.width) {
                    let [r, g, b, a] = self.pixels[y * self.width + x].map(u32::from);
                    // Transparent pixels have no color.
                    sum = [sum[0] + r * a, sum[1] + g * a, sum[2] + b * a, sum[3] + a];
                    count += 1;
                }
            }
            let [r, g, b, a] = sum;
            let color = |value: u32| value.checked_div(a).unwrap_or(0) as u8;
            [color(r), color(g), color(b), (a / count) as u8]
        };
        Self {
            width,
            pixels: places.map(mean).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an icon with these pixels.
    fn icon(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Icon {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        let pixels: Vec<u8> = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .flat_map(|(x, y)| pixel(x, y))
            .collect();
        writer.write_image_data(&pixels).unwrap();
        drop(writer);
        Icon::from_png(&bytes).unwrap()
    }

    const RED: [u8; 4] = [255, 0, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 255, 255];
    const CLEAR: [u8; 4] = [0; 4];

    /// Red above, blue below, and a transparent right half.
    fn flag() -> Icon {
        icon(64, 64, |x, y| match (x < 32, y < 32) {
            (false, _) => CLEAR,
            (_, true) => RED,
            _ => BLUE,
        })
    }

    fn decoded(base64: &str) -> Icon {
        Icon::from_data_uri(&format!("data:image/png;base64,{base64}")).unwrap()
    }

    fn chosen(mode: IconMode, variables: &[(&str, &str)]) -> Option<ImageForm> {
        form(mode, |name| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_selects_the_form() {
        for (variables, expected) in [
            (&[("TERM", "xterm-kitty")][..], Some(ImageForm::Kitty)),
            (&[("KITTY_WINDOW_ID", "1")], Some(ImageForm::Kitty)),
            (&[("TERM_PROGRAM", "ghostty")], Some(ImageForm::Kitty)),
            (&[("TERM_PROGRAM", "iTerm.app")], Some(ImageForm::Iterm2)),
            (&[("TERM_PROGRAM", "WezTerm")], Some(ImageForm::Iterm2)),
            (&[("LC_TERMINAL", "iTerm2")], Some(ImageForm::Iterm2)),
            (&[("TERM", "foot")], Some(ImageForm::Sixel)),
            (&[("TERM", "xterm-sixel")], Some(ImageForm::Sixel)),
            (&[("TERM", "xterm-256color")], None),
            (&[], None),
            (&[("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux")], None),
            (
                &[("TERM", "screen-256color"), ("KITTY_WINDOW_ID", "1")],
                None,
            ),
        ] {
            assert_eq!(chosen(IconMode::Auto, variables), expected, "{variables:?}");
            let always = expected.unwrap_or(ImageForm::Blocks);
            assert_eq!(chosen(IconMode::Always, variables), Some(always));
            assert_eq!(chosen(IconMode::Never, variables), None);
            assert_eq!(chosen(IconMode::Sixel, variables), Some(ImageForm::Sixel));
        }
    }

    #[test]
    fn kitty_images_are_cut_into_pieces() {
        // Noise does not compress.
        let noisy = icon(64, 64, |x, y| {
            let mixed = hailer::proto::Cookie(u64::from(x * 64 + y)).derive(0);
            (mixed as u32).to_be_bytes()
        });
        assert!(noisy.to_png().len() > 2 * KITTY_PIECE_BYTES);
        let text = draw(&noisy, ImageForm::Kitty).unwrap();
        let mut joined = String::new();
        let pieces: Vec<&str> = text.split("\x1b_G").skip(1).collect();
        for (number, piece) in pieces.iter().enumerate() {
            let (keys, data) = piece.split_once(';').unwrap();
            let data = data.strip_suffix("\x1b\\").unwrap();
            assert!(data.len() <= KITTY_PIECE_BYTES);
            assert_eq!(keys.starts_with("a=T,f=100,q=2,"), number == 0, "{keys}");
            let has_more = number + 1 < pieces.len();
            assert!(
                keys.ends_with(&format!("m={}", u8::from(has_more))),
                "{keys}"
            );
            joined += data;
        }
        assert_eq!(decoded(&joined), noisy);
    }

    #[test]
    fn iterm_images_have_their_length() {
        let flag = flag();
        let text = draw(&flag, ImageForm::Iterm2).unwrap();
        let (keys, data) = text.split_once(':').unwrap();
        assert!(keys.contains(&format!("size={};", flag.to_png().len())));
        let data = data.strip_suffix('\x07').unwrap();
        assert_eq!(decoded(data), flag);
    }

    #[test]
    fn sixel_images_have_one_band_for_six_rows() {
        let text = draw(&flag(), ImageForm::Sixel).unwrap();
        assert!(text.starts_with("\x1bP0;1;0q\"1;1;64;64#5;2;0;0;100#180;2;100;0;0"));
        assert!(text.ends_with("-\x1b\\"));
        let bands: Vec<&str> = text.split('-').collect();
        assert_eq!(bands.len(), 12);
        // Six red rows on the left; nothing on the right.
        let red = format!("#180{}{}$", "~".repeat(32), "?".repeat(32));
        assert!(bands[0].ends_with(&red), "{}", bands[0]);
        // The last band has four rows.
        let blue = format!("#5{}{}$", "N".repeat(32), "?".repeat(32));
        assert_eq!(bands[10], blue);
    }

    #[test]
    fn blocks_show_two_pixels_in_a_cell() {
        let text = draw(&flag(), ImageForm::Blocks).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BLOCK_ROWS);
        let cell = "\x1b[38;2;255;0;0;48;2;255;0;0m▀";
        let half = BLOCK_COLUMNS / 2;
        assert_eq!(
            lines[0],
            format!("  {}{}\x1b[0m", cell.repeat(half), "\x1b[0m ".repeat(half))
        );
        let one = icon(1, 1, |_, _| BLUE);
        let text = draw(&one, ImageForm::Blocks).unwrap();
        assert_eq!(
            text.matches("48;2;0;0;255").count(),
            BLOCK_COLUMNS * BLOCK_ROWS
        );
    }

    #[test]
    fn damaged_images_are_not_shown() {
        let whole = flag();
        for form in [
            ImageForm::Kitty,
            ImageForm::Iterm2,
            ImageForm::Sixel,
            ImageForm::Blocks,
        ] {
            for length in (8..whole.to_png().len()).step_by(7) {
                let cut = Icon::from_png(&whole.to_png()[..length]).unwrap();
                assert_eq!(draw(&cut, form), None, "{length}");
            }
            let huge = icon(513, 1, |_, _| RED);
            assert_eq!(draw(&huge, form), None);
        }
    }
}
