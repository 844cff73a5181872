//! Instructions as text.

use iced_x86::{FlowControl, Formatter, Instruction, IntelFormatter};

/// Writes instructions in Intel syntax, with the sizes of operands in memory only if registers do not show them.
pub struct Disassembler {
    formatter: IntelFormatter,
}

impl Default for Disassembler {
    fn default() -> Self {
        let mut formatter = IntelFormatter::new();
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_small_hex_numbers_in_decimal(false);
        options.set_branch_leading_zeros(false);
        options.set_rip_relative_addresses(true);
        options.set_show_branch_size(false);
        Disassembler { formatter }
    }
}

impl Disassembler {
    /// `instruction` as text. Targets of jumps and calls are addresses like its `ip`.
    pub fn text(&mut self, instruction: &Instruction) -> String {
        let mut text = String::new();
        self.formatter.format(instruction, &mut text);
        text
    }
}

/// The target of a direct call.
pub fn called(instruction: &Instruction) -> Option<u64> {
    (instruction.flow_control() == FlowControl::Call).then(|| instruction.near_branch_target())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn text_is_as_other_disassemblers_write_it() {
        let cases: [(&[u8], &str); 6] = [
            (&[0xf3, 0x0f, 0x10, 0x04, 0x87], "movss xmm0,[rdi+rax*4]"),
            (&[0x48, 0x83, 0xc0, 0x01], "add rax,0x1"),
            (&[0x75, 0xf1], "jne 0xff3"),
            (&[0xe8, 0x00, 0x01, 0x00, 0x00], "call 0x1105"),
            (&[0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00], "mov rax,[rip+0x10]"),
            (&[0x62, 0xf2, 0xf5, 0x48, 0xb8, 0x07], "vfmadd231pd zmm0,zmm1,[rdi]"),
        ];
        for (bytes, text) in cases {
            let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
            assert_eq!(Disassembler::default().text(&instruction), text);
        }
    }
}
