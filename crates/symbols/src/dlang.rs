//! Names of D, as its ABI specifies them (https://dlang.org/spec/abi.html#name_mangling): qualified names with template arguments and
//! parameters, without attributes and the type that is returned.
//!
//! ```text
//! _D 3app 7hotLoop F l Z d              app.hotLoop(long)
//!    name name     function of a long, which returns a double
//! _D 3app __T 4Grid T d V i i8 Z Q m …  app.Grid!(double, 8).Grid…     Q m: the name that begins 12 characters before
//! ```

/// Names and types are nested no deeper than this in the names that are read.
const DEEPEST: usize = 64;
/// No readable name is longer: references back could make one of any length.
const LONGEST: usize = 4096;

/// The readable name of `symbol`; `None` if it is no mangled name of D.
pub fn demangle(symbol: &str) -> Option<String> {
    let rest = symbol
        .strip_prefix("_D")
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_' || c == 'Q'))?;
    if symbol == "_Dmain" {
        return None;
    }
    let at = symbol.len() - rest.len();
    let mut reader = Reader { text: symbol.as_bytes(), at, depth: 0, written: 0 };
    let name = reader.qualified_name()?;
    // Data have a type, and what the compiler makes a `Z`.
    let ends = reader.is_at_end() || reader.take(b'Z') && reader.is_at_end();
    (ends || reader.type_name().is_some() && reader.is_at_end()).then_some(name)
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    /// Characters of all that was read.
    written: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn starts_with(&self, with: &[u8]) -> bool {
        self.text[self.at..].starts_with(with)
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.text[self.at..self.at + digits]).ok()?.parse().ok()?;
        self.at += digits;
        Some(number)
    }

    /// The target of the reference back with its `Q` at `at`: a number to the base 26, with a small letter as last
    /// digit.
    fn back(&mut self) -> Option<usize> {
        let from = self.at;
        self.at += 1;
        let mut distance = 0usize;
        loop {
            let digit = self.peek()?;
            self.at += 1;
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a',
                _ => return None,
            };
            distance = distance.checked_mul(26)?.checked_add(usize::from(value))?;
            if digit.is_ascii_lowercase() {
                return from.checked_sub(distance).filter(|to| *to < from);
            }
        }
    }

    /// The result of `read` at the place that a reference back leads to.
    fn at_reference<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<T> {
        let to = self.back()?;
        let after = std::mem::replace(&mut self.at, to);
        let found = self.nested(read);
        self.at = after;
        found
    }

    fn nested<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEEPEST || self.written > LONGEST {
            return None;
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Names with dots between them; functions have their parameters.
    fn qualified_name(&mut self) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        while self.is_at_name() {
            if self.take(b'0') {
                continue; // A scope without a name.
            }
            let mut name = self.name()?;
            let after_name = self.at;
            match self.nested(Self::function) {
                Some(parameters) => name += &parameters,
                None => self.at = after_name,
            }
            self.written += name.len();
            names.push(name);
        }
        (!names.is_empty()).then(|| names.join("."))
    }

    fn is_at_name(&self) -> bool {
        match self.peek() {
            Some(byte) if byte.is_ascii_digit() => true,
            Some(b'_') => self.is_at_template(),
            // A reference leads to a name if that begins with a digit; else to a type.
            Some(b'Q') => {
                let mut ahead = Reader { text: self.text, ..*self };
                ahead.back().is_some_and(|to| self.text[to].is_ascii_digit())
            }
            _ => false,
        }
    }

    fn is_at_template(&self) -> bool {
        self.starts_with(b"__T") || self.starts_with(b"__U")
    }

    fn name(&mut self) -> Option<String> {
        if self.peek() == Some(b'Q') {
            return self.at_reference(Self::name);
        }
        if self.is_at_template() {
            return self.nested(Self::template);
        }
        let length = self.number().filter(|length| *length > 0)?;
        if self.is_at_template() {
            return self.nested(Self::template);
        }
        let end = self.at.checked_add(length)?;
        let name = std::str::from_utf8(self.text.get(self.at..end)?).ok()?;
        self.at = end;
        Some(match name {
            "__ctor" => "this".to_owned(),
            "__dtor" => "~this".to_owned(),
            "__postblit" => "this(this)".to_owned(),
            _ => name.to_owned(),
        })
    }

    fn template(&mut self) -> Option<String> {
        self.at += 3;
        let name = self.name()?;
        let mut arguments = Vec::new();
        while !self.take(b'Z') {
            self.take(b'H');
            let kind = self.peek()?;
            self.at += 1;
            let argument = match kind {
                b'T' => self.nested(Self::type_name)?,
                b'V' => {
                    let of = self.peek();
                    self.nested(Self::type_name)?;
                    self.nested(|reader| reader.value(of))?
                }
                b'S' if self.starts_with(b"_D") => {
                    self.at += 2;
                    let name = self.nested(Self::qualified_name)?;
                    self.nested(Self::type_name)?;
                    name
                }
                b'S' => self.nested(Self::qualified_name)?,
                b'X' => {
                    let length = self.number()?;
                    let end = self.at.checked_add(length)?;
                    let text = std::str::from_utf8(self.text.get(self.at..end)?).ok()?.to_owned();
                    self.at = end;
                    text
                }
                _ => return None,
            };
            self.written += argument.len();
            arguments.push(argument);
        }
        Some(format!("{name}!({})", arguments.join(", ")))
    }

    /// A value of a type that begins with `of`.
    fn value(&mut self, of: Option<u8>) -> Option<String> {
        let negative = self.take(b'N');
        if !negative {
            self.take(b'i');
        }
        match self.peek()? {
            b'0'..=b'9' => {
                let number = self.number()?;
                Some(match of {
                    Some(b'b') => (number != 0).to_string(),
                    _ if negative => format!("-{number}"),
                    _ => number.to_string(),
                })
            }
            b'n' => {
                self.at += 1;
                Some("null".to_owned())
            }
            b'e' => {
                self.at += 1;
                let digits =
                    self.text[self.at..].iter().take_while(|b| b.is_ascii_hexdigit() || **b == b'N' || **b == b'P');
                let length = digits.count();
                let text =
                    String::from_utf8_lossy(&self.text[self.at..self.at + length]).replace('N', "-").replace('P', "p");
                self.at += length;
                Some(format!("0x{text}"))
            }
            b'a' | b'w' | b'd' => {
                self.at += 1;
                let bytes = self.number()?;
                let hex = self.text.get(self.at + 1..(self.at + 1).checked_add(bytes.checked_mul(2)?)?)?;
                let bytes: Option<Vec<u8>> =
                    hex.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
                self.at += 1 + hex.len();
                Some(format!("\"{}\"", String::from_utf8_lossy(&bytes?)))
            }
            b'A' | b'S' => {
                self.at += 1;
                let values = self.number()?;
                let element = None;
                let values: Option<Vec<String>> =
                    (0..values).map(|_| self.nested(|reader| reader.value(element))).collect();
                Some(format!("[{}]", values?.join(", ")))
            }
            _ => None,
        }
    }

    /// The parameters of a function, in parentheses; its attributes are passed over, and what it returns is left.
    fn function(&mut self) -> Option<String> {
        if self.take(b'M') {
            while matches!(self.peek(), Some(b'x' | b'y' | b'O')) || self.starts_with(b"Ng") {
                self.at += if self.peek() == Some(b'N') { 2 } else { 1 };
            }
        }
        if !matches!(self.peek(), Some(b'F' | b'U' | b'W' | b'R' | b'Y')) {
            return None;
        }
        self.at += 1;
        while self.peek() == Some(b'N')
            && matches!(self.text.get(self.at + 1), Some(b'a'..=b'f' | b'i' | b'j' | b'l' | b'm'))
        {
            self.at += 2;
        }
        let mut parameters = Vec::new();
        loop {
            match self.peek()? {
                b'Z' => break,
                b'X' | b'Y' => {
                    parameters.push("...".to_owned());
                    break;
                }
                _ => {}
            }
            let mut passed = String::new();
            loop {
                let (word, length) = match (self.peek()?, self.text.get(self.at + 1)) {
                    (b'I', _) => ("in ", 1),
                    (b'J', _) => ("out ", 1),
                    (b'K', _) => ("ref ", 1),
                    (b'L', _) => ("lazy ", 1),
                    (b'M', _) => ("scope ", 1),
                    (b'N', Some(b'k')) => ("", 2),
                    _ => break,
                };
                passed += word;
                self.at += length;
            }
            let parameter = passed + &self.nested(Self::type_name)?;
            self.written += parameter.len();
            if self.written > LONGEST {
                return None;
            }
            parameters.push(parameter);
        }
        self.at += 1;
        Some(format!("({})", parameters.join(", ")))
    }

    fn type_name(&mut self) -> Option<String> {
        let kind = self.peek()?;
        if kind == b'Q' {
            return self.at_reference(Self::type_name);
        }
        self.at += 1;
        let inner = |reader: &mut Self| reader.nested(Self::type_name);
        let of = |word: &str, reader: &mut Self| Some(format!("{word}({})", inner(reader)?));
        match kind {
            b'x' => of("const", self),
            b'y' => of("immutable", self),
            b'O' => of("shared", self),
            b'A' => Some(format!("{}[]", inner(self)?)),
            b'P' if matches!(self.peek(), Some(b'F' | b'U' | b'W' | b'R' | b'Y')) => self.function_type("function"),
            b'P' => Some(format!("{}*", inner(self)?)),
            b'G' => {
                let length = self.number()?;
                Some(format!("{}[{length}]", inner(self)?))
            }
            b'H' => {
                let key = inner(self)?;
                Some(format!("{}[{key}]", inner(self)?))
            }
            b'C' | b'S' | b'E' | b'T' | b'I' => self.nested(Self::qualified_name),
            b'D' => self.function_type("delegate"),
            b'F' | b'U' | b'W' | b'R' | b'Y' => {
                self.at -= 1;
                self.function_type("function")
            }
            b'B' => {
                let of: Option<Vec<String>> = (0..self.number()?).map(|_| inner(self)).collect();
                Some(format!("tuple({})", of?.join(", ")))
            }
            b'N' => {
                let second = self.peek()?;
                self.at += 1;
                match second {
                    b'g' => of("inout", self),
                    b'h' => of("__vector", self),
                    b'n' => Some("noreturn".to_owned()),
                    _ => None,
                }
            }
            b'z' => {
                let second = self.peek()?;
                self.at += 1;
                match second {
                    b'i' => Some("cent".to_owned()),
                    b'k' => Some("ucent".to_owned()),
                    _ => None,
                }
            }
            _ => basic(kind).map(str::to_owned),
        }
    }

    fn function_type(&mut self, word: &str) -> Option<String> {
        let parameters = self.nested(Self::function)?;
        let returned = self.nested(Self::type_name)?;
        Some(format!("{returned} {word}{parameters}"))
    }
}

