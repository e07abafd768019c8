// Package cgroups finds control groups by their paths: those of version 2, by ids that BPF
// programs can read, and those that perf events can follow.
package cgroups
