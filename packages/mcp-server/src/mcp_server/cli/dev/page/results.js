// Results and errors: the content blocks of tools, prompts and resources, with the whole result as JSON.

import { element, jsonBlock } from "./dom.js";
import { RequestFailed } from "./client.js";

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|svg\+xml)$/;
const AUDIO = /^audio\/[\w.+-]+$/;
const BASE64 = /^[A-Za-z0-9+/=\s]*$/;

/** Show one content block. */
function block(content) {
  const show = BLOCKS[content?.type];
  return show ? show(content) : jsonBlock(content, "Content");
}

function media(content, data) {
  const type = content.mimeType ?? "";
  if (!BASE64.test(data ?? "")) {
    return element("p", { class: "problem" }, "The data is not base64.");
  }
  if (IMAGES.test(type)) {
    return element("img", { src: `data:${type};base64,${data}`, alt: `Image of the result, ${type}` });
  }
  if (AUDIO.test(type)) {
    return element("audio", { controls: true, src: `data:${type};base64,${data}` });
  }
  return element("p", { class: "hint" }, `${Math.floor((data.length * 3) / 4)} bytes of ${type || "unknown type"}`);
}

function resource(contents) {
  return element(
    "figure",
    {},
    element("figcaption", {}, element("code", {}, contents.uri ?? ""), contents.mimeType ? ` ${contents.mimeType}` : ""),
    contents.text === undefined ? media(contents, contents.blob) : textBlock(contents.text),
  );
}

function textBlock(text) {
  return element("pre", { class: "text", tabindex: "0", role: "region", "aria-label": "Text" }, text);
}

const BLOCKS = {
  text: ({ text }) => textBlock(text),
  image: (content) => media(content, content.data),
  audio: (content) => media(content, content.data),
  resource: (content) => resource(content.resource ?? {}),
  resource_link: ({ name, uri, description }) => element("p", {}, `${name}: `, element("code", {}, uri), description ? ` ${description}` : ""),
};

const whole = (result) => element("details", {}, element("summary", {}, "Result as JSON"), jsonBlock(result, "Result as JSON"));

export function toolResult(result, milliseconds) {
  const failed = result.isError === true;
  return [
    element("p", { class: failed ? "outcome bad" : "outcome good" }, `${failed ? "The tool failed" : "Done"} in ${Math.round(milliseconds)} ms`),
    ...(result.content ?? []).map(block),
    result.structuredContent === undefined ? null : element("h4", {}, "Structured content"),
    result.structuredContent === undefined ? null : jsonBlock(result.structuredContent, "Structured content"),
    whole(result),
  ];
}

export function resourceResult(result, milliseconds) {
  const contents = result.contents ?? [];
  return [element("p", { class: "outcome good" }, `Read in ${Math.round(milliseconds)} ms`), ...contents.map(resource), whole(result)];
}

export function promptResult(result, milliseconds) {
  const messages = (result.messages ?? []).map(({ role, content }) => element("li", { class: `turn ${role}` }, element("p", { class: "role" }, role), ...[content].flat().map(block)));
  return [
    element("p", { class: "outcome good" }, `${messages.length} ${messages.length === 1 ? "message" : "messages"} in ${Math.round(milliseconds)} ms`),
    element("ol", { class: "turns" }, ...messages),
    whole(result),
  ];
}

/** Show the messages of a sampling request. */
export function conversation(messages) {
  return element("ol", { class: "turns" }, ...messages.map(({ role, content }) => element("li", { class: `turn ${role}` }, element("p", { class: "role" }, role), ...[content].flat().map(block))));
}

export function failure(error) {
  const code = error instanceof RequestFailed ? `Error ${error.code}: ` : "";
  return [
    element("p", { class: "outcome bad" }, `${code}${error.message}`),
    error.data === undefined ? null : jsonBlock(error.data, "Data of the error"),
  ];
}
