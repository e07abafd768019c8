package kernel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// suites lists the Debian suites that identify the mirror's entry in the machine's apt
// sources.
var suites = []string{
	"bullseye", "bookworm", "trixie", "forky", "sid", "stable", "testing",
	"unstable",
}

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Mirror returns the address of the Debian mirror in this machine's apt sources, in any of
// their formats.
func Mirror() (string, error) {
	out, err := run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)",
		"Created-By: Packages")
	if err != nil {
		return "", err
	}
	sc := bufio.NewScanner(bytes.NewReader(out))
	for sc.Scan() {
		uri, release, _ := strings.Cut(sc.Text(), " ")
		if slices.Contains(suites, release) {
			return uri, nil
		}
	}
	return "", errors.New("no Debian suite in this machine's apt sources")
}

// SourceLine returns the apt source line for a suite on the machine's own mirror.
func SourceLine(suite string) (string, error) {
	mirror, err := Mirror()
	if err != nil {
		return "", err
	}
	opts := ""
	if _, err := os.Stat(keyring); err == nil {
		opts = "[signed-by=" + keyring + "] "
	}
	return "deb " + opts + mirror + " " + suite + " main\n", nil
}

// apt runs apt programs with their own state for one suite.
type apt struct {
	dir  string
	opts []string
}

// openApt prepares the state and updates the package list.
func openApt(suite, arch string) (*apt, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	line, err := SourceLine(suite)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "apt", suite+"-"+arch)
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
		return nil, err
	}
	a := &apt{dir, []string{
		"-q", "-o", "Dir::Etc::sourcelist=" + list, "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::Lists=" + filepath.Join(dir, "lists"),
		"-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch,
		// Apt's sandbox user could not write to the cache.
		"-o", "APT::Sandbox::User=" + userName(),
		"-o", "Acquire::Languages=none", "-o", "Acquire::Retries=2",
		"-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
	}}
	if _, err := a.run("apt-get", "update"); err != nil {
		return nil, err
	}
	return a, nil
}

func userName() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return os.Getenv("USER")
}

func (a *apt) run(name string, args ...string) ([]byte, error) {
	return run(name, append(slices.Clone(a.opts), args...)...)
}

// run returns a command's output. The error contains its standard error.
func run(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		last := strings.TrimSpace(complaint.String())
		if last != "" {
			return out, fmt.Errorf("%s: %w: %s", name, err, last)
		}
		return out, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// newest returns the packages "linux-part-version…-cloud-arch", newest first.
func (a *apt) newest(part, version, arch string) ([]string, error) {
	pattern := "^linux-" + part + "-" + regexp.QuoteMeta(version) + `\.[^ ]*-cloud-` + arch + "$"
	out, err := a.run("apt-cache", "search", "--names-only", pattern)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, line := range strings.Split(string(out), "\n") {
		if name, _, ok := strings.Cut(line, " - "); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no package matches %s", pattern)
	}
	slices.SortFunc(names, func(x, y string) int { return naturalCompare(y, x) })
	return names, nil
}

var numberOrText = regexp.MustCompile(`[0-9]+|[^0-9]+`)

// naturalCompare compares digits as numbers: 6.12.94 is before 6.12.107.
func naturalCompare(x, y string) int {
	xs, ys := numberOrText.FindAllString(x, -1), numberOrText.FindAllString(y, -1)
	return slices.CompareFunc(xs, ys, func(a, b string) int {
		if len(a) != len(b) && isDigit(a[0]) && isDigit(b[0]) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// download downloads the newest kernel in the suite that the mirror still has, and unpacks it
// into dir.
func download(s source, version, arch, dir string) (*Kernel, error) {
	a, err := openApt(s.suite, arch)
	if err != nil {
		return nil, err
	}
	names, err := a.newest(s.parts[0], version, arch)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		k, err := a.unpack(s, name, version, arch, dir)
		if err == nil {
			return k, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	return nil, errors.Join(errs...)
}

func (a *apt) unpack(s source, name, version, arch, dir string) (*Kernel, error) {
	root := filepath.Join(dir, "root")
	if err := os.RemoveAll(root); err != nil {
		return nil, err
	}
	for _, part := range s.parts {
		pkg := strings.Replace(name, "linux-"+s.parts[0]+"-", "linux-"+part+"-", 1)
		if err := a.extract(pkg, root); err != nil {
			return nil, err
		}
	}
	return find(root, version, arch)
}

// extract downloads one package and unpacks its files.
func (a *apt) extract(pkg, root string) error {
	tmp, err := os.MkdirTemp(a.dir, "deb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.Command("apt-get", append(slices.Clone(a.opts), "download", pkg)...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w: %s", err, bytes.TrimSpace(out))
	}
	debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if len(debs) != 1 {
		return fmt.Errorf("apt-get download %s left %d files", pkg, len(debs))
	}
	_, err = run("dpkg-deb", "-x", debs[0], root)
	return err
}
