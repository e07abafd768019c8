"use strict";
let boxes = [], zoomed = null, at = null, pattern = "", ignoreCase = false, details, matchedText;

// One entry per frame, in drawing order: callers before their callees.
function collect() {
	for (const g of document.getElementById("frames").children) {
		const rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
		const b = {
			g: g, rect: rect, text: g.querySelector("text"), title: title,
			name: title.replace(/ \([^(]*\)$/, ""), fill: rect.getAttribute("fill"),
			x: Number(g.dataset.x), w: Number(g.dataset.w), y: Number(rect.getAttribute("y")),
			h: Number(rect.getAttribute("height")),
		};
		b.row = graph.inverted ? b.y : -b.y;
		g.box = b;
		boxes.push(b);
	}
}

function inside(a, b) { // a lies in b's columns
	return a.x >= b.x && a.x + a.w <= b.x + b.w;
}

// place draws one frame as if counts x0 … x0+w0 filled the picture.
function place(b, x0, w0) {
	const inner = graph.width - 2 * graph.margin, scale = inner / w0;
	const left = Math.max(0, (b.x - x0) * scale), right = Math.min(inner, (b.x + b.w - x0) * scale);
	b.rect.setAttribute("x", (graph.margin + left).toFixed(2));
	b.rect.setAttribute("width", Math.max(0, right - left).toFixed(2));
	label(b, graph.margin + left, right - left);
}

function label(b, x, width) {
	const fit = Math.floor((width - 6) / (graph.fontSize * graph.charWidth));
	let s = fit < 3 ? "" : b.name.length <= fit ? b.name : ".." + b.name.slice(2 - fit);
	b.text.textContent = s;
	if (s === "") return;
	b.text.setAttribute("x", (x + 3).toFixed(2));
	b.text.setAttribute("y", b.y + (b.h + 1) / 2 + graph.fontSize * 0.3);
	// The width of letters is a guess: cut what is still too long.
	while (s.length > 3 && b.text.getComputedTextLength() > width - 4) {
		s = ".." + s.slice(s.startsWith("..") ? 3 : 1);
		b.text.textContent = s;
	}
	if (s.length <= 3 && s !== b.name) b.text.textContent = "";
}

function zoom(b) {
	zoomed = b && b !== boxes[0] ? b : null;
	const to = b || boxes[0];
	for (const o of boxes) {
		const caller = o.row < to.row && inside(to, o), callee = o.row >= to.row && inside(o, to);
		o.g.setAttribute("class", caller && zoomed ? "parent" : caller || callee ? "" : "hide");
		if (caller || callee) place(o, to.x, to.w);
	}
	mark(at && at.g.getAttribute("class") !== "hide" ? at : null);
	document.getElementById("reset").setAttribute("visibility", zoomed ? "visible" : "hidden");
	search(pattern);
	reveal(to);
}

function reveal(b) {
	const box = b.g.getBoundingClientRect();
	if (box.top < 0 || box.bottom > window.innerHeight) b.g.scrollIntoView({block: "nearest"});
}

// search paints what matches and says in which share of the shown stacks a
// frame matches; a match below a match counts once.
function search(s) {
	let re = null;
	pattern = s;
	try {
		re = s === "" ? null : new RegExp(s, ignoreCase ? "i" : "");
	} catch (e) {
		details.textContent = "Search: " + e.message;
	}
	const scope = zoomed || boxes[0];
	let sum = 0;
	const hits = [];
	for (const b of boxes) {
		const hit = re !== null && re.test(b.name);
		b.rect.setAttribute("fill", hit ? "rgb(230,0,230)" : b.fill);
		if (hit) hits.push(b);
	}
	hits.sort((a, b) => a.x - b.x || b.w - a.w);
	let done = scope.x;
	for (const b of hits) {
		const end = Math.min(b.x + b.w, scope.x + scope.w);
		sum += Math.max(0, end - Math.max(b.x, done));
		done = Math.max(done, end);
	}
	matchedText.textContent = re === null ? " " : "Matched: " + (100 * sum / scope.w).toFixed(1) + "%";
	const button = document.getElementById("search");
	button.textContent = re === null ? "Search" : "Reset Search";
	button.classList.toggle("on", re !== null);
	document.getElementById("case").classList.toggle("on", ignoreCase);
	remember();
}

function ask() {
	const s = window.prompt("Search names by regular expression" + (ignoreCase ? ", any case" : "") + ":", pattern);
	if (s !== null) search(s);
}

function show(b) {
	let s = b ? graph.nameType + " " + b.title : " ";
	if (b && zoomed && b.row > zoomed.row) {
		s = s.replace(/\)$/, "; " + (100 * b.w / zoomed.w).toFixed(2) + "% of zoomed)");
	}
	details.textContent = s;
}

