// A client on the TypeScript SDK 2.x: `node client_typescript_2.mjs URL`, or with the command of a server.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { capabilities, fillIn, roots, think, tour } from './tour.mjs';

const MODERN = '2026-07-28';
const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

const [first, ...others] = process.argv.slice(2);
const transport = !first.startsWith('http')
    ? new StdioClientTransport({ command: first, args: others })
    : first.endsWith('/sse')
      ? new SSEClientTransport(new URL(first))
      : new StreamableHTTPClientTransport(new URL(first));
const revision = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION;
const mode = revision === undefined ? 'auto' : revision === MODERN ? { pin: MODERN } : 'legacy';
// By default the probe of a silent server times out after a minute, which is longer than the suite waits for a client.
const options = { capabilities, versionNegotiation: { mode, probe: { timeoutMs: 5000 } } };
if (revision !== undefined && revision !== MODERN) options.supportedProtocolVersions = LEGACY.slice(LEGACY.indexOf(revision));
const client = new Client({ name: 'peer-typescript-2', version: '1.0.0' }, options);
if (capabilities.elicitation) client.setRequestHandler('elicitation/create', fillIn);
if (capabilities.sampling) client.setRequestHandler('sampling/createMessage', think);
if (capabilities.roots) client.setRequestHandler('roots/list', roots);
await client.connect(transport);
await tour(client, (params, options) => client.callTool(params, options));
await transport.terminateSession?.();
await client.close();
