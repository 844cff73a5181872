//! One colour per class, the same in every picture.

use rprof_profile::vocabulary::Class;

/// Functions that were not counted.
const GREY: (u8, u8, u8) = (160, 164, 170);

/// The classes in the order of the legend, and of functions that were not counted.
pub fn names() -> impl Iterator<Item = &'static str> {
    Class::ALL.iter().map(|class| class.name()).chain(["not counted"])
}

/// The colour of a class; `None` and unheard-of classes are grey.
pub fn rgb(class: Option<&str>) -> (u8, u8, u8) {
    class.and_then(Class::of_name).map_or(GREY, Class::colour)
}

/// The colour of a class as `#rrggbb`.
pub fn hex(class: Option<&str>) -> String {
    let (r, g, b) = rgb(class);
    format!("#{r:02x}{g:02x}{b:02x}")
}
