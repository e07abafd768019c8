"use strict";
// The data: names and their colours, and the tree in pre-order. Each node is
// three LEB128 numbers (four in a differential graph): how many levels
// its parent is above the node before, its name, what was spent in it alone,
// and that before.
const data = JSON.parse(document.getElementById("data").textContent);
const names = data.names, rowHeight = 18;
let tree, whole, view, zoomed = 0, at = -1, pattern = "", hits = null, inverted = data.inverted, reversed = false, command = -1;
const el = id => document.getElementById(id), canvas = el("graph"), ctx = canvas.getContext("2d"), pane = el("pane");

function decode() {
	const raw = atob(data.tree);
	let pos = 0;
	const num = () => {
		let v = 0, mul = 1, c;
		do {
			c = raw.charCodeAt(pos++);
			v += (c & 127) * mul;
			mul *= 128;
		} while (c & 128);
		return v;
	};
	const t = newTree(data.nodes);
	let last = 0; // the node before; 0 is the root
	for (let i = 1; i < data.nodes; i++) {
		let parent = last;
		for (let up = num(); up > 0; up--) parent = t.parent[parent];
		t.parent[i] = parent;
		t.name[i] = num();
		t.self[i] = num();
		if (data.differential) t.baseSelf[i] = num();
		last = i;
	}
	finish(t);
	return t;
}

function newTree(n) {
	return {n: n, parent: new Int32Array(n), name: new Int32Array(n), self: new Float64Array(n), baseSelf: new Float64Array(n),
		count: new Float64Array(n), start: new Float64Array(n), depth: new Int32Array(n), first: null, next: null, rows: 0, largest: 0};
}

// finish fills in sums, places and links. Parents come before their children.
function finish(t) {
	t.first = new Int32Array(t.n).fill(-1);
	t.next = new Int32Array(t.n).fill(-1);
	for (let i = 0; i < t.n; i++) t.count[i] = t.self[i];
	for (let i = t.n - 1; i > 0; i--) {
		const p = t.parent[i];
		t.count[p] += t.count[i];
		t.next[i] = t.first[p];
		t.first[p] = i;
	}
	for (let i = 0; i < t.n; i++) {
		if (i > 0) t.depth[i] = t.depth[t.parent[i]] + 1;
		t.rows = Math.max(t.rows, t.depth[i] + 1);
		t.largest = Math.max(t.largest, Math.abs(t.self[i] - t.baseSelf[i]));
		for (let c = t.first[i], x = t.start[i]; c >= 0; c = t.next[c]) {
			t.start[c] = x;
			x += t.count[c];
		}
	}
}

// build makes a tree from the stacks of the whole one: of one command only, from
// the leaves up.
function build() {
	if (command < 0 && !reversed) return whole;
	const kids = [new Map()], parent = [0], name = [0], self = [0], base = [0];
	const path = [];
	for (let i = 1; i < whole.n; i++) {
		path[whole.depth[i]] = whole.name[i];
		if (command >= 0 && path[1] !== command || whole.self[i] === 0 && whole.baseSelf[i] === 0) continue;
		let at = 0;
		const depth = whole.depth[i];
		for (let k = 1; k <= depth; k++) {
			const nm = path[reversed ? depth + 1 - k : k];
			let next = kids[at].get(nm);
			if (next === undefined) {
				next = parent.length;
				kids[at].set(nm, next);
				kids.push(new Map());
				parent.push(at);
				name.push(nm);
				self.push(0);
				base.push(0);
			}
			at = next;
		}
		self[at] += whole.self[i];
		base[at] += whole.baseSelf[i];
	}
	const t = newTree(parent.length);
	t.parent.set(parent);
	t.name.set(name);
	t.self.set(self);
	t.baseSelf.set(base);
	if (reversed) { // names in order, as they are in the other direction
		const order = names.map((s, i) => i).sort((a, b) => names[a] < names[b] ? -1 : 1), rank = new Int32Array(names.length);
		order.forEach((n, i) => rank[n] = i);
		t.rank = rank;
	}
	finish(t);
	if (t.rank) sortKids(t);
	return t;
}

function sortKids(t) {
	for (let i = 0; i < t.n; i++) {
		const list = [];
		for (let c = t.first[i]; c >= 0; c = t.next[c]) list.push(c);
		list.sort((a, b) => t.rank[t.name[a]] - t.rank[t.name[b]]);
		let x = t.start[i];
		t.first[i] = list.length ? list[0] : -1;
		list.forEach((c, k) => {
			t.next[c] = k + 1 < list.length ? list[k + 1] : -1;
			t.start[c] = x;
			x += t.count[c];
		});
	}
}

