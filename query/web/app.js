"use strict";

// Every text from an answer goes through `textContent`: names of traced programs are hostile.

const REFRESH_MS = 5000;
const LEVELS = ["L0", "L1", "LFB", "L2", "L2-MHB", "L3", "L4", "any-cache", "MSC", "RAM", "CXL", "PMEM", "IO", "uncached", "none", "unknown"];
const MEMORY = new Set(["MSC", "RAM", "CXL", "PMEM", "IO", "uncached"]);
const LOCALITIES = ["local", "remote", "unknown"];

const byId = (id) => document.getElementById(id);

/** An element with a class and children; strings become text nodes. */
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** Asks a question; a problem document becomes an error with its remedy. */
async function ask(path, params, signal) {
  const query = new URLSearchParams(params);
  const response = await fetch(`/api/v1/${path}?${query}`, { signal });
  return read(response);
}

async function read(response) {
  const document = await response.json().catch(() => ({}));
  if (response.ok) return document;
  const words = [document.title, document.detail, document.remedy].filter(Boolean);
  throw new Error(words.length ? words.join(" — ") : `status ${response.status}`);
}

/** Rows of an answer as objects by column name. */
function records(answer) {
  const names = answer.columns.map((column) => column.name);
  return answer.rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
}

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const percent = (share) => (share >= 0.0995 ? `${(share * 100).toFixed(0)} %` : `${(share * 100).toPrecision(2)} %`);

function shown(value, unit) {
  if (value === null || value === undefined || value === "") return "—";
  if (typeof value !== "number") return typeof value === "object" ? JSON.stringify(value) : String(value);
  if (unit === "ratio") return percent(value);
  if (Number.isInteger(value)) return value < 1e7 ? whole.format(value) : compact.format(value);
  return value >= 1000 ? compact.format(value) : value.toPrecision(3);
}

/** All links in nodes. */
const linksIn = (nodes) => [...nodes].flatMap((node) => (node.querySelectorAll ? [...node.querySelectorAll("a")] : []));

/** A node without what its links lead to: their times are those of the last refresh. */
function bare(node) {
  const copy = node.cloneNode(true);
  for (const link of linksIn([copy])) link.removeAttribute("href");
  return copy;
}

/** Puts `fresh` in the place of what stands in `place`, only when it differs: no flicker; scroll, focus and selection stay. */
function put(place, ...fresh) {
  const nodes = fresh.filter(Boolean);
  const stands = place.childNodes;
  if (stands.length === nodes.length && nodes.every((node, i) => bare(node).isEqualNode(bare(stands[i])))) {
    const newer = linksIn(nodes);
    linksIn(stands).forEach((link, i) => { link.href = newer[i].href; });
    return;
  }
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && place.contains(selection.anchorNode)) return;
  place.replaceChildren(...nodes);
}

function empty(...words) {
  return element("p", "empty", ...words);
}

const code = (text) => element("code", "", text);

/** What to do where there are no samples; only the first place says it at length. */
function nothingYet(params, atLength) {
  if (params.locality || params.host) {
    return empty("No samples with these filters in this range.", atLength ? " Choose a longer range, all hosts, or switch “remote NUMA only” off: " +
      "software tiers know a locality only where the page's node is known." : "");
  }
  if (!atLength) return empty("No samples in this range yet.");
  return empty("No samples in this range yet. ", code("memwide up"), " collects on this machine within seconds; ",
    code("memwide doctor"), " says what is missing; ", code("memwide up --demo"), " adds a simulated fleet; ",
    code("memwide import FILE"), " brings a perf.data file.");
}

function tier(name) {
  return element("span", `tier ${["precise", "event", "software"].includes(name) ? name : ""}`, name);
}

