"use strict";

// Addresses of what is shown: one answer, one of its rows, or all that is chosen above. Uses the helpers of app.js.

/** Parameters of the address that are no filters. */
const NO_FILTERS = new Set(["question", "since", "until", "limit", "by"]);

const asked = new URLSearchParams(location.search);

/** The address of the part of an answer that holds this row (an object by column name). */
function rowAddress(answer, row) {
  const url = new URL(answer.links.page, location.origin);
  for (const name of answer.links.row_filters) {
    if (row[name]) url.searchParams.set(name, row[name]);
  }
  return url.pathname + url.search;
}

function anchor(address, className, ...children) {
  const made = element("a", className, ...children);
  made.href = address;
  return made;
}

/** A link to an answer for the title of its section; its times are absolute. */
function linkOf(answer) {
  const made = anchor(answer.links.page, "link", "link");
  made.title = "This answer, at these times";
  return made;
}

/** Puts the link of an answer into the title above its place. */
function putLink(id, answer) {
  const title = byId(id).closest("section").querySelector("h2");
  title.querySelector("a.link")?.remove();
  title.append(linkOf(answer));
}

/** A table of an answer or of one of its parts; rows of an answer lead to themselves. */
function tableOf(part, answer) {
  const rows = records(part);
  if (!rows.length) return empty("No rows.");
  const columns = part.columns.map((column) => ({ ...column, numeric: column.type !== "string" }));
  const cells = part.rows.map((values, at) => {
    if (!answer) return values;
    const open = anchor(rowAddress(answer, rows[at]), "row", "→");
    open.title = "This row alone";
    return [open, ...values];
  });
  return table(answer ? [{ name: "" }, ...columns] : columns, cells);
}

/** What was asked, as a list. */
function selection(question) {
  const said = [...asked].filter(([name]) => !NO_FILTERS.has(name)).map(([name, value]) => `${name} = ${value}`);
  const range = `${asked.get("since") || "one hour before the end"} to ${asked.get("until") || "now"}`;
  const by = asked.get("by") ? [`by ${asked.get("by")}`] : [];
  return element("p", "hint", [question, range, ...by, ...said].join(" · "));
}

/** Shows the one answer that the address names. */
async function showQuestion(signal) {
  const question = asked.get("question");
  const params = [...asked].filter(([name]) => name !== "question");
  const answer = await ask(encodeURIComponent(question), params, signal);
  const parts = answer.parts.filter((part) => part.rows.length).flatMap((part) => [element("h3", "", part.name), tableOf(part, null)]);
  const other = answer.other ? element("p", "note", `${whole.format(answer.other.rows)} further rows with ${whole.format(answer.other.samples)} samples.`) : null;
  const next = Object.entries(answer.links.next).flatMap(([name, address]) => [anchor(address, "", name), " "]);
  byId("question-title").textContent = question;
  putLink("question", answer);
  put(byId("question"), selection(question), tableOf(answer, answer), other, ...notes(answer), ...parts,
    element("p", "hint", "Also about these: ", ...next));
  return answer;
}

/** Brings what is chosen above to what the address says. */
function choose() {
  const select = byId("since");
  const since = asked.get("since");
  if (asked.get("until") || (since && ![...select.options].some((option) => option.value === since))) {
    const fixed = element("option", "", `${since || "an hour"} to ${asked.get("until") || "now"}`);
    fixed.value = "fixed";
    select.append(fixed);
    select.value = "fixed";
  } else if (since) {
    select.value = since;
  }
  const host = asked.get("host");
  if (host) offerHosts([host], host);
  byId("remote").checked = asked.get("locality") === "remote";
  if ([...byId("by").options].some((option) => option.value === asked.get("by"))) byId("by").value = asked.get("by");
  if (asked.get("sql")) byId("sql").value = asked.get("sql");
}

/** The range that is chosen: of the list, or that of the address. */
function range() {
  const since = byId("since").value;
  if (since !== "fixed") return { since };
  return Object.fromEntries(["since", "until"].filter((name) => asked.get(name)).map((name) => [name, asked.get(name)]));
}

/** Keeps the address in step with what is chosen, so that it can be passed on. */
function remember() {
  const params = new URLSearchParams(filters());
  if (byId("by").value !== "samples") params.set("by", byId("by").value);
  if (asked.get("sql")) params.set("sql", asked.get("sql"));
  history.replaceState(null, "", `/?${params}`);
}
