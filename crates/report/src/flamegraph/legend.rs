//! The legend below a flame graph: the meaning of its colours.

use std::fmt::Write;

/// Width of the legend: that of the narrowest page.
const WIDTH: f64 = 630.0;
/// Height of a row.
const ROW: f64 = 18.0;

/// A colour and its meaning, which is markup.
pub struct Entry {
    pub color: (u8, u8, u8),
    pub text: String,
}

/// `svg` with a legend below it.
pub fn below(svg: &str, entries: &[Entry]) -> String {
    let Some((root, height)) = root(svg) else { return svg.to_owned() };
    let (mut x, mut y) = (10.0, height + 14.0);
    let mut legend = String::from("<g id=\"legend\" font-family=\"monospace\" font-size=\"12\" fill=\"#333\">");
    for Entry { color: (r, g, b), text } in entries {
        let width = 24.0 + 7.4 * text.chars().count() as f64;
        if x + width > WIDTH {
            (x, y) = (10.0, y + ROW);
        }
        let _ = write!(
            legend,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"11\" height=\"11\" fill=\"rgb({r},{g},{b})\" stroke=\"#999\" stroke-width=\"0.5\"/><text x=\"{:.0}\" y=\"{y:.0}\">{text}</text>",
            y - 10.0,
            x + 16.0
        );
        x += width;
    }
    legend += "</g>";
    let taller = y + 10.0;
    let grown = root.replacen(&format!(" height=\"{height}\""), &format!(" height=\"{taller}\""), 1).replacen(
        &format!(" {height}\""),
        &format!(" {taller}\""),
        1,
    );
    let ground = format!(
        "<rect class=\"ground\" x=\"0\" y=\"{height}\" width=\"100%\" height=\"{}\" fill=\"rgb(250,250,250)\"/>",
        taller - height
    );
    let body = svg.replacen(root, &grown, 1);
    match body.rfind("</svg>") {
        Some(end) => format!("{}{ground}{legend}{}", &body[..end], &body[end..]),
        None => body,
    }
}

/// Height of the picture.
#[cfg(test)]
pub fn height(svg: &str) -> Option<f64> {
    root(svg).map(|(_, height)| height)
}

/// The opening tag of the picture and its height.
fn root(svg: &str) -> Option<(&str, f64)> {
    let tag = &svg[svg.find("<svg")?..];
    let tag = &tag[..=tag.find('>')?];
    let height = tag.split(" height=\"").nth(1)?.split('"').next()?.parse().ok()?;
    Some((tag, height))
}
