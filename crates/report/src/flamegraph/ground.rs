//! The ground of a flame graph: dark if the reader's pages are, or if the page around it says so.

/// Style sheet: `data-theme` of the document is the choice of a page that has the picture in a frame.
const STYLE: &str = "
:root { --flame-ground: #fafafa; --flame-ink: #1d2430; --flame-hover: black }
@media (prefers-color-scheme: dark) { :root { --flame-ground: #14181f; --flame-ink: #e8ebf0; --flame-hover: white } }
:root[data-theme=light] { --flame-ground: #fafafa; --flame-ink: #1d2430; --flame-hover: black }
:root[data-theme=dark] { --flame-ground: #14181f; --flame-ink: #e8ebf0; --flame-hover: white }
@media print { :root, :root[data-theme] { --flame-ground: #fafafa; --flame-ink: #1d2430 } }
rect[fill='url(#background)'], .ground { fill: var(--flame-ground) }
#title, #subtitle, #details, #unzoom, #search, #matched, #legend { fill: var(--flame-ink) }
#search { opacity: 0.6 }
#frames > *:hover { stroke: var(--flame-hover) }
";

/// `svg` with colours for both grounds, after its own style sheet.
pub fn of_reader(svg: &str) -> String {
    svg.replacen("</style>", &format!("{STYLE}</style>"), 1)
}
