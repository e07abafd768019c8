package syntax

// Node is a node of the tree. The nodes are the pointers to structs of this package that embed
// a [Loc]; their children are in their fields.
type Node interface {
	At() *Loc // the location; its fields may be changed

	// children calls f for each child and replaces the child by the result, unless it is nil.
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
	Decls  []Decl // in source order

	space  []space // comments and empty lines, in source order, for Format
	broken bool    // it has syntax errors
}

// Declarations.
type (
	// C is a C definition or a preprocessor line, as written.
	C struct {
		Loc
		Text    string
		Skipped bool // excluded by an #if around it: see Options.Defined
	}

	// Config is a config block.
	Config struct {
		Loc
		Vars []*ConfigVar
	}

	// ConfigVar is an assignment in a config block. Value is a *String (also for a bare word),
	// a *Boolean or an *Integer.
	ConfigVar struct {
		Loc
		Name  string
		Value Expr
	}

	// Import is an import, at the top level or in a block.
	Import struct {
		Loc
		Path string
	}

	// Macro is the definition of a macro. Args are *Variable, *Map and *Identifier. The
	// location is from the keyword to the name.
	Macro struct {
		Loc
		Name string
		Args []Expr
		Body *Block
	}

	// Func is a function (subprogram). The location is from the keyword to the name.
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

	// Assign is an assignment to a *Variable, *Map, *MapAccess or *VarDecl. For x += y, and
	// for x = x + y, which means the same, Op is "+" and Value is y.
	Assign struct {
		Loc
		Target Node
		Op     string
		OpLoc  Loc // of the operation, if Op is not ""
		Value  Expr
	}

	// VarDecl declares a scratch variable.
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
	// Integer is a number. Its suffix is applied to Value: 5ms is 5000000.
	Integer struct {
		Loc
		Value    uint64
		Negative bool   // only from a positional parameter: Value is then its magnitude
		Text     string // as written, or ""
	}

	// String is a string. Its escape sequences are replaced in Value.
	String struct {
		Loc
		Value string
	}

	// Boolean is true or false.
	Boolean struct {
		Loc
		Value bool
	}

	// None is an expression without a value. It stands for a missing else, for example, or for
	// a syntax error.
	None struct{ Loc }

	// Builtin is a builtin without arguments that is part of the grammar, for example pid.
	Builtin struct {
		Loc
		Name string
	}

	// Identifier is any other name: of a macro, of an enumerator, or of a builtin of the
	// library.
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

	// MapAccess is an element of a map. Several keys are a *Tuple.
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

	// Range is the integers from Begin up to but not including End, in a for.
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

	// Unary is Op x, or x Op if Postfix is set.
	Unary struct {
		Loc
		Op      string
		Postfix bool
		X       Expr
	}

	// If is if and else, or cond ? then : else. For cond ?: else, Then is nil, and Cond is
	// also the value.
	If struct {
		Loc
		Cond, Then, Else Expr
	}

	// Block is a list of statements. Value is the last expression, the block's value, or a
	// *None.
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

	// Comptime is an expression that is evaluated when the script is compiled.
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

	// TypeInfo is typeinfo of a type or of an expression.
	TypeInfo struct {
		Loc
		Type *TypeOf
	}
)

// Types.
type (
	// Type is the name of a type, or struct, union or enum and a name, or a pointer to or an
	// array of another type.
	Type struct {
		Loc
		Kind string // "", "struct", "union", "enum", "*" or "[]"
		Name string // of the first four kinds
		Elem *Type  // of the last two kinds
		Len  uint64 // of an array
		Open bool   // an array without a length: []
	}

	// TypeOf is a type in the script: X is a *Type, or the operand of typeof(…).
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
