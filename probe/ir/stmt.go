package ir

// StmtOp is the operation of a statement.
type StmtOp uint8

// The statements. The comment of each lists the fields that it uses.
const (
	_            StmtOp = iota
	StmtLet             // Var = X; the first assignment gives the variable its type
	StmtIf              // X, Body, Else
	StmtLoop            // X: count (at most Max); Var: index from 0; Body
	StmtForEach         // Map; Var: key; Var2: value (nil, also if each CPU has one); Body
	StmtBreak           // leave the innermost loop
	StmtContinue        // start the next iteration of the innermost loop
	StmtReturn          // end the action
	StmtFind            // Map, Key; Var: value; Body if found, Else if not; Delete after reading
	StmtSet             // Map, Key, X
	StmtDelete          // Map, Key
	StmtAdd             // Map, Key (nil for a map without keys), X: atomic addition
	StmtAgg             // Map, Key (may be nil), X: what the map aggregates (nil for count)
	StmtEmit            // Map: ring or perf buffer; X: the event
	StmtPacket          // Map: a MapPerf of PacketHead; Key: struct sk_buff; X: most bytes (or nil)
	StmtSignal          // X: signal, to the current process
	StmtOverride        // X: what the probed function returns instead
	StmtExit            // ask the owner to end (bpf.Loaded.ExitRequested); X: the code, 0 if nil; Off
	StmtSkip            // at the entry, in a session program: leave out the return
	StmtCookie          // X: a number kept for the return of the same call (session programs)
	StmtEval            // X, for its effect on counters only
	// StmtTrace writes a line to the kernel's trace (tracefs, trace_pipe), for debugging. Text: the
	// format, as bpf_trace_printk takes it (that of Linux 5.10 prints nothing for one with widths or
	// with %%); X: a tuple of at most three numbers and texts, or nil.
	StmtTrace
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

// Stmt is a statement. The package never writes to a statement that it was given.
type Stmt struct {
	// Op decides which of the other fields are used, and for what.
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
	// Text is the format of StmtTrace.
	Text string
	// Time is when StmtAgg has a series take the value, in nanoseconds since any time; nil is now, on
	// CLOCK_MONOTONIC.
	Time *Expr
	// Thread sends StmtSignal to the thread instead of the process.
	Thread bool
	// Off has StmtExit switch all programs off, as bpf.Loaded.SetDisabled does: what fires until they
	// are detached does nothing.
	Off bool
	// Site, if it is not 0, is the number with which Program.Failures has what fails in this
	// statement.
	Site uint32
	// Pos is the position of the statement in its source, for errors.
	Pos Pos
}

var stmtNames = [numStmts]string{
	StmtLet: "let", StmtIf: "if", StmtLoop: "loop", StmtForEach: "for", StmtBreak: "break",
	StmtContinue: "continue", StmtReturn: "return", StmtFind: "find", StmtSet: "set",
	StmtDelete: "delete", StmtAdd: "add", StmtAgg: "aggregate", StmtEmit: "emit", StmtPacket: "packet",
	StmtSignal: "signal", StmtOverride: "override", StmtExit: "exit", StmtSkip: "skip",
	StmtCookie: "cookie", StmtEval: "eval", StmtTrace: "trace",
}

// String returns the statement's name.
func (o StmtOp) String() string {
	if o < numStmts && stmtNames[o] != "" {
		return stmtNames[o]
	}
	return "invalid"
}
