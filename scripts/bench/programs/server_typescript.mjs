// The same server, made with the official TypeScript SDK: `node server_typescript.mjs [COUNT]`.

import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { makeServer } from './features_typescript.mjs';

const count = Number(process.argv[2] ?? 0);
serveStdio(() => makeServer(count));
