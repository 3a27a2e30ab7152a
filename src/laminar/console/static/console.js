// The page of the console. It asks the API every two seconds, and draws what has changed.
//
// Names tell where a value comes from: `status`, `relation`, `checkpoint`, `dag`, `node`, `edge`,
// `history`, `epoch`, `view`, `definition`, `column` and `fault` are answers of the API as they
// came, and nothing else is called so; a test compares their fields with the API.
"use strict";

const POLL_MS = 2000;
const EPOCHS = "api/epochs?limit=60";
const END_OF_TIME_US = 253402300800000000;
const LIVE_SECONDS = 15;

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en-US");
const told = { tags: new Map(), answers: new Map(), skew: 0 };
const chosen = { name: null, epoch: null };

// Elements

function make(space, tag, attributes, children) {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
const el = (tag, attributes = {}, ...children) => make(null, tag, attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  make("http://www.w3.org/2000/svg", tag, attributes, children);

// Words

function plural(count, word) {
  return `${number.format(count)} ${word}${count === 1 ? "" : "s"}`;
}
function short(count) {
  if (count < 10000) return number.format(count);
  const unit = [[1e9, "B"], [1e6, "M"], [1e3, "K"]].find(([size]) => count >= size);
  return `${(count / unit[0]).toFixed(count / unit[0] < 100 ? 1 : 0)} ${unit[1]}`;
}
function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  const at = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3));
  return `${(bytes / 1000 ** at).toFixed(at ? 1 : 0)} ${units[at]}`;
}
function millis(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return `${ms && ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}
function span(seconds) {
  if (seconds < 0) return `-${span(-seconds)}`;
  for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= length) return `${number.format(Math.floor(seconds / length))} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}
const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const nowSeconds = () => (Date.now() + told.skew) / 1000;
const since = (moment) => nowSeconds() - Date.parse(moment) / 1000;
function mood(state) {
  if (state === "running") return "";
  return ["failing", "suspended", "away"].includes(state) ? "fails" : "waits";
}
const pill = (state, reason) => el("span", { class: `pill ${mood(state)}`, title: reason }, state);

// Asking

class Refused extends Error {}

async function ask(path) {
  const tag = told.tags.get(path);
  const headers = tag ? { "If-None-Match": tag } : {};
  const response = await fetch(path, { headers, cache: "no-store" });
  const date = Date.parse(response.headers.get("date"));
  // The header has whole seconds: what is shown of ages is no finer.
  if (date && Math.abs(date - Date.now()) > 2000) told.skew = date - Date.now();
  if (response.status === 304) return false;
  const body = await response.json();
  if (!response.ok) {
    const fault = body.error;
    throw new Refused([`${fault.code}: ${fault.message}`, fault.detail, fault.hint].filter(Boolean).join("\n"));
  }
  told.tags.set(path, response.headers.get("etag"));
  told.answers.set(path, body);
  return true;
}

async function poll() {
  const paths = ["api/status", "api/dag", EPOCHS];
  try {
    const changed = await Promise.all(paths.map(ask));
    const [status, dag, history] = paths.map((path) => told.answers.get(path));
    showProblem(history.damaged.length ? `Damaged, left out: ${history.damaged.join(", ")}` : "");
    if (changed[0]) showRelations(status);
    if (changed[1]) showDag(dag);
    if (changed[2]) showHistory(history);
    if (changed.some(Boolean)) showTiles(status, history);
    if (changed.some(Boolean) && chosen.name) showDefinition(chosen.name);
    showTime(status);
  } catch (error) {
    const lost = !(error instanceof Refused);
    showProblem(lost ? "The console does not answer. Start it again: laminar console" : error.message);
    showPulse("no answer", "lost");
  }
}

function showProblem(text) {
  const place = byId("problem");
  place.hidden = !text;
  if (place.textContent !== text) place.textContent = text;
}
function showPulse(text, kind) {
  const place = byId("pulse");
  place.className = `pulse ${kind}`;
  if (place.textContent !== text) place.textContent = text;
}

// At a glance

