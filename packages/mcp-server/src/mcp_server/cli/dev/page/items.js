// The views of one tool, resource, resource template or prompt: what it is, a form, and the result of using it.

import { headerParameters } from "./client.js";
import { element, jsonBlock, newId } from "./dom.js";
import { SchemaForm } from "./forms.js";
import { failure, promptResult, resourceResult, toolResult } from "./results.js";
import { expand, variables } from "./uri_templates.js";

const TYPING = 150; // milliseconds without a key before values are completed
const HINTS = { readOnlyHint: "read-only", destructiveHint: "destructive", idempotentHint: "idempotent", openWorldHint: "open world" };

/** What all views have in common. `connection()` returns the current client, or throws an error for the user. */
class ItemView {
  constructor(kind, item, connection) {
    this.item = item;
    this.connection = connection;
    this.key = keyOf(kind, item);
    this.outcome = element("section", { class: "result", "aria-live": "polite", "aria-label": "Result" });
    const name = item.name ?? item.uri;
    const hints = Object.entries(HINTS).filter(([hint]) => item.annotations?.[hint] === true).map(([, text]) => element("span", { class: "badge" }, text));
    this.heading = element("h2", { tabindex: "-1" }, item.title && item.title !== name ? `${item.title} ` : "", item.title && item.title !== name ? element("code", {}, name) : name, ...hints);
    const submitByKey = (event) => {
      // Enter starts a new line in a field for long text.
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        event.target.form?.requestSubmit();
      }
    };
    this.element = element("article", { class: "view", keydown: submitByKey }, this.heading, item.description ? element("p", { class: "description" }, item.description) : null);
  }

  /** Use the item. `send` returns the promise of a result, `show` its elements. */
  async run(send, show, submit) {
    const running = new AbortController();
    const started = performance.now();
    const bar = element("progress", { "aria-label": "Progress" });
    const text = element("span", { class: "hint" }, "Waiting for the server");
    const cancel = element("button", { type: "button", click: () => running.abort(new Error("Cancelled.")) }, "Cancel the request");
    this.outcome.replaceChildren(element("div", { class: "running" }, bar, text, cancel));
    submit.disabled = true;
    const onProgress = ({ progress, total, message }) => {
      if (total > 0) {
        bar.max = total;
        bar.value = progress;
      }
      text.textContent = [total === undefined ? String(progress) : `${progress} of ${total}`, message].filter(Boolean).join(": ");
    };
    try {
      const result = await send(this.connection(), { signal: running.signal, onProgress });
      this.#show(show(result, performance.now() - started));
    } catch (error) {
      this.#show(failure(error));
    } finally {
      submit.disabled = false;
    }
  }

  #show(elements) {
    this.outcome.replaceChildren(element("h3", {}, "Result"), ...elements.filter(Boolean));
  }

}

/** Identify an item over reloads. */
export function keyOf(kind, item) {
  return `${kind} ${item.uriTemplate ?? item.uri ?? item.name}`;
}

class ToolView extends ItemView {
  #form;
  #editor;
  #asJson = false;

