package ir

import "github.com/borescope/borescope/probe/ir/internal/builtin"

// Builtin describes a builtin value.
type Builtin struct {
	// Name is the name that NewBuiltin takes.
	Name string
	// Type is the type of the value.
	Type Type
	// Since is the first kernel with native support; {0, 0} is 5.10 or older.
	Since Version
	// GPL is set if a program that uses the builtin needs a GPL-compatible licence. Reading
	// memory and stacks, perf buffers and overriding returns need one too. Counting, timing,
	// thread names and ring buffers do not.
	GPL bool
	// Doc is a description of one line.
	Doc string
}

// Version is a kernel version, major and minor.
type Version [2]int

// AtLeast reports whether v is o or later.
func (v Version) AtLeast(o Version) bool { return v[0] > o[0] || v[0] == o[0] && v[1] >= o[1] }

var u32, u64 = IntType(4, false), IntType(8, false)

var builtinTypes = [...]Type{
	builtin.Uint32:        u32,
	builtin.Uint64:        u64,
	builtin.Bool:          BoolType(),
	builtin.Comm:          StringType(16),
	builtin.Kind:          StringType(24),
	builtin.Address:       PtrType(nil, false),
	builtin.KernelAddress: u64.WithFormat(FormatKsym),
	builtin.UserAddress:   u64.WithFormat(FormatUsym),
	builtin.Cgroup:        u64.WithFormat(FormatCgroup),
	builtin.Time:          u64.WithFormat(FormatTime),
	builtin.BootTime:      u64.WithFormat(FormatBoot),
	builtin.TAITime:       u64.WithFormat(FormatTAI),
	builtin.Site:          u64.WithFormat(FormatProbe),
}

// BuiltinNamed returns the builtin of that name; ok reports whether there is one.
func BuiltinNamed(name string) (b Builtin, ok bool) {
	row := builtin.Named(name)
	if row.Name == "" {
		return Builtin{Name: name}, false
	}
	return builtinOf(row), true
}

// Builtins returns the builtin values, ordered by name.
func Builtins() []Builtin {
	rows := builtin.Rows()
	out := make([]Builtin, len(rows))
	for i, row := range rows {
		out[i] = builtinOf(row)
	}
	return out
}

func builtinOf(row builtin.Row) Builtin {
	return Builtin{
		Name: row.Name, Type: builtinTypes[row.Value], Since: row.Since, GPL: row.GPL, Doc: row.Doc,
	}
}
