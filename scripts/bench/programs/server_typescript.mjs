// The same server, made with the official TypeScript SDK: `node server_typescript.mjs [COUNT]`.

import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { makeServer } from './features_typescript.mjs';

const count = Number(process.argv[2] ?? 0);
// By default, a message of 10 MiB closes the connection.
const transport = new StdioServerTransport(process.stdin, process.stdout, { maxBufferSize: 64 * 1024 * 1024 });
serveStdio(() => makeServer(count), { transport });
