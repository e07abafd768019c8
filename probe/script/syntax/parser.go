package syntax

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of the parser. No script of bpftrace or of Brendan Gregg's book reaches a tenth of
// them.
const (
	mostBytes  = 256 << 10 // of a script
	mostHeight = 1000      // of the tree: nested nodes, or terms that are added
	mostPoints = 25_000    // attach points, each of which takes 256 bytes
	mostErrors = 100

	// mostDepth is the limit on nested calls of the parser. Trees of mostHeight need fewer,
	// even with all the parentheses that Format prints.
	mostDepth = 6 * mostHeight
)

// mostLooked is the number of bytes that may be looked at, and mostLooks the number for each
// byte of the text: the scripts of bpftrace take up to 2.
const (
	mostLooked = 1 << 20
	mostLooks  = 100
)

// mostLevels is the largest number of pointers and arrays in one type, mostType the largest
// number of bytes after its name.
const (
	mostLevels = 100
	mostType   = 4096
)

// Options are the options of [Parse].
type Options struct {
	// Defined reports whether a name is defined before the script, for #if, #ifdef and
	// #ifndef. Definitions and lines that these exclude are marked as skipped. If Defined is
	// nil, nothing is evaluated and nothing is skipped.
	Defined func(name string) bool
}

// Parse parses a script. Errors begin with name; bpftrace uses "stdin" for -e. The error is an
// [Errors], and the file then has the part that was parsed before it. A script may have up to
// 256 KiB, and its tree up to 1,000 levels.
func Parse(name string, text []byte, o *Options) (*File, error) {
	p := newScript(name, text)
	f := p.file()
	p.checkHeight(f)
	return p.done(f, o)
}

// newScript returns the parser of a script. It has no text if the script is too large.
func newScript(name string, text []byte) *scriptParser {
	p := &scriptParser{newParser(name, string(text[:min(len(text), mostBytes+1)]))}
	if len(text) > mostBytes {
		p.failAt(0, 0, fmt.Sprintf("script has %d bytes, more than %d", len(text), mostBytes))
	}
	return p
}

// done completes the parsing of a file.
func (p *scriptParser) done(f *File, o *Options) (*File, error) {
	if o != nil && o.Defined != nil {
		p.evaluate(f, o.Defined)
	}
	f.broken = p.errs.Err() != nil
	return f, p.errs.Err()
}

// scanner scans text: names, numbers, strings, and the space between them.
type scanner struct {
	src  *Text
	text string
	pos  int
	errs Errors
	dead bool // a limit was exceeded: further errors are not recorded
	// looked is the number of bytes that were looked at, also again and to look ahead.
	looked int
	kept   int // end of the part of text that space covers
	space  []space
}

// parser parses expressions, types and statements.
type parser struct {
	scanner
	depth  int
	work   int // number of expressions that may still be begun, also when text is parsed again
	points int // number of attach points so far
}

// scriptParser parses the declarations of a script.
type scriptParser struct{ *parser }

func newParser(name, text string) *parser {
	p := &parser{work: 20_000 + 2*len(text)}
	if len(text) > mostBytes {
		text = ""
	}
	p.src, p.text = NewText(name, text), text
	return p
}

// since returns the location from start to the current position.
func (p *scanner) since(start int) Loc {
	return Loc{In: p.src, Start: int32(start), End: int32(p.pos)}
}

func (p *scanner) none() *None { return &None{p.since(p.pos)} }

// failAt adds a syntax error.
func (p *scanner) failAt(start, end int, msg string) {
	if p.dead {
		return
	}
	p.errs = append(p.errs, &Error{
		Loc: Loc{In: p.src, Start: int32(start), End: int32(max(start, end))}, Msg: "syntax: " + msg,
	})
	p.dead = len(p.errs) == mostErrors
}

// fail adds a syntax error at the next token.
func (p *scanner) fail(msg string) {
	at := p.pos
	p.layout()
	start := p.pos
	p.pos = at
	end := start
	switch c := p.char(start); {
	case start == len(p.text):
	case letter(c):
		end = p.word(start)
	case digit(c):
		for end < len(p.text) && (wordByte(p.text[end]) && p.text[end] != '_' || p.text[end] == '.') {
			end++
		}
	case c == '@' || c == '$':
		end = p.word(start + 1)
	default:
		end++
	}
	p.failAt(start, end, msg)
}

// stop ends the parser at a limit: it moves to the end of the text.
func (p *scanner) stop(msg string) {
	p.fail(msg)
	p.dead = true
	p.pos = len(p.text)
}

