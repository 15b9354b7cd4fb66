// The inspector: connects to the server after each load, lists what it offers, and shows the selected item.

import { Activity } from "./activity.js";
import { Client } from "./client.js";
import { connectTabs, element } from "./dom.js";
import { keyOf, makeView } from "./items.js";
import { ClientRequests } from "./requests.js";

const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/** The lists of the server: the capability, the method, the member of the result, the kind of its items, and the tab. */
const LISTS = [
  { capability: "tools", method: "tools/list", member: "tools", kind: "tool", tab: "tools" },
  { capability: "resources", method: "resources/list", member: "resources", kind: "resource", tab: "resources" },
  { capability: "resources", method: "resources/templates/list", member: "resourceTemplates", kind: "resource", tab: "resources" },
  { capability: "prompts", method: "prompts/list", member: "prompts", kind: "prompt", tab: "prompts" },
];
const TABS = { tools: "tools", resources: "resources", prompts: "prompts" };
const CHANGES = {
  "notifications/tools/list_changed": "tools",
  "notifications/resources/list_changed": "resources",
  "notifications/prompts/list_changed": "prompts",
};

const page = (id) => document.getElementById(id);
const activity = new Activity();
const requests = new ClientRequests();

let state = null; // of the server, as the event stream describes it
let client = null;
let isOpen = false;
let attempt = 0;
const known = new Map(); // by tab: the definitions by key, as listed last
const lists = { tools: [], resources: [], prompts: [] };
const changed = new Map(); // key: "new" or "changed"
const subscribed = new Set(); // URIs of resources
const views = new Map(); // by key, of items that were selected
let selected = null; // one of the views

// --- status ------------------------------------------------------------------------------------------------------

function showStatus(kind, text) {
  page("status").dataset.kind = kind;
  page("status-text").textContent = text;
}

function showFailure(failure) {
  const box = page("failure");
  box.hidden = failure === null;
  if (failure === null) {
    box.replaceChildren();
    return;
  }
  const place = failure.file === null ? "" : `${failure.file}${failure.line === null ? "" : `:${failure.line}`}`;
  box.replaceChildren(
    element("h2", {}, "The server is not served"),
    place ? element("p", {}, element("code", { class: "place" }, place)) : "",
    element("p", { class: "failure-message" }, failure.message),
    failure.traceback ? element("details", { open: true }, element("summary", {}, "Traceback"), element("pre", { tabindex: "0", role: "region", "aria-label": "Traceback" }, failure.traceback)) : "",
    element("p", { class: "hint" }, "The page connects again when the file is corrected."),
  );
}

// --- connection --------------------------------------------------------------------------------------------------

function connection() {
  if (client === null || !isOpen) {
    throw new Error("The server is not connected. The status above says why.");
  }
  return client;
}

function disconnect() {
  attempt++;
  isOpen = false;
  client?.close();
  client = null;
}

async function connect() {
  disconnect();
  const mine = attempt;
  const revision = state.revisions.find(({ name }) => name === page("revision").value);
  showStatus("busy", "Connecting");
  activity.forgetRequests();
  activity.event(`connecting, revision ${revision.name}`);
  const current = new Client(`${state.endpoint}/mcp`, revision, subscribed, {
    onMessage: (direction, text) => activity.message(direction, text),
    onNotification: (method, params) => {
      activity.notification(method, params);
      const tab = CHANGES[method];
      if (tab && mine === attempt && isOpen) {
        refresh(mine, LISTS.filter((each) => each.tab === tab)).catch(() => {});
      }
    },
    onRequest: (method, params, signal) => requests.ask(method, params, signal),
  });
  current.logLevel = page("log-level").value;
  client = current;
  try {
    await current.open();
    isOpen = mine === attempt;
    await refresh(mine, LISTS);
  } catch (error) {
    if (mine === attempt) {
      activity.event(`not connected: ${error.message}`);
      showStatus("bad", `Not connected: ${error.message}`);
    }
    return;
  }
  if (mine === attempt) {
    showStatus("good", `Connected${summary()}`);
  }
}