/** Groups records by tier and event, largest first within a tier; precise first. Bars lead to their rows. */
function mixes(answer, key, order, classOf) {
  const rows = records(answer);
  const groups = new Map();
  for (const row of rows) {
    const name = JSON.stringify([row.tier, row.event]);
    if (!groups.has(name)) groups.set(name, { tier: row.tier, event: row.event, of: row.share_of, n: 0, bars: new Map() });
    const group = groups.get(name);
    group.n += row.samples;
    const label = key(row);
    const bar = group.bars.get(label.text) || { n: 0, share: 0, address: rowAddress(answer, row), ...label };
    bar.n += row.samples;
    bar.share += row.share;
    group.bars.set(label.text, bar);
  }
  const tiers = ["precise", "event", "software"];
  const sorted = [...groups.values()].sort((a, b) => tiers.indexOf(a.tier) - tiers.indexOf(b.tier) || b.n - a.n);
  return sorted.map((group) => {
    const bars = [...group.bars.values()].sort((a, b) => order.indexOf(a.value) - order.indexOf(b.value) || a.text.length - b.text.length);
    const title = element("h3", "",
      element("span", "", tier(group.tier), " ", group.event),
      element("span", "", `n = ${whole.format(group.n)} samples; shares of ${group.of}`));
    return element("div", "mix", title, ...bars.map((bar) => {
      const fill = element("div", `fill ${classOf(bar)}`);
      fill.style.width = `${100 * bar.share}%`;
      const name = anchor(bar.address, "name", bar.text);
      name.title = bar.text;
      return element("div", "bar", name, element("div", "track", fill),
        element("span", "count", `${shown(bar.n, "samples")} `, element("small", "", percent(bar.share))));
    }));
  });
}

function levelOf(row) {
  const text = row.outcome === "hit" || row.level === "none" || row.level === "unknown" ? row.level : `${row.level} (${row.outcome})`;
  return { value: row.level, text: text === "none" ? "no level" : text };
}

function localityOf(row) {
  const basis = { hw: "hardware", page: "page", none: "" }[row.locality_basis] || "";
  return { value: row.locality, text: basis ? `${row.locality} (${basis})` : row.locality };
}

/** Longest text in characters that a column of texts shows whole; one with longer texts gives way to all others. */
const SHORT = 32;

/** A table; `columns` are {name, unit, title?, cell?}. */
function table(columns, rows) {
  const numeric = columns.map((column, i) => column.numeric ?? rows.some((row) => typeof row[i] === "number"));
  const textOf = (value, i) => (value instanceof Node ? value.textContent : shown(value, columns[i].unit));
  const longest = columns.map((_, i) => (numeric[i] ? 0 : Math.max(0, ...rows.map((row) => textOf(row[i], i).length))));
  const long = longest.map((length) => (length > SHORT ? Math.min(length, 4 * SHORT) : 0));
  const all = long.reduce((sum, length) => sum + length, 0);
  const head = element("tr", "", ...columns.map((column, i) => {
    const cell = element("th", numeric[i] ? "number" : long[i] ? "long" : "", column.title || column.name);
    cell.scope = "col";
    if (long[i]) cell.style.width = `${(100 * long[i]) / all}%`;
    const below = column.below ?? column.unit;
    if (below && below !== column.name) cell.append(element("small", "", below));
    return cell;
  }));
  const body = rows.map((row) => element("tr", "", ...row.map((value, i) => {
    const isText = !(value instanceof Node) || value.tagName === "A";
    const cell = element("td", numeric[i] ? "number" : isText ? "name" : "", value instanceof Node ? value : textOf(value, i));
    const text = textOf(value, i);
    if (text === "—") cell.classList.add("absent");
    if (long[i]) {
      cell.classList.add("long");
      cell.title = text;
    }
    return cell;
  })));
  return element("table", "", element("thead", "", head), element("tbody", "", ...body));
}

function notes(answer) {
  return (answer.notes || []).map((note) => element("p", "note", note));
}

function filters() {
  const params = range();
  if (byId("host").value) params.host = byId("host").value;
  if (byId("remote").checked) params.locality = "remote";
  return params;
}

async function showLevels(params, signal) {
  const answer = await ask("breakdown", { ...params, by: "level", limit: 1000 }, signal);
  putLink("levels", answer);
  const classOf = (bar) => (MEMORY.has(bar.value) ? "memory" : ["none", "unknown"].includes(bar.value) ? "none" : "");
  put(byId("levels"), ...(answer.rows.length ? mixes(answer, levelOf, LEVELS, classOf) : [nothingYet(params, true)]));
}

async function showLocalities(params, signal) {
  const answer = await ask("breakdown", { ...params, by: "locality", limit: 1000 }, signal);
  putLink("localities", answer);
  const classOf = (bar) => ({ remote: "far", unknown: "none" })[bar.value] || "";
  put(byId("localities"), ...(answer.rows.length ? mixes(answer, localityOf, LOCALITIES, classOf) : [nothingYet(params, false)]));
}