  constructor(item, connection) {
    super("tool", item, connection);
    const id = newId("json");
    this.#form = new SchemaForm(item.inputSchema);
    const area = element("textarea", { id, rows: "8", class: "code", spellcheck: "false", "aria-describedby": `${id}-problem` });
    const problem = element("p", { class: "problem", id: `${id}-problem`, hidden: true });
    this.#editor = { area, problem, element: element("div", { class: "field", hidden: true }, element("label", { for: id }, "Arguments, as JSON"), problem, area) };
    const call = element("button", { type: "submit", class: "main", title: "Ctrl+Enter", "aria-keyshortcuts": "Control+Enter" }, "Call");
    const toggle = element("button", { type: "button", "aria-pressed": "false", click: () => this.#toggle(toggle) }, "Edit as JSON");
    const submit = (event) => {
      event.preventDefault();
      const values = this.#asJson ? this.#parsed() : this.#form.read();
      if (values !== null) {
        const headers = (client) => (client.isModern ? headerParameters(item.inputSchema, values) : {});
        const send = (client, options) => client.requestWithInput("tools/call", { name: item.name, arguments: values }, { ...options, headers: headers(client) });
        this.run(send, toolResult, call);
      }
    };
    this.element.append(
      element("form", { novalidate: true, submit }, this.#form.element, this.#editor.element, element("div", { class: "buttons" }, call, toggle)),
      this.outcome,
      element("details", {}, element("summary", {}, "Definition as JSON"), jsonBlock(item, "Definition as JSON")),
    );
  }

  #toggle(button) {
    const { area, element: editor } = this.#editor;
    if (this.#asJson) {
      const values = this.#parsed();
      if (values === null) {
        return;
      }
      this.#form.write(values);
    } else {
      area.value = JSON.stringify(this.#form.draft(), null, 2);
    }
    this.#asJson = !this.#asJson;
    editor.hidden = !this.#asJson;
    this.#form.element.hidden = this.#asJson;
    button.setAttribute("aria-pressed", String(this.#asJson));
  }

  /** Return the arguments of the editor, or `null` after showing the problem. */
  #parsed() {
    const { area, problem } = this.#editor;
    let found = null;
    let text = "";
    try {
      const values = JSON.parse(area.value || "{}");
      if (values === null || typeof values !== "object" || Array.isArray(values)) {
        text = "The arguments must be an object: { … }";
      } else {
        found = values;
      }
    } catch (error) {
      text = `This is not JSON: ${error.message}`;
    }
    problem.textContent = text;
    problem.hidden = !text;
    area.setAttribute("aria-invalid", String(Boolean(text)));
    if (text) {
      area.focus();
    }
    return found;
  }

  draft() {
    return this.#form.draft();
  }

  restore(values) {
    this.#form.write({ ...this.#form.draft(), ...values });
  }
}

/** A form with a text for each name, with completions of the server. */
class TextForm {
  #inputs = new Map();

  constructor(names, { ref, connection }) {
    this.element = element("div", { class: "fields" });
    for (const { name, description, required } of names) {
      const id = newId("argument");
      const list = element("datalist", { id: `${id}-list` });
      const input = element("input", { id, type: "text", list: list.id, autocomplete: "off", spellcheck: "false", "aria-required": String(Boolean(required)), "aria-describedby": description ? `${id}-hint` : null });
      let timer;
      const complete = () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.#complete(name, input, list, ref, connection), TYPING);
      };
      input.addEventListener("input", complete);
      input.addEventListener("focus", complete);
      this.#inputs.set(name, input);
      this.element.append(
        element(
          "div",
          { class: "field" },
          element("div", { class: "label" }, element("label", { for: id }, name), element("span", { class: "kind" }, required ? "text, required" : "text")),
          description ? element("p", { class: "hint", id: `${id}-hint` }, description) : null,
          input,
          list,
        ),
      );
    }
  }

  async #complete(name, input, list, ref, connection) {
    try {
      const client = connection();
      if (!client.capabilities.completions) {
        return;
      }
      const { [name]: value = "", ...known } = this.values();
      const context = Object.keys(known).length && client.hasCompletionContext ? { context: { arguments: known } } : {};
      const { completion } = await client.request("completion/complete", { ref, argument: { name, value }, ...context });
      list.replaceChildren(...completion.values.map((each) => element("option", { value: each })));
    } catch {
      list.replaceChildren(); // the list of messages shows the error
    }
  }

  /** Return the texts that are not empty. */
  values() {
    return Object.fromEntries([...this.#inputs].filter(([, input]) => input.value !== "").map(([name, input]) => [name, input.value]));
  }

  write(values) {
    for (const [name, input] of this.#inputs) {
      input.value = values[name] ?? "";
    }
  }
}

class PromptView extends ItemView {
  #form;

  constructor(item, connection) {
    super("prompt", item, connection);
    this.#form = new TextForm(item.arguments ?? [], { ref: { type: "ref/prompt", name: item.name }, connection });
    const get = element("button", { type: "submit", class: "main" }, "Get");
    const submit = (event) => {
      event.preventDefault();
      const params = { name: item.name, arguments: this.#form.values() };
      this.run((client, options) => client.requestWithInput("prompts/get", params, options), promptResult, get);
    };
    this.element.append(element("form", { novalidate: true, submit }, this.#form.element, element("div", { class: "buttons" }, get)), this.outcome);
  }

  draft() {
    return this.#form.values();
  }

  restore(values) {
    this.#form.write(values);
  }
}

class ResourceView extends ItemView {
  #form;

  constructor(item, connection) {
    super("resource", item, connection);
    const template = item.uriTemplate;
    const names = template === undefined ? [] : variables(template).map((name) => ({ name }));
    this.#form = new TextForm(names, { ref: { type: "ref/resource", uri: template }, connection });
    const uri = () => (template === undefined ? item.uri : expand(template, this.#form.values()));
    const shown = element("code", {}, template ?? item.uri);
    this.#form.element.addEventListener("input", () => (shown.textContent = uri()));
    const read = element("button", { type: "submit", class: "main" }, "Read");
    const submit = (event) => {
      event.preventDefault();
      this.run((client, options) => client.requestWithInput("resources/read", { uri: uri() }, options), resourceResult, read);
    };
    this.element.append(
      element("p", { class: "uri" }, shown, item.mimeType ? ` ${item.mimeType}` : ""),
      element("form", { novalidate: true, submit }, this.#form.element, element("div", { class: "buttons" }, read, template === undefined ? this.#subscription(item.uri) : null)),
      this.outcome,
    );
  }

  #subscription(uri) {
    const toggle = async () => {
      try {
        const client = this.connection();
        await client.subscribe(uri, !client.isSubscribed(uri));
        button.setAttribute("aria-pressed", String(client.isSubscribed(uri)));
      } catch (error) {
        this.outcome.replaceChildren(...failure(error).filter(Boolean));
      }
    };
    const button = element("button", { type: "button", "aria-pressed": "false", click: toggle }, "Subscribe to changes");
    return button;
  }

  draft() {
    return this.#form.values();
  }

  restore(values) {
    this.#form.write(values);
  }
}

const VIEWS = { tool: ToolView, prompt: PromptView, resource: ResourceView };

/** Make the view of an item. */
export function makeView(kind, item, connection) {
  return new VIEWS[kind](item, connection);
}
