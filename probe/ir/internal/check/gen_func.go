package check

const ctlSize = 64

const budSize = 32

// Levels is how many programs may be in scratch memory on one CPU at a time:
// task, soft interrupt, interrupt, NMI, and as many again for preemption.
const Levels = 8

// ScratchUsed is the size of what stands before a scratch area: the word that
// says that it is in use.
const ScratchUsed = 8
