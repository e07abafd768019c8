package usercode

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/dwarf"
)

// How is how a value is passed to a function, in terms that the calling conventions share
// (System V AMD64 psABI 3.2.3, AAPCS64 6.8).
type How uint8

// The ways.
const (
	PassedNowhere   How = iota // it has no contents
	PassedInWords              // in registers, or in memory if there are too few left
	PassedInMemory             // in memory: too large for registers, or packed
	PassedByAddress            // a pointer to a copy is passed in its place
	PassedUnknown              // Why says why that is not known
)

// Word is what eight bytes of a value contain.
type Word uint8

// The contents of words.
const (
	WordPadding Word = iota
	WordFloat        // floating point numbers only
	WordOther
)

// Passing is how a value of some type is passed.
type Passing struct {
	How   How
	Size  int
	Align int
	Words [2]Word // PassedInWords
	// Floats is the number of floating point numbers of a value that consists of up to four of
	// the same size, and nothing else.
	Floats int
	// Apart is set if each word is passed as if it were an argument of its own.
	Apart bool
	// X87 is set for a long double, and a structure of one: it is passed in memory, and returned
	// in a register.
	X87 bool
	Why string // PassedUnknown
}

// ByPointer reports whether the caller of a function that returns such a value passes it the
// address at which the value is to be written.
func (p *Passing) ByPointer() bool {
	return p.How == PassedByAddress || p.How == PassedInMemory && !(p.X87 && p.Size <= 16)
}

// oddity is what is known of a type beside its members.
type oddity struct {
	passed passed
	opaque string // why its members do not say how it is passed
}

// passed is how objects of a C++ class are passed, by DW_AT_calling_convention.
type passed uint8

const (
	byContents passed = 1 + iota
	byAddress
	bySource // the source decides, in a way that DWARF does not have
)

// copied returns how objects of a C++ class are passed, by its own functions: by address if
// they copy or destroy it (Itanium C++ ABI 3.1.2.3). It is 0 if none does; then its members
// decide.
func copied(class *dwarf.Entry) (passed, error) {
	name, _, _ := strings.Cut(class.Text(dwarf.Name), "<")
	var fn, p dwarf.Entry
	for in := class.Inside(); ; {
		ok, err := in.Next(&fn, dwarf.TagSubprogram)
		if err != nil || !ok {
			return 0, err
		}
		its := fn.Text(dwarf.Name)
		how := byAddress
		switch {
		case fn.Has(dwarf.Virtuality):
			return byAddress, nil
		case fn.Has(dwarf.Defaulted) || fn.Has(dwarf.Deleted):
			how = bySource
		}
		if strings.HasPrefix(its, "~") {
			return how, nil
		}
		if its != name {
			continue
		}
		params := 0
		for of := fn.Inside(); ; {
			ok, err := of.Next(&p, dwarf.TagFormalParameter)
			if err != nil {
				return 0, err
			}
			if !ok {
				break
			}
			if p.Flag(dwarf.Artificial) {
				continue
			}
			params++
			if same, err := refersTo(&p, class); params == 1 && (same || err != nil) {
				return how, err
			}
		}
	}
}

// refersTo reports whether a parameter is a reference to a class.
func refersTo(p, class *dwarf.Entry) (bool, error) {
	at, ok := p.Link(dwarf.Type)
	reference := false
	var e dwarf.Entry
	for range 4 {
		if !ok || at == class.Ref() {
			break
		}
		if err := e.Read(at); err != nil {
			return false, err
		}
		reference = reference || e.Tag == dwarf.TagReferenceType || e.Tag == dwarf.TagRvalueReference
		at, ok = e.Link(dwarf.Type)
	}
	return ok && reference, nil
}

// mark remembers what is odd about a type.
func (c *Types) mark(t btf.Type, o oddity) error {
	c.odd[t] = o
	return c.d.Spend(madeCost)
}

