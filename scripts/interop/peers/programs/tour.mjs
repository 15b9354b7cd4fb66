// The tour of the clients on the TypeScript SDK: it lists all features and uses each once.
// Both major versions share this module: their methods have the same names.

const PATIENCE = 5000;
const PLAIN = { integer: 1, number: 0.5, boolean: true, null: null, array: [], object: {} };

export const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? '';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}');

/** The client capabilities, and the answers of its user and its model. */
export const capabilities = scenario === 'conformance_asks_undeclared' ? {} : { elicitation: { form: {}, url: {} }, roots: {}, sampling: {} };

export function fillIn({ params }) {
    if (scenario === 'conformance_declines') return { action: 'decline' };
    if (params.mode === 'url') return { action: 'accept' };
    const fields = Object.entries(params.requestedSchema?.properties ?? {});
    return { action: 'accept', content: Object.fromEntries(fields.map(([name, field]) => [name, example(field)])) };
}

export const think = () => ({ role: 'assistant', model: 'none', content: { type: 'text', text: 'Yes.' } });

export const roots = () => ({ roots: [{ uri: 'file:///nowhere' }] });

/**
 * Uses the features of the server, part by part. A rejected request does not end the tour.
 *
 * @param client A connected `Client`.
 * @param call Calls a tool: the one method whose parameters differ between the versions.
 */
export async function tour(client, call) {
    const offered = client.getServerCapabilities() ?? {};
    const options = { timeout: PATIENCE };
    if (scenario === 'http-custom-headers') {
        await tried(client.listTools());
        for (const params of context.toolCalls ?? []) await tried(call(params, options));
        return;
    }
    if (offered.tools) {
        for (const tool of await listed((cursor) => client.listTools(cursor, options), 'tools')) {
            await tried(call({ name: tool.name, arguments: wanted(tool.inputSchema) }, options));
        }
    }
    if (offered.resources) {
        for (const resource of await listed((cursor) => client.listResources(cursor, options), 'resources')) {
            await tried(client.readResource({ uri: resource.uri }, options));
        }
        await listed((cursor) => client.listResourceTemplates(cursor, options), 'resourceTemplates');
    }
    if (!offered.prompts) return;
    for (const prompt of await listed((cursor) => client.listPrompts(cursor, options), 'prompts')) {
        const names = (prompt.arguments ?? []).filter((each) => each.required).map((each) => each.name);
        await tried(client.getPrompt({ name: prompt.name, arguments: Object.fromEntries(names.map((name) => [name, 'example'])) }, options));
        const known = {};
        for (const { name } of offered.completions ? (prompt.arguments ?? []) : []) {
            const ref = { type: 'ref/prompt', name: prompt.name };
            await tried(client.complete({ ref, argument: { name, value: '' }, context: { arguments: { ...known } } }, options));
            known[name] = 'example';
        }
    }
}

async function listed(method, member) {
    const found = [];
    let page = await tried(method());
    for (let count = 0; page !== undefined && count < 20; count += 1) {
        found.push(...page[member]);
        if (page.nextCursor === undefined) break;
        page = await tried(method({ cursor: page.nextCursor }));
    }
    return found;
}

async function tried(asked) {
    try {
        return await asked;
    } catch (error) {
        console.error(String(error).slice(0, 200));
    }
}

const wanted = (schema) => Object.fromEntries((schema?.required ?? []).map((name) => [name, example(schema.properties?.[name])]));

function example(schema) {
    for (const word of ['const', 'default']) if (schema?.[word] !== undefined) return schema[word];
    if (schema?.enum) return schema.enum[0];
    for (const word of ['oneOf', 'anyOf']) if (schema?.[word]) return example(schema[word][0]);
    if (schema?.type === 'array') return Array(schema.minItems ?? 1).fill(example(schema.items));
    if (schema?.format === 'email') return 'someone@example.com';
    return schema?.minimum ?? PLAIN[schema?.type] ?? 'example';
}
