// Variables and expansion of URI templates. Spec: RFC 6570

const OPERATORS = {
  "": { first: "", between: ",", named: false, reserved: false },
  "+": { first: "", between: ",", named: false, reserved: true },
  "#": { first: "#", between: ",", named: false, reserved: true },
  ".": { first: ".", between: ".", named: false, reserved: false },
  "/": { first: "/", between: "/", named: false, reserved: false },
  ";": { first: ";", between: ";", named: true, reserved: false },
  "?": { first: "?", between: "&", named: true, reserved: false },
  "&": { first: "&", between: "&", named: true, reserved: false },
};
const EXPRESSION = /\{([+#./;?&]?)([^{}]*)\}/g;

const bare = (variable) => variable.replace(/(\*|:\d+)$/, "");

/** Return the names of the variables, in order. */
export function variables(template) {
  const found = [...template.matchAll(EXPRESSION)].flatMap(([, , list]) => list.split(",").map(bare));
  return [...new Set(found)];
}

/** Return the URI for texts of the variables. Variables without a text are left out. */
export function expand(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const { first, between, named, reserved } = OPERATORS[operator];
    const parts = list.split(",").filter((variable) => values[bare(variable)]).map((variable) => {
      const length = /:(\d+)$/.exec(variable);
      const text = length ? [...values[bare(variable)]].slice(0, Number(length[1])).join("") : values[bare(variable)];
      const encoded = reserved ? encodeURI(text).replace(/%25([0-9A-Fa-f]{2})/g, "%$1") : strict(text);
      return named ? `${bare(variable)}=${encoded}` : encoded;
    });
    return parts.length ? first + parts.join(between) : "";
  });
}

function strict(text) {
  return encodeURIComponent(text).replace(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);
}