// These are languages (7.12).
const (
	langD, langGo, langSwift, langHaskell, langOCaml, langRust, langZig = 0x13, 0x16, 0x1e, 0x18, 0x1b, 0x1c, 0x27
)

// languages are the languages with a calling convention of their own, which is not documented
// or which depends on the compiler.
var languages = map[uint16]string{
	langD: "D", langSwift: "Swift", langHaskell: "Haskell", langOCaml: "OCaml", langZig: "Zig",
}

func isCxx(language uint16) bool {
	switch language {
	case 0x04, 0x11, 0x1a, 0x21, 0x2b, 0x3a: // C++, Objective-C++, C++03, 11, 14, 17 …
		return true
	}
	return false
}

func unknown(why string) Passing { return Passing{How: PassedUnknown, Why: why} }

// Passing returns how a parameter is passed by the calling convention of the function's
// language.
func (sig *Signature) Passing(p Param) Passing {
	if p.Place.Kind == dwarf.PlaceFrame && p.Place.Deref && aggregate(p.Type) {
		return Passing{How: PassedByAddress, Size: 8, Align: 8}
	}
	// A slot in the frame that is no pointer has the contents, if the class allows that.
	return sig.passing(p.Type, p.Place.Kind == dwarf.PlaceFrame || p.Place.Kind == dwarf.PlaceCFA)
}

// Hidden returns how the value is returned, as if it were an argument. If that is by address
// or in memory, the caller passes the address.
func (sig *Signature) Hidden() Passing {
	if sig.Ret == nil {
		return Passing{}
	}
	if _, void := ctype.Underlying(sig.Ret).(*btf.Void); void {
		return Passing{}
	}
	p := sig.passing(sig.Ret, false)
	if size, err := btf.Sizeof(sig.Ret); p.How == PassedUnknown && sig.language == langRust && err == nil {
		switch {
		case size > 16:
			return Passing{How: PassedByAddress, Size: 8, Align: 8}
		case size <= 8:
			return Passing{How: PassedInWords, Size: size, Align: 8, Words: [2]Word{WordOther}}
		}
	}
	return p
}

// passing is Passing for a type. contents is set if it is known that an object is passed and
// not its address.
func (sig *Signature) passing(t btf.Type, contents bool) Passing {
	if name, ok := languages[sig.language]; ok {
		return unknown("the calling convention of " + name + " is not known")
	}
	u := ctype.Underlying(t)
	size, err := btf.Sizeof(u)
	if _, void := u.(*btf.Void); void || err != nil {
		return unknown("its type is not known")
	}
	if i, ok := u.(*btf.Int); ok && size > 16 {
		return unknown(fmt.Sprintf("it is the %d bytes long %s", size, i.Name))
	}
	odd := sig.types.odd[u]
	w := wordsOf{sig: sig, align: 1}
	if !w.add(t, 0, 0) {
		return unknown("its type is too complicated")
	}
	if by := cmp.Or(odd.passed, w.passed); aggregate(t) && isCxx(sig.language) {
		switch {
		case by == byAddress:
			return Passing{How: PassedByAddress, Size: 8, Align: 8}
		case by == bySource && !contents:
			return unknown("DWARF does not say whether its class is passed by address")
		}
	}
	p := Passing{How: PassedInWords, Size: size, Align: w.align, Words: w.kinds}
	if !w.mixed && w.floats <= 4 {
		p.Floats = w.floats
	}
	if sig.language == langRust && aggregate(t) {
		return rust(p, &w)
	}
	switch {
	case w.opaque != "":
		return unknown("it is " + w.opaque)
	case size > 16 || w.x87 || w.packed && sig.amd64:
		p.How, p.X87 = PassedInMemory, w.x87
	case size == 0 || w.kinds == [2]Word{}:
		p.How = PassedNowhere
	}
	return p
}

