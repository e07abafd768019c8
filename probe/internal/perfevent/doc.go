// Package perfevent opens the perf events that programs are attached to: the numbers of
// dynamic PMUs, events that follow a process's threads, and why the kernel refuses some.
package perfevent
