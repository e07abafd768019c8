// Package script is the guide to the packages that read bpftrace's language, as of 0.26.1,
// for programs such as editors, checkers of many scripts, and front ends. There is a package
// for each step, and none needs a kernel. A script passes through them in this order:
//
//   - syntax.Parse parses a text into a tree with positions;
//   - imports.Load adds the script's imports, from file systems of the caller;
//   - config.Read reads the config block, and refuses features that it does not enable;
//   - syntax.Expand expands macros, including those of library.Macros, and #define lines;
//   - attach.Parse parses attach points, and attach.Check checks them;
//   - system.System.Expand replaces wildcards by their matches if arguments depend on them;
//   - types.Check determines the type of each expression, variable and map.
//
// Each step uses the tree that the previous one has changed; only types.Check makes a copy
// (Program.File). A step may be left out if the script has nothing for it.
//
// # Errors
//
// All steps return a syntax.Errors: a list of values with a severity, a place (file, offsets,
// lines and columns), notes at other places, and hints. Its String method returns bpftrace's
// message, byte for byte if bpftrace's tests contain it; syntax.Text formats any error like
// that. A step reports several mistakes at once, and returns the part of the tree that it
// could read, so that an editor can show both while a script is being written. Warnings are
// returned with the result, if there is one.
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
