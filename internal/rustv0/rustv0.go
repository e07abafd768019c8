// Package rustv0 rewrites mangled Rust names (RFC 2603) for a demangler that parses the length
// 0 of an empty identifier together with the digits of the next one. It rejects a static
// inside of a closure, and demangles a closure inside of a closure wrongly.
package rustv0

import (
	"slices"
	"strings"
)

// maxDepth bounds the nesting of a name. Those of rustc's own names reach 60.
const maxDepth = 256

// Plain returns a name with the same meaning in which no digit follows an identifier of length
// 0, and without empty identifiers that stand for no name. It returns other names unchanged.
func Plain(name string) string {
	at := strings.Index(name, "_R")
	if at < 0 || at > 1 {
		return name
	}
	head, s := name[:at+2], name[at+2:]
	p := parser{s: s}
	p.path()
	if p.bad || !p.needed {
		return name
	}
	return head + p.rewritten()
}

// edit replaces s[at:at+old] by new or, if ref is set, by a back reference to the new position
// of its target.
type edit struct {
	at, old int
	new     string
	ref     bool
	target  int
}

type parser struct {
	s      string
	i      int
	depth  int
	bad    bool
	needed bool // there are edits other than back references
	edits  []edit
}

func (p *parser) peek() byte {
	if p.bad || p.i >= len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *parser) next() byte {
	c := p.peek()
	if c == 0 {
		p.bad = true
		return 0
	}
	p.i++
	return c
}

func (p *parser) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.i++
	return true
}

// until calls f until E ends the list.
func (p *parser) until(f func()) {
	for !p.bad && !p.accept('E') {
		f()
	}
}

// nested bounds the recursion.
func (p *parser) nested(f func()) {
	if p.depth++; p.depth > maxDepth {
		p.bad = true
	}
	if !p.bad {
		f()
	}
	p.depth--
}

// number reads a number in base 62 that ends with an underscore.
func (p *parser) number() (n int) {
	if p.accept('_') {
		return 0
	}
	for !p.bad {
		switch c := p.next(); {
		case c == '_':
			return n + 1
		case c >= '0' && c <= '9':
			n = n*62 + int(c-'0')
		case c >= 'a' && c <= 'z':
			n = n*62 + int(c-'a') + 10
		case c >= 'A' && c <= 'Z':
			n = n*62 + int(c-'A') + 36
		default:
			p.bad = true
		}
		if n > 1<<50 {
			n = 1 << 50 // a hash, not a reference
		}
	}
	return 0
}

func (p *parser) optional(c byte) {
	if p.accept(c) {
		p.number()
	}
}

// name reads an identifier without its disambiguator and returns its length.
func (p *parser) name() (n int) {
	p.accept('u')
	at := p.i
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		n = min(n*10+int(c-'0'), 1<<30)
		p.i++
		if n == 0 {
			break
		}
	}
	if p.i == at {
		p.bad = true
		return 0
	}
	if c := p.peek(); n == 0 && c >= '0' && c <= '9' {
		p.needed = true
		p.edits = append(p.edits, edit{at: at, old: 1, new: "0_"})
	}
	p.accept('_')
	if p.bad || n > len(p.s)-p.i {
		p.bad = true
		return 0
	}
	p.i += n
	return n
}

func (p *parser) backref() {
	at := p.i - 1
	target := p.number()
	if target >= at {
		p.bad = true
	}
	p.edits = append(p.edits, edit{at: at, old: p.i - at, ref: true, target: target})
}

func (p *parser) path() { p.nested(p.readPath) }

func (p *parser) readPath() {
	at := p.i
	switch p.next() {
	case 'C':
		p.optional('s')
		p.name()
	case 'M':
		p.implPath()
		p.typ()
	case 'X':
		p.implPath()
		p.typ()
		p.path()
	case 'Y':
		p.typ()
		p.path()
	case 'N':
		p.namespace(at)
	case 'I':
		p.path()
		p.until(p.arg)
	case 'B':
		p.backref()
	default:
		p.bad = true
	}
}

// namespace reads a name inside of a path. Only in the namespaces of closures and the like may
// a name be empty.
func (p *parser) namespace(at int) {
	kind, first := p.next(), len(p.edits)
	p.path()
	end := p.i
	p.optional('s')
	n := len(p.edits)
	if p.name() == 0 && kind >= 'a' && !p.bad {
		p.needed = true
		p.edits = append(p.edits[:n], edit{at: end, old: p.i - end})
		p.edits = slices.Insert(p.edits, first, edit{at: at, old: 2})
	}
}

func (p *parser) implPath() {
	p.optional('s')
	p.path()
}

func (p *parser) arg() {
	switch {
	case p.accept('L'):
		p.number()
	case p.accept('K'):
		p.constant()
	default:
		p.typ()
	}
}

func (p *parser) typ() { p.nested(p.readType) }

func (p *parser) readType() {
	c := p.peek()
	if c >= 'a' && c <= 'z' {
		p.i++
		return
	}
	switch c {
	case 'C', 'M', 'X', 'Y', 'N', 'I':
		p.path()
		return
	}
	switch p.next() {
	case 'A':
		p.typ()
		p.constant()
	case 'S', 'P', 'O':
		p.typ()
	case 'R', 'Q':
		p.optional('L')
		p.typ()
	case 'T':
		p.until(p.typ)
	case 'F':
		p.optional('G')
		p.accept('U')
		if p.accept('K') && !p.accept('C') {
			p.name()
		}
		p.until(p.typ)
		p.typ()
	case 'D':
		p.optional('G')
		p.until(p.dynTrait)
		if !p.accept('L') {
			p.bad = true
		}
		p.number()
	case 'B':
		p.backref()
	default:
		p.bad = true
	}
}

func (p *parser) dynTrait() {
	p.path()
	for p.accept('p') {
		p.name()
		p.typ()
	}
}

func (p *parser) constant() { p.nested(p.readConstant) }

// readConstant reads the constants that the demangler supports: numbers, but no structures.
func (p *parser) readConstant() {
	switch c := p.next(); {
	case c == 'B':
		p.backref()
	case c == 'p':
	case c >= 'a' && c <= 'z':
		for !p.bad && p.next() != '_' {
		}
	default:
		p.bad = true
	}
}

// rewritten applies the edits, which are in order.
func (p *parser) rewritten() string {
	var b strings.Builder
	moved := make([]int, len(p.edits)) // the distance by which the text after each edit moves
	from, delta := 0, 0
	for i, e := range p.edits {
		if e.ref {
			// The target is before the reference, and so are all edits that move it.
			j, _ := slices.BinarySearchFunc(p.edits[:i], e.target, func(e edit, at int) int {
				return e.at - at
			})
			if j > 0 {
				e.target += moved[j-1]
			}
			e.new = "B" + base62(e.target)
		}
		b.WriteString(p.s[from:e.at])
		b.WriteString(e.new)
		from = e.at + e.old
		delta += len(e.new) - e.old
		moved[i] = delta
	}
	b.WriteString(p.s[from:])
	return b.String()
}

func base62(n int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	b := []byte{'_'}
	if n > 0 {
		for n--; ; n /= 62 {
			b = append(b, digits[n%62])
			if n < 62 {
				break
			}
		}
	}
	slices.Reverse(b)
	return string(b)
}