fn basic(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'v' => "void",
        b'g' => "byte",
        b'h' => "ubyte",
        b's' => "short",
        b't' => "ushort",
        b'i' => "int",
        b'k' => "uint",
        b'l' => "long",
        b'm' => "ulong",
        b'f' => "float",
        b'd' => "double",
        b'e' => "real",
        b'o' => "ifloat",
        b'p' => "idouble",
        b'j' => "ireal",
        b'q' => "cfloat",
        b'r' => "cdouble",
        b'c' => "creal",
        b'b' => "bool",
        b'a' => "char",
        b'u' => "wchar",
        b'w' => "dchar",
        b'n' => "typeof(null)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_templates_and_references() {
        let cases = [
            ("_D3app7hotLoopFlZd", "app.hotLoop(long)"),
            ("_D3app__T4GridTdVii8ZQm5relaxMFNaNbNiNflZd", "app.Grid!(double, 8).Grid.relax(long)"),
            ("_D3std5stdio4File6__dtorMFNfZv", "std.stdio.File.~this()"),
            (
                "_D3std5stdio__T7writelnTAyaZQnFNfQjZv",
                "std.stdio.writeln!(immutable(char)[]).writeln(immutable(char)[])",
            ),
            ("_D4core6memory2GC6mallocFNaNbmkxC8TypeInfoZPv", "core.memory.GC.malloc(ulong, uint, const(TypeInfo))"),
            ("_D3app3runFDFiZvKG4fMAhZv", "app.run(void delegate(int), ref float[4], scope ubyte[])"),
            ("_D3app5outerFiZ5innerMFZi", "app.outer(int).inner()"),
            ("_D3app1xi", "app.x"),
            ("_D3app12__ModuleInfoZ", "app.__ModuleInfo"),
        ];
        for (symbol, expected) in cases {
            assert_eq!(demangle(symbol).as_deref(), Some(expected), "{symbol}");
        }
    }

    #[test]
    fn what_is_no_name_of_d_comes_back_at_once() {
        let endless = format!("_D3app1f{}Z", "FDQc".repeat(3000));
        let references = format!("_D1a1bF{}Zv", (0..200).map(|_| "PPQc").collect::<String>());
        for symbol in
            ["_D", "_Dmain", "_DYNAMIC", "_D3ap", "_D99999999999999999999x", "_DQa", "_D3appQz", &endless, &references]
        {
            demangle(symbol).inspect(|name| assert!(name.len() < 4 * LONGEST));
        }
        assert_eq!((demangle("_DYNAMIC"), demangle("_Dmain"), demangle("main")), (None, None, None));
    }
}
