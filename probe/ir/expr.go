package ir

// Op is the operation of an expression.
type Op uint8

// The operations. The comment of each lists what Args hold, in order.
const (
	OpInvalid Op = iota

	// Leaves.
	OpConst   // the integer Int, of Type (KindAuto: fits itself to the other operand)
	OpString  // the text Str
	OpVar     // the variable Var
	OpVarAddr // the address of the variable Var, in kernel memory, until the action ends
	OpBuiltin // the builtin named Str, parameter Int
	// OpArg is the probe's argument: named Str, or number Int if Str is empty. In Go programs
	// numbers count registers, of which text takes two; OpMember picks them by name: s.len. At
	// their returns it is a result, by name.
	OpArg
	OpField  // the field of the context that is named Str
	OpRet    // the return value
	OpReg    // register of the context, DWARF number Int
	OpKaddr  // the address of the kernel symbol Str, typed where BTF has its type
	OpUaddr  // the address of the symbol Str in the probed file
	OpBytes  // the bytes of Str
	OpEnum   // the kernel's enumerator Str: "NAME", or, found faster, "enum type.NAME"
	OpSizeof // the size in bytes of the kernel type Str

	// Arithmetic on integers. If Type is given, both operands are converted to it and the
	// result wraps around at its width. KindAuto computes in 64 bits, unsigned if an operand
	// is an unsigned 64-bit integer or a pointer.
	OpAdd
	OpSub
	OpMul
	OpDiv // towards zero; by zero is 0
	OpMod // sign of the dividend; by zero is the dividend
	OpAnd
	OpOr
	OpXor
	OpShl // the count is taken modulo the width
	OpShr // arithmetic for signed types
	OpNeg
	OpNot // bitwise

	// Comparisons: bool. Integers are compared in 64 bits by the same rule as
	// arithmetic; strings by content; buffers and tuples by bytes (Eq, Ne only).
	//
	// The checker refuses a comparison of an integer with a constant if all values of the
	// integer's type (or bit field) give the same result: an unsigned integer is never below
	// 0. A constant with a Type is refused only if the integer's type does not have its
	// value. Str, if it is not empty, is what a user of the front end writes to have an
	// operand as a signed integer, with %s for the operand ("(long)%s"): the error says it.
	OpEq
	OpNe
	OpLt
	OpLe
	OpGt
	OpGe

	// Logic: bool, with short circuit.
	OpLAnd
	OpLOr
	OpLNot

	OpCond  // condition, then, else
	OpCast  // value, to Type
	OpBswap // value: bytes in reverse order, in the value's width

	// Memory. The pointer's type says whether it is kernel or user memory. A number in place
	// of a pointer is an address in user memory in uprobes, uretprobes and USDT probes, and in
	// the kernel's elsewhere. Reads that fail give zeros and are counted (Stats.Faults).
	OpDeref  // pointer: the value of Type it points to (KindAuto: its Elem)
	OpMember // pointer or aggregate: the member with path Str, "a.b[2].c->d"
	OpAddrOf // like OpMember, but the address; with an index behind the pointer, an element's
	// OpIndex is an element of memory (pointer, index), or of a value that is bytes, text or
	// a tuple of equal types. It is zero beyond the value's end.
	OpIndex
	OpOffset // pointer: the offset in bytes of the member Str of what it points to
	OpKptr   // pointer: the same in kernel memory
	OpUptr   // pointer: the same in user memory
	OpStr    // pointer, length (optional): the text there, at most Type.Size-1 bytes
	OpBuf    // pointer, length (optional): Type.Size bytes
	OpPerCPU // pointer to a per-CPU kernel variable, CPU: the address of that CPU's
	// OpSocketCookie is the cookie of a socket, which identifies it until the machine
	// restarts: pointer to a struct sock that is an argument (5.12; fentry, fexit and typed
	// tracepoints). The interpreter has no sockets: it gives 0.
	OpSocketCookie
	// OpTaskPID and OpTaskTID are the process and thread id of a task, in the namespace of
	// the builtins pid and tid: pointer to a task_struct.
	OpTaskPID
	OpTaskTID
	// OpPath is the text of a struct path, as the process sees it: pointer to it, in an
	// argument that the kernel types. It has at most Type.Size-1 bytes; a longer path gives
	// none. The kernel permits it in few programs (action.Ptr.Path lists them). The
	// interpreter has no mounts: it gives no text.
	OpPath

	// Text.
	OpHasPrefix // text, and the constant Str
	OpContains  // text, and the constant Str or more text
	OpIndexOf   // text, and the constant Str or more text: its first index, or -1
	OpGlob      // text, and the constant pattern Str of * ? [a-z] [!a-z]: does all of it match
	OpLen       // text: bytes before the NUL; stack: frames
	OpStrncmp   // text, text, up to Int bytes: 0 if equal, else 1
	OpMemcmp    // two of text or bytes, Int bytes: -1, 0 or 1 by the first difference

	// Tuples.
	OpTuple // elements, laid out as Type
	OpElem  // tuple: its element number Int, or the one named Str

	// Maps.
	OpMapGet // key: the value in Map, or zero
	OpMapHas // key: bool
	// OpMapCPU is a CPU's value in a per-CPU map: key (if the map has keys), CPU. For an
	// aggregation it is the 64-bit field at Int bytes.
	OpMapCPU

	// Stacks: KindBytes of 8 bytes per frame.
	OpKstack // Int frames, after skipping Skip
	OpUstack // by frame pointers
	// OpUstackWalk is OpUstack by call frame information in the processes that were given to
	// Loaded.AddProcess, and by frame pointers in others.
	OpUstackWalk

	numOps
)

