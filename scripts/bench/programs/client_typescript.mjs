// The same client, made with the official TypeScript SDK: `node client_typescript.mjs REVISION CALLS AT_ONCE COMMAND...`.

import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { makeClient, measure } from './calls_typescript.mjs';

const [revision, calls, atOnce, command, ...args] = process.argv.slice(2);
const client = makeClient(revision);
await client.connect(new StdioClientTransport({ command, args }));
await measure(client, Number(calls), Number(atOnce));
await client.close();
