package ir

// StmtOp is what a statement does.
type StmtOp uint8

// The statements. What stands behind each is what it uses.
const (
	_            StmtOp = iota
	StmtLet             // Var = X; the first assignment gives the variable its type
	StmtIf              // X, Body, Else
	StmtLoop            // X: count (at most Max); Var: index from 0; Body
	StmtForEach         // Map; Var: key; Var2: value (may be nil); Body
	StmtBreak           // leave the innermost loop
	StmtContinue        // next turn of the innermost loop
	StmtReturn          // end the action
	StmtFind            // Map, Key; Var: value; Body if found, Else if not; Delete after reading
	StmtSet             // Map, Key, X
	StmtDelete          // Map, Key
	StmtAdd             // Map, Key (nil for a map without keys), X: atomic addition
	StmtAgg             // Map, Key (may be nil), X: what the map aggregates (nil for count)
	StmtEmit            // Map: ring or perf buffer; X: the event
	StmtPacket          // Map: a MapPerf of PacketHead; Key: the struct sk_buff; X: how many bytes of it at most, nil is all
	StmtSignal          // X: signal, to the current process
	StmtOverride        // X: what the probed function returns instead
	StmtExit            // ask whoever loaded the program to end (bpf.Loaded.ExitRequested); X: with this code, 0 if nil
	StmtSkip            // at the entry, in a session program: leave out the return
	StmtCookie          // X: a number kept for the return of the same call (session programs)
	StmtEval            // X, for its effect on counters only
	numStmts
)

// MapFlag is the condition of a StmtSet.
type MapFlag uint8

// The conditions.
const (
	SetAny    MapFlag = iota // create or replace
	SetCreate                // only if there is no entry
	SetUpdate                // only if there is one
)

// Stmt is a statement. The package never writes to one that it was given.
type Stmt struct {
	// Op says which of the other fields are used, and what for.
	Op   StmtOp
	X    *Expr
	Key  *Expr
	Map  *Map
	Var  *Var
	Var2 *Var
	Body []*Stmt
	Else []*Stmt
	// Max bounds a loop's count; 0 is allowed only with a constant count.
	Max int
	// Delete removes the entry that StmtFind found, after reading it.
	Delete bool
	// Flag is the condition of StmtSet.
	Flag MapFlag
	// Thread sends StmtSignal to the thread instead of the process.
	Thread bool
	// Pos is where the statement is in its source, for errors.
	Pos Pos
}

var stmtNames = [numStmts]string{
	StmtLet: "let", StmtIf: "if", StmtLoop: "loop", StmtForEach: "for", StmtBreak: "break",
	StmtContinue: "continue", StmtReturn: "return", StmtFind: "find", StmtSet: "set",
	StmtDelete: "delete", StmtAdd: "add", StmtAgg: "aggregate", StmtEmit: "emit", StmtPacket: "packet",
	StmtSignal: "signal", StmtOverride: "override", StmtExit: "exit", StmtSkip: "skip", StmtCookie: "cookie", StmtEval: "eval",
}

// String is the statement's name.
func (o StmtOp) String() string {
	if o < numStmts && stmtNames[o] != "" {
		return stmtNames[o]
	}
	return "invalid"
}
