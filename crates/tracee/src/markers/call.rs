//! The meaning of one call of a marker function.

use super::{Act, Marker, Name};
use rprof_profile::evidence::marks::Api;

/// Bytes after which a name is cut.
const LONGEST_NAME: usize = 128;
/// `messageType` and `message` in `nvtxEventAttributes_t`, and the type of a C string.
const NVTX_MESSAGE_TYPE: u64 = 32;
const NVTX_MESSAGE: u64 = 40;
const NVTX_ASCII: u32 = 1;

/// A call: the function, and its first four arguments in registers (rdi, rsi, rdx, rcx).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// The function.
    pub marker: Marker,
    /// Its arguments.
    pub arguments: [u64; 4],
}

/// The meaning of a call. A name that cannot be read is `None`.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A region begins.
    Begin(Api, Option<String>),
    /// It ends.
    End(Api, Option<String>),
    /// The latest region of the interface ends.
    EndLatest(Api),
    /// Work was done.
    Work {
        /// In this unit.
        unit: Option<String>,
        /// The amount.
        amount: f64,
    },
    /// No such call is known.
    Unknown,
}

/// Reads the program's memory from an address on; returns how many bytes there were.
pub type Read<'r> = &'r mut dyn FnMut(u64, &mut [u8]) -> usize;

impl Call {
    /// The meaning of the call; `read` reads the names.
    pub fn mark(&self, read: Read<'_>) -> Mark {
        let (api, [first, second, third, _]) = (self.marker.api, self.arguments);
        match self.marker.act {
            Act::Begin(name) => Mark::Begin(api, self.name(name, read)),
            Act::End(name) => Mark::End(api, self.name(name, read)),
            Act::EndLatest => Mark::EndLatest(api),
            Act::Mark => match first as u32 {
                0 => Mark::Begin(api, string(second, read)),
                1 => Mark::End(api, string(second, read)),
                2 => Mark::Work { unit: string(second, read), amount: f64::from_bits(third) },
                _ => Mark::Unknown,
            },
        }
    }

    fn name(&self, name: Name, read: Read<'_>) -> Option<String> {
        match name {
            Name::At(i) => string(self.arguments[i], read),
            Name::Behind(i) => string(word(self.arguments[i], read)?, read),
            Name::InAttributes(i) => {
                let at = self.arguments[i];
                let kind = word(at.checked_add(NVTX_MESSAGE_TYPE)?, read)? as u32;
                (kind == NVTX_ASCII).then(|| string(word(at.checked_add(NVTX_MESSAGE)?, read)?, read))?
            }
        }
    }
}

fn word(at: u64, read: Read<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    (read(at, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
}

/// The C string at `at`, cut to a readable length; characters that would change a line are replaced.
fn string(at: u64, read: Read<'_>) -> Option<String> {
    let mut bytes = [0; LONGEST_NAME];
    let there = read(at, &mut bytes);
    let end = bytes[..there].iter().position(|&b| b == 0);
    // A string without a terminator before the end of the memory has no end.
    let end = end.or((there == LONGEST_NAME).then_some(there))?;
    let text: String =
        String::from_utf8_lossy(&bytes[..end]).chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    Some(if text.trim().is_empty() { "(no name)".into() } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory with these bytes at 0x1000.
    fn at_0x1000(memory: &[u8]) -> impl FnMut(u64, &mut [u8]) -> usize + '_ {
        |at, buffer| {
            let rest = at.checked_sub(0x1000).and_then(|from| memory.get(from as usize..)).unwrap_or_default();
            let size = rest.len().min(buffer.len());
            buffer[..size].copy_from_slice(&rest[..size]);
            size
        }
    }

    fn call(symbol: &str, arguments: [u64; 4]) -> Call {
        Call { marker: Marker::named(symbol.as_bytes()).unwrap(), arguments }
    }

    #[test]
    fn calls_say_what_their_arguments_say() {
        let memory = b"solve\0no end";
        let mark = |symbol: &str, arguments| call(symbol, arguments).mark(&mut at_0x1000(memory));
        let solve = || Some("solve".to_owned());
        assert_eq!(mark("rprof_mark", [0, 0x1000, 0, 0]), Mark::Begin(Api::Rprof, solve()));
        assert_eq!(mark("rprof_mark", [1, 0x1000, 0, 0]), Mark::End(Api::Rprof, solve()));
        let work = Mark::Work { unit: solve(), amount: 2.5 };
        assert_eq!(mark("rprof_mark", [2, 0x1000, 2.5f64.to_bits(), 0]), work);
        assert_eq!(mark("rprof_mark", [9, 0x1000, 0, 0]), Mark::Unknown);
        assert_eq!(mark("likwid_markerStopRegion", [0x1000; 4]), Mark::End(Api::Likwid, solve()));
        assert_eq!(mark("nvtxRangePop", [7; 4]), Mark::EndLatest(Api::Nvtx));
        assert_eq!(mark("nvtxRangePushA", [0; 4]), Mark::Begin(Api::Nvtx, None));
        assert_eq!(mark("nvtxRangePushA", [0x1006; 4]), Mark::Begin(Api::Nvtx, None), "it ends with the memory");
        assert_eq!(mark("nvtxRangePushA", [0x1005; 4]), Mark::Begin(Api::Nvtx, Some("(no name)".into())));
    }

    #[test]
    fn names_behind_pointers_are_found() {
        let mut memory = vec![0; 64];
        memory[..8].copy_from_slice(&0x1030u64.to_le_bytes());
        memory[32] = 1;
        memory[40..48].copy_from_slice(&0x1030u64.to_le_bytes());
        memory[48..51].copy_from_slice(b"fft");
        let fft = || Some("fft".to_owned());
        let of = |memory: &[u8], symbol: &str| call(symbol, [0x1000; 4]).mark(&mut at_0x1000(memory));
        assert_eq!(of(&memory, "__itt_task_begin"), Mark::Begin(Api::Itt, fft()));
        assert_eq!(of(&memory, "nvtxDomainRangePushEx"), Mark::Begin(Api::Nvtx, fft()));
        memory[32] = 2;
        assert_eq!(of(&memory, "nvtxRangePushEx"), Mark::Begin(Api::Nvtx, None), "wide characters");
    }
}