function mark(b) {
	if (at) at.g.classList.remove("at");
	at = b;
	if (!b) return;
	b.g.classList.add("at");
	show(b);
	reveal(b);
}

// step moves the mark: to the caller, to the widest callee, or sideways.
function step(dir) {
	if (!at) return mark(zoomed || boxes[0]);
	const seen = boxes.filter(b => b.g.getAttribute("class") !== "hide");
	const rows = [...new Set(seen.map(b => b.row))].sort((a, b) => a - b);
	const row = rows[rows.indexOf(at.row) + (dir === "callee" ? 1 : -1)];
	let next = null;
	if (dir === "caller") next = seen.find(b => b.row === row && inside(at, b));
	if (dir === "callee") {
		for (const b of seen) {
			if (b.row === row && inside(b, at) && (!next || b.w > next.w)) next = b;
		}
	}
	if (dir === "left") next = seen.filter(b => b.row === at.row && b.x < at.x).pop();
	if (dir === "right") next = seen.find(b => b.row === at.row && b.x > at.x);
	if (next) mark(next);
}

// The state is kept behind '#', so that a link shows the same picture.
function remember() {
	const p = new URLSearchParams();
	if (zoomed) p.set("zoom", boxes.indexOf(zoomed));
	if (pattern !== "") p.set("search", pattern);
	if (ignoreCase) p.set("ic", 1);
	try {
		const q = p.toString();
		history.replaceState(null, "", q === "" ? location.pathname + location.search : "#" + q);
	} catch (e) { /* not allowed for embedded pictures */ }
}

function recall() {
	const p = new URLSearchParams(location.hash.slice(1));
	ignoreCase = p.has("ic");
	pattern = p.get("search") || "";
	const b = boxes[Number(p.get("zoom") || 0)];
	if (b && (b !== boxes[0] || pattern !== "")) zoom(b);
}

function boxOf(e) {
	const g = e.target.closest && e.target.closest("#frames>g");
	return g ? g.box : null;
}

function key(e) {
	const k = e.key;
	if ((e.ctrlKey || e.metaKey) && (k === "f" || k === "F") || k === "F3" || k === "/") ask();
	else if ((e.ctrlKey || e.metaKey) && (k === "i" || k === "I")) toggleCase();
	else if (e.ctrlKey || e.metaKey || e.altKey) return;
	else if (k === "Escape") pattern !== "" ? search("") : zoom(null);
	else if (k === "Enter" && at) zoom(at);
	else if (k === "Home") zoom(null);
	else if (k === "ArrowLeft") step("left");
	else if (k === "ArrowRight") step("right");
	else if (k === "ArrowUp") step(graph.inverted ? "caller" : "callee");
	else if (k === "ArrowDown") step(graph.inverted ? "callee" : "caller");
	else return;
	e.preventDefault();
}

function toggleCase() {
	ignoreCase = !ignoreCase;
	search(pattern);
}

window.addEventListener("load", () => {
	details = document.getElementById("details");
	matchedText = document.getElementById("matched");
	collect();
	if (graph.total === 0) return;
	const frames = document.getElementById("frames");
	frames.addEventListener("click", e => zoom(boxOf(e)));
	frames.addEventListener("mouseover", e => show(boxOf(e)));
	frames.addEventListener("mouseout", () => show(at));
	document.getElementById("reset").addEventListener("click", () => zoom(null));
	document.getElementById("search").addEventListener("click", () => pattern === "" ? ask() : search(""));
	document.getElementById("case").addEventListener("click", toggleCase);
	window.addEventListener("keydown", key);
	recall();
});