async function showFunctions(params, signal) {
  const answer = await ask("functions", { ...params, by: byId("by").value, limit: 25 }, signal);
  const rows = records(answer);
  putLink("functions", answer);
  if (!rows.length) return put(byId("functions"), nothingYet(params, false));
  const columns = [
    { name: "function" }, { name: "module" }, { name: "tier", numeric: false }, { name: "event" },
    { name: "samples", unit: "samples", numeric: true }, { name: "share", unit: "ratio", below: "within event", numeric: true },
    { name: "weight", unit: "cycles", numeric: true }, { name: "est_events", title: "est. events", numeric: true },
    { name: "hosts", numeric: true },
  ];
  const used = columns.filter((column) => rows.some((row) => column.name === "share" || row[column.name]));
  const cells = rows.map((row) => used.map((column) => {
    if (column.name === "tier") return tier(row.tier);
    if (column.name === "function") return anchor(rowAddress(answer, row), "", row.function || "—");
    if (column.name === "weight" && !row.weight) return null;
    if (column.name === "est_events" && row.est_unit === "ns") return `${whole.format(row.est_events)} ns`;
    return row[column.name];
  }));
  put(byId("functions"), table(used, cells), ...notes(answer));
}

/** How long ago a moment was. */
function ago(text) {
  const seconds = Math.round((Date.now() - Date.parse(text)) / 1000);
  if (Number.isNaN(seconds)) return "—";
  if (seconds < 120) return `${Math.max(0, seconds)} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
}

async function showHosts(params, signal) {
  const { since, until } = params;
  const answer = await ask("hosts", { since, ...(until && { until }), limit: 500 }, signal);
  const rows = records(answer);
  putLink("hosts", answer);
  offerHosts(rows.map((row) => row.host));
  if (!rows.length) {
    put(byId("hosts"), empty("No host has reported in the last 24 hours. Start ", code("memwide up"), " here, or a collector on each node."));
    return answer;
  }
  const columns = [
    { name: "host" }, { name: "kind" }, { name: "last seen", numeric: true }, { name: "completeness", unit: "stored / produced", numeric: true },
    { name: "stored", unit: "samples", numeric: true }, { name: "lost", unit: "records", numeric: true },
    { name: "blind", unit: "seconds", numeric: true }, { name: "tiers" }, { name: "CPU" }, { name: "CPUs", numeric: true }, { name: "nodes", numeric: true },
  ];
  const cells = rows.map((row) => {
    const complete = row.completeness === null ? "—" : row.completeness >= 1 ? "100 %" : `${(100 * row.completeness).toFixed(2)} %`;
    const mark = row.completeness === null ? "" : row.completeness >= 0.999 ? "good" : "bad";
    const tiers = row.tiers ? row.tiers.split(" ").flatMap((name) => [tier(name), " "]) : ["—"];
    return [anchor(rowAddress(answer, row), "", row.host), row.kind, element("span", "", ago(row.last_seen)), element("span", mark, complete), row.samples_stored,
      row.lost, row.blind_seconds, element("span", "", ...tiers), row.cpu_model || row.cpu_vendor, row.cpus, row.nodes];
  });
  put(byId("hosts"), table(columns, cells), ...notes(answer));
  return answer;
}

/** Keeps the list of hosts in the selection current, and what is chosen. */
function offerHosts(hosts, chosen = byId("host").value) {
  const select = byId("host");
  const names = !chosen || hosts.includes(chosen) ? hosts : [...hosts, chosen];
  const known = [...select.options].map((option) => option.value).filter(Boolean);
  if (known.length === names.length && known.every((name, i) => name === names[i])) return;
  const options = names.map((name) => {
    const option = element("option", "", name);
    option.value = name;
    return option;
  });
  select.replaceChildren(select.options[0], ...options);
  select.value = chosen;
}

function showStatus(status, answer) {
  const line = byId("status");
  const complete = answer?.completeness;
  const parts = [];
  if (!status.store.reachable) parts.push(`store: ${status.store.problem || "not reachable"}`);
  for (const service of status.services) {
    if (!["running", "starting"].includes(service.state)) parts.push(`${service.name} ${service.state}${service.detail ? `: ${service.detail}` : ""}`);
  }
  line.classList.toggle("bad", parts.length > 0);
  if (complete) {
    parts.push(`${whole.format(complete.hosts_seen)} of ${whole.format(complete.hosts_expected)} hosts`);
    parts.push(`${whole.format(complete.samples_stored)} of ${whole.format(complete.samples_produced)} samples stored`);
    if (complete.blind_seconds > 0) parts.push(`${complete.blind_seconds.toFixed(1)} s blind`);
    if (complete.stopped_cpu_seconds >= 0.05) parts.push(`${complete.stopped_cpu_seconds.toFixed(1)} CPU-seconds stopped or throttled`);
    for (const [reason, count] of Object.entries(complete.missing)) parts.push(`${whole.format(count)} ${reason}`);
  }
  if (status.ingest_address) parts.push(`ingest ${status.ingest_address}`);
  parts.push(`v${status.version}`);
  line.textContent = parts.join(" · ");
}

let running = null;

/** Asks everything anew; a newer refresh ends an older one. */
async function refresh() {
  running?.abort();
  const mine = (running = new AbortController());
  if (asked.get("question")) return refreshQuestion(mine);
  const params = filters();
  const parts = [[showLevels, "levels"], [showLocalities, "localities"], [showFunctions, "functions"]];
  const guarded = parts.map(([show, id]) => show(params, mine.signal).catch((problem) => {
    if (!mine.signal.aborted) put(byId(id), element("p", "problem", problem.message));
  }));
  try {
    const [status, answer] = await Promise.all([ask("status", {}, mine.signal),
      showHosts(params, mine.signal).catch((problem) => {
        if (!mine.signal.aborted) put(byId("hosts"), element("p", "problem", problem.message));
      })]);
    if (!mine.signal.aborted) {
      showStatus(status, answer);
      put(byId("collects"), ...status.collects.map((line) => element("p", "note", line)));
    }
  } catch (problem) {
    if (!mine.signal.aborted) {
      byId("status").textContent = `no answer from this server (${problem.message}); is memwide still running?`;
      byId("status").classList.add("bad");
    }
  }
  await Promise.all(guarded);
  if (running === mine) running = null;
}

/** The same where the address names one answer. */
async function refreshQuestion(mine) {
  try {
    const [status, answer] = await Promise.all([ask("status", {}, mine.signal), showQuestion(mine.signal)]);
    if (!mine.signal.aborted) showStatus(status, answer);
  } catch (problem) {
    if (!mine.signal.aborted) put(byId("question"), element("p", "problem", problem.message));
  }
  if (running === mine) running = null;
}

let sqlRunning = null;

async function runSql() {
  sqlRunning?.abort();
  const mine = (sqlRunning = new AbortController());
  const state = byId("sql-state");
  state.className = "";
  state.textContent = "running …";
  const began = performance.now();
  try {
    const response = await fetch("/api/v1/sql", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: byId("sql").value, format: "json" }),
      signal: mine.signal,
    });
    const answer = await read(response);
    state.textContent = `${whole.format(answer.rows.length)} rows in ${Math.round(performance.now() - began)} ms`;
    const columns = answer.columns.map((column) => ({ ...column, unit: column.unit || column.type }));
    asked.set("sql", byId("sql").value);
    remember();
    put(byId("sql-result"), answer.rows.length ? table(columns, answer.rows) : empty("No rows."));
  } catch (problem) {
    if (mine.signal.aborted) return;
    state.className = "problem";
    state.textContent = problem.message;
  }
}

function later() {
  setTimeout(async () => {
    if (!document.hidden) await refresh();
    later();
  }, REFRESH_MS);
}

for (const id of ["since", "host", "remote", "by"]) {
  byId(id).addEventListener("change", () => {
    remember();
    refresh();
  });
}
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("sql-form").addEventListener("submit", (event) => {
  event.preventDefault();
  runSql();
});
byId("sql").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    runSql();
  }
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
const isQuestion = Boolean(asked.get("question"));
for (const part of document.querySelectorAll("[data-overview]")) part.hidden = isQuestion;
for (const part of document.querySelectorAll("[data-question]")) part.hidden = !isQuestion;
if (!isQuestion) choose();
refresh();
if (!isQuestion && asked.get("sql")) runSql();
// An answer at absolute times stays as it is.
if (!isQuestion || !asked.get("until")) later();
