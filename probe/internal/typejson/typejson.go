package typejson

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// Type is a type in a plan's table. It refers to other types by index plus one; 0 is none.
type Type struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	Size uint32 `json:"size,omitempty"`
	// Kernel is set on types that are looked up by name in the kernel's own types.
	Kernel   bool         `json:"kernel,omitempty"`
	To       int          `json:"to,omitempty"`
	Encoding uint8        `json:"encoding,omitempty"`
	Nelems   uint32       `json:"nelems,omitempty"`
	Signed   bool         `json:"signed,omitempty"`
	Members  []memberJSON `json:"members,omitempty"`
	Values   []valueJSON  `json:"values,omitempty"`
}

type memberJSON struct {
	Name string `json:"name,omitempty"`
	Type int    `json:"type,omitempty"`
	// Offset and Bits are in bits, as in BTF.
	Offset uint32 `json:"offset,omitempty"`
	Bits   uint32 `json:"bits,omitempty"`
}

type valueJSON struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Encoder collects the types of a plan's arguments in List.
type Encoder struct {
	Kernel *btf.Spec
	List   []Type
	seen   map[btf.Type]int
}

// Index returns the type's index in the list plus one, or 0 for nil. It adds the type if
// necessary.
func (e *Encoder) Index(t btf.Type) int {
	if t == nil {
		return 0
	}
	if i, ok := e.seen[t]; ok {
		return i
	}
	if e.seen == nil {
		e.seen = map[btf.Type]int{}
	}
	e.List = append(e.List, Type{})
	i := len(e.List)
	e.seen[t] = i
	e.List[i-1] = e.encode(t) // after the types that it refers to, which may include itself
	return i
}

func (e *Encoder) encode(t btf.Type) Type {
	switch v := t.(type) {
	case *btf.Void:
		return Type{Kind: "void"}
	case *btf.Int:
		return Type{Kind: "int", Name: v.Name, Size: v.Size, Encoding: uint8(v.Encoding)}
	case *btf.Float:
		return Type{Kind: "float", Name: v.Name, Size: v.Size}
	case *btf.Pointer:
		return Type{Kind: "ptr", To: e.Index(v.Target)}
	case *btf.Const:
		return Type{Kind: "const", To: e.Index(v.Type)}
	case *btf.Volatile:
		return Type{Kind: "volatile", To: e.Index(v.Type)}
	case *btf.Restrict:
		return Type{Kind: "restrict", To: e.Index(v.Type)}
	case *btf.TypeTag:
		return Type{Kind: "tag", Name: v.Value, To: e.Index(v.Type)}
	case *btf.Typedef:
		return Type{Kind: "typedef", Name: v.Name, To: e.Index(v.Type)}
	case *btf.Array:
		return Type{Kind: "array", To: e.Index(v.Type), Nelems: v.Nelems}
	case *btf.Fwd:
		return Type{Kind: "fwd " + v.Kind.String(), Name: v.Name}
	case *btf.FuncProto:
		out := Type{Kind: "func", To: e.Index(v.Return)}
		for _, p := range v.Params {
			out.Members = append(out.Members, memberJSON{Name: p.Name, Type: e.Index(p.Type)})
		}
		return out
	}
	return e.composite(t)
}

// composite encodes types with members or values. The kernel's types are encoded by name only.
func (e *Encoder) composite(t btf.Type) Type {
	kernel := false
	if e.Kernel != nil && t.TypeName() != "" {
		_, err := e.Kernel.TypeID(t)
		kernel = err == nil
	}
	switch v := t.(type) {
	case *btf.Struct:
		out := Type{Kind: "struct", Name: v.Name, Size: v.Size, Kernel: kernel}
		return e.members(out, v.Members)
	case *btf.Union:
		out := Type{Kind: "union", Name: v.Name, Size: v.Size, Kernel: kernel}
		return e.members(out, v.Members)
	case *btf.Enum:
		out := Type{Kind: "enum", Name: v.Name, Size: v.Size, Signed: v.Signed, Kernel: kernel}
		for _, x := range v.Values {
			if !kernel {
				out.Values = append(out.Values, valueJSON{x.Name, x.Value})
			}
		}
		return out
	}
	return Type{Kind: "void", Name: t.TypeName()}
}

func (e *Encoder) members(out Type, list []btf.Member) Type {
	if out.Kernel {
		return out
	}
	for _, m := range list {
		out.Members = append(out.Members,
			memberJSON{m.Name, e.Index(m.Type), uint32(m.Offset), uint32(m.BitfieldSize)})
	}
	return out
}

// Decoded is a decoded type, which may still be incomplete.
type Decoded struct{ T btf.Type }

