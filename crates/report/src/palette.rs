//! One colour per class, the same in every picture; legible on light and dark ground.

/// Classes in the order of the legend, with their colour.
pub const CLASSES: [(&str, (u8, u8, u8)); 38] = [
    ("dram-bandwidth", (45, 112, 205)),
    ("dram-latency", (108, 76, 196)),
    ("l3-bandwidth", (38, 146, 206)),
    ("l2-bandwidth", (28, 160, 176)),
    ("cache-latency", (146, 92, 182)),
    ("private-cache-conflict", (122, 62, 148)),
    ("tlb", (84, 96, 168)),
    ("l1-bandwidth", (36, 160, 130)),
    ("store-forwarding", (64, 140, 104)),
    ("ilp", (214, 120, 28)),
    ("simd", (226, 88, 62)),
    ("fma-balance", (206, 66, 108)),
    ("instruction-mix", (186, 138, 24)),
    ("div-sqrt", (176, 84, 44)),
    ("mispredict", (200, 48, 48)),
    ("front-end", (150, 116, 52)),
    ("page-faults", (98, 108, 58)),
    ("system-calls", (76, 118, 88)),
    ("waiting", (120, 112, 140)),
    ("load-imbalance", (196, 74, 158)),
    ("threads", (160, 60, 130)),
    ("peak", (60, 158, 72)),
    ("waiting-for-ranks", (138, 84, 150)),
    ("network-latency", (66, 104, 150)),
    ("network-bandwidth", (30, 130, 190)),
    ("gpu-dram-bandwidth", (45, 112, 205)),
    ("gpu-l2-bandwidth", (28, 160, 176)),
    ("gpu-l1-bandwidth", (36, 160, 130)),
    ("gpu-shared-bandwidth", (64, 140, 104)),
    ("gpu-fp64", (60, 158, 72)),
    ("gpu-fp32", (128, 160, 48)),
    ("gpu-fp16", (170, 152, 36)),
    ("gpu-tensor", (206, 66, 108)),
    ("gpu-issue", (186, 138, 24)),
    ("gpu-latency", (214, 120, 28)),
    ("gpu-launch", (200, 48, 48)),
    ("unknown", (130, 134, 142)),
    ("not counted", (160, 164, 170)),
];

/// The colour of a class; `None` and unheard-of classes are grey.
pub fn rgb(class: Option<&str>) -> (u8, u8, u8) {
    let name = class.unwrap_or("not counted");
    CLASSES.into_iter().find(|(n, _)| *n == name).map_or((160, 164, 170), |(_, c)| c)
}

/// The colour of a class as `#rrggbb`.
pub fn hex(class: Option<&str>) -> String {
    let (r, g, b) = rgb(class);
    format!("#{r:02x}{g:02x}{b:02x}")
}
