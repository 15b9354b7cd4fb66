// Forms that are generated from JSON Schema. What has no field of its own is edited as JSON.
// Spec: server/tools#input-schema, client/elicitation#requested-schema

import { element, newId } from "./dom.js";

const DEEPEST = 6; // objects in objects; deeper ones are edited as JSON
const UNSET = Symbol("unset");
const INPUT_TYPES = { email: "email", uri: "url", date: "date", "date-time": "text", time: "time", password: "password" };

/** A form for the members of an object. */
export class SchemaForm {
  #schema;
  #fields = [];

  constructor(schema) {
    this.#schema = schema ?? {};
    const root = resolve(this.#schema, this.#schema);
    this.element = element("div", { class: "fields" });
    for (const [name, property] of Object.entries(root.properties ?? {})) {
      const field = makeField(name, property, { root: this.#schema, required: (root.required ?? []).includes(name), depth: 0 });
      this.#fields.push([name, field]);
      this.element.append(field.element);
    }
    if (this.#fields.length === 0) {
      this.element.append(element("p", { class: "hint" }, "No arguments."));
    }
  }

  /** Return the values, or `null` after showing what must be corrected; the first such field has the focus. */
  read() {
    const values = readMembers(this.#fields);
    this.element.querySelector("[aria-invalid=true]")?.focus();
    return values === UNSET ? null : values;
  }

  /** Set the values; fields without a value become empty. */
  write(values) {
    for (const [name, field] of this.#fields) {
      field.write(Object.hasOwn(values, name) ? values[name] : UNSET);
    }
  }

  /** Return the values that can be read now, without showing errors. */
  draft() {
    return Object.fromEntries(this.#fields.map(([name, field]) => [name, field.draft()]).filter(([, value]) => value !== UNSET));
  }
}

function readMembers(fields) {
  const values = {};
  let complete = true;
  for (const [name, field] of fields) {
    const { value, problem } = field.read();
    if (problem) {
      complete = false;
    } else if (value !== UNSET) {
      values[name] = value;
    }
  }
  return complete ? values : UNSET;
}

/** Follow references within the schema, and take the one alternative that is not `null`. */
function resolve(schema, root, depth = 0) {
  if (schema === null || typeof schema !== "object" || depth > DEEPEST) {
    return {};
  }
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/")) {
    const steps = schema.$ref.slice(2).split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const found = steps.reduce((value, step) => value?.[step], root);
    return resolve({ ...found, ...without(schema, "$ref") }, root, depth + 1);
  }
  for (const keyword of ["anyOf", "oneOf"]) {
    const others = schema[keyword]?.filter((each) => each.type !== "null");
    if (others?.length === 1) {
      return resolve({ ...others[0], ...without(schema, keyword) }, root, depth + 1);
    }
  }
  if (schema.allOf?.length === 1) {
    return resolve({ ...schema.allOf[0], ...without(schema, "allOf") }, root, depth + 1);
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((each) => each !== "null");
    return types.length === 1 ? { ...schema, type: types[0] } : schema;
  }
  return schema;
}

function without(schema, keyword) {
  const { [keyword]: _, ...rest } = schema;
  return rest;
}

/** The values to choose from, with their titles; `null` if the schema does not list them. */
function choices(schema) {
  if (Array.isArray(schema.enum)) {
    return schema.enum.map((value, place) => [value, schema.enumNames?.[place] ?? String(value)]);
  }
  const listed = schema.oneOf ?? schema.anyOf;
  const constant = Array.isArray(listed) && listed.length > 0 && listed.every((each) => each && Object.hasOwn(each, "const"));
  return constant ? listed.map((each) => [each.const, each.title ?? String(each.const)]) : null;
}

function makeField(name, unresolved, { root, required, depth }) {
  const schema = resolve(unresolved, root);
  const listed = choices(schema);
  const items = schema.type === "array" ? resolve(schema.items ?? {}, root) : null;
  const options = { name, schema, required };
  if (listed) {
    return choiceField(options, listed);
  }
  if (schema.type === "boolean") {
    return choiceField(options, [[true, "true"], [false, "false"]]);
  }
  if (items && choices(items)) {
    return manyField(options, choices(items));
  }
  if (schema.type === "object" && schema.properties && depth < DEEPEST) {
    return objectField(options, root, depth);
  }
  if (schema.type === "string") {
    return textField(options);
  }
  if (schema.type === "number" || schema.type === "integer") {
    return numberField(options);
  }
  return jsonField(options);
}

// --- fields: `element`, `read()`, `draft()`, `write(value)` -----------------------------------------------------------

function labelled({ name, schema, required }, control, kind) {
  const id = newId("field");
  const problem = element("p", { class: "problem", id: `${id}-problem`, hidden: true });
  const hint = [schema.description, limits(schema)].filter(Boolean).join(" ");
  control.id = id;
  control.setAttribute("aria-describedby", `${id}-problem${hint ? ` ${id}-hint` : ""}`);
  if (required) {
    control.setAttribute("aria-required", "true");
  }
  const title = schema.title && schema.title !== name ? ` (${schema.title})` : "";
  const field = element(
    "div",
    { class: "field" },
    element("div", { class: "label" }, element("label", { for: id }, `${name}${title}`), element("span", { class: "kind" }, `${kind}${required ? ", required" : ""}`)),
    hint ? element("p", { class: "hint", id: `${id}-hint` }, hint) : null,
    problem,
    control,
  );
  const report = (text) => {
    problem.textContent = text ?? "";
    problem.hidden = !text;
    control.setAttribute("aria-invalid", String(Boolean(text)));
    return { value: UNSET, problem: text };
  };
  return { field, report };
}

function limits(schema) {
  const { minimum, maximum, minLength, maxLength, pattern } = schema;
  return [
    minimum === undefined ? null : `At least ${minimum}.`,
    maximum === undefined ? null : `At most ${maximum}.`,
    minLength === undefined ? null : `At least ${minLength} characters.`,
    maxLength === undefined ? null : `At most ${maxLength} characters.`,
    pattern === undefined ? null : `Pattern: ${pattern}`,
  ].filter(Boolean).join(" ");
}

/** A field whose control has text. `parse` returns the value, and throws an error with a message for the user. */
function parsedField(options, control, kind, parse, show) {
  const { field, report } = labelled(options, control, kind);
  const write = (value) => {
    control.value = value === UNSET || value === undefined || value === null ? "" : show(value);
    report(null);
  };
  const parsed = () => (control.value === "" ? UNSET : parse(control.value));
  write(options.schema.default);
  return {
    element: field,
    write,
    read() {
      if (control.value === "" && options.required) {
        return report("Enter a value.");
      }
      try {
        const value = parsed();
        report(null);
        return { value };
      } catch (error) {
        return report(error.message);
      }
    },
    draft() {
      try {
        return parsed();
      } catch {
        return UNSET;
      }
    },
  };
}

function textField(options) {
  const { schema } = options;
  const type = INPUT_TYPES[schema.format] ?? "text";
  const long = !schema.format && (schema.maxLength === undefined || schema.maxLength > 200);
  const control = long
    ? element("textarea", { rows: "1", spellcheck: "false" })
    : element("input", { type, placeholder: schema.format === "date-time" ? "2026-07-28T12:00:00Z" : null, spellcheck: "false", autocomplete: "off" });
  return parsedField(options, control, schema.format ?? "text", (text) => text, String);
}

function numberField(options) {
  const control = element("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
  const parse = (text) => {
    if (!/^\s*-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/.test(text)) {
      throw new Error("Enter a number.");
    }
    return Number(text);
  };
  return parsedField(options, control, options.schema.type, parse, String);
}

function jsonField(options) {
  const control = element("textarea", { rows: "3", spellcheck: "false", class: "code" });
  const parse = (text) => {
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Error(`This is not JSON: ${error.message}`);
    }
  };
  return parsedField(options, control, options.schema.type ? `${options.schema.type}, as JSON` : "JSON", parse, (value) => JSON.stringify(value, null, 2));
}

function choiceField(options, listed) {
  const unset = element("option", { value: "" }, options.required ? "Choose a value" : "not set");
  const control = element("select", {}, unset, ...listed.map(([, title], place) => element("option", { value: String(place) }, title)));
  const show = (value) => {
    const place = listed.findIndex(([each]) => each === value);
    return place < 0 ? "" : String(place);
  };
  const kind = options.schema.type === "boolean" ? "boolean" : "choice";
  return parsedField(options, control, kind, (place) => listed[Number(place)][0], show);
}

function manyField(options, listed) {
  const boxes = listed.map(([value, title]) => {
    const box = element("input", { type: "checkbox", id: newId("choice") });
    return { value, box, line: element("div", { class: "check" }, box, element("label", { for: box.id }, title)) };
  });
  const group = element("div", { class: "checks", role: "group", tabindex: "-1", "aria-label": options.name }, ...boxes.map(({ line }) => line));
  const { field, report } = labelled(options, group, "several choices");
  const write = (value) => {
    const chosen = Array.isArray(value) ? value : [];
    boxes.forEach((each) => (each.box.checked = chosen.includes(each.value)));
    report(null);
  };
  const draft = () => {
    const chosen = boxes.filter(({ box }) => box.checked).map(({ value }) => value);
    return chosen.length || options.required ? chosen : UNSET;
  };
  write(options.schema.default);
  return { element: field, write, draft, read: () => ({ value: draft() }) };
}

function objectField(options, root, depth) {
  const { name, schema, required } = options;
  const fields = Object.entries(schema.properties).map(([each, property]) => [
    each,
    makeField(each, property, { root, required: required && (schema.required ?? []).includes(each), depth: depth + 1 }),
  ]);
  const group = element(
    "fieldset",
    {},
    element("legend", {}, name, element("span", { class: "kind" }, ` object${required ? ", required" : ""}`)),
    schema.description ? element("p", { class: "hint" }, schema.description) : null,
    ...fields.map(([, field]) => field.element),
  );
  const kept = (values) => (Object.keys(values).length || required ? values : UNSET);
  return {
    element: group,
    write: (value) => fields.forEach(([each, field]) => field.write(value !== UNSET && value && Object.hasOwn(value, each) ? value[each] : UNSET)),
    read() {
      const values = readMembers(fields);
      return values === UNSET ? { value: UNSET, problem: "incomplete" } : { value: kept(values) };
    },
    draft: () => kept(Object.fromEntries(fields.map(([each, field]) => [each, field.draft()]).filter(([, value]) => value !== UNSET))),
  };
}
