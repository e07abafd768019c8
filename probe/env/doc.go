// Package env describes a machine, live or recorded, to the planning of probes: the kernel's
// types (BTF), functions, tracepoints and features, its architecture and its files. It reads
// each of them when it is first needed, and keeps it.
//
// An Env of a recorded tree gives the same answers on any machine, without root, as the
// recorded machine did: plans can be made for it, compared and tested.
package env