// rust returns how Rust passes an aggregate. Its convention may change with each version of the
// compiler; what all of them do is this.
func rust(p Passing, w *wordsOf) Passing {
	switch {
	case p.Size == 0:
		return Passing{How: PassedNowhere}
	case p.Size > 16:
		return Passing{How: PassedByAddress, Size: 8, Align: 8}
	case w.opaque == "" && !w.arrays && w.leaves == 1:
		return p
	case w.opaque == "" && !w.arrays && w.leaves == 2 && w.apart:
		p.Apart = true
		return p
	}
	return unknown("how Rust passes its type depends on the compiler")
}

func aggregate(t btf.Type) bool {
	switch ctype.Underlying(t).(type) {
	case *btf.Struct, *btf.Union, *btf.Array:
		return true
	}
	return false
}

// wordsOf collects what a value consists of.
type wordsOf struct {
	sig    *Signature
	kinds  [2]Word
	align  int
	packed bool // it has parts that are not aligned
	x87    bool
	opaque string // it has parts that are not known
	passed passed // byAddress or bySource: a part is passed so
	leaves int    // numbers and pointers
	apart  bool   // a leaf begins in the second word
	arrays bool
	floats int    // numbers of the same size
	size   uint32 // of each of these
	mixed  bool   // there are others
}

// add adds a part at an offset. It returns false if there are too many.
func (w *wordsOf) add(t btf.Type, offset uint32, depth int) bool {
	if !w.sig.Step(depth) {
		return false
	}
	u := ctype.Underlying(t)
	odd := w.sig.types.odd[u]
	if odd.opaque != "" {
		w.opaque = odd.opaque
	}
	if odd.passed == byAddress || odd.passed == bySource && w.passed != byAddress {
		w.passed = odd.passed // a class with such a member is passed like it
	}
	switch v := u.(type) {
	case *btf.Struct:
		return w.members(v.Members, offset, depth)
	case *btf.Union:
		return w.members(v.Members, offset, depth)
	case *btf.Array:
		w.arrays = true
		size, err := btf.Sizeof(v.Type)
		if err != nil {
			return false
		}
		for i := range min(v.Nelems, 17) { // more of them are more than two words
			if !w.add(v.Type, offset+i*uint32(size), depth+1) {
				return false
			}
		}
		return true
	}
	size, err := btf.Sizeof(u)
	if _, void := u.(*btf.Void); void || err != nil {
		w.opaque = "a type that is not known"
		return true
	}
	w.leaf(u, offset, uint32(size))
	return true
}

func (w *wordsOf) members(list []btf.Member, offset uint32, depth int) bool {
	for i := range list {
		m := &list[i]
		if m.BitfieldSize != 0 {
			w.cover(uint32(m.Offset)+8*offset, uint32(m.BitfieldSize), WordOther)
			w.leaves, w.mixed = w.leaves+2, true
			continue
		}
		if !w.add(m.Type, offset+m.Offset.Bytes(), depth+1) {
			return false
		}
	}
	return true
}

// leaf adds a number or a pointer.
func (w *wordsOf) leaf(t btf.Type, offset, size uint32) {
	if size == 0 {
		return // Rust's ()
	}
	kind := WordOther
	if f, ok := t.(*btf.Float); ok {
		kind = WordFloat
		if w.floats++; w.floats > 1 && w.size != size {
			w.mixed = true
		}
		w.size = size
		if size > 8 && f.Name == "long double" && w.sig.amd64 {
			w.x87 = true // of the classes X87 and X87UP; else it is __float128
		}
	} else {
		w.mixed = true
	}
	w.leaves++
	w.apart = w.apart || offset == 8
	if align := min(size, 16); align&(align-1) == 0 {
		w.packed = w.packed || offset%align != 0
		w.align = max(w.align, int(align))
	}
	w.cover(8*offset, 8*size, kind)
}

// cover adds bits to the words that they are in.
func (w *wordsOf) cover(bit, bits uint32, kind Word) {
	for i := bit / 64; bits > 0 && i <= (bit+bits-1)/64 && i < 2; i++ {
		w.kinds[i] = max(w.kinds[i], kind)
	}
}
