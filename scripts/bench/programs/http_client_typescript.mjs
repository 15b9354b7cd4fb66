// The same client over HTTP, made with the official TypeScript SDK: `node http_client_typescript.mjs REVISION CALLS AT_ONCE URL`.

import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { makeClient, measure } from './calls_typescript.mjs';

const [revision, calls, atOnce, url] = process.argv.slice(2);
const client = makeClient(revision);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await measure(client, Number(calls), Number(atOnce));
await client.close();
process.exit(0);
