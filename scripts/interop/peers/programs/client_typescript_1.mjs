// A client on the TypeScript SDK 1.x: `node client_typescript_1.mjs URL`, or with the command of a server.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { capabilities, fillIn, roots, think, tour } from './tour.mjs';

const [first, ...others] = process.argv.slice(2);
const transport = !first.startsWith('http')
    ? new StdioClientTransport({ command: first, args: others })
    : first.endsWith('/sse')
      ? new SSEClientTransport(new URL(first))
      : new StreamableHTTPClientTransport(new URL(first));
const client = new Client({ name: 'peer-typescript-1', version: '1.0.0' }, { capabilities });
if (capabilities.elicitation) client.setRequestHandler(ElicitRequestSchema, fillIn);
if (capabilities.sampling) client.setRequestHandler(CreateMessageRequestSchema, think);
if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, roots);
await client.connect(transport);
await client.ping();
await tour(client, (params, options) => client.callTool(params, undefined, options));
await transport.terminateSession?.();
await client.close();
