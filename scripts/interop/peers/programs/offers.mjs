// The features of the servers on the TypeScript SDK: the fixtures of the conformance suite, as far as the SDK allows them.
//
// Both major versions share this module: they register features in the same way. Differences are in `sdk`. There is no audio:
// 2024-11-05 has no such content, and the registered features are the same in each revision.

import * as z from 'zod/v4';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const CANDIDATES = Array.from({ length: 150 }, (_, number) => `word${String(number).padStart(3, '0')}`);

/** The fields of a form. */
export const PERSON = z.object({ username: z.string(), email: z.email() });
const FORM = {
    type: 'object',
    properties: { username: { type: 'string' }, email: { type: 'string', format: 'email' } },
    required: ['username', 'email']
};

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const text = (words) => ({ content: [{ type: 'text', text: words }] });
const message = (content) => ({ messages: [{ role: 'user', content }] });
const embedded = (uri) => ({ type: 'resource', resource: { uri, mimeType: 'text/plain', text: 'An embedded resource.' } });

/** The outcomes of the calls of `conformance_wait`, by key, shared by all servers of the process. */
const waiting = new Map();

/**
 * Registers all features.
 *
 * @param server An `McpServer`.
 * @param sdk `completable` and `ResourceTemplate` of the SDK, and functions for a handler's context: `progress`, `log`,
 *     `signal`, `elicit`, `sample`; `touched`, which notifies about a changed resource, and `changed`, which notifies about a
 *     changed list, where the SDK does not do so automatically.
 */
export function addOffers(server, sdk) {
    addTools(server, sdk);
    addConformanceTools(server, sdk);
    addResources(server, sdk);
    addPrompts(server, sdk);
}

function addTools(server, sdk) {
    const tool = (name, description, inputSchema, handler) => server.registerTool(name, { description, inputSchema }, handler);
    const plain = (name, description, handler) => server.registerTool(name, { description }, handler);
    plain('test_simple_text', 'Returns a text.', () => text('A simple text.'));
    plain('test_image_content', 'Returns a picture.', () => ({ content: [{ type: 'image', data: PNG, mimeType: 'image/png' }] }));
    plain('test_embedded_resource', 'Returns a resource.', () => ({ content: [embedded('test://embedded-resource')] }));
    plain('test_error_handling', 'Always fails.', () => {
        throw new Error('This tool always fails.');
    });
    plain('test_tool_with_logging', 'Logs three times.', async (context) => {
        for (const words of ['started', 'at work', 'done']) {
            await sdk.log(context, 'info', words);
            await pause(20);
        }
        return text('Logged three times.');
    });
    plain('test_logging_tool', 'Logs once.', async (context) => {
        await sdk.log(context, 'info', 'once');
        return text('Logged once.');
    });
    plain('test_tool_with_progress', 'Reports its progress.', async (context) => {
        for (const done of [0, 50, 100]) {
            sdk.signal(context).throwIfAborted();
            await sdk.progress(context, done, 100);
            await pause(20);
        }
        return text('Reported three times.');
    });
    tool('test_sampling', 'Asks the model.', { prompt: z.string() }, (given, context) =>
        sdk.sample(context, { messages: [{ role: 'user', content: { type: 'text', text: given.prompt } }], maxTokens: 100 })
    );
    tool('test_elicitation', 'Asks the user.', { message: z.string() }, (given, context) =>
        sdk.elicit(context, { message: given.message, requestedSchema: FORM })
    );
    plain('test_trigger_tool_change', 'Changes the list of tools and changes it back.', () => {
        server.registerTool('test_temporary_tool', { description: 'For a moment.' }, () => text('')).remove();
        sdk.changed('tools');
        return text('The list of tools has changed.');
    });
    plain('test_trigger_prompt_change', 'Changes the list of prompts and changes it back.', () => {
        server.registerPrompt('test_temporary_prompt', {}, () => message({ type: 'text', text: '' })).remove();
        sdk.changed('prompts');
        return text('The list of prompts has changed.');
    });
}

