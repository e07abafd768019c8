package layout

// MaxRecord bounds one record; no BPF stream has longer ones.
const MaxRecord = MaxChunk - 1<<10
