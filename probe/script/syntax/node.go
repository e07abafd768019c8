package syntax

// Node is a part of a script. The nodes are the pointers to structs of this package that
// embed a [Loc]; what a node contains is in its fields.
type Node interface {
	At() *Loc // where it is; the fields may be changed

	// children replaces each child by what f returns for it; f returns nil to keep it.
	children(f func(Node) Node)
}

// Expr is a node that has a value.
type Expr interface {
	Node
	expr()
}

// Stmt is a node of a block.
type Stmt interface {
	Node
	stmt()
}

// Decl is a node at the top of a script.
type Decl interface {
	Node
	decl()
}

// File is a script.
type File struct {
	Loc
	Header string // the "#!" line, or ""
	Decls  []Decl // in the order of the script

	space  []space // comments and empty lines, in order, for Format
	broken bool    // has syntax errors
}

// Declarations.
type (
	// C is a C definition, or a preprocessor line, as written.
	C struct {
		Loc
		Text    string
		Skipped bool // by an #if around it: Options.Defined
	}

	// Config is a config block.
	Config struct {
		Loc
		Vars []*ConfigVar
	}

	// ConfigVar is an assignment in a config block. Value is a *String, also for a bare
	// word, a *Boolean or an *Integer.
	ConfigVar struct {
		Loc
		Name  string
		Value Expr
	}

	// Import is an import, at the top or in a block.
	Import struct {
		Loc
		Path string
	}

	// Macro is a definition of a macro. Args are *Variable, *Map and *Identifier. Its
	// location is from the keyword to the name.
	Macro struct {
		Loc
		Name string
		Args []Expr
		Body *Block
	}

	// Func is a function (subprogram). Its location is from the keyword to the name.
	Func struct {
		Loc
		Name   string
		Args   []*FuncArg
		Result *TypeOf
		Body   *Block
	}

	// FuncArg is an argument of a function.
	FuncArg struct {
		Loc
		Var  *Variable
		Type *TypeOf
	}

	// MapDecl declares a map: let @name = kind(entries).
	MapDecl struct {
		Loc
		Name    string // with "@"
		Kind    string
		Entries uint64
	}

	// Probe is a probe. Its location is that of its attach points.
	Probe struct {
		Loc
		Points []*AttachPoint
		Pred   Expr // or nil
		Body   *Block
	}
)

// Statements.
type (
	// ExprStmt is an expression whose value is dropped.
	ExprStmt struct {
		Loc
		X Expr
	}

	// Assign sets a *Variable, *Map, *MapAccess or a *VarDecl. For x += y, and for
	// x = x + y, which means the same, Op is "+" and Value y.
	Assign struct {
		Loc
		Target Node
		Op     string
		OpLoc  Loc // of the operation, if there is one
		Value  Expr
	}

	// VarDecl declares a variable.
	VarDecl struct {
		Loc
		Var  *Variable
		Type *TypeOf // or nil
	}

	// Discard drops a value: _ = x.
	Discard struct {
		Loc
		X Expr
	}

	// Jump is break, continue or return.
	Jump struct {
		Loc
		Keyword string
		Value   Expr // of return, or nil
	}

	// While is a loop.
	While struct {
		Loc
		Cond Expr
		Body *Block
	}

	// Unroll repeats a block.
	Unroll struct {
		Loc
		Count Expr
		Body  *Block
	}

	// For is a loop over a *Map or a *Range.
	For struct {
		Loc
		Var  *Variable
		Over Expr
		Body *Block
	}
)

// Values.
type (
	// Integer is a number. Value has its suffix applied: 5ms is 5000000.
	Integer struct {
		Loc
		Value    uint64
		Negative bool   // only of a positional parameter: Value is then its magnitude
		Text     string // as written, or ""
	}

	// String is a string, its escapes resolved.
	String struct {
		Loc
		Value string
	}

	// Boolean is true or false.
	Boolean struct {
		Loc
		Value bool
	}

	// None has no value: what follows where there is no else, say, or where a syntax
	// error is.
	None struct{ Loc }

	// Builtin is a builtin without arguments that the grammar knows, like pid.
	Builtin struct {
		Loc
		Name string
	}

	// Identifier is another name: a macro, an enumerator, a builtin of the library.
	Identifier struct {
		Loc
		Name string
	}

	// Param is a positional parameter: $N.
	Param struct {
		Loc
		N int64
	}

	// ParamCount is $#.
	ParamCount struct{ Loc }

	// Variable is a scratch variable.
	Variable struct {
		Loc
		Name string // with "$"
	}

	// Map is a map without a key.
	Map struct {
		Loc
		Name string // with "@"
	}

	// MapAccess is an element of a map; several keys are a *Tuple.
	MapAccess struct {
		Loc
		Map *Map
		Key Expr
	}

	// Addr is the address of a *Variable or a *Map.
	Addr struct {
		Loc
		X Expr
	}

	// Tuple is a tuple.
	Tuple struct {
		Loc
		Elems []Expr
	}

	// Record is a tuple whose elements have names.
	Record struct {
		Loc
		Elems []*NamedArg
	}

	// NamedArg is an element of a record.
	NamedArg struct {
		Loc
		Name  string
		Value Expr
	}

	// Range is the numbers from Begin up to, not with, End, in a for.
	Range struct {
		Loc
		Begin, End Expr
	}
)

