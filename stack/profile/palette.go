package profile

import (
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"strings"
)

// ramp is a colour family: each channel is base plus up to span, the share
// taken from hashes of the name.
type ramp struct{ base, span [3]float64 }

// The families are those of flamegraph.pl, so that pictures look familiar.
var ramps = map[string]ramp{
	"hot":    {[3]float64{205, 0, 0}, [3]float64{50, 230, 55}},
	"mem":    {[3]float64{0, 190, 0}, [3]float64{0, 50, 210}},
	"io":     {[3]float64{80, 80, 190}, [3]float64{60, 60, 55}},
	"red":    {[3]float64{200, 50, 50}, [3]float64{55, 80, 80}},
	"green":  {[3]float64{50, 200, 50}, [3]float64{60, 55, 60}},
	"blue":   {[3]float64{80, 80, 205}, [3]float64{60, 60, 50}},
	"yellow": {[3]float64{175, 175, 50}, [3]float64{55, 55, 20}},
	"purple": {[3]float64{190, 80, 190}, [3]float64{65, 60, 65}},
	"aqua":   {[3]float64{50, 165, 165}, [3]float64{60, 55, 55}},
	"orange": {[3]float64{190, 90, 0}, [3]float64{65, 65, 0}},
}

// palettes that choose a family by what the name says.
var palettes = map[string]func(name string) string{
	"java":   javaColor,
	"js":     jsColor,
	"perl":   perlColor,
	"chain":  chainColor,
	"wakeup": func(string) string { return "aqua" },
}

var javaName = regexp.MustCompile(`^L?(java|javax|jdk|net|org|com|io|sun)/`)

func javaColor(name string) string {
	switch {
	case strings.HasSuffix(name, suffixJIT):
		return "green"
	case strings.HasSuffix(name, suffixInlined):
		return "aqua"
	case javaName.MatchString(name):
		return "green"
	}
	return nativeColor(name, "red")
}

func jsColor(name string) string {
	switch {
	case strings.HasSuffix(name, suffixJIT),
		strings.Contains(name, "/") && strings.Contains(name, ".js"):
		return "green"
	case strings.Contains(name, "::"), strings.HasSuffix(name, suffixKernel):
		return nativeColor(name, "red")
	case strings.Contains(name, ":"):
		return "aqua"
	}
	return "red"
}

func perlColor(name string) string {
	if strings.Contains(name, "Perl") || strings.Contains(name, ".pl") {
		return "green"
	}
	return nativeColor(name, "red")
}

func nativeColor(name, other string) string {
	switch {
	case strings.HasSuffix(name, suffixKernel):
		return "orange"
	case strings.Contains(name, "::"):
		return "yellow"
	}
	return other
}

func chainColor(name string) string {
	if strings.HasSuffix(name, suffixWaker) {
		return "aqua"
	}
	return "blue"
}

// backgrounds are top and bottom of the page's gradient.
var backgrounds = map[string][2]string{
	"yellow": {"#eeeeee", "#eeeeb0"},
	"blue":   {"#eeeeee", "#e0e0ff"},
	"green":  {"#eef2ee", "#e0ffe0"},
	"grey":   {"#f8f8f8", "#e8e8e8"},
}

var backgroundOf = map[string]string{
	"hot": "yellow", "java": "yellow", "js": "yellow", "perl": "yellow",
	"mem": "green", "io": "blue", "wakeup": "blue", "chain": "blue",
}

var plainColor = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// pageColors returns the gradient for a background name or #rrggbb colour.
func pageColors(name, palette string) ([2]string, error) {
	if name == "" {
		if name = backgroundOf[palette]; name == "" {
			name = "grey"
		}
	}
	if bg, ok := backgrounds[name]; ok {
		return bg, nil
	}
	if plainColor.MatchString(name) {
		return [2]string{name, name}, nil
	}
	return [2]string{}, fmt.Errorf(
		"flame graph: unknown background %q; there are yellow, blue, green, grey and #rrggbb", name)
}

// paletteError says whether a palette name is not known.
func paletteError(name string) error {
	if _, ok := ramps[name]; ok {
		return nil
	}
	if _, ok := palettes[name]; ok {
		return nil
	}
	return fmt.Errorf("flame graph: unknown palette %q; there are hot, mem, io, wakeup, chain, java, js, perl, red, green, blue, aqua, yellow, purple, orange", name)
}

// frameColor is the colour of a frame: always the same for the same name, so
// that two pictures can be compared.
func frameColor(palette, name string, hash bool) string {
	if name == "-" || name == "--" {
		return "rgb(160,160,160)"
	}
	family := palette
	if choose := palettes[palette]; choose != nil {
		family = choose(name)
	}
	r := ramps[family]
	v := scatter(name)
	if hash {
		v = similar(name)
	}
	if family != "hot" { // the others vary in one direction only
		v[1], v[2] = v[0], v[0]
	}
	var c [3]int
	for i := range c {
		c[i] = int(r.base[i] + r.span[i]*v[i])
	}
	return fmt.Sprintf("rgb(%d,%d,%d)", c[0], c[1], c[2])
}

// scatter gives three evenly spread shares, so that neighbours differ.
func scatter(name string) [3]float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	x := h.Sum64()
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93 // FNV's high bits move little for short names
	x ^= x >> 32
	share := func(shift uint) float64 { return float64(x>>shift&0xffff) / 0xffff }
	return [3]float64{share(0), share(16), share(32)}
}

// similar gives shares that are near each other for names that begin (and, in
// the second and third, end) alike.
func similar(name string) [3]float64 {
	if i := strings.IndexByte(name, '`'); i >= 0 { // module`function
		name = name[i+1:]
	}
	a, b := lead(name, false), lead(name, true)
	return [3]float64{b, a, b}
}

// lead maps the first (or last) letters of a name to 0…1, the first counting most.
func lead(name string, fromEnd bool) float64 {
	sum, total, weight := 0.0, 0.0, 1.0
	for i := 0; i < len(name) && i < 3; i++ {
		c := name[i]
		if fromEnd {
			c = name[len(name)-1-i]
		}
		sum += weight * float64(c%16) / 15
		total += weight
		weight *= 0.7
	}
	if total == 0 {
		return 0
	}
	return 1 - sum/total
}

// diffColor colours a change: red for more, blue for less, white for none.
func diffColor(delta, largest int64) string {
	if delta == 0 || largest == 0 {
		return "rgb(250,250,250)"
	}
	share := math.Abs(float64(delta)) / float64(largest)
	weak := int(210 * (1 - math.Min(share, 1)))
	if delta > 0 {
		return fmt.Sprintf("rgb(255,%d,%d)", weak, weak)
	}
	return fmt.Sprintf("rgb(%d,%d,255)", weak, weak)
}
