// The messages of the connection, and the notifications among them. Each list keeps the newest entries.

import { element, jsonBlock } from "./dom.js";

const MOST_ENTRIES = 500;
const MOST_CHARACTERS = 200_000; // of one shown message

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false };

function time() {
  const now = new Date();
  return element("time", { datetime: now.toISOString() }, now.toLocaleTimeString("en-GB", TIME));
}

/** A list with a bounded number of entries. */
class EntryList {
  #panel;
  #count;
  #total = 0;

  constructor(name) {
    this.#panel = document.getElementById(`panel-${name}`);
    this.#count = document.getElementById(`count-${name}`);
  }

  add(entry) {
    const list = this.#panel.querySelector("ol");
    const atEnd = this.#panel.scrollHeight - this.#panel.scrollTop - this.#panel.clientHeight < 40;
    list.append(entry);
    this.#total++;
    while (list.children.length > MOST_ENTRIES) {
      list.firstElementChild.remove();
    }
    const removed = this.#total - list.children.length;
    const note = this.#panel.querySelector(".older");
    note.hidden = removed === 0;
    note.textContent = `${removed} older entries were removed.`;
    this.#count.textContent = String(this.#total);
    if (atEnd) {
      this.#panel.scrollTop = this.#panel.scrollHeight;
    }
  }

  clear() {
    this.#panel.querySelector("ol").replaceChildren();
    this.#panel.querySelector(".older").hidden = true;
    this.#total = 0;
    this.#count.textContent = "0";
  }
}

/** The messages and the notifications. */
export class Activity {
  #messages = new EntryList("messages");
  #notifications = new EntryList("notifications");
  #methods = new Map();

  /** Show a message. `direction` is `sent` or `received`. */
  message(direction, text) {
    const shown = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}` : text;
    const block = jsonBlock(shown, "Message");
    if (shown !== text) {
      block.append(`\n… ${text.length - shown.length} more characters`);
    }
    const summary = element(
      "summary",
      {},
      element("span", { class: `direction ${direction}` }, direction === "sent" ? "→ sent" : "← received"),
      element("span", { class: "what" }, this.#title(direction, text)),
      time(),
    );
    this.#messages.add(element("li", {}, element("details", { class: "message" }, summary, block)));
  }

  /** Show an event of the connection that is not a message. */
  event(text) {
    this.#messages.add(element("li", { class: "event" }, element("span", { class: "what" }, text), time()));
  }

  notification(method, params) {
    const known = SHOWN[method];
    const { label, level, text } = known ? known(params) : { label: method.replace("notifications/", ""), text: JSON.stringify(params) };
    this.#notifications.add(
      element("li", { class: "notification" }, element("span", { class: `badge ${level ?? ""}` }, label), element("span", { class: "text" }, text), time()),
    );
  }

  clear() {
    this.#messages.clear();
    this.#notifications.clear();
  }

  forgetRequests() {
    this.#methods.clear();
  }

  #title(direction, text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return "text that is not JSON";
    }
    if (Array.isArray(message)) {
      return `batch of ${message.length}`;
    }
    const name = message.params?.name ?? message.params?.uri ?? "";
    if (message.method !== undefined) {
      if (message.id !== undefined) {
        this.#methods.set(`${direction} ${message.id}`, message.method);
      }
      return [message.method, name, message.id === undefined ? "" : `#${message.id}`].filter(Boolean).join(" ");
    }
    // A response has the id of a request in the other direction.
    const key = `${direction === "sent" ? "received" : "sent"} ${message.id}`;
    const method = this.#methods.get(key) ?? "a request";
    this.#methods.delete(key);
    const kind = message.error ? "error of" : message.result?.resultType === "input_required" ? "input required by" : "result of";
    return `${kind} ${method}${message.id === undefined ? "" : ` #${message.id}`}`;
  }
}

const asText = (data) => (typeof data === "string" ? data : JSON.stringify(data));
const listChanged = (what) => () => ({ label: "list changed", text: what });

const SHOWN = {
  "notifications/message": ({ level, logger, data }) => ({ label: level, level, text: `${logger ? `${logger}: ` : ""}${asText(data)}` }),
  "notifications/progress": ({ progress, total, message }) => ({
    label: "progress",
    text: [total === undefined ? String(progress) : `${progress} of ${total}`, message].filter(Boolean).join(": "),
  }),
  "notifications/tools/list_changed": listChanged("tools"),
  "notifications/resources/list_changed": listChanged("resources"),
  "notifications/prompts/list_changed": listChanged("prompts"),
  "notifications/resources/updated": ({ uri }) => ({ label: "updated", text: uri }),
  "notifications/elicitation/complete": ({ elicitationId }) => ({ label: "completed", text: `elicitation ${elicitationId}` }),
  "notifications/subscriptions/acknowledged": ({ notifications }) => ({ label: "subscribed", text: Object.keys(notifications ?? {}).join(", ") }),
};