// Operations.
type (
	// Binary is x Op y.
	Binary struct {
		Loc
		X  Expr
		Op string
		Y  Expr
	}

	// Unary is Op x, or with Postfix x Op.
	Unary struct {
		Loc
		Op      string
		Postfix bool
		X       Expr
	}

	// If is if and else, or cond ? then : else. For cond ?: else, Then is nil and stands
	// for Cond.
	If struct {
		Loc
		Cond, Then, Else Expr
	}

	// Block is statements, and the value of the last expression, or a *None.
	Block struct {
		Loc
		Stmts []Stmt
		Value Expr
	}

	// Call is a call of a function or macro.
	Call struct {
		Loc
		Name string
		Args []Expr
	}

	// Cast is (type) x.
	Cast struct {
		Loc  // of the type
		Type *TypeOf
		X    Expr
	}

	// Field is x.name or x->name, which mean the same.
	Field struct {
		Loc
		X    Expr
		Name string
	}

	// Index is x[i].
	Index struct {
		Loc
		X, I Expr
	}

	// Element is an element of a tuple: x.N.
	Element struct {
		Loc
		X Expr
		N uint64
	}

	// Comptime is an expression for the compiler.
	Comptime struct {
		Loc
		X Expr
	}

	// Sizeof is sizeof of a type or of an expression: X is a *Type or an Expr.
	Sizeof struct {
		Loc
		X Node
	}

	// Offsetof is the offset of a field: X is a *Type or an Expr.
	Offsetof struct {
		Loc
		X      Node
		Fields []string
	}

	// TypeInfo is typeinfo.
	TypeInfo struct {
		Loc
		Type *TypeOf
	}
)

// Types.
type (
	// Type is a name, or struct, union or enum and a name, or a pointer to or array of
	// another type.
	Type struct {
		Loc
		Kind string // "", "struct", "union", "enum", "*" or "[]"
		Name string // of the first four
		Elem *Type  // of the last two
		Len  uint64 // of an array
		Open bool   // an array of which no length is said: []
	}

	// TypeOf is where a type stands: X is a *Type, or the expression of typeof(…).
	TypeOf struct {
		Loc
		X Node
	}
)

func (*C) decl()       {}
func (*Config) decl()  {}
func (*Import) decl()  {}
func (*Macro) decl()   {}
func (*Func) decl()    {}
func (*MapDecl) decl() {}
func (*Probe) decl()   {}

func (*ExprStmt) stmt() {}
func (*Assign) stmt()   {}
func (*VarDecl) stmt()  {}
func (*Discard) stmt()  {}
func (*Jump) stmt()     {}
func (*While) stmt()    {}
func (*Unroll) stmt()   {}
func (*For) stmt()      {}
func (*Import) stmt()   {}

func (*Integer) expr()    {}
func (*String) expr()     {}
func (*Boolean) expr()    {}
func (*None) expr()       {}
func (*Builtin) expr()    {}
func (*Identifier) expr() {}
func (*Param) expr()      {}
func (*ParamCount) expr() {}
func (*Variable) expr()   {}
func (*Map) expr()        {}
func (*MapAccess) expr()  {}
func (*Addr) expr()       {}
func (*Tuple) expr()      {}
func (*Record) expr()     {}
func (*Range) expr()      {}
func (*Binary) expr()     {}
func (*Unary) expr()      {}
func (*If) expr()         {}
func (*Block) expr()      {}
func (*Call) expr()       {}
func (*Cast) expr()       {}
func (*Field) expr()      {}
func (*Index) expr()      {}
func (*Element) expr()    {}
func (*Comptime) expr()   {}
func (*Sizeof) expr()     {}
func (*Offsetof) expr()   {}
func (*TypeInfo) expr()   {}
