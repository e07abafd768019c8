package guest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/vmtest/wire"
)

// machine is a guest that is ready to boot.
type machine struct {
	opts    *Options
	qemu    string
	initrd  string
	outDisk string
	args    []string
}

// outDiskSize is the maximum size of a guest's files; the image is sparse.
const outDiskSize = 1 << 30

// newMachine builds the initramfs and QEMU's command line. It writes to the directory tmp.
func newMachine(o *Options, tmp string) (*machine, error) {
	m := &machine{opts: o, initrd: filepath.Join(tmp, "initrd")}
	var err error
	if m.qemu, err = findQEMU(o.Kernel.Arch); err != nil {
		return nil, err
	}
	plan := wire.Plan{Jobs: o.Jobs}
	for i := range plan.Jobs {
		if plan.Jobs[i].Timeout == 0 {
			plan.Jobs[i].Timeout = 5 * time.Minute
		}
	}
	var drives []string
	for _, d := range o.Disks {
		drives = append(drives, driveArg(d)+",snapshot=on")
	}
	if o.Root != "" {
		plan.Root = device(len(drives))
		drives = append(drives, driveArg(o.Root)+",snapshot=on")
	}
	if o.Out != "" {
		plan.Out = device(len(drives))
		m.outDisk = filepath.Join(tmp, "out")
		drives = append(drives, driveArg(m.outDisk))
	}
	names := o.Modules
	if len(drives) > 0 {
		names = append([]string{"virtio_pci", "virtio_blk"}, names...)
	}
	if o.Root != "" {
		// ext4 loads this one by its algorithm, it is not a dependency; newer kernels have a library.
		const checksum = "crc32c_generic"
		if has, err := o.Kernel.HasModule(checksum); err != nil {
			return nil, err
		} else if has {
			names = append(names, checksum)
		}
		names = append(names, "ext4")
	}
	modules, err := o.Kernel.LoadModules(names...)
	if err != nil {
		return nil, err
	}
	init := filepath.Join(tmp, "init")
	if err := Build(init, "github.com/borescope/borescope/internal/vmtest/init",
		o.Kernel.Arch); err != nil {
		return nil, err
	}
	if err := pack(m.initrd, o, plan, init, modules); err != nil {
		return nil, fmt.Errorf("initramfs: %w", err)
	}
	return m, m.arguments(drives)
}

// numa returns QEMU's arguments for a machine with the given number of nodes, with one CPU
// each. memory, in MiB, must be a multiple of their number.
func numa(nodes, memory int) (args []string) {
	for i := range nodes {
		args = append(args, "-object",
			fmt.Sprintf("memory-backend-ram,id=node%d,size=%dM", i, memory/nodes),
			"-numa", fmt.Sprintf("node,nodeid=%d,memdev=node%d,cpus=%d", i, i, i))
	}
	return args
}

func driveArg(path string) string { return "if=virtio,format=raw,file=" + path }

func device(n int) string { return "/dev/vd" + string(rune('a'+n)) }

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func (m *machine) arguments(drives []string) error {
	o := m.opts
	st, err := os.Stat(m.initrd)
	if err != nil {
		return err
	}
	memory := o.MemoryMiB
	if memory == 0 {
		memory = 1024
	}
	// Memory contains the archive twice while it is unpacked.
	memory += 2 * int(st.Size()>>20)
	smp := o.SMP
	if smp == "" {
		smp = "2"
	}
	if o.Nodes > 0 {
		smp = strconv.Itoa(o.Nodes)
		memory -= memory % o.Nodes
	}
	console := "console=ttyS0"
	m.args = []string{
		"-accel", "tcg,thread=" + cmp.Or(o.Threads, "single"), "-nographic", "-no-reboot", "-net", "none",
		"-m", strconv.Itoa(memory) + "M", "-smp", smp,
		"-kernel", o.Kernel.Image, "-initrd", m.initrd,
	}
	switch o.Kernel.Arch {
	case "amd64":
		m.args = append(m.args, "-cpu", "max")
		// On a busy host, the kernel's watchdog marks the emulated TSC as unstable, and all
		// clocks fall back to ticks of some milliseconds.
		console += " tsc=reliable"
	case "arm64":
		console = "console=ttyAMA0"
		// If QEMU counts instructions, the emulated PMU counts exactly.
		icount := "shift=0"
		if len(drives) == 0 {
			// Without anything outside the guest to wait for, an idle guest's clock may jump
			// to its next timer: sleeps then take no time, and timers are not late on a busy
			// host.
			icount += ",sleep=off"
		}
		m.args = append(m.args, "-M", "virt", "-cpu", "neoverse-n1", "-icount", icount)
	}
	m.args = append(m.args, numa(o.Nodes, memory)...)
	for _, d := range drives {
		m.args = append(m.args, "-drive", d)
	}
	m.args = append(m.args, "-append", strings.TrimSpace(console+" quiet panic=-1 "+o.Append))
	return nil
}

// MinQEMU is the oldest major version of QEMU with an emulation that is good enough for the
// kernels: with 7.2, 6.12 crashes in patched code in one of three boots.
const MinQEMU = 10

// CheckQEMU returns an error if this machine's QEMU for an architecture is missing or too old.
func CheckQEMU(arch string) error {
	_, err := findQEMU(arch)
	return err
}

func findQEMU(arch string) (string, error) {
	name := map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[arch]
	if name == "" {
		return "", fmt.Errorf("no guests for %s", arch)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w (.ci/run -steps setup installs it)", err)
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", name, err)
	}
	_, v, _ := bytes.Cut(out, []byte("version "))
	major, _, _ := bytes.Cut(v, []byte("."))
	if n, err := strconv.Atoi(string(major)); err != nil || n < MinQEMU {
		return "", fmt.Errorf("%s is version %s, but %d or later is needed (.ci/run -steps setup installs it)", name, major, MinQEMU)
	}
	return path, nil
}

// boot runs QEMU and reads its console to the end, or until it reports that the guest hangs.
func (m *machine) boot(ctx context.Context) (*Report, error) {
	if m.outDisk != "" {
		if err := sparse(m.outDisk, outDiskSize); err != nil {
			return nil, err
		}
	}
	timeout := m.opts.Timeout
	if timeout == 0 {
		timeout = 2 * time.Minute
		for _, j := range m.opts.Jobs {
			timeout += j.Timeout
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("the guest did not end within %v", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, m.qemu, m.args...)
	endWithParent(cmd)
	cmd.WaitDelay = 5 * time.Second
	c := newConsole(m.opts.Jobs, m.opts.Log)
	c.stands = cancel
	cmd.Stdout, cmd.Stderr = c, c
	start := time.Now()
	err := cmd.Run()
	r := c.report()
	r.Wall = time.Since(start)
	switch {
	case ctx.Err() != nil && r.Trouble == "":
		r.Trouble = context.Cause(ctx).Error()
	case err != nil && r.Release == "" && r.Trouble == "":
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(m.qemu), err, c.tail())
	case err != nil && r.Trouble == "":
		r.Trouble = "QEMU: " + err.Error()
	case r.Release == "" && r.Trouble == "":
		r.Trouble = "the guest did not come up: " + c.tail()
	}
	return r, nil
}
