//! Bandwidth of shared memory, with and without bank conflicts.

use super::text::{Class, Finish, Text, braces};
use super::vectors::{Constants, FULL, load};
use super::{Kernel, Needs, Unit, Work};

/// How the threads of a warp reach shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// 16 bytes a thread, neighbours side by side: no conflicts.
    Read,
    /// The same, written.
    Write,
    /// 4 bytes a thread, every second word: two threads share a bank.
    Stride2,
    /// 4 bytes a thread, every 32nd word: all threads of a warp share a bank.
    Stride32,
}

/// 8 accesses a thread in each trip, over 32 KiB of static shared memory.
///
/// Work: `8 × (16 B, or 4 B with a stride) × iters × threads of the grid`. `count` is not used.
/// Launch: at most 1,024 threads; 2 blocks of 1,024 an SM.
pub fn shared(access: Access) -> Kernel {
    let mut text = Text::new();
    text.declare(".shared .align 128 .b8 buffer[32768]");
    let [base, offset, seen, word] = std::array::from_fn(|_| text.register(Class::B32));
    text.line(format!("mov.u32 {base}, buffer"));
    text.line(format!("mov.b32 {seen}, 0"));
    // Bytes from one access of a thread to its next; the last one ends within the 32 KiB.
    let (name, bytes, step) = match access {
        Access::Read => ("read", 16.0, 2048),
        Access::Write => ("write", 16.0, 2048),
        Access::Stride2 => ("stride2", 4.0, 2048),
        Access::Stride32 => ("stride32", 4.0, 4096),
    };
    match access {
        Access::Read | Access::Write => text.line(format!("mul.lo.u32 {offset}, %thread, 16")),
        Access::Stride2 => text.line(format!("mul.lo.u32 {offset}, %thread, 8")),
        Access::Stride32 => {
            text.line(format!("and.b32 {offset}, %thread, 31"));
            text.line(format!("mul.lo.u32 {offset}, {offset}, 128"));
            text.line(format!("shr.u32 {word}, %thread, 5"));
            text.line(format!("mad.lo.u32 {offset}, {word}, 4, {offset}"));
        }
    }
    text.line(format!("add.u32 {base}, {base}, {offset}"));
    let values = Constants::new(&mut text).words;
    // Volatile: the compiler may neither take loads out of the loop nor drop stores.
    text.repeat("%iters", |text| {
        let places = (0..8).map(|k| format!("{base}+{}", k * step));
        match access {
            Access::Write => {
                let vector = braces(&values);
                places.for_each(|place| text.line(format!("st.volatile.shared.v4.b32 [{place}], {vector}")));
            }
            Access::Read => {
                let vectors: Vec<_> =
                    places.map(|place| load(text, "ld.volatile.shared.v4.b32", Class::B32, 4, &place)).collect();
                text.fold(&seen, Class::B32, &vectors.concat());
            }
            Access::Stride2 | Access::Stride32 => {
                let words = text.registers(Class::B32, 8);
                for (word, place) in words.iter().zip(places) {
                    text.line(format!("ld.volatile.shared.b32 {word}, [{place}]"));
                }
                text.fold(&seen, Class::B32, &words);
            }
        }
    });
    text.keep(Class::B32, &[seen]);
    let work = Work::PerThread(8.0 * bytes);
    text.finish(Finish {
        name: format!("shared_{name}"),
        needs: Needs::at_least(7, 0),
        unit: Unit::Byte,
        work,
        bounds: FULL,
    })
}