function summary() {
  const counts = ["new", "changed"].map((word) => [[...changed.values()].filter((each) => each === word).length, word]);
  const text = counts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`).join(", ");
  return text ? `, ${text}` : "";
}

// --- lists -------------------------------------------------------------------------------------------------------

async function refresh(mine, wanted) {
  const found = await Promise.all(
    wanted.map(async (each) => (client.capabilities[each.capability] ? (await client.list(each.method, each.member)).map((item) => ({ kind: each.kind, item, tab: each.tab })) : [])),
  );
  if (mine !== attempt) {
    return;
  }
  for (const tab of new Set(wanted.map((each) => each.tab))) {
    lists[tab] = found.flat().filter((each) => each.tab === tab);
    compare(tab);
    showList(tab);
  }
  refreshSelected();
}

/** Note which items of a list are new or changed since they were listed last. */
function compare(tab) {
  const before = known.get(tab);
  const now = new Map(lists[tab].map(({ kind, item }) => [keyOf(kind, item), JSON.stringify(item)]));
  known.set(tab, now);
  for (const key of before?.keys() ?? []) {
    changed.delete(key);
    if (!now.has(key)) {
      views.delete(key);
    }
  }
  for (const [key, definition] of before ? now : []) {
    if (before.get(key) !== definition) {
      changed.set(key, before.has(key) ? "changed" : "new");
    }
  }
}

function showList(tab) {
  const focused = document.activeElement?.dataset?.key;
  page(`count-${tab}`).textContent = String(lists[tab].length);
  const entries = lists[tab].map(({ kind, item }) => {
    const key = keyOf(kind, item);
    const mark = changed.get(key);
    const name = item.uriTemplate ?? item.uri ?? item.name;
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: "entry", "data-key": key, "aria-current": selected?.key === key ? "true" : null, click: () => select(kind, item) },
        element("span", { class: "name" }, name, mark ? element("span", { class: "badge mark" }, mark) : null),
        item.title || item.description ? element("span", { class: "summary" }, item.title || item.description.split("\n")[0]) : null,
      ),
    );
  });
  page(`list-${tab}`).replaceChildren(entries.length ? element("ul", {}, ...entries) : element("p", { class: "empty" }, `The server offers no ${TABS[tab]}.`));
  if (focused) {
    page(`list-${tab}`).querySelector(`[data-key=${CSS.escape(focused)}]`)?.focus();
  }
}

function select(kind, item, focus = true) {
  selected = viewOf(kind, item);
  page("item").replaceChildren(selected.element);
  for (const entry of document.querySelectorAll(".entry")) {
    if (entry.dataset.key === selected.key) {
      entry.setAttribute("aria-current", "true");
    } else {
      entry.removeAttribute("aria-current");
    }
  }
  if (focus) {
    selected.heading.focus();
    selected.heading.scrollIntoView({ block: "nearest" });
  }
}

/** Return the view of an item: the one that was shown before, with its result, or a new one with the same values. */
function viewOf(kind, item) {
  const before = views.get(keyOf(kind, item));
  if (before && JSON.stringify(before.item) === JSON.stringify(item)) {
    return before;
  }
  const made = makeView(kind, item, connection);
  if (before) {
    made.restore(before.draft());
  }
  views.set(made.key, made);
  return made;
}

/** After a reload: show the selected item as it is now. */
function refreshSelected() {
  if (selected === null) {
    return;
  }
  const found = Object.values(lists).flat().find(({ kind, item }) => keyOf(kind, item) === selected.key);
  if (found === undefined) {
    selected = null;
    page("item").replaceChildren(element("p", { class: "empty" }, "The server no longer offers the selected item."));
  } else if (JSON.stringify(found.item) !== JSON.stringify(selected.item)) {
    select(found.kind, found.item, false);
  }
}

// --- the state of the server -------------------------------------------------------------------------------------

function enter(next) {
  const first = state === null;
  state = next;
  if (first) {
    const names = state.revisions.map(({ name }) => name);
    page("revision").replaceChildren(...names.reverse().map((name) => element("option", { value: name }, name)));
  }
  showFailure(state.failure);
  if (state.status === "serving") {
    page("server").textContent = `${state.name} ${state.version}`;
    document.title = `${state.name} – Inspector`;
    connect();
  } else {
    disconnect();
    const [kind, text] = state.status === "loading" ? ["busy", "Loading the server"] : ["bad", "Not served"];
    showStatus(kind, text);
    activity.event(text.toLowerCase());
  }
}

connectTabs(page("kinds"));
connectTabs(page("activity-tabs"));
page("clear").addEventListener("click", () => activity.clear());
page("log-level").replaceChildren(...LEVELS.map((level) => element("option", { value: level }, level)));
page("log-level").addEventListener("change", (event) => client?.setLogLevel(event.target.value).catch(() => {}));
page("revision").addEventListener("change", () => {
  if (state?.status === "serving") {
    connect();
  }
});

const states = new EventSource("events");
states.addEventListener("message", (event) => enter(JSON.parse(event.data)));
states.addEventListener("error", () => {
  disconnect();
  showStatus("bad", "mcp-server dev does not respond. If it has ended, start it again and open its new URL.");
});
addEventListener("pagehide", disconnect);
