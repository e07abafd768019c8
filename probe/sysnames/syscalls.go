package sysnames

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ABI is one of the tables of system calls that programs of a machine use. Tables give the
// same number to different calls.
type ABI uint8

const (
	// Native is the table of programs with the machine's word size.
	Native ABI = iota
	// Compat is the table of 32-bit programs: i386's on amd64, arm's (EABI) on arm64.
	// action.Ctx.Compat tells a program that a call is of this ABI.
	Compat
	// X32 is the table of programs on amd64 that use 64-bit registers and 32-bit pointers. Few
	// kernels have it. Its numbers have bit 30 set, here as in the kernel's records.
	X32
)

// String returns "native", "compat" or "x32".
func (a ABI) String() string {
	if names := [...]string{"native", "compat", "x32"}; int(a) < len(names) {
		return names[a]
	}
	return "ABI(" + strconv.Itoa(int(a)) + ")"
}

// x32Bit is __X32_SYSCALL_BIT.
const x32Bit = 1 << 30

// ABIs returns the ABIs of an architecture (GOARCH's spelling), Native first; nil if it is not
// known.
func ABIs(arch string) []ABI {
	switch arch {
	case "amd64":
		return []ABI{Native, Compat, X32}
	case "arm64":
		return []ABI{Native, Compat}
	}
	return nil
}

// Syscall returns the name of a system call by its number in that ABI of an architecture
// (GOARCH's spelling; amd64 and arm64 are known), or "[number]", in the ABI Compat "[compat
// number]". A number of X32 has that name with Native, too, because its bit 30 tells them
// apart.
func Syscall(arch string, abi ABI, nr int) string {
	if abi == Native && nr > 0 && nr&x32Bit != 0 {
		abi = X32
	}
	if name, ok := syscalls(arch, abi)[nr]; ok {
		return name
	}
	if abi == Compat {
		return "[compat " + strconv.Itoa(nr) + "]"
	}
	return "[" + strconv.Itoa(nr) + "]"
}

// SyscallNumber returns the number of a system call's name in that ABI. It is the inverse of
// Syscall.
func SyscallNumber(arch string, abi ABI, name string) (nr int, ok bool) {
	for nr, n := range syscalls(arch, abi) {
		if n == name {
			return nr, true
		}
	}
	return 0, false
}

// Syscalls returns all names in that ABI of an architecture, sorted.
func Syscalls(arch string, abi ABI) []string {
	return slices.Sorted(maps.Values(syscalls(arch, abi)))
}

func syscalls(arch string, abi ABI) map[int]string {
	if parse := syscallTables[archABI{arch, abi}]; parse != nil {
		return parse()
	}
	return nil
}

type archABI struct {
	arch string
	abi  ABI
}

// syscallTables are parsed when they are first needed.
var syscallTables = map[archABI]func() map[int]string{
	{"amd64", Native}: parsed(syscallsAMD64),
	{"amd64", Compat}: parsed(syscalls386),
	{"amd64", X32}:    sync.OnceValue(x32),
	{"arm64", Native}: parsed(syscallsARM64),
	{"arm64", Compat}: parsed(syscallsARM),
}

// x32 returns the table of X32: amd64's, but for the calls that have numbers of their own from
// 512 on, because they pass pointers in memory.
func x32() map[int]string {
	names := numbered(syscallsX32)
	own := map[string]bool{}
	for _, name := range names {
		own[name] = true
	}
	for nr, name := range numbered(syscallsAMD64) {
		if !own[name] {
			names[nr] = name
		}
	}
	out := make(map[int]string, len(names))
	for nr, name := range names {
		out[nr|x32Bit] = name
	}
	return out
}

func parsed(text string) func() map[int]string {
	return sync.OnceValue(func() map[int]string { return numbered(text) })
}

// numbered parses a table of names in the order of their numbers; a number in it is that of
// the next name.
func numbered(text string) map[int]string {
	names, nr := map[int]string{}, 0
	for word := range strings.FieldsSeq(text) {
		if n, err := strconv.Atoi(word); err == nil {
			nr = n
			continue
		}
		names[nr] = word
		nr++
	}
	return names
}

