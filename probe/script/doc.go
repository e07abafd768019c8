// Package script is the guide to bpftrace's language, as of 0.26.1, for programs that read it:
// editors, checkers of many scripts, front ends. What reads it is below, a package for each
// step, and none needs a kernel. In the order in which a script passes them:
//
//   - syntax.Parse reads a text into a tree with positions;
//   - imports.Load puts in what the script imports, from file systems of the caller;
//   - config.Read reads its config block, and refuses what that does not enable;
//   - syntax.Expand expands macros, those of library.Macros too, and #define lines;
//   - attach.Parse reads what attach points name, and attach.Check checks that;
//   - system.System.Expand replaces wildcards by their matches, where arguments depend on them;
//   - types.Check gives each expression, variable and map its type.
//
// Each step takes the tree that the one before has left; types.Check alone makes a copy
// (Program.File). A step may be left out if the script has nothing for it.
//
// # Errors
//
// All of them return a syntax.Errors: a list of values with a severity, a place (file, offsets,
// lines and columns), notes at other places and hints. Their String is what bpftrace prints, to
// the byte where its tests say so; syntax.Text prints any error so. Several mistakes are found
// in one go, and the tree of a script with mistakes has what was read up to there, so that an
// editor can show both while somebody writes. Warnings come beside the result where there is one.
//
// # Trees
//
// syntax.Walk and syntax.All visit the nodes, syntax.Rewrite replaces some, syntax.Clone
// copies. A node's At is its place; of one that a macro made, From leads to the use. syntax.Format
// prints a script as bpftrace --fmt does, comments kept.
//
// # Machines
//
// What structs, arguments and features there are, the interface types.System answers:
// system.New from this machine, or from the recorded files of another one, so that one script
// can be checked for many kernels on any machine. Nil is a machine without any: the script's own
// types only.
package script
