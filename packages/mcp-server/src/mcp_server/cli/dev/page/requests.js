// Requests of the server to the client, which the user answers: elicitation, sampling and roots.
// Spec: client/elicitation, client/sampling, client/roots

import { element, jsonBlock, newId } from "./dom.js";
import { SchemaForm } from "./forms.js";
import { conversation } from "./results.js";

const REJECTED = -1; // the code of the specification's example for sampling that the user rejects
const NOT_FOUND = -32601;
const MOST_REQUESTS = 20;

class Rejected extends Error {
  constructor(message, code = REJECTED) {
    super(message);
    this.code = code;
  }
}

/** The place on the page where the user answers requests. */
export class ClientRequests {
  #place = document.getElementById("requests");

  /** Show a request, and return the promise of the user's result. It is rejected when `signal` is aborted. */
  ask(method, params, signal) {
    const show = METHODS[method];
    if (!show) {
      return Promise.reject(new Rejected(`The inspector has no method ${method}.`, NOT_FOUND));
    }
    if (this.#place.children.length >= MOST_REQUESTS) {
      return Promise.reject(new Rejected("Too many requests of the server wait for the user."));
    }
    return new Promise((resolve, reject) => {
      const id = newId("request");
      const heading = element("h2", { id, tabindex: "-1" });
      const panel = element("section", { class: "request", "aria-labelledby": id }, heading);
      const finish = (settle) => (value) => {
        panel.remove();
        settle(value);
      };
      const [title, ...content] = show(params, finish(resolve), finish(reject));
      heading.textContent = title;
      panel.append(...content);
      this.#place.append(panel);
      heading.focus();
      signal?.addEventListener("abort", () => finish(reject)(signal.reason));
    });
  }
}

const button = (text, act, kind = "button") => element("button", { type: "button", class: kind, click: act }, text);

function elicitation(params, resolve) {
  const rest = [button("Decline", () => resolve({ action: "decline" })), button("Cancel", () => resolve({ action: "cancel" }))];
  if (params.mode === "url") {
    return elicitationOfUrl(params, resolve, rest);
  }
  const form = new SchemaForm(params.requestedSchema);
  const accept = (event) => {
    event.preventDefault();
    const content = form.read();
    if (content !== null) {
      resolve({ action: "accept", content });
    }
  };
  return [
    "The server asks for input",
    element("p", { class: "message-text" }, params.message),
    element("form", { novalidate: true, submit: accept }, form.element, element("div", { class: "buttons" }, element("button", { type: "submit", class: "main" }, "Accept"), ...rest)),
  ];
}

function elicitationOfUrl(params, resolve, rest) {
  const safe = /^https?:\/\//i.test(params.url);
  const open = () => window.open(params.url, "_blank", "noopener,noreferrer");
  return [
    "The server asks you to open a page",
    element("p", { class: "message-text" }, params.message),
    element("p", {}, "The URL comes from the server: ", element("code", {}, params.url)),
    safe ? null : element("p", { class: "problem" }, "This page opens only http and https URLs."),
    element("div", { class: "buttons" }, safe ? button("Open in a new tab", open) : null, button("Accept", () => resolve({ action: "accept" }), "main"), ...rest),
  ].filter(Boolean);
}

function sampling(params, resolve, reject) {
  const id = newId("answer");
  const answer = element("textarea", { id, rows: "3" });
  const send = (event) => {
    event.preventDefault();
    resolve({ role: "assistant", content: { type: "text", text: answer.value }, model: "inspector", stopReason: "endTurn" });
  };
  const { messages, systemPrompt, ...settings } = params;
  return [
    "The server asks for a message of a model",
    systemPrompt ? element("p", { class: "hint" }, `System prompt: ${systemPrompt}`) : null,
    conversation(messages ?? []),
    element("details", {}, element("summary", {}, "Settings"), jsonBlock(settings, "Settings of the request")),
    element(
      "form",
      { novalidate: true, submit: send },
      element("div", { class: "field" }, element("label", { for: id }, "Message of the model"), answer),
      element("div", { class: "buttons" }, element("button", { type: "submit", class: "main" }, "Send"), button("Reject", () => reject(new Rejected("User rejected sampling request")))),
    ),
  ].filter(Boolean);
}

function roots(_, resolve, reject) {
  const id = newId("roots");
  const uris = element("textarea", { id, rows: "2", placeholder: "file:///home/ada/project", spellcheck: "false" });
  const send = (event) => {
    event.preventDefault();
    resolve({ roots: uris.value.split("\n").map((line) => line.trim()).filter(Boolean).map((uri) => ({ uri })) });
  };
  return [
    "The server asks for the roots",
    element(
      "form",
      { novalidate: true, submit: send },
      element("div", { class: "field" }, element("label", { for: id }, "URIs of folders, one per line"), uris),
      element("div", { class: "buttons" }, element("button", { type: "submit", class: "main" }, "Send"), button("Reject", () => reject(new Rejected("User rejected the request")))),
    ),
  ];
}

const METHODS = { "elicitation/create": elicitation, "sampling/createMessage": sampling, "roots/list": roots };
