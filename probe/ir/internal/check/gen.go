package check

import "github.com/borescope/borescope/probe/ir"

var ForEachSince = ir.Version{5, 13} // bpf_for_each_map_elem

// Keys of hashes are at most MAX_BPF_STACK bytes on 5.10 (htab_map_alloc_check,
// kernel/bpf/hashtab.c), and may be longer on 6.1.
var longKeys = ir.Version{6, 1}
