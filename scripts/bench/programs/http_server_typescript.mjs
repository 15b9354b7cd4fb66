// The same server over HTTP, made with the official TypeScript SDK on the HTTP server of Node.js. The first line that it prints
// is its port.
//
// `node http_server_typescript.mjs FORM`: FORM is `json` or `stream`, the form of responses. The driver names the revision in a
// header, which is the cheapest way to distinguish the sessions of 2025-11-25 from 2026-07-28.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { makeServer } from './features_typescript.mjs';

const MODERN = '2026-07-28';
const SIZE = 64 * 1024 * 1024;
const json = process.argv[2] !== 'stream';

const handler = createMcpHandler(() => makeServer(0, () => handler.notify.resourceUpdated('note://one')), {
    legacy: 'reject',
    responseMode: json ? 'json' : 'sse',
    maxRequestBodySize: SIZE
});
const serve = toNodeHandler(handler, { maxRequestBodySize: SIZE });
const sessions = new Map();

async function openSession() {
    const transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: json,
        maxRequestBodySize: SIZE,
        onsessioninitialized: (id) => void sessions.set(id, transport),
        onsessionclosed: (id) => void sessions.delete(id)
    });
    await makeServer().connect(transport);
    return transport;
}

const validateHost = localhostHostValidation();
const validateOrigin = localhostOriginValidation();
const server = createServer(async (request, response) => {
    if (!validateHost(request, response) || !validateOrigin(request, response)) return;
    if (request.headers['mcp-protocol-version'] === MODERN) {
        await serve(request, response);
    } else {
        const id = request.headers['mcp-session-id'];
        await (id === undefined ? await openSession() : sessions.get(id)).handleRequest(request, response);
    }
});
// The connections of the driver are idle until all are open.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', 1024, () => console.log(server.address().port));
