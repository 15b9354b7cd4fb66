// Streamable HTTP in a browser: one POST for each message, and server-sent events for what the server sends.
// Spec: basic/transports/streamable-http; https://html.spec.whatwg.org/multipage/server-sent-events.html

const STREAM = "text/event-stream";
const LONGEST_EVENT = 32 * 1024 * 1024; // characters

/** A response of the endpoint that is not a message. */
export class HttpFailure extends Error {
  constructor(status, text) {
    super(`HTTP status ${status}${text ? `: ${text}` : ""}`);
    this.status = status;
  }
}

/** The endpoint of a server. `receive` gets the text of each message of the server. */
export class Endpoint {
  #url;
  #receive;
  #session = null;

  constructor(url, receive) {
    this.#url = url;
    this.#receive = receive;
  }

  get hasSession() {
    return this.#session !== null;
  }

  /** Send the text of a message, and return when the server has sent everything that belongs to it. */
  async post(text, headers, signal) {
    const response = await this.#fetch("POST", { "Content-Type": "application/json", Accept: `application/json, ${STREAM}`, ...headers }, text, signal);
    this.#session ??= response.headers.get("Mcp-Session-Id");
    const type = response.headers.get("Content-Type") ?? "";
    if (type.startsWith(STREAM)) {
      return await this.#read(response);
    }
    const body = await response.text();
    if (type.startsWith("application/json") && body) {
      this.#receive(body);
    } else if (!response.ok) {
      throw new HttpFailure(response.status, body.slice(0, 500).trim());
    }
    return null;
  }

  /** Receive messages of the server that belong to no request, or the rest of a stream after an event. */
  async listen(headers, lastEvent, signal) {
    const resumed = lastEvent === null ? {} : { "Last-Event-ID": lastEvent };
    const response = await this.#fetch("GET", { Accept: STREAM, ...headers, ...resumed }, null, signal);
    if (!response.ok) {
      throw new HttpFailure(response.status, (await response.text()).slice(0, 500).trim());
    }
    return await this.#read(response);
  }

  /** End the session. The page does not wait for the response. */
  close(headers) {
    if (this.#session !== null) {
      this.#fetch("DELETE", headers, null, undefined, true).catch(() => {});
    }
  }

  async #fetch(method, headers, body, signal, keepalive = false) {
    const session = this.#session === null ? {} : { "Mcp-Session-Id": this.#session };
    return await fetch(this.#url, { method, headers: { ...headers, ...session }, body, signal, keepalive, cache: "no-store", credentials: "omit" });
  }

  /** Read the events of a stream to its end, and return the id of the last one. */
  async #read(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let last = null;
    let pending = "";
    let data = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return last;
      }
      const lines = (pending + value).split(/\r?\n/);
      pending = lines.pop();
      for (const line of lines) {
        const [, field, content] = /^([^:]*):? ?(.*)$/s.exec(line);
        if (line === "") {
          if (data.length > 0 && data.join("") !== "") {
            this.#receive(data.join("\n"));
          }
          data = [];
        } else if (field === "data") {
          data.push(content);
        } else if (field === "id") {
          last = content;
        }
      }
      if (pending.length > LONGEST_EVENT) {
        await reader.cancel();
        throw new Error("The server sent an event that is too long for this page.");
      }
    }
  }
}

/** Encode a value for the headers Mcp-Name and Mcp-Param-NAME. Spec: #value-encoding */
export function headerValue(text) {
  const marked = text.startsWith("=?base64?") && text.endsWith("?=");
  if (!marked && /^[\x20-\x7e]*$/.test(text) && text.trim() === text) {
    return text;
  }
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`;
}
