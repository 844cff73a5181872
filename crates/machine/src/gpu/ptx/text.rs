//! The builder of a PTX module: header, parameters, registers, loops, clock record.

use super::{Kernel, Needs, Unit, Work};

/// Register classes of PTX that the kernels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Pred,
    B32,
    B64,
    F32,
    F64,
}

impl Class {
    const ALL: [Self; 5] = [Self::Pred, Self::B32, Self::B64, Self::F32, Self::F64];

    /// (PTX type, stem of the register names)
    fn spelling(self) -> (&'static str, &'static str) {
        match self {
            Self::Pred => ("pred", "%vp"),
            Self::B32 => ("b32", "%vr"),
            Self::B64 => ("b64", "%vd"),
            Self::F32 => ("f32", "%vf"),
            Self::F64 => ("f64", "%vg"),
        }
    }
}

/// Threads of a block that the compiler must allow for, and blocks that must fit on an SM together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    pub threads: u32,
    /// 0: no demand.
    pub blocks: u32,
}

/// The parts that make a finished text a kernel.
pub(super) struct Finish {
    pub name: String,
    pub needs: Needs,
    pub unit: Unit,
    pub work: Work,
    pub bounds: Bounds,
}

/// Text under construction. It begins with the parameters in registers: `a b c out` as pointers to global memory (`%ra`
/// …), `%count`, `%iters`, `%spare`; `%thread`, `%block`, `%threads`, `%blocks`, and `%global` = index in the grid.
#[derive(Debug)]
pub(super) struct Text {
    body: String,
    declarations: String,
    used: [usize; 5],
    labels: usize,
}

impl Text {
    pub fn new() -> Self {
        let mut text = Self { body: String::new(), declarations: String::new(), used: [0; 5], labels: 0 };
        text.declarations += "\t.reg .pred %clerk, %store;\n\t.reg .b32 %iters, %spare, %kept, %who;\n";
        text.declarations += "\t.reg .b32 %thread, %block, %threads, %blocks, %global;\n";
        text.declarations += "\t.reg .b64 %ra, %rb, %rc, %rout, %count, %kept2, %tick0, %tick1, %time0, %time1;\n";
        for pointer in ["a", "b", "c", "out"] {
            text.line(format!("ld.param.u64 %r{pointer}, [{pointer}]"));
            text.line(format!("cvta.to.global.u64 %r{pointer}, %r{pointer}"));
        }
        text.line("ld.param.u64 %count, [count]");
        text.line("ld.param.u32 %iters, [iters]");
        text.line("ld.param.u32 %spare, [spare]");
        text.line("mov.u32 %thread, %tid.x");
        text.line("mov.u32 %block, %ctaid.x");
        text.line("mov.u32 %threads, %ntid.x");
        text.line("mov.u32 %blocks, %nctaid.x");
        text.line("mad.lo.u32 %global, %block, %threads, %thread");
        text.line("or.b32 %who, %thread, %block");
        text.line("setp.eq.u32 %clerk, %who, 0");
        text.line("mov.u64 %tick0, %clock64");
        text.line("mov.u64 %time0, %globaltimer");
        text
    }

    /// One instruction, without its semicolon.
    pub fn line(&mut self, instruction: impl AsRef<str>) {
        self.body += "\t";
        self.body += instruction.as_ref();
        self.body += ";\n";
    }

    /// A line outside the code, for instance shared memory.
    pub fn declare(&mut self, declaration: &str) {
        self.declarations += &format!("\t{declaration};\n");
    }

    pub fn register(&mut self, class: Class) -> String {
        let at = &mut self.used[class as usize];
        *at += 1;
        format!("{}{}", class.spelling().1, *at - 1)
    }

    pub fn registers(&mut self, class: Class, number: usize) -> Vec<String> {
        (0..number).map(|_| self.register(class)).collect()
    }