// syscallsAMD64 are the kernel's system calls; TestSyscallNames compares them
// with golang.org/x/sys.
const syscallsAMD64 = `
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction
rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield
mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm
setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind
listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit wait4
kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync
truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink
readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo times
ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid
setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid
getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime
mknod uselib personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam
sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min
sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt pivot_root _sysctl
prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount2 swapon swapoff
reboot sethostname setdomainname iopl ioperm create_module init_module delete_module
get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security
gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr
flistxattr removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity
sched_getaffinity set_thread_area io_setup io_destroy io_getevents io_submit io_cancel
get_thread_area lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages
getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create timer_settime
timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime clock_getres
clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver mbind set_mempolicy
get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load
waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch
inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat
renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list
get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd
timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2
epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg
fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs
sendmmsg setns getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr
sched_getattr renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat userfaultfd
membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx
io_pgetevents rseq uretprobe uprobe 424 pidfd_send_signal io_uring_setup io_uring_enter
io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick pidfd_open clone3
close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd
landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease
futex_waitv set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait
futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal
setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr listns
rseq_slice_yield
`

// syscallsARM64 are the kernel's system calls; TestSyscallNames compares them
// with golang.org/x/sys.
const syscallsARM64 = `
io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr
lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd
lookup_dcookie eventfd2 epoll_create1 epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1
inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get flock mknodat mkdirat unlinkat
symlinkat linkat renameat umount2 mount pivot_root nfsservctl statfs fstatfs truncate ftruncate
fallocate faccessat chdir fchdir chroot fchmod fchmodat fchownat fchown openat close vhangup pipe2
quotactl getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev sendfile
pselect6 ppoll signalfd4 vmsplice splice tee readlinkat newfstatat fstat sync fsync fdatasync
sync_file_range timerfd_create timerfd_settime timerfd_gettime utimensat acct capget capset
personality exit exit_group waitid set_tid_address unshare futex set_robust_list get_robust_list
nanosleep getitimer setitimer kexec_load init_module delete_module timer_create timer_gettime
timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres
clock_nanosleep syslog ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam
sched_setaffinity sched_getaffinity sched_yield sched_get_priority_max sched_get_priority_min
sched_rr_get_interval restart_syscall kill tkill tgkill sigaltstack rt_sigsuspend rt_sigaction
rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn setpriority getpriority
reboot setregid setgid setreuid setuid setresuid getresuid setresgid getresgid setfsuid setfsgid
times setpgid getpgid getsid setsid getgroups setgroups uname sethostname setdomainname getrlimit
setrlimit getrusage umask prctl getcpu gettimeofday settimeofday adjtimex getpid getppid getuid
geteuid getgid getegid gettid sysinfo mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify
mq_getsetattr msgget msgctl msgrcv msgsnd semget semctl semtimedop semop shmget shmctl shmat shmdt
socket socketpair bind listen accept connect getsockname getpeername sendto recvfrom setsockopt
getsockopt shutdown sendmsg recvmsg readahead brk munmap mremap add_key request_key keyctl clone
execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock mlockall munlockall mincore
madvise remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages
rt_tgsigqueueinfo perf_event_open accept4 recvmmsg arch_specific_syscall 260 wait4 prlimit64
fanotify_init fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs setns
sendmmsg process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr
renameat2 seccomp getrandom memfd_create bpf execveat userfaultfd membarrier mlock2
copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq
kexec_file_load 424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree
move_mount fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd
faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset
landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv
set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue
statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat
getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr listns
rseq_slice_yield
`

// syscallsX32 are the numbers of its own that the ABI X32 has, without bit 30
// (arch/x86/entry/syscalls/syscall_64.tbl).
const syscallsX32 = `
512 rt_sigaction rt_sigreturn ioctl readv writev recvfrom sendmsg recvmsg execve ptrace
rt_sigpending rt_sigtimedwait rt_sigqueueinfo sigaltstack timer_create mq_notify kexec_load waitid
set_robust_list get_robust_list vmsplice move_pages preadv pwritev rt_tgsigqueueinfo recvmmsg
sendmmsg process_vm_readv process_vm_writev setsockopt getsockopt io_setup io_submit execveat
preadv2 pwritev2
`