function addConformanceTools(server, sdk) {
    const tool = (name, description, inputSchema, handler) => server.registerTool(name, { description, inputSchema }, handler);
    tool('conformance_constrained', 'Takes a number from 1 to 10.', { count: z.int().min(1).max(10) }, ({ count }) =>
        text(`The number is ${count}.`)
    );
    const value = z.number();
    server.registerTool(
        'conformance_structured',
        { description: 'Returns a number.', inputSchema: { value }, outputSchema: { value } },
        (given) => ({ ...text(JSON.stringify({ value: given.value })), structuredContent: { value: given.value } })
    );
    tool('conformance_logging', 'Logs at each level.', { secret: z.string() }, async (_, context) => {
        for (const level of LEVELS) await sdk.log(context, level, `This is ${level}.`, 'conformance');
        return text('Logged at each level.');
    });
    server.registerTool('conformance_slow', { description: 'Works for two seconds.' }, async (context) => {
        for (let step = 1; step <= 100 && !sdk.signal(context).aborted; step += 1) {
            await sdk.progress(context, step, 100);
            await pause(20);
        }
        return text('Worked for two seconds.');
    });
    tool('conformance_wait', 'Waits until it is released.', { key: z.string() }, async ({ key }, context) => {
        const signal = sdk.signal(context);
        const released = new Promise((resolve) => {
            waiting.set(key, { state: 'running', release: () => resolve('finished') });
            signal.addEventListener('abort', () => resolve('cancelled'));
        });
        await sdk.progress(context, 1, undefined);
        waiting.get(key).state = await released;
        return text('It was released.');
    });
    tool('conformance_release', 'Releases a call.', { key: z.string() }, ({ key }) => {
        waiting.get(key)?.release();
        return text('Released.');
    });
    tool('conformance_outcome', 'Says what became of a call.', { key: z.string() }, ({ key }) => text(waiting.get(key)?.state ?? 'unknown'));
    tool('conformance_touch_resource', 'Says that a resource has changed.', { uri: z.string() }, async ({ uri }) => {
        await sdk.touched(uri);
        return text(`${uri} has changed.`);
    });
    server.registerTool('conformance_change_resources', { description: 'Changes the list of resources and changes it back.' }, () => {
        server.registerResource('temporary', 'test://conformance/temporary', {}, () => ({ contents: [] })).remove();
        sdk.changed('resources');
        return text('The list of resources has changed.');
    });
}

function addResources(server, sdk) {
    const resource = (name, uri, mimeType, contents) => server.registerResource(name, uri, { mimeType }, () => ({ contents: [{ uri, mimeType, ...contents }] }));
    resource('static-text', 'test://static-text', 'text/plain', { text: 'A static text.' });
    resource('static-binary', 'test://static-binary', 'image/png', { blob: PNG });
    resource('watched-resource', 'test://watched-resource', 'text/plain', { text: 'It may change.' });
    server.registerResource('failing', 'test://conformance/failing', { mimeType: 'text/plain' }, () => {
        throw new Error('It cannot be read.');
    });
    server.registerResource(
        'template',
        new sdk.ResourceTemplate('test://template/{id}/data', { list: undefined }),
        { mimeType: 'application/json' },
        (uri, { id }) => ({ contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify({ id }) }] })
    );
}

function addPrompts(server, sdk) {
    const word = (candidates) => sdk.completable(z.string(), (begun) => candidates.filter((each) => each.startsWith(begun)));
    server.registerPrompt('test_simple_prompt', { description: 'A text.' }, () => message({ type: 'text', text: 'A simple prompt.' }));
    server.registerPrompt(
        'test_prompt_with_arguments',
        { description: 'A text with two arguments.', argsSchema: { arg1: word(['test', 'testing', 'tested']), arg2: z.string() } },
        ({ arg1, arg2 }) => message({ type: 'text', text: `The arguments are ${arg1} and ${arg2}.` })
    );
    server.registerPrompt('test_prompt_with_image', { description: 'A picture.' }, () => message({ type: 'image', data: PNG, mimeType: 'image/png' }));
    server.registerPrompt(
        'test_prompt_with_embedded_resource',
        { description: 'A resource.', argsSchema: { resourceUri: z.string() } },
        ({ resourceUri }) => message(embedded(resourceUri))
    );
    server.registerPrompt(
        'conformance_prompt_with_many_completions',
        { description: 'A text.', argsSchema: { word: word(CANDIDATES) } },
        (given) => message({ type: 'text', text: given.word })
    );
    const failing = sdk.completable(z.string(), () => {
        throw new Error('It cannot be completed.');
    });
    server.registerPrompt('conformance_failing_prompt', { description: 'Cannot be made.', argsSchema: { word: failing } }, () => {
        throw new Error('It cannot be made.');
    });
}
