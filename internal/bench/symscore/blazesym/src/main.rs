//! Answers symscore with blazesym: "symscore-blazesym names|chains FILE", with
//! addresses, one a line, on standard input.

use std::io::{self, BufRead, Write};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

/// One call of a chain, as symscore's link writes it.
fn link(out: &mut impl Write, name: &str, code: Option<&CodeInfo>) -> io::Result<()> {
    let file = code.map(|c| c.file.to_string_lossy()).unwrap_or_default();
    let base = file.rsplit('/').next().filter(|b| !b.is_empty()).unwrap_or(".");
    write!(out, "{} {}:{}; ", name, base, code.and_then(|c| c.line).unwrap_or(0))
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let chains = args[1] == "chains";
    let mut pcs = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        pcs.push(u64::from_str_radix(line.trim_start_matches("0x"), 16).expect("hexadecimal number"));
    }
    let symbolizer = Symbolizer::builder()
        .enable_code_info(chains)
        .enable_inlined_fns(chains)
        .build();
    let source = Source::Elf(Elf::new(&args[2]));
    let answers = symbolizer
        .symbolize(&source, Input::VirtOffset(&pcs))
        .expect("symbolize");
    let mut out = io::BufWriter::new(io::stdout().lock());
    for answer in &answers {
        match answer {
            Symbolized::Sym(sym) if chains => {
                for call in sym.inlined.iter().rev() {
                    link(&mut out, &call.name, call.code_info.as_ref())?;
                }
                // The tools differ in aliases.
                link(&mut out, "", sym.code_info.as_deref())?;
            }
            Symbolized::Sym(sym) => write!(out, "{}", sym.name)?,
            _ => {}
        }
        writeln!(out)?;
    }
    out.flush()
}