function showTiles(status, history) {
  const epoch = history.epochs[history.epochs.length - 1];
  const states = status.relations.filter((relation) => !isTable(relation)).map((relation) => relation.state);
  const away = states.filter((state) => state !== "running");
  const segments = status.relations.reduce((sum, relation) => sum + relation.segments, 0);
  const waiting = status.relations.reduce((sum, relation) => sum + relation.waiting_rows, 0);
  const checkpoint = status.checkpoints[status.checkpoints.length - 1];
  const speed = epoch.rows_in && epoch.duration_ms ? (epoch.rows_in * 1000) / epoch.duration_ms : 0;
  const counted = [...new Set(away)].map((state) => `${away.filter((each) => each === state).length} ${state}`);
  byId("path").textContent = status.path;
  byId("path").title = status.path;
  document.title = `epoch ${status.epoch} · Laminar`;
  byId("tiles").replaceChildren(
    tile("Epoch", number.format(status.epoch), `${number.format(status.oldest_epoch)} to ${number.format(status.epoch)} can be read`),
    tile("Last epoch took", epoch.duration_ms === null ? "–" : millis(epoch.duration_ms), `${plural(epoch.views.length, "view")} ran`),
    tile("Rows in", epoch.rows_in === null ? "–" : short(epoch.rows_in), waiting ? `${plural(waiting, "row")} waiting` : speed ? `${short(Math.round(speed))} rows/s` : "nothing waits"),
    tile("Stored", size(status.bytes), plural(segments, "segment")),
    tile("Views", number.format(states.length), counted.join(", ") || "all running"),
    tile("Checkpoints", number.format(status.checkpoints.length), checkpoint ? `newest at epoch ${number.format(checkpoint.epoch)}` : "none yet"),
  );
}
const tile = (name, value, note) =>
  el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "note" }, note));
const isTable = (relation) => relation.kind === "table" || relation.kind.startsWith("source");

// The DAG: nodes in columns by wave; edges over several waves bend around what lies between.

const BOX = { width: 208, height: 66, across: 76, down: 22, margin: 22 };

function layout(dag) {
  const points = new Map();
  for (const node of dag.nodes) {
    points.set(node.name, { wave: node.wave, height: BOX.height, before: [], after: [] });
  }
  const routes = dag.edges.map((edge) => {
    const route = [points.get(edge.source)];
    for (let wave = route[0].wave + 1; wave < points.get(edge.target).wave; wave++) {
      const bend = { wave, height: 2, bends: true, before: [], after: [] };
      points.set(bend, bend);
      route.push(bend);
    }
    route.push(points.get(edge.target));
    for (let at = 1; at < route.length; at++) {
      route[at - 1].after.push(route[at]);
      route[at].before.push(route[at - 1]);
    }
    return { edge, route };
  });
  const waves = [];
  for (const point of points.values()) (waves[point.wave] ??= []).push(point);
  const room = Math.max(...waves.map(stack));
  for (let round = 0; round < 12; round++) {
    const order = round % 2 ? [...waves].reverse() : waves;
    for (const wave of order) settle(wave, round % 2 ? "after" : "before", room, round < 8);
  }
  waves.forEach((wave) => settle(wave, null, room, false));
  const all = [...points.values()];
  const top = Math.min(...all.map((point) => point.y - point.height / 2));
  for (const point of all) {
    point.x = BOX.margin + point.wave * (BOX.width + BOX.across);
    point.y += BOX.margin - top;
  }
  return {
    points,
    routes,
    width: waves.length * (BOX.width + BOX.across) - BOX.across + 2 * BOX.margin,
    height: Math.max(...all.map((point) => point.y + point.height / 2)) + BOX.margin,
  };
}

const gap = (a, b) => (a.height + b.height) / 2 + (a.bends || b.bends ? 9 : BOX.down);

// Puts the points of a wave one below the other, around zero; returns the room that they take.
function stack(wave) {
  wave.forEach((point, at) => {
    point.y = at ? wave[at - 1].y + gap(wave[at - 1], point) : point.height / 2;
  });
  const room = wave[wave.length - 1].y + wave[wave.length - 1].height / 2;
  for (const point of wave) point.y -= room / 2;
  return room;
}

