package profile

import (
	"bufio"
	"cmp"
	_ "embed" // the page's script
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/escape"
)

//go:embed flamehtml.js
var flameHTMLJS string

// HTMLOptions choose what WriteHTML draws. The zero value and nil are right for
// most.
type HTMLOptions struct {
	// Title is above the picture, "Flame Graph" if empty; Subtitle is beside it.
	Title, Subtitle string
	// CountName is the unit of the counts, "samples" if empty.
	CountName string
	// Colors is the palette, as in SVGOptions.
	Colors string
	// Hash gives similar colours to similar names.
	Hash bool
	// Inverted draws roots at the top at first.
	Inverted bool
	// NoCommands leaves out the choice of a command: the first frames are none, as those of
	// FoldOptions.NoComm.
	NoCommands bool
}

// htmlData is what the page's script reads.
type htmlData struct {
	Names        []string `json:"names"`
	Colors       []string `json:"colors"`
	Nodes        int      `json:"nodes"`
	Tree         string   `json:"tree"`
	CountName    string   `json:"countName"`
	Differential bool     `json:"differential"`
	Inverted     bool     `json:"inverted"`
}

// WriteHTML draws a flame graph as one HTML page, for graphs too large for SVG: a million
// frames stay fluid. It needs no other file and no network, works from file://, and follows
// the reader's dark mode. It can be zoomed, searched by regular expression (with the share
// that matches), turned over, merged from the leaves, limited to one command (the first
// frame), and walked by keyboard. Without scripts it lists the busiest functions. The same
// input gives the same bytes.
func WriteHTML(w io.Writer, f *Folded, opts *HTMLOptions) error {
	var o HTMLOptions
	if opts != nil {
		o = *opts
	}
	setDefault(&o.Title, "Flame Graph")
	setDefault(&o.CountName, "samples")
	setDefault(&o.Colors, "hot")
	if err := paletteError(o.Colors); err != nil {
		return err
	}
	root := newTree(f)
	data := encodeTree(root, &o, f.Differential())
	js, err := json.Marshal(data) // escapes <, > and &, so that nothing ends the element
	if err != nil {
		return err
	}
	hidden := ""
	if o.NoCommands {
		hidden = " hidden"
	}
	bw := bufio.NewWriter(w)
	for _, s := range []string{
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
		escape.Markup(o.Title), "</title>\n<style>\n", flameHTMLCSS,
		"</style>\n</head>\n<body>\n<div id=\"bar\"><b>", escape.Markup(o.Title),
		"</b> <span class=\"sub\">", escape.Markup(o.Subtitle), "</span><span id=\"tools\">",
		`<span id="matched"></span> <input id="search" type="search" placeholder="search (regexp)" aria-label="search"> `,
		`<select id="command" aria-label="command"`, hidden, `><option value="-1">all commands</option></select> `,
		`<button id="reset" disabled>reset zoom</button> <button id="invert">icicle</button> `,
		`<button id="reverse">from leaves</button> <button id="dark">dark</button></span></div>`,
		"\n<div id=\"pane\"><canvas id=\"graph\"></canvas><div id=\"space\"></div></div>\n<div id=\"details\"></div>\n<noscript><style>body{display:block}#pane,#tools,#details{display:none}</style><pre>\n",
	} {
		_, _ = bw.WriteString(s) // the error stays in the bufio.Writer
	}
	_, _ = bw.WriteString(escape.Markup(busiest(root)))
	for _, s := range []string{
		"</pre></noscript>\n<script type=\"application/json\" id=\"data\">", string(escape.JSON(js)),
		"</script>\n<script>\n", flameHTMLJS,
		"</script>\n</body>\n</html>\n",
	} {
		_, _ = bw.WriteString(s)
	}
	return bw.Flush()
}

const flameHTMLCSS = `:root{color-scheme:light dark;--bg:#f4f4ea;--fg:#000}
@media (prefers-color-scheme:dark){:root{--bg:#1e1f22;--fg:#ddd}}
:root[data-theme=light]{color-scheme:light;--bg:#f4f4ea;--fg:#000}
:root[data-theme=dark]{color-scheme:dark;--bg:#1e1f22;--fg:#ddd}
body{margin:0;height:100vh;display:flex;flex-direction:column;background:var(--bg);color:var(--fg);font:12px Verdana,"DejaVu Sans",sans-serif}
#bar{margin:0 8px;padding:4px 0;min-height:26px;display:flex;flex-wrap:wrap;align-items:center;gap:4px 8px;white-space:nowrap}
#bar b{font-size:15px}.sub{opacity:.7;min-width:0;overflow:hidden;text-overflow:ellipsis}
#tools{margin-left:auto;display:flex;flex-wrap:wrap;align-items:center;gap:4px}
#pane{flex:1;min-height:0;margin:0 8px;overflow-x:hidden;overflow-y:auto}
#graph{position:sticky;top:0;display:block}
#details{margin:4px 8px;height:18px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
button.on{font-weight:bold}input.bad{outline:2px solid red}
input,select,button{font:inherit}#command{max-width:14em}
`

// encodeTree writes the tree as the script reads it.
func encodeTree(root *node, o *HTMLOptions, diff bool) *htmlData {
	d := &htmlData{
		Names: []string{}, Colors: []string{}, CountName: o.CountName, Differential: diff,
		Inverted: o.Inverted,
	}
	ids := make(map[string]uint64)
	var b []byte
	type item struct {
		n     *node
		depth int
	}
	last := 0
	for todo := []item{{root, 0}}; len(todo) > 0; {
		it := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for i := len(it.n.children) - 1; i >= 0; i-- {
			todo = append(todo, item{it.n.children[i], it.depth + 1})
		}
		d.Nodes++
		if it.depth == 0 {
			continue
		}
		id, ok := ids[it.n.name]
		if !ok {
			id = uint64(len(d.Names))
			ids[it.n.name] = id
			d.Names = append(d.Names, it.n.name)
			d.Colors = append(d.Colors, frameColor(o.Colors, it.n.name, o.Hash))
		}
		b = binary.AppendUvarint(b, uint64(last+1-it.depth))
		b = binary.AppendUvarint(b, id)
		b = binary.AppendUvarint(b, uint64(it.n.self))
		if diff {
			b = binary.AppendUvarint(b, uint64(it.n.selfBase))
		}
		last = it.depth
	}
	d.Tree = base64.StdEncoding.EncodeToString(b)
	return d
}

// busiest is the list for readers without scripts: what is spent in functions
// themselves.
func busiest(root *node) string {
	self := make(map[string]int64)
	for todo := []*node{root}; len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], n.children...)
		if n.self > 0 {
			self[n.name] = addSaturated(self[n.name], n.self)
		}
	}
	names := slices.SortedFunc(maps.Keys(self), func(a, b string) int {
		return cmp.Or(cmp.Compare(self[b], self[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	for _, name := range names[:min(len(names), 40)] {
		fmt.Fprintf(&b, "%10d %6.2f%%  %s\n", self[name], 100*float64(self[name])/float64(root.count),
			visibleName(name))
	}
	return b.String()
}
