//! Parts of the library that follow no program, the source tree, and what is shipped.

#[path = "../common/assemble.rs"]
mod assemble;
#[path = "../common/browser.rs"]
mod browser;
#[path = "../../fuzz/check.rs"]
mod check;
#[path = "../common/symbols.rs"]
mod common;
#[path = "../common/python.rs"]
mod python;
#[path = "../common/shared.rs"]
mod shared;

mod architecture;
mod decode_to_encode;
mod dist;
mod isa_classify;
mod isa_dataflow;
mod isa_opcodes;
mod join;
mod licences;
mod mcp;
mod python_module;
mod report_page;
mod report_roofline;
mod speedscope;
mod symbols_damaged;
mod symbols_files;
mod symbols_wild;