// Pos is a position in the source of a program, which is in a front end's language or, for
// the typed surface, in Go. The zero Pos is unknown.
type Pos struct {
	File string
	Line int // from 1; 0 is unknown
	Col  int // from 1, in bytes; 0 is unknown
}

// Expr is an expression: a node of a tree. Front ends make nodes as literals or with the New
// functions, and may share them between trees. The package never writes to a node that it was
// given.
type Expr struct {
	// Op decides which of the other fields are used, and what Args are.
	Op Op
	// Type is the type of the result where Op leaves a choice. With the zero Type the checker
	// decides.
	Type Type
	Args []*Expr
	// Int is the constant, index, register or length, depending on Op.
	Int int64
	// Skip is the number of innermost frames that a stack leaves out.
	Skip int
	// Str is the text or the name, depending on Op.
	Str string
	// Var is for OpVar and OpVarAddr, Map for the operations on maps.
	Var *Var
	Map *Map
	// Site, if it is not 0, is the number with which Program.Failures has what fails in this
	// operation.
	Site uint32
	// Pos is the position of the expression in its source, for errors.
	Pos Pos
}

// Var is a temporary of a program. StmtLet, StmtFind or a loop sets it, and OpVar reads it. A
// variable belongs to one action.
type Var struct {
	// Name is for printing; variables are told apart by their addresses.
	Name string
	// Type is the type of the variable. If it is the zero Type, the first assignment decides
	// it.
	Type Type
}

// NewConst returns the integer v, whose type is decided by its use.
func NewConst(v int64) *Expr { return &Expr{Op: OpConst, Int: v} }

// NewString returns constant text.
func NewString(s string) *Expr { return &Expr{Op: OpString, Str: s} }

// NewBuiltin returns a builtin value, such as "pid"; see Builtins.
func NewBuiltin(name string) *Expr { return &Expr{Op: OpBuiltin, Str: name} }

// NewVar returns an expression that reads a variable.
func NewVar(v *Var) *Expr { return &Expr{Op: OpVar, Var: v} }

// NewExpr returns op applied to args.
func NewExpr(op Op, args ...*Expr) *Expr { return &Expr{Op: op, Args: args} }

// opNames are the spellings in String.
var opNames = [numOps]string{
	OpConst: "const", OpString: "string", OpVar: "var", OpVarAddr: "address", OpBuiltin: "builtin", OpArg: "arg",
	OpField: "field", OpRet: "retval", OpReg: "reg", OpKaddr: "kaddr", OpUaddr: "uaddr",
	OpBytes: "bytes", OpEnum: "enum", OpSizeof: "sizeof", OpOffset: "offsetof", OpKptr: "kptr",
	OpUptr: "uptr", OpAdd: "+", OpSub: "-", OpMul: "*", OpDiv: "/", OpMod: "%", OpAnd: "&", OpOr: "|",
	OpXor: "^", OpShl: "<<", OpShr: ">>", OpNeg: "-", OpNot: "~",
	OpEq: "==", OpNe: "!=", OpLt: "<", OpLe: "<=", OpGt: ">", OpGe: ">=",
	OpLAnd: "&&", OpLOr: "||", OpLNot: "!",
	OpCond: "?:", OpCast: "cast", OpBswap: "bswap",
	OpDeref: "*", OpMember: "->", OpAddrOf: "&", OpIndex: "[]", OpStr: "str", OpBuf: "buf",
	OpPerCPU: "percpu", OpSocketCookie: "socket_cookie", OpPath: "path", OpTaskPID: "task_pid",
	OpTaskTID: "task_tid", OpHasPrefix: "has_prefix", OpContains: "contains", OpIndexOf: "strstr",
	OpGlob: "globmatch", OpLen: "len", OpStrncmp: "strncmp", OpMemcmp: "memcmp", OpTuple: "tuple",
	OpElem: "elem", OpMapGet: "get", OpMapHas: "has", OpMapCPU: "get_cpu", OpKstack: "kstack",
	OpUstack: "ustack", OpUstackWalk: "ustack_walk",
}

// String returns the operation's name or sign.
func (o Op) String() string {
	if o < numOps && opNames[o] != "" {
		return opNames[o]
	}
	return "invalid"
}

// Arity returns how many operands an operation has, at least and at most.
func (o Op) Arity() (least, most int) {
	switch o {
	case OpConst, OpString, OpVar, OpVarAddr, OpBuiltin, OpArg, OpField, OpRet, OpReg, OpKaddr, OpKstack,
		OpUstack,
		OpUstackWalk, OpUaddr, OpBytes, OpEnum, OpSizeof:
		return 0, 0
	case OpNeg, OpNot, OpLNot, OpCast, OpBswap, OpDeref, OpMember, OpOffset, OpKptr, OpUptr,
		OpSocketCookie, OpPath, OpTaskPID, OpTaskTID,
		OpHasPrefix, OpGlob, OpLen, OpElem:
		return 1, 1
	case OpCond:
		return 3, 3
	case OpTuple:
		return 1, 256
	case OpBuf, OpStr, OpAddrOf, OpContains, OpIndexOf, OpMapCPU:
		return 1, 2
	case OpMapGet, OpMapHas:
		return 0, 1
	}
	return 2, 2
}