// enter begins a nested call of the parser, and reports whether the limits allow it.
func (p *parser) enter() bool {
	p.depth++
	p.work--
	switch {
	case p.dead:
		p.pos = len(p.text)
		return false
	case p.depth > mostDepth:
		p.stop("nested too deeply, more than " + strconv.Itoa(mostHeight) + " levels")
		return false
	case p.work < 0 || p.looked > mostLooked+mostLooks*len(p.text):
		p.stop("too complex: simplify what is in parentheses")
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

func (p *scanner) failed() bool { return len(p.errs) > 0 }

// checkHeight reports an error for a tree so high that recursion over it would need much
// memory. Each level takes at least one byte of the script.
func (p *scriptParser) checkHeight(f *File) {
	if len(p.text) < mostHeight || p.failed() {
		return
	}
	if l := tooHigh(f); l != nil {
		p.failAt(int(l.Start), int(l.End), "too long, more than "+strconv.Itoa(mostHeight)+
			" operations in each other")
		f.Decls = nil
	}
}

// tooHigh returns the location at which a tree exceeds mostHeight, or nil.
func tooHigh(n Node) *Loc {
	height := 0
	var high *Loc
	var each func(Node) Node // one for all nodes
	each = func(n Node) Node {
		if height > mostHeight {
			high = n.At()
		}
		if height++; high == nil {
			n.children(each)
		}
		height--
		return nil
	}
	each(n)
	return high
}

// file parses the whole script.
func (p *scriptParser) file() *File {
	f := &File{}
	p.layout()
	if p.peek(0) == '#' && p.peek(1) == '!' {
		start := p.pos
		for !p.end() && p.text[p.pos] != '\n' {
			p.pos++
		}
		f.Header = strings.TrimRight(p.text[start:p.pos], " \t\r\v\f")
		p.advance(1)
		p.layout()
	}
	p.definitions(f)
	p.preamble(f)
	for !p.end() && !p.failed() {
		p.layout()
		if p.end() {
			break
		}
		before := p.pos
		if d := p.decl(f); d != nil {
			f.Decls = append(f.Decls, d)
		}
		if p.pos == before {
			p.fail("unexpected input")
			p.advance(1)
		}
		p.layout()
	}
	f.Loc = Loc{In: p.src, End: int32(p.pos)}
	f.space = p.space
	return f
}

// definitions parses the C definitions at the start of a script.
func (p *scriptParser) definitions(f *File) {
	for !p.end() && !p.failed() {
		switch {
		case p.peek(0) == '#' && p.peek(1) != '!':
			f.Decls = append(f.Decls, p.hashLine())
		case p.definesC():
			f.Decls = append(f.Decls, p.definition())
		default:
			return
		}
		p.layout()
	}
}

// preamble parses config and imports, which come next.
func (p *scriptParser) preamble(f *File) {
	config := false
	for !p.end() && !p.failed() {
		switch p.keyword() {
		case "config":
			if config {
				p.skipConfig("duplicate config block")
			} else if c := p.config(); c != nil {
				f.Decls = append(f.Decls, c)
				config = true
			}
		case "import":
			if i := p.importPath(); i != nil {
				f.Decls = append(f.Decls, i)
			}
		default:
			return
		}
		p.layout()
	}
}

// decl parses one of the declarations after these. It returns nil after an error.
func (p *scriptParser) decl(f *File) Decl {
	start := p.pos
	late := func(d Decl) Decl {
		p.failAt(start, p.pos, "C definitions must appear before probes and functions")
		return d
	}
	switch word := p.keyword(); {
	case p.peek(0) == '#' && p.peek(1) != '!':
		return late(p.hashLine())
	case p.definesC():
		return late(p.definition())
	case word == "config":
		p.skipConfig("config must appear before probes and functions")
	case word == "import":
		p.matchWord("import")
		p.failAt(start, p.pos, "root imports must appear before probes and functions")
		for !p.end() && p.text[p.pos] != ';' && p.text[p.pos] != '\n' {
			p.pos++
		}
		p.match(';')
	case word == "macro":
		return orNil(p.macro())
	case word == "fn":
		return orNil(p.function())
	case word == "let":
		if p.char(p.skip(p.pos+len(word))) == '@' {
			return orNil(p.mapDecl())
		}
		p.fail("root-level let statements need to be map declarations, e.g. let @a = hash(2);")
		p.advance(1)
	default:
		return orNil(p.probe())
	}
	return nil
}

// orNil converts a nil pointer to a nil Decl.
func orNil[T any, P interface {
	*T
	Decl
}](d P,
) Decl {
	if d == nil {
		return nil
	}
	return d
}

// grammarBuiltin reports whether a name is a builtin of the grammar. Other names are
// identifiers.
func grammarBuiltin(name string) bool {
	switch name {
	case "args", "ctx", "kstack", "nsecs", "pid", "tid", "ustack", "__builtin_cgroup",
		"__builtin_comm", "__builtin_cpid", "__builtin_cpu", "__builtin_curtask",
		"__builtin_dw_ustack", "__builtin_elapsed", "__builtin_func", "__builtin_gid",
		"__builtin_jiffies", "__builtin_ncpus", "__builtin_probe", "__builtin_rand",
		"__builtin_retval", "__builtin_uid", "__builtin_usermode", "__builtin_username":
		return true
	}
	number, ok := strings.CutPrefix(strings.TrimPrefix(name, "s"), "arg")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
