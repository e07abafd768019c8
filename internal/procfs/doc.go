// Package procfs reads what /proc says about processes: mappings, start times,
// names, namespaces. Every reader takes an fs.FS, the machine's root or a
// recorded tree; opening a file as a process sees it is here too.
package procfs
