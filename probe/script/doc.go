// Package script checks, compiles and runs scripts in bpftrace's language, as of 0.26.1.
//
//	p, err := script.Compile("stdin", `tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }`, nil)
//	if err != nil {
//		fmt.Print(syntax.ErrorText(err))
//		return
//	}
//	status, err := p.Run(ctx, &script.RunOptions{Stdout: os.Stdout, Stderr: os.Stderr})
//
// [Compile] makes programs for a machine, live or recorded: nothing is loaded. [Program.Run] loads
// and attaches them, prints what bpftrace would print, and says what was lost. [Program.Replay]
// prints a recording of a run on any system.
//
// # Programs
//
// A script becomes a program of package ir, which Program.IR returns. What the kernel does not do,
// printing, clearing maps and ending, is a record in one ring, and is done in the order of the
// records by whoever reads it. So print(@x) prints the map as it is when the record is read; if
// clear(@x) follows directly, both are one, and lose nothing that was counted in between.
//
// It differs from bpftrace in this:
//
//   - Probes do not fire for the process that runs the script (Options.IncludeSelf).
//   - @x += n and @x++ are atomic for integers of 32 and 64 bits, as long as their value is not
//     used.
//   - Characters of traced processes' texts that a terminal acts on are printed as '?'
//     (RunOptions.Raw), and blanks stay in keys in JSON.
//   - Texts in a command of system() have '_' for each character that a shell acts on: what a traced
//     process is called must not be run (RunOptions.Raw). A command that fails has printed what it
//     printed.
//   - comm(PID) of another process than the current is its name when it is printed.
//   - The texts of strerror() are the C library's.
//   - Bit fields of signed types are signed, as in C: bpftrace 0.26 prints -39 in eight bits as 217.
//   - Functions that the kernel lets be probed are not refused by their names (bpftrace: rcu_*).
//   - A text that is a key is cut to 511 bytes before Linux 6.1, whose keys have no more room.
//   - What was lost, did not fit, was missed or cut, or could not be read, is said at the end, in JSON
//     as a line of the type losses (RunOptions.Strict makes an error of it).
//
// User stacks are walked by call frame information, so that they are whole in programs without frame
// pointers, too: the processes are looked at when a program first takes a stack or an address of
// theirs, and again when they map files or execute programs, and can be named after they ended.
// Stacks before that moment are walked by frame pointers, from a function's entry by its return address.
// The share of whole stacks is said at the end. Options.FramePointers walks all of them so.
//
// A user stack is of a process and of the program that it ran: equal addresses in another program that the
// process executes, or in another process with its number, are another key (output.Process). Addresses where
// a program had one file mapped and then another while it was counted have no names, and the end says so.
//
// Tests and benches of a script run instead of its other probes if Options.Mode asks for them; the time of a
// bench is that of its program, as the kernel's statistics have it, with their two reads of the clock.
// Probes of SIGUSR1 run when RunOptions.Signals says so.
//
// Not in programs yet, with an error that ends with [NotYet]: addresses of maps, has_key(),
// delete() and len() of histograms and series, functions of the script's own,
// unwatch(), values of more than 32 KiB, and pinned iterators. A loop ends after 8,388,608 turns,
// before Linux 5.17 after 4,096. As in bpftrace, what is divided by zero is 1, with a warning, and
// two empty lines are printed before the maps at the end.
//
// # Services
//
// [Attach] runs a script in the background: what it prints arrives on a channel as values, and [Map]
// reads its maps with Go's types.
//
// # Checking
//
// Editors, checkers of many scripts, and front ends need no program:
//
//	c, err := script.Check("stdin", text, &script.Options{System: system.New(nil, nil)})
//	if err != nil {
//		fmt.Print(syntax.ErrorText(err))
//		return
//	}
//	fmt.Print(c.Warnings, c.Types.Maps())
//
// [Check] is the one way of a text to its types. Its steps are, in this order:
//
//   - the text is parsed into a tree with positions (package syntax);
//   - the script's imports are added, from file systems of the caller;
//   - the config block is read, and features that it does not enable are refused (config);
//   - macros are expanded, including those of bpftrace's library, and #define lines;
//   - attach points are parsed and checked (attach);
//   - wildcards are replaced by their matches if arguments or names depend on them (system);
//   - the type of each expression, variable and map is determined (types).
//
// [Read] stops before the attach points. A program that works on a tree of its own calls the
// steps' packages itself.
//
// # Errors
//
// The error is a syntax.Errors: a list of values with a severity, a place (file, offsets,
// lines and columns), notes at other places, and hints. Its String method returns bpftrace's
// message, byte for byte if bpftrace's tests contain it; syntax.Text formats any error like
// that. A step reports several mistakes at once, and the result has the part of the tree that
// could be read, so that an editor can show both while a script is being written. Warnings are
// beside the result, and behind the errors if there are any.
//
// # Trees
//
// syntax.Walk and syntax.All visit the nodes, syntax.Rewrite replaces nodes, and syntax.Clone
// copies them. A node's At method returns its place; if a macro made the node, the place's
// From leads to the macro's use. syntax.Format prints a script as bpftrace --fmt does, with
// its comments.
//
// # Machines
//
// The interface types.System describes a machine: its structs, arguments and features.
// system.New returns one for this machine, or for another one from its recorded files, so
// that one script can be checked for many kernels on any machine. With a nil System only the
// script's own types exist.
package script
