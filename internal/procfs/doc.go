// Package procfs reads information about processes from /proc: mappings, start times, names,
// namespaces. The readers take an fs.FS, the machine's root or a recorded one. It also opens
// files as a process sees them.
package procfs
