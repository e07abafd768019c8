package main

import (
	"regexp"
	"strings"
)

// kernelHeaders lists the headers that programs include for the names that scripts use.
var kernelHeaders = strings.Fields(`
	asm/errno.h asm/fcntl.h linux/fcntl.h linux/stat.h asm/signal.h asm/siginfo.h linux/icmp.h
	linux/icmpv6.h linux/sched.h linux/mman.h linux/eventpoll.h asm/poll.h linux/ptrace.h
	linux/futex.h linux/if_ether.h linux/if_packet.h linux/if_arp.h linux/if.h linux/tcp.h
	linux/udp.h linux/in.h linux/in6.h linux/bpf.h asm/resource.h linux/io_uring.h linux/mount.h
	asm/socket.h linux/falloc.h linux/fs.h linux/perf_event.h linux/prctl.h linux/seccomp.h
	linux/capability.h linux/netlink.h linux/magic.h linux/limits.h linux/wait.h linux/time.h
	linux/inotify.h linux/memfd.h linux/timerfd.h linux/sockios.h asm/ioctls.h linux/ipc.h
	linux/shm.h linux/sem.h linux/mempolicy.h linux/netfilter.h linux/random.h linux/openat2.h
	linux/auxvec.h
`)

// libcHeaders contain names that the kernel has in internal headers (include/linux/socket.h,
// net.h, fs_types.h). They are the same on all machines of the table.
var libcHeaders = []string{"sys/socket.h", "dirent.h", "netinet/in.h"}

// inKernel contains names that are in no header for user programs, with the kernel's header
// that defines them. The states of TCP are enumerators there: since they are here, scripts
// that use them need no BTF.
var inKernel = map[string]int64{
	// include/linux/sched.h
	"TASK_RUNNING": 0, "TASK_INTERRUPTIBLE": 1, "TASK_UNINTERRUPTIBLE": 2, "EXIT_DEAD": 0x10,
	"EXIT_ZOMBIE": 0x20, "EXIT_TRACE": 0x30, "TASK_PARKED": 0x40, "TASK_DEAD": 0x80,
	"TASK_WAKEKILL": 0x100, "TASK_WAKING": 0x200, "TASK_NOLOAD": 0x400, "TASK_NEW": 0x800,
	"TASK_KILLABLE": 0x102, "TASK_STOPPED": 0x104, "TASK_IDLE": 0x402, "TASK_NORMAL": 3,
	"TASK_COMM_LEN": 16,
	// include/uapi/asm/signal.h: _NSIG, which it does not define for programs
	"SIGRTMAX": 64,
	// include/net/tcp_states.h
	"TCP_ESTABLISHED": 1, "TCP_SYN_SENT": 2, "TCP_SYN_RECV": 3, "TCP_FIN_WAIT1": 4,
	"TCP_FIN_WAIT2": 5, "TCP_TIME_WAIT": 6, "TCP_CLOSE": 7, "TCP_CLOSE_WAIT": 8, "TCP_LAST_ACK": 9,
	"TCP_LISTEN": 10, "TCP_CLOSING": 11, "TCP_NEW_SYN_RECV": 12,
	// include/net/tcp.h
	"TCPHDR_FIN": 1, "TCPHDR_SYN": 2, "TCPHDR_RST": 4, "TCPHDR_PSH": 8, "TCPHDR_ACK": 0x10,
	"TCPHDR_URG": 0x20, "TCPHDR_ECE": 0x40, "TCPHDR_CWR": 0x80,
}

// prefixes are the prefixes of wanted names.
var prefixes = strings.Fields(`
	AF_ PF_ SOCK_ IPPROTO_ O_ S_I DT_ SIG_ SA_ ICMP_ ICMPV6_ CLONE_ MAP_ PROT_ MSG_ EPOLL POLL AT_
	PTRACE_ FUTEX_ ETH_P_ TCP_ UDP_ BPF_ RLIMIT_ RLIM_ SCHED_ IORING_ IOSQE_ MS_ MNT_ SO_ SOL_
	SCM_ FALLOC_ SEEK_ LOCK_ F_ FD_ STATX_ RENAME_ MADV_ MREMAP_ MCL_ MLOCK_ PERF_ PR_ SECCOMP_
	CAP_ NETLINK_ NLM_F_ NLMSG_ CLOCK_ ITIMER_ TIMER_ IN_ MFD_ TFD_ SIOC IPC_ SHM_ SEM_ MPOL_ NF_
	NFPROTO_ GRND_ XATTR_ RESOLVE_ RWF_ ARPOP_ IFF_ IP_ SHUT_ SI_ ILL_ FPE_ SEGV_ BUS_ TRAP_ CLD_
	TASK_ EXIT_ TCPHDR_ INADDR_ INET_ INET6_
`)

// patterns matches other wanted names: errors, signals, waiting, file systems, limits.
var patterns = regexp.MustCompile(`^(E[A-Z0-9]+|SIG[A-Z0-9]+|` +
	`W(NOHANG|UNTRACED|STOPPED|EXITED|CONTINUED|NOWAIT)|P_(ALL|PID|PGID|PIDFD)|` +
	`[A-Z0-9_]+_(SUPER|SB|FS)?_?MAGIC|(PATH|NAME|PIPE_BUF|ARG|NGROUPS|XATTR_NAME|XATTR_SIZE)_MAX|` +
	`PIPE_BUF|ITIMER|R_OK|W_OK|X_OK)$`)

// changing matches names with values that depend on the kernel's version.
var changing = regexp.MustCompile(`(_MAX|_LAST|_LAST_CAP|_SIZE_VER\d|_NUM|_COUNT|_ALL|_MASK|` +
	`_BITS|_EVENTS|_SIZEOF\w*|_OPS|_FLAGS)$`)

// stays matches those of them that never change.
var stays = regexp.MustCompile(`^(RLIMIT_|PATH_|NAME_|ARG_|NGROUPS_|XATTR_|WNO|P_ALL|` +
	`ETH_P_ALL|S_I|O_|SOCK_TYPE|PR_|SIG|PROT_|IP|IN)`)

// others matches names that are not wanted: names that look like errors and are none, names of
// signal frames, names for which the sources differ or which mean something else inside the
// kernel, and names that are of no use to programs.
var others = regexp.MustCompile(`^(E(CHO|CC|PIOC)[A-Z]*|EXT[ABP][A-Z]*|` +
	`(ESR|FPMR|FPSIMD|FPU|GCS|POE|SVE|ZA|ZT|TPIDR2|EXTRA|LSX|LASX|LBT|GUEST)_.*|` +
	`MS_NOUSER|RWF_SUPPORTED|SOCK_DESTROY|O_TMPFILE_MASK|AT_VECTOR_SIZE.*|` +
	`(MTD|WAKE|DMA|NULL|PID|USBDEVICE)_.*)$`)

func wanted(name string) bool {
	if others.MatchString(name) || changing.MatchString(name) && !stays.MatchString(name) ||
		strings.ToUpper(name) != name {
		return false
	}
	if patterns.MatchString(name) {
		return true
	}
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
