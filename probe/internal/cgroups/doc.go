// Package cgroups finds control groups by their paths: those of version 2, of which
// programs know the ids, and those that perf events follow.
package cgroups
