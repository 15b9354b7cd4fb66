// A group of clients of the official TypeScript SDK, each of the same server over HTTP. It prints KiB of memory for each client.
//
// `node group_typescript.mjs REVISION NUMBER URL`

import { readFileSync } from 'node:fs';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { makeClient } from './calls_typescript.mjs';

const [revision, count, url] = process.argv.slice(2);
const number = Number(count);

/** Returns the resident memory in KiB. */
const memory = () => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]);

/** Returns the resident memory after a call of each of several clients. */
async function opened(some) {
    const clients = [];
    for (let done = 0; done < some; done += 1) {
        const client = makeClient(revision);
        await client.connect(new StreamableHTTPClientTransport(new URL(url)));
        await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
        clients.push(client);
    }
    const found = memory();
    await Promise.all(clients.map((client) => client.close()));
    return found;
}

const before = await opened(1);
console.log(Math.max(0, (await opened(number)) - before) / (number - 1));
process.exit(0);
