// An MCP client in all revisions. Until 2025-11-25 a handshake opens a session; since 2026-07-28 each request carries
// what the server needs to know, and the server asks for input in results.
// Spec: basic/lifecycle; basic/patterns/mrtr, basic/utilities/subscriptions (2026-07-28)

import { Endpoint, HttpFailure, headerValue } from "./streamable_http.js";

const CLIENT = { name: "mcp-server dev", version: "1" };
const META = "io.modelcontextprotocol/";
const MOST_ROUNDS = 100; // of input in one request
const MOST_PAGES = 200; // of a list
const PAUSE = 1000; // milliseconds before a stream that has ended is opened again
const NAMES = { "tools/call": "name", "prompts/get": "name", "resources/read": "uri" };
const NOT_LISTENING = new Set([404, 405]);

/** An error response. */
export class RequestFailed extends Error {
  constructor({ code, message, data }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/**
 * A connection in one revision. `subscribed` is the set of the URIs of resources that the user subscribed to; it
 * outlives the connection.
 *
 * `hooks` has `onMessage(direction, text)` for all messages, `onNotification(method, params)`, and
 * `onRequest(method, params, signal)`, which returns the promise of a result.
 */
export class Client {
  capabilities = {};
  instructions = "";
  logLevel = "debug";
  #endpoint;
  #revision;
  #hooks;
  #pending = new Map();
  #nextId = 1;
  #closed = new AbortController();
  #listening = null;
  #subscribed;
  #asked = new Map();

  constructor(url, revision, subscribed, hooks) {
    this.#revision = revision;
    this.#subscribed = subscribed;
    this.#hooks = hooks;
    this.#endpoint = new Endpoint(url, (text) => this.#receive(text));
  }

  get isModern() {
    return this.#revision.modern;
  }

  get hasCompletionContext() {
    return this.#revision.completionContext;
  }

  async open() {
    if (this.isModern) {
      this.#learn(await this.request("server/discover"));
    } else {
      const params = { protocolVersion: this.#revision.name, capabilities: this.#revision.capabilities, clientInfo: CLIENT };
      const result = await this.request("initialize", params);
      if (result.protocolVersion !== this.#revision.name) {
        throw new Error(`The server does not support revision ${this.#revision.name}; it responds with ${result.protocolVersion}.`);
      }
      this.#learn(result);
      await this.notify("notifications/initialized");
      if (this.capabilities.logging) {
        await this.request("logging/setLevel", { level: this.logLevel });
      }
      for (const uri of this.#subscribed) {
        await this.request("resources/subscribe", { uri }).catch(() => this.#subscribed.delete(uri));
      }
    }
    this.#listen();
  }

  close() {
    if (!this.#closed.signal.aborted) {
      this.#closed.abort();
      this.#endpoint.close(this.#headers());
    }
  }

  async setLogLevel(level) {
    this.logLevel = level;
    if (!this.isModern && this.capabilities.logging) {
      await this.request("logging/setLevel", { level });
    }
  }

  /** Return all pages of a list. */
  async list(method, member) {
    const found = [];
    let cursor;
    for (let page = 0; page < MOST_PAGES; page++) {
      const result = await this.request(method, cursor === undefined ? {} : { cursor });
      found.push(...(result[member] ?? []));
      cursor = result.nextCursor;
      if (cursor === undefined || cursor === null) {
        break;
      }
    }
    return found;
  }

  async subscribe(uri, wanted) {
    this.#subscribed[wanted ? "add" : "delete"](uri);
    if (this.isModern) {
      this.#listen();
    } else {
      await this.request(wanted ? "resources/subscribe" : "resources/unsubscribe", { uri });
    }
  }

  isSubscribed(uri) {
    return this.#subscribed.has(uri);
  }

  /** Send a request, and repeat it with the user's input while the server requires input. */
  async requestWithInput(method, params, options = {}) {
    let input = {};
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const result = await this.request(method, { ...params, ...input }, options);
      if (result.resultType !== "input_required") {
        return result;
      }
      const inputResponses = {};
      for (const [key, asked] of Object.entries(result.inputRequests ?? {})) {
        inputResponses[key] = await this.#hooks.onRequest(asked.method, asked.params ?? {}, options.signal);
      }
      input = { inputResponses, ...(result.requestState === undefined ? {} : { requestState: result.requestState }) };
    }
    throw new Error(`The server required input ${MOST_ROUNDS} times for one request.`);
  }

  /** Send a request and return its result. `options` has `onProgress`, `signal` and `headers`. */
  async request(method, params = {}, { onProgress, signal, headers } = {}) {
    const id = this.#nextId++;
    const meta = { ...this.#meta(), ...(onProgress ? { progressToken: id } : {}) };
    const message = { jsonrpc: "2.0", id, method, params: { ...params, ...(Object.keys(meta).length ? { _meta: meta } : {}) } };
    const ended = AbortSignal.any([this.#closed.signal, ...(signal ? [signal] : [])]);
    const response = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject, onProgress }));
    this.#exchange(message, headers, ended).then(
      () => this.#settle(id, "reject", new Error("The server closed the stream without a response.")),
      (error) => this.#settle(id, "reject", error),
    );
    try {
      return await response;
    } catch (error) {
      if (signal?.aborted && !this.isModern) {
        this.notify("notifications/cancelled", { requestId: id, reason: "cancelled by the user" }).catch(() => {});
      }
      throw error;
    }
  }

  async notify(method, params) {
    await this.#send({ jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) });
  }

  async #exchange(message, headers, signal) {
    let last = await this.#send(message, headers, signal);
    // A server may close the stream of a pending request. The client fetches the rest.
    while (last !== null && this.#pending.has(message.id) && !this.isModern) {
      await sleep(PAUSE, signal);
      last = (await this.#endpoint.listen(this.#headers(), last, signal)) ?? last;
    }
  }

  async #send(message, headers = {}, signal = this.#closed.signal) {
    const text = JSON.stringify(message);
    this.#hooks.onMessage("sent", text);
    return await this.#endpoint.post(text, { ...this.#headers(message), ...headers }, signal);
  }

  #headers(message = null) {
    if (!this.isModern) {
      return this.#endpoint.hasSession ? { "MCP-Protocol-Version": this.#revision.name } : {};
    }
    const name = message?.params?.[NAMES[message.method]];
    return {
      "MCP-Protocol-Version": this.#revision.name,
      ...(message?.method ? { "Mcp-Method": message.method } : {}),
      ...(name === undefined ? {} : { "Mcp-Name": headerValue(name) }),
    };
  }