// Moves the points of a wave towards their neighbours; they neither overlap nor leave the room.
function settle(wave, side, room, sorts) {
  for (const point of wave) {
    const near = side ? point[side] : [...point.before, ...point.after];
    point.wish = near.length ? near.reduce((sum, each) => sum + each.y, 0) / near.length : point.y;
  }
  if (sorts) wave.sort((a, b) => a.wish - b.wish);
  const down = (start) =>
    wave.forEach((point, at) => {
      point.y = Math.max(point.y, at ? wave[at - 1].y + gap(wave[at - 1], point) : start + point.height / 2);
    });
  for (const point of wave) point.y = point.wish;
  down(-Infinity);
  const drift = wave.reduce((sum, point) => sum + point.y - point.wish, 0) / wave.length;
  for (const point of wave) point.y -= drift;
  for (let at = wave.length - 1; at >= 0; at--) {
    const [point, next] = [wave[at], wave[at + 1]];
    point.y = Math.min(point.y, next ? next.y - gap(point, next) : room / 2 - point.height / 2);
  }
  down(-room / 2);
}

function showDag(dag) {
  const place = byId("dag");
  if (!dag.nodes.length) {
    place.replaceChildren(el("p", { class: "empty" }, "Nothing is defined yet."));
    return;
  }
  const focused = document.activeElement?.dataset?.name;
  const { points, routes, width, height } = layout(dag);
  // A little too wide is made to fit; far too wide is scrolled.
  const fit = (place.clientWidth - 2) / width;
  const scale = fit >= 0.7 ? Math.min(1, fit) : 0.85;
  place.replaceChildren(
    svg(
      "svg",
      { width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}` },
      ...routes.map(({ edge, route }) => drawEdge(edge, route)),
      ...dag.nodes.map((node) => drawNode(node, points.get(node.name))),
    ),
  );
  if (!place.dataset.drawn) place.scrollTop = (place.scrollHeight - place.clientHeight) / 2;
  place.dataset.drawn = "yes";
  mark();
  if (focused) place.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
}

function drawEdge(edge, route) {
  let path = "";
  route.forEach((point, at) => {
    const isLast = at === route.length - 1;
    const left = point.x;
    const right = point.x + BOX.width;
    if (at === 0) {
      path = `M${right} ${point.y}`;
      return;
    }
    const from = route[at - 1].x + BOX.width;
    const bend = (left - from) / 2;
    path += ` C${from + bend} ${route[at - 1].y} ${left - bend} ${point.y} ${left} ${point.y}`;
    if (!isLast) path += ` H${right}`;
  });
  const text = `${edge.source} → ${edge.target}: ${edge.channel_type}, at epoch ${edge.cursor ?? "none"}`;
  return svg(
    "path",
    { d: path, class: `edge ${edge.channel_type}`, "data-ends": JSON.stringify([edge.source, edge.target]) },
    svg("title", {}, text),
  );
}

function drawNode(node, point) {
  const about = [node.strategy ?? node.kind, node.fused ? "fused" : null, node.group ? `group ${node.group}` : null];
  const meta = about.filter(Boolean).join(" · ");
  const last = node.type === "Sink" ? `at epoch ${node.epoch ?? "none"}` : lastEpoch(node);
  const label = [node.name, node.kind, node.state, node.state_reason, node.shared ? `shared by ${node.consumers}` : null, last];
  const open = () => choose(node.name);
  const top = point.y - BOX.height / 2;
  const badge = node.state !== "running" ? node.state : node.shared ? `×${node.consumers}` : "";
  return svg(
    "g",
    {
      class: `node ${node.type} ${mood(node.state)}${node.shared ? " is-shared" : ""}`,
      transform: `translate(${point.x} ${top})`,
      role: "button",
      tabindex: 0,
      "aria-label": label.filter(Boolean).join(", "),
      "data-name": node.name,
      onclick: open,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      },
    },
    svg("title", {}, label.filter(Boolean).join("\n")),
    node.shared ? svg("rect", { class: "under", x: 4, y: 4, width: BOX.width, height: BOX.height, rx: 9 }) : null,
    svg("rect", { class: "box", width: BOX.width, height: BOX.height, rx: 9 }),
    svg("rect", { class: "accent", x: 0, y: 12, width: 4, height: BOX.height - 24, rx: 2 }),
    svg("text", { class: "name", x: 15, y: 22 }, clip(node.name, badge ? 21 - badge.length : 22)),
    svg("text", { class: node.state === "running" ? "count" : "chip", x: BOX.width - 11, y: 22 }, badge),
    svg("text", { class: "meta", x: 15, y: 39 }, clip(meta, 34)),
    svg("text", { class: "last", x: 15, y: 56 }, clip(last, 34)),
  );
}

function lastEpoch(node) {
  const parts = [];
  if (node.rows !== null) parts.push(`${short(node.rows)} row${node.rows === 1 ? "" : "s"}`);
  if (node.rows_out !== null) parts.push(`Δ ${short(node.rows_out)}`);
  if (node.ms !== null) parts.push(millis(node.ms));
  return parts.join(" · ") || "no change";
}

// Definitions

function choose(name) {
  chosen.name = name;
  mark();
  showDefinition(name).then(redraw);
}
function mark() {
  for (const place of document.querySelectorAll(".node")) {
    place.classList.toggle("is-chosen", place.dataset.name === chosen.name);
  }
  for (const place of document.querySelectorAll(".edge")) {
    place.classList.toggle("near", JSON.parse(place.dataset.ends).includes(chosen.name));
  }
}
function closeDefinition() {
  const name = chosen.name;
  chosen.name = null;
  byId("detail").hidden = true;
  redraw();
  if (name) byId("dag").querySelector(`[data-name="${CSS.escape(name)}"]`)?.focus();
}

async function showDefinition(name) {
  const path = `api/definitions/${encodeURIComponent(name)}`;
  let definition;
  try {
    const changed = await ask(path);
    if (!changed && byId("detail").dataset.name === name && !byId("detail").hidden) return;
    definition = told.answers.get(path);
  } catch (error) {
    if (error instanceof Refused) closeDefinition();
    return;
  }
  if (chosen.name !== name) return;
  const chain = (title, names) =>
    el("div", {}, el("h4", {}, title), el("div", { class: "chain" }, ...(names.length ? names.map(relationLink) : ["nothing"])));
  const options = Object.entries(definition.options);
  const place = byId("detail");
  place.dataset.name = name;
  place.hidden = false;
  const parts = [
    el("div", { class: "top" }, el("h3", {}, definition.name), el("button", { class: "quiet", type: "button", onclick: closeDefinition }, "Close")),
    el("p", { class: "soft" }, [definition.kind, definition.strategy].filter(Boolean).join(" · ")),
    chain("Reads", definition.reads),
    chain("Read by", definition.readers),
    el("div", {}, el("h4", {}, "Columns"), columnsOf(definition)),
    definition.sql ? el("div", {}, el("h4", {}, "Definition"), el("pre", {}, ...colored(definition.sql))) : null,
    options.length
      ? el("div", {}, el("h4", {}, "Options"), el("table", {}, el("tbody", {}, ...options.map(([key, value]) => el("tr", {}, el("td", {}, key), el("td", {}, String(value)))))))
      : null,
  ];
  place.replaceChildren(...parts.filter(Boolean));
}
function columnsOf(definition) {
  if (definition.columns === null) return el("p", { class: "soft" }, "Known as soon as the database is opened for writing.");
  const rows = definition.columns.map((column) =>
    el("tr", {}, el("td", {}, column.name), el("td", { class: "soft mono" }, column.type.toLowerCase())));
  return el("table", {}, el("tbody", {}, ...rows));
}
const relationLink = (name) => el("button", { class: "link", type: "button", onclick: () => choose(name) }, name);

const KEYWORDS =
  /('(?:[^'\\]|\\.|'')*'|--[^\n]*)|\b(ALL|AND|AS|ASOF|BETWEEN|BY|CASE|CREATE|CROSS|DISTINCT|ELSE|EMIT|END|EXCEPT|EXISTS|FILTER|FOR|FROM|FULL|GROUP|HAVING|IN|INNER|INTERSECT|INTERVAL|IS|JOIN|KEY|LEFT|LIKE|LIMIT|MATERIALIZED|NOT|NULL|ON|OR|ORDER|OUTER|OVER|PARTITION|PRIMARY|REPLACE|RIGHT|SELECT|SINK|SOURCE|TABLE|THEN|UNION|USING|VIEW|WATERMARK|WHEN|WHERE|WINDOW|WITH)\b/gi;
function colored(sql) {
  const parts = [];
  let at = 0;
  for (const match of sql.matchAll(KEYWORDS)) {
    parts.push(sql.slice(at, match.index), el(match[1] ? "i" : "b", {}, match[0]));
    at = match.index + match[0].length;
  }
  return [...parts, sql.slice(at)];
}

// Epochs

function showHistory(history) {
  const epochs = history.epochs.filter((epoch) => epoch.duration_ms !== null);
  const place = byId("chart");
  if (!epochs.length) {
    place.replaceChildren(el("p", { class: "empty" }, "No epoch has run yet."));
    byId("epoch").replaceChildren();
    return;
  }
  const hadFocus = place.contains(document.activeElement);
  const [width, height, left, right, base] = [Math.max(place.clientWidth, 320), 190, 54, 58, 168];
  const slow = Math.max(...epochs.map((epoch) => epoch.duration_ms), 1);
  const many = Math.max(...epochs.map((epoch) => epoch.rows_in), 1);
  const step = Math.min((width - left - right) / epochs.length, 46);
  const y = (share) => base - share * (base - 14);
  const middle = (at) => left + at * step + step / 2;
  const grid = [0, 0.5, 1].flatMap((share) => [
    svg("line", { class: "grid", x1: left, x2: width - right, y1: y(share), y2: y(share) }),
    svg("text", { class: "axis", x: left - 8, y: y(share) + 4, "text-anchor": "end" }, millis(slow * share)),
    svg("text", { class: "axis", x: width - right + 8, y: y(share) + 4 }, short(Math.round(many * share))),
  ]);
  const bars = epochs.flatMap((epoch, at) => [
    svg("rect", { class: "bar", "data-epoch": epoch.epoch, x: left + at * step + step * 0.12, y: y(epoch.duration_ms / slow), width: step * 0.76, height: base - y(epoch.duration_ms / slow), rx: Math.min(3, step / 6) }),
    svg("rect", { class: "hit", x: left + at * step, y: 0, width: step, height, onmouseenter: () => pick(epoch), onclick: () => pick(epoch) }),
  ]);
  const line = epochs.map((epoch, at) => `${at ? "L" : "M"}${middle(at)} ${y(epoch.rows_in / many)}`).join(" ");
  const dots = step > 9 ? epochs.map((epoch, at) => svg("circle", { class: "dot", cx: middle(at), cy: y(epoch.rows_in / many), r: 2.5 })) : [];
  const ends = [epochs[0], epochs[epochs.length - 1]].map((epoch, at) =>
    svg("text", { class: "axis", x: at ? middle(epochs.length - 1) : middle(0), y: height - 5, "text-anchor": "middle" }, epoch.epoch));
  const drawn = svg(
    "svg",
    {
      width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "group",
      "aria-label": `Duration and rows of the last ${plural(epochs.length, "epoch")}; arrow keys choose one`,
      onkeydown: (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by) return;
        event.preventDefault();
        const at = epochs.findIndex((epoch) => epoch.epoch === shownEpoch(epochs).epoch);
        pick(epochs[Math.max(0, Math.min(epochs.length - 1, at + by))]);
      },
    },
    ...grid, ...bars.filter((each) => each.classList.contains("bar")),
    svg("path", { class: "rows", d: line }), ...dots,
    ...(epochs.length > 1 ? ends : ends.slice(1)), ...bars.filter((each) => each.classList.contains("hit")),
  );
  drawn.addEventListener("mouseleave", () => unpick(epochs));
  place.replaceChildren(drawn);
  if (hadFocus) drawn.focus();
  showEpoch(shownEpoch(epochs));
}

const shownEpoch = (epochs) => epochs.find((epoch) => epoch.epoch === chosen.epoch) ?? epochs[epochs.length - 1];
function pick(epoch) {
  chosen.epoch = epoch.epoch;
  showEpoch(epoch);
}
function unpick(epochs) {
  chosen.epoch = null;
  showEpoch(shownEpoch(epochs));
}

function showEpoch(epoch) {
  for (const bar of document.querySelectorAll(".bar[data-epoch]")) {
    bar.classList.toggle("is-chosen", Number(bar.dataset.epoch) === epoch.epoch);
  }
  const late = Object.values(epoch.late ?? {}).reduce((sum, count) => sum + count, 0);
  const facts = [`epoch ${number.format(epoch.epoch)}`, new Date(epoch.committed_at).toLocaleTimeString(), `${plural(epoch.rows_in, "row")} in ${millis(epoch.duration_ms)}`];
  if (late) facts.push(`${number.format(late)} late`);
  const slowest = [...epoch.views].sort((a, b) => b.ms - a.ms).slice(0, 5);
  byId("epoch").replaceChildren(
    el("p", {}, facts.join(" · ")),
    ...slowest.map((view) => {
      const share = el("span", { class: "share" });
      share.style.width = `${(100 * view.ms) / Math.max(slowest[0].ms, 1)}%`;
      return el("div", { class: "part" }, el("span", { title: `${view.name}: ${view.strategy}` }, view.name), share, el("span", {}, `${millis(view.ms)} · ${plural(view.rows, "row")}`));
    }),
  );
}

// Tables

function showRelations(status) {
  const rows = status.relations.map((relation) => {
    const waits = relation.waiting_rows ? plural(relation.waiting_rows, "row") : relation.behind ? "there is more" : isTable(relation) && relation.behind === null ? "not known" : "";
    return el(
      "tr", {},
      el("td", {}, relationLink(relation.name)),
      el("td", { class: "soft" }, relation.kind),
      el("td", {}, pill(relation.state, relation.state_reason)),
      el("td", { class: "number", title: relation.rows === null ? `${plural(relation.stored_rows, "row")} stored as accumulators, or none: fused` : null }, relation.rows === null ? "–" : number.format(relation.rows)),
      el("td", { class: "number" }, size(relation.bytes)),
      el("td", { class: "number" }, number.format(relation.segments)),
      el("td", { class: "number" }, number.format(relation.epoch)),
      el("td", { class: "soft" }, waits),
    );
  });
  const none = el("tr", {}, el("td", { colspan: 8, class: "soft" }, "Nothing is defined yet."));
  byId("relations").replaceChildren(...(rows.length ? rows : [none]));
}

// What changes by itself: ages and lags.
function showTime(status) {
  const age = since(status.committed_at);
  showPulse(age < LIVE_SECONDS ? "live" : `idle for ${span(age)}`, age < LIVE_SECONDS ? "live" : "");
  const names = new Set([...Object.keys(status.watermarks), ...Object.keys(status.late_rows)]);
  const rows = [...names].map((name) => {
    const mark = status.watermarks[name];
    const ended = mark >= END_OF_TIME_US;
    const at = mark === undefined ? "–" : ended ? "ended" : new Date(mark / 1000).toISOString().slice(0, 19).replace("T", " ");
    return el(
      "tr", {},
      el("td", {}, relationLink(name)),
      el("td", {}, at),
      el("td", { class: "number" }, mark === undefined || ended ? "–" : span(nowSeconds() - mark / 1e6)),
      el("td", { class: "number" }, number.format(status.late_rows[name] ?? 0)),
    );
  });
  const none = el("tr", {}, el("td", { colspan: 4, class: "soft" }, "No source has a WATERMARK."));
  const place = byId("watermarks");
  const drawn = rows.length ? rows : [none];
  const text = drawn.map((row) => row.textContent).join("|");
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  const at = [...place.querySelectorAll("button")].indexOf(document.activeElement);
  place.replaceChildren(...drawn);
  if (at >= 0) place.querySelectorAll("button")[at]?.focus();
}

// Light and dark

const THEMES = ["system", "light", "dark"];
function showTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
}
function remembered() {
  try {
    return THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "system";
  } catch {
    return "system"; // a browser may forbid it
  }
}
function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(byId("theme").textContent.slice(7)) + 1) % THEMES.length];
  showTheme(theme);
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // then only until the page is left
  }
}

// Running

let timer = null;
let polling = false;
async function turn() {
  clearTimeout(timer);
  if (polling) return;
  polling = true;
  await poll();
  polling = false;
  if (!document.hidden) timer = setTimeout(turn, POLL_MS);
}

showTheme(remembered());
byId("theme").addEventListener("click", nextTheme);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : turn()));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen.name) closeDefinition();
});
// Draws again what depends on the room there is.
function redraw() {
  const [dag, history] = ["api/dag", EPOCHS].map((path) => told.answers.get(path));
  if (dag) showDag(dag);
  if (history) showHistory(history);
}
let resizing = null;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(redraw, 100);
});
turn();
