package printf

import (
	"strconv"
	"strings"
)

// The bits of the kernel's allocation flags (include/linux/gfp_types.h). Those from 23 on have had
// other meanings before Linux 6.10.
const (
	gfpDMA = 1 << iota
	gfpHighmem
	gfpDMA32
	gfpMovable
	gfpReclaimable
	gfpHigh
	gfpIO
	gfpFS
	gfpZero
	_
	gfpDirectReclaim
	gfpKswapdReclaim
	gfpWrite
	gfpNowarn
	gfpRetryMayfail
	gfpNofail
	gfpNoretry
	gfpMemalloc
	gfpComp
	gfpNomemalloc
	gfpHardwall
	gfpThisnode
	gfpAccount
	gfpZerotags
	gfpSkipZero
	gfpSkipKASAN
	gfpNoObjExt
)

// The combinations of flags that have names.
const (
	gfpReclaim         = gfpDirectReclaim | gfpKswapdReclaim
	gfpNOFS            = gfpReclaim | gfpIO
	gfpKernel          = gfpNOFS | gfpFS
	gfpUser            = gfpKernel | gfpHardwall
	gfpHighuser        = gfpUser | gfpHighmem
	gfpHighuserMovable = gfpHighuser | gfpMovable | gfpSkipKASAN
	gfpTranshugeLight  = (gfpHighuserMovable | gfpComp | gfpNomemalloc | gfpNowarn) &^ gfpReclaim
)

// allocationNames are the names of flags, in the order in which the kernel looks for them
// (__def_gfpflag_names, include/trace/events/mmflags.h): a combination before its parts.
var allocationNames = []struct {
	bits uint64
	name string
}{
	{gfpTranshugeLight | gfpDirectReclaim, "GFP_TRANSHUGE"},
	{gfpTranshugeLight, "GFP_TRANSHUGE_LIGHT"},
	{gfpHighuserMovable, "GFP_HIGHUSER_MOVABLE"},
	{gfpHighuser, "GFP_HIGHUSER"},
	{gfpUser, "GFP_USER"},
	{gfpKernel | gfpAccount, "GFP_KERNEL_ACCOUNT"},
	{gfpKernel, "GFP_KERNEL"},
	{gfpNOFS, "GFP_NOFS"},
	{gfpHigh | gfpKswapdReclaim, "GFP_ATOMIC"},
	{gfpReclaim, "GFP_NOIO"},
	{gfpKswapdReclaim | gfpNowarn, "GFP_NOWAIT"},
	{gfpDMA, "GFP_DMA"},
	{gfpHighmem, "__GFP_HIGHMEM"},
	{gfpDMA32, "GFP_DMA32"},
	{gfpHigh, "__GFP_HIGH"},
	{gfpIO, "__GFP_IO"},
	{gfpFS, "__GFP_FS"},
	{gfpZero, "__GFP_ZERO"},
	{gfpDirectReclaim, "__GFP_DIRECT_RECLAIM"},
	{gfpKswapdReclaim, "__GFP_KSWAPD_RECLAIM"},
	{gfpWrite, "__GFP_WRITE"},
	{gfpNowarn, "__GFP_NOWARN"},
	{gfpRetryMayfail, "__GFP_RETRY_MAYFAIL"},
	{gfpNofail, "__GFP_NOFAIL"},
	{gfpNoretry, "__GFP_NORETRY"},
	{gfpMemalloc, "__GFP_MEMALLOC"},
	{gfpComp, "__GFP_COMP"},
	{gfpNomemalloc, "__GFP_NOMEMALLOC"},
	{gfpHardwall, "__GFP_HARDWALL"},
	{gfpThisnode, "__GFP_THISNODE"},
	{gfpAccount, "__GFP_ACCOUNT"},
	{gfpZerotags, "__GFP_ZEROTAGS"},
	{gfpSkipZero, "__GFP_SKIP_ZERO"},
	{gfpSkipKASAN, "__GFP_SKIP_KASAN"},
	{gfpNoObjExt, "__GFP_NO_OBJ_EXT"},
}

// allocationFlags returns the names of allocation flags, and the bits without one as a number.
func allocationFlags(flags uint64) string {
	if flags == 0 {
		return "0"
	}
	var parts []string
	for _, f := range allocationNames {
		if flags&f.bits == f.bits {
			parts, flags = append(parts, f.name), flags&^f.bits
		}
	}
	if flags != 0 {
		parts = append(parts, "0x"+strconv.FormatUint(flags, 16))
	}
	return strings.Join(parts, "|")
}