// Decode returns the types of a table. It first makes each type without its references, and
// then sets these, because they may refer to later types.
func Decode(list []Type, kernel *btf.Spec) ([]Decoded, error) {
	out := make([]Decoded, len(list))
	for i := range list {
		t, err := bareType(&list[i], kernel)
		if err != nil {
			return nil, fmt.Errorf("type %d: %w", i, err)
		}
		out[i].T = t
	}
	at := func(n int) (btf.Type, error) {
		if n <= 0 || n > len(out) {
			return nil, fmt.Errorf("it refers to type %d of %d", n, len(out))
		}
		return out[n-1].T, nil
	}
	for i := range list {
		if err := linkType(out[i].T, &list[i], at); err != nil {
			return nil, fmt.Errorf("type %d: %w", i, err)
		}
	}
	return out, nil
}

// bareType returns a type without its references.
func bareType(j *Type, kernel *btf.Spec) (btf.Type, error) {
	if j.Kernel && kernel != nil {
		return kernelType(j, kernel)
	}
	switch j.Kind {
	case "void":
		return &btf.Void{}, nil
	case "int":
		return &btf.Int{Name: j.Name, Size: j.Size, Encoding: btf.IntEncoding(j.Encoding)}, nil
	case "float":
		return &btf.Float{Name: j.Name, Size: j.Size}, nil
	case "ptr":
		return &btf.Pointer{}, nil
	case "const":
		return &btf.Const{}, nil
	case "volatile":
		return &btf.Volatile{}, nil
	case "restrict":
		return &btf.Restrict{}, nil
	case "tag":
		return &btf.TypeTag{Value: j.Name}, nil
	case "typedef":
		return &btf.Typedef{Name: j.Name}, nil
	case "array":
		return &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Nelems: j.Nelems}, nil
	case "fwd struct":
		return &btf.Fwd{Name: j.Name, Kind: btf.FwdStruct}, nil
	case "fwd union":
		return &btf.Fwd{Name: j.Name, Kind: btf.FwdUnion}, nil
	case "func":
		return &btf.FuncProto{}, nil
	case "struct":
		return &btf.Struct{Name: j.Name, Size: j.Size}, nil
	case "union":
		return &btf.Union{Name: j.Name, Size: j.Size}, nil
	case "enum":
		return &btf.Enum{Name: j.Name, Size: j.Size, Signed: j.Signed}, nil
	}
	return nil, fmt.Errorf("no kind of type is called %q", j.Kind)
}

// kernelType finds a recorded type in the kernel's types.
func kernelType(j *Type, kernel *btf.Spec) (btf.Type, error) {
	list, _ := kernel.AnyTypesByName(j.Name)
	for _, t := range list {
		kind, size := "", uint32(0)
		switch v := t.(type) {
		case *btf.Struct:
			kind, size = "struct", v.Size
		case *btf.Union:
			kind, size = "union", v.Size
		case *btf.Enum:
			kind, size = "enum", v.Size
		}
		if kind == j.Kind && size == j.Size {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the kernel's types have no %s %s of %d bytes: the plan is for another kernel", j.Kind, j.Name, j.Size)
}

// linkType sets a type's references.
func linkType(t btf.Type, j *Type, at func(int) (btf.Type, error)) error {
	var err error
	switch v := t.(type) {
	case *btf.Pointer:
		v.Target, err = at(j.To)
	case *btf.Const:
		v.Type, err = at(j.To)
	case *btf.Volatile:
		v.Type, err = at(j.To)
	case *btf.Restrict:
		v.Type, err = at(j.To)
	case *btf.TypeTag:
		v.Type, err = at(j.To)
	case *btf.Typedef:
		v.Type, err = at(j.To)
	case *btf.Array:
		v.Type, err = at(j.To)
	}
	if err != nil || j.Kernel {
		return err
	}
	switch v := t.(type) {
	case *btf.FuncProto:
		if v.Return, err = at(j.To); err != nil {
			return err
		}
		for _, m := range j.Members {
			p := btf.FuncParam{Name: m.Name}
			if p.Type, err = at(m.Type); err != nil {
				return err
			}
			v.Params = append(v.Params, p)
		}
	case *btf.Struct:
		v.Members, err = linkMembers(j, at)
	case *btf.Union:
		v.Members, err = linkMembers(j, at)
	case *btf.Enum:
		for _, x := range j.Values {
			v.Values = append(v.Values, btf.EnumValue{Name: x.Name, Value: x.Value})
		}
	}
	return err
}

func linkMembers(j *Type, at func(int) (btf.Type, error)) ([]btf.Member, error) {
	var out []btf.Member
	for _, m := range j.Members {
		t, err := at(m.Type)
		if err != nil {
			return nil, err
		}
		out = append(out, btf.Member{
			Name: m.Name, Type: t, Offset: btf.Bits(m.Offset),
			BitfieldSize: btf.Bits(m.Bits),
		})
	}
	return out, nil
}
