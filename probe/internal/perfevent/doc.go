// Package perfevent opens the perf events that programs are attached to. It reads the numbers
// of dynamic PMUs, opens events for a process's threads, and explains why the kernel refuses
// an event.
package perfevent