  #meta() {
    if (!this.isModern) {
      return {};
    }
    return {
      [`${META}protocolVersion`]: this.#revision.name,
      [`${META}clientInfo`]: CLIENT,
      [`${META}clientCapabilities`]: this.#revision.capabilities,
      [`${META}logLevel`]: this.logLevel,
    };
  }

  #learn(result) {
    this.capabilities = result.capabilities ?? {};
    this.instructions = result.instructions ?? "";
  }

  /** Receive what belongs to no request, until the connection is closed. */
  #listen() {
    this.#listening?.abort();
    this.#listening = new AbortController();
    const signal = AbortSignal.any([this.#closed.signal, this.#listening.signal]);
    const once = this.isModern ? () => this.#listenModern(signal) : (last) => this.#endpoint.listen(this.#headers(), last, signal);
    const run = async () => {
      let last = null;
      while (!signal.aborted) {
        try {
          last = (await once(last)) ?? last;
        } catch (error) {
          if (signal.aborted || (error instanceof HttpFailure && NOT_LISTENING.has(error.status))) {
            return;
          }
        }
        await sleep(PAUSE, signal);
      }
    };
    run().catch(() => {});
  }

  async #listenModern(signal) {
    const { tools, prompts, resources } = this.capabilities;
    const notifications = {
      ...(tools?.listChanged ? { toolsListChanged: true } : {}),
      ...(prompts?.listChanged ? { promptsListChanged: true } : {}),
      ...(resources?.listChanged ? { resourcesListChanged: true } : {}),
      ...(this.#subscribed.size ? { resourceSubscriptions: [...this.#subscribed] } : {}),
    };
    if (Object.keys(notifications).length) {
      await this.request("subscriptions/listen", { notifications }, { signal });
    } else {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    }
    return null;
  }

  #receive(text) {
    this.#hooks.onMessage("received", text);
    let messages;
    try {
      messages = [JSON.parse(text)].flat();
    } catch {
      return; // the list of messages shows it
    }
    for (const message of messages) {
      if (message.method === undefined) {
        const [how, value] = message.error ? ["reject", new RequestFailed(message.error)] : ["resolve", message.result];
        this.#settle(message.id, how, value);
      } else if (message.id === undefined) {
        if (message.method === "notifications/progress") {
          this.#pending.get(message.params?.progressToken)?.onProgress?.(message.params);
        } else if (message.method === "notifications/cancelled") {
          this.#asked.get(message.params?.requestId)?.abort(new Error("The server has cancelled the request."));
        }
        this.#hooks.onNotification(message.method, message.params ?? {});
      } else {
        this.#respond(message);
      }
    }
  }

  async #respond({ id, method, params }) {
    const cancelled = new AbortController();
    this.#asked.set(id, cancelled);
    const signal = AbortSignal.any([this.#closed.signal, cancelled.signal]);
    let response;
    try {
      response = { result: method === "ping" ? {} : await this.#hooks.onRequest(method, params ?? {}, signal) };
    } catch (error) {
      response = { error: { code: error.code ?? -1, message: error.message } };
    }
    this.#asked.delete(id);
    if (!signal.aborted) {
      await this.#send({ jsonrpc: "2.0", id, ...response }).catch(() => {});
    }
  }

  #settle(id, how, value) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.[how](value);
  }
}

/** Return the headers that repeat arguments of a tool. Spec: basic/transports/streamable-http#schema-extension */
export function headerParameters(schema, values) {
  const found = {};
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const value = values?.[name];
    if (value === null || value === undefined) {
      continue;
    }
    const header = property?.["x-mcp-header"];
    if (typeof header === "string" && typeof value !== "object") {
      found[`Mcp-Param-${header}`] = headerValue(String(value));
    } else if (typeof value === "object") {
      Object.assign(found, headerParameters(property, value));
    }
  }
  return found;
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
