// Package env is what is known of a machine, live or recorded, when probes are planned:
// the kernel's types (BTF), functions, tracepoints and features, its architecture and its
// files. What it reads, it reads when it is first asked for, and keeps.
//
// An Env of a recorded tree answers on any machine, and without root, as that machine
// did: plans are made for it, compared and tested.
package env
