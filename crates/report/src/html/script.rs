//! The page's own script, put together of files with one job each; a file may use those before it.

/// The script: one function, so that it leaves no names behind. Names of functions only ever become text, never markup.
pub const TEXT: &str = concat!(
    "(() => {\n",
    include_str!("script/data.js"),
    include_str!("script/state.js"),
    include_str!("script/table.js"),
    include_str!("script/labels.js"),
    include_str!("script/roofline.js"),
    include_str!("script/zoom.js"),
    include_str!("script/tips.js"),
    include_str!("script/detail.js"),
    include_str!("script/export.js"),
    include_str!("script/main.js"),
    "})();\n",
);
