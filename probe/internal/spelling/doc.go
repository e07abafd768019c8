// Package spelling splits the texts of targets into kinds, parts and options, and formats such
// parts. It implements the part of bpftrace's syntax that all kinds of targets share.
package spelling
