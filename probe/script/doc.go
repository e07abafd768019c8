// Package script reads and types scripts in bpftrace's language, as of 0.26.1, for programs
// such as editors, checkers of many scripts, and front ends. None of it needs a kernel.
//
//	c, err := script.Check("stdin", text, &script.Options{System: system.New(nil, nil)})
//	if err != nil {
//		fmt.Print(syntax.Text(err))
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
