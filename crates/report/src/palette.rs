//! One colour per class, the same in every picture.

use rprof_profile::vocabulary::Class;

/// Functions that were not counted.
const GREY: (u8, u8, u8) = (160, 164, 170);

/// The classes in the order of the legend; `None`: functions that were not counted.
pub fn legend() -> impl Iterator<Item = Option<Class>> {
    Class::ALL.iter().copied().map(Some).chain([None])
}

/// The colour of a class; `None` is grey.
pub fn rgb(class: Option<Class>) -> (u8, u8, u8) {
    class.map_or(GREY, Class::colour)
}

/// The colour of a class as `#rrggbb`.
pub fn hex(class: Option<Class>) -> String {
    let (r, g, b) = rgb(class);
    format!("#{r:02x}{g:02x}{b:02x}")
}
