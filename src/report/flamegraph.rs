//! The flame graph, drawn by `inferno`, each function in the colour of its class.

use std::collections::BTreeMap;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};

use crate::profile::Profile;

use super::error::ReportError;
use super::name::printable;
use super::{folded, palette};

/// The flame graph as SVG.
///
/// # Errors
/// [`ReportError::Render`] if `inferno` refuses the stacks.
pub fn svg(profile: &Profile) -> Result<String, ReportError> {
    let text = folded::text(profile);
    if text.is_empty() {
        return Ok(empty());
    }
    let mut palette = palette_map(profile);
    let mut options = Options::default();
    options.title = format!("CPU time of {}", printable(&profile.run.command.join(" ")));
    options.subtitle = Some("coloured by the ceiling that binds each function".into());
    options.count_name = "µs".into();
    options.name_type = "".into();
    options.font_size = 12;
    options.deterministic = true;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.bgcolors = Some(BackgroundColor::Flat(Color { r: 250, g: 250, b: 250 }));
    options.palette_map = Some(&mut palette);
    let mut out = Vec::new();
    let failed = |problem: String| ReportError::Render { what: "flame graph", problem };
    flamegraph::from_lines(&mut options, text.lines(), &mut out).map_err(|e| failed(e.to_string()))?;
    String::from_utf8(out).map_err(|e| failed(e.to_string()))
}

/// Colour by function name; frames that are no hot function are light grey.
fn palette_map(profile: &Profile) -> PaletteMap {
    let classes: BTreeMap<&str, Option<&str>> =
        profile.functions.iter().map(|f| (f.name.as_str(), f.analysis.class.as_deref())).collect();
    let mut map = PaletteMap::default();
    // inferno knows the root by the empty name, and shows it as `all`.
    map.insert("", Color { r: 200, g: 203, b: 208 });
    for frame in 0..profile.frames.len() as u32 {
        let name = super::stacks::name(profile, frame);
        let (r, g, b) = match classes.get(profile.frames[frame as usize].name.as_str()) {
            Some(class) => lighter(palette::rgb(*class)),
            None => (216, 218, 222),
        };
        map.insert(name, Color { r, g, b });
    }
    map
}

/// Black text must stay readable on it.
fn lighter((r, g, b): (u8, u8, u8)) -> (u8, u8, u8) {
    let mix = |c: u8| c + (f32::from(255 - c) * 0.4) as u8;
    (mix(r), mix(g), mix(b))
}

fn empty() -> String {
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 600 60\"><text x=\"20\" y=\"35\" \
     font-family=\"sans-serif\" font-size=\"14\" fill=\"#777\">No samples: too little to draw a flame graph.</text></svg>\n"
        .into()
}