    /// A label not yet placed.
    pub fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }

    pub fn place(&mut self, label: &str) {
        self.body += &format!("{label}:\n");
    }

    /// Runs `body` as many times as the 32-bit register `trips` says, not at all for 0.
    pub fn repeat(&mut self, trips: &str, body: impl FnOnce(&mut Self)) {
        let (left, more) = (self.register(Class::B32), self.register(Class::Pred));
        let (top, end) = (self.label(), self.label());
        self.line(format!("mov.b32 {left}, {trips}"));
        self.line(format!("setp.eq.u32 {more}, {left}, 0"));
        self.line(format!("@{more} bra {end}"));
        self.place(&top);
        self.line(".pragma \"nounroll\"");
        body(self);
        self.line(format!("add.u32 {left}, {left}, -1"));
        self.line(format!("setp.ne.u32 {more}, {left}, 0"));
        self.line(format!("@{more} bra {top}"));
        self.place(&end);
    }

    /// A register with these 32 bits that the compiler does not know.
    pub fn unknown(&mut self, bits: u32) -> String {
        let register = self.register(Class::B32);
        self.line(format!("xor.b32 {register}, %spare, {bits:#x}"));
        register
    }

    /// The same as a float.
    pub fn unknown_f32(&mut self, value: f32) -> String {
        let (bits, register) = (self.unknown(value.to_bits()), self.register(Class::F32));
        self.line(format!("mov.b32 {register}, {bits}"));
        register
    }

    pub fn unknown_f64(&mut self, value: f64) -> String {
        let bits = value.to_bits();
        let (low, high) = (self.unknown(bits as u32), self.unknown((bits >> 32) as u32));
        let register = self.register(Class::F64);
        self.line(format!("mov.b64 {register}, {{{low}, {high}}}"));
        register
    }

    /// Exclusive or of all bits of `values` into the 32-bit register `into`: it needs no floating-point operation.
    pub fn fold(&mut self, into: &str, class: Class, values: &[String]) {
        for value in values {
            match class {
                Class::B32 => self.line(format!("xor.b32 {into}, {into}, {value}")),
                Class::F32 => {
                    let bits = self.register(Class::B32);
                    self.line(format!("mov.b32 {bits}, {value}"));
                    self.line(format!("xor.b32 {into}, {into}, {bits}"));
                }
                Class::F64 | Class::B64 | Class::Pred => {
                    let (low, high) = (self.register(Class::B32), self.register(Class::B32));
                    self.line(format!("mov.b64 {{{low}, {high}}}, {value}"));
                    self.line(format!("xor.b32 {into}, {into}, {low}"));
                    self.line(format!("xor.b32 {into}, {into}, {high}"));
                }
            }
        }
    }

    /// Folds `values` and keeps them: stores the result to `out[8]` under the condition that never holds.
    pub fn keep(&mut self, class: Class, values: &[String]) {
        let result = self.register(Class::B32);
        self.line(format!("mov.b32 {result}, 0"));
        self.fold(&result, class, values);
        self.line(format!("and.b32 %kept, {result}, %spare"));
        self.line("setp.ne.u32 %store, %kept, 0");
        self.line("cvt.u64.u32 %kept2, %kept");
        self.line("@%store st.global.u64 [%rout+64], %kept2");
    }

    /// Ends the kernel with the clock record.
    pub fn finish(mut self, finish: Finish) -> Kernel {
        self.line("mov.u64 %tick1, %clock64");
        self.line("mov.u64 %time1, %globaltimer");
        for (place, register) in ["%tick0", "%tick1", "%time0", "%time1"].iter().enumerate() {
            self.line(format!("@%clerk st.global.u64 [%rout+{}], {register}", 8 * place));
        }
        self.line("ret");
        for class in Class::ALL {
            let (kind, stem) = class.spelling();
            if self.used[class as usize] > 0 {
                self.declarations += &format!("\t.reg .{kind} {stem}<{}>;\n", self.used[class as usize]);
            }
        }
        module(finish, &self.declarations, &self.body)
    }
}

const PARAMETERS: &str = "\
\t.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out,
\t.param .u64 count, .param .u32 iters, .param .u32 spare
";

/// The oldest version of PTX that has this target and the instructions used for it.
fn version(needs: Needs) -> &'static str {
    match (needs.major, needs.minor, needs.exact) {
        (..=7, ..) => "6.0",
        (8, ..=8, _) => "7.0",
        (8, ..) => "8.4",
        (9, _, false) => "7.8",
        _ => "8.0",
    }
}

/// A module with one entry of the common parameters.
pub(super) fn module(finish: Finish, declarations: &str, body: &str) -> Kernel {
    let Finish { name, needs, unit, work, bounds } = finish;
    let suffix = if needs.exact { "a" } else { "" };
    let (version, Needs { major, minor, .. }) = (version(needs), needs);
    let mut limits = String::new();
    if bounds.threads > 0 {
        limits += &format!("\n.maxntid {}, 1, 1", bounds.threads);
    }
    if bounds.blocks > 0 {
        limits += &format!("\n.minnctapersm {}", bounds.blocks);
    }
    let head = format!(".version {version}\n.target sm_{major}{minor}{suffix}\n.address_size 64\n");
    let entry = format!(".visible .entry {name}(\n{PARAMETERS}){limits}");
    let ptx = format!("{head}\n{entry}\n{{\n{declarations}{body}}}\n");
    Kernel { name, ptx, needs, unit, shared_dynamic: 0, work, imitated: &[] }
}

/// `{a, b, c}`: a vector or fragment operand.
pub(super) fn braces(registers: &[String]) -> String {
    format!("{{{}}}", registers.join(", "))
}
