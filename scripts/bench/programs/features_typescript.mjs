// The features of the servers on the official TypeScript SDK, which are those of the other sides.

import { McpServer } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';

const text = (words) => ({ content: [{ type: 'text', text: words }] });
const ECHO = z.object({ text: z.string(), times: z.number().int().default(1) });
const WAIT = z.object({ text: z.string() });
const NOTHING = z.object({ city: z.string(), days: z.number().int().default(3), unit: z.string().default('celsius') });

/**
 * Returns a server.
 *
 * @param count The number of tools besides the two that are called.
 * @param changed Notifies the subscribers of `note://one`; without it, the server has no resource.
 */
export function makeServer(count = 0, changed = undefined) {
    const server = new McpServer(
        { name: 'bench', version: '1' },
        { capabilities: changed ? { resources: { subscribe: true, listChanged: true } } : {} }
    );
    server.registerTool('echo', { description: 'Return the text.', inputSchema: ECHO }, ({ text: words, times }) => text(words.repeat(times)));
    server.registerTool('wait', { description: 'Return the text after a millisecond.', inputSchema: WAIT }, async ({ text: words }) => {
        await new Promise((done) => setTimeout(done, 1));
        return text(words);
    });
    for (let number = 0; number < count; number += 1) {
        server.registerTool(
            `tool_${number}`,
            { description: 'Do nothing, with a signature of the usual length.', inputSchema: NOTHING },
            ({ city, days, unit }) => text(`${city} ${days} ${unit}`)
        );
    }
    if (changed) {
        server.registerResource('note', 'note://one', { description: 'A note that changes.' }, (uri) => ({
            contents: [{ uri: uri.href, text: 'a note' }]
        }));
        server.registerTool('change', { description: 'Notify about the changed note.' }, () => {
            changed();
            return text('changed');
        });
    }
    return server;
}
