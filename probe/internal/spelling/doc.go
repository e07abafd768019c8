// Package spelling cuts the texts of targets into kinds, parts and options, and spells
// such parts: what all kinds of targets share of bpftrace's syntax.
package spelling