function dark() {
	const c = document.documentElement.dataset.theme;
	return c ? c === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function color(i) {
	if (hits && hits[tree.name[i]]) return "rgb(230,0,230)";
	if (data.differential) {
		const d = tree.self[i] - tree.baseSelf[i];
		if (d === 0) return dark() ? "#555" : "#eee";
		const weak = Math.round(210 * (1 - Math.abs(d) / tree.largest));
		return d > 0 ? `rgb(255,${weak},${weak})` : `rgb(${weak},${weak},255)`;
	}
	return i === 0 ? "#bbb" : data.colors[tree.name[i]];
}

const title = i => i === 0 ? "all" : names[tree.name[i]].replace(/_\[[kijw]\]$/, "");

// The frames on screen, for the pointer: drawn ones only.
let drawn = [];

function draw() {
	const w = pane.clientWidth, h = pane.clientHeight, scale = window.devicePixelRatio || 1;
	canvas.width = w * scale;
	canvas.height = h * scale;
	canvas.style.width = w + "px";
	canvas.style.height = h + "px";
	ctx.setTransform(scale, 0, 0, scale, 0, 0);
	ctx.font = "12px Verdana, 'DejaVu Sans', sans-serif";
	ctx.textBaseline = "middle";
	const height = tree.rows * rowHeight, spare = Math.max(0, h - height);
	el("space").style.height = Math.max(0, height - h) + "px";
	const scroll = Math.min(pane.scrollTop, Math.max(0, height - h));
	const y = d => inverted ? d * rowHeight - scroll : spare + height - (d + 1) * rowHeight - scroll;
	drawn = [];
	ctx.clearRect(0, 0, w, h);
	const x0 = tree.start[zoomed], per = w / (tree.count[zoomed] || 1);
	const draw1 = (i, x, width) => {
		const top = y(tree.depth[i]);
		if (top < -rowHeight || top > h) return;
		ctx.globalAlpha = tree.depth[i] < tree.depth[zoomed] ? .5 : 1;
		ctx.fillStyle = color(i);
		ctx.fillRect(x, top, Math.max(.4, width - .6), rowHeight - 1);
		if (i === at) {
			ctx.strokeStyle = dark() ? "#fff" : "#000";
			ctx.lineWidth = 2;
			ctx.strokeRect(x + 1, top + 1, Math.max(1, width - 2.6), rowHeight - 3);
		}
		drawn.push({i: i, x: x, y: top, w: width});
		const fit = Math.floor((width - 6) / 7.1);
		if (fit < 3) return;
		const s = title(i);
		ctx.fillStyle = "#000";
		ctx.fillText(s.length <= fit ? s : ".." + s.slice(2 - fit), x + 3, top + rowHeight / 2);
	};
	for (let p = zoomed; p !== 0; p = tree.parent[p]) draw1(tree.parent[p], 0, w);
	const todo = [zoomed];
	while (todo.length) {
		const i = todo.pop();
		draw1(i, (tree.start[i] - x0) * per, tree.count[i] * per);
		for (let c = tree.first[i]; c >= 0; c = tree.next[c]) {
			if (tree.count[c] * per >= .3) todo.push(c);
		}
	}
	ctx.globalAlpha = 1;
}

const group = n => n.toLocaleString("en-US"), percent = (a, b) => (b ? 100 * a / b : 0).toFixed(2) + "%";

function describe(i) {
	if (i < 0) return "";
	let s = title(i) + " (" + group(tree.count[i]) + " " + data.countName + ", " + percent(tree.count[i], tree.count[0]);
	if (zoomed) s += ", " + percent(tree.count[i], tree.count[zoomed]) + " of zoomed";
	if (data.differential) {
		const d = tree.self[i] - tree.baseSelf[i];
		s += "; own " + (d >= 0 ? "+" : "") + group(d);
	}
	return s + ")";
}

function search(s) {
	pattern = s;
	hits = null;
	el("matched").textContent = "";
	el("search").classList.remove("bad");
	if (s !== "") {
		try {
			const re = new RegExp(s, "i");
			hits = names.map(n => re.test(n.replace(/_\[[kijw]\]$/, "")));
		} catch (e) {
			el("search").classList.add("bad");
			el("matched").textContent = e.message;
		}
	}
	if (hits) { // a match below a match counts once
		let sum = 0, under = false;
		for (let p = zoomed; p !== 0; p = tree.parent[p]) under = under || hits[tree.name[p]];
		const todo = [zoomed];
		while (todo.length && !under) {
			const i = todo.pop();
			if (i !== 0 && hits[tree.name[i]]) sum += tree.count[i];
			else for (let c = tree.first[i]; c >= 0; c = tree.next[c]) todo.push(c);
		}
		el("matched").textContent = "Matched: " + percent(under ? tree.count[zoomed] : sum, tree.count[zoomed]);
	}
	draw();
	remember();
}

function zoom(i) {
	zoomed = i;
	el("reset").disabled = i === 0;
	search(pattern);
}

function rebuild() {
	tree = build();
	zoomed = 0;
	at = -1;
	el("reset").disabled = true;
	el("invert").classList.toggle("on", inverted);
	el("reverse").classList.toggle("on", reversed);
	search(pattern);
	if (!inverted) pane.scrollTop = 1e9;
}

function remember() {
	const p = new URLSearchParams();
	if (pattern) p.set("search", pattern);
	if (zoomed) p.set("zoom", zoomed);
	if (inverted !== data.inverted) p.set("invert", 1);
	if (reversed) p.set("reverse", 1);
	if (command >= 0) p.set("command", names[command]);
	try {
		history.replaceState(null, "", "#" + p);
	} catch (e) { /* not allowed in some frames */ }
}

function under(e) {
	const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
	return drawn.find(b => y >= b.y && y < b.y + rowHeight && x >= b.x && x < b.x + b.w)?.i ?? -1;
}

function step(key) {
	if (at < 0) return mark(zoomed);
	const up = inverted ? "ArrowDown" : "ArrowUp";
	let next = -1;
	if (key === up) {
		for (let c = tree.first[at]; c >= 0; c = tree.next[c]) if (next < 0 || tree.count[c] > tree.count[next]) next = c;
	} else if (key === "ArrowUp" || key === "ArrowDown") next = at === 0 ? -1 : tree.parent[at];
	else {
		const row = drawn.filter(b => tree.depth[b.i] === tree.depth[at]).sort((a, b) => a.x - b.x), k = row.findIndex(b => b.i === at);
		next = row[k + (key === "ArrowRight" ? 1 : -1)]?.i ?? -1;
	}
	if (next >= 0) mark(next);
}

function mark(i) {
	at = i;
	el("details").textContent = describe(i);
	draw();
}

function start() {
	whole = tree = decode();
	const kids = [];
	for (let c = whole.first[0]; c >= 0; c = whole.next[c]) kids.push(c);
	kids.sort((a, b) => whole.count[b] - whole.count[a]);
	for (const c of kids.slice(0, 500)) {
		const o = document.createElement("option");
		o.value = whole.name[c];
		o.textContent = names[whole.name[c]] + "  " + percent(whole.count[c], whole.count[0]);
		el("command").append(o);
	}
	const p = new URLSearchParams(location.hash.slice(1));
	pattern = el("search").value = p.get("search") || "";
	if (p.has("invert")) inverted = !inverted;
	reversed = p.has("reverse");
	if (p.has("command")) {
		command = names.indexOf(p.get("command"));
		el("command").value = command;
	}
	const z = Number(p.get("zoom") || 0);
	rebuild();
	if (z > 0 && z < tree.n) zoom(z);
	canvas.addEventListener("click", e => { const i = under(e); if (i >= 0) zoom(i); });
	canvas.addEventListener("mousemove", e => {
		const i = under(e);
		el("details").textContent = describe(i >= 0 ? i : at);
		canvas.style.cursor = i >= 0 ? "pointer" : "default";
		canvas.title = i >= 0 ? describe(i) : "";
	});
	el("search").addEventListener("input", () => search(el("search").value));
	el("command").addEventListener("change", () => { command = Number(el("command").value); rebuild(); });
	el("reset").addEventListener("click", () => zoom(0));
	el("invert").addEventListener("click", () => { inverted = !inverted; rebuild(); });
	el("reverse").addEventListener("click", () => { reversed = !reversed; rebuild(); });
	el("dark").addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; draw(); });
	window.addEventListener("resize", draw);
	pane.addEventListener("scroll", draw);
	window.addEventListener("keydown", e => {
		const typing = document.activeElement === el("search");
		if ((e.ctrlKey || e.metaKey) && e.key === "f" || e.key === "/" && !typing) { el("search").focus(); el("search").select(); }
		else if (e.key === "Escape") { typing || pattern ? (el("search").value = "", el("search").blur(), search("")) : zoom(0); }
		else if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
		else if (e.key === "Enter" && at >= 0) zoom(at);
		else if (e.key.startsWith("Arrow")) step(e.key);
		else if (e.key === "i") el("invert").click();
		else if (e.key === "r") el("reverse").click();
		else if (e.key === "d") el("dark").click();
		else if (e.key === "0" || e.key === "Home") zoom(0);
		else return;
		e.preventDefault();
	});
}
window.addEventListener("load", start);
