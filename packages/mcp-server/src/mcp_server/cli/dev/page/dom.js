// Elements of the page. Texts are inserted as text: nothing that a server sends becomes markup.

/** Make an element. `attributes` whose value is a function are event listeners; `false` and `null` are left out. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      made.addEventListener(key, value);
    } else if (value === true) {
      made.setAttribute(key, "");
    } else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(key, value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

let made = 0;

/** Return a new id. */
export function newId(prefix) {
  return `${prefix}-${++made}`;
}

/** Indent the text of JSON. Its numbers are not parsed, so that all their digits are shown. */
export function indented(text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs) ?? [];
  let depth = 0;
  let shown = "";
  tokens.forEach((token, place) => {
    const next = tokens[place + 1];
    if (token === "}" || token === "]") {
      depth--;
      shown += tokens[place - 1] === "{" || tokens[place - 1] === "[" ? token : `\n${"  ".repeat(depth)}${token}`;
      return;
    }
    const before = tokens[place - 1];
    if (before === "{" || before === "[" || before === ",") {
      shown += `\n${"  ".repeat(depth)}`;
    }
    shown += token === ":" ? ": " : token;
    if ((token === "{" || token === "[") && next !== undefined) {
      depth++;
    }
  });
  return shown;
}

/** Show JSON. */
export function jsonBlock(value, label) {
  return element("pre", { class: "json", tabindex: "0", role: "region", "aria-label": label }, typeof value === "string" ? indented(value) : JSON.stringify(value, null, 2));
}

/** Make the tabs of a list usable: one of them is selected, and the arrow keys move. */
export function connectTabs(list, onSelect = () => {}) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const select = (chosen) => {
    for (const tab of tabs) {
      const selected = tab === chosen;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !selected;
    }
    onSelect(chosen);
  };
  const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  for (const tab of tabs) {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (step === undefined) {
        return;
      }
      event.preventDefault();
      const from = tabs.indexOf(tab);
      const to = Number.isFinite(step) ? (from + step + tabs.length) % tabs.length : step < 0 ? 0 : tabs.length - 1;
      tabs[to].focus();
      select(tabs[to]);
    });
  }
  select(tabs[0]);
}
